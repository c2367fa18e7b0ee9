/* cpu_coded_test.c — products with floats by code, on every level of this machine: bit for bit those of the same level
 * with the floats themselves, whatever the sizes, the cut, the codes and the scales. Kernels for `fast` that round
 * activations are near them instead, with the same bits for every cut.
 *
 * Weights end where their memory ends and begin at odd addresses, so that the sanitizers see a kernel that reads too
 * far or needs alignment. */
#include "coded.h"
#include "levels.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>

enum { ALL = 1 << 20, MOST_ROWS = 130, MOST_IN = 1156, MOST_OUT = 150, N_VALUES = 256 };

/* Of which weights; row_group of NF4: blocks whose magnitudes are nested, 0: none are. */
typedef struct kind {
    quant_id id, scale_type;
    int row_group, group;
} kind;

static const kind kinds[] = {
    {QUANT_FP8_E4M3, QUANT_F32, ALL, ALL},  {QUANT_FP8_E4M3, QUANT_F32, 1, ALL},
    {QUANT_FP8_E4M3, QUANT_F32, 128, 128},  {QUANT_FP8_E4M3, QUANT_BF16, 1, ALL},
    {QUANT_FP8_E4M3, QUANT_BF16, 128, 128}, {QUANT_FP8_E4M3, QUANT_F16, 16, 64},
    {QUANT_FP8_E5M2, QUANT_F32, ALL, ALL},  {QUANT_FP8_E5M2, QUANT_BF16, 1, ALL},
    {QUANT_FP8_E5M2, QUANT_F32, 128, 128},  {QUANT_NF4, QUANT_F32, 0, 64},
    {QUANT_NF4, QUANT_F32, 256, 64},        {QUANT_NF4, QUANT_F32, 3, 128},
};

static const struct shape {
    int n_out, n_in, n_rows;
} shapes[] = {{1, 4, 1},      {5, 12, 3},    {3, 16, 5},     {17, 60, 2},    {9, 64, 17},
              {33, 68, 4},    {19, 124, 6},  {35, 128, 5},   {130, 132, 1},  {7, 192, 33},
              {131, 256, 3},  {27, 516, 17}, {5, 1024, 9},   {53, 1152, 1},  {140, 1152, 5},
              {150, 1156, 1}, {150, 640, 2}, {131, 384, 70}, {29, 140, 101}, {53, 256, 130}};

typedef struct world {
    quant_matrix m;
    uint8_t *memory[QUANT_PARTS];
    float x[MOST_ROWS * MOST_IN], bias[MOST_OUT];
    float got[MOST_ROWS * MOST_OUT], wanted[MOST_ROWS * MOST_OUT];
    float floats[MOST_OUT * MOST_IN];
    int n_rows;
} world;

static uint32_t random_bits(uint64_t i) {
    uint32_t out[4];
    rng_philox(5, 3, i, out);
    return out[0];
}

static float random_float(uint64_t i) { return (float)random_bits(i) * 0x1p-31f - 1; }

static uint8_t *take(world *w, int part, size_t bytes) {
    w->memory[part] = mem_array(bytes + 1, 1);
    w->m.parts[part] = w->memory[part] + 1;
    w->m.part_bytes[part] = bytes;
    return w->memory[part] + 1;
}

/* Scales as files have them: some negative, of any exponent that leaves the products finite. */
static void put_scale(uint8_t *to, quant_id type, size_t i, float scale) {
    const uint16_t half = type == QUANT_F16 ? quant_f32_to_f16(scale) : quant_f32_to_bf16(scale);
    if (type == QUANT_F32)
        memcpy(to + 4 * i, &scale, 4);
    else
        memcpy(to + 2 * i, &half, 2);
}

static void fill_scales(world *w, int part, size_t n, quant_id type) {
    uint8_t *to = take(w, part, n * (type == QUANT_F32 ? 4 : 2));
    for (size_t i = 0; i < n; i++)
        put_scale(to, type, i, ldexpf(random_float(i + 999), (int)(random_bits(i) % 12) - 9));
}

