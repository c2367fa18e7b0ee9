/* cpu_attend.c — attention over paged keys and values: what is read by whom, and in which order it is added up.
 *
 * Called through the device's ops; calls the page kernels. A tile is a few consecutive rows of one span times query
 * heads of one KV head: what reads the same keys shares one reading of them. Each page gives a result of its own, and
 * a row's pages are merged in ascending order.
 *
 * The tricky thing is that a row's bits must not depend on what else there is, while few rows with a long past must
 * still keep all threads busy. A page's result is always made from nothing and then merged, whether by the task that
 * has the whole tile (run_tile) or, page by page, by many tasks and in the end by one (run_pages, merge_pages). The
 * order is the same, so the bits are. Where the pages' results do not fit the memory for them, this is done in rounds
 * of as many pages as do. */
#include "cpu.h"
#include "dev/kv_quant.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    TILE_FLOATS = 16384,   /* of q, as of every sum: they stay in the second-level cache beside a page's scores */
    LESS = 2,              /* kernels without tiles gain nothing from more than half of it */
    MOST_HEAD_DIM = 65536, /* three vectors of it fit the scratch memory */
    ALONE = 1 << 17,       /* so many products are not worth a second thread */
    PIECES = 8,            /* tasks that each thread should find, so that all end together */
    MOST_TOGETHER = 8,     /* pages in a task */
};
_Static_assert((3 * TILE_FLOATS + CPU_ATTEND_FLOATS) * sizeof(float) <= CPU_SCRATCH_BYTES, "a worker's scratch");
_Static_assert(3 * MOST_HEAD_DIM * sizeof(float) <= CPU_SCRATCH_BYTES, "a worker's scratch");

typedef struct job {
    const cpu_device *c;
    const attend_args *a;
    void (*page)(const cpu_attend_page *a);
    void (*merge)(const cpu_attend_state *s, const cpu_attend_state *more, int n_queries, int v_dim);
    int dim, v_dim, wider;     /* of a key, of a value, of the wider of them */
    int group;                 /* query heads of a KV head */
    int most;                  /* queries of a tile */
    int tile_rows, tile_heads; /* of a full tile */
    int head_tiles;            /* tiles side by side in one row */
    int64_t n_tiles, n_pages;  /* pages of all tiles together */
    int64_t longest;           /* pages of the longest tile */
    size_t part_floats;        /* room for one tile's result of a page */
    /* Not NULL: results are left packed for this kernel, by 16 rows; n_rows in all. */
    const cpu_matmul_kernel *ahead;
    int n_rows;
    /* A round: pages [first, first + round) of each tile, counted from its span's first; `together` in a task. */
    int64_t first, round, together;
} job;

typedef struct tile {
    const row_span *span;
    int row, n_rows; /* within the span */
    int head, n_heads, kv_head;
    int64_t page, end_page; /* what its rows see */
} tile;

/* ---- who does what ---- */

static int least(int a, int b) { return a < b ? a : b; }
static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The first position that the query at `position` sees. */
static int64_t first_seen(const attend_args *a, int64_t position) {
    const int64_t in_window = a->window > 0 && position >= a->window ? position - a->window + 1 : 0;
    return a->chunk > 0 ? greater(in_window, position / a->chunk * a->chunk) : in_window;
}

static int64_t first_page(const job *j, const row_span *span) { return first_seen(j->a, span->past) / DEV_PAGE_TOKENS; }

/* What any row of the span sees. */
static int64_t span_pages(const job *j, const row_span *span) {
    return (span->past + span->n_rows - 1) / DEV_PAGE_TOKENS + 1 - first_page(j, span);
}

static int row_tiles(const job *j, const row_span *span) { return (span->n_rows + j->tile_rows - 1) / j->tile_rows; }
static int64_t span_tiles(const job *j, const row_span *span) { return (int64_t)row_tiles(j, span) * j->head_tiles; }

/* Tiles of one head lie side by side, so that threads share what they read; the last rows, which see most, first. */
static tile tile_in(const job *j, const row_span *span, int64_t index) {
    const int in_row = row_tiles(j, span), per_group = j->head_tiles / j->a->kv.n_kv_heads;
    const int at = (int)(index / in_row), first = at % per_group * j->tile_heads;
    tile t = {.span = span, .row = (in_row - 1 - (int)(index % in_row)) * j->tile_rows, .kv_head = at / per_group};
    t.n_rows = least(j->tile_rows, span->n_rows - t.row);
    t.head = t.kv_head * j->group + first;
    t.n_heads = least(j->tile_heads, j->group - first);
    t.page = first_seen(j->a, span->past + t.row) / DEV_PAGE_TOKENS;
    t.end_page = (span->past + t.row + t.n_rows - 1) / DEV_PAGE_TOKENS + 1;
    return t;
}

