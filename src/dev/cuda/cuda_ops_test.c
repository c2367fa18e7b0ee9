/* cuda_ops_test.c — every op of the CUDA device against the plain C of `ref`, over odd sizes; and that a row's bits do
 * not depend on its neighbours, on how a prompt is cut, or on whether pages are done apart.
 *
 * Runs on the GPU where there is one, and always on emulated ones (tests/cuda/emulate.cpp), whose memory is as long as
 * what was asked for: under the address sanitizer, kernels are checked too. An old one has the general kernels alone, a
 * new one those for decoding as well. */
#include "cuda_packed.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dev/cpu/cpu_open.h"
#include "cuda_harness.h"
#include "dev/kv_quant.h"
#include <math.h>

/* The device under test and the one that is right. */
typedef struct bench {
    device *gpu, *ref;
    bool is_emulated; /* slow: what is only repeated is left out */
} bench;

static float *random_floats(size_t n, double size, uint64_t seed) {
    float *values = mem_array(n, sizeof *values);
    for (size_t i = 0; i < n; i++) values[i] = (float)((rng_uniform(seed, 1, i) * 2 - 1) * size);
    return values;
}

/* ---- memory on both sides ---- */

static void *put(device *d, const void *from, size_t bytes) {
    void *there;
    qp_error err;
    if (d->ops->take(d, &there, bytes, &err) != QP_OK) fail_msg("%s", err.text);
    d->ops->upload(d, there, from, bytes);
    return there;
}

static void *get(device *d, const void *from, size_t bytes) {
    void *here = mem_array(bytes, 1);
    qp_error err = {0};
    d->ops->download(d, here, from, bytes);
    if (d->ops->finish(d, &err) != QP_OK) fail_msg("%s", err.text);
    return here;
}

/* What lies on the device, and how long it is. */
typedef struct there {
    device *d;
    void *at;
    size_t bytes;
} there;

static there put_all(device *d, const void *from, size_t bytes) { return (there){d, put(d, from, bytes), bytes}; }
static void drop(there *t) { t->d->ops->give(t->d, t->at, t->bytes); }

/* `fast` on a GPU has kernels of its own for many rows of whole numbers and for prompts over half-precision caches:
 * there a row's bits do depend on how many there are (docs/design.md), and results are near. */
static bool is_bitwise(const bench *b) { return b->gpu->exact || ((const cuda_device *)b->gpu)->gpu.major < 8; }

static void compare(const bench *b, const char *what, const float *got, const float *expected, size_t n, double near,
                    double far) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - expected[i]) <= near + far * fabs((double)expected[i])))
            fail_msg("%s, %s%s, element %zu: %.9g, not %.9g", what, b->gpu->name, b->gpu->exact ? " exact" : "", i,
                     (double)got[i], (double)expected[i]);
}

/* Both results of an op, downloaded and compared; frees them. */
static void settle(const bench *b, const char *what, there gpu, there ref, double near, double far) {
    float *got = get(gpu.d, gpu.at, gpu.bytes), *expected = get(ref.d, ref.at, ref.bytes);
    compare(b, what, got, expected, gpu.bytes / sizeof *got, near, far);
    mem_free(got);
    mem_free(expected);
    drop(&gpu);
    drop(&ref);
}

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
        there t[] = {put_all(both[i], x, ROWS * width * 4), put_all(both[i], weight, width * 4),
                     put_all(both[i], bias, width * 4)};
        out[i] = put_all(both[i], x, 3 * width * 4);
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
        there y = put_all(both[i], other, n * 4);
        out[i] = put_all(both[i], x, n * 4);
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
    there gpu = put_all(b->gpu, before, IDS * (size_t)dim * 4), ref = put_all(b->ref, before, gpu.bytes);
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
    there in = put_all(d, x + (size_t)first * (size_t)(p->n_in + 3), (size_t)n_rows * (size_t)(p->n_in + 3) * 4);
    there biases = put_all(d, bias, (size_t)width * 4);
    there out = put_all(d, before + (size_t)first * (size_t)width, (size_t)n_rows * (size_t)width * 4);
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
        there in = put_all(both[i], x, (size_t)n_rows * IN * 4), up = put_all(both[i], before, n * 4);
        out[i] = put_all(both[i], before + n, n * 4);
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

