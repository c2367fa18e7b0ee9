/* scaled_test.c — every code of FP8 against its definition, scales per tensor, channel and block, whole numbers of 4
 * and 8 bits, and refusals. */
#include "scaled.h"
#include "tile_check.h"

/* Sign, exponent, mantissa as the Open Compute specification of FP8 defines them. */
static double value_of(unsigned code, int exponent_bits, int bias) {
    const int mantissa_bits = 7 - exponent_bits;
    const int exponent = (int)(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double mantissa = (double)(code & ((1u << mantissa_bits) - 1)) / (1 << mantissa_bits);
    const double size = exponent ? ldexp(1 + mantissa, exponent - bias) : ldexp(mantissa, 1 - bias);
    return code & 0x80 ? -size : size;
}

static void every_code(void **state) {
    uint8_t codes[256];
    const float one = 1;
    float out[256];
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    for (int type = 0; type < 2; type++) {
        quant_matrix m = {.type = type ? &quant_fp8_e5m2 : &quant_fp8_e4m3,
                          .n_out = 1,
                          .n_in = 256,
                          .group = 256,
                          .row_group = 1,
                          .scale_type = QUANT_F32,
                          .parts = {codes, &one},
                          .part_bytes = {256, 4}};
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        m.type->unpack_row(out, &m, 0);
        for (unsigned i = 0; i < 256; i++) {
            const unsigned size = i & 0x7F;
            if (type ? size > 0x7C : size == 0x7F)
                assert_true(isnan(out[i]));
            else if (type && size == 0x7C)
                assert_true(isinf(out[i]));
            else
                assert_true((double)out[i] == (type ? value_of(i, 5, 15) : value_of(i, 4, 7)));
        }
    }
}

enum { N_OUT = 35, N_IN = 192 };

static uint8_t codes[N_OUT * N_IN];
static float scales[N_OUT * N_IN];

static quant_matrix make(const quant_type *type, int bits, int row_group, int group) {
    const size_t n_scales = (size_t)((N_OUT + row_group - 1) / row_group * ((N_IN + group - 1) / group));
    for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)(i * 37 % 251 & 0xF7);
    for (size_t i = 0; i < n_scales; i++) scales[i] = 0.001f * (float)(i + 1);
    return (quant_matrix){.type = type,
                          .n_out = N_OUT,
                          .n_in = N_IN,
                          .bits = bits,
                          .group = group,
                          .row_group = row_group,
                          .scale_type = QUANT_F32,
                          .parts = {codes, scales},
                          .part_bytes = {(size_t)(N_OUT * N_IN * bits / 8), n_scales * 4}};
}

static void grids_of_scales(void **state) {
    static const int grids[][2] = {{1, N_IN}, {N_OUT, N_IN}, {16, 128}, {1, 64}, {1, 32}};
    for (size_t i = 0; i < HARNESS_COUNT(grids); i++) {
        quant_matrix m = make(&quant_fp8_e4m3, 8, grids[i][0], grids[i][1]);
        float row[N_IN];
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        assert_int_equal(tile_check(&m), grids[i][1] >= 128); /* kernels know no smaller groups of floats */
        const int per_row = (N_IN + grids[i][1] - 1) / grids[i][1];
        for (int n = 0; n < N_OUT; n++) {
            m.type->unpack_row(row, &m, n);
            for (int k = 0; k < N_IN; k++)
                assert_true(row[k] == (float)value_of(codes[n * N_IN + k], 4, 7) *
                                          scales[n / grids[i][0] * per_row + k / grids[i][1]]);
        }
    }
}

static void whole_numbers(void **state) {
    float row[N_IN];
    quant_matrix eight = make(&quant_int, 8, 1, N_IN), four = make(&quant_int, 4, 1, 64);
    assert_int_equal(quant_open(&eight, "w", NULL), QP_OK);
    quant_int.unpack_row(row, &eight, 3);
    for (int k = 0; k < N_IN; k++) assert_true(row[k] == (float)(int8_t)codes[3 * N_IN + k] * scales[3]);
    assert_true(tile_check(&eight));
    assert_int_equal(quant_open(&four, "w", NULL), QP_OK);
    quant_int.unpack_row(row, &four, 2);
    for (int k = 0; k < N_IN; k++) {
        const int code = codes[(2 * N_IN + k) / 2] >> 4 * (k % 2) & 15;
        assert_true(row[k] == (float)(code - 8) * scales[2 * 3 + k / 64]);
    }
    assert_true(tile_check(&four));
    scales[5] = 1e-7f; /* below what a float16 holds precisely */
    assert_false(tile_check(&four));
}

