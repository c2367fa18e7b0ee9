/* pages.h — who owns which page of the cache, and what of it can be used again: ids and page numbers only.
 *
 * A page holds the keys and values of DEV_PAGE_TOKENS tokens. It is used (chains hold it), cached (nobody does, but
 * its tokens are known, so that chains which begin alike may take it over) or free. Engine thread only, no locks. The
 * pages of a sequence may lie anywhere. */
#ifndef CACHE_PAGES_H
#define CACHE_PAGES_H

#include "base/err.h"
#include "base/hash.h"
#include "dev/dev.h"

typedef struct page_table page_table;

/* For tests: counters near their limits, hashes that collide. */
typedef struct page_limits {
    uint64_t first_count; /* serials and statistics begin here */
    /* Of a page's DEV_PAGE_TOKENS ids behind what has the hash `before`; NULL: XXH3. */
    hash_pair (*hash)(hash_pair before, const int32_t *ids);
} page_limits;

qp_status pages_open(page_table **out, int n_pages, const page_limits *limits, qp_error *err);
/* After its chains. NULL is fine. */
void pages_close(page_table *t);

/* How the bytes of a page get to host memory and back; done when the call returns. */
typedef struct page_mover {
    void (*save)(void *user, int32_t page, void *to);
    void (*load)(void *user, int32_t page, const void *from);
    void *user;
    size_t page_bytes;
} page_mover;

/* From now on whole pages that are evicted go to host memory, up to `bytes` of it, from where chain_reuse fetches them.
 * Once, before the first chain. */
qp_status pages_spill(page_table *t, uint64_t bytes, const page_mover *mover, qp_error *err);

typedef struct page_stats {
    uint64_t pages, used, cached, free;
    uint64_t shared;                     /* used by more than one chain */
    uint64_t evicted, spilled, restored; /* counted since the beginning; spilled ones are evicted ones, too */
} page_stats;
void pages_get_stats(const page_table *t, page_stats *out);
/* How many pages could be had now (free or evictable). */
int pages_available(const page_table *t);

/* ---- chains: the pages of one sequence ---- */

typedef struct chain {
    page_table *table;
    int32_t *pages; /* [n_pages]: position p lives in pages[p / 256] */
    int n_pages, capacity;
    int64_t length;  /* tokens whose keys and values are in the pages */
    uint64_t root;   /* identity of model and adapter, and of what else changes keys and values */
    int n_given_up;  /* leading pages that it has no more: -1 in `pages` */
    bool is_private; /* see chain_make_private */
} chain;

/* The first n_tokens keys and values of one page that must be copied to another before the table's next call. n_tokens
 * 0: nothing. */
typedef struct page_copy {
    int32_t from, to;
    int n_tokens;
} page_copy;

void chain_open(chain *out, page_table *t, uint64_t root);
/* Gives all pages back at once; what is in them stays reusable. */
void chain_close(chain *c);
/* Takes over what the cache holds of ids[length .. n): whole pages by reference, then a part of one page by copy. At
 * least one of the n ids is left to compute. For a length that is a multiple of 256: at 0, or when others may have
 * filled pages meanwhile. Returns the tokens gained; without memory or pages it gains less. */
int64_t chain_reuse(chain *c, const int32_t *ids, int64_t n, page_copy *copy);
/* The same for whole pages alone, and up to the last of the n ids. */
int64_t chain_reuse_whole(chain *c, const int32_t *ids, int64_t n);
/* Room for `tokens` tokens in all: free pages first, then cached ones, least recently used chains first and each from
 * its end. The page that is written next is always this chain's own. Takes all or nothing: QP_BUSY: others hold the
 * pages; QP_TOO_LARGE: there are not so many at all; QP_NO_MEMORY. */
qp_status chain_reserve(chain *c, int64_t tokens, qp_error *err);
/* ids[0 .. length) now have keys and values (of a private chain ids may be NULL). Tokens are offered to others from
 * here on; where an equal whole page exists, the own one is given back and that one used instead. */
void chain_advance(chain *c, const int32_t *ids, int64_t length);
/* Forgets the tokens from `length` on and gives back the pages behind them. Where the page at the cut is shared or
 * offered as a whole, another takes its place and *copy says what to copy. On failure (QP_BUSY) nothing has changed.
 * At least chain_least. */
qp_status chain_rewind(chain *c, int64_t length, page_copy *copy, qp_error *err);
/* The shortest length to which it can be rewound. */
static inline int64_t chain_least(const chain *c) {
    return c->n_given_up ? (int64_t)(c->n_given_up + 1) * DEV_PAGE_TOKENS : 0;
}
/* Gives back the whole pages that end before `position`, which the sequence will not look at again; the last two whole
 * ones stay. What is computed behind them can then not be found by others. Returns the pages that came free or cached.
 */
int chain_give_up(chain *c, int64_t position);
/* From now on the chain neither offers what it computes nor takes over what others have computed (a model whose
 * positions depend on the final length). */
void chain_make_private(chain *c);

#endif
