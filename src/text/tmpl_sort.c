/* tmpl_sort.c — stable merge sort over keys that are found once per item; a failing comparison ends it. */
#include "tmpl_sort.h"
#include "tmpl_case.h"

static bool fold_key(tmpl_run *r, const sort_rules *rules, value *key) {
    if (!rules->ignore_case || key->kind != V_STR) return true;
    return tmpl_change_case(r, *key, CASE_LOWER, key);
}

bool tmpl_sort_key(tmpl_run *r, value item, const sort_rules *rules, const value *paths, value *out) {
    if (!rules->many) return tmpl_attr_walk(r, item, *paths, rules->fallback, out) && fold_key(r, rules, out);
    if (!value_seq(r, V_LIST, paths->seq->count, out)) return false;
    for (size_t i = 0; i < paths->seq->count; i++) {
        value *key = &out->seq->at[i];
        if (!tmpl_attr_walk(r, item, paths->seq->at[i], rules->fallback, key) || !fold_key(r, rules, key)) return false;
    }
    return true;
}

/* "a.b,c" -> paths */
static bool split_paths(tmpl_run *r, const sort_rules *rules, value *out) {
    value path;
    if (!rules->many) return tmpl_attr_path(r, rules->attribute, out);
    if (!value_seq(r, V_LIST, 0, out)) return false;
    if (rules->attribute.kind != V_STR) return tmpl_attr_path(r, rules->attribute, &path) && value_append(r, out, path);
    const span s = value_span(rules->attribute);
    for (size_t from = 0; from <= s.bytes;) {
        const char *comma = from < s.bytes ? memchr(s.at + from, ',', s.bytes - from) : NULL;
        const span one = {s.at + from, comma ? (size_t)(comma - s.at) - from : s.bytes - from};
        value text;
        if (!value_borrow(r, one, &text) || !tmpl_attr_path(r, text, &path) || !value_append(r, out, path))
            return false;
        from += one.bytes + 1;
    }
    return true;
}

typedef struct keyed {
    value item, key;
} keyed;

/* Merges two sorted neighbours; the right one goes first only if it is really less (or, reversed, really more). */
static bool merge(tmpl_run *r, const keyed *from, keyed *to, size_t begin, size_t middle, size_t end,
                  bool is_reversed) {
    size_t left = begin, right = middle;
    for (size_t at = begin; at < end; at++) {
        bool takes_right = left == middle;
        if (left < middle && right < end) {
            const value a = from[left].key, b = from[right].key;
            if (!value_order(r, OP_LT, is_reversed ? a : b, is_reversed ? b : a, &takes_right) || !tmpl_spend(r, 1))
                return false;
        }
        to[at] = takes_right ? from[right++] : from[left++];
    }
    return true;
}

static bool sort_keyed(tmpl_run *r, keyed **items, size_t count, bool is_reversed) {
    keyed *other = tmpl_get(r, count, sizeof *other);
    if (!other) return false;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            const size_t middle = begin + width < count ? begin + width : count;
            const size_t end = middle + width < count ? middle + width : count;
            if (!merge(r, *items, other, begin, middle, end, is_reversed)) return false;
        }
        keyed *sorted = other;
        other = *items;
        *items = sorted;
    }
    return true;
}

bool tmpl_sort(tmpl_run *r, value on, const sort_rules *rules, value *out, value *keys) {
    value list, paths;
    if (!split_paths(r, rules, &paths) || !value_to_list(r, on, &list)) return false;
    const size_t count = list.seq->count;
    keyed *items = tmpl_get(r, count, sizeof *items);
    if (!items) return false;
    for (size_t i = 0; i < count; i++) {
        items[i].item = list.seq->at[i];
        if (!tmpl_sort_key(r, items[i].item, rules, &paths, &items[i].key)) return false;
    }
    if (!sort_keyed(r, &items, count, rules->is_reversed) || !value_seq(r, V_LIST, count, out)) return false;
    if (keys && !value_seq(r, V_LIST, count, keys)) return false;
    for (size_t i = 0; i < count; i++) {
        out->seq->at[i] = items[i].item;
        if (keys) keys->seq->at[i] = items[i].key;
    }
    return true;
}
