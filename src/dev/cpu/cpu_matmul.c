/* cpu_matmul.c — a matrix product cut into tasks for the pool.
 *
 * Few rows: each task streams a contiguous piece of a matrix, large enough for the prefetchers, small enough that a
 * core which is busy elsewhere does not hold up the others. Many rows: each task widens a panel of columns and
 * multiplies it by all rows, or by a part of them when there are more cores than panels. The kernels give the same
 * bits for any cut, so the cut follows the number of threads freely. All parts of an op share one run of the pool;
 * activations are packed before it, once for the parts that want them alike. */
#include "coded.h"
#include "cpu.h"
#include "pack.h"
#include "base/mem.h"
#include <assert.h>
#include <string.h>

enum {
    LEAST_PIECE = 32 << 10, /* bytes of weights in a task that streams */
    MOST_PIECE = 512 << 10,
    TASKS_PER_THREAD = 6,
    TALL_TASKS = 24,       /* of more than CPU_FEW_ROWS, which take longer than their weights do */
    PANELS_PER_THREAD = 3, /* fewer: what a task widens should serve many rows */
    PACK_ALONE = 1 << 14,  /* fewer floats are packed faster than a second run of the pool begins and ends */
    ALIGN = 64,
};

/* One part with its cut: tasks first .. first + row_cuts * column_cuts - 1. */
typedef struct cut {
    const cpu_matmul_kernel *kernel;
    const matmul_part *part;
    const uint8_t *packed;
    int64_t n_columns, column_cuts; /* of a task; how many along the columns */
    int n_rows, row_cuts;
    int64_t first;
} cut;

typedef struct plan {
    const cpu_device *device;
    const matmul_args *args;
    cut cuts[DEV_MATMUL_PARTS];
    int n_cuts; /* of which tasks are made: the second of a gated pair goes with the first */
    int64_t n_tasks;
    bool leaves_packed; /* the gated result, for the next product */
    int n_packs;        /* distinct ways to pack; 0 where the product before left them packed */
    int pack_step;      /* rows of a task that packs */
    struct {
        const cpu_matmul_kernel *kernel;
        const int32_t *order;
        uint8_t *to;
    } packs[DEV_MATMUL_PARTS];
} plan;

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
static int64_t clamp(int64_t n, int64_t low, int64_t high) { return n < low ? low : n > high ? high : n; }

static const cpu_matmul_kernel *kernel_of_codes(const cpu_matmul_ops *ops, bool exact, const cpu_coded *coded) {
    const cpu_matmul_kernel *fast = ops->coded_fast[coded->codes];
    return !exact && fast ? fast : ops->coded[coded->codes];
}

static const cpu_matmul_kernel *kernel_of(const cpu_matmul_ops *ops, bool exact, const dev_weight *w, bool is_prompt) {
    const quant_id type = w->type->id;
    if (w->is_woven) return ops->fast[QUANT_BF16]->weaving->kernel;
    if (w->packed) return is_prompt && ops->prompts ? ops->prompts : ops->grouped;
    if (type < QUANT_PLAIN_COUNT) return !exact && ops->fast[type] ? ops->fast[type] : ops->exact[type];
    return w->owned ? kernel_of_codes(ops, exact, w->owned) : ops->unpacked;
}

/* NULL: as they come. */
static const int32_t *order_of(const dev_weight *w) {
    const cpu_packed *p = w->packed;
    return p ? p->order : NULL;
}

/* ---- cutting ---- */

static double total_bytes(const matmul_args *a) {
    double total = 0;
    for (int i = 0; i < a->n_parts; i++) {
        const dev_weight *w = a->parts[i].w;
        total += (double)w->n_out * (double)w->n_in * w->type->bits_per_weight / 8;
    }
    return total;
}

