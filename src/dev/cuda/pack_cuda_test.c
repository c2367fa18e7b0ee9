/* pack_cuda_test.c — every quantised format re-laid for the GPU and read back as kernels/digits.cuh and floats.cuh do,
 * against the slow exact unpack. */
#include "pack_cuda.h"
#include "quant/scaled.h"
#include "quant_samples.h"
#include <math.h>

/* ---- reading back ---- */

/* A register is the OR of pieces of words: moved right by `shift`, then masked byte by byte. */
typedef struct piece {
    int word, shift;
    uint8_t mask;
} piece;

typedef struct width {
    int bits, factors[2]; /* of the halves' codes */
    piece of[2][4][3];
} width;

static const width widths[] = {
    {2,
     {1, 4},
     {{{{0, 0, 3}}, {{1, 0, 3}}, {{0, 4, 3}}, {{1, 4, 3}}}, {{{0, 0, 12}}, {{1, 0, 12}}, {{0, 4, 12}}, {{1, 4, 12}}}}},
    {3,
     {4, 32},
     {{{{0, 0, 28}}, {{1, 0, 28}}, {{2, 0, 28}}, {{0, -2, 12}, {2, -4, 16}}},
      {{{0, 0, 224}}, {{1, 0, 224}}, {{2, 0, 224}}, {{1, -5, 96}, {2, -6, 128}}}}},
    {4,
     {1, 16},
     {{{{0, 0, 15}}, {{1, 0, 15}}, {{2, 0, 15}}, {{3, 0, 15}}},
      {{{0, 0, 240}}, {{1, 0, 240}}, {{2, 0, 240}}, {{3, 0, 240}}}}},
    {5,
     {1, 8},
     {{{{0, 0, 31}}, {{1, 0, 31}}, {{2, 0, 31}}, {{3, 0, 31}}},
      {{{0, 0, 224}, {3, 2, 24}}, {{1, 0, 224}, {3, 3, 16}, {4, -3, 8}}, {{2, 0, 224}, {4, -2, 24}}, {{4, 0, 248}}}}},
    {6,
     {1, 4},
     {{{{0, 0, 63}}, {{1, 0, 63}}, {{2, 0, 63}}, {{3, 0, 63}}},
      {{{0, 0, 192}, {1, 2, 48}, {4, -2, 12}}, {{2, 0, 192}, {3, 2, 48}, {5, -2, 12}}, {{4, 0, 252}}, {{5, 0, 252}}}}},
    {8,
     {1, 1},
     {{{{0, 0, 255}}, {{1, 0, 255}}, {{2, 0, 255}}, {{3, 0, 255}}},
      {{{4, 0, 255}}, {{5, 0, 255}}, {{6, 0, 255}}, {{7, 0, 255}}}}},
};

static const width *width_of(int bits) {
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (widths[i].bits == bits) return &widths[i];
    fail_msg("no kernel for %d bits", bits);
    return NULL;
}

static int code_at(const uint8_t *unit, int bits, int row, int k) {
    const width *w = width_of(bits);
    const int b = k / 64, half = k % 64 / 32, lane = row % 8 * 4 + k % 16 / 4;
    const piece *pieces = w->of[half][row / 8 + k % 32 / 16 * 2];
    uint32_t value = 0;
    for (int i = 0; i < 3; i++) {
        const int at = b * bits + pieces[i].word;
        uint32_t word;
        memcpy(&word, unit + at / 4 * 512 + lane * 16 + at % 4 * 4, 4);
        word = pieces[i].shift < 0 ? word << -pieces[i].shift : word >> pieces[i].shift;
        value |= word & 0x01010101u * pieces[i].mask;
    }
    return (int)(value >> 8 * (k % 4) & 255) / w->factors[half];
}

