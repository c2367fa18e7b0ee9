/* tmpl_dict.c — dictionaries in order of insertion, with Python's rule of equal keys: 1, 1.0 and True are one key.
 *
 * Small ones are searched in a row, by hash; from nine entries on there is an open-addressed index. */
#include "tmpl_run.h"
#include "base/hash.h"
#include <math.h>

enum { FIRST_INDEX = 32, SMALL = 8 };

static uint64_t hash_integer(int64_t x) { return hash_bytes(&x, sizeof x, 1); }

static uint64_t hash_real(double x) {
    if (x >= -9223372036854775808.0 && x < 9223372036854775808.0 && x == floor(x)) return hash_integer((int64_t)x);
    return hash_bytes(&x, sizeof x, 2);
}

/* By what makes two ranges equal: empty ones have no start, those of one value no step. */
static uint64_t hash_range(const vrange *g) {
    const int64_t parts[3] = {(int64_t)g->count, g->count ? g->start : 0, g->count > 1 ? g->step : 0};
    return hash_bytes(parts, sizeof parts, 4);
}

static bool hash_tuple(tmpl_run *r, value v, uint64_t *out) {
    uint64_t hash = 3 + v.seq->count;
    bool is_right = tmpl_enter(r);
    for (size_t i = 0; is_right && i < v.seq->count; i++) {
        uint64_t one;
        is_right = tmpl_spend(r, 1) && value_hash(r, v.seq->at[i], &one);
        if (is_right) hash = hash_bytes(&one, sizeof one, hash);
    }
    tmpl_leave(r);
    *out = hash;
    return is_right;
}

bool value_hash(tmpl_run *r, value v, uint64_t *out) {
    switch (v.kind) {
    case V_STR:
        *out = tmpl_text_hash(v.str);
        return true;
    case V_BOOL:
    case V_INT:
        *out = hash_integer(value_integer(v));
        return true;
    case V_FLOAT:
        *out = hash_real(v.real);
        return true;
    case V_TUPLE:
        return hash_tuple(r, v, out);
    case V_LIST:
    case V_DICT:
    case V_VIEW:
        return tmpl_fail(r, "unhashable type: '%s'", value_type(v));
    case V_NONE:
    case V_UNDEFINED:
        *out = 7 + v.kind;
        return true;
    case V_RANGE:
        *out = hash_range(v.range);
        return true;
    default:
        *out = hash_integer((int64_t)(uintptr_t)v.dict);
        return true;
    }
}

/* Equal as keys: identical or equal. */
static bool same_key(tmpl_run *r, value a, value b) {
    bool is_equal = false;
    if (value_is_same(a, b) || (value_equal(r, a, b, &is_equal) && is_equal)) return true;
    tmpl_spend(r, 1); /* once that fails, so does whatever the caller does next */
    return false;
}

/* One more place of the index was looked at in vain: keys that were chosen to meet there pay for it. */
static inline bool pay_probe(tmpl_run *r, size_t probe) { return (probe & 7) != 7 || tmpl_spend(r, 1); }

static vpair *find(tmpl_run *r, const vdict *d, value key, uint64_t hash) {
    if (!d->index) {
        for (size_t i = 0; i < d->count; i++)
            if (d->at[i].hash == hash && same_key(r, d->at[i].key, key)) return &d->at[i];
        return NULL;
    }
    size_t at = hash & (d->n_index - 1);
    for (size_t probe = 0; d->index[at] && pay_probe(r, probe); probe++, at = (at + 1) & (d->n_index - 1)) {
        vpair *pair = &d->at[d->index[at] - 1];
        if (pair->hash == hash && same_key(r, pair->key, key)) return pair;
    }
    return NULL;
}

static bool is_text_key(const vpair *pair, const vstr *key, uint64_t hash) {
    return pair->hash == hash && pair->key.kind == V_STR && tmpl_text_equal(pair->key.str, key);
}

/* A text equals only texts, so that this search needs none of Python's rules. */
vpair *tmpl_dict_find_text(tmpl_run *r, const vdict *d, const vstr *key) {
    if (key->bytes >= STEP_MOVES && !tmpl_spend(r, key->bytes / STEP_MOVES)) return NULL;
    /* texts of a template have their hash; others get it now, which only their own rendering sees */
    const uint64_t hash = key->hash ? key->hash : tmpl_text_hash((vstr *)(uintptr_t)key);
    if (!d->index) {
        for (size_t i = 0; i < d->count; i++)
            if (is_text_key(&d->at[i], key, hash)) return &d->at[i];
        return NULL;
    }
    size_t at = hash & (d->n_index - 1);
    for (size_t probe = 0; d->index[at] && pay_probe(r, probe); probe++, at = (at + 1) & (d->n_index - 1))
        if (is_text_key(&d->at[d->index[at] - 1], key, hash)) return &d->at[d->index[at] - 1];
    return NULL;
}

vpair *tmpl_dict_find(tmpl_run *r, const vdict *d, value key) {
    uint64_t hash = 0;
    if (key.kind == V_STR) return tmpl_dict_find_text(r, d, key.str);
    return value_hash(r, key, &hash) ? find(r, d, key, hash) : NULL;
}

static void index_add(vdict *d, size_t entry) {
    size_t at = d->at[entry].hash & (d->n_index - 1);
    while (d->index[at]) at = (at + 1) & (d->n_index - 1);
    d->index[at] = (uint32_t)entry + 1;
}

static bool grow(tmpl_run *r, vdict *d) {
    const size_t capacity = d->capacity ? d->capacity * 2 : 4;
    vpair *at = tmpl_get(r, capacity, sizeof *at);
    if (!at || capacity > UINT32_MAX / 4) return tmpl_no_memory(r);
    if (d->count) memcpy(at, d->at, d->count * sizeof *at);
    d->at = at;
    d->capacity = capacity;
    if (capacity <= SMALL) return true;
    d->n_index = capacity * 2 < FIRST_INDEX ? FIRST_INDEX : capacity * 2;
    d->index = tmpl_get(r, d->n_index, sizeof *d->index);
    if (!d->index) return d->n_index = 0, false;
    memset(d->index, 0, d->n_index * sizeof *d->index);
    for (size_t i = 0; i < d->count; i++) index_add(d, i);
    return true;
}

bool tmpl_dict_set(tmpl_run *r, vdict *d, value key, value val) {
    uint64_t hash = 0;
    if (!tmpl_spend(r, 1) || !value_hash(r, key, &hash)) return false;
    vpair *found = key.kind == V_STR ? tmpl_dict_find_text(r, d, key.str) : find(r, d, key, hash);
    if (r->status != QP_OK) return false;
    if (found) return found->val = val, true;
    if (d->count == d->capacity && !grow(r, d)) return false;
    d->at[d->count] = (vpair){.key = key, .val = val, .hash = hash};
    if (d->index) index_add(d, d->count);
    d->count++;
    return true;
}
