/* cpu_rows_test.c — embedding, norm, rotation and gates of every level this machine has, against formulas in double,
 * over odd sizes; bit for bit the same row by row and all at once, on any number of threads.
 *
 * Buffers are exactly as long as they must be, for the address sanitizer; tables begin at odd addresses. */
#include "cpu.h"
#include "dev/kv_quant.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness.h"
#include <math.h>

static const int dims[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 80, 128, 130, 257, 4096, 5632};

static float *random_floats(size_t n, double size) {
    float *values = mem_array(n, sizeof *values);
    for (size_t i = 0; i < n; i++) values[i] = (float)((rng_uniform(n, 1, i) * 2 - 1) * size);
    return values;
}

static void check(const char *what, const char *level, int dim, size_t i, double got, double expected, double error) {
    if (!(fabs(got - expected) <= error)) /* NaN is wrong too */
        fail_msg("%s, %s, size %d, element %zu: %.9g, not %.9g", what, level, dim, i, got, expected);
}

/* Calls test(device of one thread, of three) for each level with row kernels of its own. */
static void each_level(void (*test)(device *one, device *three)) {
    for (int i = 0; cpu_level_at(i); i++) {
        if (!cpu_level_at(i)->row || !dev_cpu_level_available(cpu_level_at(i)->name)) continue;
        device *d[2];
        for (int t = 0; t < 2; t++)
            assert_int_equal(
                cpu_open(&d[t], &(dev_options){.cpu_level = cpu_level_at(i)->name, .threads = 1 + 2 * t}, NULL), QP_OK);
        test(d[0], d[1]);
        for (int t = 0; t < 2; t++) dev_close(d[t]);
    }
}

/* ---- embedding ---- */

static void embed_format(device *one, device *three, quant_id id, int dim) {
    enum { VOCABULARY = 5 };
    static const int32_t ids[] = {4, 0, 2, 2};
    const quant_type *type = quant_type_of(id);
    size_t bytes;
    assert_true(type->bytes(&bytes, VOCABULARY, dim));
    uint8_t *memory = mem_array(bytes + 1, 1), *aligned = mem_array(bytes, 1);
    float *values = random_floats((size_t)VOCABULARY * (size_t)dim, 2);
    for (size_t i = 0; i < (size_t)VOCABULARY * (size_t)dim; i++) {
        const uint16_t half = id == QUANT_F16 ? quant_f32_to_f16(values[i]) : quant_f32_to_bf16(values[i]);
        memcpy(aligned + i * (id == QUANT_F32 ? 4 : 2), id == QUANT_F32 ? (void *)&values[i] : (void *)&half,
               id == QUANT_F32 ? 4 : 2);
    }
    memcpy(memory + 1, aligned, bytes);
    const dev_weight table = {.type = type,
                              .n_out = VOCABULARY,
                              .n_in = dim,
                              .stored = quant_plain(type, VOCABULARY, dim, memory + 1, bytes)};
    const quant_matrix matrix = {.type = type, .n_out = VOCABULARY, .n_in = dim, .parts = {aligned}};
    float *out = mem_array(4 * (size_t)dim, sizeof *out);
    for (int t = 0; t < 2; t++) {
        cpu_embed(t ? three : one, &(embed_args){ids, 4, &table, out, 1.5f, false});
        for (int row = 0; row < 4; row++) {
            type->unpack_row(values, &matrix, ids[row]);
            for (int i = 0; i < dim; i++) assert_true(out[row * dim + i] == values[i] * 1.5f);
        }
    }
    mem_free(out);
    mem_free(values);
    mem_free(aligned);
    mem_free(memory);
}

static void embed_all(device *one, device *three) {
    for (size_t i = 0; i < HARNESS_COUNT(dims); i++)
        for (int id = 0; id <= QUANT_BF16; id++) embed_format(one, three, (quant_id)id, dims[i]);
}

static void embeds(void **state) { each_level(embed_all); }

/* ---- norm ---- */

enum { NORM_ROWS = 40 };

