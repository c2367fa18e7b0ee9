/* scan.c — running compiled split patterns. */
#include "scan.h"
#include "uni.h"

static bool term_has(const scan_term *t, uint32_t c, uint64_t bits) {
    bool has = (bits & t->mask) != 0;
    for (int i = 0; i < t->n_nots && !has; i++) has = !(bits & t->nots[i]);
    for (int i = 0; i < t->n_ranges && !has; i++) has = c >= t->ranges[i][0] && c <= t->ranges[i][1];
    return has != t->is_negated;
}

bool scan_has(const scan_class *k, uint32_t c) {
    const uint64_t bits = uni_bits(c);
    for (int i = 0; i < k->n_terms; i++)
        if (!term_has(&k->terms[i], c, bits)) return false;
    return true;
}

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

static size_t match_from(const scan *s, int index, span text, size_t at) {
    for (;;) {
        const scan_node *node = &s->nodes[index];
        size_t found;
        switch (node->op) {
        case SCAN_ACCEPT:
            return at;
        case SCAN_AHEAD:
            if (!step(s, node->class_index, text, at)) return SCAN_NONE;
            break;
        case SCAN_NOT_AHEAD:
            if (step(s, node->class_index, text, at)) return SCAN_NONE;
            break;
        case SCAN_BRANCH:
            found = match_from(s, node->next, text, at);
            if (found != SCAN_NONE) return found;
            index = node->other;
            continue;
        case SCAN_CLASS: {
            uint32_t n;
            at = run_of(s, node, text, at, &n);
            if (n < node->min) return SCAN_NONE;
            for (; !node->keeps && n > node->min; n--, at = back_one(text, at)) {
                found = match_from(s, node->next, text, at);
                if (found != SCAN_NONE) return found;
            }
            break;
        }
        }
        index = node->next;
    }
}

size_t scan_match(const scan *s, span text, size_t at) { return match_from(s, s->start, text, at); }

static bool may_start(const scan *s, char c) { return s->may_start[(unsigned char)c < 0x80 ? (unsigned char)c : 128]; }

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
