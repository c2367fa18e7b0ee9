/* cpu_steps_test.c — the smaller steps of a transformer at every level this machine has, against formulas in double:
 * limits, sums, odd activations, latents, the choice of experts and their blocks; and that neither threads nor
 * neighbours change a bit. */
#include "cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness.h"
#include <math.h>

static float *random_floats(size_t n, double size, uint64_t seed) {
    float *values = mem_array(n, sizeof *values);
    for (size_t i = 0; i < n; i++) values[i] = (float)((rng_uniform(seed, 1, i) * 2 - 1) * size);
    return values;
}

static void check(const char *what, const device *d, size_t i, double got, double expected, double error) {
    if (!(fabs(got - expected) <= error)) /* NaN is wrong too */
        fail_msg("%s, %s, element %zu: %.9g, not %.9g", what, d->level, i, got, expected);
}

static void each_level(void (*test)(device *one, device *three)) {
    for (int i = 0; cpu_level_at(i); i++) {
        if (!cpu_level_at(i)->row || !dev_cpu_level_available(cpu_level_at(i)->name)) continue;
        device *d[2];
        qp_error err;
        for (int t = 0; t < 2; t++) {
            const dev_options o = {.cpu_level = cpu_level_at(i)->name, .threads = 1 + 2 * t, .exact = true};
            assert_int_equal(cpu_open(&d[t], &o, &err), QP_OK);
            assert_int_equal(d[t]->ops->reserve(d[t], 64, 128, &err), QP_OK);
        }
        test(d[0], d[1]);
        for (int t = 0; t < 2; t++) dev_close(d[t]);
    }
}

static const int dims[] = {1, 7, 16, 33, 130, 20001};

/* ---- values ---- */

static void limit_dim(device *one, device *three, int dim, float cap, float limit) {
    float *x = random_floats((size_t)dim * 2, 20, 3), *a = mem_copy(x, 2 * (size_t)dim, sizeof *x);
    for (int i = 0; i < dim; i += 3) x[i] = a[i] = x[i] * 1e-4f; /* where a cap hardly bends */
    cpu_limit(three, &(limit_args){a, 2, dim, 0.5f, cap, limit});
    for (size_t i = 0; i < 2 * (size_t)dim; i++) {
        double expected = 0.5 * x[i];
        if (cap != 0) expected = cap * tanh(expected / cap);
        if (limit != 0) expected = fmax(-limit, fmin(limit, expected));
        check("limit", one, i, a[i], expected, 4e-7 * fabs(expected));
    }
    cpu_limit(one, &(limit_args){x, 2, dim, 0.5f, cap, limit});
    assert_memory_equal(x, a, 2 * (size_t)dim * sizeof *x);
    mem_free(x);
    mem_free(a);
}

static void limit_all(device *one, device *three) {
    for (size_t i = 0; i < HARNESS_COUNT(dims); i++)
        for (int variant = 0; variant < 4; variant++)
            limit_dim(one, three, dims[i], variant & 1 ? 5 : 0, variant & 2 ? 3 : 0);
    float odd[] = {INFINITY, -INFINITY, NAN, 0};
    cpu_limit(one, &(limit_args){odd, 1, 4, 1, 30, 0});
    assert_true(odd[0] == 30 && odd[1] == -30 && isnan(odd[2]) && odd[3] == 0);
}

static void limits(void **state) { each_level(limit_all); }

static void add_dim(device *one, device *three, int dim) {
    enum { ROWS = 3 };
    const size_t n = ROWS * (size_t)dim;
    float *to = random_floats(n, 2, 1), *from = random_floats(n, 2, 2), *a = mem_copy(to, n, sizeof *to);
    const float gates[ROWS] = {0, -3, 40};
    for (int gated = 0; gated < 2; gated++) {
        memcpy(a, to, n * sizeof *a);
        cpu_add(three, &(add_args){a, from, gated ? gates : NULL, ROWS, dim, 0.3f});
        for (size_t i = 0; i < n; i++) {
            const double s = gated ? 1 / (1 + exp(-(double)gates[i / (size_t)dim])) : 1;
            check("add", one, i, a[i], to[i] + 0.3f * s * from[i], 4e-7);
        }
    }
    mem_free(to);
    mem_free(from);
    mem_free(a);
}

