/* mx_test.c — every code and every scale of MXFP4 against its definition, woven rows, tiles, and refusals. */
#include "mx.h"
#include "tile_check.h"

enum { N_OUT = 37, N_IN = 96, STEP = 2 };

static uint8_t codes[STEP * N_OUT * N_IN / 2], scales[STEP * N_OUT * N_IN / 32];

/* Sign, two bits of exponent, one of mantissa, as the Open Compute specification of MX formats defines them. */
static double value_of(int code) {
    const int exponent = code >> 1 & 3, mantissa = code & 1;
    const double size = exponent ? ldexp(1 + mantissa / 2.0, exponent - 1) : mantissa / 2.0;
    return code & 8 ? -size : size;
}

static quant_matrix make(int first, int step) {
    for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)(i * 37 % 256);
    for (size_t i = 0; i < sizeof scales; i++) scales[i] = (uint8_t)(110 + i * 7 % 30);
    return (quant_matrix){.type = &quant_mxfp4_rows,
                          .n_out = N_OUT,
                          .n_in = N_IN,
                          .row_step = step,
                          .parts = {codes + first * (N_IN / 2), scales + first * (N_IN / 32)},
                          .part_bytes = {N_OUT * N_IN / 2, N_OUT * N_IN / 32}};
}

static void rows_are_what_the_format_says(void **state) {
    float out[N_IN];
    for (int first = 0; first < STEP; first++) {
        quant_matrix m = make(first, STEP);
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        for (int row = 0; row < N_OUT; row++) {
            const int stored = first + row * STEP;
            quant_mxfp4_rows.unpack_row(out, &m, row);
            for (int k = 0; k < N_IN; k++) {
                const int code = codes[stored * (N_IN / 2) + k / 2] >> (k % 2 ? 4 : 0) & 15;
                assert_true((double)out[k] == ldexp(value_of(code), scales[stored * (N_IN / 32) + k / 32] - 127));
            }
        }
        assert_true(tile_check(&m));
    }
}

static void extreme_scales(void **state) {
    float out[N_IN];
    quant_matrix m = make(0, 1);
    scales[0] = 0;
    scales[1] = 254;
    codes[0] = 0x72;  /* 1 and 6, times 2^-127 */
    codes[16] = 0x2F; /* -6 and 1, times 2^127 */
    quant_mxfp4_rows.unpack_row(out, &m, 0);
    assert_true(out[0] == 0x1p-127f && out[1] == 6 * 0x1p-127f);
    assert_true(isinf(out[32]) && out[32] < 0 && out[33] == 0x1p127f);
}

static void refuses(void **state) {
    qp_error err;
    quant_matrix m = make(0, 1);
    m.n_in = 48;
    assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
    assert_non_null(strstr(err.text, "rows of 48 weights do not fill groups of 32"));
    for (int part = 0; part < 2; part++) {
        m = make(0, 1);
        m.part_bytes[part]--;
        assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
        assert_non_null(strstr(err.text, "bytes of codes"));
    }
    m = make(0, 0);
    assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_what_the_format_says),
        cmocka_unit_test(extreme_scales),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
