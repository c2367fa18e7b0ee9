/* pages_model_test.c — random operations on chains against a plain model that knows which tokens every slot of every
 * page stands for.
 *
 * The store is an array of fingerprints: slot s of a page holds the fingerprint of all tokens up to that one. The test
 * writes and copies them as the engine would, and each chain must always read exactly its own. Episodes differ in the
 * size of the table (one page to a few hundred), the second tier, the hash (also ones that collide always) and where
 * counters begin. After every operation the whole table is looked through.
 *
 *     pages_model_test [OPERATIONS [SEED]]      usually 100,000 of them */
#include "page_table.h"
#include "harness.h"
#include "base/mem.h"
#include "base/rng.h"
#include <inttypes.h>

enum {
    P = DEV_PAGE_TOKENS,
    MOST_PAGES = 300,
    MOST_CHAINS = 14,
    MOST_TOKENS = 10 * P + 30,
    FAMILIES = 3,
    EPISODE = 2000
};

/* ---- the plain model ---- */

typedef struct sequence {
    bool is_open;
    chain chain;
    int n_ids, length;
    int32_t ids[MOST_TOKENS];
    uint64_t prints[MOST_TOKENS];
} sequence;

typedef struct world {
    page_table *table;
    int n_pages, n_chains, most_tokens;
    uint64_t store[MOST_PAGES][P];
    uint64_t orphans[MOST_PAGES]; /* fingerprint before a page that may become an orphan */
    sequence all[MOST_CHAINS];
    uint64_t seed, drawn;
    int episode, operation;
    uint64_t gained, copies, moves, busy, given_up; /* how much was tried: printed at the end */
} world;

static long n_operations = 100000;
static uint64_t first_seed = 1;

#define HOLDS(w, condition)                                                                                            \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_msg("seed %" PRIu64 " (episode %d), operation %d: not so: %s", (w)->seed, (w)->episode,               \
                     (w)->operation, #condition);                                                                      \
    } while (0)

static uint64_t draw64(world *w) {
    uint32_t r[4];
    rng_philox(w->seed, 0, w->drawn++, r);
    return (uint64_t)r[0] << 32 | r[1];
}
static int draw(world *w, int n) { return (int)(draw64(w) % (uint64_t)n); }

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

static uint64_t print_after(uint64_t before, int32_t id) { return mix(before * 31 + (uint32_t)id + 1); }

static uint64_t first_print(uint64_t root) { return mix(root + 77); }

/* ids[from .. n) out of few families, so that sequences agree for a while and part at any place. */
static void write_ids(world *w, sequence *s, int from, int n) {
    int family = draw(w, FAMILIES), next = from + draw(w, 3 * P);
    for (int p = from; p < n; p++) {
        if (p >= next) {
            family = draw(w, FAMILIES);
            next = draw(w, 2) ? p + 1 + draw(w, 2 * P) : (p / P + 1) * P + draw(w, 5) - 2;
            if (next <= p) next = p + 1;
        }
        s->ids[p] = (int32_t)(mix((uint64_t)family << 32 | (unsigned)p) % 3);
        s->prints[p] = print_after(p ? s->prints[p - 1] : first_print(s->chain.root), s->ids[p]);
    }
    s->n_ids = n;
}

static void run_copy(world *w, const page_copy *copy) {
    if (!copy->n_tokens) return;
    HOLDS(w, copy->n_tokens > 0 && copy->n_tokens < P && copy->from != copy->to);
    memcpy(w->store[copy->to], w->store[copy->from], (size_t)copy->n_tokens * sizeof *w->store[0]);
    w->copies++;
}

static void save(void *user, int32_t p, void *to) { memcpy(to, ((world *)user)->store[p], sizeof(uint64_t[P])); }
static void load(void *user, int32_t p, const void *from) {
    memcpy(((world *)user)->store[p], from, sizeof(uint64_t[P]));
}

/* ---- what must hold ---- */

static void check_reads(world *w, const sequence *s) {
    HOLDS(w, s->chain.length == s->length && s->chain.n_pages * P >= s->length);
    for (int k = 0; k < s->chain.n_given_up; k++) HOLDS(w, s->chain.pages[k] == -1);
    for (int p = s->chain.n_given_up * P; p < s->length; p++)
        HOLDS(w, w->store[s->chain.pages[p / P]][p % P] == s->prints[p]);
}

