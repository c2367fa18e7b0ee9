/* page_chain.c — the pages of one sequence: what it takes over, computes, offers and gives back.
 *
 * Called by gen/ around each step of the model. Whole pages are shared by reference; the page that is written next is
 * never shared. The tricky part is that a chain always refers to the one offered page with its ids: when it fills a
 * page that somebody has filled before, it takes that one instead. So a page's parent is the page before it in every
 * chain that holds it. */
#include "page_table.h"
#include "base/mem.h"
#include <assert.h>

enum { LEAST_RUN = 2 }; /* tokens that are worth a copy */

static int pages_for(int64_t tokens) { return (int)((tokens + DEV_PAGE_TOKENS - 1) / DEV_PAGE_TOKENS); }

void chain_open(chain *out, page_table *t, uint64_t root) { *out = (chain){.table = t, .root = root}; }

/* Of use to nobody: what is before it has been given up, and nobody has gone on behind it. */
static bool is_lost(const chain *c, int32_t p) {
    const page *at = &c->table->pages[p];
    const int32_t first = c->pages[c->n_given_up];
    return c->table->pages[first].parent == page_orphaned(first) && at->n_refs == 1 && !at->n_children;
}

/* From the last to the first: parents become younger than their children. */
static void give_from(chain *c, int keep) {
    while (c->n_pages > keep) {
        const int32_t p = c->pages[c->n_pages - 1];
        if (is_lost(c, p)) pages_cut(c->table, p, 0);
        pages_give(c->table, p);
        c->n_pages--;
    }
}

void chain_close(chain *c) {
    if (c->table) give_from(c, c->n_given_up);
    mem_free(c->pages);
    *c = (chain){0};
}

void chain_make_private(chain *c) { c->is_private = true; }

/* Room in the list, not pages. */
static bool grow(chain *c, int n_pages) {
    const int most = c->table->n_pages + c->n_given_up;
    if (n_pages <= c->capacity) return true;
    if (n_pages > most) return false;
    const int capacity = n_pages > most / 2 ? most : 2 * n_pages;
    int32_t *pages = mem_resize(c->pages, (size_t)capacity, sizeof *pages);
    if (!pages) return false;
    c->pages = pages;
    c->capacity = capacity;
    return true;
}

static int32_t parent_at(const chain *c, int i) { return i ? c->pages[i - 1] : -1; }

static hash_pair hash_at(const chain *c, int i, const int32_t *ids) {
    const hash_pair before = i ? c->table->pages[c->pages[i - 1]].hash : (hash_pair){c->root, 0};
    return c->table->hash(before, ids);
}

static spill_key spill_key_at(const chain *c, int i, const int32_t *ids, hash_pair hash) {
    return (spill_key){hash, i ? c->table->pages[c->pages[i - 1]].serial : 0, c->root, ids};
}

/* ---- taking over ---- */

/* Page i is p from now on, which this chain already holds. */
static void put(chain *c, int i, int32_t p) {
    if (i < c->n_pages)
        pages_give(c->table, c->pages[i]);
    else
        c->n_pages = i + 1;
    c->pages[i] = p;
}

/* An empty page of its own as page i. */
static bool own(chain *c, int i) {
    if (i < c->n_pages) return true;
    const int32_t p = pages_take(c->table);
    if (p >= 0) put(c, i, p);
    return p >= 0;
}

/* Page i out of the second tier. */
static bool restore(chain *c, int i, const int32_t *ids, hash_pair hash) {
    page_table *t = c->table;
    const spill_key key = spill_key_at(c, i, ids, hash);
    const int slot = t->spill ? spill_find(t->spill, &key) : -1;
    if (slot < 0) return false;
    const uint64_t serial = spill_serial(t->spill, slot);
    spill_pin(t->spill, slot);
    if (!own(c, i)) return spill_unpin(t->spill, slot), false;
    spill_load(t->spill, slot, c->pages[i]);
    pages_offer_whole(t, c->pages[i], parent_at(c, i), c->root, ids, hash, serial);
    t->stats.restored++;
    return true;
}