static void norm_dim(device *one, device *three, int dim) {
    const size_t n = (size_t)NORM_ROWS * (size_t)dim;
    float *x = random_floats(n, 3), *weight = random_floats((size_t)dim, 1), *out = mem_array(n, sizeof *out);
    cpu_norm(three, &(norm_args){.x = x, .n_rows = NORM_ROWS, .dim = dim, .weight = weight, .eps = 1e-5f, .out = out});
    for (int row = 0; row < NORM_ROWS; row++) {
        double sum = 0;
        for (int i = 0; i < dim; i++) sum += (double)x[row * dim + i] * x[row * dim + i];
        const double scale = 1 / sqrt(sum / dim + 1e-5f);
        for (int i = 0; i < dim; i++)
            check("norm", one->level, dim, (size_t)i, out[row * dim + i], x[row * dim + i] * scale * weight[i], 1e-6);
    }
    static const int32_t some[] = {39, 3, 3};
    float *few = mem_array(3 * (size_t)dim, sizeof *few);
    cpu_norm(one,
             &(norm_args){.x = x, .rows = some, .n_rows = 3, .dim = dim, .weight = weight, .eps = 1e-5f, .out = few});
    for (int i = 0; i < 3; i++) assert_memory_equal(few + i * dim, out + some[i] * dim, (size_t)dim * sizeof *few);
    cpu_norm(one, &(norm_args){.x = x, .n_rows = NORM_ROWS, .dim = dim, .weight = weight, .eps = 1e-5f, .out = x});
    assert_memory_equal(x, out, n * sizeof *x); /* in place */
    mem_free(few);
    mem_free(out);
    mem_free(weight);
    mem_free(x);
}

/* Three vectors a row, each for itself, with weights of its own, one for all, or none. */
static void layer_norm_dim(device *one, device *three, int dim, int variant) {
    enum { ROWS = 7, HEADS = 3 };
    const size_t n = ROWS * HEADS * (size_t)dim;
    float *x = random_floats(n, 3), *weight = random_floats(HEADS * (size_t)dim, 1),
          *bias = random_floats((size_t)dim, 1);
    float *out = mem_array(n, sizeof *out);
    const norm_args a = {.kind = variant == 3 ? NORM_RMS : NORM_LAYER,
                         .x = x,
                         .n_rows = ROWS,
                         .dim = dim,
                         .heads = HEADS,
                         .weight = variant ? weight : NULL,
                         .bias = variant == 1 ? bias : NULL,
                         .own_weights = variant == 2,
                         .eps = 1e-5f,
                         .out = out};
    for (size_t i = 0; i < n; i++) x[i] += 1;
    cpu_norm(three, &a);
    for (int v = 0; v < ROWS * HEADS; v++) {
        const float *in = x + v * dim;
        double sum = 0, squares = 0;
        for (int i = 0; i < dim; i++) sum += in[i];
        const double mean = variant == 3 ? 0 : sum / dim;
        for (int i = 0; i < dim; i++) squares += (in[i] - mean) * (in[i] - mean);
        for (int i = 0; i < dim; i++) {
            const double w = variant == 0 ? 1 : weight[(variant == 2 ? v % HEADS * dim : 0) + i];
            const double expected = (in[i] - mean) / sqrt(squares / dim + 1e-5f) * w + (variant == 1 ? bias[i] : 0);
            check("layer norm", one->level, dim, (size_t)i, out[v * dim + i], expected, 3e-5);
        }
    }
    float *alone = mem_array((size_t)(HEADS * dim), sizeof *alone);
    norm_args last = a;
    last.rows = (const int32_t[]){ROWS - 1};
    last.n_rows = 1;
    last.out = alone;
    cpu_norm(one, &last);
    assert_memory_equal(alone, out + (ROWS - 1) * HEADS * dim, (size_t)(HEADS * dim) * sizeof *alone);
    mem_free(alone);
    mem_free(out);
    mem_free(bias);
    mem_free(weight);
    mem_free(x);
}

