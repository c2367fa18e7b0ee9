/* cuda_matmul.c — matrix products on the GPU: which kernel, and its grid.
 *
 * Called through the device's ops and by cuda_experts.c; calls launch.c. Parts of an op whose weights lie alike share a
 * launch. Rows of x become 16 bits once for the parts that want them so. */
#include "cuda_mixture.h"
#include "cuda_window.h"
#include "base/mem.h"
#include <string.h>

enum {
    OUTPUTS = 16, /* of a block, in either kernel */
    EXACT_ROWS = 8,
    EXACT_THREADS = 128,
    TILED_THREADS = 256,
    GATE_THREADS = 256,
    MOST_TOP_K = 64, /* experts of a row */
    MOST_EXPERTS = 1024,
    MORE_INPUTS = 8192,     /* of a row's pairs together, where units and runs are filled */
    PARTS_BYTES = 64 << 20, /* attention's */
};

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }
static int64_t padded(int64_t n_in) { return up(n_in, K_TILE_DEPTH) * K_TILE_DEPTH; }

/* ---- room ---- */

/* Bytes of each kind of scratch. */
typedef struct room {
    size_t narrow, scales, parts, lists;
} room;

/* A row may be many pairs, each padded. False: more than any memory. */
static bool room_for(room *out, const cuda_device *c, int max_rows, int64_t max_in) {
    const size_t most_parts = c->gpu.memory_bytes / 64, rows = (size_t)max_rows;
    size_t width, bytes;
    if (!mem_add((size_t)max_in, MORE_INPUTS, &width) || !mem_mul(width, rows, &bytes) || bytes > PTRDIFF_MAX / 4)
        return false;
    *out = (room){.narrow = 2 * bytes,
                  .scales = rows * MOST_TOP_K * sizeof(float),
                  .parts = most_parts < PARTS_BYTES ? most_parts : PARTS_BYTES,
                  .lists = MOST_EXPERTS * (rows + 2) * sizeof(int32_t) + MOST_TOP_K * rows * sizeof(k_share)};
    return true;
}

size_t cuda_reserve_bytes(device *d, int max_rows, int64_t max_in) {
    const cuda_device *c = cuda_of(d);
    room r;
    if (!room_for(&r, c, max_rows, max_in)) return SIZE_MAX;
    return r.narrow + r.scales + r.parts + r.lists + cuda_packed_room(c, max_rows, max_in);
}

static qp_status reserve(cuda_device *c, const room *r, qp_error *err) {
    void *narrow = c->narrow, *scales = c->scales, *parts = c->parts, *lists = c->lists;
    qp_status status = cuda_widen(c, &narrow, &c->narrow_bytes, r->narrow, err);
    c->narrow = narrow;
    if (status == QP_OK) status = cuda_widen(c, &scales, &c->scales_bytes, r->scales, err);
    c->scales = scales;
    if (status == QP_OK) status = cuda_widen(c, &parts, &c->parts_bytes, r->parts, err);
    c->parts = parts;
    if (status == QP_OK) status = cuda_widen(c, &lists, &c->lists_bytes, r->lists, err);
    c->lists = lists;
    return status;
}

qp_status cuda_reserve(device *d, int max_rows, int64_t max_in, qp_error *err) {
    cuda_device *c = cuda_of(d);
    room r;
    window_close(c); /* what a step reads has been loaded */
    if (max_rows < 1 || max_in < 1)
        return err_set(err, QP_BAD_ARGUMENT, 0, "device: room for %d rows of %lld, allowed are 1 and more", max_rows,
                       (long long)max_in);
    if (max_rows < c->max_rows) max_rows = c->max_rows;
    if (max_in < c->max_in) max_in = c->max_in;
    if (!room_for(&r, c, max_rows, max_in))
        return err_set(err, QP_TOO_LARGE, 0, "device: room for %d rows of %lld is more than any memory", max_rows,
                       (long long)max_in);
    cuda_lock(c);
    qp_status status = reserve(c, &r, err);
    if (status == QP_OK) status = cuda_packed_reserve(c, max_rows, max_in, err);
    if (status == QP_OK) status = cuda_mixture_reserve(c, err);
    cuda_unlock(c);
    if (status != QP_OK) return status;
    c->max_rows = max_rows;
    c->max_in = max_in;
    return QP_OK;
}

/* ---- launches ---- */

/* Rows of x as 16 bits, in c->narrow. */
static void narrow(cuda_device *c, k_matmul_args *m, quant_id type, int n_x) {
    const k_narrow_args a = {.x = m->x,
                             .out = c->narrow,
                             .scale = type == QUANT_F16 ? c->scales : NULL,
                             .x_stride = m->x_stride,
                             .out_stride = padded(m->n_in),
                             .n_in = m->n_in};
    if ((size_t)n_x * (size_t)a.out_stride * 2 > c->narrow_bytes || (size_t)n_x * sizeof(float) > c->scales_bytes) {
        if (c->failure.code == QP_OK)
            err_set(&c->failure, QP_INTERNAL, 0, "cuda: %d rows of %d, there is room for %d of %lld", n_x, m->n_in,
                    c->max_rows, (long long)c->max_in);
        return;
    }
    launch_push(c, type == QUANT_F16 ? KERNEL_k_narrow_f16 : KERNEL_k_narrow_bf16,
                (launch_shape){.x = n_x, .threads = TILED_THREADS, .early = true}, &a, sizeof a);
    m->x = a.out;
    m->scale = a.scale;
    m->x_stride = a.out_stride;
}