static bool reuse_page(chain *c, int i, const int32_t *ids) {
    if (!grow(c, i + 1)) return false;
    const hash_pair hash = hash_at(c, i, ids);
    const int32_t p = map_find(c->table, hash, parent_at(c, i), c->root, ids);
    if (p < 0) return restore(c, i, ids, hash);
    pages_hold(c->table, p);
    put(c, i, p);
    return true;
}

int64_t chain_reuse_whole(chain *c, const int32_t *ids, int64_t n) {
    if (c->is_private || c->length % DEV_PAGE_TOKENS) return 0;
    const int64_t before = c->length;
    while (n - c->length >= DEV_PAGE_TOKENS && reuse_page(c, pages_for(c->length), ids + c->length))
        c->length += DEV_PAGE_TOKENS;
    return c->length - before;
}

/* Page i begins like the page `from`, of which this chain holds a reference. */
static bool copy_page(chain *c, int i, int32_t from, const int32_t *ids, int n, page_copy *copy) {
    page_table *t = c->table;
    if (!own(c, i)) return false;
    pages_offer(t, c->pages[i], parent_at(c, i), c->root, ids, n);
    *copy = (page_copy){from, c->pages[i], n};
    return true;
}

/* The longest beginning of ids[0 .. n) that some page has behind this chain's last one. */
static int reuse_part(chain *c, const int32_t *ids, int n, page_copy *copy) {
    page_table *t = c->table;
    const int i = pages_for(c->length);
    int32_t from;
    const int run = order_longest(t, parent_at(c, i), c->root, ids, n, &from);
    if (run < LEAST_RUN || !grow(c, i + 1)) return 0;
    const page *at = &t->pages[from];
    const bool fits_exactly = !at->n_refs && at->n_tokens == run; /* nobody's, and all of it is wanted */
    pages_hold(t, from);
    if (!fits_exactly && copy_page(c, i, from, ids, run, copy)) {
        pages_give(t, from);
        return run;
    }
    if (at->n_refs > 1) return pages_give(t, from), 0;
    pages_cut(t, from, run); /* the last page that could be had: it serves as it is */
    put(c, i, from);
    return run;
}

int64_t chain_reuse(chain *c, const int32_t *ids, int64_t n, page_copy *copy) {
    *copy = (page_copy){0};
    if (c->is_private || c->length % DEV_PAGE_TOKENS || n - c->length < 2) return 0;
    const int64_t gained = chain_reuse_whole(c, ids, n - 1), left = n - 1 - c->length;
    const int most = left < DEV_PAGE_TOKENS ? (int)left : DEV_PAGE_TOKENS - 1; /* a whole page is never copied */
    const int part = reuse_part(c, ids + c->length, most, copy);
    c->length += part;
    return gained + part;
}

/* ---- room ---- */

qp_status chain_reserve(chain *c, int64_t tokens, qp_error *err) {
    const page_table *t = c->table;
    if (pages_for(tokens) - c->n_given_up > t->n_pages)
        return err_set(err, QP_TOO_LARGE, 0, "%lld tokens do not fit into a cache of %lld tokens", (long long)tokens,
                       (long long)t->n_pages * DEV_PAGE_TOKENS);
    const int need = pages_for(tokens), more = need - c->n_pages;
    if (more <= 0) return QP_OK;
    if (more > pages_available(t))
        return err_set(err, QP_BUSY, 0, "%d pages of the cache are needed, %d of %d can be had", more,
                       pages_available(t), t->n_pages);
    if (!grow(c, need)) return err_no_memory(err, (size_t)need * sizeof *c->pages, "a list of pages");
    while (c->n_pages < need) own(c, c->n_pages);
    return QP_OK;
}

/* ---- going on and going back ---- */