static void norm_all(device *one, device *three) {
    for (size_t i = 0; i < HARNESS_COUNT(dims); i++) {
        norm_dim(one, three, dims[i]);
        for (int variant = 0; variant < 4; variant++) layer_norm_dim(one, three, dims[i], variant);
    }
}

static void norms(void **state) { each_level(norm_all); }

/* ---- gates ---- */

static double act_of(activation act, double x) {
    switch (act) {
    case ACT_SILU:
        return x / (1 + exp(-x));
    case ACT_GELU:
        return x / 2 * erfc(-x / sqrt(2));
    case ACT_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ACT_RELU2:
        return x > 0 ? x * x : 0;
    case ACT_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x > 0 ? x : 0;
    }
}

static void gate_act(device *one, device *three, activation act, int dim) {
    enum { ROWS = 3 };
    const size_t n = ROWS * (size_t)dim;
    float *x = random_floats(n, dim % 2 ? 3 : 30), *up = random_floats(n, 1);
    float *a = mem_copy(x, n, sizeof *x), *b = mem_copy(x, n, sizeof *x);
    cpu_gate(one, &(gate_args){act, a, up, ROWS, dim});
    for (int row = 0; row < ROWS; row++) cpu_gate(three, &(gate_args){act, b + row * dim, up + row * dim, 1, dim});
    assert_memory_equal(a, b, n * sizeof *a);
    for (size_t i = 0; i < n; i++) {
        const double expected = act_of(act, x[i]) * up[i];
        check("gate", one->level, dim, i, a[i], expected, 3e-7 * fabs(expected) + 2e-7 * fmin(1, fabs(x[i])));
    }
    memcpy(b, x, n * sizeof *b);
    cpu_gate(three, &(gate_args){act, b, NULL, ROWS, dim});
    for (size_t i = 0; i < n; i++) {
        const double expected = act_of(act, x[i]);
        check("act", one->level, dim, i, b[i], expected, 3e-7 * fabs(expected) + 2e-7 * fmin(1, fabs(x[i])));
    }
    mem_free(a);
    mem_free(b);
    mem_free(x);
    mem_free(up);
}

static void gate_all(device *one, device *three) {
    for (int act = 0; act < ACT_COUNT; act++) {
        for (size_t i = 0; i < HARNESS_COUNT(dims); i++) gate_act(one, three, (activation)act, dims[i]);
        gate_act(one, three, (activation)act, 20001); /* on three threads at once */
    }
}

static void gates(void **state) { each_level(gate_all); }

/* silu(x) = x / (1 + e^-x) shows the exponential function: for x below -20 it is x e^x. */
static void exponent_all(device *one, device *three) {
    enum { N = 65536 };
    float *x = mem_array(N, sizeof *x), *up = mem_array(N, sizeof *up);
    for (int i = 0; i < N; i++) {
        x[i] = -20 - 60.0f * (float)i / N;
        up[i] = 1;
    }
    float *got = mem_copy(x, N, sizeof *x);
    cpu_gate(one, &(gate_args){ACT_SILU, got, up, 1, N});
    for (int i = 0; i < N; i++) {
        const double expected = x[i] / (1 + exp(-(double)x[i]));
        check("exponential", one->level, N, (size_t)i, got[i], expected, 4 * 0x1p-24 * fabs(expected));
    }
    static const float odd[] = {INFINITY, NAN, -0.0f, 0, 1e30f, -1e30f, -200, 89};
    float values[8], ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    memcpy(values, odd, sizeof odd);
    cpu_gate(one, &(gate_args){ACT_SILU, values, ones, 1, 8});
    assert_true(values[0] == INFINITY && isnan(values[1]) && values[2] == 0 && values[3] == 0 && values[4] == 1e30f);
    assert_true(fabsf(values[5]) < 1e-7f && fabsf(values[6]) < 1e-30f && values[7] == 89);
    mem_free(x);
    mem_free(up);
    mem_free(got);
}

static void exponential_is_accurate(void **state) { each_level(exponent_all); }

/* ---- rotation into the pages ---- */

