/* cpu_attend.c — attention over paged keys and values: what is read by whom, and in which order it is added up.
 *
 * Called through the device's ops; calls the page kernels. A tile is a few consecutive rows of one span times query
 * heads of one KV head: what reads the same keys shares one reading of them. The context is cut into stretches of
 * four pages, by absolute position. Within a stretch a page kernel carries the running maximum, total and sum from
 * page to page; then the stretch is merged into the row's result, stretches ascending.
 *
 * The tricky thing is that a row's bits must not depend on what else there is. A stretch always starts from nothing
 * and is always merged, whether it was computed by the task that merges it or, when a few rows have a long past, by a
 * task of its own (run_parts, merge_parts). The order is the same, so the bits are. */
#include "cpu.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    STRETCH = 4 * DEV_PAGE_TOKENS,
    MOST_QUERIES = 64,
    TILE_FLOATS = 8192,     /* of q, as of every sum: they stay in the second-level cache beside a page's block */
    MOST_HEAD_DIM = 65536,  /* three vectors of it fit the scratch memory */
    MOST_FAST_DIM = 1024,   /* beyond that the blocks of the fast kernels do not */
    KERNEL_FLOATS = 164096, /* scratch that the page kernels get */
    ALONE = 1 << 17,        /* so many products are not worth a second thread */
};
_Static_assert((3 * TILE_FLOATS + KERNEL_FLOATS) * sizeof(float) <= CPU_SCRATCH_BYTES, "a worker's scratch");
_Static_assert(3 * MOST_HEAD_DIM * sizeof(float) <= CPU_SCRATCH_BYTES, "a worker's scratch");

typedef struct job {
    const cpu_device *c;
    const attend_args *a;
    void (*page)(const cpu_attend_page *a);
    int dim, group;               /* query heads of a KV head */
    int tile_rows, tile_heads;    /* of a full tile */
    int head_tiles;               /* tiles side by side in one row */
    int64_t n_tiles, n_stretches; /* of the longest tile */
    size_t part_floats;           /* room for one tile's stretch */
} job;

typedef struct tile {
    const row_span *span;
    int row, n_rows; /* within the span */
    int head, n_heads, kv_head;
    int64_t stretch, end_stretch; /* what its rows see */
} tile;

/* What attention over some of the positions gives, query by query: exp(best) * total and exp(best) * sum. */
typedef struct state {
    float *best, *total; /* [queries] */
    float *sum;          /* [queries][dim] */
} state;

/* ---- who does what ---- */

static int least(int a, int b) { return a < b ? a : b; }

/* The first position that the query at `position` sees. */
static int64_t first_seen(const attend_args *a, int64_t position) {
    return a->window > 0 && position >= a->window ? position - a->window + 1 : 0;
}

static int row_tiles(const job *j, const row_span *span) { return (span->n_rows + j->tile_rows - 1) / j->tile_rows; }

/* Tiles of one head lie side by side, so that threads share what they read; the last rows, which see most, first. */
static tile tile_at(const job *j, int64_t index) {
    const row_span *span = j->a->spans;
    while (index >= (int64_t)row_tiles(j, span) * j->head_tiles) index -= (int64_t)row_tiles(j, span++) * j->head_tiles;
    const int in_row = row_tiles(j, span), per_group = j->head_tiles / j->a->kv.n_kv_heads;
    const int at = (int)(index / in_row), first = at % per_group * j->tile_heads;
    tile t = {.span = span, .row = (in_row - 1 - (int)(index % in_row)) * j->tile_rows, .kv_head = at / per_group};
    t.n_rows = least(j->tile_rows, span->n_rows - t.row);
    t.head = t.kv_head * j->group + first;
    t.n_heads = least(j->tile_heads, j->group - first);
    t.stretch = first_seen(j->a, span->past + t.row) / STRETCH;
    t.end_stretch = (span->past + t.row + t.n_rows - 1) / STRETCH + 1;
    return t;
}

static int64_t width(const job *j) { return (int64_t)j->a->n_heads * j->dim; }

/* ---- one tile ---- */

static void gather_queries(float *q, const job *j, const tile *t) {
    for (int r = 0; r < t->n_rows; r++) {
        const float *from = j->a->q + (t->span->row + t->row + r) * width(j) + (int64_t)t->head * j->dim;
        for (int i = 0; i < t->n_heads * j->dim; i++) *q++ = from[i] * j->a->scale;
    }
}

