/* cuda_ops_test.c — norms, values, weights, products and experts of the CUDA device against the plain C of `ref`, over
 * odd sizes; and that a row's bits do not depend on its neighbours. Attention is cuda_attend_test.c's. */
#include "cuda_both.h"
#include "cuda_packed.h"

/* ---- rows ---- */

static const int dims[] = {1, 7, 33, 130, 512, 1027};

static void norm_case(const bench *b, int dim, int heads, norm_kind kind, bool own, bool bare) {
    enum { ROWS = 5 };
    static const int32_t picked[] = {4, 0, 2};
    const size_t width = (size_t)dim * (size_t)heads;
    float *x = random_floats(ROWS * width, 3, 1), *weight = random_floats(width, 1, 2),
          *bias = random_floats(width, 1, 3);
    device *const both[] = {b->gpu, b->ref};
    there out[2];
    for (int i = 0; i < 2; i++) {
        there t[] = {put(both[i], x, ROWS * width * 4), put(both[i], weight, width * 4), put(both[i], bias, width * 4)};
        out[i] = put(both[i], x, 3 * width * 4);
        const norm_args a = {.kind = kind,
                             .x = t[0].at,
                             .rows = picked,
                             .n_rows = 3,
                             .dim = dim,
                             .heads = heads,
                             .weight = bare ? NULL : t[1].at,
                             .bias = bare ? NULL : t[2].at,
                             .own_weights = own,
                             .eps = 1e-5f,
                             .out = out[i].at};
        both[i]->ops->norm(both[i], &a);
        for (size_t k = 0; k < HARNESS_COUNT(t); k++) drop(&t[k]);
    }
    settle(b, "norm", out[0], out[1], 4e-6, 4e-6);
    mem_free(x);
    mem_free(weight);
    mem_free(bias);
}

static void norms(const bench *b) {
    for (size_t i = 0; i < HARNESS_COUNT(dims); i++)
        for (int v = 0; v < 6; v++) norm_case(b, dims[i], 1 + v % 3, v & 1 ? NORM_LAYER : NORM_RMS, v == 4, v == 5);
}

/* One op on x, beside `other`, with both devices. */
typedef void step_fn(device *d, float *x, const float *other, int dim, int variant);

static void step_case(const bench *b, const char *what, step_fn *fn, int dim, int variant, double near) {
    const size_t n = 2 * (size_t)dim;
    float *x = random_floats(n, 8, 5), *other = random_floats(n, 8, 6);
    for (size_t i = 0; i < n; i += 3) x[i] *= 1e-3f;
    device *const both[] = {b->gpu, b->ref};
    there out[2];
    for (int i = 0; i < 2; i++) {
        there y = put(both[i], other, n * 4);
        out[i] = put(both[i], x, n * 4);
        fn(both[i], out[i].at, y.at, dim, variant);
        drop(&y);
    }
    settle(b, what, out[0], out[1], near, 3e-6);
    mem_free(x);
    mem_free(other);
}

static void do_gate(device *d, float *x, const float *other, int dim, int v) {
    d->ops->gate(d, &(gate_args){(activation)(v / 2), x, v % 2 ? other : NULL, 2, dim});
}
static void do_clamped(device *d, float *x, const float *other, int dim, int v) {
    d->ops->clamped_gate(d, &(clamped_gate_args){x, other, 2, dim, 1.702f, 7});
}
static void do_xielu(device *d, float *x, const float *other, int dim, int v) {
    d->ops->xielu(d, &(xielu_args){x, 2, dim, 0.8f, 1.1f, 0.5f, -1e-6f});
}
static void do_add(device *d, float *x, const float *other, int dim, int v) {
    d->ops->add(d, &(add_args){x, other, v ? other : NULL, 2, dim, 0.3f});
}
static void do_limit(device *d, float *x, const float *other, int dim, int v) {
    d->ops->limit(d, &(limit_args){x, 2, dim, 0.5f, v & 1 ? 3 : 0, v & 2 ? 2 : 0});
}
static void do_copy(device *d, float *x, const float *other, int dim, int v) {
    const size_t bytes = v ? (size_t)dim * 4 : (size_t)dim;
    d->ops->copy(d, &(copy_args){x, other, bytes, (size_t)dim * 4, 2});
}