static void cut_stream(cut *c, const plan *p, int64_t piece_bytes) {
    const dev_weight *w = c->part->w;
    const int64_t row_bytes = (int64_t)((double)w->n_in * w->type->bits_per_weight / 8) + 1;
    const bool is_tall = p->args->n_rows > CPU_FEW_ROWS && c->kernel->tall_step;
    const int64_t step = is_tall ? c->kernel->tall_step : c->kernel->stream_step;
    const int64_t columns = round_up(divide_up(piece_bytes, row_bytes), step);
    c->column_cuts = divide_up(w->n_out, columns);
    c->n_columns = round_up(divide_up(w->n_out, c->column_cuts), step);
    c->column_cuts = divide_up(w->n_out, c->n_columns);
    c->n_rows = p->args->n_rows;
    c->row_cuts = 1;
}

/* Halves the rows of a task, or its columns, until every thread finds a few tasks. */
static void cut_panels(cut *c, const plan *p, int64_t all_panels) {
    const cpu_matmul_kernel *k = c->kernel;
    const int rows = p->args->n_rows, threads = p->device->head.threads, step = k->row_step;
    const int64_t wanted = threads > 1 ? (int64_t)threads * PANELS_PER_THREAD : 1;
    c->n_columns = k->panel;
    c->n_rows = (int)round_up(rows, step);
    for (;;) {
        const int64_t tasks = all_panels * (k->panel / c->n_columns) * divide_up(rows, c->n_rows);
        const bool narrow = k->least_panel && c->n_columns > k->least_panel && c->n_rows <= k->free_rows;
        if (tasks >= wanted || (!narrow && c->n_rows <= step)) break;
        if (narrow)
            c->n_columns /= 2;
        else
            c->n_rows = (int)round_up(c->n_rows / 2, step);
    }
    c->column_cuts = divide_up(c->part->w->n_out, c->n_columns);
    c->row_cuts = (int)divide_up(rows, c->n_rows);
}

static void make_cuts(plan *p) {
    const matmul_args *a = p->args;
    const int threads = p->device->head.threads;
    const double share = total_bytes(a) / (threads * (a->n_rows > CPU_FEW_ROWS ? TALL_TASKS : TASKS_PER_THREAD));
    const int64_t piece = threads > 1 ? clamp((int64_t)share, LEAST_PIECE, MOST_PIECE) : INT64_MAX / 2;
    int64_t panels = 0;
    for (int i = 0; i < p->n_cuts; i++) panels += divide_up(a->parts[i].w->n_out, p->cuts[i].kernel->panel);
    for (int i = 0; i < p->n_cuts; i++) {
        cut *c = &p->cuts[i];
        if (a->n_rows <= c->kernel->stream_rows)
            cut_stream(c, p, piece);
        else
            cut_panels(c, p, panels);
        c->first = p->n_tasks;
        p->n_tasks += c->column_cuts * c->row_cuts;
    }
}

/* ---- packing ---- */

/* Rows are packed in groups of CPU_PACK_ROWS that need nothing more, or fewer at once and then joined. */
static bool packs_groups(const plan *p) { return p->pack_step % CPU_PACK_ROWS == 0; }

static void pack_task(void *context, int64_t task, int worker) {
    const plan *p = context;
    const matmul_args *a = p->args;
    const int begin = (int)task * p->pack_step;
    const int end = begin + p->pack_step < a->n_rows ? begin + p->pack_step : a->n_rows;
    const int64_t n_in = a->parts[0].w->n_in;
    for (int i = 0; i < p->n_packs; i++) {
        const cpu_matmul_kernel *kernel = p->packs[i].kernel;
        uint8_t *to = p->packs[i].to;
        if (kernel->pack_rows)
            kernel->pack_rows(to, a->x, a->x_stride, a->n_rows, n_in, begin, end, p->packs[i].order);
        else
            kernel->pack(to, a->x, a->x_stride, a->n_rows, n_in, begin, end);
        if (kernel->join_rows && packs_groups(p)) kernel->join_rows(to, a->n_rows, n_in, begin, end);
    }
}

/* Weights of the same input usually have the same order, each its own copy. */
static bool same_order(const int32_t *a, const int32_t *b, int64_t n) {
    return a == b || (a && b && !memcmp(a, b, (size_t)n * sizeof *a));
}