static size_t pieces(int64_t n, int64_t of) { return (size_t)((n + of - 1) / of); }

static void fill_fp8(world *w) {
    quant_matrix *m = &w->m;
    if (m->row_group == ALL) m->row_group = (int)m->n_out;
    if (m->group == ALL) m->group = (int)m->n_in;
    uint8_t *codes = take(w, 0, (size_t)(m->n_out * m->n_in));
    for (size_t i = 0; i < m->part_bytes[0]; i++) {
        codes[i] = (uint8_t)random_bits(i);
        const int size = codes[i] & 0x7F;
        if (m->type->id == QUANT_FP8_E4M3 ? size == 0x7F : size >= 0x7C) codes[i] ^= 0x40;
    }
    fill_scales(w, 1, pieces(m->n_out, m->row_group) * pieces(m->n_in, m->group), m->scale_type);
}

static void fill_nf4(world *w) {
    quant_matrix *m = &w->m;
    const size_t n = (size_t)(m->n_out * m->n_in), blocks = pieces((int64_t)n, m->group);
    uint8_t *codes = take(w, 0, (n + 1) / 2);
    for (size_t i = 0; i < m->part_bytes[0]; i++) codes[i] = (uint8_t)random_bits(i);
    m->offset = 0.02f;
    if (m->row_group) {
        uint8_t *most = take(w, 1, blocks);
        for (size_t i = 0; i < blocks; i++) most[i] = (uint8_t)random_bits(i + 77);
        fill_scales(w, 3, pieces((int64_t)blocks, m->row_group), QUANT_F32);
        fill_scales(w, 4, N_VALUES, QUANT_F32);
    } else {
        fill_scales(w, 1, blocks, QUANT_F32);
    }
    fill_scales(w, 2, 16, QUANT_F32);
}

static void unpack(world *w) {
    for (int64_t row = 0; row < w->m.n_out; row++) w->m.type->unpack_row(w->floats + row * w->m.n_in, &w->m, row);
}

static void build(world *w, const kind *k, const struct shape *s) {
    qp_error err = {0};
    *w = (world){.n_rows = s->n_rows};
    w->m = (quant_matrix){.type = quant_type_of(k->id),
                          .n_out = s->n_out,
                          .n_in = s->n_in,
                          .group = k->group,
                          .row_group = k->row_group,
                          .scale_type = k->scale_type};
    if (k->id == QUANT_NF4)
        fill_nf4(w);
    else
        fill_fp8(w);
    if (quant_open(&w->m, "w", &err)) fail_msg("%s: %s", w->m.type->name, err.text);
    for (int i = 0; i < s->n_rows * s->n_in; i++) w->x[i] = random_float((uint64_t)i + 5000);
    for (int i = 0; i < s->n_out; i++) w->bias[i] = random_float((uint64_t)i + 70000);
    unpack(w);
}

static void drop(world *w) {
    quant_close(&w->m);
    for (int i = 0; i < QUANT_PARTS; i++) mem_free(w->memory[i]);
}

static void multiply_as(device *d, world *w, const dev_weight *weight, float *out, int row, int n_rows, bool is_exact) {
    const matmul_args a = {
        .x = w->x + row * weight->n_in,
        .x_stride = weight->n_in,
        .n_rows = n_rows,
        .n_parts = 1,
        .is_exact = is_exact,
        .parts = {{.w = weight, .bias = w->bias, .out = out + row * weight->n_out, .out_stride = weight->n_out}}};
    d->ops->matmul(d, &a);
}

static void multiply(device *d, world *w, const dev_weight *weight, float *out, int row, int n_rows) {
    multiply_as(d, w, weight, out, row, n_rows, false);
}

/* Whether activations are rounded. */
static bool rounds(const device *d, const dev_weight *weight) {
    const cpu_coded *coded = weight->owned;
    return !d->exact && coded && cpu_of((device *)d)->matmul.coded_fast[coded->codes];
}

