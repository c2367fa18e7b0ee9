/* cpu_experts.c — mixtures of experts (Shazeer et al. 2017): who is chosen, and the chosen feed-forward blocks.
 *
 * Called through the device's ops; calls the device's own matrix products. Rows that chose the same expert are
 * gathered, so that a prompt reads each expert's weights once and a single row only those it chose.
 *
 * The tricky thing is the order of additions: a row adds up its experts in ascending order of their numbers, which
 * grouping by expert keeps for any number of rows. Scores are computed in double, so ties do not depend on a level. */
#include "cpu.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST_EXPERTS = CPU_SCRATCH_BYTES / (4 * (int)sizeof(double)) };

/* ---- routing ---- */

typedef struct routing {
    const route_args *a;
    const cpu_device *c;
} routing;

/* The scores of a row out of its logits. */
static void score(double *out, const float *logits, const route_rule *rule) {
    float most = -INFINITY; /* as gcc 12 for ARM breaks down over a double one */
    double total = 0;
    for (int i = 0; i < rule->n_experts; i++) most = fmaxf(most, logits[i]);
    for (int i = 0; i < rule->n_experts; i++) {
        out[i] = rule->sigmoid ? 1 / (1 + exp(-(double)logits[i])) : exp((double)logits[i] - most);
        total += out[i];
    }
    for (int i = 0; i < rule->n_experts && !rule->sigmoid; i++) out[i] /= total;
}

/* The index of the greatest value, the first of equal ones; the caller marks what is taken. */
static int find_most(const double *values, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

/* What a group counts: its best score, or its two best together. */
static double group_score(const double *scores, int n, int n_best) {
    double first = -INFINITY, second = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (scores[i] > first) {
            second = first;
            first = scores[i];
        } else if (scores[i] > second) {
            second = scores[i];
        }
    }
    return n_best == 2 && n > 1 ? first + second : first;
}

/* Experts outside the best groups can no longer be chosen. */
static void keep_groups(double *choice, double *of_groups, const route_rule *rule) {
    const int size = rule->n_experts / rule->n_groups;
    for (int g = 0; g < rule->n_groups; g++) of_groups[g] = group_score(choice + g * size, size, rule->group_best);
    for (int kept = 0; kept < rule->groups; kept++) of_groups[find_most(of_groups, rule->n_groups)] = -INFINITY;
    for (int g = 0; g < rule->n_groups; g++)
        for (int i = 0; i < size && of_groups[g] != -INFINITY; i++) choice[g * size + i] = -INFINITY;
}

static void sort_ascending(int32_t *experts, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && experts[j - 1] > experts[j]; j--) {
            const int32_t other = experts[j];
            experts[j] = experts[j - 1];
            experts[j - 1] = other;
        }
}

static void route_row(const route_args *a, int64_t row, double *room) {
    const route_rule *rule = a->rule;
    double *scores = room, *choice = room + rule->n_experts, *of_groups = choice + rule->n_experts, total = 0;
    int32_t *experts = a->experts + row * rule->top_k;
    float *weights = a->weights + row * rule->top_k;
    score(scores, a->logits + row * rule->n_experts, rule);
    for (int i = 0; i < rule->n_experts; i++) choice[i] = scores[i] + (a->bias ? a->bias[i] : 0);
    if (rule->n_groups > 1) keep_groups(choice, of_groups, rule);
    for (int k = 0; k < rule->top_k; k++) {
        experts[k] = find_most(choice, rule->n_experts);
        choice[experts[k]] = -INFINITY;
    }
    sort_ascending(experts, rule->top_k);
    for (int k = 0; k < rule->top_k; k++) total += scores[experts[k]];
    const double by = rule->scale / (rule->normalize ? total + rule->floor : 1);
    for (int k = 0; k < rule->top_k; k++) weights[k] = (float)(scores[experts[k]] * by);
}

static void route_rows(void *context, int64_t task, int worker) {
    const routing *r = context;
    route_row(r->a, task, cpu_scratch(r->c, worker));
}

void cpu_route(device *d, const route_args *a) {
    enum { ALONE = 1 << 14 }; /* so many logits are not worth a second thread */
    routing r = {a, cpu_of(d)};
    assert(a->rule->n_experts <= MOST_EXPERTS);
    if ((int64_t)a->n_rows * a->rule->n_experts > ALONE)
        pool_run(r.c->pool, route_rows, &r, a->n_rows);
    else
        for (int row = 0; row < a->n_rows; row++) route_row(a, row, cpu_scratch(r.c, 0));
}

/* ---- the blocks ---- */

/* Where expert `e` stands among the row's; -1: not chosen. */
static int place_of(const experts_args *a, int row, int32_t e) {
    const int32_t *chosen = a->experts + (int64_t)row * a->top_k;
    for (int k = 0; k < a->top_k; k++)
        if (chosen[k] == e) return k;
    return -1;
}

/* Copies the rows that chose expert `e`; returns how many. */
static int gather(const cpu_device *c, const experts_args *a, int32_t e) {
    int n = 0;
    for (int row = 0; row < a->n_rows; row++) {
        const int k = place_of(a, row, e);
        if (k < 0) continue;
        float *to = a->rows_in + (int64_t)n++ * a->dim;
        memcpy(to, a->x + (int64_t)row * a->dim, (size_t)a->dim * sizeof *to);
        if (a->weigh_input) c->row.limit(to, a->dim, a->weights[(int64_t)row * a->top_k + k], 0, 0);
    }
    return n;
}

static void scatter(const cpu_device *c, const experts_args *a, int32_t e) {
    int n = 0;
    for (int row = 0; row < a->n_rows; row++) {
        const int k = place_of(a, row, e);
        if (k < 0) continue;
        const float weight = a->weigh_input ? 1 : a->weights[(int64_t)row * a->top_k + k];
        c->row.add(a->out + (int64_t)row * a->dim, a->rows + (int64_t)n++ * a->dim, weight, a->dim);
    }
}

static matmul_part part_of(const expert_weights *w, int32_t e, float *out, int width) {
    return (matmul_part){.w = &w->w[e], .bias = w->bias ? w->bias[e] : NULL, .out = out, .out_stride = width};
}

/* One expert's block over the gathered rows. */
static void run_expert(device *d, const experts_args *a, int32_t e, int n) {
    const matmul_args in = {
        .x = a->rows_in,
        .x_stride = a->dim,
        .n_rows = n,
        .n_parts = 2,
        .parts = {part_of(&a->gate, e, a->rows_gate, a->ffn), part_of(&a->up, e, a->rows_up, a->ffn)}};
    const matmul_args out = {.x = a->rows_gate,
                             .x_stride = a->ffn,
                             .n_rows = n,
                             .n_parts = 1,
                             .parts = {part_of(&a->down, e, a->rows, a->dim)}};
    cpu_matmul(d, &in);
    if (a->kind == EXPERT_CLAMPED_GATE)
        cpu_clamped_gate(d, &(clamped_gate_args){a->rows_gate, a->rows_up, n, a->ffn, a->alpha, a->limit});
    else
        cpu_gate(d, &(gate_args){a->act, a->rows_gate, a->rows_up, n, a->ffn});
    cpu_matmul(d, &out);
}

void cpu_experts(device *d, const experts_args *a) {
    memset(a->out, 0, (size_t)a->n_rows * (size_t)a->dim * sizeof *a->out);
    for (int32_t e = 0; e < a->n_experts; e++) {
        const int n = gather(cpu_of(d), a, e);
        if (!n) continue;
        run_expert(d, a, e, n);
        scatter(cpu_of(d), a, e);
    }
}