/* Gives each part its kernel and its place among the packed activations. */
static void choose_kernels(plan *p) {
    const matmul_args *a = p->args;
    uint8_t *free_space = p->device->packed;
    for (int i = 0; i < a->n_parts; i++) {
        const dev_weight *w = a->parts[i].w;
        const bool is_exact = p->device->head.exact || a->is_exact;
        const cpu_matmul_kernel *kernel = kernel_of(&p->device->matmul, is_exact, w, a->n_prompt > 0);
        const int32_t *order = order_of(w);
        assert(w->n_in == a->parts[0].w->n_in);
        int same = 0;
        while (same < p->n_packs &&
               (p->packs[same].kernel->pack != kernel->pack || !same_order(p->packs[same].order, order, w->n_in)))
            same++;
        if (same == p->n_packs) {
            p->packs[p->n_packs].kernel = kernel;
            p->packs[p->n_packs].order = order;
            p->packs[p->n_packs++].to = free_space;
            free_space += round_up((int64_t)kernel->packed_bytes(a->n_rows, w->n_in), ALIGN);
        }
        p->cuts[i] = (cut){.kernel = kernel, .part = &a->parts[i], .packed = p->packs[same].to};
    }
    assert((size_t)(free_space - p->device->packed) <= p->device->packed_bytes);
}

/* ---- the op ---- */

static void matmul_task(void *context, int64_t task, int worker) {
    const plan *p = context;
    int i = p->n_cuts - 1;
    while (task < p->cuts[i].first) i--;
    const cut *c = &p->cuts[i];
    const int64_t column = (task - c->first) / c->row_cuts * c->n_columns;
    const int row = (int)((task - c->first) % c->row_cuts) * c->n_rows;
    const int64_t columns_left = c->part->w->n_out - column;
    cpu_matmul_block block = {
        .w = c->part->w,
        .x = c->packed,
        .n_packed = p->args->n_rows,
        .row = row,
        .n_rows = p->args->n_rows - row < c->n_rows ? p->args->n_rows - row : c->n_rows,
        .column = column,
        .n_columns = columns_left < c->n_columns ? columns_left : c->n_columns,
        .bias = c->part->bias,
        .out = c->part->out,
        .out_stride = c->part->out_stride,
        .add = c->part->add,
        .ways = p->device->ways,
        .scratch = cpu_scratch(p->device, worker),
    };
    if (p->n_cuts < p->args->n_parts) {
        block.up = p->args->parts[1].w;
        block.up_bias = p->args->parts[1].bias;
        block.gate = p->device->row.gate[p->args->act];
        block.packed_out = p->leaves_packed ? c->part->out : NULL;
    }
    c->kernel->run(&block);
}

/* Whether the kernel does the gate itself, while both products are at hand. */
static bool gates_inside(const plan *p) {
    const cpu_matmul_kernel *kernel = p->cuts[0].kernel;
    return p->args->is_gated && kernel == p->cuts[1].kernel && p->n_packs == 1 && kernel->gates &&
           p->args->n_rows > kernel->stream_rows;
}

/* Whether rows of prompts go another way than those of answers. */
static bool has_two_ways(const cpu_device *c, const dev_weight *w) {
    return kernel_of(&c->matmul, c->head.exact, w, true) != kernel_of(&c->matmul, c->head.exact, w, false);
}

const cpu_matmul_kernel *cpu_matmul_ahead(const cpu_device *c, const dev_weight *const *next, int n_next, int n_rows,
                                          int n_prompt, int64_t n) {
    const cpu_matmul_kernel *kernel = NULL;
    for (int i = 0; i < n_next; i++) {
        if (n_prompt && n_prompt < n_rows && has_two_ways(c, next[i])) return NULL;
        const cpu_matmul_kernel *k = kernel_of(&c->matmul, c->head.exact, next[i], n_prompt > 0);
        if (!k->packs_ahead || (i && k != kernel) || order_of(next[i]) || next[i]->n_in != n) return NULL;
        kernel = k;
    }
    if (!kernel || n_rows <= kernel->stream_rows) return NULL;
    return kernel->packed_bytes(n_rows, n) <= (size_t)n_rows * (size_t)n * sizeof(float) ? kernel : NULL;
}

