/* pages.c — which pages are free, used and cached; what is offered; what is evicted.
 *
 * Called by page_chain.c for the chains, and by gen/ to open, close and count. Knows page numbers and ids, never
 * tensors. Evicting is taking the oldest page of the list of cached ones: page_table.h says why that is a leaf. */
#include "page_table.h"
#include "base/mem.h"
#include <assert.h>
#include <string.h>

/* ---- life ---- */

static hash_pair hash_ids(hash_pair before, const int32_t *ids) {
    struct {
        hash_pair before;
        int32_t ids[DEV_PAGE_TOKENS];
    } all = {.before = before};
    memcpy(all.ids, ids, sizeof all.ids);
    return hash_bytes_pair(&all, sizeof all, 0);
}

static qp_status make_room(page_table *t, int n_pages, qp_error *err) {
    uint64_t n_buckets = 1;
    while (n_buckets < (uint64_t)n_pages) n_buckets *= 2;
    t->bucket_mask = n_buckets - 1;
    t->pages = mem_zarray((size_t)n_pages, sizeof *t->pages);
    t->ids = mem_array((size_t)n_pages, sizeof *t->ids);
    t->buckets = mem_array(n_buckets, sizeof *t->buckets);
    if (!t->pages || !t->ids || !t->buckets)
        return err_no_memory(err, (size_t)n_pages * (sizeof *t->pages + sizeof *t->ids), "the page table");
    memset(t->buckets, -1, n_buckets * sizeof *t->buckets);
    for (int32_t p = n_pages - 1; p >= 0; p--) {
        t->pages[p].older = t->free;
        t->free = p;
    }
    return QP_OK;
}

qp_status pages_open(page_table **out, int n_pages, const page_limits *limits, qp_error *err) {
    *out = NULL;
    assert(n_pages > 0);
    page_table *t = MEM_NEW(page_table);
    if (!t) return err_no_memory(err, sizeof *t, "the page table");
    const page_limits usual = {0}, *l = limits ? limits : &usual;
    *t = (page_table){.n_pages = n_pages, .free = -1, .oldest = -1, .newest = -1, .order = -1};
    t->serial = t->stats.evicted = t->stats.spilled = t->stats.restored = l->first_count;
    t->hash = l->hash ? l->hash : hash_ids;
    t->stats.pages = t->stats.free = (uint64_t)n_pages;
    const qp_status status = make_room(t, n_pages, err);
    if (status != QP_OK)
        pages_close(t);
    else
        *out = t;
    return status;
}

void pages_close(page_table *t) {
    if (!t) return;
    assert(!t->pages || !t->stats.used);
    spill_close(t->spill);
    mem_free(t->pages);
    mem_free(t->ids);
    mem_free(t->buckets);
    mem_free(t);
}

qp_status pages_spill(page_table *t, uint64_t bytes, const page_mover *mover, qp_error *err) {
    assert(!t->spill);
    return spill_open(&t->spill, bytes, mover, err);
}

void pages_get_stats(const page_table *t, page_stats *out) { *out = t->stats; }

int pages_available(const page_table *t) { return (int)(t->stats.free + t->stats.cached); }

uint64_t pages_next_serial(page_table *t) {
    if (!++t->serial) ++t->serial; /* 0 stands for "no parent" */
    return t->serial;
}

/* ---- what is offered ---- */

static bool is_whole(const page *at) { return at->n_tokens == DEV_PAGE_TOKENS; }

void pages_offer(page_table *t, int32_t p, int32_t parent, uint64_t root, const int32_t *ids, int n) {
    page *at = &t->pages[p];
    const int had = at->n_tokens;
    assert(n > had);
    const bool moves = !had || at->n_same == had; /* only a page that begins with all of this one's ids can be passed */
    if (!had && parent >= 0) t->pages[parent].n_children++;
    if (had && moves) order_remove(t, p);
    at->parent = parent;
    at->root = root;
    at->n_tokens = n;
    memcpy(t->ids[p] + had, ids + had, (size_t)(n - had) * sizeof *ids);
    if (moves) order_insert(t, p);
}

void pages_offer_whole(page_table *t, int32_t p, int32_t parent, uint64_t root, const int32_t *ids, hash_pair hash,
                       uint64_t serial) {
    pages_offer(t, p, parent, root, ids, DEV_PAGE_TOKENS);
    t->pages[p].hash = hash;
    t->pages[p].serial = serial;
    map_insert(t, p);
}

