/* bpe.h — byte pair encoding of one word: characters to symbols, then merges by rank, leftmost first.
 *
 * A word comes either as text or, where the pre-tokeniser ends in ByteLevel, as its raw bytes (`byte_level`), each of
 * which stands for a character of the byte alphabet: the detour over that alphabet is made once, while loading. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "idvec.h"
#include "vocab.h"

typedef struct bpe_merge {
    uint64_t pair; /* left << 32 | right; BPE_NO_PAIR: free slot */
    uint32_t rank;
    int32_t id;
} bpe_merge;
#define BPE_NO_PAIR UINT64_MAX
#define BPE_NO_RANK UINT32_MAX

typedef struct bpe {
    const vocab *words;
    bpe_merge *merges; /* open addressing */
    uint32_t n_slots, n_merges;
    int shift;
    bool byte_level, fuse_unk, byte_fallback, ignore_merges, has_unk;
    bool knows_bytes;        /* byte_fallback has all 256 */
    bool may_split;          /* whether text may be cut where no piece crosses (see bpe_cut) */
    int32_t unk;             /* -1: named but not in the vocabulary */
    int32_t byte_ids[256];   /* ids of "<0x00>" ...; -1: none */
    int32_t letter_ids[256]; /* byte_level: of the byte alphabet; else of ASCII characters */
    uint8_t *neighbours;     /* a bit per hash of two characters that stand side by side in some piece */
    char *prefix, *suffix;   /* continuing_subword_prefix, end_of_word_suffix; NULL: none */
    size_t prefix_bytes;
    int32_t last_made; /* while loading: the next merge mostly makes this piece again or the one after it */
} bpe;

/* Memory that a call lends to all its words. Zero-initialised is ready. */
typedef struct bpe_scratch {
    idvec symbols;
    void *block;
    size_t block_bytes;
    strbuf text;
} bpe_scratch;

/* `unk`, `prefix`, `suffix`: at == NULL where not given. Merges follow by bpe_add_merges or bpe_add_pair (n_merges is
 * about how many), then bpe_finish. */
typedef struct bpe_options {
    bool fuse_unk, byte_fallback, ignore_merges;
    span unk, prefix, suffix;
} bpe_options;

qp_status bpe_start(bpe *b, const vocab *words, const bpe_options *options, size_t n_merges, qp_error *err);
/* Two pieces that become one: their texts in a row, the right one without the subword prefix. */
typedef struct bpe_pair {
    span left, right;
} bpe_pair;
enum { BPE_BATCH = 64 }; /* most merges in one call */
qp_status bpe_add_merges(bpe *b, const bpe_pair *pairs, size_t n, uint32_t first_rank, qp_error *err);
qp_status bpe_add_pair(bpe *b, int32_t left, int32_t right, int32_t id, uint32_t rank, qp_error *err);
qp_status bpe_finish(bpe *b, bool byte_level, qp_error *err);
void bpe_free(bpe *b);
void bpe_scratch_free(bpe_scratch *s);

/* Appends the ids of one word. Fails on an unknown character whose unk_token is not in the vocabulary. */
qp_status bpe_encode(const bpe *b, bpe_scratch *s, span word, idvec *out, qp_error *err);
/* The length of the first part of `text` that can be encoded by itself with the same result: at least one character. */
size_t bpe_cut(const bpe *b, span text);

const bpe_merge *bpe_find(const bpe *b, int32_t left, int32_t right); /* NULL: no such merge */
/* Merges long rows of symbols in place without quadratic time; false when memory is short. (bpe_long.c) */
bool bpe_merge_long(const bpe *b, bpe_scratch *s, int32_t *ids, size_t *n);
/* Its first part, while that makes the row much shorter (bpe_sweep.c). */
bool bpe_sweep(const bpe *b, int32_t *ids, size_t *n);
/* The same by the definition, one merge after the other over the whole row: the slow truth. */
void bpe_merge_plain(const bpe *b, int32_t *ids, size_t *n);

#endif
