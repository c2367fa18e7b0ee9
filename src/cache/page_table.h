/* page_table.h — inside the page table: shared by the files that work on it (pages.c, page_chain.c, page_order.c,
 * page_map.c) and by its tests.
 *
 * What holds between calls:
 *  - A page is offered when n_tokens > 0: it is then in the order, and when it is whole in the map. Every page is used
 *    (n_refs > 0), cached (no references, offered, in the list by age) or free (on the stack).
 *  - No two whole offered pages have the same parent and ids. A chain that holds a page therefore holds its parents,
 *    unless it has given up its oldest ones (chain_give_up). Where nobody holds a page any more whose child is used,
 * that child becomes an orphan, behind a parent of its own that nobody can ask for.
 *  - A chain gives its pages back from the last to the first. So a cached page is always younger than its children,
 *    and the oldest page of the list is always a leaf: evicting it needs no search. */
#ifndef CACHE_PAGE_TABLE_H
#define CACHE_PAGE_TABLE_H

#include "dev/dev.h"
#include "pages.h"
#include "spill.h"

typedef struct page {
    int32_t parent; /* offered: the page before it; -1: none; page_orphaned: it has been given up */
    int32_t n_refs, n_children;
    int32_t n_tokens;       /* leading tokens that are offered */
    int32_t older, newer;   /* cached: the list by age; free: `older` is the next of the stack */
    int32_t left, right;    /* order: the tree ... */
    int32_t before, after;  /* ... and the neighbours */
    int32_t n_same;         /* ... and the leading ids that it has in common with `after`; 0 for another parent */
    int32_t next_in_bucket; /* map */
    hash_pair hash;         /* whole pages */
    uint64_t serial;        /* of a whole page: unlike that of any other, kept while it is spilled */
    uint64_t root;
} page;

struct page_table {
    int n_pages;
    page *pages;
    int32_t (*ids)[DEV_PAGE_TOKENS]; /* [n_pages] */
    int32_t *buckets;                /* [bucket_mask + 1]: whole pages by hash */
    uint64_t bucket_mask;
    int32_t free, oldest, newest, order; /* top of the stack, ends of the list, top of the tree; -1: none */
    uint64_t serial;                     /* the last one given */
    hash_pair (*hash)(hash_pair before, const int32_t *ids);
    spill_tier *spill; /* NULL: none */
    bool has_given_up; /* some chain has, sometime */
    page_stats stats;
};

/* The parent of page p as an orphan. */
static inline int32_t page_orphaned(int32_t p) { return -2 - p; }

/* ---- pages.c ---- */

/* A page with one reference and nothing in it, evicting one if need be; -1: none to be had. */
int32_t pages_take(page_table *t);
void pages_hold(page_table *t, int32_t p);
/* Drops a reference; with the last one the page becomes cached, or free if it offers nothing new. */
void pages_give(page_table *t, int32_t p);
/* Offers the first n ids of a page that has offered fewer, or none. Not for whole pages: see pages_offer_whole. */
void pages_offer(page_table *t, int32_t p, int32_t parent, uint64_t root, const int32_t *ids, int n);
void pages_offer_whole(page_table *t, int32_t p, int32_t parent, uint64_t root, const int32_t *ids, hash_pair hash,
                       uint64_t serial);
/* What is used behind p, by chains that have given p up, becomes orphans: nobody holds p any more, or it changes. */
void pages_leave_children(page_table *t, int32_t p);
/* Offers no more than the first n tokens. */
void pages_cut(page_table *t, int32_t p, int n);
uint64_t pages_next_serial(page_table *t);

/* ---- page_map.c: whole pages by hash ---- */

/* The page with these ids behind this parent, compared in full; -1: none. */
int32_t map_find(const page_table *t, hash_pair hash, int32_t parent, uint64_t root, const int32_t *ids);
void map_insert(page_table *t, int32_t p);
void map_remove(page_table *t, int32_t p);

/* ---- page_order.c: all offered pages by what is in them ---- */

void order_insert(page_table *t, int32_t p);
void order_remove(page_table *t, int32_t p);
/* The page behind `parent` that begins with most of ids[0 .. n); how many that are, 0 without any. */
int order_longest(const page_table *t, int32_t parent, uint64_t root, const int32_t *ids, int n, int32_t *found);
/* The first page in the order that has this parent; -1: none. */
int32_t order_first_child(const page_table *t, int32_t parent, uint64_t root);

#endif
