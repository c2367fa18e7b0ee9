/* cuda_experts_test.c — mixtures of experts whose weights stay packed, against the plain C of `ref`: every format, few
 * rows and more, experts that are stored in different ways; and a row's bits, alone and among others.
 *
 * Runs on the GPU where there is one, and on emulated ones. Mixtures of 16 bits are cuda_ops_test's. */
#include "cuda_mixture.h"
#include "cuda_both.h"
#include "quant_samples.h"

enum { EXPERTS = 5, TOP = 2, MOST_ROWS = 200, MOST_DIM = 1024 };

/* What experts of a layer are: formats[projection][expert % 2]. */
typedef struct kind {
    const sample_format *formats[MIXTURE_PROJECTIONS][2];
    int dim, ffn;
    bool weigh_input, is_clamped, has_bias;
    activation act;
} kind;

typedef struct mixture {
    const kind *is;
    sample samples[MIXTURE_PROJECTIONS][EXPERTS];
    dev_weight weights[2][MIXTURE_PROJECTIONS][EXPERTS]; /* [0]: of the GPU */
    float *x, *shares, *bias;                            /* host */
    int32_t chosen[MOST_ROWS * TOP];
} mixture;

static const sample_format plain_format = {QUANT_F16, 0};

/* ---- making one ---- */

static void open_sample(sample *s, const sample_format *f, int n_out, int n_in) {
    if (f != &plain_format) {
        sample_open(s, f->id, f->variant, n_out, n_in);
        return;
    }
    *s = (sample){.m = {.type = quant_type_of(QUANT_F16), .n_out = n_out, .n_in = n_in}};
    sample_halves(sample_take(s, 0, (size_t)n_out * (size_t)n_in * 2), (size_t)n_out * (size_t)n_in);
}

static void load(device *d, dev_weight *out, const sample *s, bool packs) {
    qp_error err;
    quant_id as;
    const size_t planned = d->ops->weight_bytes ? d->ops->weight_bytes(d, &s->m, DEV_USE_EXPERT, &as) : 0;
    if (d->ops->weight_open(d, out, &s->m, &err) != QP_OK) fail_msg("%s", err.text);
    out->use = DEV_USE_EXPERT;
    if (d->ops->weight_pack(d, out, &err) != QP_OK) fail_msg("%s", err.text);
    if (!packs) return;
    const cuda_weight *w = out->packed;
    if (!w->packed) fail_msg("%s: an expert is not packed", s->m.type->name);
    assert_int_equal(as, s->m.type->id);
    assert_in_range(planned, w->bytes, w->bytes + w->bytes / 4 + 65536);
}

static mixture *make_mixture(const bench *d, const kind *is) {
    mixture *m = MEM_NEW(mixture);
    assert_non_null(m);
    m->is = is;
    for (int i = 0; i < MIXTURE_PROJECTIONS; i++)
        for (int e = 0; e < EXPERTS; e++) {
            const sample_format *f = is->formats[i][e % 2];
            sample_salt = (uint64_t)(i * EXPERTS + e + 1);
            open_sample(&m->samples[i][e], f, i == MIXTURE_DOWN ? is->dim : is->ffn,
                        i == MIXTURE_DOWN ? is->ffn : is->dim);
            load(d->gpu, &m->weights[0][i][e], &m->samples[i][e], f != &plain_format);
            load(d->ref, &m->weights[1][i][e], &m->samples[i][e], false);
        }
    sample_salt = 0;
    m->x = random_floats((size_t)MOST_ROWS * (size_t)is->dim, 1, 1);
    m->shares = random_floats((size_t)MOST_ROWS * TOP, 1, 2);
    m->bias = random_floats(EXPERTS * MOST_DIM, 1, 3);
    for (int row = 0; row < MOST_ROWS; row++) { /* one has all rows, one has none */
        m->chosen[row * TOP] = row % 3;
        m->chosen[row * TOP + 1] = 3;
    }
    return m;
}