/* Behind the page before it; where that was given up, behind one that somebody uses, or it is an orphan. */
static void check_parent(world *w, const chain *c, int k) {
    const page *at = &w->table->pages[c->pages[k]];
    if (!at->n_tokens) return;
    if (!k || k > c->n_given_up)
        HOLDS(w, at->parent == (k ? c->pages[k - 1] : -1));
    else
        HOLDS(w, at->parent >= 0 ? w->table->pages[at->parent].n_refs > 0 : at->parent == page_orphaned(c->pages[k]));
}

static void check_references(world *w) {
    static int refs[MOST_PAGES], children[MOST_PAGES];
    const page_table *t = w->table;
    memset(refs, 0, sizeof refs);
    memset(children, 0, sizeof children);
    for (int i = 0; i < w->n_chains; i++)
        for (int k = w->all[i].chain.n_given_up; w->all[i].is_open && k < w->all[i].chain.n_pages; k++) {
            const chain *c = &w->all[i].chain;
            const int32_t p = c->pages[k];
            HOLDS(w, p >= 0 && p < w->n_pages);
            refs[p]++;
            check_parent(w, c, k);
        }
    uint64_t used = 0, shared = 0;
    for (int p = 0; p < w->n_pages; p++) {
        HOLDS(w, t->pages[p].n_refs == refs[p]);
        used += refs[p] > 0;
        shared += refs[p] > 1;
        if (refs[p] > 1) HOLDS(w, t->pages[p].n_tokens == P);
        if (t->pages[p].n_tokens && t->pages[p].parent >= 0) children[t->pages[p].parent]++;
    }
    for (int p = 0; p < w->n_pages; p++) {
        HOLDS(w, t->pages[p].n_children == children[p]);
        if (children[p]) HOLDS(w, t->pages[p].n_tokens == P);
    }
    const page_stats *s = &t->stats;
    HOLDS(w, s->used == used && s->shared == shared && s->pages == (uint64_t)w->n_pages);
    HOLDS(w, s->used + s->cached + s->free == s->pages);
    HOLDS(w, pages_available(t) == w->n_pages - (int)used);
}

/* Each page that nobody uses is on the stack or in the list, and there after all its children. */
static void check_lists(world *w) {
    static int place[MOST_PAGES];
    const page_table *t = w->table;
    uint64_t n_free = 0, n_cached = 0;
    memset(place, 0, sizeof place);
    for (int32_t p = t->free; p >= 0; p = t->pages[p].older) {
        HOLDS(w, !place[p] && !t->pages[p].n_refs && !t->pages[p].n_tokens);
        place[p] = -1;
        HOLDS(w, ++n_free <= (uint64_t)w->n_pages);
    }
    int32_t last = -1;
    for (int32_t p = t->oldest; p >= 0; p = t->pages[p].newer) {
        HOLDS(w, !place[p] && !t->pages[p].n_refs && t->pages[p].n_tokens > 1 && t->pages[p].older == last);
        place[p] = (int)++n_cached;
        last = p;
    }
    HOLDS(w, t->newest == last && t->stats.free == n_free && t->stats.cached == n_cached);
    for (int p = 0; p < w->n_pages; p++) {
        const int32_t parent = t->pages[p].n_tokens ? t->pages[p].parent : -1;
        HOLDS(w, (place[p] == 0) == (t->pages[p].n_refs > 0));
        if (parent >= 0 && place[p] > 0 && place[parent] != 0) HOLDS(w, place[parent] > place[p]);
        if (parent >= 0 && place[p] == 0) HOLDS(w, place[parent] == 0);
    }
}

/* The tree read from left to right is the linked order and has all offered pages. */
static int32_t check_tree(world *w, int32_t top, int32_t before, int *count, int depth) {
    const page_table *t = w->table;
    if (top < 0) return before;
    HOLDS(w, depth < 60);
    const page *at = &t->pages[top];
    before = check_tree(w, at->left, before, count, depth + 1);
    HOLDS(w, at->before == before && at->n_tokens > 0);
    if (before >= 0) HOLDS(w, t->pages[before].after == top);
    ++*count;
    return check_tree(w, at->right, top, count, depth + 1);
}

static int common(const page_table *t, int32_t a, int32_t b) {
    const page *x = &t->pages[a], *y = &t->pages[b];
    int n = 0;
    if (x->parent != y->parent || x->root != y->root) return 0;
    while (n < x->n_tokens && n < y->n_tokens && t->ids[a][n] == t->ids[b][n]) n++;
    return n;
}