/* ---- keys, values, attention ---- */

typedef struct past_rows {
    int64_t past;
    int n_rows;
} past_rows;

typedef struct shape {
    int n_heads, n_kv, dim, window;
    kv_type type;
    past_rows spans[10]; /* until n_rows is 0 */
    int chunk, v_dim;    /* v_dim 0: as dim */
    float cap;
    bool has_sinks, is_latent;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 0, KV_F32, .spans = {{0, 1}}},
    {2, 1, 3, 5, KV_F16, .spans = {{0, 40}, {255, 3}}},
    {4, 4, 16, 0, KV_F16, .spans = {{0, 7}, {63, 1}, {64, 1}, {255, 2}}},
    {8, 2, 24, 0, KV_F16, .spans = {{0, 40}, {1030, 1}, {17, 3}}},
    {8, 1, 24, 32, KV_F32, .spans = {{100, 40}, {1030, 2}}},
    {3, 1, 63, 0, KV_F16, .spans = {{0, 33}, {200, 1}}},
    {8, 1, 64, 0, KV_F16, .spans = {{0, 40}, {1030, 1}, {500, 4}}},
    {7, 1, 128, 300, KV_F16, .spans = {{290, 9}, {1030, 2}}},
    {4, 2, 128, 0, KV_F16, .spans = {{0, 300}, {129, 1}, {70, 129}, {40, 1}}},
    {2, 1, 64, 100, KV_F16, .spans = {{250, 140}, {3, 1}, {0, 129}}, .has_sinks = true},
    {4, 1, 128, 0, KV_F16, .spans = {{100, 150}, {250, 64}}, .chunk = 70, .cap = 9},
    {3, 3, 128, 0, KV_F16, .spans = {{40, 1}, {0, 1}, {63, 1}}, .has_sinks = true},
    {2, 1, 256, 0, KV_F16, .spans = {{0, 7}, {700, 1}}},
    {9, 1, 257, 0, KV_F16, .spans = {{0, 3}}},
    {5, 1, 8, 0, KV_F16, .spans = {{1279, 2}, {16, 1}}},
    {4, 4, 24, 250, KV_F16, .spans = {{5, 1}, {249, 1}, {250, 1}, {251, 1}, {511, 1}, {1024, 1}, {1500, 3}}},
    {4, 2, 24, 20, KV_F32, .spans = {{0, 70}, {600, 9}}, .chunk = 300},
    {8, 1, 64, 32, KV_F32, .spans = {{100, 4}, {1030, 2}}, .cap = 0.7f},
    {4, 4, 63, 128, KV_F32, .spans = {{250, 20}, {0, 1}}, .has_sinks = true, .cap = 20},
    {4, 2, 24, 0, KV_F16, .spans = {{0, 40}, {300, 1}}, .v_dim = 12},
    {16, 1, 72, 0, KV_F16, .spans = {{250, 4}, {1030, 1}}, .v_dim = 64, .is_latent = true},
    {16, 1, 36, 0, KV_F32, .spans = {{0, 33}, {777, 1}}, .v_dim = 33, .is_latent = true},
    {32, 1, 576, 0, KV_F16, .spans = {{130, 1}}, .v_dim = 512, .is_latent = true},
    {4, 2, 64, 0, KV_Q8, .spans = {{0, 7}, {300, 1}, {250, 9}}},
    {8, 1, 80, 40, KV_Q6, .spans = {{530, 1}, {20, 3}}, .v_dim = 48, .has_sinks = true},
    {32, 4, 128, 0, KV_Q8, .spans = {{600, 1}, {40, 1}, {0, 5}}},
    {5, 1, 128, 100, KV_Q6, .spans = {{520, 1}, {255, 1}}, .has_sinks = true},
    {4, 4, 128, 0, KV_Q4, .spans = {{0, 1}, {260, 1}}, .cap = 5},
    {9, 1, 64, 0, KV_Q4, .spans = {{31, 1}, {256, 1}}},
    {2, 1, 64, 20, KV_Q6, .spans = {{300, 1}, {300, 2}}},
    {3, 3, 37, 0, KV_Q4, .spans = {{0, 5}, {600, 2}}},
    {4, 1, 72, 0, KV_Q4, .spans = {{250, 4}}, .v_dim = 64, .is_latent = true},
    {128, 128, 64, 0, KV_F16, .spans = {{1300, 1}, {600, 1}, {255, 1}}, .has_sinks = true},
    {64, 64, 128, 1000, KV_F16, .spans = {{1500, 1}}},
    {128, 128, 64, 1500, KV_Q8, .spans = {{1700, 1}, {511, 1}}},
    {128, 128, 128, 0, KV_Q6, .spans = {{1279, 1}}, .has_sinks = true},
};