typedef struct rope_case {
    int n_heads, n_kv, dim, rot_dims;
    head_norm norm;
    kv_type type;
    bool pairs, unit, scaled; /* unit: norm without weights */
} rope_case;

static const rope_case ropes[] = {
    {1, 1, 1, 0, HEAD_NORM_NONE, KV_F32, false, false, false},
    {4, 2, 16, 16, HEAD_NORM_NONE, KV_F16, false, false, false},
    {3, 1, 63, 62, HEAD_NORM_FIRST, KV_F16, false, false, false},
    {8, 8, 24, 24, HEAD_NORM_FIRST, KV_F32, false, false, true},
    {4, 1, 80, 32, HEAD_NORM_NONE, KV_F16, true, false, false},
    {8, 2, 128, 128, HEAD_NORM_FIRST, KV_F16, false, false, false},
    {2, 1, 257, 100, HEAD_NORM_LAST, KV_F32, false, false, true},
    {4, 2, 24, 24, HEAD_NORM_LAST, KV_F16, true, true, false},
    {4, 2, 24, 0, HEAD_NORM_FIRST, KV_F32, false, true, true},
    {4, 2, 64, 64, HEAD_NORM_NONE, KV_Q8, false, false, false},
    {4, 2, 80, 24, HEAD_NORM_FIRST, KV_Q6, false, false, true},
    {4, 3, 128, 128, HEAD_NORM_NONE, KV_Q4, true, false, false},
};

enum { ROPE_ROWS = 44, ROPE_PAGES = 6 };
static const int32_t first_pages[] = {5, 1}, second_pages[] = {2, 4}, third_pages[] = {0};
static const row_span rope_spans[] = {{0, 40, 230, first_pages}, {40, 1, 256, second_pages}, {41, 3, 0, third_pages}};

typedef struct rope_world {
    float *q, *k, *v, *cosines, *sines, *q_norm, *k_norm, *q_scale;
    uint8_t *k_pages, *v_pages;
    size_t q_floats, kv_floats, page_bytes;
} rope_world;

static rope_world make_ropes(const rope_case *c) {
    rope_world w = {.q_floats = ROPE_ROWS * (size_t)(c->n_heads * c->dim),
                    .kv_floats = ROPE_ROWS * (size_t)(c->n_kv * c->dim)};
    const size_t half = (size_t)c->rot_dims / 2;
    w.page_bytes =
        (size_t)(c->n_kv * DEV_PAGE_TOKENS / DEV_KEY_GROUP) * dev_kv_group_bytes(dev_key_type(c->type), c->dim);
    w.q = random_floats(w.q_floats, 2);
    w.k = random_floats(w.kv_floats, 2);
    w.v = random_floats(w.kv_floats + 1, 2);
    w.cosines = mem_array(ROPE_ROWS * half + 1, sizeof(float));
    w.sines = mem_array(ROPE_ROWS * half + 1, sizeof(float));
    for (size_t i = 0; i < ROPE_ROWS * half; i++) {
        w.cosines[i] = (float)cos((double)i);
        w.sines[i] = (float)sin((double)i);
    }
    w.q_norm = random_floats((size_t)c->dim, 1);
    w.k_norm = random_floats((size_t)c->dim + 1, 1);
    w.q_scale = random_floats(ROPE_ROWS, 2);
    w.k_pages = mem_zarray(ROPE_PAGES, w.page_bytes);
    w.v_pages = mem_zarray(ROPE_PAGES, w.page_bytes);
    return w;
}

static void free_ropes(rope_world *w) {
    void *all[] = {w->q, w->k, w->v, w->cosines, w->sines, w->q_norm, w->k_norm, w->q_scale, w->k_pages, w->v_pages};
    for (size_t i = 0; i < HARNESS_COUNT(all); i++) mem_free(all[i]);
}