static void add_all(device *one, device *three) {
    for (size_t i = 0; i < HARNESS_COUNT(dims); i++) add_dim(one, three, dims[i]);
}

static void sums(void **state) { each_level(add_all); }

static void odd_acts(device *one, device *three) {
    enum { N = 5001 };
    float *x = random_floats(N, 12, 5), *up = random_floats(N, 12, 6), *a = mem_copy(x, N, sizeof *x);
    for (int i = 0; i < N; i += 5) x[i] = a[i] = x[i] * 1e-3f;
    cpu_clamped_gate(three, &(clamped_gate_args){a, up, 1, N, 1.702f, 7});
    for (int i = 0; i < N; i++) {
        const double g = fmin(x[i], 7), u = fmax(-7, fmin(7, up[i]));
        const double expected = g / (1 + exp(-1.702 * g)) * (u + 1);
        check("clamped gate", one, (size_t)i, a[i], expected, 6e-7 * fabs(expected) + 1e-7);
    }
    const xielu_args numbers = {
        .x = a, .n_rows = 1, .dim = N, .alpha_p = 0.8f, .alpha_n = 1.1f, .beta = 0.5f, .eps = -1e-6f};
    memcpy(a, x, N * sizeof *a);
    cpu_xielu(three, &numbers);
    for (int i = 0; i < N; i++) {
        const double v = x[i], below = 1.1f * (expm1(fmin(v, -1e-6f)) - v), above = 0.8f * v * v;
        const double expected = (v > 0 ? above : below) + 0.5 * v;
        check("xielu", one, (size_t)i, a[i], expected, 4e-7 * (fabs(expected) + fabs(v)));
    }
    mem_free(x);
    mem_free(up);
    mem_free(a);
}

static void odd_activations(void **state) { each_level(odd_acts); }

static void learned_positions(device *one, device *three) {
    enum { DIM = 37 };
    static const int32_t ids[] = {2, 0};
    float *table = random_floats(3 * DIM, 1, 9), *out = random_floats(2 * DIM, 1, 10),
          *before = mem_copy(out, 2 * DIM, 4);
    const quant_type *type = quant_type_of(QUANT_F32);
    const dev_weight w = {
        .type = type, .n_out = 3, .n_in = DIM, .stored = quant_plain(type, 3, DIM, table, 3 * DIM * sizeof *table)};
    cpu_embed(three, &(embed_args){ids, 2, &w, out, 1, true});
    for (int i = 0; i < 2 * DIM; i++) assert_true(out[i] == before[i] + table[ids[i / DIM] * DIM + i % DIM]);
    mem_free(table);
    mem_free(out);
    mem_free(before);
}

static void embeddings_add(void **state) { each_level(learned_positions); }

/* ---- latents ---- */

