/* cuda_experts.c — mixtures of experts on the GPU: choosing, grouping, the experts' products, mixing.
 *
 * Called through the device's ops; calls launch.c, cuda_mixture.c for packed experts and cuda_matmul.c for others.
 * Results are kept for each pair of a row and an expert (device.keeps_pairs), so that all experts work at once;
 * experts.cu tells in which order they are added up. */
#include "cuda_mixture.h"
#include <math.h>
#include <string.h>

enum { GROUP_THREADS = 512, THREADS = 256 };

void cuda_route(device *d, const route_args *a) {
    cuda_device *c = cuda_of(d);
    const route_rule *r = a->rule;
    const int n_groups = r->n_groups > 0 ? r->n_groups : 0;
    const k_route_args args = {.logits = a->logits,
                               .bias = a->bias,
                               .experts = a->experts,
                               .weights = a->weights,
                               .n_experts = r->n_experts,
                               .top_k = r->top_k,
                               .sigmoid = r->sigmoid,
                               .n_groups = n_groups,
                               .groups = r->groups,
                               .group_best = r->group_best,
                               .normalize = r->normalize,
                               .floor = r->floor,
                               .scale = r->scale};
    const size_t shared =
        (2 * (size_t)r->n_experts + (size_t)n_groups) * sizeof(double) + 2 * (size_t)r->top_k * sizeof(int32_t);
    if (a->n_rows < 1) return;
    cuda_lock(c);
    launch_push(c, KERNEL_k_route, (launch_shape){.x = a->n_rows, .threads = 32, .shared_bytes = shared, .early = true},
                &args, sizeof args);
    cuda_unlock(c);
}

/* ---- the blocks ---- */

/* What the steps of one op have in common. */
typedef struct job {
    cuda_device *c;
    const experts_args *a;
    const cuda_mixture *mixture;
    mixture_cut cut;
    k_groups groups;
    int n_pairs, n_active;
    const k_expert *plain[MIXTURE_PROJECTIONS];    /* device memory, [n_experts] each */
    const float *const *bias[MIXTURE_PROJECTIONS]; /* likewise; NULL: there is none */
} job;

static launch_shape pieces(int dim, int64_t rows) {
    return (launch_shape){.x = (dim + THREADS - 1) / THREADS, .y = rows, .threads = THREADS, .early = true};
}

static void write_plain(k_expert *out, const expert_weights *w, int n) {
    for (int e = 0; e < n; e++)
        out[e] = (k_expert){((const cuda_weight *)w->w[e].packed)->data, w->bias ? w->bias[e] : NULL};
}

/* Where experts of 16 bits lie, and all biases. False: the step has failed. */
static bool write_tables(job *j) {
    const experts_args *a = j->a;
    const expert_weights *const weights[] = {&a->gate, &a->up, &a->down};
    const size_t n = (size_t)a->n_experts, plain = j->mixture->has_plain ? MIXTURE_PROJECTIONS * n : 0;
    const bool has_bias = a->gate.bias || a->up.bias || a->down.bias;
    const size_t bytes = plain * sizeof(k_expert) + (has_bias ? MIXTURE_PROJECTIONS * n * sizeof(float *) : 0);
    if (!bytes) return true;
    k_expert *host = launch_table(j->c, bytes);
    if (!host) return false;
    const float **biases = (const float **)(void *)(host + plain);
    for (size_t i = 0; i < MIXTURE_PROJECTIONS; i++) {
        if (plain) write_plain(host + i * n, weights[i], a->n_experts);
        for (size_t e = 0; has_bias && e < n; e++) biases[i * n + e] = weights[i]->bias ? weights[i]->bias[e] : NULL;
    }
    const k_expert *there = launch_table_done(j->c, host, bytes);
    for (size_t i = 0; i < MIXTURE_PROJECTIONS; i++) {
        j->plain[i] = there + i * n;
        if (weights[i]->bias) j->bias[i] = (const float *const *)(const void *)(there + plain) + i * n;
    }
    return true;
}