/* Page i is whole now: it is offered to all, or given back where it is not the first of its kind. */
static void fill_page(chain *c, int i, const int32_t *ids) {
    page_table *t = c->table;
    const hash_pair hash = hash_at(c, i, ids);
    const int32_t same = map_find(t, hash, parent_at(c, i), c->root, ids);
    if (same >= 0) {
        pages_hold(t, same);
        pages_cut(t, c->pages[i], 0);
        put(c, i, same);
        return;
    }
    const spill_key key = spill_key_at(c, i, ids, hash);
    const int slot = t->spill ? spill_find(t->spill, &key) : -1;
    const uint64_t serial = slot >= 0 ? spill_serial(t->spill, slot) : pages_next_serial(t);
    if (slot >= 0) spill_drop(t->spill, slot);
    pages_offer_whole(t, c->pages[i], parent_at(c, i), c->root, ids, hash, serial);
}

/* As far as page i goes. */
static void advance_page(chain *c, const int32_t *ids, int64_t length) {
    const int i = (int)(c->length / DEV_PAGE_TOKENS);
    const int64_t begin = (int64_t)i * DEV_PAGE_TOKENS, left = length - begin;
    if (left < DEV_PAGE_TOKENS) {
        pages_offer(c->table, c->pages[i], parent_at(c, i), c->root, ids + begin, (int)left);
        c->length = length;
    } else {
        fill_page(c, i, ids + begin);
        c->length = begin + DEV_PAGE_TOKENS;
    }
}

void chain_advance(chain *c, const int32_t *ids, int64_t length) {
    assert(length >= c->length && length <= (int64_t)c->n_pages * DEV_PAGE_TOKENS);
    while (!c->is_private && c->length < length) advance_page(c, ids, length);
    c->length = length;
}

int chain_give_up(chain *c, int64_t position) {
    const int before = pages_available(c->table), last = (int)(c->length / DEV_PAGE_TOKENS) - 2;
    while (c->n_given_up < last && (int64_t)(c->n_given_up + 1) * DEV_PAGE_TOKENS <= position) {
        c->table->has_given_up = true;
        pages_give(c->table, c->pages[c->n_given_up]);
        c->pages[c->n_given_up++] = -1;
    }
    return pages_available(c->table) - before;
}

/* Whether a page can be had once the pages from `keep` on are given back. */
static bool will_have_page(const chain *c, int keep) {
    for (int i = keep; i < c->n_pages; i++)
        if (c->table->pages[c->pages[i]].n_refs == 1) return true;
    return pages_available(c->table) > 0;
}

/* The last page is offered as a whole: the chain goes on in one of its own that begins like it. */
static void leave_page(chain *c, int n_tokens, page_copy *copy) {
    page_table *t = c->table;
    const int last = c->n_pages - 1;
    const int32_t old = c->pages[last], p = pages_take(t);
    if (p < 0) { /* nobody else has it (see chain_rewind) and there is no room for both */
        pages_leave_children(t, old);
        pages_cut(t, old, n_tokens);
        return;
    }
    pages_offer(t, p, parent_at(c, last), c->root, t->ids[old], n_tokens);
    *copy = (page_copy){old, p, n_tokens};
    put(c, last, p);
}

qp_status chain_rewind(chain *c, int64_t length, page_copy *copy, qp_error *err) {
    assert(length >= chain_least(c) && length <= c->length);
    *copy = (page_copy){0};
    const int keep = pages_for(length), slot = (int)(length % DEV_PAGE_TOKENS);
    const page *cut = slot ? &c->table->pages[c->pages[keep - 1]] : NULL;
    const bool is_whole = cut && cut->n_tokens == DEV_PAGE_TOKENS;
    if (is_whole && cut->n_refs > 1 && !will_have_page(c, keep))
        return err_set(err, QP_BUSY, 0, "a page of the cache is needed to go back to token %lld, others hold all %d",
                       (long long)length, c->table->n_pages);
    give_from(c, keep);
    if (is_whole)
        leave_page(c, slot, copy);
    else if (cut)
        pages_cut(c->table, c->pages[keep - 1], slot);
    c->length = length;
    return QP_OK;
}