enum { PAGES = 32, GROUPS = DEV_PAGE_TOKENS / DEV_KEY_GROUP };

/* A step over pages in a scattered order. */
typedef struct world {
    const shape *c;
    row_span spans[10];
    int n_spans, n_rows;
    int32_t pages[10][PAGES];
    size_t page_bytes; /* keys or values of one page */
    int n_pages;
} world;

static world make_world(const shape *c) {
    world w = {.c = c};
    w.page_bytes = (size_t)c->n_kv * GROUPS * dev_kv_group_bytes(dev_key_type(c->type), c->dim);
    for (int i = 0; i < 10 && c->spans[i].n_rows; i++, w.n_spans++) {
        const int n = (int)((c->spans[i].past + c->spans[i].n_rows - 1) / DEV_PAGE_TOKENS) + 1;
        w.spans[i] = (row_span){w.n_rows, c->spans[i].n_rows, c->spans[i].past, NULL};
        w.n_rows += c->spans[i].n_rows;
        for (int p = 0; p < n; p++) w.pages[i][p] = w.n_pages + n - 1 - p;
        w.n_pages += n;
    }
    return w;
}

static kv_view view_of(const world *w, const there *kv) {
    const shape *c = w->c;
    return (kv_view){
        c->type,      c->n_kv, c->dim, c->v_dim ? c->v_dim : c->dim, kv[0].at, c->is_latent ? NULL : kv[1].at,
        w->page_bytes};
}

/* The same for types of few bits, each head of each page with kv_quant.c. */
static void fill_coded(const world *w, uint8_t *keys, uint8_t *mixed) {
    const shape *c = w->c;
    const int v_dim = c->v_dim ? c->v_dim : c->dim;
    const size_t k_group = dev_kv_group_bytes(dev_key_type(c->type), c->dim),
                 v_group = dev_kv_group_bytes(c->type, v_dim);
    for (size_t i = 0; i < (size_t)w->n_pages * (size_t)c->n_kv * DEV_PAGE_TOKENS; i++) {
        const size_t group = i / DEV_KEY_GROUP, per_page = (size_t)c->n_kv * GROUPS, in_page = group % per_page;
        const size_t page = group / per_page * w->page_bytes;
        const int slot = (int)(i % DEV_KEY_GROUP);
        float *x = random_floats((size_t)c->dim, 1, 100 + i), *y = random_floats((size_t)v_dim, 1, 1 << 20 | i);
        kv_put_key(keys + page + in_page * k_group, dev_key_type(c->type), slot, x, c->dim);
        kv_put_value(mixed + page + in_page * v_group, c->type, slot, y, v_dim);
        mem_free(x);
        mem_free(y);
    }
}

/* Random keys and values everywhere. */
static void fill_pages(const world *w, uint8_t *keys, uint8_t *mixed) {
    if (kv_is_quantised(w->c->type)) return fill_coded(w, keys, mixed);
    const size_t each = w->c->type == KV_F16 ? 2 : 4, n = (size_t)w->n_pages * w->page_bytes / each;
    for (size_t i = 0; i < n; i++) {
        const float k = (float)(rng_uniform(3, 0, i) * 2 - 1), v = (float)(rng_uniform(4, 0, i) * 2 - 1);
        const uint16_t k_half = quant_f32_to_f16(k), v_half = quant_f32_to_f16(v);
        memcpy(keys + i * each, each == 2 ? (const void *)&k_half : &k, each);
        memcpy(mixed + i * each, each == 2 ? (const void *)&v_half : &v, each);
    }
}

