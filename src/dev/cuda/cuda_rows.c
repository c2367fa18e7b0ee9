/* cuda_rows.c — embedding, norms, gates, sums and copies on the GPU: arguments for the kernels of rows.cu.
 *
 * Called through the device's ops; calls launch.c. */
#include "cuda_packed.h"
#include <string.h>

enum { THREADS = 256, MOST_BLOCKS = 4096, NARROW_NORM = 512, WIDE_NORM = 4096 };

_Static_assert((int)K_PAGE == (int)DEV_PAGE_TOKENS && (int)K_KEY_GROUP == (int)DEV_KEY_GROUP, "kernels know the pages");
_Static_assert(ACT_SILU == 0 && ACT_GELU == 1 && ACT_GELU_TANH == 2 && ACT_RELU == 3 && ACT_RELU2 == 4 &&
                   ACT_QUICK_GELU == 5 && ACT_SIGMOID == 6 && ACT_COUNT == 7,
               "rows.cu knows the activations by number");

/* One thread for a value, in a grid that may be too small for all at once. */
static launch_shape spread(int64_t n, int64_t rows) {
    const int64_t blocks = (n + THREADS - 1) / THREADS;
    return (launch_shape){
        .x = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, .y = rows, .threads = THREADS, .early = true};
}

static void push(device *d, kernel_id kernel, launch_shape shape, const void *args, size_t bytes) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    launch_push(c, kernel, shape, args, bytes);
    cuda_unlock(c);
}

void cuda_embed(device *d, const embed_args *a) {
    static const kernel_id kernels[] = {
        [QUANT_F32] = KERNEL_k_embed_f32, [QUANT_F16] = KERNEL_k_embed_f16, [QUANT_BF16] = KERNEL_k_embed_bf16};
    cuda_device *c = cuda_of(d);
    const cuda_weight *w = a->table->packed;
    if (a->n_rows < 1) return;
    cuda_weight_here(c, a->table);
    cuda_lock(c);
    const int32_t *ids = launch_table_of(c, a->ids, (size_t)a->n_rows * sizeof *a->ids);
    /* more rows than a digest has are never led: their own ids stand for the best, which are read anyway */
    const k_embed_args args = {.ids = ids,
                               .best = a->n_rows > CUDA_MOST_HEADS ? ids : c->best,
                               .table = w->data,
                               .out = a->out,
                               .dim = a->table->n_in,
                               .scale = a->scale,
                               .add = a->add,
                               .is_tiled = w->is_tiled};
    cuda_note_ids(c, args.ids, (size_t)a->n_rows * sizeof *a->ids);
    launch_push(c, kernels[w->type], spread(args.dim, a->n_rows), &args, sizeof args);
    cuda_unlock(c);
}

void cuda_norm(device *d, const norm_args *a) {
    cuda_device *c = cuda_of(d);
    k_norm_args args = {.x = a->x,
                        .weight = a->weight,
                        .bias = a->kind == NORM_LAYER ? a->bias : NULL,
                        .out = a->out,
                        .dim = a->dim,
                        .heads = a->heads ? a->heads : 1,
                        .is_layer = a->kind == NORM_LAYER,
                        .own_weights = a->own_weights,
                        .eps = a->eps};
    if (a->n_rows < 1) return;
    cuda_lock(c);
    if (cuda_packed_norm(c, a)) {
        cuda_unlock(c);
        return;
    }
    if (a->rows) args.rows = launch_table_of(c, a->rows, (size_t)a->n_rows * sizeof *a->rows);
    const int threads = a->dim < NARROW_NORM ? 32 : a->dim < WIDE_NORM ? THREADS : 2 * THREADS;
    const launch_shape shape = {.x = args.heads, .y = a->n_rows, .threads = threads, .early = true};
    launch_push(c, KERNEL_k_norm, shape, &args, sizeof args);
    cuda_unlock(c);
}

/* ---- value by value ---- */

void cuda_gate(device *d, const gate_args *a) {
    const k_gate_args args = {.gate = a->gate, .up = a->up, .n = (int64_t)a->n_rows * a->dim, .act = a->act};
    push(d, KERNEL_k_gate, spread(args.n, 1), &args, sizeof args);
}

void cuda_clamped_gate(device *d, const clamped_gate_args *a) {
    const k_gate_args args = {
        .gate = a->gate, .up = a->up, .n = (int64_t)a->n_rows * a->dim, .alpha = a->alpha, .limit = a->limit};
    push(d, KERNEL_k_clamped_gate, spread(args.n, 1), &args, sizeof args);
}

void cuda_xielu(device *d, const xielu_args *a) {
    const k_xielu_args args = {a->x, (int64_t)a->n_rows * a->dim, a->alpha_p, a->alpha_n, a->beta, a->eps};
    push(d, KERNEL_k_xielu, spread(args.n, 1), &args, sizeof args);
}

void cuda_add(device *d, const add_args *a) {
    const k_add_args args = {.to = a->to,
                             .from = a->from,
                             .row_gate = a->row_gate,
                             .n = (int64_t)a->n_rows * a->dim,
                             .dim = a->dim,
                             .scale = a->scale};
    push(d, KERNEL_k_add, spread(args.n, 1), &args, sizeof args);
}

void cuda_limit(device *d, const limit_args *a) {
    const k_limit_args args = {
        .x = a->x, .n = (int64_t)a->n_rows * a->dim, .scale = a->scale, .cap = a->cap, .limit = a->limit};
    push(d, KERNEL_k_limit, spread(args.n, 1), &args, sizeof args);
}

void cuda_copy(device *d, const copy_args *a) {
    const uintptr_t bits = (uintptr_t)a->to | (uintptr_t)a->from | a->bytes | a->stride;
    const bool wide = bits % 16 == 0;
    const k_copy_args args = {.to = a->to,
                              .from = a->from,
                              .bytes = (int64_t)a->bytes,
                              .stride = (int64_t)a->stride,
                              .n_blocks = a->n_blocks};
    if (!a->bytes || a->n_blocks < 1) return;
    push(d, wide ? KERNEL_k_copy_wide : KERNEL_k_copy_bytes, spread((int64_t)a->bytes / (wide ? 16 : 1), a->n_blocks),
         &args, sizeof args);
}