static void latent_step(device *one, device *three) {
    enum { ROWS = 21, HEADS = 3, RANK = 20, ROT = 8, NOPE = 5, DIM = RANK + ROT, RAW = NOPE + ROT, PAGES = 2 };
    static const int32_t pages[] = {1, 0};
    const row_span span = {0, ROWS, 245, pages};
    float *heads = random_floats(ROWS * HEADS * RAW, 1, 1), *latent = random_floats(ROWS * DIM, 1, 2);
    float *norm = random_floats(RANK, 1, 3), *cosines = random_floats(ROWS * ROT / 2, 1, 4);
    float *sines = random_floats(ROWS * ROT / 2, 1, 5), *q = mem_zarray(ROWS * HEADS * DIM, sizeof *q);
    float *raw = mem_copy(latent, ROWS * DIM, sizeof *latent);
    uint8_t *k = mem_zarray(PAGES * DEV_PAGE_TOKENS * DIM, sizeof(float));
    const latent_store_args a = {.heads = heads,
                                 .n_heads = HEADS,
                                 .heads_dim = RAW,
                                 .q = q,
                                 .latent = latent,
                                 .norm = norm,
                                 .norm_eps = 1e-6f,
                                 .rot_dims = ROT,
                                 .pairs = true,
                                 .cos = cosines,
                                 .sin = sines,
                                 .kv = {KV_F32, 1, DIM, RANK, k, NULL, DEV_PAGE_TOKENS * DIM * sizeof(float)},
                                 .spans = &span,
                                 .n_spans = 1};
    cpu_latent_store(three, &a);
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int i = 0; i < RANK; i++) sum += (double)raw[row * DIM + i] * raw[row * DIM + i];
        const int64_t p = 245 + row;
        const float *page = (const float *)(const void *)k + (size_t)pages[p / 256] * DEV_PAGE_TOKENS * DIM;
        for (int i = 0; i < DIM; i++) {
            const int pair = (i - RANK) / 2, is_second = (i - RANK) % 2;
            const float *x = raw + row * DIM + RANK + 2 * pair;
            const double c = i < RANK ? 0 : cosines[row * ROT / 2 + pair],
                         s = i < RANK ? 0 : sines[row * ROT / 2 + pair];
            const double expected = i < RANK ? raw[row * DIM + i] / sqrt(sum / RANK + 1e-6f) * norm[i]
                                             : (is_second ? x[1] * c + x[0] * s : x[0] * c - x[1] * s);
            check("latent", one, (size_t)i, page[dev_key_at((int)(p % 256), i, DIM)], expected, 1e-6);
        }
        for (int h = 0; h < HEADS; h++) {
            const float *x = heads + (row * HEADS + h) * RAW + NOPE, *got = q + (row * HEADS + h) * DIM;
            const double c = cosines[row * ROT / 2], s = sines[row * ROT / 2];
            check("latent q", one, 0, got[RANK], x[0] * c - x[1] * s, 1e-6);
            check("latent q", one, 1, got[RANK + 1], x[1] * c + x[0] * s, 1e-6);
            assert_true(got[0] == 0 && got[RANK - 1] == 0); /* of the matrix product that fills it */
        }
    }
    void *all[] = {heads, latent, norm, cosines, sines, q, raw, k};
    for (size_t i = 0; i < HARNESS_COUNT(all); i++) mem_free(all[i]);
}

static void latents_are_stored(void **state) { each_level(latent_step); }

/* ---- routing ---- */

typedef struct route_case {
    const char *name;
    route_rule rule;
    float logits[8], bias[8];
    int32_t experts[4];
    double weights[4];
} route_case;

/* Worked out by hand: e is exp, the softmax of (1, 2, 0, 3) is (.0871, .2369, .0321, .6439). */
static const route_case routes[] = {
    {"softmax", {.n_experts = 4, .top_k = 2, .scale = 1}, {1, 2, 0, 3}, {0}, {1, 3}, {0.236882818, 0.643914260}},
    {"renormalised",
     {.n_experts = 4, .top_k = 2, .normalize = true, .scale = 2},
     {1, 2, 0, 3},
     {0},
     {1, 3},
     {2 * 0.268941421, 2 * 0.731058579}},
    {"sigmoid", {.n_experts = 4, .top_k = 1, .sigmoid = true, .scale = 1}, {-1, 2, 0, 1}, {0}, {1}, {0.880797078}},
    {"bias for choosing only",
     {.n_experts = 4, .top_k = 1, .sigmoid = true, .scale = 1},
     {-1, 2, 0, 1},
     {1, 0, 0, 0},
     {0},
     {0.268941421}},
    {"groups by their best",
     {.n_experts = 6, .top_k = 2, .n_groups = 3, .groups = 1, .group_best = 1, .scale = 1},
     {1, 1, 3, -9, 2, 2},
     {0},
     {2, 3},
     {0.498396262, 3.06225247e-6}},
    {"groups by two",
     {.n_experts = 6, .top_k = 2, .sigmoid = true, .n_groups = 3, .groups = 1, .group_best = 2, .scale = 1},
     {1, 1, 3, -9, 2, 2},
     {0},
     {4, 5},
     {0.880797078, 0.880797078}},
};

