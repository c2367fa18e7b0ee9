/* cuda_experts.c — mixtures of experts on the GPU: choosing, grouping, the experts' products, mixing.
 *
 * Called through the device's ops; calls launch.c and cuda_matmul.c. Results are kept for each pair of a row and an
 * expert (device.keeps_pairs), so that all experts work at once; experts.cu tells in which order they are added up. */
#include "cuda.h"
#include <string.h>

enum { GROUP_THREADS = 512, THREADS = 256 };

void cuda_route(device *d, const route_args *a) {
    cuda_device *c = cuda_of(d);
    const route_rule *r = a->rule;
    const k_route_args args = {.logits = a->logits,
                               .bias = a->bias,
                               .experts = a->experts,
                               .weights = a->weights,
                               .n_experts = r->n_experts,
                               .top_k = r->top_k,
                               .sigmoid = r->sigmoid,
                               .n_groups = r->n_groups,
                               .groups = r->groups,
                               .group_best = r->group_best,
                               .normalize = r->normalize,
                               .floor = r->floor,
                               .scale = r->scale};
    const size_t doubles = 2 * (size_t)r->n_experts + (size_t)(r->n_groups > 0 ? r->n_groups : 0);
    if (a->n_rows < 1) return;
    cuda_lock(c);
    launch_push(c, KERNEL_k_route,
                (launch_shape){.x = a->n_rows, .threads = 32, .shared_bytes = doubles * sizeof(double)}, &args,
                sizeof args);
    cuda_unlock(c);
}

/* ---- the blocks ---- */

/* What the steps of one op have in common. */
typedef struct job {
    cuda_device *c;
    const experts_args *a;
    k_groups groups;
    int n_pairs, n_active;
    const k_expert *gate, *up, *down; /* device memory, [n_experts] each */
} job;

static launch_shape pieces(int dim, int64_t rows) {
    return (launch_shape){.x = (dim + THREADS - 1) / THREADS, .y = rows, .threads = THREADS};
}

static bool is_same(const cuda_weight *a, const cuda_weight *b) {
    return a->type == b->type && a->is_tiled == b->is_tiled;
}

/* False: they do not all lie alike. */
static bool write_experts(k_expert *out, const expert_weights *w, int n) {
    for (int e = 0; e < n; e++) {
        const cuda_weight *packed = w->w[e].packed;
        if (!is_same(packed, w->w[0].packed)) return false;
        out[e] = (k_expert){packed->data, w->bias ? w->bias[e] : NULL};
    }
    return true;
}

/* The experts' addresses, and which pairs each has. False: the step has failed. */
static bool group(job *j) {
    const experts_args *a = j->a;
    cuda_device *c = j->c;
    const size_t n = (size_t)a->n_experts, lists = n * (size_t)a->n_rows, bytes = 3 * n * sizeof(k_expert);
    k_expert *host = launch_table(c, bytes);
    if (!host) return false;
    if ((2 * n + lists) * sizeof(int32_t) > c->lists_bytes) {
        err_set(&c->failure, QP_INTERNAL, 0, "cuda: %d rows among %d experts, there is room for %d rows", a->n_rows,
                a->n_experts, c->max_rows);
        return false;
    }
    if (!write_experts(host, &a->gate, a->n_experts) || !write_experts(host + n, &a->up, a->n_experts) ||
        !write_experts(host + 2 * n, &a->down, a->n_experts)) {
        err_set(&c->failure, QP_UNSUPPORTED, 0, "cuda: experts of one layer that are stored in different ways");
        return false;
    }
    j->gate = launch_table_done(c, host, bytes);
    j->up = j->gate + n;
    j->down = j->up + n;
    const k_group_args args = {.experts = a->experts,
                               .active = c->lists,
                               .counts = c->lists + n,
                               .lists = c->lists + 2 * n,
                               .n_pairs = j->n_pairs,
                               .n_experts = a->n_experts,
                               .list_stride = a->n_rows,
                               .n_active = j->n_active};
    launch_push(c, KERNEL_k_group, (launch_shape){.x = 1, .threads = GROUP_THREADS}, &args, sizeof args);
    j->groups = (k_groups){args.active, args.counts, args.lists, args.list_stride, 1};
    return true;
}