static void drop_mixture(const bench *d, mixture *m) {
    device *const both[] = {d->gpu, d->ref};
    for (int i = 0; i < MIXTURE_PROJECTIONS; i++)
        for (int e = 0; e < EXPERTS; e++) {
            for (int k = 0; k < 2; k++) both[k]->ops->weight_close(both[k], &m->weights[k][i][e]);
            sample_close(&m->samples[i][e]);
        }
    mem_free(m->x);
    mem_free(m->shares);
    mem_free(m->bias);
    mem_free(m);
}

/* ---- running it ---- */

/* Rows [first, first + n_rows) on device `which`. */
static float *run(const bench *d, const mixture *m, int which, int first, int n_rows) {
    device *on = which ? d->ref : d->gpu;
    const kind *is = m->is;
    const size_t rows = (size_t)n_rows, pairs = rows * TOP, dim = (size_t)is->dim, ffn = (size_t)is->ffn;
    const there in[] = {put(on, m->x + (size_t)first * dim, rows * dim * 4),
                        put(on, m->shares + first * TOP, pairs * 4), put(on, m->chosen + first * TOP, pairs * 4),
                        put(on, m->bias, EXPERTS * MOST_DIM * 4)};
    const there scratch[] = {put(on, NULL, pairs * dim * 4), put(on, NULL, pairs * ffn * 4),
                             put(on, NULL, pairs * ffn * 4), put(on, NULL, pairs * dim * 4),
                             put(on, NULL, rows * dim * 4)};
    const float *bias[EXPERTS];
    for (int e = 0; e < EXPERTS; e++) bias[e] = (const float *)in[3].at + e * MOST_DIM;
    const float *const *biases = is->has_bias ? bias : NULL;
    const experts_args a = {.x = in[0].at,
                            .n_rows = n_rows,
                            .dim = is->dim,
                            .ffn = is->ffn,
                            .n_experts = EXPERTS,
                            .top_k = TOP,
                            .experts = in[2].at,
                            .weights = in[1].at,
                            .weigh_input = is->weigh_input,
                            .gate = {m->weights[which][MIXTURE_GATE], biases},
                            .up = {m->weights[which][MIXTURE_UP], biases},
                            .down = {m->weights[which][MIXTURE_DOWN], biases},
                            .kind = is->is_clamped ? EXPERT_CLAMPED_GATE : EXPERT_GATE,
                            .act = is->act,
                            .alpha = 1.5f,
                            .limit = 5,
                            .rows_in = scratch[0].at,
                            .rows_gate = scratch[1].at,
                            .rows_up = scratch[2].at,
                            .rows = scratch[3].at,
                            .out = scratch[4].at};
    on->ops->experts(on, &a);
    float *out = get(on, scratch[4].at, rows * dim * 4);
    for (size_t i = 0; i < HARNESS_COUNT(in); i++) drop(&in[i]);
    for (size_t i = 0; i < HARNESS_COUNT(scratch); i++) drop(&scratch[i]);
    return out;
}

static const char *name_of(const mixture *m) { return m->samples[0][0].m.type->name; }

static double distance(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += pow((double)a[i] - (b ? (double)b[i] : 0), 2);
    return sqrt(sum);
}

/* Few rows lose a part in 10,000, more some five, as float16 does. A row that its gates leave little of may lose more,
 * but not of what rows have on average. */
static void check_values(const mixture *m, const float *got, const float *right, int n_rows) {
    const size_t dim = (size_t)m->is->dim, rows = (size_t)n_rows;
    const double near = n_rows <= CUDA_ALIKE_ROWS ? 0x1p-10 : 0x1p-9, size = distance(right, NULL, rows * dim);
    const double off = distance(got, right, rows * dim);
    if (!(off <= near * size)) fail_msg("%s, %d rows: %g of the results is wrong", name_of(m), n_rows, off / size);
    for (size_t row = 0; row < rows; row++) {
        const float *a = got + row * dim, *b = right + row * dim;
        if (!(distance(a, b, dim) <= 0x1p-5 * distance(b, NULL, dim) + near * size / sqrt((double)rows)))
            fail_msg("%s, %d rows: row %zu is %g away from %g", name_of(m), n_rows, row, distance(a, b, dim),
                     distance(b, NULL, dim));
    }
}

