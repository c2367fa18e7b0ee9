/* fp_test.c — conversions of 16-bit floats: every half and bf16 value both ways, and rounding to nearest even. */
#include "fp.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void every_half_survives(void **state) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float f = quant_f16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(quant_f16_to_f32(quant_f32_to_f16(f))));
        else
            assert_int_equal(quant_f32_to_f16(f), h);
    }
}

static void every_bf16_survives(void **state) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float f = quant_bf16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(quant_bf16_to_f32(quant_f32_to_bf16(f))));
        else
            assert_int_equal(quant_f32_to_bf16(f), h);
    }
}

/* Halfway between neighbours goes to the even one, a little over or under to the nearer. */
static void rounds_to_nearest_even(void **state) {
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        const double low = quant_f16_to_f32((uint16_t)h), high = quant_f16_to_f32((uint16_t)(h + 1)),
                     half = (low + high) / 2;
        assert_int_equal(quant_f32_to_f16((float)half), h + (h & 1));
        assert_int_equal(quant_f32_to_f16(nextafterf((float)half, 0)), h);
        assert_int_equal(quant_f32_to_f16(nextafterf((float)half, INFINITY)), h + 1);
    }
    for (uint32_t h = 0; h < 0x7F7F; h++) {
        const double low = quant_bf16_to_f32((uint16_t)h), high = quant_bf16_to_f32((uint16_t)(h + 1)),
                     half = (low + high) / 2;
        assert_int_equal(quant_f32_to_bf16((float)half), h + (h & 1));
    }
    static const struct {
        float in;
        uint16_t out;
    } edges[] = {
        {65504, 0x7BFF},  {65519.996f, 0x7BFF}, {65520, 0x7C00},      {1e30f, 0x7C00},
        {-1e30f, 0xFC00}, {0x1p-25f, 0},        {0x1.000002p-25f, 1}, {-0.0f, 0x8000},
    };
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        assert_int_equal(quant_f32_to_f16(edges[i].in), edges[i].out);
}

static void unpack_and_sizes(void **state) {
    static const uint16_t half[6] = {0x3C00, 0x4000, 0x4200, 0xBC00, 0x0001, 0x7BFF},
                          bf[6] = {0x3F80, 0x4000, 0x4040, 0xBF80, 0x0000, 0x4049};
    static const float single[6] = {1, 2, 3, -1, 0.5f, 1e30f};
    float out[3];
    const quant_matrix a = quant_plain(&quant_f16, 2, 3, half, 12), b = quant_plain(&quant_bf16, 2, 3, bf, 12),
                       c = quant_plain(&quant_f32, 2, 3, single, 24);
    a.type->unpack_row(out, &a, 1);
    assert_true(out[0] == -1 && out[1] == 0x1p-24f && out[2] == 65504);
    b.type->unpack_row(out, &b, 0);
    assert_true(out[0] == 1 && out[1] == 2 && out[2] == 3);
    c.type->unpack_row(out, &c, 1);
    assert_memory_equal(out, single + 3, sizeof out);
    size_t bytes;
    assert_true(quant_find("bf16")->bytes(&bytes, 2, 3) && bytes == 12);
    assert_false(quant_find("f32")->bytes(&bytes, INT64_MAX, 3));
    assert_null(quant_find("f17"));
    for (int i = 0; i < QUANT_COUNT; i++) assert_int_equal(quant_type_of((quant_id)i)->id, i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_survives),
        cmocka_unit_test(every_bf16_survives),
        cmocka_unit_test(rounds_to_nearest_even),
        cmocka_unit_test(unpack_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