static const struct {
    const char *name;
    step_fn *fn;
    int variants;
    double near;
} steps[] = {{"gate", do_gate, 2 * ACT_COUNT, 2e-6}, {"clamped gate", do_clamped, 1, 2e-6},
             {"xielu", do_xielu, 1, 2e-6},           {"add", do_add, 2, 2e-6},
             {"limit", do_limit, 4, 2e-6},           {"copy", do_copy, 2, 0}};

static void values(const bench *b) {
    for (size_t s = 0; s < HARNESS_COUNT(steps); s++)
        for (size_t i = 0; i < HARNESS_COUNT(dims); i++)
            for (int v = 0; v < steps[s].variants; v++)
                step_case(b, steps[s].name, steps[s].fn, dims[i], v, steps[s].near);
}

/* ---- weights ---- */

/* The same numbers in a format, for both devices. */
typedef struct stored {
    void *bytes;
    quant_matrix m;
    dev_weight gpu, ref;
} stored;

static void encode(uint8_t *out, quant_id type, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint16_t half = type == QUANT_F16 ? quant_f32_to_f16(from[i]) : quant_f32_to_bf16(from[i]);
        if (type == QUANT_F32)
            memcpy(out + 4 * i, &from[i], 4);
        else
            memcpy(out + 2 * i, &half, 2);
    }
}

/* Q8_0: blocks of 32, a half-precision scale each. */
static void encode_blocks(uint8_t *out, size_t n, uint64_t seed) {
    for (size_t block = 0; block < n / 32; block++, out += 34) {
        const uint16_t scale = quant_f32_to_f16((float)(0.002 + 0.001 * rng_uniform(seed, 2, block)));
        memcpy(out, &scale, 2);
        for (int i = 0; i < 32; i++) out[2 + i] = (uint8_t)(rng_uniform(seed, 3, block * 32 + (size_t)i) * 256);
    }
}

static stored store(const bench *b, quant_id type, int64_t n_out, int64_t n_in, dev_use use, bool packed,
                    uint64_t seed) {
    const size_t n = (size_t)n_out * (size_t)n_in;
    float *values_of = random_floats(n, 0.3, seed);
    stored s = {.bytes = mem_array(n + 1, 5)};
    qp_error err;
    size_t bytes;
    if (type < QUANT_PLAIN_COUNT)
        encode(s.bytes, type, values_of, n);
    else
        encode_blocks(s.bytes, n, seed);
    assert_true(quant_type_of(type)->bytes(&bytes, n_out, n_in));
    s.m = quant_plain(quant_type_of(type), n_out, n_in, s.bytes, bytes);
    if (b->gpu->ops->weight_open(b->gpu, &s.gpu, &s.m, &err) != QP_OK ||
        b->ref->ops->weight_open(b->ref, &s.ref, &s.m, &err) != QP_OK)
        fail_msg("%s", err.text);
    s.gpu.use = use;
    if (packed && b->gpu->ops->weight_pack(b->gpu, &s.gpu, &err) != QP_OK) fail_msg("%s", err.text);
    mem_free(values_of);
    return s;
}

static void drop_stored(const bench *b, stored *s) {
    b->gpu->ops->weight_close(b->gpu, &s->gpu);
    b->ref->ops->weight_close(b->ref, &s->ref);
    mem_free(s->bytes);
}

static void embed_case(const bench *b, quant_id type, int dim, bool packed, bool add) {
    enum { ROWS = 21, IDS = 600 }; /* more than a digest has, so that none of them can be led */
    int32_t ids[IDS] = {20, 0, 7, 7, 16, 15};
    for (int i = 6; i < IDS; i++) ids[i] = i * 5 % ROWS;
    stored s = store(b, type, ROWS, dim, DEV_USE_TABLE, packed, 4);
    float *before = random_floats(IDS * (size_t)dim, 1, 9);
    there gpu = put(b->gpu, before, IDS * (size_t)dim * 4), ref = put(b->ref, before, gpu.bytes);
    b->gpu->ops->embed(b->gpu, &(embed_args){ids, IDS, &s.gpu, gpu.at, 1.5f, add});
    b->ref->ops->embed(b->ref, &(embed_args){ids, IDS, &s.ref, ref.at, 1.5f, add});
    settle(b, "embed", gpu, ref, type < QUANT_PLAIN_COUNT ? 1e-6 : 5e-4, 1e-6);
    mem_free(before);
    drop_stored(b, &s);
}