void pages_cut(page_table *t, int32_t p, int n) {
    page *at = &t->pages[p];
    if (at->n_tokens <= n) return;
    assert(!at->n_children);
    if (is_whole(at)) map_remove(t, p);
    order_remove(t, p);
    at->n_tokens = n;
    if (n)
        order_insert(t, p);
    else if (at->parent >= 0)
        t->pages[at->parent].n_children--;
}

/* ---- free, used, cached ---- */

static void list_push(page_table *t, int32_t p) {
    t->pages[p].older = t->newest;
    t->pages[p].newer = -1;
    *(t->newest >= 0 ? &t->pages[t->newest].newer : &t->oldest) = p;
    t->newest = p;
    t->stats.cached++;
}

static void list_remove(page_table *t, int32_t p) {
    const page *at = &t->pages[p];
    *(at->older >= 0 ? &t->pages[at->older].newer : &t->oldest) = at->newer;
    *(at->newer >= 0 ? &t->pages[at->newer].older : &t->newest) = at->older;
    t->stats.cached--;
}

static void make_free(page_table *t, int32_t p) {
    pages_cut(t, p, 0);
    t->pages[p].older = t->free;
    t->free = p;
    t->stats.free++;
}

static void evict(page_table *t, int32_t p) {
    const page *at = &t->pages[p];
    const spill_key key = {at->hash, at->parent >= 0 ? t->pages[at->parent].serial : 0, at->root, t->ids[p]};
    if (t->spill && is_whole(at) && at->parent != page_orphaned(p) && spill_save(t->spill, &key, at->serial, p))
        t->stats.spilled++;
    list_remove(t, p);
    make_free(t, p);
    t->stats.evicted++;
}

int32_t pages_take(page_table *t) {
    if (t->free < 0 && t->oldest >= 0) evict(t, t->oldest);
    const int32_t p = t->free;
    if (p < 0) return -1;
    t->free = t->pages[p].older;
    t->pages[p].n_refs = 1;
    t->stats.free--;
    t->stats.used++;
    return p;
}

void pages_hold(page_table *t, int32_t p) {
    page *at = &t->pages[p];
    if (!at->n_refs) {
        list_remove(t, p);
        t->stats.used++;
    }
    if (++at->n_refs == 2) t->stats.shared++;
}

/* Whether a's ids are the beginning of the next page's, and that one will not change. */
static bool is_superfluous(const page_table *t, const page *a) {
    if (is_whole(a) || a->n_same < a->n_tokens) return false;
    const page *next = &t->pages[a->after];
    return !next->n_refs || is_whole(next);
}

/* Keeps the page's tokens for others, unless another page has them too; gives up those that it has too. */
static void make_cached(page_table *t, int32_t p) {
    if (t->pages[p].n_tokens < 2 || is_superfluous(t, &t->pages[p])) { /* a single token is not worth a copy */
        make_free(t, p);
        return;
    }
    list_push(t, p);
    for (int32_t b = t->pages[p].before; b >= 0; b = t->pages[p].before) {
        if (t->pages[b].n_refs || !is_superfluous(t, &t->pages[b])) break;
        list_remove(t, b);
        make_free(t, b);
    }
}

static void make_orphan(page_table *t, int32_t p) {
    page *at = &t->pages[p];
    map_remove(t, p);
    order_remove(t, p);
    t->pages[at->parent].n_children--;
    at->parent = page_orphaned(p);
    order_insert(t, p);
    map_insert(t, p);
}

/* A part there is of a chain that has become private since. */
void pages_leave_children(page_table *t, int32_t p) {
    if (!t->has_given_up || !t->pages[p].n_children) return;
    for (int32_t child = order_first_child(t, p, t->pages[p].root); child >= 0;) {
        const int32_t next = t->pages[child].after;
        if (t->pages[child].n_refs && is_whole(&t->pages[child]))
            make_orphan(t, child);
        else if (t->pages[child].n_refs)
            pages_cut(t, child, 0);
        child = next >= 0 && t->pages[next].parent == p ? next : -1;
    }
}

void pages_give(page_table *t, int32_t p) {
    page *at = &t->pages[p];
    assert(at->n_refs > 0);
    if (--at->n_refs == 1) t->stats.shared--;
    if (at->n_refs) return;
    t->stats.used--;
    pages_leave_children(t, p);
    make_cached(t, p);
}