static rope_store_args args_of(const rope_world *w, const rope_case *c) {
    return (rope_store_args){.q = w->q,
                             .k = w->k,
                             .v = w->v,
                             .n_heads = c->n_heads,
                             .norm = c->norm,
                             .q_norm = c->unit ? NULL : w->q_norm,
                             .k_norm = c->unit ? NULL : w->k_norm,
                             .norm_eps = 1e-6f,
                             .rot_dims = c->rot_dims,
                             .pairs = c->pairs,
                             .q_scale = c->scaled ? w->q_scale : NULL,
                             .cos = w->cosines,
                             .sin = w->sines,
                             .kv = {c->type, c->n_kv, c->dim, c->dim, w->k_pages, w->v_pages, w->page_bytes},
                             .spans = rope_spans,
                             .n_spans = 3};
}

static void norm_plainly(double *x, const float *weights, const rope_case *c) {
    double sum = 0;
    for (int i = 0; i < c->dim; i++) sum += x[i] * x[i];
    for (int i = 0; i < c->dim; i++) x[i] = x[i] / sqrt(sum / c->dim + 1e-6f) * (c->unit ? 1 : weights[i]);
}

/* What becomes of one head, in double. */
static void turn_plainly(double *out, const float *head, const float *norm, const rope_case *c, const rope_world *w,
                         int row) {
    for (int i = 0; i < c->dim; i++) out[i] = head[i];
    if (c->norm == HEAD_NORM_FIRST) norm_plainly(out, norm, c);
    const int half = c->rot_dims / 2;
    for (int i = 0; i < half; i++) {
        double *x = out + (c->pairs ? 2 * i : i), *y = c->pairs ? x + 1 : x + half;
        const double a = *x, b = *y, cosine = w->cosines[row * half + i], sine = w->sines[row * half + i];
        *x = a * cosine - b * sine;
        *y = b * cosine + a * sine;
    }
    if (c->norm == HEAD_NORM_LAST) norm_plainly(out, norm, c);
}

/* A quantised key or value, rotated back. */
static void stored_head(float *out, const rope_case *c, const uint8_t *pages, bool is_key, int64_t position,
                        const row_span *span, int head) {
    const int slot = (int)(position % DEV_PAGE_TOKENS), group = head * (DEV_PAGE_TOKENS / DEV_KEY_GROUP) + slot / 16;
    const kv_type k_type = dev_key_type(c->type), type = is_key ? k_type : c->type;
    const size_t groups = (size_t)(c->n_kv * DEV_PAGE_TOKENS / DEV_KEY_GROUP);
    const uint8_t *at =
        pages + (size_t)span->pages[position / DEV_PAGE_TOKENS] * groups *
                    dev_kv_group_bytes(k_type, c->dim); /* keys and values have pages of one size here */
    at += (size_t)group * dev_kv_group_bytes(type, c->dim);
    for (int i = 0; i < c->dim; i++)
        out[i] = is_key ? kv_get_key(at, type, slot % 16, i) : kv_get_value(at, type, c->dim, slot % 16, i);
    kv_rotate(out, c->dim);
}

/* Keys: [slot / 16][element][slot % 16]; values: [slot][element]. */
static double stored(const rope_case *c, const uint8_t *pages, bool is_key, const row_span *span, int row, int head,
                     int i) {
    const int64_t p = span->past + row - span->row;
    if (kv_is_quantised(c->type)) {
        float whole[257];
        stored_head(whole, c, pages, is_key, p, span, head);
        return whole[i];
    }
    const size_t slot = (size_t)(p % DEV_PAGE_TOKENS), dim = (size_t)c->dim;
    const size_t in_head = is_key ? slot / 16 * 16 * dim + (size_t)i * 16 + slot % 16 : slot * dim + (size_t)i;
    const size_t at = (size_t)span->pages[p / DEV_PAGE_TOKENS] * (size_t)(c->n_kv * DEV_PAGE_TOKENS) * dim +
                      (size_t)head * DEV_PAGE_TOKENS * dim + in_head;
    return c->type == KV_F16 ? quant_f16_to_f32(((const uint16_t *)(const void *)pages)[at])
                             : ((const float *)(const void *)pages)[at];
}