/* A float of 8 bits: its sign at the top of half a word or below, the rest at bit 7 or 0. */
static double float_at(const uint8_t *unit, int row, int k) {
    const int word = k / 64 * 8 + k % 64 / 16 * 2 + row / 8, lane = row % 8 * 4 + k % 16 / 4, odd = k % 2;
    uint16_t half;
    memcpy(&half, unit + word / 4 * 512 + lane * 16 + word % 4 * 4 + k % 4 / 2 * 2, 2);
    const int sign = half >> (odd ? 14 : 15) & 1, rest = half >> (odd ? 0 : 7) & 0x7F;
    return (double)scaled_e4m3((uint8_t)(sign << 7 | rest));
}

static double half_at(const uint8_t *p) {
    uint16_t half;
    memcpy(&half, p, 2);
    return (double)quant_f16_to_f32(half);
}

static double weight_at(const cuda_run *r, const uint8_t *unit, int row, int k) {
    const uint8_t *scales = unit + r->bits * 512;
    const int n = PACKED_UNIT / r->group, j = k / r->group, pair = 2 * (row % 8) + row / 8;
    const bool has_own = r->scales <= PACKED_MIN; /* each group: a float16 */
    const bool is_float = r->scales == PACKED_E4M3;
    const double code = is_float ? float_at(unit, row, k) : code_at(unit, r->bits, row, k),
                 d = has_own ? half_at(scales + 32 * j + 2 * pair) : 0;
    const double super = half_at(scales + 2 * pair);
    switch (r->scales) {
    case PACKED_PLAIN:
    case PACKED_E4M3:
        return d * (code - r->is.zero);
    case PACKED_ZERO:
        return d * (code - scales[32 * n + 16 * j + pair]);
    case PACKED_MIN:
        return d * code - half_at(scales + 32 * n + 32 * j + 2 * pair);
    case PACKED_SUPER:
        return super * (int8_t)scales[32 + 16 * j + pair] * (code - r->is.zero);
    default:
        return super * (int8_t)scales[64 + 16 * j + pair] * code -
               half_at(scales + 32 + 2 * pair) * scales[64 + 16 * n + 16 * j + pair];
    }
}

/* ---- the tests ---- */

static const struct size { int n_out, n_in; } sizes[] = {{16, 256}, {33, 1024}, {50, 768}, {35, 416}};
enum { WHOLE_SIZES = 3 }; /* of whole units; the last is for floats alone */

static const cuda_run *run_of_unit(const cuda_plan *p, int u) {
    int i = 0;
    while (u >= p->runs[i].first_unit + p->runs[i].n_units) i++;
    return &p->runs[i];
}

/* Each input of the matrix must come up once, with the weight it has. */
static void check_row(const cuda_plan *p, const quant_matrix *m, const uint8_t *tiles, int64_t row) {
    assert_int_equal(p->has_places, p->order != NULL);
    float *expected = mem_array((size_t)m->n_in, sizeof *expected);
    bool *seen = mem_zarray((size_t)m->n_in, sizeof *seen);
    assert_true(expected && seen);
    m->type->unpack_row(expected, m, row);
    for (int k = 0; k < p->n_units * PACKED_UNIT; k++) {
        const cuda_run *r = run_of_unit(p, k / PACKED_UNIT);
        const uint8_t *unit = tiles + (size_t)(row / PACKED_ROWS) * p->tile_bytes + r->offset +
                              (size_t)(k / PACKED_UNIT - r->first_unit) * (size_t)r->unit_bytes;
        const double value = weight_at(r, unit, (int)(row % PACKED_ROWS), k % PACKED_UNIT) * (double)r->is.unit;
        const int64_t input = p->order ? p->order[k] : k < m->n_in ? k : -1;
        if (input < 0) {
            if (value != 0) fail_msg("%s: padding %d of row %lld is %g", m->type->name, k, (long long)row, value);
            continue;
        }
        assert_false(seen[input]);
        seen[input] = true;
        if (p->order) assert_int_equal(p->order[p->n_units * PACKED_UNIT + input], k); /* its place */
        if (!(fabs(value - (double)expected[input]) <= fabs(value) * 0x1p-10 + 1e-7))  /* some round to float16 */
            fail_msg("%s %d bits: row %lld input %lld is %.9g, not %.9g", m->type->name, m->bits, (long long)row,
                     (long long)input, value, (double)expected[input]);
    }
    for (int64_t k = 0; k < m->n_in; k++) assert_true(seen[k]);
    mem_free(seen);
    mem_free(expected);
}