static void embeddings(const bench *b) {
    static const quant_id types[] = {QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q8_0};
    for (size_t i = 0; i < HARNESS_COUNT(types); i++)
        for (int v = 0; v < 4; v++) embed_case(b, types[i], types[i] == QUANT_Q8_0 ? 96 : 37, v & 1, v & 2);
}

/* ---- products ---- */

/* How far a sum of products may be off, by the sum of their sizes. */
static double error_of(const bench *b, quant_id type) {
    if (type == QUANT_F32 || b->gpu->exact) return 1e-6;
    return type == QUANT_BF16 ? 4e-3 : type == QUANT_F16 ? 6e-4 : 1.2e-3;
}

typedef struct product {
    quant_id types[3];
    int n_parts, n_in, n_out[3], n_rows;
    bool add, bias, is_exact;
} product;

/* Outputs of all parts side by side. */
static there multiply(device *d, const product *p, const float *x, const float *before, const float *bias,
                      const stored *s, int first, int n_rows) {
    const bool is_gpu = d->ops->kind[1] == 'u';
    int width = 0, at = 0;
    for (int i = 0; i < p->n_parts; i++) width += p->n_out[i];
    there in = put(d, x + (size_t)first * (size_t)(p->n_in + 3), (size_t)n_rows * (size_t)(p->n_in + 3) * 4);
    there biases = put(d, bias, (size_t)width * 4);
    there out = put(d, before + (size_t)first * (size_t)width, (size_t)n_rows * (size_t)width * 4);
    matmul_args a = {
        .x = in.at, .x_stride = p->n_in + 3, .n_rows = n_rows, .n_parts = p->n_parts, .is_exact = p->is_exact};
    for (int i = 0; i < p->n_parts; at += p->n_out[i++])
        a.parts[i] = (matmul_part){.w = is_gpu ? &s[i].gpu : &s[i].ref,
                                   .bias = p->bias ? (float *)biases.at + at : NULL,
                                   .out = (float *)out.at + at,
                                   .out_stride = width,
                                   .add = p->add};
    d->ops->matmul(d, &a);
    drop(&in);
    drop(&biases);
    return out;
}

static double size_of_sum(const stored *s, const float *x, int64_t column) {
    double sum = 0;
    float *row = mem_array((size_t)s->m.n_in, sizeof *row);
    s->m.type->unpack_row(row, &s->m, column);
    for (int64_t k = 0; k < s->m.n_in; k++) sum += fabs((double)row[k] * x[k]);
    mem_free(row);
    return sum;
}

static void check_product(const bench *b, const product *p, const stored *s, const float *x, const float *got,
                          const float *expected) {
    int width = 0;
    for (int i = 0; i < p->n_parts; i++) width += p->n_out[i];
    for (int row = 0; row<p->n_rows; row += p->n_rows> 4 ? 5 : 1)
        for (int i = 0, at = 0; i < p->n_parts; at += p->n_out[i++])
            for (int o = 0; o < p->n_out[i]; o++) {
                const size_t k = (size_t)row * (size_t)width + (size_t)(at + o);
                const double size = size_of_sum(&s[i], x + (size_t)row * (size_t)(p->n_in + 3), o);
                if (!(fabs((double)got[k] - expected[k]) <=
                      (p->is_exact ? 1e-6 : error_of(b, p->types[i])) * size + 1e-6))
                    fail_msg("product of %s, %d x %d, %d rows, row %d, output %d: %.9g, not %.9g", s[i].m.type->name,
                             p->n_out[i], p->n_in, p->n_rows, row, o, (double)got[k], (double)expected[k]);
            }
}

