/* cuda_packed.c — loading matrices as small numbers, and which kernels multiply them.
 *
 * Called by cuda_weights.c and cuda_matmul.c; calls pack_cuda.c and launch.c. Few rows are multiplied from the packed
 * weights, four at a time (matvec.cu). Where the GPU has the tensor cores' own products, a batch of rows takes the
 * weights packed as well and makes them float16 in registers (skinny90.cu), and so do many rows, which have enough work
 * to hide that behind the products (wide90.cu). All ways are as exact as 16 bits allow, but not the same to the last
 * bit: which one is taken depends on the number of rows alone. */
#include "cuda_packed.h"
#include "cuda_window.h"
#include "base/hash.h"
#include "base/mem.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    MATVEC_ROWS = 4,      /* of a block */
    MATVEC_THREADS = 256, /* of a group of warps; two groups where shared memory has room */
    UNPACK_THREADS = 256,
    MORE_UNITS = 64, /* that runs may add to the inputs by filling their last ones */
    GROUP_COST = 2,  /* of a unit, for each warpgroup, and otherwise; of a block: see choose_cut */
    UNIT_COST = 1,
    BLOCK_COST = 25,
};

/* ---- kinds ---- */

static const struct {
    int bits, group, scales;
    kernel_id matvec, wide, skinny, few, many;
} sames[] = {
#define X(bits, group, scales)                                                                                         \
    {bits,                                                                                                             \
     group,                                                                                                            \
     PACKED_##scales,                                                                                                  \
     KERNEL_k_matvec_##bits##_##group##_##scales,                                                                      \
     KERNEL_k_wide_##bits##_##group##_##scales,                                                                        \
     KERNEL_k_skinny_##bits##_##group##_##scales##_32,                                                                 \
     KERNEL_k_experts_few_##bits##_##group##_##scales,                                                                 \
     KERNEL_k_experts_many_##bits##_##group##_##scales##_8},
    PACKED_SAMES(X)
#undef X
};

static const struct {
    kernel_id wide, gated;
} gates[] = {
#define X(bits, group, scales)                                                                                         \
    {KERNEL_k_wide_##bits##_##group##_##scales, KERNEL_k_wide_gated_##bits##_##group##_##scales},
    PACKED_GATES(X)
#undef X
};

static kernel_id gated_kernel(kernel_id wide) {
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
        if (gates[i].wide == wide) return gates[i].gated;
    return KERNEL_COUNT;
}

static bool set_same(cuda_packed *p, const cuda_plan *plan) {
    const cuda_run *r = &plan->runs[0];
    for (size_t i = 0; plan->n_runs == 1 && i < sizeof sames / sizeof *sames; i++) {
        if (sames[i].bits != r->bits || sames[i].group != r->group || sames[i].scales != r->scales) continue;
        p->matvec = sames[i].matvec;
        p->wide = sames[i].wide;
        p->skinny = sames[i].skinny;
        p->few = sames[i].few;
        p->many = sames[i].many;
        p->wide_gated = gated_kernel(p->wide);
        p->sum = r->group;
        p->zero = r->is.zero;
        return true;
    }
    return false;
}

/* Widths and groups may change, scales may not. */
static bool set_mixed(cuda_packed *p, const cuda_plan *plan) {
    for (int i = 0; i < plan->n_runs; i++) {
        const cuda_run *r = &plan->runs[i];
        if (r->scales != PACKED_PLAIN || r->group < 32 || r->is.zero != 1 << (r->bits - 1) ||
            (double)r->is.unit != (double)plan->runs[0].is.unit)
            return false;
    }
    p->matvec = KERNEL_k_matvec_mixed;
    p->wide = KERNEL_k_wide_mixed;
    p->skinny = KERNEL_k_skinny_mixed_32;
    p->few = KERNEL_k_experts_few_mixed;
    p->many = KERNEL_k_experts_many_mixed_8;
    p->wide_gated = KERNEL_COUNT;
    p->sum = 32;
    return true;
}

/* ---- loading ---- */

typedef struct packing {
    const cuda_plan *plan;
    const quant_matrix *m;
    atomic_uint d, dmin; /* the greatest so far */
} packing;

static void raise_to(atomic_uint *most, unsigned value) {
    unsigned now = atomic_load(most);
    while (now < value && !atomic_compare_exchange_weak(most, &now, value)) {
    }
}

static void pack_tile(void *context, uint8_t *to, int64_t tile, int worker) {
    packing *p = context;
    const cuda_extremes most = pack_cuda_tiles(to, p->plan, p->m, (int)tile, 1);
    raise_to(&p->d, most.d);
    raise_to(&p->dmin, most.dmin);
}

static qp_status send_tiles(cuda_device *c, cuda_packed *p, const cuda_plan *plan, const quant_matrix *m,
                            qp_error *err) {
    packing context = {.plan = plan, .m = m};
    const window_load load = {
        .make = pack_tile, .context = &context, .n_items = p->n_tiles, .item_bytes = p->tile_bytes, .to = p->tiles};
    const qp_status status = window_send(c, &load, err);
    p->most =
        pack_cuda_bound(plan, (cuda_extremes){(uint16_t)atomic_load(&context.d), (uint16_t)atomic_load(&context.dmin)});
    return status;
}

static qp_status take_and_send(cuda_device *c, void **out, const void *from, size_t bytes, qp_error *err) {
    cuda_lock(c);
    const qp_status status = cuda_take(c, out, bytes, err);
    cuda_unlock(c);
    return status == QP_OK ? cuda_send(c, *out, from, bytes, err) : status;
}

static void fill_units(packed_unit *units, const cuda_plan *plan) {
    for (int i = 0; i < plan->n_runs; i++) {
        const cuda_run *r = &plan->runs[i];
        for (int u = 0; u < r->n_units; u++)
            units[r->first_unit + u] =
                (packed_unit){.offset = (uint32_t)(r->offset + (size_t)u * (size_t)r->unit_bytes),
                              .bytes = r->unit_bytes,
                              .kind = PACKED_KIND(r->bits, r->group)};
    }
}

static void fill_slices(packed_slice_units slices[PACKED_SLICES], const packed_unit *units, int n) {
    for (int s = 0; s < PACKED_SLICES; s++) {
        const int begin = packed_slice(s, n), end = packed_slice(s + 1, n);
        if (begin < end) slices[s].offset = units[begin].offset;
        for (int u = begin; u < end; u++) {
            slices[s].unit_bytes[u - begin] = (uint16_t)units[u].bytes;
            slices[s].bytes += (uint32_t)units[u].bytes;
        }
    }
}

/* Of all units, behind the slices. */
static size_t units_bytes(int n) {
    return PACKED_SLICES * sizeof(packed_slice_units) + (size_t)n * sizeof(packed_unit);
}

static qp_status send_units(cuda_device *c, cuda_packed *p, const cuda_plan *plan, qp_error *err) {
    const size_t bytes = units_bytes(p->n_units);
    packed_slice_units *slices = mem_zarray(1, bytes);
    if (!slices) return err_no_memory(err, bytes, "the units of a matrix");
    packed_unit *units = (packed_unit *)(void *)(slices + PACKED_SLICES);
    fill_units(units, plan);
    if (packed_slices(units, p->n_units)) fill_slices(slices, units, p->n_units);
    void *there = NULL;
    const qp_status status = take_and_send(c, &there, slices, bytes, err);
    p->units = there ? (packed_unit *)(void *)((packed_slice_units *)there + PACKED_SLICES) : NULL;
    p->layout = hash_bytes(units, (size_t)p->n_units * sizeof *units, p->layout);
    mem_free(slices);
    return status;
}

static qp_status load(cuda_device *c, cuda_packed *p, const cuda_plan *plan, const quant_matrix *m, qp_error *err) {
    cuda_lock(c);
    qp_status status = cuda_take(c, &p->tiles, p->bytes, err);
    cuda_unlock(c);
    if (status == QP_OK) status = send_tiles(c, p, plan, m, err);
    if (status == QP_OK && p->matvec == KERNEL_k_matvec_mixed) status = send_units(c, p, plan, err);
    if (status == QP_OK && plan->order) {
        void *there = NULL;
        status = take_and_send(c, &there, plan->order, plan->order_bytes, err);
        p->order = there;
        if (there && plan->has_places) p->places = p->order + p->n_units * PACKED_UNIT;
        p->layout = hash_bytes(plan->order, plan->order_bytes, p->layout);
    }
    return status;
}

/* Which kernels, and how much; false: there are none for it. */
static bool describe(cuda_packed *is, const cuda_plan *plan) {
    *is = (cuda_packed){.n_units = plan->n_units,
                        .n_tiles = plan->n_tiles,
                        .unit = plan->runs[0].is.unit,
                        .tile_bytes = plan->tile_bytes};
    for (int i = 0; i < plan->n_runs; i++)
        if (plan->runs[i].n_units && plan->runs[i].unit_bytes > is->most_unit_bytes)
            is->most_unit_bytes = plan->runs[i].unit_bytes;
    return plan->tile_bytes <= UINT32_MAX && (set_same(is, plan) || set_mixed(is, plan)) &&
           mem_mul((size_t)is->n_tiles, is->tile_bytes, &is->bytes);
}

size_t cuda_packed_bytes(const quant_matrix *m) {
    bool possible = false;
    size_t bytes = 0;
    cuda_packed is;
    cuda_plan *plan = MEM_NEW(cuda_plan);
    if (plan && pack_cuda_plan(plan, &possible, m, NULL) == QP_OK && possible && describe(&is, plan)) {
        bytes = is.bytes + plan->order_bytes;
        if (is.matvec == KERNEL_k_matvec_mixed) bytes += units_bytes(is.n_units);
    }
    if (plan) pack_cuda_free(plan);
    mem_free(plan);
    return bytes;
}

/* Powers of two that float16 does not hold are seen on the way only. Nobody has such weights, but a file may. */
static bool overflows(const cuda_packed *p, const cuda_plan *plan) {
    return plan->runs[0].is.scales == QUANT_SCALES_POWER && !isfinite(p->most);
}

static qp_status make(cuda_device *c, cuda_packed **out, const cuda_plan *plan, const quant_matrix *m, qp_error *err) {
    cuda_packed is;
    if (!describe(&is, plan)) return QP_OK;
    cuda_packed *p = MEM_NEW(cuda_packed);
    if (!p) return err_no_memory(err, sizeof *p, "a packed matrix");
    *p = is;
    const qp_status status = load(c, p, plan, m, err);
    if (status != QP_OK || overflows(p, plan)) {
        cuda_lock(c);
        cuda_packed_free(c, p);
        cuda_unlock(c);
        return status;
    }
    *out = p;
    return QP_OK;
}

qp_status cuda_packed_make(cuda_device *c, cuda_packed **out, const quant_matrix *m, qp_error *err) {
    bool possible;
    *out = NULL;
    cuda_plan *plan = MEM_NEW(cuda_plan);
    if (!plan) return err_no_memory(err, sizeof *plan, "the plan of a matrix");
    qp_status status = pack_cuda_plan(plan, &possible, m, err);
    if (status == QP_OK && possible) status = make(c, out, plan, m, err);
    pack_cuda_free(plan);
    mem_free(plan);
    return status;
}

void cuda_packed_free(cuda_device *c, cuda_packed *p) {
    if (!p) return;
    cuda_give(c, p->tiles);
    cuda_give(c, p->order);
    if (p->units) cuda_give(c, (packed_slice_units *)(void *)p->units - PACKED_SLICES);
    mem_free(p);
}

/* ---- room ---- */

static bool has_batches(const cuda_device *c) { return c->gpu.major == 9 && c->kernels[KERNEL_k_wide_mixed]; }

static size_t blocks_bytes(int n_rows, int n_units) {
    return (size_t)((n_rows + WIDE_ROWS - 1) / WIDE_ROWS * WIDE_ROWS) * (size_t)n_units * PACKED_UNIT * 2;
}

static bool needs_room(const cuda_device *c, int max_rows) {
    return has_batches(c) && !c->head.exact && max_rows > CUDA_ALIKE_ROWS;
}

static size_t widest_blocks(int max_rows, int64_t max_in) {
    return blocks_bytes(max_rows, (int)(max_in / PACKED_UNIT) + MORE_UNITS);
}

size_t cuda_packed_room(const cuda_device *c, int max_rows, int64_t max_in) {
    return needs_room(c, max_rows) ? 2 * widest_blocks(max_rows, max_in) : 0;
}

qp_status cuda_packed_reserve(cuda_device *c, int max_rows, int64_t max_in, qp_error *err) {
    qp_status status = QP_OK;
    for (int i = 0; i < 2 && needs_room(c, max_rows) && status == QP_OK; i++)
        status = cuda_widen(c, &c->blocks[i], &c->blocks_bytes[i], widest_blocks(max_rows, max_in), err);
    return status;
}

/* What rows among blocks are multiplied by, in either place, and how great the rows of the first are. */
enum { SCALES_OF_BLOCKS = 3 };
static float *block_scales(const cuda_device *c, int which) { return c->scales + (size_t)which * (size_t)c->max_rows; }
static float *row_sizes(const cuda_device *c) { return block_scales(c, 2); }

/* ---- products ---- */

bool cuda_packed_alike(const cuda_packed *a, const cuda_packed *b) {
    return a && b && a->matvec == b->matvec && a->n_units == b->n_units && a->zero == b->zero &&
           (double)a->unit == (double)b->unit && a->layout == b->layout && !a->order == !b->order;
}

static packed_part part_of(const matmul_part *m, const cuda_packed *p) {
    return (packed_part){.tiles = p->tiles,
                         .bias = m->bias,
                         .out = m->out,
                         .out_stride = m->out_stride,
                         .n_out = (int)m->w->n_out,
                         .n_tiles = p->n_tiles,
                         .add = m->add};
}

/* As many rows, units in flight and warps as shared memory holds: rows first, for they save reading weights again. */
bool cuda_packed_fit(cuda_device *c, matvec_fit *out, const cuda_packed *p, int n_rows) {
    for (int rows = n_rows < MATVEC_ROWS ? n_rows : MATVEC_ROWS; rows; rows--)
        for (int groups = 2; groups; groups--)
            for (int depth = 4; depth > 1; depth--) {
                const int bytes = matvec_shared(rows, p->n_units, p->sum, p->most_unit_bytes, depth, groups);
                if (bytes > c->gpu.most_shared) continue;
                *out = (matvec_fit){rows, depth, groups * MATVEC_THREADS, (size_t)bytes};
                return true;
            }
    if (c->failure.code == QP_OK)
        err_set(&c->failure, QP_UNSUPPORTED, 0, "cuda: a matrix of %d inputs is too wide for GPU %s",
                p->n_units * PACKED_UNIT, c->gpu.name);
    return false;
}

static void matvec(cuda_device *c, packed_args *a, const cuda_packed *p) {
    matvec_fit fit;
    if (!cuda_packed_fit(c, &fit, p, a->n_rows)) return;
    launch_shape shape = {.threads = fit.threads, .shared_bytes = fit.shared_bytes, .early = true};
    a->rows_each = fit.rows;
    a->depth = fit.depth;
    shape.x = a->n_tiles < c->gpu.multiprocessors ? a->n_tiles : c->gpu.multiprocessors;
    shape.y = (a->n_rows + a->rows_each - 1) / a->rows_each;
    launch_push(c, p->matvec, shape, a, sizeof *a);
}

static bool is_many(const cuda_device *c, int n_rows, const cuda_packed *p) {
    return n_rows > CUDA_ALIKE_ROWS && n_rows <= c->max_rows && has_batches(c) &&
           blocks_bytes(n_rows, p->n_units) <= c->blocks_bytes[1] &&
           (size_t)c->max_rows * SCALES_OF_BLOCKS * sizeof(float) <= c->scales_bytes;
}

/* Threads that hold a row together, as far as they can: few rows need many to be quick. */
static int row_threads(int n_units, int n_rows) {
    const int pieces = n_units * PACKED_UNIT / 8, each = n_rows > SKINNY_ROWS ? BLOCKS_PIECES : 1;
    const int threads = (pieces + each - 1) / each;
    return threads < BLOCKS_THREADS ? (threads + 31) / 32 * 32 : BLOCKS_THREADS;
}

static void push_blocks(cuda_device *c, kernel_id kernel, k_blocks_args *b, int n_rows, int n_units) {
    b->out = c->blocks[0];
    b->row_scale = block_scales(c, 0);
    b->row_size = row_sizes(c);
    c->waiting.in = 0;
    c->waiting.has_sizes = kernel == KERNEL_k_blocks || kernel == KERNEL_k_blocks_norm;
    b->n_blocks = 4 * n_units;
    launch_push(c, kernel, (launch_shape){.x = n_rows, .threads = row_threads(n_units, n_rows), .early = true}, b,
                sizeof *b);
}

/* Rows of activations as float16, among blocks. */
static void put_blocks(cuda_device *c, const packed_args *a, const cuda_packed *p) {
    k_blocks_args b = {.x = a->x, .x_stride = a->x_stride, .order = a->order, .n_in = a->n_in};
    if (c->waiting.of != a->x) push_blocks(c, KERNEL_k_blocks, &b, a->n_rows, p->n_units);
}

/* The packed matrix that is multiplied by rows which can be made without knowing more of it; NULL: it is not so. */
static const cuda_packed *plain_reader(const cuda_device *c, const dev_weight *w, int n_rows) {
    const cuda_packed *p = ((const cuda_weight *)w->packed)->packed;
    const bool fits = p && !p->order && p->n_units * PACKED_UNIT <= BLOCKS_THREADS * 8 * BLOCKS_PIECES;
    return fits && is_many(c, n_rows, p) ? p : NULL;
}

bool cuda_packed_norm(cuda_device *c, const norm_args *a) {
    const cuda_packed *p = a->n_next ? plain_reader(c, a->next[0], a->n_rows) : NULL;
    if (!p || a->heads > 1 || a->rows) return false;
    for (int i = 1; i < a->n_next; i++) {
        const cuda_packed *other = plain_reader(c, a->next[i], a->n_rows);
        if (!other || other->n_units != p->n_units) return false;
    }
    k_blocks_args b = {.x = a->x,
                       .x_stride = a->dim,
                       .n_in = a->dim,
                       .with = a->weight,
                       .bias = a->kind == NORM_LAYER ? a->bias : NULL,
                       .is_layer = a->kind == NORM_LAYER,
                       .eps = a->eps};
    push_blocks(c, KERNEL_k_blocks_norm, &b, a->n_rows, p->n_units);
    c->waiting.of = a->out;
    return true;
}

bool cuda_packed_gate(cuda_device *c, const matmul_args *a) {
    const cuda_packed *p = a->next ? plain_reader(c, a->next, a->n_rows) : NULL;
    if (!p) return false;
    k_blocks_args b = {.x = a->parts[0].out,
                       .x_stride = a->parts[0].out_stride,
                       .n_in = (int32_t)a->parts[0].w->n_out,
                       .with = a->parts[1].out};
    push_blocks(c, (kernel_id)(KERNEL_k_blocks_gate_0 + (int)a->act), &b, a->n_rows, p->n_units);
    c->waiting.of = a->parts[0].out;
    return true;
}

bool cuda_packed_leave(cuda_device *c, k_decode_args *out, const dev_weight *next, int n_rows, int width) {
    const cuda_packed *p = next ? plain_reader(c, next, n_rows) : NULL;
    if (!p || p->n_units * PACKED_UNIT != width) return false;
    out->blocks = c->blocks[0];
    out->n_blocks = 4 * p->n_units;
    out->row_scale = block_scales(c, 0);
    c->waiting.of = out->out;
    c->waiting.in = 0;
    c->waiting.has_sizes = false;
    return true;
}

_Static_assert(SKINNY_MOST_SHARE < sizeof((cuda_device *)NULL)->clusters / sizeof(int), "a place for each share");

qp_status cuda_packed_ask(cuda_device *c, qp_error *err) {
    const kernel_id kernel = KERNEL_k_skinny_4_32_PLAIN_64;
    if (!has_batches(c) || !c->kernels[kernel]) return QP_OK;
    for (unsigned share = 1; share <= SKINNY_MOST_SHARE; share++)
        ERR_TRY(launch_most_clusters(c, &c->clusters[share], kernel, SKINNY_THREADS, share, err));
    return QP_OK;
}

/* How many warpgroups multiply in a block, and how many blocks share the inputs of a tile: what ends first, by
 * times that were measured, in 0.2 us. It hangs on the matrix and the GPU alone, as the order of its sums does. */
static void choose_cut(const cuda_device *c, k_skinny_args *a, int n_tiles, int n_units) {
    int best = INT32_MAX;
    a->groups = a->share = 1;
    for (int groups = SKINNY_MOST_GROUPS; groups; groups--)
        for (int share = 1; share <= SKINNY_MOST_SHARE && share <= n_units; share++) {
            const int tiles = (n_tiles + 4 * groups - 1) / (4 * groups), at_once = c->clusters[share];
            if (at_once < 1) continue;
            const int waves = (tiles + at_once - 1) / at_once, units = (n_units + share - 1) / share;
            const int time = waves * (units * (GROUP_COST * groups + UNIT_COST) + BLOCK_COST);
            if (time >= best) continue;
            best = time;
            a->groups = groups;
            a->share = share;
        }
}

/* As much in flight as shared memory allows. */
static size_t fit_skinny(const cuda_device *c, k_skinny_args *a, int columns, int unit_bytes) {
    static const struct depth {
        int w, x;
    } depths[] = {{6, 12}, {5, 12}, {4, 12}, {4, 8}, {3, 8}, {3, 6}, {3, 5}, {2, 5}, {2, 4}, {2, 3}};
    size_t i = 0;
    while (i + 1 < sizeof depths / sizeof *depths &&
           skinny_shared(columns, a->groups, unit_bytes, depths[i].w, depths[i].x) > c->gpu.most_shared)
        i++;
    a->w_depth = depths[i].w;
    a->x_depth = depths[i].x;
    return (size_t)skinny_shared(columns, a->groups, unit_bytes, a->w_depth, a->x_depth);
}

static void skinny(cuda_device *c, const packed_args *args, const cuda_packed *p, const k_gate_out *gate) {
    const int size = args->n_rows <= 32 ? 0 : args->n_rows <= 64 ? 1 : 2, columns = 32 << size;
    put_blocks(c, args, p);
    k_skinny_args a = {
        .weights = *args, .x = c->blocks[c->waiting.in], .row_scale = block_scales(c, c->waiting.in), .gate = *gate};
    choose_cut(c, &a, args->n_tiles, p->n_units);
    const size_t shared = fit_skinny(c, &a, columns, p->most_unit_bytes);
    const int64_t tiles = (args->n_tiles + 4 * a.groups - 1) / (4 * a.groups);
    launch_push(c, (kernel_id)((int)p->skinny + size),
                (launch_shape){.x = tiles * a.share,
                               .threads = 128 * a.groups + SKINNY_FEEDERS,
                               .shared_bytes = shared,
                               .cluster = a.share,
                               .early = true},
                &a, sizeof a);
}

static void wide(cuda_device *c, const packed_args *args, const cuda_packed *p, const k_gate_out *gate) {
    put_blocks(c, args, p);
    k_wide_args a = {.weights = *args,
                     .x = c->blocks[c->waiting.in],
                     .row_scale = block_scales(c, c->waiting.in),
                     .w_depth = WIDE_MOST_DEPTH,
                     .gate = *gate};
    const bool is_gated = gate->out != NULL;
    while (a.w_depth > 2 && wide_shared(p->most_unit_bytes, a.w_depth, is_gated) > c->gpu.most_shared) a.w_depth--;
    launch_push(c, is_gated ? p->wide_gated : p->wide,
                (launch_shape){.x = c->gpu.multiprocessors / WIDE_CLUSTER * WIDE_CLUSTER,
                               .threads = WIDE_THREADS,
                               .shared_bytes = (size_t)wide_shared(p->most_unit_bytes, a.w_depth, is_gated),
                               .cluster = WIDE_CLUSTER,
                               .early = true},
                &a, sizeof a);
}

/* ---- gates ---- */

/* Those that are x / (1 + exp(-(linear x + cubic x^3))), none of which is greater than x. */
static const struct gate_curve {
    activation act;
    float linear, cubic;
} curves[] = {{ACT_SILU, 1, 0}, {ACT_GELU_TANH, 1.5957691f, 1.5957691f * 0.044715f}, {ACT_QUICK_GELU, 1.702f, 0}};

/* Whether the product makes the next one's rows itself, and how. A bound of the results must be known beforehand: a
 * row's scale cannot wait for its last result. */
static bool plan_gate(const cuda_device *c, k_gate_out *out, const packed_args *args, const matmul_args *a) {
    const cuda_packed *next = a->is_gated && a->next ? plain_reader(c, a->next, a->n_rows) : NULL;
    const bool will_know =
        c->waiting.has_sizes || c->waiting.of != args->x; /* else rows are made, which tells their sizes */
    if (!next || !will_know || args->n_parts != 2 || a->parts[0].bias || a->parts[1].bias || args->order) return false;
    const cuda_packed *of[] = {((const cuda_weight *)a->parts[0].w->packed)->packed,
                               ((const cuda_weight *)a->parts[1].w->packed)->packed};
    const bool has_kernel =
        a->n_rows <= SKINNY_ROWS || (of[0]->wide_gated != KERNEL_COUNT && c->kernels[of[0]->wide_gated] &&
                                     wide_shared(of[0]->most_unit_bytes, 2, true) <= c->gpu.most_shared);
    if (!has_kernel || a->parts[0].w->n_out != (int64_t)next->n_units * PACKED_UNIT || of[0]->n_tiles != of[1]->n_tiles)
        return false;
    const double slack = 1.02 * 1.02; /* weights and inputs have been rounded */
    const double bound = (double)of[0]->most * (double)of[1]->most * slack;
    for (size_t i = 0; i < sizeof curves / sizeof *curves && bound < (double)INFINITY; i++) {
        if (curves[i].act != a->act) continue;
        *out = (k_gate_out){.out = c->blocks[1],
                            .row_scale = block_scales(c, 1),
                            .row_size = row_sizes(c),
                            .bound = (float)bound,
                            .linear = curves[i].linear,
                            .cubic = curves[i].cubic,
                            .n_blocks = 4 * next->n_units};
        return true;
    }
    return false;
}

bool cuda_packed_matmul(cuda_device *c, const matmul_args *a, int first) {
    const cuda_packed *p = ((const cuda_weight *)a->parts[first].w->packed)->packed;
    packed_args args = {.x = a->x,
                        .x_stride = a->x_stride,
                        .order = p->order,
                        .places = p->places,
                        .n_in = (int)a->parts[first].w->n_in,
                        .n_rows = a->n_rows,
                        .n_units = p->n_units,
                        .zero = p->zero,
                        .unit = p->unit,
                        .units = p->units,
                        .tile_bytes = (int64_t)p->tile_bytes,
                        .most_unit_bytes = p->most_unit_bytes};
    for (int i = first; i < a->n_parts; i++) {
        const cuda_packed *other = ((const cuda_weight *)a->parts[i].w->packed)->packed;
        if (!cuda_packed_alike(p, other)) continue;
        args.n_tiles += other->n_tiles;
        args.parts[args.n_parts++] = part_of(&a->parts[i], other);
    }
    if (!is_many(c, args.n_rows, p)) {
        matvec(c, &args, p);
        return false;
    }
    k_gate_out gate = {0};
    const bool is_gated = plan_gate(c, &gate, &args, a);
    if (args.n_rows <= SKINNY_ROWS)
        skinny(c, &args, p, &gate);
    else
        wide(c, &args, p, &gate);
    if (is_gated) {
        c->waiting.of = a->parts[0].out;
        c->waiting.in = 1;
        c->waiting.has_sizes = false;
    }
    return is_gated;
}