/* No weight is greater than what scales promise, and the promise is of use. */
static void check_bound(const cuda_plan *p, const quant_matrix *m, cuda_extremes most) {
    const float bound = pack_cuda_bound(p, most);
    float greatest = 0, *row = mem_array((size_t)m->n_in, sizeof *row);
    assert_non_null(row);
    for (int64_t r = 0; r < m->n_out; r++) {
        m->type->unpack_row(row, m, r);
        for (int64_t k = 0; k < m->n_in; k++) greatest = fabsf(row[k]) > greatest ? fabsf(row[k]) : greatest;
    }
    mem_free(row);
    if (!(greatest <= bound * (1 + 0x1p-10f) && bound <= greatest * 0x1p20f))
        fail_msg("%s %d bits: weights of %.9g, the bound is %.9g", m->type->name, m->bits, (double)greatest,
                 (double)bound);
}

static void every_format_reads_back(void **state) {
    for (size_t f = 0; f < SAMPLE_PACKED; f++)
        for (size_t i = 0; i < (f < SAMPLE_WHOLE ? WHOLE_SIZES : HARNESS_COUNT(sizes)); i++) {
            sample s;
            cuda_plan p;
            bool possible;
            sample_open(&s, sample_packed(f)->id, sample_packed(f)->variant, sizes[i].n_out, sizes[i].n_in);
            assert_int_equal(pack_cuda_plan(&p, &possible, &s.m, NULL), QP_OK);
            if (!possible) fail_msg("%s has no plan", s.m.type->name);
            assert_int_equal(p.n_units, (sizes[i].n_in + PACKED_UNIT - 1) / PACKED_UNIT); /* whatever its widths */
            uint8_t *tiles = mem_array((size_t)p.n_tiles, p.tile_bytes);
            assert_non_null(tiles);
            cuda_extremes most = pack_cuda_tiles(tiles, &p, &s.m, 0, 1); /* in pieces, as a loader does */
            const cuda_extremes rest = pack_cuda_tiles(tiles + p.tile_bytes, &p, &s.m, 1, p.n_tiles - 1);
            most.d = rest.d > most.d ? rest.d : most.d;
            most.dmin = rest.dmin > most.dmin ? rest.dmin : most.dmin;
            check_bound(&p, &s.m, most);
            for (int64_t row = 0; row < s.m.n_out; row++) check_row(&p, &s.m, tiles, row);
            mem_free(tiles);
            pack_cuda_free(&p);
            sample_close(&s);
        }
}

/* Its row's results are none either, and no other's. */
static void a_nan_becomes_its_groups_scale(void **state) {
    sample s;
    cuda_plan p;
    bool possible;
    sample_open(&s, QUANT_FP8_E4M3, SAMPLE_TENSOR, 16, 512);
    s.memory[0][1 + 3 * 512 + 200] = 0xFF; /* row 3, the second group's */
    assert_int_equal(pack_cuda_plan(&p, &possible, &s.m, NULL), QP_OK);
    assert_true(possible);
    uint8_t *tiles = mem_array(1, p.tile_bytes);
    assert_non_null(tiles);
    const cuda_extremes most = pack_cuda_tiles(tiles, &p, &s.m, 0, 1);
    assert_true(pack_cuda_bound(&p, most) == INFINITY);
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 512; k++) {
            const double value = weight_at(&p.runs[0], tiles + k / 256 * p.runs[0].unit_bytes, row, k % 256);
            assert_int_equal(isnan(value), row == 3 && k / 128 == 1);
        }
    mem_free(tiles);
    pack_cuda_free(&p);
    sample_close(&s);
}