/* Activations are rounded to BF16, by up to 2^-8 of each. What is no finite number on one side is none on the other. */
static void check_near(const device *d, const world *w) {
    const int n_out = (int)w->m.n_out, n_in = (int)w->m.n_in;
    for (int i = 0; i < w->n_rows * n_out; i++) {
        double sizes = 0;
        for (int k = 0; k < n_in; k++)
            sizes += fabs((double)w->floats[i % n_out * n_in + k] * (double)w->x[i / n_out * n_in + k]);
        if (fabs((double)w->got[i] - (double)w->wanted[i]) <= 0x1.1p-8 * sizes + 0x1p-20) continue;
        if (!isfinite(w->got[i]) && !isfinite(w->wanted[i])) continue;
        fail_msg("%s of groups %d x %d, %s, %d x %d, %d rows: value %d is %.9g, not %.9g", w->m.type->name,
                 w->m.row_group, w->m.group, d->level, n_out, n_in, w->n_rows, i, (double)w->got[i],
                 (double)w->wanted[i]);
    }
}

static void check_same(const device *d, const world *w, const char *how) {
    for (int i = 0; i < w->n_rows * (int)w->m.n_out; i++)
        if (memcmp(&w->got[i], &w->wanted[i], sizeof(float)) && !(isnan(w->got[i]) && isnan(w->wanted[i])))
            fail_msg("%s of groups %d x %d, %s, %lld x %lld, %d rows %s: value %d is %.9g, not %.9g", w->m.type->name,
                     w->m.row_group, w->m.group, d->level, (long long)w->m.n_out, (long long)w->m.n_in, w->n_rows, how,
                     i, (double)w->got[i], (double)w->wanted[i]);
}

/* All rows at once, and in pieces, as the floats make them; answers whether there was a kernel. */
static bool check_products(device *d, world *w) {
    dev_weight weight;
    qp_error err;
    const quant_type *plain = quant_type_of(QUANT_F32);
    const dev_weight floats = {.type = plain, .n_out = w->m.n_out, .n_in = w->m.n_in, .data = w->floats};
    assert_int_equal(d->ops->weight_open(d, &weight, &w->m, &err), QP_OK);
    assert_int_equal(d->ops->weight_pack(d, &weight, &err), QP_OK);
    assert_null(weight.packed);
    const bool has_kernel = weight.owned != NULL;
    multiply(d, w, &floats, w->wanted, 0, w->n_rows);
    multiply(d, w, &weight, w->got, 0, w->n_rows);
    if (rounds(d, &weight)) {
        check_near(d, w);
        memcpy(w->wanted, w->got, sizeof w->got);
    }
    check_same(d, w, "at once");
    for (int piece = 1; piece <= 5; piece += 2) {
        memset(w->got, 0xA5, sizeof w->got);
        for (int row = 0; row < w->n_rows; row += piece)
            multiply(d, w, &weight, w->got, row, w->n_rows - row < piece ? w->n_rows - row : piece);
        check_same(d, w, "in pieces");
    }
    d->ops->weight_close(d, &weight);
    assert_null(weight.owned);
    return has_kernel;
}

static bool fits(const kind *k, const struct shape *s) {
    return k->id != QUANT_NF4 || (s->n_in % k->group == 0 && s->n_in % CODED_STEP == 0);
}

static bool has_kernels(device *d) { return cpu_of(d)->matmul.coded[QUANT_CODES_E4M3] != NULL; }

static void products_are_those_of_floats(void **state) {
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++)
        for (int threads = 1; threads <= 3; threads++) {
            device *d = level_open(level_name(i), threads, threads == 2, MOST_ROWS, MOST_IN);
            assert_int_equal(has_kernels(d), strcmp(d->level, "ref") != 0);
            for (size_t k = 0; k < HARNESS_COUNT(kinds); k++)
                for (size_t s = (size_t)threads - 1; s < HARNESS_COUNT(shapes); s += HARNESS_STEP(3)) {
                    build(w, &kinds[k], &shapes[s]);
                    assert_int_equal(check_products(d, w), has_kernels(d) && fits(&kinds[k], &shapes[s]));
                    drop(w);
                }
            dev_close(d);
        }
    mem_free(w);
}