/* Rows in steps of `piece`, whose results are those of one step. */
static void check_pieces(const bench *d, const mixture *m, const float *whole, int n_rows, int piece) {
    const size_t dim = (size_t)m->is->dim;
    for (int first = 0; first + piece <= n_rows; first += n_rows > 40 ? 64 : piece) {
        float *part = run(d, m, 0, first, piece);
        if (memcmp(part, whole + (size_t)first * dim, (size_t)piece * dim * 4))
            fail_msg("%s: rows %d to %d of %d differ in a step of their own", name_of(m), first, first + piece, n_rows);
        mem_free(part);
    }
}

static void check(const bench *d, const kind *is, const int *rows, size_t n) {
    mixture *m = make_mixture(d, is);
    float *right = run(d, m, 1, 0, rows[n - 1]);
    for (size_t i = 0; i < n; i++) {
        float *got = run(d, m, 0, 0, rows[i]);
        check_values(m, got, right, rows[i]);
        if (rows[i] > 1) check_pieces(d, m, got, rows[i], rows[i] <= CUDA_ALIKE_ROWS ? 1 : CUDA_ALIKE_ROWS + 1);
        mem_free(got);
    }
    mem_free(right);
    drop_mixture(d, m);
}

static kind of_format(const sample_format *f, int dim, int ffn) {
    return (kind){.formats = {{f, f}, {f, f}, {f, f}}, .dim = dim, .ffn = ffn, .act = ACT_SILU};
}

static const sample_format *find(quant_id id) {
    for (size_t i = 0; i < SAMPLE_PACKED; i++)
        if (sample_packed(i)->id == id) return sample_packed(i);
    fail_msg("no such format");
    return NULL;
}

/* ---- tests ---- */

static void every_format(const bench *d) {
    static const int rows[] = {2, 9};
    for (size_t i = 0; i < SAMPLE_PACKED; i++) {
        const kind is = of_format(sample_packed(i), 512, 256);
        check(d, &is, rows, HARNESS_COUNT(rows));
    }
}

/* Sizes that end within a unit and within a block's tiles. */
static void odd_sizes(const bench *d) {
    static const int rows[] = {1, 4, 5, 33};
    static const struct { int dim, ffn; } sizes[] = {{32, 96}, {416, 288}, {800, 32}};
    for (size_t i = 0; i < HARNESS_COUNT(sizes); i++) {
        const kind whole = of_format(find(QUANT_Q4_0), sizes[i].dim, sizes[i].ffn),
                   floats = of_format(find(QUANT_FP8_E4M3), sizes[i].dim, sizes[i].ffn);
        check(d, &whole, rows, HARNESS_COUNT(rows));
        check(d, &floats, rows, HARNESS_COUNT(rows));
    }
}

static void many_rows(const bench *d) {
    static const int rows[] = {2, MOST_ROWS};
    const kind mixed = of_format(find(QUANT_EXL2), 256, 256), same = of_format(find(QUANT_Q4_K), 256, 256);
    check(d, &mixed, rows, HARNESS_COUNT(rows));
    check(d, &same, rows, HARNESS_COUNT(rows));
}

