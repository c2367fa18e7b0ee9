/* scan.c — running compiled split patterns. */
#include "scan.h"
#include "uni.h"

static bool term_has(const scan_term *t, uint32_t c, uint64_t bits) {
    bool has = (bits & t->mask) != 0;
    for (int i = 0; i < t->n_nots && !has; i++) has = !(bits & t->nots[i]);
    for (int i = 0; i < t->n_ranges && !has; i++) has = c >= t->ranges[i][0] && c <= t->ranges[i][1];
    return has != t->is_negated;
}

static bool class_has(const scan_class *k, uint32_t c, uint64_t bits) {
    for (int i = 0; i < k->n_terms; i++)
        if (!term_has(&k->terms[i], c, bits)) return false;
    return true;
}

bool scan_has(const scan_class *k, uint32_t c) { return class_has(k, c, uni_bits(c)); }
bool scan_has_bits(const scan_class *k, uint64_t bits) { return class_has(k, UINT32_MAX, bits); }

/* Length of the character at `at` if the class has it, else 0. */
static inline size_t step(const scan *s, int k, span text, size_t at) {
    if (at >= text.bytes) return 0;
    const unsigned char b = (unsigned char)text.at[at];
    if (b < 0x80) return s->ascii[b] >> k & 1;
    uint32_t c;
    const int length = uni_next(text.at + at, &c);
    return scan_has(&s->classes[k], c) ? (size_t)length : 0;
}

/* Passes over as many characters of the class as allowed; the end, and how many in *n. */
static inline size_t run_of(const scan *s, const scan_node *node, span text, size_t at, uint32_t *n) {
    const uint32_t bit = 1u << node->class_index, max = node->max;
    uint32_t count = 0;
    for (;;) {
        while (count < max && at < text.bytes && (unsigned char)text.at[at] < 0x80 &&
               s->ascii[(unsigned char)text.at[at]] & bit)
            at++, count++;
        if (count == max || at >= text.bytes || (unsigned char)text.at[at] < 0x80) break;
        const size_t length = step(s, node->class_index, text, at);
        if (!length) break;
        at += length;
        count++;
    }
    *n = count;
    return at;
}

static size_t back_one(span text, size_t at) {
    do at--;
    while (((unsigned char)text.at[at] & 0xC0) == 0x80);
    return at;
}

static size_t match_from(const scan *s, int index, span text, size_t at);

/* Characters of a class, then the rest with as many of them as leave it a match. */
static size_t match_class(const scan *s, const scan_node *node, span text, size_t at) {
    uint32_t n;
    const scan_node *next = &s->nodes[node->next];
    const bool needs_one = next->op == SCAN_CLASS && next->min;
    at = run_of(s, node, text, at, &n);
    for (; n >= node->min; n--, at = back_one(text, at)) {
        if (needs_one && n && !step(s, next->class_index, text, at)) continue;
        const size_t found = match_from(s, node->next, text, at);
        if (found != SCAN_NONE || n == 0) return found;
    }
    return SCAN_NONE;
}

static bool may_begin(const scan_node *branch, span text, size_t at) {
    if (at >= text.bytes) return true;
    const unsigned char c = (unsigned char)text.at[at];
    return c >= 0x80 || (branch->ascii[c >> 6] >> (c & 63) & 1);
}

/* Alternatives still to be tried wait in a row; there are never more than branches in the program. */
static size_t match_from(const scan *s, int index, span text, size_t at) {
    struct {
        int index;
        size_t at;
    } waiting[SCAN_MAX_NODES];
    int n_waiting = 0;
    for (;;) {
        const scan_node *node = &s->nodes[index];
        bool ok = true;
        uint32_t n;
        size_t found;
        index = node->next;
        switch (node->op) {
        case SCAN_ACCEPT:
            return at;
        case SCAN_AHEAD:
            ok = step(s, node->class_index, text, at);
            break;
        case SCAN_NOT_AHEAD:
            ok = !step(s, node->class_index, text, at);
            break;
        case SCAN_BRANCH:
            if (!may_begin(node, text, at)) {
                index = node->other;
                continue;
            }
            waiting[n_waiting].index = node->other;
            waiting[n_waiting++].at = at;
            continue;
        case SCAN_CLASS:
            if (node->keeps) {
                at = run_of(s, node, text, at, &n);
                ok = n >= node->min;
                break;
            }
            found = match_class(s, node, text, at);
            if (found != SCAN_NONE) return found;
            ok = false;
            break;
        }
        if (ok) continue;
        if (!n_waiting) return SCAN_NONE;
        index = waiting[--n_waiting].index;
        at = waiting[n_waiting].at;
    }
}

size_t scan_match(const scan *s, span text, size_t at) { return match_from(s, s->start, text, at); }

static bool may_start(const scan *s, char c) { return (unsigned char)c >= 0x80 || s->may_start[(unsigned char)c]; }

bool scan_next(const scan *s, span text, size_t from, size_t *start, size_t *end) {
    while (from < text.bytes) {
        if (may_start(s, text.at[from])) {
            const size_t found = scan_match(s, text, from);
            if (found != SCAN_NONE) {
                *start = from;
                *end = found;
                return true;
            }
        }
        for (from++; from < text.bytes && ((unsigned char)text.at[from] & 0xC0) == 0x80;) from++;
    }
    return false;
}