/* An op that asks for exact products gets those of floats. */
static void exact_ops_stay_exact(void **state) {
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++) {
        device *d = level_open(level_name(i), 2, false, MOST_ROWS, MOST_IN);
        for (size_t s = 0; s < HARNESS_COUNT(shapes); s++) {
            build(w, &kinds[2], &shapes[s]);
            const dev_weight floats = {
                .type = quant_type_of(QUANT_F32), .n_out = w->m.n_out, .n_in = w->m.n_in, .data = w->floats};
            dev_weight weight;
            assert_int_equal(d->ops->weight_open(d, &weight, &w->m, NULL), QP_OK);
            assert_int_equal(d->ops->weight_pack(d, &weight, NULL), QP_OK);
            multiply(d, w, &floats, w->wanted, 0, w->n_rows);
            multiply_as(d, w, &weight, w->got, 0, w->n_rows, true);
            check_same(d, w, "that are exact");
            d->ops->weight_close(d, &weight);
            drop(w);
        }
        dev_close(d);
    }
    mem_free(w);
}

/* Every code at every place of a vector, those that are no numbers too, of which e4m3's have no kernel. */
static void every_code_counts(void **state) {
    static const kind formats[] = {{QUANT_FP8_E4M3, QUANT_F32, ALL, ALL}, {QUANT_FP8_E5M2, QUANT_F32, ALL, ALL}};
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++) {
        device *d = level_open(level_name(i), 2, false, MOST_ROWS, MOST_IN);
        for (int f = 0; f < 2; f++)
            for (int nan = 0; nan < 2; nan++) {
                build(w, &formats[f], &(struct shape){128, 256, 6});
                for (size_t n = 0; n < w->m.part_bytes[0]; n++) {
                    uint8_t *code = w->memory[0] + 1 + n;
                    *code = (uint8_t)(n + n / 256);
                    if (!nan && f == 0) *code ^= (*code & 0x7F) == 0x7F;
                    if (!nan && f == 1 && (*code & 0x7F) >= 0x7C) *code ^= 0x40;
                }
                unpack(w);
                assert_int_equal(check_products(d, w), has_kernels(d) && !(nan && f == 0));
                drop(w);
            }
        dev_close(d);
    }
    mem_free(w);
}

/* One last code that is none, in a row of its own: it is seen and its row shows it. */
static void a_nan_is_found(void **state) {
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++) {
        device *d = level_open(level_name(i), 2, false, MOST_ROWS, MOST_IN);
        build(w, &kinds[2], &(struct shape){131, 132, 2});
        w->memory[0][w->m.part_bytes[0]] = 0xFF;
        unpack(w);
        assert_false(check_products(d, w));
        for (int c = 0; c < 131; c++) assert_int_equal(isnan(w->got[c]), c == 130);
        drop(w);
        dev_close(d);
    }
    mem_free(w);
}

/* Scales of any size; those that are too large to be told 2^8 times as large have no kernel. */
static void scales_of_any_size(void **state) {
    static const struct {
        float scale;
        bool e4m3, e5m2;
    } cases[] = {{0x1.8p-149f, true, true},
                 {0x1.234568p-130f, true, true},
                 {0x1.fffffep119f, true, true},
                 {0x1p120f, false, true},
                 {-0x1p127f, false, true},
                 {INFINITY, true, true},
                 {NAN, true, true},
                 {0, true, true}};
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++) {
        device *d = level_open(level_name(i), 1, false, MOST_ROWS, MOST_IN);
        for (size_t c = 0; c < HARNESS_COUNT(cases); c++)
            for (int f = 0; f < 2; f++) {
                build(w, &(kind){f ? QUANT_FP8_E5M2 : QUANT_FP8_E4M3, QUANT_F32, 16, 128}, &(struct shape){35, 384, 7});
                put_scale(w->memory[1] + 1, QUANT_F32, 4, cases[c].scale);
                unpack(w);
                assert_int_equal(check_products(d, w), has_kernels(d) && (f ? cases[c].e5m2 : cases[c].e4m3));
                drop(w);
            }
        dev_close(d);
    }
    mem_free(w);
}