static void product_case(const bench *b, const product *p) {
    stored s[3];
    int width = 0;
    for (int i = 0; i < p->n_parts; width += p->n_out[i++])
        s[i] = store(b, p->types[i], p->n_out[i], p->n_in, DEV_USE_PRODUCT, true, (uint64_t)i + 20);
    const size_t n = (size_t)p->n_rows * (size_t)width;
    float *x = random_floats((size_t)p->n_rows * (size_t)(p->n_in + 3), 1, 1), *before = random_floats(n, 1, 2);
    float *bias = random_floats((size_t)width, 1, 3);
    for (int i = 0; i < p->n_in; i++) x[i] *= 1e5f; /* a row beyond half precision */
    there gpu = multiply(b->gpu, p, x, before, bias, s, 0, p->n_rows);
    there ref = multiply(b->ref, p, x, before, bias, s, 0, p->n_rows);
    float *got = get(b->gpu, gpu.at, gpu.bytes), *expected = get(b->ref, ref.at, ref.bytes);
    check_product(b, p, s, x, got, expected);
    const bool is_same = is_bitwise(b) || p->n_rows <= CUDA_ALIKE_ROWS;
    for (int row = 0; is_same && row<p->n_rows; row += p->n_rows> 2 ? p->n_rows - 1 : 1) {
        there one = multiply(b->gpu, p, x, before, bias, s, row, 1);
        float *alone = get(b->gpu, one.at, one.bytes);
        assert_memory_equal(alone, got + (size_t)row * (size_t)width, (size_t)width * 4);
        mem_free(alone);
        drop(&one);
    }
    mem_free(got);
    mem_free(expected);
    drop(&gpu);
    drop(&ref);
    for (int i = 0; i < p->n_parts; i++) drop_stored(b, &s[i]);
    mem_free(x);
    mem_free(before);
    mem_free(bias);
}

static void products(const bench *b) {
    static const product cases[] = {
        {{QUANT_F32}, 1, 1, {1}, 1, false, false, false},
        {{QUANT_F16}, 1, 1, {1}, 2, true, true, false},
        {{QUANT_BF16}, 1, 31, {5}, 3, false, true, false},
        {{QUANT_F16}, 1, 32, {16}, 8, true, false, false},
        {{QUANT_BF16}, 1, 75, {35}, 9, false, true, false},
        {{QUANT_F32}, 1, 130, {35}, 37, true, true, false},
        {{QUANT_F16}, 1, 257, {17}, 33, false, true, false},
        {{QUANT_BF16}, 1, 300, {33}, 65, true, true, false},
        {{QUANT_F16, QUANT_F16, QUANT_F16}, 3, 96, {40, 16, 8}, 5, false, true, false},
        {{QUANT_BF16, QUANT_F32, QUANT_F16}, 3, 64, {24, 7, 18}, 41, true, true, false},
        {{QUANT_Q8_0, QUANT_Q8_0}, 2, 96, {20, 3}, 7, false, false, false},
        {{QUANT_Q8_0}, 1, 320, {19}, 70, true, true, false},
        {{QUANT_BF16, QUANT_F16}, 2, 75, {19, 40}, 11, true, true, true},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) product_case(b, &cases[i]);
}

/* act(first product) * second product. */
static void gated_case(const bench *b, quant_id type, activation act, int n_rows) {
    enum { IN = 70, OUT = 37 };
    stored s[] = {store(b, type, OUT, IN, DEV_USE_PRODUCT, true, 1), store(b, type, OUT, IN, DEV_USE_PRODUCT, true, 2)};
    const size_t n = (size_t)n_rows * OUT;
    float *x = random_floats((size_t)n_rows * IN, 1, 3), *before = random_floats(2 * n, 1, 4);
    device *const both[] = {b->gpu, b->ref};
    there out[2];
    for (int i = 0; i < 2; i++) {
        there in = put(both[i], x, (size_t)n_rows * IN * 4), up = put(both[i], before, n * 4);
        out[i] = put(both[i], before + n, n * 4);
        matmul_args a = {.x = in.at, .x_stride = IN, .n_rows = n_rows, .n_parts = 2, .is_gated = true, .act = act};
        for (int p = 0; p < 2; p++)
            a.parts[p] = (matmul_part){.w = i ? &s[p].ref : &s[p].gpu, .out = p ? up.at : out[i].at, .out_stride = OUT};
        both[i]->ops->matmul(both[i], &a);
        drop(&in);
        drop(&up);
    }
    settle(b, "gated product", out[0], out[1], b->gpu->exact || type == QUANT_F32 ? 1e-5 : 2e-2, 0);
    drop_stored(b, &s[0]);
    drop_stored(b, &s[1]);
    mem_free(x);
    mem_free(before);
}