/* Powers of two are float16 as far as these go. */
static void powers_of_two_are_kept(void **state) {
    enum { ROWS = 256 };
    sample s;
    cuda_plan p;
    bool possible;
    float row[32];
    sample_open(&s, QUANT_MXFP4_ROWS, 0, ROWS, 32);
    for (int e = 0; e < ROWS; e++) s.memory[1][1 + e] = (uint8_t)e;
    assert_int_equal(pack_cuda_plan(&p, &possible, &s.m, NULL), QP_OK);
    assert_true(possible);
    assert_int_equal(p.runs[0].bits, 5);
    for (int e = 0; e < ROWS; e++) {
        uint8_t tile[2 << 13];
        assert_true(p.tile_bytes <= sizeof tile);
        const cuda_extremes most = pack_cuda_tiles(tile, &p, &s.m, e / 16, 1);
        assert_int_equal(isfinite(pack_cuda_bound(&p, most)) != 0, e / 16 * 16 + 15 <= 140);
        s.m.type->unpack_row(row, &s.m, e);
        for (int k = 0; k < 32 && e <= 140; k++) {
            const double right = e < 104 ? 0 : (double)row[k];
            assert_true(!isgreater(fabs(weight_at(&p.runs[0], tile, e % 16, k) - right), 0));
        }
    }
    pack_cuda_free(&p);
    sample_close(&s);
}

static void (*tile_of_q4_0)(quant_tile *, const quant_matrix *, const quant_run *, int64_t, int64_t);

static void tile_with_rubbish(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    tile_of_q4_0(out, m, r, row, k);
    memset(out->dmin, 0x7C, sizeof out->dmin);
    memset(out->min, 0xFF, sizeof out->min);
}

static void what_a_format_lacks_is_not_read(void **state) {
    sample s;
    cuda_plan p;
    bool possible;
    sample_open(&s, QUANT_Q4_0, 0, 16, 256);
    quant_type type = *s.m.type;
    tile_of_q4_0 = type.tile;
    type.tile = tile_with_rubbish;
    s.m.type = &type;
    assert_int_equal(pack_cuda_plan(&p, &possible, &s.m, NULL), QP_OK);
    assert_true(possible);
    uint8_t *tiles = mem_array(1, p.tile_bytes);
    assert_non_null(tiles);
    check_bound(&p, &s.m, pack_cuda_tiles(tiles, &p, &s.m, 0, 1));
    for (int row = 0; row < 16; row++) check_row(&p, &s.m, tiles, row);
    mem_free(tiles);
    pack_cuda_free(&p);
    sample_close(&s);
}

static void what_is_no_small_numbers_has_no_plan(void **state) {
    static const quant_id ids[] = {QUANT_F32, QUANT_BF16, QUANT_FP8_E5M2};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const quant_matrix m = {.type = quant_type_of(ids[i]), .n_out = 16, .n_in = 256};
        cuda_plan p;
        bool possible = true;
        assert_int_equal(pack_cuda_plan(&p, &possible, &m, NULL), QP_OK);
        assert_false(possible);
    }
}

static void a_plan_needs_memory(void **state) {
    sample s;
    cuda_plan p;
    bool possible;
    qp_error err;
    sample_open(&s, QUANT_EXL2, 0, 16, 512);
    mem_fail_after(0);
    assert_int_equal(pack_cuda_plan(&p, &possible, &s.m, &err), QP_NO_MEMORY);
    mem_fail_after(-1);
    sample_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_reads_back),
        cmocka_unit_test(a_nan_becomes_its_groups_scale),
        cmocka_unit_test(powers_of_two_are_kept),
        cmocka_unit_test(what_a_format_lacks_is_not_read),
        cmocka_unit_test(what_is_no_small_numbers_has_no_plan),
        cmocka_unit_test(a_plan_needs_memory),
    };
    return cmocka_run_group_tests(tests, sample_read_goldens, sample_drop_goldens);
}
