/* cuda_packed_test.c — products of every quantised format kept as it is on a GPU, few rows and many, against sums in
 * double over the slow exact unpack; rows bit for bit in steps of other sizes.
 *
 * Few rows are multiplied on an emulated GPU, too (tests/cuda/emulate.cpp); many need one that is there. */
#include "cuda_packed.h"
#include "quant_samples.h"
#include "cuda_harness.h"
#include <math.h>

static const struct size {
    int n_out, n_in, n_rows;
} sizes[] = {{1, 256, 1},    {17, 768, 3},   {40, 512, 4},    {33, 1024, 5},   {130, 512, 16},
             {300, 256, 17}, {67, 1024, 64}, {150, 768, 128}, {67, 1024, 129}, {300, 512, 300}};
/* So many outputs that blocks have more than one warpgroup, and share their inputs or do not. */
static const struct size large[] = {{4100, 1024, 20}, {13000, 256, 70}, {2600, 1024, 128}, {4500, 256, 300}};
/* Inputs that end within a unit and within a group: only floats have such. */
static const struct size ragged[] = {{33, 416, 3}, {130, 864, 20}, {67, 416, 300}};
enum { MOST_IN = 1024, MOST_ROWS = 300 };

/* Steps of so many rows sum alike, so a row has the same bits in all of them. */
static const struct alike { int first, last; } alike[] = {{1, CUDA_ALIKE_ROWS}, {CUDA_ALIKE_ROWS + 1, 128}};

typedef struct world {
    sample s;
    device *gpu;
    dev_weight weight;
    int n_rows;
    float *x, *bias, *before, *out;    /* host */
    float *gpu_x, *gpu_bias, *gpu_out; /* of the GPU */
    double *expected, *bound;
} world;

static float random_x(size_t i) { return (float)((double)sample_bits(21, i) / 2147483648.0 - 1); }

static void expect(world *w) {
    const quant_matrix *m = &w->s.m;
    float row[MOST_IN];
    for (int64_t column = 0; column < m->n_out; column++) {
        m->type->unpack_row(row, m, column);
        for (int r = 0; r < w->n_rows; r++) {
            const size_t i = (size_t)(r * m->n_out + column);
            double sum = 0, size = 0;
            for (int64_t k = 0; k < m->n_in; k++) {
                sum += (double)row[k] * (double)w->x[r * m->n_in + k];
                size += fabs((double)row[k]);
            }
            w->expected[i] = sum + (double)w->bias[column] + (double)w->before[i];
            w->bound[i] = size * 0x1p-10 + 1e-5;
        }
    }
}

static float *take(device *gpu, size_t n) {
    void *memory;
    assert_int_equal(gpu->ops->take(gpu, &memory, n * sizeof(float), NULL), QP_OK);
    return memory;
}

static float *fill(size_t n, size_t seed) {
    float *values = mem_array(n, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++) values[i] = random_x(i + seed);
    return values;
}

static void build(world *w, device *gpu, const sample_format *f, const struct size *size) {
    const size_t n_out = (size_t)size->n_out * (size_t)size->n_rows, n_x = (size_t)size->n_in * (size_t)size->n_rows;
    qp_error err;
    sample_open(&w->s, f->id, f->variant, size->n_out, size->n_in);
    w->gpu = gpu;
    w->n_rows = size->n_rows;
    w->x = fill(n_x, 0), w->bias = fill((size_t)size->n_out, 7), w->before = fill(n_out, 99), w->out = fill(n_out, 1);
    w->expected = mem_array(n_out, sizeof *w->expected), w->bound = mem_array(n_out, sizeof *w->bound);
    assert_true(w->expected && w->bound);
    expect(w);
    w->gpu_x = take(gpu, n_x), w->gpu_bias = take(gpu, (size_t)size->n_out), w->gpu_out = take(gpu, n_out);
    gpu->ops->upload(gpu, w->gpu_x, w->x, n_x * sizeof(float));
    gpu->ops->upload(gpu, w->gpu_bias, w->bias, (size_t)size->n_out * sizeof(float));
    assert_int_equal(gpu->ops->weight_open(gpu, &w->weight, &w->s.m, &err), QP_OK);
    assert_int_equal(gpu->ops->weight_pack(gpu, &w->weight, &err), QP_OK);
    if (!((cuda_weight *)w->weight.packed)->packed) fail_msg("%s is not packed", w->s.m.type->name);
}

static void drop(world *w) {
    w->gpu->ops->weight_close(w->gpu, &w->weight);
    w->gpu->ops->give(w->gpu, w->gpu_x, 0);
    w->gpu->ops->give(w->gpu, w->gpu_bias, 0);
    w->gpu->ops->give(w->gpu, w->gpu_out, 0);
    float *const host[] = {w->x, w->bias, w->before, w->out};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) mem_free(host[i]);
    mem_free(w->expected);
    mem_free(w->bound);
    sample_close(&w->s);
}