/* Which pairs each expert has. False: the step has failed. */
static bool group(job *j) {
    const experts_args *a = j->a;
    cuda_device *c = j->c;
    const size_t n = (size_t)a->n_experts, lists = n * (size_t)a->n_rows;
    k_share *shares = (k_share *)(void *)c->lists;
    int32_t *rest = c->lists + (size_t)j->cut.n_shares * (sizeof *shares / sizeof *rest);
    if ((size_t)j->cut.n_shares * sizeof *shares + (2 * n + lists) * sizeof(int32_t) > c->lists_bytes) {
        err_set(&c->failure, QP_INTERNAL, 0, "cuda: %d rows among %d experts, there is room for %d rows", a->n_rows,
                a->n_experts, c->max_rows);
        return false;
    }
    const k_group_args args = {.experts = a->experts,
                               .active = rest,
                               .counts = rest + n,
                               .lists = rest + 2 * n,
                               .shares = shares,
                               .n_pairs = j->n_pairs,
                               .n_experts = a->n_experts,
                               .list_stride = a->n_rows,
                               .n_active = j->n_active,
                               .n_shares = j->cut.n_shares,
                               .rows_each = j->cut.rows_each};
    launch_push(c, KERNEL_k_group,
                (launch_shape){.x = 1, .threads = GROUP_THREADS, .shared_bytes = n * sizeof(uint32_t), .early = true},
                &args, sizeof args);
    j->groups = (k_groups){args.active, args.shares, args.counts, args.lists, args.list_stride, 1};
    return true;
}

/* One projection's experts of 16 bits, or those of two that lie alike. */
static void multiply_plain(const job *j, const cuda_grouped *g, int first, int n_parts) {
    cuda_grouped now = *g;
    now.n_parts = 0;
    now.like = j->mixture->of[first].plain;
    for (int i = 0; i < n_parts; i++) {
        now.parts[now.n_parts] = g->parts[i];
        now.parts[now.n_parts++].experts = j->plain[first + i];
    }
    if (now.like) cuda_matmul_grouped(j->c, &now);
}

static bool is_same(const cuda_weight *a, const cuda_weight *b) {
    return a && b && a->type == b->type && a->is_tiled == b->is_tiled;
}

/* Projections [first, first + n) times g->x, all ways in which their experts are stored. */
static void multiply(const job *j, const cuda_grouped *g, const k_gated_inputs *gate, int first, int n) {
    const cuda_mixture *m = j->mixture;
    mixture_product p = {.x = g->x,
                         .n_x = g->n_x,
                         .n_in = g->n_in,
                         .n_pairs = j->n_pairs,
                         .chosen = j->a->experts,
                         .groups = g->groups,
                         .cut = j->cut,
                         .gate = *gate};
    const bool alike = n == 2 && is_same(m->of[first].plain, m->of[first + 1].plain);
    const int at_once = n == 2 && m->together ? 2 : 1;
    for (int i = 0; i < n; i += at_once) {
        p.first = first + i;
        p.are_made = i && m->of[first].n_families && !m->of[first].has_order && !m->of[first + 1].has_order;
        p.n_parts = at_once;
        for (int k = 0; k < at_once; k++)
            p.parts[k] = (k_expert_part){.bias = j->bias[first + i + k],
                                         .out = g->parts[i + k].out,
                                         .out_stride = g->parts[i + k].out_stride,
                                         .n_out = g->parts[i + k].n_out};
        cuda_mixture_multiply(j->c, m, &p);
    }
    for (int i = 0; i < n; i += alike ? 2 : 1) {
        cuda_grouped one = *g;
        one.parts[0] = g->parts[i];
        multiply_plain(j, &one, first + i, alike ? 2 : 1);
    }
}