static bool can_leave_packed(const plan *p) {
    const matmul_args *a = p->args;
    const cpu_matmul_kernel *kernel = p->cuts[0].kernel;
    const int64_t n = a->parts[0].w->n_out;
    return a->next && cpu_matmul_ahead(p->device, &a->next, 1, a->n_rows, a->n_prompt, n) == kernel &&
           n % kernel->packs_ahead == 0 && a->parts[0].out_stride == n;
}

/* All parts read what the product before left. */
static void take_left(plan *p) {
    for (int i = 0; i < p->args->n_parts; i++) p->cuts[i].packed = (const uint8_t *)p->args->x;
    p->n_packs = 0;
}

/* How many rows a task packs: all, where they are few floats, a group of them, or a part of the only group. */
static int pack_step(const plan *p) {
    const int rows = p->args->n_rows;
    if ((int64_t)rows * p->args->parts[0].w->n_in < PACK_ALONE) return (int)round_up(rows, CPU_PACK_ROWS);
    for (int i = 0; i < p->n_packs; i++)
        if (!p->packs[i].kernel->join_rows) return CPU_PACK_ROWS;
    return rows > CPU_PACK_ROWS ? CPU_PACK_ROWS : (int)divide_up(rows, 2 * p->device->head.threads);
}

static void pack_all(plan *p) {
    const matmul_args *a = p->args;
    if (!p->n_packs) return;
    p->pack_step = pack_step(p);
    if (p->pack_step >= a->n_rows)
        pack_task(p, 0, 0);
    else
        pool_run(p->device->pool, pack_task, p, divide_up(a->n_rows, p->pack_step));
    for (int i = 0; i < p->n_packs && !packs_groups(p); i++)
        if (p->packs[i].kernel->join_rows)
            p->packs[i].kernel->join_rows(p->packs[i].to, a->n_rows, a->parts[0].w->n_in, 0, a->n_rows);
}

/* Rows that are all of prompts or all of answers, or all multiplied alike. */
static void multiply(device *d, const matmul_args *a) {
    cpu_device *c = cpu_of(d);
    assert(a->n_rows <= c->max_rows && a->parts[0].w->n_in <= c->max_in);
    plan p = {.device = c, .args = a};
    choose_kernels(&p);
    const bool is_inside = gates_inside(&p);
    p.n_cuts = is_inside ? 1 : a->n_parts;
    make_cuts(&p);
    p.leaves_packed = is_inside && can_leave_packed(&p);
    if (a->x == c->left) take_left(&p);
    c->left = p.leaves_packed ? a->parts[0].out : NULL;
    pack_all(&p);
    pool_run(c->pool, matmul_task, &p, p.n_tasks);
    if (!a->is_gated || is_inside) return;
    cpu_gate(d, &(gate_args){a->act, a->parts[0].out, a->parts[1].out, a->n_rows, (int)a->parts[0].w->n_out});
}

/* Rows [first, first + n) of an op. */
static matmul_args rows_of(const matmul_args *a, int first, int n) {
    matmul_args rows = *a;
    rows.x += first * a->x_stride;
    rows.n_rows = n;
    rows.next = NULL;
    for (int i = 0; i < a->n_parts; i++) rows.parts[i].out += first * a->parts[i].out_stride;
    return rows;
}

/* Answers come first. */
void cpu_matmul(device *d, const matmul_args *a) {
    const int n_answers = a->n_rows - a->n_prompt;
    bool is_split = false;
    if (a->n_rows < 1) return;
    for (int i = 0; i < a->n_parts && n_answers && a->n_prompt; i++)
        is_split = is_split || has_two_ways(cpu_of(d), a->parts[i].w);
    if (!is_split) {
        multiply(d, a);
        return;
    }
    matmul_args answers = rows_of(a, 0, n_answers), prompts = rows_of(a, n_answers, a->n_prompt);
    answers.n_prompt = 0;
    multiply(d, &answers);
    multiply(d, &prompts);
}

