/* page_order.c — all offered pages, ordered by parent and then by their ids, shorter ones first.
 *
 * Called by pages.c when a page's ids change and by page_chain.c to find the page that agrees longest with a prompt:
 * in such an order that is a neighbour of where the prompt would stand. The tree is a treap (Seidel and Aragon 1996)
 * whose random ranks are the mixed page numbers; neighbours are linked as well, with the length of what they share, so
 * that a page which grows by a token usually stays where it is without a look at any other. */
#include "page_table.h"
#include <string.h>

/* What a page, or a prompt, is ordered by. Equal ones go by page number. */
typedef struct place {
    uint64_t root;
    int32_t parent, number;
    int n;
    const int32_t *ids;
} place;

static place place_of(const page_table *t, int32_t p) {
    const page *at = &t->pages[p];
    return (place){at->root, at->parent, p, at->n_tokens, t->ids[p]};
}

static int common_run(const int32_t *a, const int32_t *b, int n) {
    int i = 0;
    while (i + 4 <= n && !memcmp(a + i, b + i, 4 * sizeof *a)) i += 4;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* Whether page p stands before the place; *same: leading ids they share. */
static bool is_before(const page_table *t, int32_t p, const place *x, int *same) {
    const page *at = &t->pages[p];
    *same = 0;
    if (at->root != x->root) return at->root < x->root;
    if (at->parent != x->parent) return at->parent < x->parent;
    const int n = at->n_tokens < x->n ? at->n_tokens : x->n;
    *same = common_run(t->ids[p], x->ids, n);
    if (*same < n) return t->ids[p][*same] < x->ids[*same];
    return at->n_tokens != x->n ? at->n_tokens < x->n : p < x->number;
}

static uint32_t rank_of(int32_t p) {
    uint32_t x = (uint32_t)p + 0x9E3779B9u;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

static bool is_above(int32_t a, int32_t b) {
    const uint32_t x = rank_of(a), y = rank_of(b);
    return x != y ? x > y : a > b;
}

/* The way from the top of the tree down to a place. */
typedef struct descent {
    int32_t before, after;       /* the neighbours there; -1: none */
    int same_before, same_after; /* ids shared with them */
} descent;

/* One step down: which of the page's links leads on. */
static int32_t *step(const page_table *t, descent *d, int32_t p, const place *x) {
    int same;
    if (is_before(t, p, x, &same)) {
        d->before = p;
        d->same_before = same;
        return &t->pages[p].right;
    }
    d->after = p;
    d->same_after = same;
    return &t->pages[p].left;
}

static void link_neighbours(page_table *t, int32_t p, const descent *d) {
    page *at = &t->pages[p];
    at->before = d->before;
    at->after = d->after;
    at->n_same = d->same_after;
    if (d->before >= 0) {
        t->pages[d->before].after = p;
        t->pages[d->before].n_same = d->same_before;
    }
    if (d->after >= 0) t->pages[d->after].before = p;
}

void order_insert(page_table *t, int32_t p) {
    const place x = place_of(t, p);
    descent d = {.before = -1, .after = -1};
    int32_t *link = &t->order;
    while (*link >= 0 && is_above(*link, p)) link = step(t, &d, *link, &x);
    int32_t rest = *link, *smaller = &t->pages[p].left, *larger = &t->pages[p].right;
    *link = p;
    while (rest >= 0) { /* p takes this place in the tree; what was there is split around it */
        int32_t *next = step(t, &d, rest, &x);
        int32_t **side = d.before == rest ? &smaller : &larger;
        **side = rest;
        *side = next;
        rest = *next;
    }
    *smaller = *larger = -1;
    link_neighbours(t, p, &d);
}

static void unlink_neighbours(page_table *t, int32_t p) {
    const page *at = &t->pages[p];
    if (at->before >= 0) {
        page *before = &t->pages[at->before];
        before->after = at->after;
        if (before->n_same > at->n_same) before->n_same = at->n_same;
    }
    if (at->after >= 0) t->pages[at->after].before = at->before;
}

void order_remove(page_table *t, int32_t p) {
    const place x = place_of(t, p);
    descent d;
    int32_t *link = &t->order;
    while (*link != p) link = step(t, &d, *link, &x);
    int32_t a = t->pages[p].left, b = t->pages[p].right;
    while (a >= 0 && b >= 0) {
        if (is_above(a, b)) {
            *link = a;
            link = &t->pages[a].right;
            a = *link;
        } else {
            *link = b;
            link = &t->pages[b].left;
            b = *link;
        }
    }
    *link = a >= 0 ? a : b;
    unlink_neighbours(t, p);
}

int order_longest(const page_table *t, int32_t parent, uint64_t root, const int32_t *ids, int n, int32_t *found) {
    const place x = {root, parent, -1, n, ids};
    descent d = {.before = -1, .after = -1};
    for (int32_t p = t->order; p >= 0;) p = *step(t, &d, p, &x);
    const bool is_before_longer = d.same_before >= d.same_after;
    *found = is_before_longer ? d.before : d.after;
    return is_before_longer ? d.same_before : d.same_after;
}

int32_t order_first_child(const page_table *t, int32_t parent, uint64_t root) {
    const place x = {root, parent, -1, 0, NULL};
    descent d = {.before = -1, .after = -1};
    for (int32_t p = t->order; p >= 0;) p = *step(t, &d, p, &x);
    if (d.after < 0) return -1;
    const page *at = &t->pages[d.after];
    return at->parent == parent && at->root == root ? d.after : -1;
}