/* All rows, `piece` at a time, into w->out. */
static void multiply(world *w, int piece) {
    const size_t bytes = (size_t)w->n_rows * (size_t)w->weight.n_out * sizeof(float);
    w->gpu->ops->upload(w->gpu, w->gpu_out, w->before, bytes);
    for (int row = 0; row < w->n_rows; row += piece) {
        const int n = w->n_rows - row < piece ? w->n_rows - row : piece;
        const matmul_args a = {.x = w->gpu_x + row * w->weight.n_in,
                               .x_stride = w->weight.n_in,
                               .n_rows = n,
                               .n_parts = 1,
                               .parts = {{.w = &w->weight,
                                          .bias = w->gpu_bias,
                                          .out = w->gpu_out + row * w->weight.n_out,
                                          .out_stride = w->weight.n_out,
                                          .add = true}}};
        w->gpu->ops->matmul(w->gpu, &a);
    }
    qp_error err;
    w->gpu->ops->download(w->gpu, w->out, w->gpu_out, bytes);
    if (w->gpu->ops->finish(w->gpu, &err)) fail_msg("%s: %s", w->s.m.type->name, err.text);
}

static void check_values(const world *w) {
    for (size_t i = 0; i < (size_t)w->n_rows * (size_t)w->s.m.n_out; i++)
        if (!(fabs((double)w->out[i] - w->expected[i]) <= w->bound[i]))
            fail_msg("%s %d bits: value %zu of %lld x %d is %.9g, not %.9g +- %.3g", w->s.m.type->name, w->s.m.bits, i,
                     (long long)w->s.m.n_out, w->n_rows, (double)w->out[i], w->expected[i], w->bound[i]);
}

/* All rows together and in pieces; w->out holds the former. */
static void check_pieces(world *w, struct alike is) {
    const size_t n = (size_t)w->n_rows * (size_t)w->weight.n_out;
    float *whole = mem_copy(w->out, n, sizeof *whole);
    assert_non_null(whole);
    for (int piece = is.first; piece < w->n_rows && w->n_rows <= is.last && w->n_rows >= is.first;
         piece += is.first > 1 ? 14 : 1) {
        const int rest = w->n_rows % piece;
        if (rest && rest < is.first) continue;
        multiply(w, piece);
        assert_memory_equal(w->out, whole, n * sizeof *whole);
    }
    mem_free(whole);
}

static void products(device *gpu, const sample_format *f, const struct size *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        world w;
        build(&w, gpu, f, &list[i]);
        multiply(&w, w.n_rows);
        check_values(&w);
        for (size_t k = 0; k < sizeof alike / sizeof *alike; k++) check_pieces(&w, alike[k]);
        drop(&w);
    }
}

/* A norm, a gated product of the same matrix twice, and the product behind it; `told`: norm and gate know who reads
 * them. */
static void run_chain(world *w, norm_kind kind, activation act, bool told, float *between, float *up) {
    const int64_t n = w->weight.n_in;
    norm_args norm = {.kind = kind,
                      .x = w->gpu_x,
                      .n_rows = w->n_rows,
                      .dim = (int)n,
                      .weight = w->gpu_bias,
                      .bias = kind == NORM_LAYER ? w->gpu_bias : NULL,
                      .eps = 1e-5f,
                      .out = between,
                      .next = {&w->weight},
                      .n_next = told};
    const matmul_args gated = {
        .x = between,
        .x_stride = n,
        .n_rows = w->n_rows,
        .n_parts = 2,
        .parts = {{.w = &w->weight, .out = w->gpu_out, .out_stride = n}, {.w = &w->weight, .out = up, .out_stride = n}},
        .is_gated = true,
        .act = act,
        .next = told ? &w->weight : NULL};
    const matmul_args last = {.x = w->gpu_out,
                              .x_stride = n,
                              .n_rows = w->n_rows,
                              .n_parts = 1,
                              .parts = {{.w = &w->weight, .out = between, .out_stride = n}}};
    w->gpu->ops->norm(w->gpu, &norm);
    w->gpu->ops->matmul(w->gpu, &gated);
    w->gpu->ops->matmul(w->gpu, &last);
    w->gpu->ops->download(w->gpu, w->out, between, (size_t)w->n_rows * (size_t)n * sizeof(float));
}