static void check_index(world *w) {
    const page_table *t = w->table;
    int in_tree = 0, offered = 0, whole = 0, in_map = 0;
    const int32_t last = check_tree(w, t->order, -1, &in_tree, 0);
    if (last >= 0) HOLDS(w, t->pages[last].after == -1 && !t->pages[last].n_same);
    for (int p = 0; p < w->n_pages; p++) {
        const page *at = &t->pages[p];
        offered += at->n_tokens > 0;
        whole += at->n_tokens == P;
        if (at->n_tokens == P) HOLDS(w, map_find(t, at->hash, at->parent, at->root, t->ids[p]) == p);
        if (at->n_tokens == P) HOLDS(w, at->serial != 0);
        if (at->n_tokens && at->after >= 0) HOLDS(w, at->n_same == common(t, p, at->after));
        if (at->n_tokens && at->after >= 0 && at->n_same) { /* shorter ones first, then by the ids that differ */
            const page *next = &t->pages[at->after];
            if (at->n_same < at->n_tokens) {
                HOLDS(w, at->n_same < next->n_tokens);
                HOLDS(w, t->ids[p][at->n_same] < t->ids[at->after][at->n_same]);
            }
        }
    }
    for (uint64_t b = 0; b <= t->bucket_mask; b++)
        for (int32_t p = t->buckets[b]; p >= 0; p = t->pages[p].next_in_bucket) HOLDS(w, ++in_map <= w->n_pages);
    HOLDS(w, in_tree == offered && in_map == whole);
}

static uint64_t last_print(const world *w, const page *at) {
    if (at->parent == page_orphaned((int32_t)(at - w->table->pages))) return w->orphans[at - w->table->pages];
    return at->parent >= 0 ? w->store[at->parent][P - 1] : first_print(at->root);
}

/* What is offered is there: each page's fingerprints follow from its ids and from its parent's. */
static void check_offers(world *w) {
    for (int p = 0; p < w->n_pages; p++) {
        const page *at = &w->table->pages[p];
        uint64_t print = at->n_tokens ? last_print(w, at) : 0;
        for (int i = 0; i < at->n_tokens; i++) {
            print = print_after(print, w->table->ids[p][i]);
            HOLDS(w, w->store[p][i] == print);
        }
    }
}

static void check_all(world *w, const sequence *touched) {
    check_references(w);
    check_lists(w);
    if (touched && touched->is_open) check_reads(w, touched);
    if (w->operation % 8 == 0 || w->n_pages < 20) check_index(w);
    if (w->operation % 64) return;
    check_offers(w);
    for (int i = 0; i < w->n_chains; i++)
        if (w->all[i].is_open) check_reads(w, &w->all[i]);
}

/* ---- operations ---- */

/* The whole page behind `parent` with these ids, by looking at all of them. */
static int32_t find_slowly(const world *w, int32_t parent, uint64_t root, const int32_t *ids) {
    for (int p = 0; p < w->n_pages; p++) {
        const page *at = &w->table->pages[p];
        if (at->n_tokens == P && at->parent == parent && at->root == root &&
            !memcmp(w->table->ids[p], ids, sizeof(int32_t[P])))
            return p;
    }
    return -1;
}

/* What chain_reuse should gain without a second tier. */
static int gain_slowly(const world *w, const sequence *s) {
    int length = s->length, longest = 0;
    if (s->chain.is_private || length % P) return 0;
    int32_t parent = length ? s->chain.pages[length / P - 1] : -1;
    for (int32_t p; s->n_ids - 1 - length >= P; length += P, parent = p)
        if ((p = find_slowly(w, parent, s->chain.root, s->ids + length)) < 0) break;
    for (int p = 0; p < w->n_pages; p++) {
        const page *at = &w->table->pages[p];
        if (!at->n_tokens || at->parent != parent || at->root != s->chain.root) continue;
        int n = 0;
        while (n < at->n_tokens && length + n < s->n_ids - 1 && w->table->ids[p][n] == s->ids[length + n]) n++;
        if (n > longest) longest = n;
    }
    return length - s->length + (longest > 1 ? longest : 0);
}

static void reuse(world *w, sequence *s) {
    page_copy copy;
    const int expected = gain_slowly(w, s), whole = expected / P * P;
    const bool has_page = s->chain.n_pages > (s->length + whole) / P || pages_available(w->table) > 0;
    const uint64_t restored = w->table->stats.restored;
    const int64_t gained = chain_reuse(&s->chain, s->ids, s->n_ids, &copy);
    run_copy(w, &copy);
    HOLDS(w, s->length + gained < s->n_ids || !gained);
    if (w->table->stats.restored == restored) { /* pages taken over by reference may have been the last to be had */
        HOLDS(w, gained == expected || (gained == whole && !pages_available(w->table)));
        if (has_page && !whole) HOLDS(w, gained == expected);
    }
    s->length += (int)gained;
    w->gained += (uint64_t)gained;
}