static void start(state *s, int n_queries, int dim) {
    for (int i = 0; i < n_queries; i++) s->best[i] = -INFINITY;
    memset(s->total, 0, (size_t)n_queries * sizeof(float));
    memset(s->sum, 0, (size_t)n_queries * (size_t)dim * sizeof(float));
}

/* Which slots of the page that begins at `position` each query sees; false where none sees any. */
static bool see(int *begin, int *end, const job *j, const tile *t, int64_t position) {
    bool any = false;
    for (int r = 0; r < t->n_rows; r++) {
        const int64_t last = t->span->past + t->row + r, first = first_seen(j->a, last);
        const int64_t from = first > position ? first - position : 0, to = last + 1 - position;
        const int most = DEV_PAGE_TOKENS;
        const int b = from < most ? (int)from : most, e = to < b ? b : to < most ? (int)to : most;
        for (int h = 0; h < t->n_heads; h++) *begin++ = b, *end++ = e;
        any |= b < e;
    }
    return any;
}

/* The pages of one stretch, ascending. */
static void run_stretch(state *s, const job *j, const tile *t, const float *q, void *scratch, int64_t stretch) {
    const kv_view *kv = &j->a->kv;
    int begin[MOST_QUERIES], end[MOST_QUERIES];
    const size_t size = kv->type == KV_F16 ? 2 : 4;
    const size_t head_at = (size_t)t->kv_head * DEV_PAGE_TOKENS * (size_t)j->dim * size;
    start(s, t->n_rows * t->n_heads, j->dim);
    for (int64_t p = stretch * STRETCH; p < (stretch + 1) * STRETCH; p += DEV_PAGE_TOKENS) {
        if (!see(begin, end, j, t, p)) continue;
        const size_t at = (size_t)t->span->pages[p / DEV_PAGE_TOKENS] * kv->page_stride + head_at;
        j->page(&(cpu_attend_page){.q = q,
                                   .n_queries = t->n_rows * t->n_heads,
                                   .head_dim = j->dim,
                                   .k = kv->k + at,
                                   .v = kv->v + at,
                                   .begin = begin,
                                   .end = end,
                                   .best = s->best,
                                   .total = s->total,
                                   .sum = s->sum,
                                   .scratch = scratch});
    }
}

/* Query `i` of `more`, whose positions follow, into `s`. A stretch that the query did not see changes nothing. */
static void merge_query(state *s, const state *more, int i, int dim) {
    float *sum = s->sum + (size_t)i * (size_t)dim;
    const float *add = more->sum + (size_t)i * (size_t)dim;
    if (more->total[i] == 0) return;
    if (s->total[i] == 0) {
        s->best[i] = more->best[i];
        s->total[i] = more->total[i];
        memcpy(sum, add, (size_t)dim * sizeof(float));
        return;
    }
    const float best = fmaxf(s->best[i], more->best[i]);
    const float old = expf(s->best[i] - best), new = expf(more->best[i] - best);
    s->best[i] = best;
    s->total[i] = s->total[i] * old + more->total[i] * new;
    for (int d = 0; d < dim; d++) sum[d] = sum[d] * old + add[d] * new;
}

static void put(const job *j, const tile *t, const state *s) {
    const float *sum = s->sum;
    for (int i = 0; i < t->n_rows * t->n_heads; i++) {
        const int r = i / t->n_heads, h = t->head + i % t->n_heads;
        float *out = j->a->out + (t->span->row + t->row + r) * width(j) + (int64_t)h * j->dim;
        for (int d = 0; d < j->dim; d++) *out++ = *sum++ / s->total[i];
    }
}

/* ---- tasks ---- */

typedef struct room {
    float *q;
    state merged, stretch;
    float small[4][MOST_QUERIES];
    void *kernel;
} room;

static void make_room(room *m, const job *j, int worker) {
    const size_t each = (size_t)(j->dim > TILE_FLOATS ? j->dim : TILE_FLOATS);
    float *floats = cpu_scratch(j->c, worker);
    m->q = floats;
    m->merged = (state){m->small[0], m->small[1], floats + each};
    m->stretch = (state){m->small[2], m->small[3], floats + 2 * each};
    m->kernel = floats + 3 * each;
}

static void run_tile(void *context, int64_t task, int worker) {
    const job *j = context;
    const tile t = tile_at(j, task);
    room m;
    make_room(&m, j, worker);
    gather_queries(m.q, j, &t);
    start(&m.merged, t.n_rows * t.n_heads, j->dim);
    for (int64_t stretch = t.stretch; stretch < t.end_stretch; stretch++) {
        run_stretch(&m.stretch, j, &t, m.q, m.kernel, stretch);
        for (int i = 0; i < t.n_rows * t.n_heads; i++) merge_query(&m.merged, &m.stretch, i, j->dim);
    }
    put(j, &t, &m.merged);
}