static tile tile_at(const job *j, int64_t index) {
    const row_span *span = j->a->spans;
    for (; index >= span_tiles(j, span); span++) index -= span_tiles(j, span);
    return tile_in(j, span, index);
}

static int n_queries(const tile *t) { return t->n_rows * t->n_heads; }

/* ---- one tile ---- */

static void gather_queries(float *q, const job *j, const tile *t) {
    for (int r = 0; r < t->n_rows; r++) {
        const int64_t row = t->span->row + t->row + r;
        const float *from = j->a->q + (row * j->a->n_heads + t->head) * j->dim;
        for (int i = 0; i < t->n_heads * j->dim; i++) q[i] = from[i] * j->a->scale;
        for (int h = 0; h < t->n_heads; h++, q += j->dim)
            if (kv_is_quantised(j->a->kv.type)) kv_rotate_key(&j->a->kv, q);
    }
}

/* Which slots of the page that begins at `position` each query sees. */
static void see(int *begin, int *end, const job *j, const tile *t, int64_t position) {
    for (int r = 0; r < t->n_rows; r++) {
        const int64_t last = t->span->past + t->row + r, first = first_seen(j->a, last);
        const int64_t from = greater(first - position, 0), to = last + 1 - position;
        const int b = (int)lesser(from, DEV_PAGE_TOKENS), e = (int)lesser(greater(to, b), DEV_PAGE_TOKENS);
        for (int h = 0; h < t->n_heads; h++) *begin++ = b, *end++ = e;
    }
}

/* This head's part of page `page` of the tile's sequence, in what has `dim` elements a slot. */
static size_t page_at(const job *j, const tile *t, int64_t page, kv_type type, int dim) {
    const size_t group = (size_t)(t->kv_head * (DEV_PAGE_TOKENS / DEV_KEY_GROUP));
    return (size_t)t->span->pages[page] * j->a->kv.page_stride + group * dev_kv_group_bytes(type, dim);
}

/* One page; `next` will follow, unless it is end. */
static void run_page(const cpu_attend_state *to, const job *j, const tile *t, const float *q, void *scratch,
                     int64_t page, int64_t end) {
    const kv_view *kv = &j->a->kv;
    const kv_type k_type = dev_key_type(kv->type);
    int begins[CPU_ATTEND_QUERIES], ends[CPU_ATTEND_QUERIES];
    see(begins, ends, j, t, page * DEV_PAGE_TOKENS);
    j->page(&(cpu_attend_page){.q = q,
                               .n_queries = n_queries(t),
                               .head_dim = j->dim,
                               .v_dim = j->v_dim,
                               .cap = j->a->cap,
                               .k_type = k_type,
                               .v_type = kv->type,
                               .k = kv->k + page_at(j, t, page, k_type, j->dim),
                               .v = kv->v ? kv->v + page_at(j, t, page, kv->type, j->v_dim) : NULL,
                               .next_k = page + 1 < end ? kv->k + page_at(j, t, page + 1, k_type, j->dim) : NULL,
                               .begin = begins,
                               .end = ends,
                               .to = *to,
                               .scratch = scratch});
}

/* What a query's result is divided by: its weights, and its head's sink, which has a weight but no value. */
static float divisor(const job *j, const cpu_attend_state *s, int i, int head) {
    if (!j->a->sinks) return s->total[i];
    return (float)(s->total[i] + exp((double)j->a->sinks[head] - s->best[i]));
}

/* Sums become results where they are. Where activations are rounded anyhow, a division for each would be the longest
 * part of it. */
static void divide(const job *j, const tile *t, const cpu_attend_state *s) {
    float *sum = s->sum;
    for (int i = 0; i < n_queries(t); i++, sum += j->v_dim) {
        const float by = divisor(j, s, i, t->head + i % t->n_heads), inverse = 1 / by;
        for (int d = 0; d < j->v_dim && j->c->head.exact; d++) sum[d] /= by;
        for (int d = 0; d < j->v_dim && !j->c->head.exact; d++) sum[d] *= inverse;
        if (kv_is_quantised(j->a->kv.type)) kv_rotate(sum, j->v_dim);
    }
}

static void put(const job *j, const tile *t, const cpu_attend_state *s) {
    const int row = t->span->row + t->row, width = t->n_heads * j->v_dim;
    const int64_t row_width = (int64_t)j->a->n_heads * j->v_dim, from = (int64_t)t->head * j->v_dim;
    divide(j, t, s);
    if (j->ahead) {
        const cpu_pack_part part = {s->sum, width, row, row + t->n_rows, from, from + width};
        j->ahead->pack_part(j->a->out, j->n_rows, row_width, &part);
        return;
    }
    for (int r = 0; r < t->n_rows; r++)
        memcpy(j->a->out + (row + r) * row_width + from, s->sum + (size_t)r * (size_t)width,
               (size_t)width * sizeof(float));
}

