/* cuda_packed.c — loading matrices as whole numbers, and which kernels multiply them.
 *
 * Called by cuda_weights.c and cuda_matmul.c; calls pack_cuda.c and launch.c. Few rows are multiplied from the packed
 * weights, four at a time (matvec.cu). Where the GPU has the tensor cores' own products, a batch of rows takes the
 * weights packed as well and makes them float16 in registers (skinny90.cu), and for many rows a slice of the weights is
 * unpacked to float16 first (gemm90.cu). All ways are as exact as 16 bits allow, but not the same to the last bit:
 * which one is taken depends on the number of rows alone. */
#include "cuda_packed.h"
#include "cuda_window.h"
#include "base/hash.h"
#include "base/mem.h"
#include <string.h>

enum {
    UNPACKED_BYTES = 128 << 20, /* of weights as float16 */
    MATVEC_ROWS = 4,            /* of a block */
    MATVEC_THREADS = 256,       /* of a group of warps; two groups where shared memory has room */
    UNPACK_THREADS = 256,
    MORE_UNITS = 64,          /* that runs may add to the inputs by filling their last ones */
    GEMM_SIDE = 256,          /* rows and outputs come in so many */
    SKINNY_RESIDENT = 2,      /* blocks of a multiprocessor at once */
    SHARED_OF_A_BLOCK = 1024, /* which the system takes of a multiprocessor's */
    SHARE_COST = 2,           /* units */
};

/* ---- kinds ---- */