static void gated_products(const bench *b) {
    for (int type = QUANT_F32; type <= QUANT_BF16; type++) gated_case(b, (quant_id)type, ACT_SILU, 1 + 8 * type);
    gated_case(b, QUANT_BF16, ACT_GELU_TANH, 3);
}

/* ---- experts ---- */

static void route_case(const bench *b, const route_rule *rule) {
    enum { ROWS = 19 };
    const size_t n = (size_t)rule->n_experts, k = (size_t)rule->top_k;
    float *logits = random_floats(ROWS * n, 3, 1), *bias = random_floats(n, 0.3, 2);
    device *const both[] = {b->gpu, b->ref};
    int32_t *chosen[2];
    there weights[2];
    for (int i = 0; i < 2; i++) {
        there in[] = {put(both[i], logits, ROWS * n * 4), put(both[i], bias, n * 4),
                      put(both[i], logits, ROWS * k * 4)};
        weights[i] = put(both[i], logits, ROWS * k * 4);
        const route_args a = {rule, in[0].at, rule->sigmoid ? in[1].at : NULL, ROWS, in[2].at, weights[i].at};
        both[i]->ops->route(both[i], &a);
        chosen[i] = get(both[i], in[2].at, ROWS * k * 4);
        for (size_t j = 0; j < HARNESS_COUNT(in); j++) drop(&in[j]);
    }
    assert_memory_equal(chosen[0], chosen[1], ROWS * k * 4);
    settle(b, "weights of experts", weights[0], weights[1], 1e-7, 1e-6);
    mem_free(chosen[0]);
    mem_free(chosen[1]);
    mem_free(logits);
    mem_free(bias);
}

static void routes(const bench *b) {
    static const route_rule rules[] = {
        {.n_experts = 4, .top_k = 2, .scale = 1},
        {.n_experts = 1, .top_k = 1, .scale = 1, .normalize = true},
        {.n_experts = 65, .top_k = 8, .normalize = true, .scale = 2.5f, .floor = 1e-20f},
        {.n_experts = 64, .top_k = 6, .sigmoid = true, .scale = 1, .n_groups = 8, .groups = 3, .group_best = 2},
        {.n_experts = 48, .top_k = 4, .scale = 16, .n_groups = 6, .groups = 2, .group_best = 1},
        {.n_experts = 128, .top_k = 1, .sigmoid = true, .scale = 1},
    };
    for (size_t i = 0; i < HARNESS_COUNT(rules); i++) route_case(b, &rules[i]);
}

enum { X_ROWS = 33, X_DIM = 40, X_FFN = 24, X_EXPERTS = 5, X_TOP = 2 };

typedef struct mixture {
    stored w[3][X_EXPERTS];
    dev_weight gpu[3][X_EXPERTS], ref[3][X_EXPERTS];
    float *x, *weights, *bias;
    int32_t chosen[X_ROWS * X_TOP];
} mixture;

static mixture make_mixture(const bench *b, quant_id type) {
    mixture m;
    for (int i = 0; i < 3; i++)
        for (int e = 0; e < X_EXPERTS; e++) {
            m.w[i][e] = store(b, type, i == 2 ? X_DIM : X_FFN, i == 2 ? X_FFN : X_DIM, DEV_USE_EXPERT, true,
                              (uint64_t)(i * 10 + e));
            m.gpu[i][e] = m.w[i][e].gpu;
            m.ref[i][e] = m.w[i][e].ref;
        }
    m.x = random_floats(X_ROWS * X_DIM, 1, 1);
    m.weights = random_floats(X_ROWS * X_TOP, 1, 2);
    m.bias = random_floats(X_EXPERTS * X_DIM, 1, 3);
    for (int row = 0; row < X_ROWS; row++) { /* expert 4 is chosen by nobody */
        m.chosen[row * 2] = row % 3;
        m.chosen[row * 2 + 1] = 3;
    }
    return m;
}