/* ---- tasks ---- */

typedef struct room {
    float *q;
    cpu_attend_state merged, page;
    float small[4][CPU_ATTEND_QUERIES];
    void *kernel;
} room;

static void make_room(room *m, const job *j, int worker) {
    const size_t each = (size_t)(j->wider > TILE_FLOATS ? j->wider : TILE_FLOATS);
    float *floats = cpu_scratch(j->c, worker);
    m->q = floats;
    m->merged = (cpu_attend_state){m->small[0], m->small[1], floats + each};
    m->page = (cpu_attend_state){m->small[2], m->small[3], floats + 2 * each};
    m->kernel = floats + 3 * each;
}

static void run_tile(void *context, int64_t task, int worker) {
    const job *j = context;
    const tile t = tile_at(j, task);
    room m;
    make_room(&m, j, worker);
    gather_queries(m.q, j, &t);
    run_page(&m.merged, j, &t, m.q, m.kernel, t.page, t.end_page);
    for (int64_t page = t.page + 1; page < t.end_page; page++) {
        run_page(&m.page, j, &t, m.q, m.kernel, page, t.end_page);
        j->merge(&m.merged, &m.page, n_queries(&t), j->v_dim);
    }
    put(j, &t, &m.merged);
}

/* The span's pages of this round, and how many tasks they make for each of its tiles. */
static int64_t round_pages(const job *j, const row_span *span) {
    return greater(lesser(span_pages(j, span) - j->first, j->round), 0);
}

static int64_t span_tasks(const job *j, const row_span *span) {
    return span_tiles(j, span) * up(round_pages(j, span), j->together);
}

/* The round's result number `part` of a tile; behind them the one of all rounds before. */
static cpu_attend_state part_at(const job *j, const tile *t, int64_t index, int64_t part) {
    float *floats = j->c->parts + (size_t)(index * (j->round + 1) + part) * j->part_floats;
    const size_t n = (size_t)n_queries(t);
    return (cpu_attend_state){floats, floats + n, floats + 2 * n};
}

/* A few pages of one tile. */
static void run_pages(void *context, int64_t task, int worker) {
    const job *j = context;
    const row_span *span = j->a->spans;
    int64_t tiles = 0;
    for (; task >= span_tasks(j, span); span++) {
        task -= span_tasks(j, span);
        tiles += span_tiles(j, span);
    }
    const int64_t per_tile = up(round_pages(j, span), j->together), index = task / per_tile;
    const int64_t zero = first_page(j, span) + j->first, from = task % per_tile * j->together;
    const tile t = tile_in(j, span, index);
    const int64_t end = lesser(t.end_page, zero + lesser(from + j->together, j->round));
    room m;
    make_room(&m, j, worker);
    gather_queries(m.q, j, &t);
    for (int64_t page = greater(t.page, zero + from); page < end; page++) {
        const cpu_attend_state part = part_at(j, &t, tiles + index, page - zero);
        run_page(&part, j, &t, m.q, m.kernel, page, end);
    }
}

/* One tile's results of this round. */
static void merge_pages(void *context, int64_t task, int worker) {
    const job *j = context;
    const tile t = tile_at(j, task);
    const int64_t zero = first_page(j, t.span) + j->first, end = lesser(t.end_page, zero + j->round);
    const cpu_attend_state merged = part_at(j, &t, task, j->round);
    for (int64_t page = greater(t.page, zero); page < end; page++) {
        const cpu_attend_state part = part_at(j, &t, task, page - zero);
        if (page > t.page)
            j->merge(&merged, &part, n_queries(&t), j->v_dim);
        else /* as run_tile begins; best, total and sum lie together */
            memcpy(merged.best, part.best, (size_t)n_queries(&t) * (size_t)(j->v_dim + 2) * sizeof(float));
    }
    if (j->first + j->round >= j->longest) put(j, &t, &merged);
}

/* ---- the op ---- */

/* Whether results can be left packed: where every tile is whole groups of rows and of inputs of the next product.
 * `most` is how many rows a span has. */