static void reserve(world *w, sequence *s) {
    qp_error err = {0};
    const int tokens = s->length + draw(w, s->n_ids - s->length + 1), before = s->chain.n_pages;
    const int more = (tokens + P - 1) / P - before, can = pages_available(w->table);
    const qp_status status = chain_reserve(&s->chain, tokens, &err);
    const qp_status expected = (tokens + P - 1) / P - s->chain.n_given_up > w->n_pages ? QP_TOO_LARGE
                               : more > can                                            ? QP_BUSY
                                                                                       : QP_OK;
    HOLDS(w, status == expected);
    HOLDS(w, s->chain.n_pages == (status == QP_OK && more > 0 ? before + more : before));
    if (status != QP_OK) HOLDS(w, pages_available(w->table) == can && err.text[0]);
    w->busy += status == QP_BUSY;
}

/* Computes tokens up to `length`: only ever into pages that nobody else holds and that are not offered as a whole. */
static void write_to(world *w, sequence *s, int length) {
    for (int p = s->length; p < length; p++) {
        const int32_t at = s->chain.pages[p / P];
        if (p == s->length || p % P == 0) HOLDS(w, w->table->pages[at].n_refs == 1 && w->table->pages[at].n_tokens < P);
        if (s->chain.is_private) HOLDS(w, w->table->pages[at].n_tokens <= p % P);
        w->store[at][p % P] = s->prints[p];
    }
}

static int some_length(world *w, const sequence *s) {
    const int room = s->chain.n_pages * P < s->n_ids ? s->chain.n_pages * P : s->n_ids, left = room - s->length;
    if (left <= 0) return s->length;
    return s->length + (draw(w, 3) ? 1 + draw(w, left) : draw(w, 2) ? 1 : left);
}

static void advance(world *w, sequence *s) {
    const int length = some_length(w, s);
    write_to(w, s, length);
    chain_advance(&s->chain, s->chain.is_private ? NULL : s->ids, length);
    s->length = length;
}

/* Several chains in one step of the model: all write before any of them is told of it. */
static void advance_all(world *w) {
    int lengths[MOST_CHAINS];
    for (int i = 0; i < w->n_chains; i++)
        if (w->all[i].is_open) write_to(w, &w->all[i], lengths[i] = some_length(w, &w->all[i]));
    for (int i = 0; i < w->n_chains; i++)
        if (w->all[i].is_open) chain_advance(&w->all[i].chain, w->all[i].ids, w->all[i].length = lengths[i]);
    for (int i = 0; i < w->n_chains; i++)
        if (w->all[i].is_open) check_reads(w, &w->all[i]);
}

static void rewind_some(world *w, sequence *s) {
    page_copy copy;
    qp_error err = {0};
    const int least = (int)chain_least(&s->chain), room = s->length - least;
    const int length = s->length - draw(w, 1 + (room > 4 && draw(w, 2) ? 4 : room));
    const int can = pages_available(w->table), before = s->chain.n_pages;
    const qp_status status = chain_rewind(&s->chain, length, &copy, &err);
    if (status != QP_OK) {
        HOLDS(w, status == QP_BUSY && !can && s->chain.n_pages == before && s->chain.length == s->length);
        for (int i = length / P; i < before; i++) HOLDS(w, w->table->pages[s->chain.pages[i]].n_refs > 1);
        return;
    }
    run_copy(w, &copy);
    w->moves += copy.n_tokens > 0;
    s->length = length;
    HOLDS(w, s->chain.n_pages == (length + P - 1) / P);
    if (draw(w, 2)) write_ids(w, s, length, s->n_ids > length ? s->n_ids : length + 1);
}

/* A position that it will not look back to; half the time one that is too near. */
static void give_up_some(world *w, sequence *s) {
    const int before = s->chain.n_given_up, position = draw(w, s->length + 1), can = pages_available(w->table);
    for (int p = 0; p < w->n_pages; p++)
        if (w->table->pages[p].n_tokens && w->table->pages[p].parent > -2)
            w->orphans[p] = last_print(w, &w->table->pages[p]);
    const int gained = chain_give_up(&s->chain, position);
    const int whole = s->length / P - 2, most = position / P < whole ? position / P : whole;
    HOLDS(w, s->chain.n_given_up == (most > before ? most : before));
    HOLDS(w, gained == pages_available(w->table) - can && gained <= s->chain.n_given_up - before);
    w->given_up += (uint64_t)(s->chain.n_given_up - before);
}