static void check_ropes(const char *level, const rope_case *c, const rope_world *before, const rope_world *w) {
    double expected[257];
    const double rounding = c->type == KV_F16 ? 0x1p-11 : 0;
    /* of elements up to 3 in blocks that share a scale */
    const double step = c->type == KV_Q8 ? 0.05 : c->type == KV_Q6 ? 0.25 : c->type == KV_Q4 ? 1.1 : 0;
    for (int s = 0; s < 3; s++)
        for (int row = rope_spans[s].row; row < rope_spans[s].row + rope_spans[s].n_rows; row++) {
            for (int h = 0; h < c->n_heads; h++) {
                const size_t at = (size_t)(row * c->n_heads + h) * (size_t)c->dim;
                turn_plainly(expected, before->q + at, w->q_norm, c, w, row);
                for (int i = 0; i < c->dim; i++)
                    check("q", level, c->dim, (size_t)i, w->q[at + (size_t)i],
                          expected[i] * (c->scaled ? w->q_scale[row] : 1), 4e-6);
            }
            for (int h = 0; h < c->n_kv; h++) {
                const size_t at = (size_t)(row * c->n_kv + h) * (size_t)c->dim;
                turn_plainly(expected, before->k + at, w->k_norm, c, w, row);
                for (int i = 0; i < c->dim; i++) {
                    const double v = before->v[at + (size_t)i];
                    check("k", level, c->dim, (size_t)i, stored(c, w->k_pages, true, &rope_spans[s], row, h, i),
                          expected[i], 2e-6 + rounding * fabs(expected[i]) + step);
                    check("v", level, c->dim, (size_t)i, stored(c, w->v_pages, false, &rope_spans[s], row, h, i),
                          c->type == KV_F16 ? quant_f16_to_f32(quant_f32_to_f16((float)v)) : v, step);
                }
            }
        }
}

static size_t count_zeros(const uint8_t *bytes, size_t n) {
    size_t zeros = 0;
    for (size_t i = 0; i < n; i++) zeros += !bytes[i];
    return zeros;
}

static void rope_one(device *one, device *three, const rope_case *c) {
    rope_world before = make_ropes(c), all = make_ropes(c), single = make_ropes(c);
    const rope_store_args together = args_of(&all, c);
    cpu_rope_store(three, &together);
    check_ropes(three->level, c, &before, &all);
    rope_store_args alone = args_of(&single, c);
    for (int s = 2; s >= 0; s--)
        for (int i = 0; i < rope_spans[s].n_rows; i++) {
            const row_span span = {rope_spans[s].row + i, 1, rope_spans[s].past + i, rope_spans[s].pages};
            alone.spans = &span;
            alone.n_spans = 1;
            cpu_rope_store(one, &alone);
        }
    assert_memory_equal(single.q, all.q, all.q_floats * sizeof(float));
    assert_memory_equal(single.k_pages, all.k_pages, ROPE_PAGES * all.page_bytes);
    assert_memory_equal(single.v_pages, all.v_pages, ROPE_PAGES * all.page_bytes);
    /* nothing else is */
    const size_t written =
        ROPE_ROWS * (size_t)c->n_kv * dev_kv_group_bytes(dev_key_type(c->type), c->dim) / DEV_KEY_GROUP;
    assert_true(count_zeros(all.k_pages, ROPE_PAGES * all.page_bytes) >= ROPE_PAGES * all.page_bytes - written);
    assert_true(count_zeros(all.v_pages, ROPE_PAGES * all.page_bytes) >= ROPE_PAGES * all.page_bytes - written);
    free_ropes(&before);
    free_ropes(&all);
    free_ropes(&single);
}

static void rope_all(device *one, device *three) {
    for (size_t i = 0; i < HARNESS_COUNT(ropes); i++) rope_one(one, three, &ropes[i]);
}

static void rotates_and_stores(void **state) { each_level(rope_all); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeds),
        cmocka_unit_test(norms),
        cmocka_unit_test(gates),
        cmocka_unit_test(exponential_is_accurate),
        cmocka_unit_test(rotates_and_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