/* ---- room ---- */

typedef struct room {
    const cpu_matmul_kernel *kernels[2 * (QUANT_PLAIN_COUNT + QUANT_CODES_COUNT) + 3]; /* with distinct packings */
    int n;
    size_t packed, scratch;
} room;

/* `times` packings by this kernel, unless another packs the same way; false where the sum overflows. */
static bool add_room(room *r, const cpu_matmul_kernel *kernel, int times, int max_rows, int64_t max_in) {
    if (!kernel) return true;
    if (kernel->scratch_bytes(max_in) > r->scratch) r->scratch = kernel->scratch_bytes(max_in);
    for (int i = 0; i < r->n; i++)
        if (r->kernels[i]->pack == kernel->pack) return true;
    r->kernels[r->n++] = kernel;
    const size_t bytes = kernel->packed_bytes(max_rows, max_in);
    for (int i = 0; i < times; i++)
        if (!mem_add(r->packed, bytes, &r->packed) || !mem_add(r->packed, ALIGN, &r->packed)) return false;
    return true;
}

/* What the distinct packings of all kernels take together, and the largest scratch. Parts of an op may each have an
 * order of their own. */
static bool measure_room(const cpu_matmul_ops *ops, int max_rows, int64_t max_in, size_t *packed, size_t *scratch) {
    room r = {.scratch = CPU_SCRATCH_BYTES};
    bool fits = true;
    for (int i = 0; i < QUANT_PLAIN_COUNT; i++) {
        fits = fits && add_room(&r, ops->fast[i], 1, max_rows, max_in);
        fits = fits && add_room(&r, ops->exact[i], 1, max_rows, max_in);
    }
    for (int i = 0; i < QUANT_CODES_COUNT; i++) {
        fits = fits && add_room(&r, ops->coded_fast[i], 1, max_rows, max_in);
        fits = fits && add_room(&r, ops->coded[i], 1, max_rows, max_in);
    }
    fits = fits && add_room(&r, ops->unpacked, 1, max_rows, max_in);
    fits = fits && add_room(&r, ops->grouped, DEV_MATMUL_PARTS, max_rows, max_in);
    fits = fits && add_room(&r, ops->prompts, DEV_MATMUL_PARTS, max_rows, max_in);
    *packed = r.packed;
    *scratch = (r.scratch + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return fits && r.packed < PTRDIFF_MAX;
}

qp_status cpu_matmul_reserve(cpu_device *c, int max_rows, int64_t max_in, qp_error *err) {
    if (max_rows < c->max_rows) max_rows = c->max_rows;
    if (max_in < c->max_in) max_in = c->max_in;
    size_t packed_bytes, scratch_bytes, all_scratch;
    if (!measure_room(&c->matmul, max_rows, max_in, &packed_bytes, &scratch_bytes) ||
        !mem_mul(scratch_bytes, (size_t)c->head.threads, &all_scratch))
        return err_set(err, QP_TOO_LARGE, 0, "device: room for %d rows of %lld is more than any memory", max_rows,
                       (long long)max_in);
    uint8_t *packed = mem_big(packed_bytes), *scratch = mem_big(all_scratch);
    if (!packed || !scratch) {
        mem_big_free(packed, packed_bytes);
        mem_big_free(scratch, all_scratch);
        return err_no_memory(err, packed ? all_scratch : packed_bytes, "the activations of a step");
    }
    mem_big_free(c->packed, c->packed_bytes);
    mem_big_free(c->scratch, c->scratch_bytes * (size_t)c->head.threads);
    c->packed = packed;
    c->packed_bytes = packed_bytes;
    c->scratch = scratch;
    c->scratch_bytes = scratch_bytes;
    c->max_rows = max_rows;
    c->max_in = max_in;
    return QP_OK;
}
