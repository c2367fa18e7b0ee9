/* range.c — sets of code points: inverted, with both cases, by Unicode property. */
#include "pattern.h"
#include "base/mem.h"
#include "script_table.h"
#include "text/uni.h"
#include <stdlib.h>

enum { LAST_CODE_POINT = 0x10FFFF };

void range_add(range_list *l, uint32_t first, uint32_t last) {
    if (l->failed) return;
    if (l->n == l->room) {
        const size_t room = l->room ? l->room * 2 : 16;
        rx_range *at = mem_resize(l->at, room, sizeof *at);
        if (!at) {
            l->failed = true;
            return;
        }
        l->at = at;
        l->room = room;
    }
    l->at[l->n++] = (rx_range){first, last};
}

void range_free(range_list *l) {
    mem_free(l->at);
    *l = (range_list){.at = NULL};
}

static int by_first(const void *a, const void *b) {
    const rx_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

void range_invert(range_list *l) {
    range_list rest = {.failed = l->failed};
    if (l->n > 1) qsort(l->at, l->n, sizeof *l->at, by_first);
    uint32_t next = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->at[i].first > next) range_add(&rest, next, l->at[i].first - 1);
        if (l->at[i].last >= next) next = l->at[i].last + 1;
    }
    if (next <= LAST_CODE_POINT) range_add(&rest, next, LAST_CODE_POINT);
    range_free(l);
    *l = rest;
}

static bool range_has(const range_list *l, size_t n, uint32_t c) {
    for (size_t i = 0; i < n; i++)
        if (l->at[i].first <= c && c <= l->at[i].last) return true;
    return false;
}

static void add_pair(range_list *l, size_t n, uint32_t upper, uint32_t lower) {
    const bool has_upper = range_has(l, n, upper), has_lower = range_has(l, n, lower);
    if (has_upper && !has_lower) range_add(l, lower, lower);
    if (has_lower && !has_upper) range_add(l, upper, upper);
}

void range_add_cases(range_list *l) {
    const size_t n = l->n;
    for (uint32_t c = 'A'; c <= 'Z'; c++) add_pair(l, n, c, c + 'a' - 'A');
    for (int i = 0; i < uni_n_lower; i++) {
        const uint32_t c = uni_lower[2 * i];
        uint32_t lower[3];
        if (c >= 0x80 && uni_lower_of(c, lower) == 1) add_pair(l, n, c, lower[0]);
    }
}

/* All characters with one of these bits; blocks of 256 that are alike are looked at once. */
static void add_bits(range_list *l, uint64_t mask) {
    uint32_t start = 0;
    bool inside = false;
    for (uint32_t c = 0; c <= LAST_CODE_POINT + 1; c++) {
        const bool is = c <= LAST_CODE_POINT && uni_is(c, mask);
        if (is && !inside) start = c;
        if (!is && inside) range_add(l, start, c - 1);
        inside = is;
    }
}

static bool add_script(range_list *l, span name) {
    for (int i = 0; i < script_n_names; i++) {
        if (!span_is(name, script_names[i])) continue;
        for (int k = 0; k < script_n_ranges; k++)
            if (script_ranges[k].script == i) range_add(l, script_ranges[k].first, script_ranges[k].last);
        return true;
    }
    return false;
}

bool range_add_property(range_list *l, span name) {
    static const char *const prefixes[] = {"Script=", "sc=", "General_Category=", "gc="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (span_starts(name, span_of(prefixes[i]))) {
            const size_t n = strlen(prefixes[i]);
            name = (span){name.at + n, name.bytes - n};
            if (i < 2) return add_script(l, name);
            break;
        }
    if (span_is(name, "Any") || span_is(name, "ASCII"))
        return range_add(l, 0, span_is(name, "Any") ? LAST_CODE_POINT : 0x7F), true;
    const uint64_t mask = uni_property(name);
    if (!mask) return add_script(l, name);
    add_bits(l, mask);
    return true;
}