/* Grids that no shift finds, groups below a step, rows that begin inside a block: right, without a kernel. */
static void other_grids_are_unpacked(void **state) {
    static const struct {
        kind k;
        struct shape s;
    } cases[] = {{{QUANT_FP8_E4M3, QUANT_F32, 1, 96}, {5, 192, 5}}, {{QUANT_FP8_E4M3, QUANT_F32, 1, 32}, {5, 192, 2}},
                 {{QUANT_FP8_E5M2, QUANT_F32, 3, 64}, {7, 192, 5}}, {{QUANT_NF4, QUANT_F32, 0, 64}, {6, 96, 5}},
                 {{QUANT_NF4, QUANT_F32, 0, 32}, {6, 32, 5}},       {{QUANT_NF4, QUANT_F32, 0, 32}, {6, 128, 1}},
                 {{QUANT_NF4, QUANT_F32, 256, 4096}, {6, 64, 3}}};
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++) {
        device *d = level_open(level_name(i), 2, false, MOST_ROWS, MOST_IN);
        for (size_t c = 0; c < HARNESS_COUNT(cases); c++) {
            build(w, &cases[c].k, &cases[c].s);
            assert_false(check_products(d, w));
            drop(w);
        }
        dev_close(d);
    }
    mem_free(w);
}

/* Parts of different kinds in one op. */
static void kinds_mix(void **state) {
    static const int mixed[] = {2, 8, 10};
    enum { N = 3 };
    world *w[N];
    dev_weight weights[N];
    device *d = level_open(NULL, 3, false, MOST_ROWS, MOST_IN);
    matmul_args a = {.n_rows = 5, .n_parts = N, .x_stride = 256};
    for (int i = 0; i < N; i++) {
        w[i] = MEM_NEW(world);
        build(w[i], &kinds[mixed[i]], &(struct shape){131, 256, 5});
        check_products(d, w[i]);
        assert_int_equal(d->ops->weight_open(d, &weights[i], &w[i]->m, NULL), QP_OK);
        assert_int_equal(d->ops->weight_pack(d, &weights[i], NULL), QP_OK);
        memset(w[i]->got, 0, sizeof w[i]->got);
        a.parts[i] = (matmul_part){.w = &weights[i], .bias = w[i]->bias, .out = w[i]->got, .out_stride = 131};
    }
    a.x = w[0]->x;
    d->ops->matmul(d, &a);
    for (int i = 0; i < N; i++) {
        check_same(d, w[i], "among others");
        d->ops->weight_close(d, &weights[i]);
        drop(w[i]);
        mem_free(w[i]);
    }
    dev_close(d);
}

static void tables_and_short_memory(void **state) {
    world *w = MEM_NEW(world);
    dev_weight weight;
    device *d = level_open(NULL, 1, false, MOST_ROWS, MOST_IN);
    build(w, &kinds[0], &shapes[3]);
    assert_int_equal(d->ops->weight_open(d, &weight, &w->m, NULL), QP_OK);
    weight.use = DEV_USE_LOOKUP;
    assert_int_equal(d->ops->weight_pack(d, &weight, NULL), QP_OK);
    assert_null(weight.owned);
    weight.use = DEV_USE_TABLE;
    mem_fail_after(0);
    assert_int_equal(d->ops->weight_pack(d, &weight, NULL), has_kernels(d) ? QP_NO_MEMORY : QP_OK);
    mem_fail_after(-1);
    assert_null(weight.owned);
    d->ops->weight_close(d, &weight);
    drop(w);
    dev_close(d);
    mem_free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_floats),
        cmocka_unit_test(exact_ops_stay_exact),
        cmocka_unit_test(every_code_counts),
        cmocka_unit_test(a_nan_is_found),
        cmocka_unit_test(scales_of_any_size),
        cmocka_unit_test(other_grids_are_unpacked),
        cmocka_unit_test(kinds_mix),
        cmocka_unit_test(tables_and_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
