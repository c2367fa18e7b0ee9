/* bpe_sweep.c — merging of long rows that repeat themselves: all pairs of the lowest rank in one pass over the row.
 *
 * A megabyte of spaces becomes half a megabyte of double spaces, then a quarter ... ; each pass reads and writes the
 * row in order, which costs far less than the queues of bpe_long.c. The order of the definition is kept: a pass stops
 * merging where it made a pair that would have to go first (a lower rank, or the same rank further left). A row that
 * does not shrink by an eighth is left to the queues: so all passes together are at most eight times the row. */
#include "bpe_seen.h"

enum { SHRINKS_BY = 8, LONG_ROW = 256 };

typedef struct sweep {
    bpe_seen seen;
    int32_t *ids;
    uint32_t *ranks; /* of the pair that begins at each place */
    size_t n;
    uint32_t lowest; /* of all ranks ... */
    size_t n_lowest; /* ... and how many pairs have it */
} sweep;

static uint32_t rank_of(sweep *s, int32_t left, int32_t right) {
    const bpe_merge *merge = bpe_seen_find(&s->seen, left, right)->merge;
    return merge ? merge->rank : BPE_NO_RANK;
}

static void note_rank(sweep *s, uint32_t rank) {
    if (rank > s->lowest) return;
    if (rank < s->lowest) s->lowest = rank, s->n_lowest = 0;
    s->n_lowest++;
}

static void rank_all(sweep *s) {
    s->lowest = BPE_NO_RANK;
    s->n_lowest = 0;
    for (size_t i = 0; i + 1 < s->n; i++) {
        s->ranks[i] = rank_of(s, s->ids[i], s->ids[i + 1]);
        note_rank(s, s->ranks[i]);
    }
}

/* Merges the pairs of the lowest rank from left to right. What is done lies before `to`; `id` is the symbol in hand,
 * `rank` that of its pair with the one at `from`. */
static void merge_lowest(sweep *s) {
    const uint32_t target = s->lowest;
    bool stopped = false;
    size_t to = 0, from = 1;
    int32_t id = s->ids[0];
    uint32_t rank = s->ranks[0];
    s->lowest = BPE_NO_RANK;
    s->n_lowest = 0;
    while (from < s->n) {
        if (rank == target && !stopped) {
            id = bpe_seen_find(&s->seen, id, s->ids[from++])->merge->id;
            rank = from < s->n ? rank_of(s, id, s->ids[from]) : BPE_NO_RANK;
            if (to) s->ranks[to - 1] = rank_of(s, s->ids[to - 1], id);
            stopped = rank < target || (to && s->ranks[to - 1] <= target);
            continue;
        }
        if (to) note_rank(s, s->ranks[to - 1]); /* it cannot change any more */
        s->ids[to] = id;
        s->ranks[to++] = rank;
        id = s->ids[from];
        rank = from + 1 < s->n ? s->ranks[from] : BPE_NO_RANK;
        from++;
    }
    if (to) note_rank(s, s->ranks[to - 1]);
    s->ids[to++] = id;
    s->n = to;
}

bool bpe_sweep(const bpe *b, int32_t *ids, size_t *n) {
    if (*n < LONG_ROW) return true;
    sweep s = {.ids = ids, .n = *n, .ranks = mem_array(*n, sizeof *s.ranks)};
    if (!s.ranks) return false;
    bpe_seen_start(&s.seen, b);
    rank_all(&s);
    for (size_t before = s.n * 2; s.n >= LONG_ROW && s.lowest != BPE_NO_RANK && s.n_lowest >= s.n / SHRINKS_BY &&
                                  before - s.n >= before / SHRINKS_BY;) {
        before = s.n;
        merge_lowest(&s);
    }
    mem_free(s.ranks);
    *n = s.n;
    return true;
}