static state part_at(const job *j, const tile *t, int64_t index, int64_t stretch) {
    float *floats = j->c->parts + (size_t)(index * j->n_stretches + stretch - t->stretch) * j->part_floats;
    const size_t n = (size_t)(t->n_rows * t->n_heads);
    return (state){floats, floats + n, floats + 2 * n};
}

static void run_part(void *context, int64_t task, int worker) {
    const job *j = context;
    const int64_t index = task / j->n_stretches;
    const tile t = tile_at(j, index);
    const int64_t stretch = t.stretch + task % j->n_stretches;
    if (stretch >= t.end_stretch) return;
    room m;
    make_room(&m, j, worker);
    gather_queries(m.q, j, &t);
    state part = part_at(j, &t, index, stretch);
    run_stretch(&part, j, &t, m.q, m.kernel, stretch);
}

static void merge_parts(void *context, int64_t task, int worker) {
    const job *j = context;
    const tile t = tile_at(j, task);
    room m;
    make_room(&m, j, worker);
    start(&m.merged, t.n_rows * t.n_heads, j->dim);
    for (int64_t stretch = t.stretch; stretch < t.end_stretch; stretch++) {
        const state part = part_at(j, &t, task, stretch);
        for (int i = 0; i < t.n_rows * t.n_heads; i++) merge_query(&m.merged, &part, i, j->dim);
    }
    put(j, &t, &m.merged);
}

/* ---- the op ---- */

/* How large tiles are: no larger than what there is, so that parts stay small. */
static void cut(job *j) {
    const int fitting = TILE_FLOATS / j->dim, most = fitting < 1 ? 1 : least(fitting, MOST_QUERIES);
    int rows = 1;
    for (int s = 0; s < j->a->n_spans; s++)
        if (j->a->spans[s].n_rows > rows) rows = j->a->spans[s].n_rows;
    j->tile_heads = least(j->group, most);
    j->tile_rows = least(most / j->tile_heads, rows);
    j->head_tiles = (j->group + j->tile_heads - 1) / j->tile_heads * j->a->kv.n_kv_heads;
    j->part_floats = (size_t)(j->tile_rows * j->tile_heads) * (size_t)(j->dim + 2);
}

/* Counts tiles and stretches; returns how many products there are to do. */
static int64_t measure(job *j) {
    int64_t work = 0;
    for (int s = 0; s < j->a->n_spans; s++) {
        const row_span *span = &j->a->spans[s];
        if (span->n_rows < 1) continue;
        const int64_t last = span->past + span->n_rows, first = first_seen(j->a, span->past);
        const int64_t stretches = (last - 1) / STRETCH - first / STRETCH + 1;
        j->n_tiles += (int64_t)row_tiles(j, span) * j->head_tiles;
        if (stretches > j->n_stretches) j->n_stretches = stretches;
        work += (last - first) * span->n_rows * width(j);
    }
    return work;
}

/* Whether the tiles alone would leave threads idle, and the parts have room. */
static bool wants_parts(const job *j) {
    const int64_t fitting = (int64_t)(CPU_PARTS_BYTES / sizeof(float) / j->part_floats);
    return j->n_stretches > 1 && j->c->head.threads > 1 && j->n_tiles < 8 * (int64_t)j->c->head.threads &&
           j->n_stretches <= fitting / j->n_tiles;
}

void cpu_attend(device *d, const attend_args *a) {
    const cpu_device *c = cpu_of(d);
    job j = {.c = c, .a = a, .dim = a->kv.head_dim, .group = a->n_heads / a->kv.n_kv_heads};
    assert(j.dim <= MOST_HEAD_DIM);
    const cpu_attend_ops *kernels = j.dim <= MOST_FAST_DIM ? &c->attend : &cpu_attend_ref;
    j.page = a->kv.type == KV_F16 ? kernels->page_f16 : kernels->page_f32;
    cut(&j);
    const int64_t work = measure(&j);
    if (work <= ALONE) {
        for (int64_t task = 0; task < j.n_tiles; task++) run_tile(&j, task, 0);
    } else if (!wants_parts(&j)) {
        pool_run(c->pool, run_tile, &j, j.n_tiles);
    } else {
        pool_run(c->pool, run_part, &j, j.n_tiles * j.n_stretches);
        pool_run(c->pool, merge_parts, &j, j.n_tiles);
    }
}