static void route_cases(device *one, device *three) {
    for (size_t i = 0; i < HARNESS_COUNT(routes); i++) {
        const route_case *c = &routes[i];
        float logits[64 * 8], weights[64 * 4];
        int32_t experts[64 * 4];
        const int n = c->rule.n_experts, k = c->rule.top_k;
        for (int row = 0; row < 64; row++) memcpy(logits + row * n, c->logits, (size_t)n * sizeof(float));
        const route_args a = {&c->rule, logits, c->bias, 64, experts, weights};
        cpu_route(three, &a);
        for (int row = 0; row < 64; row += 63)
            for (int j = 0; j < k; j++) {
                if (experts[row * k + j] != c->experts[j])
                    fail_msg("%s: expert %d is %d, expected %d", c->name, j, experts[row * k + j], c->experts[j]);
                check(c->name, one, (size_t)j, weights[row * k + j], c->weights[j], 1e-6 * c->weights[j] + 1e-9);
            }
    }
}

static void routes_as_by_hand(void **state) { each_level(route_cases); }

/* ---- experts ---- */

enum { X_ROWS = 33, X_DIM = 40, X_FFN = 24, X_EXPERTS = 5, X_TOP = 2 };

typedef struct world {
    dev_weight gate[X_EXPERTS], up[X_EXPERTS], down[X_EXPERTS];
    float *memory[3][X_EXPERTS], *bias[X_EXPERTS], *x, *rows_in, *rows_gate, *rows_up, *rows, *out, *weights;
    int32_t experts[X_ROWS * X_TOP];
} world;

static dev_weight matrix_of(float **memory, int n_out, int n_in, uint64_t seed) {
    *memory = random_floats((size_t)(n_out * n_in), 0.5, seed);
    return (dev_weight){.type = quant_type_of(QUANT_F32), .n_out = n_out, .n_in = n_in, .data = *memory};
}

static void make_world(world *w) {
    for (int e = 0; e < X_EXPERTS; e++) {
        w->gate[e] = matrix_of(&w->memory[0][e], X_FFN, X_DIM, (uint64_t)e + 10);
        w->up[e] = matrix_of(&w->memory[1][e], X_FFN, X_DIM, (uint64_t)e + 20);
        w->down[e] = matrix_of(&w->memory[2][e], X_DIM, X_FFN, (uint64_t)e + 30);
        w->bias[e] = random_floats(X_DIM, 1, (uint64_t)e + 40);
    }
    w->x = random_floats(X_ROWS * X_DIM, 1, 1);
    w->weights = random_floats(X_ROWS * X_TOP, 1, 2);
    w->rows_in = mem_array(X_ROWS * X_DIM, sizeof(float));
    w->rows_gate = mem_array(X_ROWS * X_FFN, sizeof(float));
    w->rows_up = mem_array(X_ROWS * X_FFN, sizeof(float));
    w->rows = mem_array(X_ROWS * X_DIM, sizeof(float));
    w->out = mem_array(X_ROWS * X_DIM, sizeof(float));
    for (int row = 0; row < X_ROWS; row++) { /* expert 4 is chosen by nobody */
        w->experts[row * 2] = row % 3;
        w->experts[row * 2 + 1] = 3;
    }
}