static void run_attend(device *d, const world *w, there *q, there *out, const there *kv, const there *sinks,
                       const row_span *spans, int n_spans) {
    const shape *c = w->c;
    const attend_args a = {.q = q->at,
                           .out = out->at,
                           .n_heads = c->n_heads,
                           .scale = 1.5f / sqrtf((float)c->dim),
                           .window = c->window,
                           .chunk = c->chunk,
                           .cap = c->cap,
                           .sinks = c->has_sinks ? sinks->at : NULL,
                           .kv = view_of(w, kv),
                           .spans = spans,
                           .n_spans = n_spans};
    d->ops->attend(d, &a);
}

/* Every span with so many rows at a time. */
static void run_chunks(device *d, const world *w, there *q, there *out, const there *kv, const there *sinks, int rows) {
    for (int s = 0; s < w->n_spans; s++)
        for (int r = 0; r < w->spans[s].n_rows; r += rows) {
            const int left = w->spans[s].n_rows - r;
            const row_span part = {w->spans[s].row + r, left < rows ? left : rows, w->spans[s].past + r,
                                   w->spans[s].pages};
            run_attend(d, w, q, out, kv, sinks, &part, 1);
        }
}

static void attend_case(const bench *b, const shape *c) {
    world w = make_world(c);
    for (int i = 0; i < w.n_spans; i++) w.spans[i].pages = w.pages[i];
    const int v_dim = c->v_dim ? c->v_dim : c->dim;
    const size_t q_bytes = (size_t)w.n_rows * (size_t)(c->n_heads * c->dim) * 4,
                 out_bytes = (size_t)w.n_rows * (size_t)(c->n_heads * v_dim) * 4,
                 kv_bytes = (size_t)w.n_pages * w.page_bytes;
    float *queries = random_floats(q_bytes / 4, 2, 1), *sink = random_floats((size_t)c->n_heads, 3, 2);
    uint8_t *keys = mem_array(kv_bytes, 1), *mixed = mem_array(kv_bytes, 1);
    float *poison = mem_array(out_bytes, 1);
    memset(poison, 0xFF, out_bytes);
    fill_pages(&w, keys, mixed);
    device *const both[] = {b->gpu, b->ref};
    float *results[4] = {NULL}; /* gpu, ref, gpu in chunks of 1 and 7 */
    for (int i = 0; i < 4; i++) {
        if (i == 2 && b->is_emulated) continue;
        device *d = both[i == 1];
        there q = put_all(d, queries, q_bytes), kv[] = {put_all(d, keys, kv_bytes), put_all(d, mixed, kv_bytes)};
        there sinks = put_all(d, sink, (size_t)c->n_heads * 4), out = put_all(d, poison, out_bytes);
        if (i < 2)
            run_attend(d, &w, &q, &out, kv, &sinks, w.spans, w.n_spans);
        else
            run_chunks(d, &w, &q, &out, kv, &sinks, i == 2 ? 1 : 7);
        results[i] = get(d, out.at, out_bytes);
        there *all[] = {&q, &kv[0], &kv[1], &sinks, &out};
        for (size_t k = 0; k < HARNESS_COUNT(all); k++) drop(all[k]);
    }
    const double near = is_bitwise(b) ? 6e-6 : 2e-3;
    compare(b, "attention", results[0], results[1], out_bytes / 4, near, 0);
    for (int i = 2; i < 4; i++) {
        if (!results[i]) continue;
        if (is_bitwise(b))
            assert_memory_equal(results[0], results[i], out_bytes);
        else
            compare(b, "attention in chunks", results[i], results[1], out_bytes / 4, near, 0);
    }
    for (int i = 0; i < 4; i++) mem_free(results[i]);
    void *all[] = {queries, sink, keys, mixed, poison};
    for (size_t i = 0; i < HARNESS_COUNT(all); i++) mem_free(all[i]);
}

static void attention(const bench *b) {
    for (size_t i = 0; i < HARNESS_COUNT(shapes); i++) attend_case(b, &shapes[i]);
}

