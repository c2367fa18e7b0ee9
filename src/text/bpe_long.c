/* bpe_long.c — merging of long rows: a megabyte of one letter costs as much per byte as prose.
 *
 * Rows that repeat themselves were made short before (bpe_sweep.c). Pairs wait in one queue per rank; a heap of the
 * ranks that have a queue gives the next one. The pairs of a queue are merged from left to right, which is the order of
 * the definition as long as no merge makes a pair of lower rank than the queue's own. If one does, the queue is put
 * back and the lower rank goes first. Queues that lost their order are sorted; a row that needs too much of that is
 * finished by a plain heap of pairs. */
#include "bpe_seen.h"
#include <stdlib.h>

enum { MAX_SORTS = 64 };

typedef struct node {
    int32_t id, prev, next; /* id < 0: merged into its left neighbour */
} node;

typedef struct waiting { /* a pair in a queue: where its left symbol stands */
    int32_t at, next;
} waiting;

typedef struct queue {
    uint32_t rank;
    int32_t first, last; /* into waiting; -1: empty */
    bool is_sorted, in_heap;
} queue;

typedef struct merger {
    bpe_seen seen; /* noting a pair's queue */
    node *nodes;
    waiting *pairs;
    size_t n_pairs, pair_capacity;
    queue *queues;
    size_t n_queues, queue_capacity;
    uint32_t *slots; /* rank -> queue + 1 */
    size_t n_slots;
    uint32_t *heap; /* of queues, lowest rank first */
    size_t n_heap;
    int n_sorts;
    bool failed;
} merger;

static bool grow(void **array, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity) return true;
    const size_t n = *capacity * 2 > need ? *capacity * 2 : need + 64;
    void *at = mem_resize(*array, n, size);
    if (!at) return false;
    *array = at;
    *capacity = n;
    return true;
}

/* ---- the heap of ranks ---- */

static bool heap_less(const merger *m, uint32_t a, uint32_t b) { return m->queues[a].rank < m->queues[b].rank; }