static void free_world(world *w) {
    void *all[] = {w->x, w->weights, w->rows_in, w->rows_gate, w->rows_up, w->rows, w->out};
    for (size_t i = 0; i < HARNESS_COUNT(all); i++) mem_free(all[i]);
    for (int e = 0; e < X_EXPERTS; e++) {
        for (int m = 0; m < 3; m++) mem_free(w->memory[m][e]);
        mem_free(w->bias[e]);
    }
}

static experts_args experts_of(world *w, bool weigh_input, expert_act kind) {
    return (experts_args){.x = w->x,
                          .n_rows = X_ROWS,
                          .dim = X_DIM,
                          .ffn = X_FFN,
                          .n_experts = X_EXPERTS,
                          .top_k = X_TOP,
                          .experts = w->experts,
                          .weights = w->weights,
                          .weigh_input = weigh_input,
                          .gate = {w->gate, NULL},
                          .up = {w->up, NULL},
                          .down = {w->down, (const float *const *)w->bias},
                          .kind = kind,
                          .act = ACT_SILU,
                          .alpha = 1.5f,
                          .limit = 0.5f,
                          .rows_in = w->rows_in,
                          .rows_gate = w->rows_gate,
                          .rows_up = w->rows_up,
                          .rows = w->rows,
                          .out = w->out};
}

static double dot(const float *w, const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += w[i] * x[i];
    return sum;
}

static void expect_row(double *out, const world *w, const experts_args *a, int row) {
    double x[X_DIM], h[X_FFN];
    memset(out, 0, X_DIM * sizeof *out);
    for (int k = 0; k < X_TOP; k++) {
        const int e = w->experts[row * X_TOP + k];
        const double weight = w->weights[row * X_TOP + k];
        for (int i = 0; i < X_DIM; i++) x[i] = w->x[row * X_DIM + i] * (a->weigh_input ? weight : 1);
        for (int i = 0; i < X_FFN; i++) {
            const double g = dot(w->memory[0][e] + i * X_DIM, x, X_DIM), u = dot(w->memory[1][e] + i * X_DIM, x, X_DIM);
            const double c = fmin(g, 0.5), v = fmax(-0.5, fmin(0.5, u));
            h[i] = a->kind == EXPERT_GATE ? g / (1 + exp(-g)) * u : c / (1 + exp(-1.5 * c)) * (v + 1);
        }
        for (int i = 0; i < X_DIM; i++)
            out[i] += (dot(w->memory[2][e] + i * X_FFN, h, X_FFN) + w->bias[e][i]) * (a->weigh_input ? 1 : weight);
    }
}

static void experts_match(device *one, device *three) {
    world w;
    make_world(&w);
    for (int variant = 0; variant < 3; variant++) {
        const experts_args a = experts_of(&w, variant == 1, variant == 2 ? EXPERT_CLAMPED_GATE : EXPERT_GATE);
        cpu_experts(three, &a);
        float together[X_ROWS * X_DIM];
        memcpy(together, w.out, sizeof together);
        for (int row = 0; row < X_ROWS; row++) {
            double expected[X_DIM];
            experts_args alone = a;
            expect_row(expected, &w, &a, row);
            alone.x += row * X_DIM;
            alone.experts += row * X_TOP;
            alone.weights += row * X_TOP;
            alone.n_rows = 1;
            for (int i = 0; i < X_DIM; i++)
                check("experts", one, (size_t)i, together[row * X_DIM + i], expected[i], 1e-5);
            cpu_experts(one, &alone);
            assert_memory_equal(w.out, together + row * X_DIM, X_DIM * sizeof(float));
        }
    }
    free_world(&w);
}

static void experts_are_sums(void **state) { each_level(experts_match); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits),
        cmocka_unit_test(sums),
        cmocka_unit_test(odd_activations),
        cmocka_unit_test(embeddings_add),
        cmocka_unit_test(latents_are_stored),
        cmocka_unit_test(routes_as_by_hand),
        cmocka_unit_test(experts_are_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