static void chains(device *gpu, const sample_format *f) {
    static const struct size sizes_of_chains[] = {
        {256, 256, 3}, {512, 512, 40}, {256, 256, 128}, {256, 256, 200}, {768, 768, 300}};
    for (size_t i = 0; i < sizeof sizes_of_chains / sizeof *sizes_of_chains; i++)
        for (int act = ACT_SILU; act < ACT_COUNT; act++) {
            world w;
            build(&w, gpu, f, &sizes_of_chains[i]);
            const norm_kind kind = act % 2 ? NORM_LAYER : NORM_RMS;
            const size_t n = (size_t)w.n_rows * (size_t)w.weight.n_out;
            float *between = take(gpu, n), *up = take(gpu, n), most = 0;
            run_chain(&w, kind, (activation)act, false, between, up);
            float *apart = mem_copy(w.out, n, sizeof *apart);
            assert_non_null(apart);
            run_chain(&w, kind, (activation)act, true, between, up);
            for (size_t k = 0; k < n; k++) most = fabsf(apart[k]) > most ? fabsf(apart[k]) : most;
            assert_true(most > 0 && most < INFINITY);
            for (size_t k = 0; k < n; k++)
                if (!(fabsf(w.out[k] - apart[k]) <= most * 0x1p-9f))
                    fail_msg("%d rows, activation %d: value %zu is %.9g in one piece, %.9g apart", w.n_rows, act, k,
                             (double)w.out[k], (double)apart[k]);
            mem_free(apart);
            gpu->ops->give(gpu, between, 0);
            gpu->ops->give(gpu, up, 0);
            drop(&w);
        }
}

/* Attention of two heads of 128 over caches of random halves, and the product behind it. */
typedef struct attention {
    float *out;
    uint8_t *k, *v;
    row_span spans[64];
    int n_spans;
} attention;

enum { MOST_PAGES = 8 };
static const int32_t pages_of_all[MOST_PAGES] = {3, 1, 0, 2, 7, 6, 5, 4};

/* Spans of `longest` rows and fewer until there are n_rows; all read the same pages. */
static attention make_attention(device *gpu, int n_rows, int longest) {
    const size_t halves = (size_t)MOST_PAGES * DEV_PAGE_TOKENS * 256;
    attention t = {.out = take(gpu, (size_t)n_rows * 256),
                   .k = (uint8_t *)take(gpu, halves / 2),
                   .v = (uint8_t *)take(gpu, halves / 2)};
    uint16_t *host = mem_array(halves, sizeof *host);
    assert_non_null(host);
    for (size_t i = 0; i < halves; i++) host[i] = quant_f32_to_f16(random_x(i));
    gpu->ops->upload(gpu, t.k, host, halves * 2);
    gpu->ops->upload(gpu, t.v, host, halves * 2);
    mem_free(host);
    for (int row = 0; row < n_rows; t.n_spans++) {
        const int n = n_rows - row < longest ? n_rows - row : longest;
        t.spans[t.n_spans] = (row_span){row, n, 97 * t.n_spans % 700, pages_of_all};
        row += n;
    }
    return t;
}

static void run_attention(world *w, const attention *t, bool told, float *out) {
    const attend_args a = {.q = w->gpu_x,
                           .out = t->out,
                           .n_heads = 2,
                           .scale = 0.1f,
                           .kv = {KV_F16, 2, 128, 128, t->k, t->v, DEV_PAGE_TOKENS * 256 * 2},
                           .spans = t->spans,
                           .n_spans = t->n_spans,
                           .next = told ? &w->weight : NULL};
    const matmul_args behind = {.x = t->out,
                                .x_stride = 256,
                                .n_rows = w->n_rows,
                                .n_parts = 1,
                                .parts = {{.w = &w->weight, .out = out, .out_stride = w->weight.n_out}}};
    w->gpu->ops->attend(w->gpu, &a);
    w->gpu->ops->matmul(w->gpu, &behind);
    w->gpu->ops->download(w->gpu, w->out, out, (size_t)w->n_rows * (size_t)w->weight.n_out * sizeof(float));
}

static void check_attention(device *gpu, const sample_format *f, const struct size *size, int longest) {
    world w;
    build(&w, gpu, f, size);
    attention t = make_attention(gpu, w.n_rows, longest);
    const size_t n = (size_t)w.n_rows * (size_t)w.weight.n_out;
    float *out = take(gpu, n), most = 0;
    run_attention(&w, &t, false, out);
    float *apart = mem_copy(w.out, n, sizeof *apart);
    assert_non_null(apart);
    run_attention(&w, &t, true, out);
    for (size_t k = 0; k < n; k++) most = fabsf(apart[k]) > most ? fabsf(apart[k]) : most;
    assert_true(most > 0 && most < INFINITY);
    for (size_t k = 0; k < n; k++)
        if (!(fabsf(w.out[k] - apart[k]) <= most * 0x1p-9f))
            fail_msg("%d rows in spans of %d: value %zu is %.9g, %.9g apart", w.n_rows, longest, k, (double)w.out[k],
                     (double)apart[k]);
    mem_free(apart);
    float *const taken[] = {out, t.out, (float *)(void *)t.k, (float *)(void *)t.v};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) gpu->ops->give(gpu, taken[i], 0);
    drop(&w);
}