static void open_some(world *w, sequence *s) {
    *s = (sequence){.is_open = true};
    chain_open(&s->chain, w->table, (uint64_t)draw(w, 2));
    write_ids(w, s, 0, 1 + draw(w, w->most_tokens));
    if (draw(w, 8) == 0) chain_make_private(&s->chain);
    if (draw(w, 4)) reuse(w, s);
}

static void close_some(sequence *s) {
    chain_close(&s->chain);
    s->is_open = false;
}

static void operate(world *w) {
    sequence *s = &w->all[draw(w, w->n_chains)];
    const int what = draw(w, 100);
    if (!s->is_open)
        open_some(w, s);
    else if (what < 15)
        reuse(w, s);
    else if (what < 45)
        reserve(w, s);
    else if (what < 75)
        advance(w, s);
    else if (what < 83)
        rewind_some(w, s);
    else if (what < 85)
        advance_all(w);
    else if (what < 86)
        chain_make_private(&s->chain);
    else if (what < 92)
        give_up_some(w, s);
    else
        close_some(s);
    check_all(w, s);
}

/* ---- episodes ---- */

static hash_pair one_hash(hash_pair before, const int32_t *ids) { return (hash_pair){5, 5}; }
static hash_pair weak_hash(hash_pair before, const int32_t *ids) {
    return (hash_pair){(before.low + (uint64_t)ids[0] + (uint64_t)ids[P - 1]) % 3, 0};
}

static void begin(world *w) {
    static const int sizes[] = {1, 2, 3, 5, 8, 12, 16, 33, 100, MOST_PAGES};
    w->n_pages = sizes[draw(w, 10)];
    w->n_chains = 1 + draw(w, MOST_CHAINS);
    w->most_tokens = 1 + draw(w, w->n_pages < 9 ? (w->n_pages + 1) * P : MOST_TOKENS);
    const page_limits limits = {.first_count = draw(w, 2) ? UINT64_MAX - (uint64_t)draw(w, 300) : 0,
                                .hash = draw(w, 2)   ? NULL
                                        : draw(w, 2) ? one_hash
                                                     : weak_hash};
    assert_int_equal(pages_open(&w->table, w->n_pages, &limits, NULL), QP_OK);
    const page_mover mover = {save, load, w, sizeof(uint64_t[P])};
    const uint64_t slot = sizeof(uint64_t[P]) + sizeof(int32_t[P]) + 256;
    if (draw(w, 2)) assert_int_equal(pages_spill(w->table, slot * (uint64_t)(1 + draw(w, 60)), &mover, NULL), QP_OK);
}

static void end(world *w) {
    for (int i = 0; i < w->n_chains; i++)
        if (w->all[i].is_open) close_some(&w->all[i]);
    check_all(w, NULL);
    HOLDS(w, !w->table->stats.used && pages_available(w->table) == w->n_pages);
    pages_close(w->table);
}

static void random_operations(void **state) {
    world *w = mem_zarray(1, sizeof *w);
    assert_non_null(w);
    uint64_t evicted = 0, restored = 0;
    for (long done = 0; done < n_operations; w->episode++) {
        w->seed = first_seed + (uint64_t)w->episode;
        w->drawn = 0;
        begin(w);
        const page_stats before = w->table->stats;
        for (w->operation = 0; w->operation < EPISODE && done < n_operations; w->operation++, done++) operate(w);
        evicted += w->table->stats.evicted - before.evicted;
        restored += w->table->stats.restored - before.restored;
        end(w);
    }
    printf("%ld operations: %" PRIu64 " tokens reused, %" PRIu64 " copies (%" PRIu64 " to go back), %" PRIu64
           " evicted, %" PRIu64 " restored, %" PRIu64 " given up, %" PRIu64 " times busy\n",
           n_operations, w->gained, w->copies, w->moves, evicted, restored, w->given_up, w->busy);
    if (n_operations >= 10000)
        assert_true(w->gained && w->copies && w->moves && evicted && restored && w->busy && w->given_up);
    mem_free(w);
}

int main(int argc, char **argv) {
    if (argc > 1) n_operations = atol(argv[1]);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
