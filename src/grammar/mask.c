/* mask.c — masks: looked up under what decides them, else walked and remembered.
 *
 * The key is the set of heads, each as the class of its row and of its automaton state, so counters far from their
 * bounds share a mask. A sparse mask is kept as ids. What a class does not decide is added afterwards: special tokens
 * and tokens too long for the trie. */
#include "grammar_impl.h"
#include "base/clock.h"
#include "base/hash.h"
#include <stdlib.h>

enum { SPARSE = 512, MOST_HEADS = 64 };

static void forget_all(mask_cache *c) {
    for (uint32_t i = 0; i < c->n_entries; i++) {
        mem_free(c->entries[i].bits);
        mem_free(c->entries[i].ids);
    }
    if (c->table) memset(c->table, 0, c->table_room * sizeof *c->table);
    c->n_entries = c->n_keys = 0;
    c->bytes = 0;
}

void mask_cache_close(mask_cache *c) {
    forget_all(c);
    mem_free(c->entries);
    mem_free(c->table);
    mem_free(c->keys);
    *c = (mask_cache){.bytes = 0};
}

static int by_value(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The classes of all heads, sorted; 0: too many to be worth remembering. */
static uint32_t make_key(grammar *g, const head *now, uint32_t n, uint64_t key[MOST_HEADS]) {
    if (n > MOST_HEADS) return 0;
    for (uint32_t i = 0; i < n; i++)
        key[i] = (uint64_t)g->parser.at[now[i].row].class << 32 | lexer_class(&g->automaton, now[i].state & HEAD_STATE);
    if (n > 1) qsort(key, n, sizeof *key, by_value);
    return n * 2;
}

static bool widen(mask_cache *c) {
    if ((c->n_entries + 1) * 2 < c->table_room) return true;
    const uint32_t room = c->table_room ? c->table_room * 2 : 256;
    uint32_t *table = mem_zarray(room, sizeof *table);
    if (!table) return false;
    for (uint32_t i = 0; i < c->n_entries; i++) {
        uint32_t at = (uint32_t)hash_bytes(c->keys + c->entries[i].key, c->entries[i].n_key * 4, 0) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = i + 1;
    }
    mem_free(c->table);
    c->table = table;
    c->table_room = room;
    return true;
}

static const mask_entry *find(const mask_cache *c, const uint64_t *key, uint32_t n_key) {
    if (!n_key || !c->table_room) return NULL;
    uint32_t at = (uint32_t)hash_bytes(key, n_key * 4, 0) & (c->table_room - 1);
    for (; c->table[at]; at = (at + 1) & (c->table_room - 1)) {
        const mask_entry *e = &c->entries[c->table[at] - 1];
        if (e->n_key == n_key && !memcmp(c->keys + e->key, key, n_key * 4)) return e;
    }
    return NULL;
}

static bool grow(void *array, uint32_t *room, uint32_t used, uint32_t more, size_t size) {
    if (more <= *room - used) return true;
    uint32_t wanted = *room ? *room * 2 : 64;
    while (wanted - used < more) wanted *= 2;
    void *old, *fresh;
    memcpy(&old, array, sizeof old);
    fresh = mem_resize(old, wanted, size);
    if (!fresh) return false;
    memcpy(array, &fresh, sizeof fresh);
    *room = wanted;
    return true;
}

static bool copy_mask(mask_entry *e, const uint32_t *bits, size_t words, size_t *bytes) {
    if (e->n_allowed > SPARSE) {
        *bytes = words * sizeof *bits;
        e->bits = mem_copy(bits, words, sizeof *bits);
        return e->bits;
    }
    *bytes = e->n_allowed * sizeof *e->ids;
    e->ids = mem_array(e->n_allowed, sizeof *e->ids);
    if (!e->ids) return false;
    uint32_t n = 0;
    for (size_t w = 0; w < words; w++)
        for (uint32_t left = bits[w]; left; left &= left - 1) e->ids[n++] = (int32_t)(w * 32) + __builtin_ctz(left);
    return true;
}

/* Without memory for it the mask is simply not remembered. */
static void remember(grammar *g, const uint64_t *key, uint32_t n_key, const uint32_t *bits, uint32_t n_allowed) {
    mask_cache *c = &g->masks;
    const size_t words = ((size_t)trie_size(g->vocabulary) + 31) / 32;
    if (c->bytes + words * sizeof *bits > g->limits.mask_bytes) forget_all(c);
    if (!n_key || !widen(c) || !grow(&c->keys, &c->key_room, c->n_keys, n_key, sizeof *c->keys) ||
        !grow(&c->entries, &c->entry_room, c->n_entries, 1, sizeof *c->entries))
        return;
    mask_entry e = {.key = c->n_keys, .n_key = n_key, .n_allowed = n_allowed};
    size_t bytes;
    if (!copy_mask(&e, bits, words, &bytes)) return;
    memcpy(c->keys + c->n_keys, key, n_key * sizeof *c->keys);
    c->n_keys += n_key;
    c->bytes += bytes + sizeof e + n_key * sizeof *c->keys;
    uint32_t at = (uint32_t)hash_bytes(key, n_key * 4, 0) & (c->table_room - 1);
    while (c->table[at]) at = (at + 1) & (c->table_room - 1);
    c->entries[c->n_entries] = e;
    c->table[at] = ++c->n_entries;
}

static void unpack(const mask_entry *e, uint32_t *bits, size_t words) {
    if (e->bits) {
        memcpy(bits, e->bits, words * sizeof *bits);
        return;
    }
    memset(bits, 0, words * sizeof *bits);
    for (uint32_t i = 0; i < e->n_allowed; i++) bits[e->ids[i] >> 5] |= 1u << (e->ids[i] & 31);
}

/* Sums within each word, by arithmetic that compilers turn into vectors on every machine. */
static uint32_t count_bits(const uint32_t *bits, size_t words) {
    uint32_t n = 0;
    for (size_t w = 0; w < words; w++) {
        uint32_t x = bits[w];
        x -= x >> 1 & 0x55555555;
        x = (x & 0x33333333) + (x >> 2 & 0x33333333);
        x = (x + (x >> 4)) & 0x0F0F0F0F;
        x += x >> 8;
        n += (x + (x >> 16)) & 0x3F;
    }
    return n;
}

static int32_t first_bit(const uint32_t *bits, size_t words) {
    for (size_t w = 0; w < words; w++)
        if (bits[w]) return (int32_t)(w * 32) + __builtin_ctz(bits[w]);
    return -1;
}

static void set_bit(grammar *g, int32_t id, uint32_t *bits, uint32_t *n_allowed) {
    if (id < 0 || id >= trie_size(g->vocabulary) || bits[id >> 5] >> (id & 31) & 1) return;
    bits[id >> 5] |= 1u << (id & 31);
    ++*n_allowed;
}

/* Special tokens that are waited for where nothing of a terminal has been read. */
static void add_specials(grammar *g, const head *now, uint32_t n, uint32_t *bits, uint32_t *n_allowed) {
    for (uint32_t i = 0; i < n; i++) {
        const parse_row *w = &g->parser.at[now[i].row];
        if (!(now[i].state & HEAD_FRESH) || !w->has_special) continue;
        for (uint32_t k = 0; k < w->n_waits; k++) {
            const uint32_t symbol = g->parser.items[w->waits + k].symbol;
            if (symbol >> 29 != 1) continue;
            const cfg_special *special = &g->rules.specials[symbol & CFG_INDEX];
            for (size_t j = 0; j < special->n; j++) set_bit(g, special->ids[j], bits, n_allowed);
        }
    }
}

static void add_long(grammar *g, const head *now, uint32_t n, uint32_t *bits, uint32_t *n_allowed) {
    size_t n_long;
    const int32_t *ids = trie_long(g->vocabulary, &n_long);
    for (size_t i = 0; i < n_long; i++)
        if (walk_token(g, now, n, trie_bytes(g->vocabulary, ids[i]))) set_bit(g, ids[i], bits, n_allowed);
}

/* With `only_known` nothing is done where the mask is not remembered: info->allowed is then -1. */
static qp_status compute(grammar *g, const head *now, uint32_t n, uint32_t *bits, bool only_known, mask_info *info,
                         qp_error *err) {
    const size_t words = ((size_t)trie_size(g->vocabulary) + 31) / 32;
    uint64_t key[MOST_HEADS];
    uint32_t n_allowed;
    walk_begin(g);
    const uint32_t n_key = make_key(g, now, n, key);
    const mask_entry *known = find(&g->masks, key, n_key);
    info->cached = known;
    if (!known && only_known) return info->allowed = -1, QP_OK;
    if (known) {
        unpack(known, bits, words);
        n_allowed = known->n_allowed;
    } else {
        memset(bits, 0, words * sizeof *bits);
        ERR_TRY(walk_mask(g, now, n, bits, err));
        n_allowed = count_bits(bits, words);
        remember(g, key, n_key, bits, n_allowed);
    }
    add_specials(g, now, n, bits, &n_allowed);
    add_long(g, now, n, bits, &n_allowed);
    info->allowed = (int)n_allowed;
    return walk_status(g, err);
}

static qp_status ask(matcher *m, uint32_t *bits, bool only_known, mask_info *info, qp_error *err) {
    const double begin = clock_now();
    const uint32_t first = m->firsts[m->n_tokens];
    *info = (mask_info){.only = -1};
    pthread_mutex_lock(&m->g->lock);
    const qp_status status = compute(m->g, m->heads.at + first, m->heads.n - first, bits, only_known, info, err);
    pthread_mutex_unlock(&m->g->lock);
    info->may_end = matcher_may_end(m);
    if (info->allowed == 1 && !info->may_end)
        info->only = first_bit(bits, ((size_t)trie_size(m->g->vocabulary) + 31) / 32);
    info->seconds = clock_now() - begin;
    return status;
}

qp_status matcher_mask(matcher *m, uint32_t *bits, mask_info *info, qp_error *err) {
    mask_info found;
    const qp_status status = ask(m, bits, false, &found, err);
    if (info) *info = found;
    return status;
}

bool matcher_mask_known(matcher *m, uint32_t *bits, mask_info *info) {
    return ask(m, bits, true, info, NULL) == QP_OK && info->allowed >= 0;
}