/* ---- rotation ---- */

typedef struct turn {
    int n_heads, n_kv, dim, v_dim, rot;
    bool pairs, scaled;
    head_norm norm;
    kv_type type;
} turn;

static void rope_case(const bench *b, const turn *t) {
    enum { ROWS = 22 };
    static const int32_t first[] = {2, 0}, second[] = {1};
    const row_span spans[] = {{0, 4, 254, first}, {4, 18, 15, second}};
    const size_t q = ROWS * (size_t)(t->n_heads * t->dim), k = ROWS * (size_t)(t->n_kv * t->dim),
                 half = ROWS * (size_t)t->rot / 2,
                 page = (size_t)(t->n_kv * t->dim) * DEV_PAGE_TOKENS * (t->type == KV_F16 ? 2 : 4);
    float *x = random_floats(q + k, 1, 1);
    device *const both[] = {b->gpu, b->ref};
    uint8_t *keys[2], *mixed[2];
    there out[2];
    uint8_t *zeros = mem_zarray(3, page);
    for (int i = 0; i < 2; i++) {
        device *d = both[i];
        out[i] = put_all(d, x, q * 4);
        there in[] = {put_all(d, x + 1, k * 4),          put_all(d, x + 2, k * 4),
                      put_all(d, x, (size_t)t->dim * 4), put_all(d, x + 3, (half + 1) * 4),
                      put_all(d, x + 5, (half + 1) * 4), put_all(d, x, ROWS * 4),
                      put_all(d, zeros, 3 * page),       put_all(d, zeros, 3 * page)};
        const rope_store_args a = {.q = out[i].at,
                                   .k = in[0].at,
                                   .v = in[1].at,
                                   .n_heads = t->n_heads,
                                   .norm = t->norm,
                                   .q_norm = in[2].at,
                                   .norm_eps = 1e-5f,
                                   .rot_dims = t->rot,
                                   .pairs = t->pairs,
                                   .cos = t->rot ? in[3].at : NULL,
                                   .sin = t->rot ? in[4].at : NULL,
                                   .q_scale = t->scaled ? in[5].at : NULL,
                                   .kv = {t->type, t->n_kv, t->dim, t->v_dim, in[6].at, in[7].at, page},
                                   .spans = spans,
                                   .n_spans = 2};
        d->ops->rope_store(d, &a);
        keys[i] = (uint8_t *)get(d, in[6].at, 3 * page);
        mixed[i] = (uint8_t *)get(d, in[7].at, 3 * page);
        for (size_t j = 0; j < HARNESS_COUNT(in); j++) drop(&in[j]);
    }
    settle(b, "rotated q", out[0], out[1], 3e-6, 0);
    if (kv_is_quantised(t->type)) {
        size_t n_other = 0; /* codes between two that sums in another order have decided otherwise */
        for (size_t i = 0; i < 3 * page; i++) n_other += keys[0][i] != keys[1][i];
        for (size_t i = 0; i < 3 * page; i++) n_other += mixed[0][i] != mixed[1][i];
        assert_in_range(n_other, 0, ROWS * (size_t)(t->n_kv * (t->dim + t->v_dim)) / 100);
    } else if (t->type == KV_F32) {
        compare(b, "stored keys", (float *)(void *)keys[0], (float *)(void *)keys[1], 3 * page / 4, 3e-6, 0);
        assert_memory_equal(mixed[0], mixed[1], 3 * page);
    } else {
        for (size_t i = 0; i < 3 * page / 2; i++) {
            const double got = quant_f16_to_f32(((uint16_t *)(void *)keys[0])[i]);
            assert_true(fabs(got - quant_f16_to_f32(((uint16_t *)(void *)keys[1])[i])) <= 2e-3);
        }
        assert_memory_equal(mixed[0], mixed[1], 3 * page);
    }
    for (int i = 0; i < 2; i++) mem_free(keys[i]), mem_free(mixed[i]);
    mem_free(zeros);
    mem_free(x);
}