static kernel_id tiled_kernel(quant_id type, int tiles) {
    const kernel_id first = tiles == 1   ? KERNEL_k_tiled_f16_1
                            : tiles == 4 ? KERNEL_k_tiled_f16_4
                                         : KERNEL_k_tiled_f16_8;
    return (kernel_id)((int)first + (type == QUANT_BF16));
}

static void launch_tiled(cuda_device *c, k_matmul_args *m, quant_id type, int n_x, int64_t blocks, int n_active) {
    const int tiles = m->n_rows <= 8 ? 1 : m->n_rows <= 32 ? 4 : 8;
    narrow(c, m, type, n_x);
    const launch_shape shape = {
        .x = blocks, .y = up(m->n_rows, 8 * tiles), .z = n_active, .threads = TILED_THREADS, .early = true};
    launch_push(c, tiled_kernel(type, tiles), shape, m, sizeof *m);
}

static void launch_exact(cuda_device *c, k_matmul_args *m, quant_id type, int64_t blocks, int n_active) {
    const int rows = m->n_rows == 1 ? 1 : EXACT_ROWS;
    const kernel_id kernel = (kernel_id)((rows == 1 ? KERNEL_k_exact_f32_1 : KERNEL_k_exact_f32_8) + (int)type);
    launch_push(c, kernel,
                (launch_shape){.x = blocks, .y = up(m->n_rows, rows), .z = n_active, .threads = EXACT_THREADS}, m,
                sizeof *m);
}

_Static_assert(MORE_INPUTS >= MOST_TOP_K * K_TILE_DEPTH, "a pair fills its last tile");
_Static_assert(KERNEL_k_exact_bf16_1 - KERNEL_k_exact_f32_1 == QUANT_BF16 && QUANT_F32 == 0 &&
                   KERNEL_k_exact_bf16_8 - KERNEL_k_exact_f32_8 == QUANT_BF16 && QUANT_F16 + 1 == QUANT_BF16,
               "kernels in the order of the formats");

/* Parts of m whose weights lie as `like`. */
static void launch_parts(cuda_device *c, k_matmul_args *m, const cuda_weight *like, bool is_exact, int n_x,
                         int n_active) {
    int64_t blocks = 0;
    for (int i = 0; i < m->n_parts; i++) {
        m->first[i] = (int32_t)blocks;
        blocks += up(m->parts[i].n_out, OUTPUTS);
    }
    m->is_tiled = like->is_tiled;
    if (like->is_tiled && !is_exact)
        launch_tiled(c, m, like->type, n_x, blocks, n_active);
    else
        launch_exact(c, m, like->type, blocks, n_active);
}

void cuda_matmul_grouped(cuda_device *c, const cuda_grouped *g) {
    k_matmul_args m = {.x = g->x,
                       .x_stride = g->n_in,
                       .n_rows = g->n_rows,
                       .n_in = g->n_in,
                       .n_parts = g->n_parts,
                       .groups = g->groups};
    memcpy(m.parts, g->parts, sizeof m.parts);
    launch_parts(c, &m, g->like, false, g->n_x, g->n_active);
}

/* ---- the op ---- */

static const cuda_weight *weight_of(const matmul_args *a, int i) { return a->parts[i].w->packed; }

static bool is_alike(const cuda_weight *a, const cuda_weight *b) {
    if (a->packed || b->packed) return cuda_packed_alike(a->packed, b->packed);
    return a->type == b->type && a->is_tiled == b->is_tiled;
}

/* A part earlier in the list lies the same way: it has been launched with that. */
static bool is_done(const matmul_args *a, int i) {
    for (int k = 0; k < i; k++)
        if (is_alike(weight_of(a, k), weight_of(a, i))) return true;
    return false;
}

static k_part part_of(const matmul_part *p) {
    const cuda_weight *w = p->w->packed;
    return (k_part){.w = w->data,
                    .bias = p->bias,
                    .out = p->out,
                    .out_stride = p->out_stride,
                    .n_out = (int32_t)p->w->n_out,
                    .add = p->add};
}

static void gate(cuda_device *c, const matmul_args *a) {
    const k_gate_args args = {
        .gate = a->parts[0].out, .up = a->parts[1].out, .n = a->n_rows * a->parts[0].w->n_out, .act = (int32_t)a->act};
    const int64_t blocks = up(args.n, GATE_THREADS);
    launch_push(c, KERNEL_k_gate,
                (launch_shape){.x = blocks < 4096 ? blocks : 4096, .threads = GATE_THREADS, .early = true}, &args,
                sizeof args);
}

void cuda_matmul(device *d, const matmul_args *a) {
    cuda_device *c = cuda_of(d);
    bool is_gated = false;
    if (a->n_rows < 1) return;
    for (int i = 0; i < a->n_parts; i++) cuda_weight_here(c, a->parts[i].w);
    cuda_lock(c);
    for (int i = 0; i < a->n_parts; i++) {
        if (is_done(a, i)) continue;
        if (weight_of(a, i)->packed) {
            is_gated = cuda_packed_matmul(c, a, i);
            continue;
        }
        k_matmul_args m = {
            .x = a->x, .x_stride = a->x_stride, .n_rows = a->n_rows, .n_in = (int32_t)a->parts[0].w->n_in};
        for (int k = i; k < a->n_parts; k++)
            if (is_alike(weight_of(a, k), weight_of(a, i))) m.parts[m.n_parts++] = part_of(&a->parts[k]);
        launch_parts(c, &m, weight_of(a, i), a->is_exact, a->n_rows, 1);
    }
    if (!is_gated) c->waiting.of = NULL;
    if (a->is_gated && !is_gated && !cuda_packed_gate(c, a)) gate(c, a);
    cuda_unlock(c);
}