/* NULL: the machine's own. */
static device *open_from(const char *library) {
    const dev_options options = cuda_test_options(2, false);
    device *gpu;
    qp_error err;
    if (cuda_open_from(&gpu, library, &options, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(gpu->ops->reserve(gpu, MOST_ROWS, MOST_IN, &err), QP_OK);
    return gpu;
}

static device *open_gpu(void) {
    if (!cuda_has_gpu()) HARNESS_SKIP("no GPU, and kernels for many rows are not emulated");
    return open_from(NULL);
}

static void attention_hands_over(void **state) {
    device *gpu = open_gpu();
    static const struct {
        struct size size;
        int longest;
    } cases[] = {
        {{300, 256, 40}, 1}, {{130, 256, 7}, 1}, {{67, 256, 64}, 60}, {{300, 256, 259}, 129}, {{40, 256, 300}, 300}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_attention(gpu, &sample_formats[8], &cases[i].size, cases[i].longest);
    dev_close(gpu);
}

static void norms_and_gates_hand_over(void **state) {
    device *gpu = open_gpu();
    for (size_t i = 0; i < SAMPLE_PACKED; i++) { /* mixed units, equal ones, zeros and minima of their own, floats */
        const sample_format *f = sample_packed(i);
        if (!i || f->id == QUANT_Q4_0 || f->id == QUANT_Q4_K || f->id == QUANT_AWQ || f->id == QUANT_FP8_E4M3)
            chains(gpu, f);
    }
    dev_close(gpu);
}

static void few_rows_are_multiplied_without_a_gpu(void **state) {
    enum { FEW_SIZES = 4 }; /* of at most five rows */
    char emulated[4096];
    if (!cuda_emulated_path(emulated, sizeof emulated)) HARNESS_SKIP("no C++ compiler for the emulated GPU");
    cuda_emulate("9 4 1");
    device *gpu = open_from(emulated);
    for (size_t f = 0; f < SAMPLE_PACKED; f++) {
        products(gpu, sample_packed(f), sizes, FEW_SIZES);
        if (f >= SAMPLE_WHOLE) products(gpu, sample_packed(f), ragged, 1);
    }
    dev_close(gpu);
    cuda_emulate(NULL);
}

/* The plan did not know of them: it has room for fewer bytes. */
static void scales_that_are_too_great_are_unpacked(void **state) {
    char emulated[4096];
    sample s;
    dev_weight w;
    qp_error err;
    if (!cuda_emulated_path(emulated, sizeof emulated)) HARNESS_SKIP("no C++ compiler for the emulated GPU");
    cuda_emulate("9 4 1");
    device *gpu = open_from(emulated);
    sample_open(&s, QUANT_MXFP4_ROWS, 0, 48, 256);
    s.memory[1][1 + 77] = 160;
    assert_int_equal(gpu->ops->weight_open(gpu, &w, &s.m, &err), QP_OK);
    assert_int_equal(gpu->ops->weight_pack(gpu, &w, &err), QP_OK);
    const cuda_weight *is = w.packed;
    assert_true(!is->packed && is->data && is->type == QUANT_BF16);
    gpu->ops->weight_close(gpu, &w);
    sample_close(&s);
    dev_close(gpu);
    cuda_emulate(NULL);
}

static void every_format_is_multiplied(void **state) {
    device *gpu = open_gpu();
    for (size_t f = 0; f < SAMPLE_PACKED; f++) {
        products(gpu, sample_packed(f), sizes, sizeof sizes / sizeof *sizes);
        if (f >= SAMPLE_WHOLE) products(gpu, sample_packed(f), ragged, sizeof ragged / sizeof *ragged);
    }
    dev_close(gpu);
}

static void large_matrices_are_multiplied(void **state) {
    device *gpu = open_gpu();
    for (size_t f = 0; f < SAMPLE_PACKED; f++) /* one of mixed units, one of equal ones, floats */
        if (!f || sample_packed(f)->id == QUANT_Q4_0 || sample_packed(f)->id == QUANT_FP8_E4M3)
            products(gpu, sample_packed(f), large, sizeof large / sizeof *large);
    dev_close(gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_rows_are_multiplied_without_a_gpu),
                                       cmocka_unit_test(scales_that_are_too_great_are_unpacked),
                                       cmocka_unit_test(every_format_is_multiplied),
                                       cmocka_unit_test(large_matrices_are_multiplied),
                                       cmocka_unit_test(norms_and_gates_hand_over),
                                       cmocka_unit_test(attention_hands_over)};
    return cmocka_run_group_tests(tests, sample_read_goldens, sample_drop_goldens);
}