static const struct {
    int bits, group, scales;
    kernel_id matvec, unpack, skinny;
} sames[] = {
#define X(bits, group, scales)                                                                                         \
    {bits,                                                                                                             \
     group,                                                                                                            \
     PACKED_##scales,                                                                                                  \
     KERNEL_k_matvec_##bits##_##group##_##scales,                                                                      \
     KERNEL_k_unpack_##bits##_##group##_##scales,                                                                      \
     KERNEL_k_skinny_##bits##_##group##_##scales##_32},
    PACKED_SAMES(X)
#undef X
};

static bool set_same(cuda_packed *p, const cuda_plan *plan) {
    const cuda_run *r = &plan->runs[0];
    for (size_t i = 0; plan->n_runs == 1 && i < sizeof sames / sizeof *sames; i++) {
        if (sames[i].bits != r->bits || sames[i].group != r->group || sames[i].scales != r->scales) continue;
        p->matvec = sames[i].matvec;
        p->unpack = sames[i].unpack;
        p->skinny = sames[i].skinny;
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
    p->unpack = KERNEL_k_unpack_mixed;
    p->skinny = KERNEL_k_skinny_mixed_32;
    p->sum = 32;
    return true;
}

/* ---- loading ---- */

typedef struct packing {
    const cuda_plan *plan;
    const quant_matrix *m;
} packing;

static void pack_tile(void *context, uint8_t *to, int64_t tile, int worker) {
    const packing *p = context;
    pack_cuda_tiles(to, p->plan, p->m, (int)tile, 1);
}

static qp_status send_tiles(cuda_device *c, const cuda_packed *p, const cuda_plan *plan, const quant_matrix *m,
                            qp_error *err) {
    packing context = {plan, m};
    const window_load load = {
        .make = pack_tile, .context = &context, .n_items = p->n_tiles, .item_bytes = p->tile_bytes, .to = p->tiles};
    return window_send(c, &load, err);
}

static qp_status take_and_send(cuda_device *c, void **out, const void *from, size_t bytes, qp_error *err) {
    cuda_lock(c);
    const qp_status status = cuda_take(c, out, bytes, err);
    cuda_unlock(c);
    return status == QP_OK ? cuda_send(c, *out, from, bytes, err) : status;
}

static qp_status send_units(cuda_device *c, cuda_packed *p, const cuda_plan *plan, qp_error *err) {
    const size_t bytes = (size_t)p->n_units * sizeof(packed_unit);
    packed_unit *units = mem_array((size_t)p->n_units, sizeof *units);
    if (!units) return err_no_memory(err, bytes, "the units of a matrix");
    for (int i = 0; i < plan->n_runs; i++) {
        const cuda_run *r = &plan->runs[i];
        for (int u = 0; u < r->n_units; u++)
            units[r->first_unit + u] =
                (packed_unit){.offset = (uint32_t)(r->offset + (size_t)u * (size_t)r->unit_bytes),
                              .bytes = r->unit_bytes,
                              .kind = PACKED_KIND(r->bits, r->group)};
    }
    void *there = NULL;
    const qp_status status = take_and_send(c, &there, units, bytes, err);
    p->units = there;
    p->layout = hash_bytes(units, bytes, p->layout);
    mem_free(units);
    return status;
}

static qp_status load(cuda_device *c, cuda_packed *p, const cuda_plan *plan, const quant_matrix *m, qp_error *err) {
    cuda_lock(c);
    qp_status status = cuda_take(c, &p->tiles, p->bytes, err);
    cuda_unlock(c);
    if (status == QP_OK) status = send_tiles(c, p, plan, m, err);
    if (status == QP_OK && p->matvec == KERNEL_k_matvec_mixed) status = send_units(c, p, plan, err);
    if (status == QP_OK && plan->order) {
        const size_t bytes = (size_t)p->n_units * PACKED_UNIT * sizeof *plan->order;
        void *there = NULL;
        status = take_and_send(c, &there, plan->order, bytes, err);
        p->order = there;
        p->layout = hash_bytes(plan->order, bytes, p->layout);
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
        if (plan->runs[i].unit_bytes > is->most_unit_bytes) is->most_unit_bytes = plan->runs[i].unit_bytes;
    return plan->tile_bytes <= UINT32_MAX && (set_same(is, plan) || set_mixed(is, plan)) &&
           mem_mul((size_t)is->n_tiles, is->tile_bytes, &is->bytes);
}

size_t cuda_packed_bytes(const quant_matrix *m) {
    bool possible = false;
    size_t bytes = 0;
    cuda_packed is;
    cuda_plan *plan = MEM_NEW(cuda_plan);
    if (plan && pack_cuda_plan(plan, &possible, m, NULL) == QP_OK && possible && describe(&is, plan)) {
        bytes = is.bytes + (plan->order ? (size_t)is.n_units * PACKED_UNIT * sizeof *plan->order : 0);
        if (is.matvec == KERNEL_k_matvec_mixed) bytes += (size_t)is.n_units * sizeof(packed_unit);
    }
    if (plan) pack_cuda_free(plan);
    mem_free(plan);
    return bytes;
}

static qp_status make(cuda_device *c, cuda_packed **out, const cuda_plan *plan, const quant_matrix *m, qp_error *err) {
    cuda_packed is;
    if (!describe(&is, plan)) return QP_OK;
    cuda_packed *p = MEM_NEW(cuda_packed);
    if (!p) return err_no_memory(err, sizeof *p, "a packed matrix");
    *p = is;
    const qp_status status = load(c, p, plan, m, err);
    if (status != QP_OK) {
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
    cuda_give(c, p->units);
    mem_free(p);
}

/* ---- room ---- */

static bool has_gemm(const cuda_device *c) { return c->gpu.major == 9 && c->kernels[KERNEL_k_gemm90]; }

static size_t blocks_bytes(int n_rows, int n_units) {
    return (size_t)((n_rows + GEMM_SIDE - 1) / GEMM_SIDE * GEMM_SIDE) * (size_t)n_units * PACKED_UNIT * 2;
}

static bool needs_room(const cuda_device *c, int max_rows) {
    return has_gemm(c) && !c->head.exact && max_rows > CUDA_ALIKE_ROWS;
}

static size_t widest_blocks(int max_rows, int64_t max_in) {
    return blocks_bytes(max_rows, (int)(max_in / PACKED_UNIT) + MORE_UNITS);
}

size_t cuda_packed_room(const cuda_device *c, int max_rows, int64_t max_in) {
    return needs_room(c, max_rows) ? widest_blocks(max_rows, max_in) + UNPACKED_BYTES : 0;
}

qp_status cuda_packed_reserve(cuda_device *c, int max_rows, int64_t max_in, qp_error *err) {
    if (!needs_room(c, max_rows)) return QP_OK;
    ERR_TRY(cuda_widen(c, &c->blocks, &c->blocks_bytes, widest_blocks(max_rows, max_in), err));
    return cuda_widen(c, &c->unpacked, &c->unpacked_bytes, UNPACKED_BYTES, err);
}

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
static bool fit_matvec(const cuda_device *c, packed_args *a, const cuda_packed *p, launch_shape *shape) {
    for (int rows = a->n_rows < MATVEC_ROWS ? a->n_rows : MATVEC_ROWS; rows; rows--)
        for (int groups = 2; groups; groups--)
            for (int depth = 4; depth > 1; depth--) {
                const int bytes = matvec_shared(rows, p->n_units, p->sum, p->most_unit_bytes, depth, groups);
                if (bytes > c->gpu.most_shared) continue;
                a->rows_each = rows;
                a->depth = depth;
                shape->threads = groups * MATVEC_THREADS;
                shape->shared_bytes = (size_t)bytes;
                return true;
            }
    return false;
}

static void matvec(cuda_device *c, packed_args *a, const cuda_packed *p) {
    launch_shape shape = {.early = true};
    if (!fit_matvec(c, a, p, &shape)) {
        if (c->failure.code == QP_OK)
            err_set(&c->failure, QP_UNSUPPORTED, 0, "cuda: a matrix of %d inputs is too wide for GPU %s",
                    p->n_units * PACKED_UNIT, c->gpu.name);
        return;
    }
    shape.x = a->n_tiles < c->gpu.multiprocessors ? a->n_tiles : c->gpu.multiprocessors;
    shape.y = (a->n_rows + a->rows_each - 1) / a->rows_each;
    launch_push(c, p->matvec, shape, a, sizeof *a);
}

static bool is_many(const cuda_device *c, int n_rows, const cuda_packed *p) {
    return n_rows > CUDA_ALIKE_ROWS && has_gemm(c) && blocks_bytes(n_rows, p->n_units) <= c->blocks_bytes &&
           (size_t)n_rows * sizeof(float) <= c->scales_bytes &&
           (size_t)p->n_units * PACKED_UNIT * 2 * GEMM_SIDE <= c->unpacked_bytes;
}

/* Threads that hold a row together, as far as they can. */
static int row_threads(int n_units) {
    const int pieces = n_units * PACKED_UNIT / 8, threads = (pieces + BLOCKS_PIECES - 1) / BLOCKS_PIECES;
    return threads < BLOCKS_THREADS ? (threads + 31) / 32 * 32 : BLOCKS_THREADS;
}

static void push_blocks(cuda_device *c, kernel_id kernel, k_blocks_args *b, int n_rows, int n_units) {
    b->out = c->blocks;
    b->row_scale = c->scales;
    b->n_blocks = 4 * n_units;
    b->spread = n_rows <= SKINNY_ROWS;
    launch_push(c, kernel, (launch_shape){.x = n_rows, .threads = row_threads(n_units), .early = true}, b, sizeof *b);
}

/* Rows of activations as float16, in c->blocks. */
static void put_blocks(cuda_device *c, const packed_args *a, const cuda_packed *p) {
    k_blocks_args b = {.x = a->x, .x_stride = a->x_stride, .order = a->order, .n_in = a->n_in};
    if (c->blocks_of != a->x) push_blocks(c, KERNEL_k_blocks, &b, a->n_rows, p->n_units);
}

/* The packed matrix that is multiplied by rows which can be made without knowing more of it; NULL: it is not so. */
static const cuda_packed *plain_reader(const cuda_device *c, const dev_weight *w, int n_rows) {
    const cuda_packed *p = ((const cuda_weight *)w->packed)->packed;
    const bool fits = p && !p->order && p->n_units * PACKED_UNIT <= row_threads(p->n_units) * 8 * BLOCKS_PIECES;
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
    c->blocks_of = a->out;
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
    c->blocks_of = a->parts[0].out;
    return true;
}

/* How many blocks share the inputs of a tile: that takes the fewest units one after the other, counting what beginning
 * and meeting cost as units. It hangs on the matrix alone, as the order of its sums does. */
static int choose_share(const cuda_device *c, int n_tiles, int n_units) {
    const int tiles = (n_tiles + SKINNY_TILES - 1) / SKINNY_TILES, at_once = SKINNY_RESIDENT * c->gpu.multiprocessors;
    int best = 1, least = INT32_MAX;
    for (int share = 1; share <= SKINNY_MOST_SHARE && share <= n_units; share++) {
        const int waves = (tiles * share + at_once - 1) / at_once;
        const int units = waves * ((n_units + share - 1) / share + SHARE_COST);
        if (units < least) best = share, least = units;
    }
    return best;
}

/* As deep as shared memory allows, the activations first: a place of theirs is free again only when the block behind
 * has been begun. Weights must reach farther than they, or they would wait for each other. */
static size_t fit_skinny(const cuda_device *c, k_skinny_args *a, int columns, int unit_bytes) {
    static const struct depth { int w, x; } depths[] = {{5, 8}, {4, 8}, {3, 8}, {3, 7}, {3, 6}, {3, 5}, {2, 4}, {2, 3}};
    const int blocks = columns > 64 ? 1 : SKINNY_RESIDENT, room = c->gpu.most_shared / blocks - SHARED_OF_A_BLOCK;
    size_t i = 0;
    while (i + 1 < sizeof depths / sizeof *depths &&
           skinny_shared(columns, unit_bytes, depths[i].w, depths[i].x) > room)
        i++;
    a->w_depth = depths[i].w;
    a->x_depth = depths[i].x;
    return (size_t)skinny_shared(columns, unit_bytes, a->w_depth, a->x_depth);
}

static void skinny(cuda_device *c, const packed_args *args, const cuda_packed *p) {
    const int size = args->n_rows <= 32 ? 0 : args->n_rows <= 64 ? 1 : 2, columns = 32 << size;
    k_skinny_args a = {.weights = *args, .x = c->blocks, .row_scale = c->scales};
    a.share = choose_share(c, args->n_tiles, p->n_units);
    const size_t shared = fit_skinny(c, &a, columns, p->most_unit_bytes);
    const int64_t tiles = (args->n_tiles + SKINNY_TILES - 1) / SKINNY_TILES;
    put_blocks(c, args, p);
    launch_push(
        c, (kernel_id)((int)p->skinny + size),
        (launch_shape){
            .x = tiles * a.share, .threads = SKINNY_THREADS, .shared_bytes = shared, .cluster = a.share, .early = true},
        &a, sizeof a);
}

/* Slices of one part: unpacked, then multiplied. */
static void gemm_part(cuda_device *c, const packed_args *a, const cuda_packed *p, const packed_part *part) {
    const int fitting = (int)(c->unpacked_bytes / ((size_t)p->n_units * PACKED_UNIT * 2)) / GEMM_SIDE * GEMM_SIDE;
    const int slice = fitting / PACKED_ROWS; /* tiles */
    k_unpack_args u = {.weights = *a, .out = c->unpacked, .n_blocks = 4 * p->n_units};
    k_gemm_args g = {.x = c->blocks,
                     .w = c->unpacked,
                     .row_scale = c->scales,
                     .out_stride = part->out_stride,
                     .n_rows = a->n_rows,
                     .n_blocks = 4 * p->n_units,
                     .add = part->add};
    u.weights.parts[0] = *part;
    for (; u.first_tile < part->n_tiles; u.first_tile += slice) {
        const int first = u.first_tile * PACKED_ROWS, left = part->n_tiles - u.first_tile;
        u.n_tiles = left < slice ? left : slice;
        launch_push(c, p->unpack, (launch_shape){.x = 8 * c->gpu.multiprocessors, .threads = UNPACK_THREADS}, &u,
                    sizeof u);
        g.n_out = part->n_out - first < u.n_tiles * PACKED_ROWS ? part->n_out - first : u.n_tiles * PACKED_ROWS;
        g.out = part->out + first;
        g.bias = part->bias ? part->bias + first : NULL;
        launch_push(c, KERNEL_k_gemm90,
                    (launch_shape){.x = c->gpu.multiprocessors / GEMM_CLUSTER * GEMM_CLUSTER,
                                   .threads = GEMM_THREADS,
                                   .shared_bytes = GEMM_SHARED,
                                   .cluster = GEMM_CLUSTER},
                    &g, sizeof g);
    }
}

static void gemm(cuda_device *c, const packed_args *a, const cuda_packed *p) {
    put_blocks(c, a, p);
    for (int i = 0; i < a->n_parts; i++) gemm_part(c, a, p, &a->parts[i]);
}

void cuda_packed_matmul(cuda_device *c, const matmul_args *a, int first) {
    const cuda_packed *p = ((const cuda_weight *)a->parts[first].w->packed)->packed;
    packed_args args = {.x = a->x,
                        .x_stride = a->x_stride,
                        .order = p->order,
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
    if (is_many(c, args.n_rows, p) && args.n_rows <= SKINNY_ROWS)
        skinny(c, &args, p);
    else if (is_many(c, args.n_rows, p))
        gemm(c, &args, p);
    else
        matvec(c, &args, p);
}
