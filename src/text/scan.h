/* scan.h — a small matcher for the split patterns of tokenizers: rows of character classes with counts.
 *
 * Split patterns are alternatives of sequences such as ` ?\p{L}+` or `\s+(?!\S)`. Those are compiled into a table of
 * classes and run several times faster than a general engine; what the little language does not cover is refused by
 * scan_compile (is_known false) and goes to PCRE2 (regex.h). Meaning: leftmost, first alternative that matches,
 * greedy with backtracking, as in Oniguruma's Ruby syntax. */
#ifndef TEXT_SCAN_H
#define TEXT_SCAN_H

#include "base/str.h"

typedef struct scan scan;

/* *out is NULL (and the status QP_OK) for a pattern outside the language. */
qp_status scan_compile(scan **out, span pattern, qp_error *err);
void scan_free(scan *s);
/* The end of the match that begins at `at`, or SCAN_NONE. */
size_t scan_match(const scan *s, span text, size_t at);
/* The next match from `from` on; false if there is none. */
bool scan_next(const scan *s, span text, size_t from, size_t *start, size_t *end);
#define SCAN_NONE ((size_t)-1)

/* ---- the compiled form, for scan_parse.c and scan.c ---- */

enum { SCAN_MAX_CLASSES = 32, SCAN_MAX_NODES = 128, SCAN_MAX_TERMS = 4, SCAN_MAX_NOTS = 4 };

/* A set: a union of categories, complements and ranges, or its complement. */
typedef struct scan_term {
    uint64_t mask, nots[SCAN_MAX_NOTS];
    int n_nots;
    bool is_negated;
    uint32_t (*ranges)[2];
    int n_ranges;
} scan_term;

/* All terms must hold (`[a-z&&[^b]]`). */
typedef struct scan_class {
    scan_term terms[SCAN_MAX_TERMS];
    int n_terms;
} scan_class;

typedef enum scan_op { SCAN_CLASS, SCAN_AHEAD, SCAN_NOT_AHEAD, SCAN_BRANCH, SCAN_ACCEPT } scan_op;

/* SCAN_BRANCH tries `next`, then `other`; all else goes on to `next`. */
typedef struct scan_node {
    scan_op op;
    int16_t class_index, next, other;
    bool keeps; /* never gives characters back: possessive, or nothing behind it could want them */
    uint32_t min, max;
    uint64_t ascii[2]; /* SCAN_BRANCH: the ASCII characters with which `next` may begin */
} scan_node;

struct scan {
    scan_node nodes[SCAN_MAX_NODES];
    int n_nodes;
    int16_t start;
    scan_class classes[SCAN_MAX_CLASSES];
    int n_classes;
    uint32_t ascii[128]; /* a bit per class that has the character */
    bool may_start[128]; /* by ASCII character */
};

bool scan_has(const scan_class *c, uint32_t character);
/* The same by the character's bits (uni.h) alone, for characters in none of the class's ranges. */
bool scan_has_bits(const scan_class *c, uint64_t bits);

#endif
