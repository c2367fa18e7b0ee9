/* unigram.h — the most probable segmentation of a word into pieces with scores (Viterbi), Kudo 2018. */
#ifndef TEXT_UNIGRAM_H
#define TEXT_UNIGRAM_H

#include "idvec.h"
#include "vocab.h"

/* One node of the trie over the pieces' bytes: children lie side by side, in the order of their bytes. */
typedef struct unigram_node {
    uint32_t first_child;
    int32_t id; /* -1: no piece ends here */
    uint16_t n_children;
    uint8_t byte;
} unigram_node;

typedef struct unigram {
    const vocab *words;
    unigram_node *nodes;
    uint32_t n_nodes;
    uint32_t roots[256]; /* child of the root by byte, 0: none */
    double *scores;      /* by id */
    double unk_score;
    int32_t unk;                  /* -1: none */
    bool byte_fallback, in_float; /* in_float: scores add up in single precision, as in SentencePiece */
    int32_t byte_ids[256];
} unigram;

typedef struct unigram_best { /* the best way to end at a place */
    double score;
    int32_t id, start; /* start < 0: not reached */
} unigram_best;

/* Zero-initialised is ready. */
typedef struct unigram_scratch {
    unigram_best *best;
    size_t capacity;
    idvec starts;
} unigram_scratch;

/* `may_find` by id: which pieces may be found in a text; NULL: all. `scores` by id is taken over in any case. */
qp_status unigram_open(unigram *u, const vocab *words, double *scores, int32_t unk, bool byte_fallback,
                       const bool *may_find, qp_error *err);
void unigram_free(unigram *u);
void unigram_scratch_free(unigram_scratch *s);
qp_status unigram_encode(const unigram *u, unigram_scratch *s, span word, idvec *out, qp_error *err);

#endif