static void find_ahead(job *j, int most) {
    const attend_args *a = j->a;
    bool fits = j->tile_rows >= most || j->tile_rows >= CPU_PACK_ROWS;
    for (int s = 0; s < a->n_spans; s++) {
        fits = fits && a->spans[s].row == j->n_rows && j->n_rows % CPU_PACK_ROWS == 0;
        j->n_rows += a->spans[s].n_rows;
    }
    const int64_t n = (int64_t)a->n_heads * j->v_dim;
    const cpu_matmul_kernel *ahead =
        fits && a->next ? cpu_matmul_ahead(j->c, &a->next, 1, j->n_rows, a->n_prompt, n) : NULL;
    if (!ahead || j->v_dim * j->group % ahead->packs_ahead || j->v_dim * j->tile_heads % ahead->packs_ahead) return;
    if (j->tile_rows < most) j->tile_rows = j->tile_rows / CPU_PACK_ROWS * CPU_PACK_ROWS;
    j->ahead = ahead;
}

/* How large tiles are: no larger than what there is, so that parts stay small. */
static void cut(job *j) {
    int rows = 1;
    for (int s = 0; s < j->a->n_spans; s++)
        if (j->a->spans[s].n_rows > rows) rows = j->a->spans[s].n_rows;
    j->tile_heads = least(j->group, j->most);
    j->tile_rows = least(j->most / j->tile_heads, rows);
    find_ahead(j, rows);
    j->head_tiles = (j->group + j->tile_heads - 1) / j->tile_heads * j->a->kv.n_kv_heads;
    j->part_floats = (size_t)(j->tile_rows * j->tile_heads) * (size_t)(j->v_dim + 2);
}

/* Counts tiles and pages; returns how many products there are to do. */
static int64_t measure(job *j) {
    int64_t work = 0;
    for (int s = 0; s < j->a->n_spans; s++) {
        const row_span *span = &j->a->spans[s];
        if (span->n_rows < 1) continue;
        const int64_t pages = span_pages(j, span), tiles = span_tiles(j, span);
        j->n_tiles += tiles;
        j->n_pages += tiles * pages;
        j->longest = greater(j->longest, pages);
        work += (span->past + span->n_rows - first_seen(j->a, span->past)) * span->n_rows * j->a->n_heads * j->dim;
    }
    return work;
}

/* Whether tiles alone would end at very different times, and if so, in which rounds their pages are done. */
static bool cut_rounds(job *j) {
    const int64_t threads = j->c->head.threads, fitting = (int64_t)(j->c->parts_bytes / sizeof(float) / j->part_floats);
    if (threads == 1 || j->longest * threads * PIECES <= j->n_pages || fitting < 2 * j->n_tiles) return false;
    const int64_t most = fitting / j->n_tiles - 1;
    j->round = up(j->longest, up(j->longest, most));
    j->together = lesser(greater(j->n_pages / (threads * PIECES), 1), MOST_TOGETHER);
    return true;
}

static void run_rounds(job *j) {
    for (; j->first < j->longest; j->first += j->round) {
        int64_t tasks = 0;
        for (int s = 0; s < j->a->n_spans; s++)
            if (j->a->spans[s].n_rows > 0) tasks += span_tasks(j, &j->a->spans[s]);
        pool_run(j->c->pool, run_pages, j, tasks);
        pool_run(j->c->pool, merge_pages, j, j->n_tiles);
    }
}

/* For few rows as for many: they must agree bit for bit. */
static void choose_kernels(job *j) {
    const cpu_attend_ops *kernels = j->wider <= CPU_ATTEND_DIM ? &j->c->attend : &cpu_attend_ref;
    const kv_view *kv = &j->a->kv;
    const bool tiles = kernels->page_tiles && !j->c->head.exact && kv->v && j->wider <= CPU_ATTEND_TILES_DIM;
    j->page = kv->type == KV_F32   ? kernels->page_f32
              : kv->type != KV_F16 ? kernels->page_quantised
              : tiles              ? kernels->page_tiles
                                   : kernels->page_f16;
    j->merge = kernels->merge;
    const int share = j->page == kernels->page_tiles ? 1 : LESS, fitting = TILE_FLOATS / share / j->wider;
    j->most = fitting < 1 ? 1 : least(fitting, CPU_ATTEND_QUERIES / share);
}

void cpu_attend(device *d, const attend_args *a) {
    cpu_device *c = cpu_of(d);
    job j = {.c = c, .a = a, .dim = a->kv.head_dim, .v_dim = a->kv.v_dim, .group = a->n_heads / a->kv.n_kv_heads};
    j.wider = j.dim > j.v_dim ? j.dim : j.v_dim;
    assert(j.wider <= MOST_HEAD_DIM);
    choose_kernels(&j);
    cut(&j);
    const int64_t work = measure(&j);
    if (j.ahead) c->left = a->out;
    if (work <= ALONE) {
        for (int64_t task = 0; task < j.n_tiles; task++) run_tile(&j, task, 0);
    } else if (cut_rounds(&j)) {
        run_rounds(&j);
    } else {
        pool_run(c->pool, run_tile, &j, j.n_tiles);
    }
}