static void heap_push(merger *m, uint32_t q) {
    size_t i = m->n_heap++;
    m->queues[q].in_heap = true;
    for (; i && heap_less(m, q, m->heap[(i - 1) / 2]); i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = q;
}

static uint32_t heap_pop(merger *m) {
    const uint32_t top = m->heap[0], q = m->heap[--m->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= m->n_heap) break;
        if (child + 1 < m->n_heap && heap_less(m, m->heap[child + 1], m->heap[child])) child++;
        if (!heap_less(m, m->heap[child], q)) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = q;
    m->queues[top].in_heap = false;
    return top;
}

/* ---- queues by rank ---- */

static size_t slot_of(const merger *m, uint32_t rank) {
    size_t slot = (rank * 0x9E3779B9u) & (m->n_slots - 1);
    while (m->slots[slot] && m->queues[m->slots[slot] - 1].rank != rank) slot = (slot + 1) & (m->n_slots - 1);
    return slot;
}

static bool grow_slots(merger *m) {
    const size_t n = m->n_slots ? m->n_slots * 2 : 64;
    uint32_t *slots = mem_zarray(n, sizeof *slots), *heap = mem_resize(m->heap, n, sizeof *heap);
    if (heap) m->heap = heap;
    if (!slots || !heap) {
        mem_free(slots);
        return false;
    }
    mem_free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    for (size_t i = 0; i < m->n_queues; i++) m->slots[slot_of(m, m->queues[i].rank)] = (uint32_t)i + 1;
    return true;
}

static queue *queue_of(merger *m, uint32_t rank) {
    if (m->n_queues * 2 >= m->n_slots && !grow_slots(m)) return NULL;
    const size_t slot = slot_of(m, rank);
    if (!m->slots[slot]) {
        if (!grow((void **)&m->queues, &m->queue_capacity, m->n_queues + 1, sizeof *m->queues)) return NULL;
        m->queues[m->n_queues] = (queue){rank, -1, -1, true, false};
        m->slots[slot] = (uint32_t)++m->n_queues;
    }
    return &m->queues[m->slots[slot] - 1];
}

static queue *queue_of_pair(merger *m, bpe_seen_pair *pair) {
    if (pair->note >= 0) return &m->queues[pair->note];
    queue *q = queue_of(m, pair->merge->rank);
    if (q) pair->note = (int32_t)(q - m->queues);
    return q;
}

/* Queues the pair that begins at `at`; returns its rank. */
static uint32_t push_pair(merger *m, int32_t at) {
    const node *left = &m->nodes[at];
    if (left->next < 0) return BPE_NO_RANK;
    bpe_seen_pair *seen = bpe_seen_find(&m->seen, left->id, m->nodes[left->next].id);
    const bpe_merge *merge = seen->merge;
    if (!merge) return BPE_NO_RANK;
    queue *q = queue_of_pair(m, seen);
    if (!q || !grow((void **)&m->pairs, &m->pair_capacity, m->n_pairs + 1, sizeof *m->pairs)) {
        m->failed = true;
        return BPE_NO_RANK;
    }
    const int32_t pair = (int32_t)m->n_pairs++;
    m->pairs[pair] = (waiting){at, -1};
    if (q->first < 0)
        q->first = pair, q->is_sorted = true;
    else {
        if (m->pairs[q->last].at > at) q->is_sorted = false;
        m->pairs[q->last].next = pair;
    }
    q->last = pair;
    if (!q->in_heap) heap_push(m, (uint32_t)(q - m->queues));
    return merge->rank;
}

static int by_position(const void *a, const void *b) {
    const int32_t x = ((const waiting *)a)->at, y = ((const waiting *)b)->at;
    return (x > y) - (x < y);
}

static bool sort_queue(merger *m, queue *q) {
    size_t n = 0;
    for (int32_t i = q->first; i >= 0; i = m->pairs[i].next) n++;
    waiting *row = mem_array(n, sizeof *row);
    if (!row) return false;
    n = 0;
    for (int32_t i = q->first; i >= 0; i = m->pairs[i].next) row[n++] = m->pairs[i];
    qsort(row, n, sizeof *row, by_position);
    n = 0;
    for (int32_t i = q->first; i >= 0; i = m->pairs[i].next) m->pairs[i].at = row[n++].at;
    mem_free(row);
    q->is_sorted = true;
    m->n_sorts++;
    return true;
}

/* ---- merging ---- */

/* Joins the symbol at `at` with the next one; returns the lowest rank of the pairs that this makes. */
static uint32_t join(merger *m, int32_t at, int32_t id) {
    node *left = &m->nodes[at], *right = &m->nodes[left->next];
    left->id = id;
    right->id = -1;
    left->next = right->next;
    if (left->next >= 0) m->nodes[left->next].prev = at;
    const uint32_t before = left->prev >= 0 ? push_pair(m, left->prev) : BPE_NO_RANK;
    const uint32_t after = push_pair(m, at);
    return before < after ? before : after;
}

/* Merges the pairs of one queue until it is empty or a lower rank appears. */
static void drain(merger *m, uint32_t index) {
    const uint32_t rank = m->queues[index].rank;
    while (m->queues[index].first >= 0 && !m->failed) {
        queue *q = &m->queues[index];
        const waiting pair = m->pairs[q->first];
        q->first = pair.next;
        const node *left = &m->nodes[pair.at];
        if (left->id < 0 || left->next < 0) continue;
        const bpe_merge *merge = bpe_seen_find(&m->seen, left->id, m->nodes[left->next].id)->merge;
        if (!merge || merge->rank != rank) continue;
        if (join(m, pair.at, merge->id) < rank || !m->queues[index].is_sorted) break;
    }
    queue *q = &m->queues[index];
    if (q->first >= 0 && !q->in_heap) heap_push(m, index);
}

static void merge_queues(merger *m) {
    while (m->n_heap && !m->failed && m->n_sorts < MAX_SORTS) {
        const uint32_t index = heap_pop(m);
        queue *q = &m->queues[index];
        if (!q->is_sorted && !sort_queue(m, q))
            m->failed = true;
        else
            drain(m, index);
    }
}

/* ---- the plain heap of pairs, for rows that keep disturbing their queues ---- */

typedef struct pair_heap {
    uint64_t *at; /* rank << 32 | position */
    size_t n, capacity;
    bool failed;
} pair_heap;

static void pairs_push(pair_heap *h, uint32_t rank, int32_t position) {
    if (!grow((void **)&h->at, &h->capacity, h->n + 1, sizeof *h->at)) {
        h->failed = true;
        return;
    }
    const uint64_t key = (uint64_t)rank << 32 | (uint32_t)position;
    size_t i = h->n++;
    for (; i && key < h->at[(i - 1) / 2]; i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = key;
}

static uint64_t pairs_pop(pair_heap *h) {
    const uint64_t top = h->at[0], key = h->at[--h->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->n) break;
        if (child + 1 < h->n && h->at[child + 1] < h->at[child]) child++;
        if (h->at[child] >= key) break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = key;
    return top;
}

static void offer(const merger *m, pair_heap *h, int32_t at) {
    const node *left = at < 0 ? NULL : &m->nodes[at];
    const bpe_merge *merge = left && left->next >= 0 ? bpe_find(m->seen.b, left->id, m->nodes[left->next].id) : NULL;
    if (merge) pairs_push(h, merge->rank, at);
}

static void merge_heap(merger *m, int32_t n) {
    pair_heap h = {0};
    for (int32_t i = 0; i < n; i++)
        if (m->nodes[i].id >= 0) offer(m, &h, i);
    while (h.n && !h.failed) {
        const uint64_t top = pairs_pop(&h);
        node *left = &m->nodes[(uint32_t)top];
        if (left->id < 0 || left->next < 0) continue;
        node *right = &m->nodes[left->next];
        const bpe_merge *merge = bpe_find(m->seen.b, left->id, right->id);
        if (!merge || merge->rank != top >> 32) continue;
        left->id = merge->id;
        right->id = -1;
        left->next = right->next;
        if (left->next >= 0) m->nodes[left->next].prev = (int32_t)(uint32_t)top;
        offer(m, &h, left->prev);
        offer(m, &h, (int32_t)(uint32_t)top);
    }
    m->failed = h.failed;
    mem_free(h.at);
}

bool bpe_merge_long(const bpe *b, bpe_scratch *s, int32_t *ids, size_t *count) {
    if (!bpe_sweep(b, ids, count)) return false;
    const int32_t n = (int32_t)*count;
    merger m = {0};
    bpe_seen_start(&m.seen, b);
    if (s->block_bytes < (size_t)n * sizeof(node)) {
        mem_free(s->block);
        s->block = mem_array((size_t)n, sizeof(node));
        s->block_bytes = s->block ? (size_t)n * sizeof(node) : 0;
    }
    if (!s->block) return false;
    m.nodes = s->block;
    for (int32_t i = 0; i < n; i++) m.nodes[i] = (node){ids[i], i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i < n && !m.failed; i++) push_pair(&m, i);
    merge_queues(&m);
    if (m.n_heap && !m.failed) merge_heap(&m, n);
    mem_free(m.pairs);
    mem_free(m.queues);
    mem_free(m.slots);
    mem_free(m.heap);
    if (m.failed) return false;
    *count = 0;
    for (int32_t i = 0; i >= 0; i = m.nodes[i].next) ids[(*count)++] = m.nodes[i].id;
    return true;
}
