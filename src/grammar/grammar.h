/* grammar.h — constraints compiled once and shared, and the matchers that follow one text each.
 *
 * gen/ and api/ use this: a trie (trie.h) per tokenizer, a grammar per distinct constraint, a matcher per sequence.
 * Grammars are compiled from a source text by a row of the front-end table or from an `ir` (tests). A mask answers
 * "which token ids may come next", exactly: those after which the text can still be completed.
 *
 * Threads: a trie and a grammar are shared by any number; what a grammar learns while matching (automaton states,
 * parser rows, masks) is behind its own lock, so jobs of one grammar help each other. A matcher is used by one thread
 * at a time.
 *
 * The tricky thing: results never depend on what is cached. Budgets count work and memory, not time; a job over its
 * budget gets QP_TOO_LARGE, never another mask. */
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include "grammar/ir.h"
#include "grammar/trie.h"

typedef struct grammar grammar;
typedef struct matcher matcher;

/* ---- compiling ---- */
/* A row of the front-end table: "json_schema", "regex", "gbnf", "lark", "choices", "prefix", "json_object". */
typedef struct grammar_kind {
    const char *name;
    const char *help;
    ir_front *lower;
} grammar_kind;
/* NULL if there is none of this name / past the last. */
const grammar_kind *grammar_kind_find(const char *name);
const grammar_kind *grammar_kind_at(size_t index);

typedef struct grammar_limits {
    size_t source_bytes;  /* 0: 4 MiB */
    ir_limits ir;         /* ir.regex.stop: who may cancel the compile; nobody is asked when that is done */
    size_t compile_steps; /* 0: 20 000 000, about 200 ms */
    size_t states;        /* automaton states; 0: 250 000 */
    size_t engine_bytes;  /* states, rows and masks of one grammar; 0: 256 MiB */
    size_t mask_bytes;    /* of them for remembered masks; 0: 64 MiB */
    size_t mask_steps;    /* derivatives and parser items in one mask; 0: 2 000 000 */
    size_t row_items;     /* parser items in one row; 0: 20 000 */
    uint32_t head_sets;   /* sets of heads that are kept between masks, 1 KiB each; 0: 4096 */
} grammar_limits;

/* Lowers and compiles. The grammar takes a share of `t`. What the front end had to tell is in
 * grammar_ir(*out); on failure it comes in *report, if that is not NULL, for the caller to read and ir_free. */
qp_status grammar_compile(grammar **out, trie *t, const char *kind, span source, const ir_options *options,
                          const grammar_limits *limits, ir **report, qp_error *err);
/* From a filled ir, which the grammar owns from now on; on failure it stays the caller's. */
qp_status grammar_from_ir(grammar **out, trie *t, ir *g, const grammar_limits *limits, qp_error *err);
/* Borrowed. */
const ir *grammar_ir(const grammar *g);
const trie *grammar_vocabulary(const grammar *g);
grammar *grammar_share(grammar *g);
void grammar_free(grammar *g); /* gives back one share */

/* ---- matching ---- */
qp_status matcher_new(matcher **out, grammar *g, qp_error *err);
qp_status matcher_clone(matcher **out, const matcher *m, qp_error *err);
void matcher_free(matcher *m);

typedef struct mask_info {
    int allowed;  /* ids in the mask, without end tokens */
    int32_t only; /* the one id, if there is exactly one and the text may not end here; else -1 */
    bool may_end; /* the text is complete now */
    bool cached;  /* found, not computed */
    double seconds;
} mask_info;

/* Fills bits [(trie_size + 31) / 32], zeros where an id may not come. End tokens are never set: see may_end. */
qp_status matcher_mask(matcher *m, uint32_t *bits, mask_info *info, qp_error *err);
/* The same where it is remembered; false, and nothing done, where it would have to be computed. */
bool matcher_mask_known(matcher *m, uint32_t *bits, mask_info *info);
/* Takes a token; QP_BAD_ARGUMENT, and no change, if it may not come. */
qp_status matcher_accept(matcher *m, int32_t id, qp_error *err);
/* Takes a text, byte for byte, as one token; the error's offset is the byte that may not come. */
qp_status matcher_accept_bytes(matcher *m, span bytes, qp_error *err);
/* How many of the tokens could be taken in a row; no change. */
qp_status matcher_test(matcher *m, const int32_t *ids, size_t n, size_t *n_good, qp_error *err);
/* Forgets the newest n tokens; QP_BAD_ARGUMENT if there are not so many. */
qp_status matcher_rewind(matcher *m, size_t n, qp_error *err);
bool matcher_may_end(const matcher *m);
/* Complete, and nothing can follow. */
bool matcher_finished(matcher *m);
/* Appends the bytes that must follow (up to `most`). */
qp_status matcher_forced(matcher *m, strbuf *out, size_t most, qp_error *err);
/* What may come next in readable form, one line a terminal: "one of: `,` `}`". */
qp_status matcher_explain(matcher *m, strbuf *out, qp_error *err);
/* The newest bytes taken, up to 64, for messages. Borrowed. */
span matcher_tail(const matcher *m);

#endif