static float *run_experts(device *d, const mixture *m, dev_weight w[3][X_EXPERTS], int variant, int first, int n_rows) {
    const size_t rows = (size_t)n_rows, pairs = rows * X_TOP;
    there in[] = {put(d, m->x + first * X_DIM, rows * X_DIM * 4), put(d, m->weights + first * X_TOP, pairs * 4),
                  put(d, m->chosen + first * X_TOP, pairs * 4), put(d, m->bias, X_EXPERTS * X_DIM * 4)};
    there scratch[5];
    const float *bias[X_EXPERTS];
    for (int i = 0; i < 5; i++) scratch[i] = put(d, NULL, pairs * X_DIM * 4);
    for (int e = 0; e < X_EXPERTS; e++) bias[e] = (float *)in[3].at + e * X_DIM;
    const experts_args a = {.x = in[0].at,
                            .n_rows = n_rows,
                            .dim = X_DIM,
                            .ffn = X_FFN,
                            .n_experts = X_EXPERTS,
                            .top_k = X_TOP,
                            .experts = in[2].at,
                            .weights = in[1].at,
                            .weigh_input = variant == 1,
                            .gate = {w[0], NULL},
                            .up = {w[1], NULL},
                            .down = {w[2], bias},
                            .kind = variant == 2 ? EXPERT_CLAMPED_GATE : EXPERT_GATE,
                            .act = ACT_SILU,
                            .alpha = 1.5f,
                            .limit = 0.5f,
                            .rows_in = scratch[0].at,
                            .rows_gate = scratch[1].at,
                            .rows_up = scratch[2].at,
                            .rows = scratch[3].at,
                            .out = scratch[4].at};
    d->ops->experts(d, &a);
    float *out = get(d, scratch[4].at, rows * X_DIM * 4);
    for (int i = 0; i < 5; i++) drop(&scratch[i]);
    for (size_t i = 0; i < HARNESS_COUNT(in); i++) drop(&in[i]);
    return out;
}

static void experts_case(const bench *b, quant_id type, int variant) {
    mixture m = make_mixture(b, type);
    float *got = run_experts(b->gpu, &m, m.gpu, variant, 0, X_ROWS),
          *expected = run_experts(b->ref, &m, m.ref, variant, 0, X_ROWS);
    compare(b, "experts", got, expected, X_ROWS * X_DIM, b->gpu->exact || type == QUANT_F32 ? 1e-5 : 2e-2, 0);
    for (int row = 0; row < X_ROWS; row += 16) {
        float *alone = run_experts(b->gpu, &m, m.gpu, variant, row, 1);
        assert_memory_equal(alone, got + row * X_DIM, X_DIM * 4);
        mem_free(alone);
    }
    mem_free(got);
    mem_free(expected);
    for (int i = 0; i < 3; i++)
        for (int e = 0; e < X_EXPERTS; e++) drop_stored(b, &m.w[i][e]);
    mem_free(m.x);
    mem_free(m.weights);
    mem_free(m.bias);
}

static void mixtures(const bench *b) {
    for (int variant = 0; variant < 3; variant++)
        for (int type = QUANT_F32; type <= QUANT_BF16; type++) experts_case(b, (quant_id)type, variant);
}

ON_EACH(norms, ALIKE)
ON_EACH(values, ALIKE)
ON_EACH(embeddings, MULTIPLIES)
ON_EACH(products, MULTIPLIES | HAS_FAST)
ON_EACH(gated_products, MULTIPLIES | HAS_FAST)
ON_EACH(routes, ALIKE)
ON_EACH(mixtures, MULTIPLIES)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),    cmocka_unit_test(test_values),         cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_products), cmocka_unit_test(test_gated_products), cmocka_unit_test(test_routes),
        cmocka_unit_test(test_mixtures),
    };
    if (!cuda_has_gpu()) puts("SKIP: no GPU that this build can use: its kernels run emulated only");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