static void rotation(const bench *b) {
    static const turn cases[] = {{4, 2, 16, 16, 16, false, false, HEAD_NORM_NONE, KV_F16},
                                 {4, 2, 64, 64, 64, false, false, HEAD_NORM_NONE, KV_F16},
                                 {3, 1, 64, 64, 64, true, true, HEAD_NORM_NONE, KV_F16},
                                 {5, 2, 128, 128, 128, false, true, HEAD_NORM_NONE, KV_F16},
                                 {2, 1, 128, 128, 128, true, false, HEAD_NORM_NONE, KV_F16},
                                 {3, 1, 37, 37, 20, true, true, HEAD_NORM_FIRST, KV_F32},
                                 {5, 5, 130, 70, 64, false, true, HEAD_NORM_LAST, KV_F32},
                                 {1, 1, 8, 8, 0, false, false, HEAD_NORM_FIRST, KV_F16},
                                 {4, 2, 64, 64, 32, false, false, HEAD_NORM_NONE, KV_Q8},
                                 {2, 1, 80, 48, 16, true, true, HEAD_NORM_FIRST, KV_Q6},
                                 {3, 2, 130, 37, 64, false, false, HEAD_NORM_NONE, KV_Q4}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) rope_case(b, &cases[i]);
}

/* Single rows of many sequences: rotation and attention right behind each other, which a GPU does in one kernel. */
static const shape rows_of_many[] = {
    {4, 4, 128, 0, KV_F16, .spans = {{0, 1}, {3, 1}, {15, 1}, {16, 1}, {40, 1}, {255, 1}, {256, 1}, {700, 1}}},
    {8, 2, 64, 0, KV_F16, .spans = {{63, 1}, {0, 1}, {31, 1}, {512, 1}, {1, 1}, {1023, 1}}},
    {16, 2, 128, 100, KV_F16, .spans = {{99, 1}, {100, 1}, {101, 1}, {355, 1}, {0, 1}}, .has_sinks = true},
    {6, 3, 64, 20, KV_F16, .spans = {{5, 1}, {19, 1}, {20, 1}, {270, 1}, {271, 1}}, .has_sinks = true, .cap = 9},
    {4, 2, 128, 0, KV_F16, .spans = {{69, 1}, {70, 1}, {71, 1}, {300, 1}, {0, 1}}, .chunk = 70},
    {9, 1, 128, 0, KV_F16, .spans = {{0, 1}, {17, 1}, {100, 1}, {300, 1}, {47, 1}}}, /* more heads than a warp has */
    {4, 4, 128, 0, KV_F16, .spans = {{0, 1}, {290, 1}, {40, 1}}},                    /* fewer rows than a batch */
    {4, 2, 64, 0, KV_Q8, .spans = {{0, 1}, {29, 1}, {40, 1}, {300, 1}, {5, 1}}},
};

static void turn_and_attend(device *d, const world *w, there *q, there *kv, const there *in, there *out,
                            const there *sinks, bool pairs) {
    const rope_store_args a = {.q = q->at,
                               .k = in[0].at,
                               .v = in[1].at,
                               .n_heads = w->c->n_heads,
                               .rot_dims = w->c->dim,
                               .pairs = pairs,
                               .cos = in[2].at,
                               .sin = in[3].at,
                               .q_scale = pairs ? in[4].at : NULL,
                               .kv = view_of(w, kv),
                               .spans = w->spans,
                               .n_spans = w->n_spans};
    d->ops->rope_store(d, &a);
    run_attend(d, w, q, out, kv, sinks, w->spans, w->n_spans);
}