static k_part part_of(float *out, int width) { return (k_part){.out = out, .out_stride = width, .n_out = width}; }

/* gate(x) and up(x) of each pair. */
static void multiply_in(const job *j) {
    const experts_args *a = j->a;
    cuda_grouped g = {.x = a->weigh_input ? a->rows_in : a->x,
                      .n_x = a->weigh_input ? j->n_pairs : a->n_rows,
                      .n_in = a->dim,
                      .n_rows = a->n_rows,
                      .n_active = j->n_active,
                      .groups = j->groups,
                      .parts = {part_of(a->rows_gate, a->ffn), part_of(a->rows_up, a->ffn)}};
    if (!a->weigh_input) g.groups.x_divisor = a->top_k;
    multiply(j, &g, &(k_gated_inputs){0}, MIXTURE_GATE, 2);
}

/* Whether the product behind the gate does what it does; *out is how. */
static bool leave_gate(const job *j, k_gated_inputs *out) {
    const experts_args *a = j->a;
    if (j->mixture->of[MIXTURE_DOWN].plain) return false;
    if (a->kind == EXPERT_CLAMPED_GATE)
        *out = (k_gated_inputs){.up = a->rows_up, .alpha = a->alpha, .limit = a->limit, .more = 1};
    else if (a->act == ACT_SILU)
        *out = (k_gated_inputs){.up = a->rows_up, .alpha = 1, .limit = INFINITY};
    return out->up;
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
                (launch_shape){.x = blocks < 4096 ? blocks : 4096, .threads = THREADS, .early = true}, &args,
                sizeof args);
}

static void multiply_out(const job *j) {
    const experts_args *a = j->a;
    k_gated_inputs gate = {0};
    if (!leave_gate(j, &gate)) activate(j);
    const cuda_grouped g = {.x = a->rows_gate,
                            .n_x = j->n_pairs,
                            .n_in = a->ffn,
                            .n_rows = a->n_rows,
                            .n_active = j->n_active,
                            .groups = j->groups,
                            .parts = {part_of(a->rows, a->dim)}};
    multiply(j, &g, &gate, MIXTURE_DOWN, 1);
}

static void run(job *j) {
    const experts_args *a = j->a;
    const k_pairs_args weigh = {a->x, a->weights, a->rows_in, a->dim, a->top_k};
    const k_pairs_args mix = {a->rows, a->weigh_input ? NULL : a->weights, a->out, a->dim, a->top_k};
    if (a->weigh_input) launch_push(j->c, KERNEL_k_weigh, pieces(a->dim, j->n_pairs), &weigh, sizeof weigh);
    multiply_in(j);
    multiply_out(j);
    launch_push(j->c, KERNEL_k_mix, pieces(a->dim, a->n_rows), &mix, sizeof mix);
}

/* Weights that were opened and not packed are rows now. */
static void all_here(cuda_device *c, const experts_args *a) {
    for (int e = 0; e < a->n_experts; e++) {
        cuda_weight_here(c, &a->gate.w[e]);
        cuda_weight_here(c, &a->up.w[e]);
        cuda_weight_here(c, &a->down.w[e]);
    }
}

void cuda_experts(device *d, const experts_args *a) {
    job j = {.c = cuda_of(d), .a = a, .n_pairs = a->n_rows * a->top_k};
    if (a->n_rows < 1) return;
    j.n_active = j.n_pairs < a->n_experts ? j.n_pairs : a->n_experts;
    cuda_lock(j.c);
    j.mixture = cuda_mixture_known(j.c, a);
    cuda_unlock(j.c);
    if (!j.mixture) all_here(j.c, a);
    cuda_lock(j.c);
    if (!j.mixture) j.mixture = cuda_mixture_make(j.c, a);
    if (j.mixture) {
        j.cut = cuda_mixture_cut(j.c, j.mixture, a);
        if (write_tables(&j) && group(&j)) run(&j);
    }
    cuda_unlock(j.c);
}