static k_part part_of(const k_expert *experts, float *out, int width) {
    return (k_part){.experts = experts, .out = out, .out_stride = width, .n_out = width};
}

/* gate(x) and up(x) of each pair. */
static void multiply_in(const job *j) {
    const experts_args *a = j->a;
    cuda_grouped g = {.x = a->weigh_input ? a->rows_in : a->x,
                      .n_x = a->weigh_input ? j->n_pairs : a->n_rows,
                      .n_in = a->dim,
                      .n_rows = a->n_rows,
                      .n_parts = 2,
                      .n_active = j->n_active,
                      .groups = j->groups,
                      .parts = {part_of(j->gate, a->rows_gate, a->ffn), part_of(j->up, a->rows_up, a->ffn)},
                      .like = a->gate.w[0].packed};
    if (!a->weigh_input) g.groups.x_divisor = a->top_k;
    const bool together = is_same(a->gate.w[0].packed, a->up.w[0].packed);
    if (!together) g.n_parts = 1;
    cuda_matmul_grouped(j->c, &g);
    if (together) return;
    g.parts[0] = g.parts[1];
    g.like = a->up.w[0].packed;
    cuda_matmul_grouped(j->c, &g);
}

static void activate(const job *j) {
    const experts_args *a = j->a;
    const k_gate_args args = {.gate = a->rows_gate,
                              .up = a->rows_up,
                              .n = (int64_t)j->n_pairs * a->ffn,
                              .act = a->act,
                              .alpha = a->alpha,
                              .limit = a->limit};
    const int64_t blocks = (args.n + THREADS - 1) / THREADS;
    launch_push(j->c, a->kind == EXPERT_CLAMPED_GATE ? KERNEL_k_clamped_gate : KERNEL_k_gate,
                (launch_shape){.x = blocks < 4096 ? blocks : 4096, .threads = THREADS}, &args, sizeof args);
}

static void multiply_out(const job *j) {
    const experts_args *a = j->a;
    const cuda_grouped g = {.x = a->rows_gate,
                            .n_x = j->n_pairs,
                            .n_in = a->ffn,
                            .n_rows = a->n_rows,
                            .n_parts = 1,
                            .n_active = j->n_active,
                            .groups = j->groups,
                            .parts = {part_of(j->down, a->rows, a->dim)},
                            .like = a->down.w[0].packed};
    cuda_matmul_grouped(j->c, &g);
}

static void run(job *j) {
    const experts_args *a = j->a;
    const k_pairs_args weigh = {a->x, a->weights, a->rows_in, a->dim, a->top_k};
    const k_pairs_args mix = {a->rows, a->weigh_input ? NULL : a->weights, a->out, a->dim, a->top_k};
    if (a->weigh_input) launch_push(j->c, KERNEL_k_weigh, pieces(a->dim, j->n_pairs), &weigh, sizeof weigh);
    multiply_in(j);
    activate(j);
    multiply_out(j);
    launch_push(j->c, KERNEL_k_mix, pieces(a->dim, a->n_rows), &mix, sizeof mix);
}

void cuda_experts(device *d, const experts_args *a) {
    job j = {.c = cuda_of(d), .a = a, .n_pairs = a->n_rows * a->top_k};
    if (a->n_rows < 1) return;
    for (int e = 0; e < a->n_experts; e++) {
        cuda_weight_here(j.c, &a->gate.w[e]);
        cuda_weight_here(j.c, &a->up.w[e]);
        cuda_weight_here(j.c, &a->down.w[e]);
    }
    j.n_active = j.n_pairs < a->n_experts ? j.n_pairs : a->n_experts;
    cuda_lock(j.c);
    if (group(&j)) run(&j);
    cuda_unlock(j.c);
}