/* Of any size that float16 has, times 2^-12, and what is smaller or none. */
static void scales_of_floats(void **state) {
    static const struct {
        float scale;
        bool is_told;
    } cases[] = {{15.9f, true}, {16, false}, {-3, true}, {1e-7f, true}, {1e-12f, true}, {0, true}, {NAN, false}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        quant_matrix m = make(&quant_fp8_e4m3, 8, 16, 128);
        scales[3] = cases[i].scale;
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        assert_int_equal(tile_check(&m), cases[i].is_told);
    }
}

/* No other group's, nor another row's. */
static void a_nan_is_its_groups_scale(void **state) {
    quant_matrix m = make(&quant_fp8_e4m3, 8, N_OUT, N_IN);
    quant_run r;
    quant_tile first, second;
    codes[5 * N_IN + 127] = 0x7F;
    assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
    assert_true(m.type->run(&r, &m, 0));
    m.type->tile(&first, &m, &r, 0, 0);
    m.type->tile(&second, &m, &r, 0, 128);
    for (int c = 0; c < QUANT_TILE_ROWS; c++) {
        assert_int_equal(isnan(quant_f16_to_f32(first.d[0][c])), c == 5);
        assert_false(isnan(quant_f16_to_f32(second.d[0][c])));
    }
}

/* Whatever the scales are: what a float16 would not hold, too. */
static void floats_by_code(void **state) {
    static const int grids[][2] = {{1, N_IN}, {N_OUT, N_IN}, {16, 128}, {3, 32}};
    float row[N_IN];
    for (size_t i = 0; i < 2 * HARNESS_COUNT(grids); i++) {
        const int *grid = grids[i / 2], per_row = (N_IN + grid[1] - 1) / grid[1];
        quant_matrix m = make(i % 2 ? &quant_fp8_e5m2 : &quant_fp8_e4m3, 8, grid[0], grid[1]);
        quant_coded coded;
        scales[0] = 1e-20f;
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        assert_true(m.type->coded(&coded, &m));
        assert_int_equal(coded.codes, i % 2 ? QUANT_CODES_E5M2 : QUANT_CODES_E4M3);
        assert_true(coded.row_group == grid[0] && coded.group == grid[1]);
        for (int n = 0; n < N_OUT; n++) {
            m.type->unpack_row(row, &m, n);
            for (int k = 0; k < N_IN; k++) {
                const double value = i % 2 ? value_of(codes[n * N_IN + k], 5, 15) : value_of(codes[n * N_IN + k], 4, 7);
                assert_true(m.type->scale(&m, n, k) == scales[n / grid[0] * per_row + k / grid[1]]);
                assert_true(row[k] == (float)value * m.type->scale(&m, n, k));
            }
        }
    }
}

static void refuses(void **state) {
    qp_error err;
    quant_matrix m = make(&quant_int, 4, 1, 64);
    m.bits = 3;
    assert_int_equal(quant_open(&m, "w", &err), QP_UNSUPPORTED);
    m = make(&quant_int, 4, 1, 64);
    m.part_bytes[0]--;
    assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
    assert_non_null(strstr(err.text, "of scales, expected"));
    m = make(&quant_fp8_e4m3, 8, 16, 128);
    m.part_bytes[1] += 4;
    assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
    m = make(&quant_fp8_e4m3, 8, 16, 128);
    m.row_group = 0;
    assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code),       cmocka_unit_test(grids_of_scales),
        cmocka_unit_test(scales_of_floats), cmocka_unit_test(a_nan_is_its_groups_scale),
        cmocka_unit_test(floats_by_code),   cmocka_unit_test(whole_numbers),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