/* Gate and up of two kinds; experts by turns; some of 16 bits. */
static void different_ways(const bench *d) {
    static const int rows[] = {3, 9};
    const sample_format *four = find(QUANT_Q4_0), *six = find(QUANT_Q6_K), *exl2 = find(QUANT_EXL2),
                        *eight = find(QUANT_FP8_E4M3), *plain = &plain_format;
    const kind kinds[] = {{{{four, four}, {six, six}, {four, four}}, .dim = 256, .ffn = 512},
                          {{{four, six}, {four, six}, {six, four}}, .dim = 512, .ffn = 256},
                          {{{exl2, four}, {four, exl2}, {eight, exl2}}, .dim = 512, .ffn = 512},
                          {{{plain, four}, {plain, six}, {six, plain}}, .dim = 256, .ffn = 256},
                          {{{plain, plain}, {six, six}, {plain, plain}}, .dim = 256, .ffn = 256}};
    for (size_t i = 0; i < HARNESS_COUNT(kinds); i++) check(d, &kinds[i], rows, HARNESS_COUNT(rows));
}

static void ways_of_gates(const bench *d) {
    static const int rows[] = {1, 6};
    for (int i = 0; i < 4; i++)
        for (int f = 0; f < 2; f++) {
            kind is = of_format(find(f ? QUANT_EXL2 : QUANT_Q4_1), 256, 512);
            is.weigh_input = i == 1;
            is.has_bias = i != 1;
            is.is_clamped = i == 2;
            is.act = i == 3 ? ACT_GELU_TANH : ACT_SILU;
            check(d, &is, rows, HARNESS_COUNT(rows));
        }
}

/* ---- on each device ---- */

static const reserved most = {MOST_ROWS, TOP *MOST_DIM};

/* The GPU, and an emulated one of that kind; both `fast`. */
static void on_kind(void (*test)(const bench *d), const char *emulated_kind) {
    char emulated[4096];
    const bool has_emulated = cuda_emulated_path(emulated, sizeof emulated), has_gpu = cuda_has_gpu();
    if (!has_emulated && !has_gpu) HARNESS_SKIP("neither a GPU nor a C++ compiler for the emulated one");
    for (int i = 0; i < 2; i++) {
        if (i ? !has_gpu : !has_emulated) continue;
        cuda_emulate(i ? NULL : emulated_kind);
        const bench d = open_bench(i ? NULL : emulated, false, most, most);
        test(&d);
        close_bench(&d);
    }
    cuda_emulate(NULL);
}

/* Inputs so wide that float16 of all pairs has no room: the kernels of few rows take shares of four. */
static void test_rows_without_room(void **state) {
    enum { ROWS = 9, WIDE = 4608 };
    char emulated[4096];
    if (!cuda_emulated_path(emulated, sizeof emulated)) HARNESS_SKIP("no C++ compiler for the emulated GPU");
    cuda_emulate("9 4 1");
    const bench d = open_bench(emulated, false, (reserved){ROWS, 32}, most);
    const kind is = of_format(find(QUANT_Q4_0), WIDE, 32);
    mixture *m = make_mixture(&d, &is);
    float *got = run(&d, m, 0, 0, ROWS), *right = run(&d, m, 1, 0, ROWS), *first = run(&d, m, 0, 0, 1);
    check_values(m, got, right, ROWS);
    assert_memory_equal(got, first, WIDE * sizeof *got); /* as in a step of few rows */
    mem_free(got);
    mem_free(right);
    mem_free(first);
    drop_mixture(&d, m);
    close_bench(&d);
    cuda_emulate(NULL);
}

#define TEST(name, emulated)                                                                                           \
    static void test_##name(void **state) { on_kind(name, emulated); }
TEST(every_format, "9 4 1")
TEST(odd_sizes, "8 5 2")
TEST(many_rows, "9 4 0")
TEST(different_ways, "9 4 3")
TEST(ways_of_gates, "8 2 1")

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_format),  cmocka_unit_test(test_odd_sizes),
                                       cmocka_unit_test(test_many_rows),     cmocka_unit_test(test_different_ways),
                                       cmocka_unit_test(test_ways_of_gates), cmocka_unit_test(test_rows_without_room)};
    return cmocka_run_group_tests(tests, sample_read_goldens, sample_drop_goldens);
}
