/* plain_grammar.h — small context-free grammars and a slow recogniser for them: what the fast matcher is compared with,
 * in grammar_test.c and in fuzz/grammar_match.c. */
#ifndef PLAIN_GRAMMAR_H
#define PLAIN_GRAMMAR_H

#include "grammar/ir.h"
#include <string.h>

enum { PLAIN_RULES = 4, PLAIN_ALTERNATIVES = 3, PLAIN_SYMBOLS = 3, PLAIN_TEXT = 5 };
typedef struct plain_grammar {
    int n_alternatives[PLAIN_RULES];
    int length[PLAIN_RULES][PLAIN_ALTERNATIVES];
    int symbol[PLAIN_RULES][PLAIN_ALTERNATIVES][PLAIN_SYMBOLS]; /* rule, or PLAIN_RULES + word */
} plain_grammar;
static const char *const plain_words[] = {"a", "b", "ab", "ba", "aab"};

/* derives[rule][from][to], by a fixed point. */
typedef struct plain_table {
    bool derives[PLAIN_RULES][PLAIN_TEXT + 1][PLAIN_TEXT + 1];
} plain_table;

static inline bool plain_row_derives(const plain_grammar *g, const plain_table *d, const int *row, int n,
                                     const char *text, int from, int to) {
    if (n == 0) return from == to;
    for (int middle = from; middle <= to; middle++) {
        const bool is_rule = row[0] < PLAIN_RULES;
        const char *word = is_rule ? "" : plain_words[row[0] - PLAIN_RULES];
        const bool head = is_rule ? d->derives[row[0]][from][middle]
                                  : (int)strlen(word) == middle - from && !memcmp(text + from, word, strlen(word));
        if (head && plain_row_derives(g, d, row + 1, n - 1, text, middle, to)) return true;
    }
    return false;
}

static inline bool plain_accepts(const plain_grammar *g, const char *text, int n) {
    plain_table d = {{{{false}}}};
    for (bool changes = true; changes;) {
        changes = false;
        for (int rule = 0; rule < PLAIN_RULES; rule++)
            for (int from = 0; from <= n; from++)
                for (int to = from; to <= n; to++)
                    for (int k = 0; k < g->n_alternatives[rule] && !d.derives[rule][from][to]; k++)
                        if (plain_row_derives(g, &d, g->symbol[rule][k], g->length[rule][k], text, from, to))
                            changes = d.derives[rule][from][to] = true;
    }
    return d.derives[0][0][n];
}

/* NULL on failure. */
static inline ir *plain_write(const plain_grammar *plain, bool fuse) {
    ir *g;
    ir_sym rules[PLAIN_RULES];
    if (ir_new(&g, NULL, NULL) != QP_OK) return NULL;
    for (int rule = 0; rule < PLAIN_RULES; rule++) rules[rule] = ir_rule(g, NULL);
    for (int rule = 0; rule < PLAIN_RULES; rule++)
        for (int k = 0; k < plain->n_alternatives[rule]; k++) {
            ir_sym row[PLAIN_SYMBOLS];
            for (int i = 0; i < plain->length[rule][k]; i++) {
                const int s = plain->symbol[rule][k][i];
                row[i] = s < PLAIN_RULES ? rules[s] : ir_literal(g, span_of(plain_words[s - PLAIN_RULES]));
            }
            ir_alternative(g, rules[rule], row, (size_t)plain->length[rule][k]);
        }
    ir_start(g, rules[0]);
    ir_fuse(g, fuse);
    return g;
}

#endif