static void many_case(const bench *b, const shape *c, bool pairs) {
    world w = make_world(c);
    for (int i = 0; i < w.n_spans; i++) w.spans[i].pages = w.pages[i];
    const size_t rows = (size_t)w.n_rows, q = rows * (size_t)(c->n_heads * c->dim),
                 k = rows * (size_t)(c->n_kv * c->dim), half = rows * (size_t)c->dim / 2,
                 kv_bytes = (size_t)w.n_pages * w.page_bytes;
    float *x = random_floats(q + k, 1, 1);
    uint8_t *keys = mem_array(kv_bytes, 1), *mixed = mem_array(kv_bytes, 1);
    fill_pages(&w, keys, mixed);
    device *const both[] = {b->gpu, b->ref};
    there out[2];
    uint8_t *kept[2][2];
    for (int i = 0; i < 2; i++) {
        device *d = both[i];
        there queries = put_all(d, x, q * 4), sinks = put_all(d, x, (size_t)c->n_heads * 4);
        there kv[] = {put_all(d, keys, kv_bytes), put_all(d, mixed, kv_bytes)};
        there in[] = {put_all(d, x + 1, k * 4), put_all(d, x + 2, k * 4), put_all(d, x + 3, half * 4),
                      put_all(d, x + 5, half * 4), put_all(d, x, rows * 4)};
        out[i] = put_all(d, x, q * 4);
        turn_and_attend(d, &w, &queries, kv, in, &out[i], &sinks, pairs);
        for (int j = 0; j < 2; j++) kept[i][j] = (uint8_t *)get(d, kv[j].at, kv_bytes);
        there *all[] = {&queries, &sinks, &kv[0], &kv[1], &in[0], &in[1], &in[2], &in[3], &in[4]};
        for (size_t j = 0; j < HARNESS_COUNT(all); j++) drop(all[j]);
    }
    settle(b, "attention of turned rows", out[0], out[1],
           kv_is_quantised(c->type) ? 2e-2
           : is_bitwise(b)          ? 6e-4
                                    : 3e-3,
           0);
    for (size_t i = 0; c->type == KV_F16 && i < kv_bytes / 2; i++)
        assert_true(fabsf(quant_f16_to_f32(((uint16_t *)(void *)kept[0][0])[i]) -
                          quant_f16_to_f32(((uint16_t *)(void *)kept[1][0])[i])) <= 2e-3f);
    if (c->type == KV_F16) assert_memory_equal(kept[0][1], kept[1][1], kv_bytes);
    for (int i = 0; i < 4; i++) mem_free(kept[i / 2][i % 2]);
    void *host[] = {x, keys, mixed};
    for (size_t i = 0; i < HARNESS_COUNT(host); i++) mem_free(host[i]);
}

static void turned_attention(const bench *b) {
    for (size_t i = 0; i < HARNESS_COUNT(rows_of_many); i++)
        for (int pairs = 0; pairs < 2; pairs++) many_case(b, &rows_of_many[i], pairs);
}

