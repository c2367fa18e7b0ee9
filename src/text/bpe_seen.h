/* bpe_seen.h — pairs of symbols that were looked up lately: long rows repeat few pairs. */
#ifndef TEXT_BPE_SEEN_H
#define TEXT_BPE_SEEN_H

#include "bpe.h"

enum { BPE_N_SEEN = 64 };

typedef struct bpe_seen_pair {
    uint64_t pair;
    const bpe_merge *merge; /* NULL: none */
    int32_t note;           /* the user's own; -1 at first */
} bpe_seen_pair;

typedef struct bpe_seen {
    const bpe *b;
    bpe_seen_pair pairs[BPE_N_SEEN];
} bpe_seen;

static inline void bpe_seen_start(bpe_seen *s, const bpe *b) {
    s->b = b;
    for (int i = 0; i < BPE_N_SEEN; i++) s->pairs[i].pair = BPE_NO_PAIR;
}

static inline bpe_seen_pair *bpe_seen_find(bpe_seen *s, int32_t left, int32_t right) {
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    bpe_seen_pair *p = &s->pairs[((uint32_t)left * 7 + (uint32_t)right) & (BPE_N_SEEN - 1)];
    if (p->pair != pair) *p = (bpe_seen_pair){pair, bpe_find(s->b, left, right), -1};
    return p;
}

#endif