static void latents(const bench *b) {
    enum { ROWS = 21, HEADS = 3, RANK = 20, ROT = 8, RAW = 13, DIM = RANK + ROT };
    static const int32_t pages[] = {1, 0};
    const row_span span = {0, ROWS, 245, pages};
    const size_t page = DEV_PAGE_TOKENS * DIM * 4;
    float *x = random_floats(ROWS * HEADS * DIM + 64, 1, 1);
    uint8_t *zeros = mem_zarray(2, page);
    device *const both[] = {b->gpu, b->ref};
    there out[2], k[2];
    for (int i = 0; i < 2; i++) {
        device *d = both[i];
        there in[] = {put_all(d, x, ROWS * HEADS * RAW * 4), put_all(d, x + 7, ROWS * DIM * 4), put_all(d, x, RANK * 4),
                      put_all(d, x + 9, ROWS * ROT / 2 * 4)};
        out[i] = put_all(d, x, ROWS * HEADS * DIM * 4);
        k[i] = put_all(d, zeros, 2 * page);
        const latent_store_args a = {.heads = in[0].at,
                                     .n_heads = HEADS,
                                     .heads_dim = RAW,
                                     .q = out[i].at,
                                     .latent = in[1].at,
                                     .norm = in[2].at,
                                     .norm_eps = 1e-6f,
                                     .rot_dims = ROT,
                                     .pairs = true,
                                     .cos = in[3].at,
                                     .sin = in[3].at,
                                     .kv = {KV_F32, 1, DIM, RANK, k[i].at, NULL, page},
                                     .spans = &span,
                                     .n_spans = 1};
        d->ops->latent_store(d, &a);
        for (size_t j = 0; j < HARNESS_COUNT(in); j++) drop(&in[j]);
    }
    settle(b, "latent q", out[0], out[1], 2e-6, 0);
    settle(b, "latents", k[0], k[1], 3e-6, 0);
    mem_free(x);
    mem_free(zeros);
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
        there in[] = {put_all(both[i], logits, ROWS * n * 4), put_all(both[i], bias, n * 4),
                      put_all(both[i], logits, ROWS * k * 4)};
        weights[i] = put_all(both[i], logits, ROWS * k * 4);
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
    there in[] = {put_all(d, m->x + first * X_DIM, rows * X_DIM * 4), put_all(d, m->weights + first * X_TOP, pairs * 4),
                  put_all(d, m->chosen + first * X_TOP, pairs * 4), put_all(d, m->bias, X_EXPERTS * X_DIM * 4)};
    there scratch[5];
    const float *bias[X_EXPERTS];
    qp_error err;
    for (int i = 0; i < 5; i++) {
        scratch[i] = (there){d, NULL, pairs * X_DIM * 4};
        if (d->ops->take(d, &scratch[i].at, scratch[i].bytes, &err) != QP_OK) fail_msg("%s", err.text);
    }
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

/* ---- all of it, on each device, exact and fast ---- */

static bench open_bench(const char *library, bool exact) {
    bench b = {.is_emulated = library};
    qp_error err;
    const dev_options tested = cuda_test_options(2, exact);
    dev_options right = cuda_test_options(1, true);
    right.cpu_level = "ref";
    if (cuda_open_from(&b.gpu, library, &tested, &err) != QP_OK || cpu_open(&b.ref, &right, &err) != QP_OK ||
        b.gpu->ops->reserve(b.gpu, 80, 1100, &err) != QP_OK || b.ref->ops->reserve(b.ref, 80, 1100, &err) != QP_OK)
        fail_msg("%s", err.text);
    return b;
}

static const struct on {
    bool is_emulated, exact;
    const char *kind; /* of emulated ones */
} devices[] = {{false, false, NULL}, {false, true, NULL},    {true, false, NULL},
               {true, true, NULL},   {true, false, "9 4 1"}, {true, false, "9 5 2"}};

/* What differs between devices: exact or fast is a matter of products, a new GPU has kernels of its own for some ops.
 */
enum { ALIKE = 0, MULTIPLIES = 1, HAS_FAST = 2 };

static void on_each(void (*test)(const bench *b), unsigned what) {
    char emulated[4096];
    const bool has_emulated = cuda_emulated_path(emulated, sizeof emulated), has_gpu = cuda_has_gpu();
    if (!has_emulated && !has_gpu) HARNESS_SKIP("neither a GPU nor a C++ compiler for the emulated one");
    for (size_t i = 0; i < HARNESS_COUNT(devices); i++) {
        const struct on *on = &devices[i];
        if (on->is_emulated ? !has_emulated : !has_gpu) continue;
        if (on->is_emulated && ((on->exact && !(what & MULTIPLIES)) || (on->kind && !(what & HAS_FAST)))) continue;
        cuda_emulate(on->kind);
        bench b = open_bench(on->is_emulated ? emulated : NULL, on->exact);
        test(&b);
        dev_close(b.gpu);
        dev_close(b.ref);
    }
    cuda_emulate(NULL);
}

#define TEST(name, what)                                                                                               \
    static void test_##name(void **state) { on_each(name, what); }
TEST(norms, ALIKE)
TEST(values, ALIKE)
TEST(embeddings, MULTIPLIES)
TEST(products, MULTIPLIES | HAS_FAST)
TEST(gated_products, MULTIPLIES | HAS_FAST)
TEST(attention, HAS_FAST)
TEST(rotation, HAS_FAST)
TEST(turned_attention, HAS_FAST)
TEST(latents, ALIKE)
TEST(routes, ALIKE)
TEST(mixtures, MULTIPLIES)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),    cmocka_unit_test(test_values),           cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_products), cmocka_unit_test(test_gated_products),   cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_latents),  cmocka_unit_test(test_attention),        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_mixtures), cmocka_unit_test(test_turned_attention),
    };
    if (!cuda_has_gpu()) puts("SKIP: no GPU that this build can use: its kernels run emulated only");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
