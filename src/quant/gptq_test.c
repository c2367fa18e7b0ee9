/* gptq_test.c — GPTQ and AWQ: the worked examples of the formats' descriptions, round trips through small packers of
 * all widths, versions and orders, the quirks of zeros, and every refusal. */
#include "gptq.h"
#include "tile_check.h"
#include "base/rng.h"

typedef struct plan {
    int n_in, n_out, bits, group, zero_add;
    int order; /* 0: none, 1: sequential g_idx, 2: scattered, 3: groups of unequal size, 4: all zeros */
    quant_id scales;
} plan;

static uint32_t random_bits(uint64_t seed, uint64_t high, uint64_t low) {
    uint32_t bits[4];
    rng_philox(seed, high, low, bits);
    return bits[0];
}

typedef struct matrix {
    quant_matrix m;
    uint32_t *weight, *zeros;
    uint8_t *scales;
    int32_t *g_idx;
    float *expected; /* [n_out][n_in] */
} matrix;

static void put(uint32_t *words, size_t first, size_t stride, size_t i, unsigned bits, uint32_t code) {
    const size_t t = i * bits;
    words[first + t / 32 * stride] |= code << t % 32;
    if (t % 32 + bits > 32) words[first + (t / 32 + 1) * stride] |= code >> (32 - t % 32);
}

static int group_for(const plan *p, int k) {
    const int groups = (p->n_in + p->group - 1) / p->group;
    if (p->order == 2) return k * 7 % groups; /* each group as often as the others where groups divide n_in */
    if (p->order == 3) return k < 3 ? 1 : k / p->group;
    return p->order == 4 ? k / p->group : k / p->group;
}

static float scale_for(int g, int n) { return 0.01f + 0.001f * (float)((g * 5 + n) % 32); }

static void put_scale(matrix *x, const plan *p, size_t i, float value) {
    const uint16_t half = p->scales == QUANT_F16 ? quant_f32_to_f16(value) : quant_f32_to_bf16(value);
    if (p->scales == QUANT_F32)
        memcpy(x->scales + 4 * i, &value, 4);
    else
        memcpy(x->scales + 2 * i, &half, 2);
}

static float stored_scale(const plan *p, float value) {
    if (p->scales == QUANT_F32) return value;
    return p->scales == QUANT_F16 ? quant_f16_to_f32(quant_f32_to_f16(value))
                                  : quant_bf16_to_f32(quant_f32_to_bf16(value));
}

static void expect(matrix *x, const plan *p, int k, int n, int difference) {
    const float value = (float)difference * stored_scale(p, scale_for(group_for(p, k), n));
    x->expected[n * p->n_in + k] = p->scales == QUANT_F16 ? quant_f16_to_f32(quant_f32_to_f16(value)) : value;
}

static int zero_for(const plan *p, int g, int n) {
    return p->zero_add + (int)(random_bits(1, (uint64_t)g, (uint64_t)n) & ((1u << p->bits) - 1));
}
static uint32_t code_for(const plan *p, int k, int n) {
    return (uint32_t)random_bits(2, (uint64_t)k, (uint64_t)n) & ((1u << p->bits) - 1);
}

static void build_gptq(matrix *x, const plan *p) {
    const int groups = (p->n_in + p->group - 1) / p->group;
    const size_t n = (size_t)p->n_out, zero_words = n * (size_t)p->bits / 32;
    const size_t weight_words = (size_t)p->n_in * (size_t)p->bits / 32 * n, each = p->scales == QUANT_F32 ? 4 : 2;
    *x = (matrix){.weight = mem_zarray(weight_words, 4),
                  .zeros = mem_zarray((size_t)groups * zero_words, 4),
                  .scales = mem_zarray((size_t)groups * n, each),
                  .g_idx = p->order ? mem_zarray((size_t)p->n_in, 4) : NULL,
                  .expected = mem_zarray(n * (size_t)p->n_in, 4)};
    for (int c = 0; c < p->n_out; c++) {
        for (int g = 0; g < groups; g++) {
            put(x->zeros, (size_t)g * zero_words, 1, (size_t)c, (unsigned)p->bits,
                (uint32_t)(zero_for(p, g, c) - p->zero_add));
            put_scale(x, p, (size_t)g * n + (size_t)c, scale_for(g, c));
        }
        for (int k = 0; k < p->n_in; k++) {
            put(x->weight, (size_t)c, n, (size_t)k, (unsigned)p->bits, code_for(p, k, c));
            expect(x, p, k, c, (int)code_for(p, k, c) - zero_for(p, group_for(p, k), c));
        }
    }
    for (int k = 0; k < p->n_in && p->order; k++) x->g_idx[k] = p->order == 4 ? 0 : group_for(p, k);
    x->m = (quant_matrix){.type = &quant_gptq,
                          .n_out = p->n_out,
                          .n_in = p->n_in,
                          .stored_out = p->n_out,
                          .bits = p->bits,
                          .group = p->group,
                          .zero_add = p->zero_add,
                          .scale_type = p->scales,
                          .parts = {x->weight, x->zeros, x->scales, x->g_idx},
                          .part_bytes = {weight_words * 4, (size_t)groups * zero_words * 4, (size_t)groups * n * each,
                                         p->order ? (size_t)p->n_in * 4 : 0}};
}

static void destroy(matrix *x) {
    quant_close(&x->m);
    mem_free(x->weight);
    mem_free(x->zeros);
    mem_free(x->scales);
    mem_free(x->g_idx);
    mem_free(x->expected);
}

static void check_rows(const matrix *x) {
    float *row = mem_array((size_t)x->m.n_in, sizeof *row);
    for (int64_t n = 0; n < x->m.n_out; n++) {
        x->m.type->unpack_row(row, &x->m, n);
        assert_memory_equal(row, x->expected + n * x->m.n_in, (size_t)x->m.n_in * 4);
    }
    mem_free(row);
}

static void gptq_round_trips(void **state) {
    static const plan plans[] = {
        {64, 32, 4, 32, 1, 0, QUANT_F16},   {64, 32, 4, 32, 0, 1, QUANT_F16},     {256, 48, 4, 64, 1, 2, QUANT_F16},
        {128, 32, 3, 32, 1, 0, QUANT_F16},  {128, 64, 2, 64, 1, 2, QUANT_F16},    {96, 40, 8, 32, 0, 2, QUANT_F16},
        {128, 32, 8, 128, 0, 0, QUANT_F32}, {160, 32, 4, 64, 1, 0, QUANT_BF16},   {128, 32, 4, 32, 1, 4, QUANT_F16},
        {96, 96, 3, 32, 0, 2, QUANT_BF16},  {1056, 32, 4, 1056, 1, 0, QUANT_F16},
    };
    for (size_t i = 0; i < HARNESS_COUNT(plans); i++) {
        matrix x;
        build_gptq(&x, &plans[i]);
        qp_error err = {0};
        if (quant_open(&x.m, "w", &err)) fail_msg("plan %zu: %s", i, err.text);
        assert_true((plans[i].order == 2) == (x.m.order != NULL));
        check_rows(&x);
        assert_true(tile_check(&x.m));
        destroy(&x);
    }
}

/* Groups that no order makes whole have no description as runs, but are right. */
static void gptq_unequal_groups(void **state) {
    const plan p = {64, 32, 4, 32, 1, 3, QUANT_F16}, wide = {64, 32, 8, 32, 1, 0, QUANT_F16};
    matrix x;
    build_gptq(&x, &p);
    assert_int_equal(quant_open(&x.m, "w", NULL), QP_OK);
    check_rows(&x);
    assert_false(tile_check(&x.m));
    destroy(&x);
    build_gptq(&x, &wide);
    memset(x.zeros, 255, 4); /* the first version's zero of 256 */
    assert_int_equal(quant_open(&x.m, "w", NULL), QP_OK);
    float row[64];
    quant_gptq.unpack_row(row, &x.m, 0);
    const float first = ((float)code_for(&wide, 0, 0) - 256) * stored_scale(&wide, scale_for(0, 0));
    assert_true(row[0] == quant_f16_to_f32(quant_f32_to_f16(first)));
    assert_false(tile_check(&x.m));
    destroy(&x);
}

/* Zeros that are one number are told once; one that differs, the first, the last or in between, takes that back. */
static void gptq_one_zero(void **state) {
    static const plan plans[] = {{64, 32, 4, 32, 1, 0, QUANT_F16},
                                 {64, 32, 3, 32, 1, 2, QUANT_F16},
                                 {64, 32, 2, 32, 1, 0, QUANT_F16},
                                 {64, 32, 8, 32, 0, 0, QUANT_F16}};
    static const size_t odd[] = {0, 21, 63, 64};
    for (size_t i = 0; i < HARNESS_COUNT(plans); i++) {
        const plan *p = &plans[i];
        const size_t n = 64, words = n * (size_t)p->bits / 32;
        const int one = 1 << (p->bits - 1);
        matrix x;
        build_gptq(&x, p);
        assert_int_equal(quant_open(&x.m, "w", NULL), QP_OK);
        for (size_t o = 0; o < HARNESS_COUNT(odd); o++) {
            quant_run r;
            memset(x.zeros, 0, words * 4);
            for (size_t c = 0; c < n; c++)
                put(x.zeros, 0, 1, c, (unsigned)p->bits, (uint32_t)(one - p->zero_add - (c == odd[o])));
            assert_true(quant_gptq.run(&r, &x.m, 0));
            assert_int_equal(r.scales, odd[o] < n ? QUANT_SCALES_ZERO : QUANT_SCALES_PLAIN);
            if (odd[o] == n) assert_int_equal(r.zero, one);
            assert_true(tile_check(&x.m));
        }
        destroy(&x);
    }
}

/* K = 64, N = 8, two groups of 32; code (3 k + n) mod 16, zeros 6 + n and 7 + n. */
static void gptq_example(void **state) {
    uint32_t weight[8 * 8] = {0}, v1[2] = {0}, v2[2] = {0};
    uint16_t scales[16];
    for (size_t n = 0; n < 8; n++) {
        for (size_t k = 0; k < 64; k++) put(weight, n, 8, k, 4, (uint32_t)(3 * k + n) % 16);
        for (size_t g = 0; g < 2; g++) {
            put(v2, g, 1, n, 4, (uint32_t)(6 + g + n));
            put(v1, g, 1, n, 4, (uint32_t)(5 + g + n));
            scales[g * 8 + n] = 0x3C00;
        }
    }
    assert_int_equal(weight[0], 0x52fc9630);
    assert_int_equal(weight[8], 0xda741eb8);
    assert_int_equal(v1[0], 0xcba98765);
    assert_int_equal(v1[1], 0xdcba9876);
    assert_int_equal(v2[0], 0xdcba9876);
    assert_int_equal(v2[1], 0xedcba987);
    for (int version = 1; version <= 2; version++) {
        quant_matrix m = {.type = &quant_gptq,
                          .n_out = 8,
                          .n_in = 64,
                          .stored_out = 8,
                          .bits = 4,
                          .group = 32,
                          .zero_add = version == 1,
                          .scale_type = QUANT_F16,
                          .parts = {weight, version == 1 ? v1 : v2, scales},
                          .part_bytes = {sizeof weight, sizeof v1, sizeof scales}};
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        float row[64];
        quant_gptq.unpack_row(row, &m, 3);
        for (int k = 0; k < 64; k++) assert_true(row[k] == (float)((3 * k + 3) % 16 - (k < 32 ? 9 : 10)));
    }
}

/* Example: g_idx = 1,0,1,0,2,2,0,1 sorts to 1,3,6,0,2,7,4,5; here each entry stands for 4 inputs of 32. */
static void gptq_order_is_stable(void **state) {
    static const int groups[] = {1, 0, 1, 0, 2, 2, 0, 1}, sorted[] = {1, 3, 6, 0, 2, 7, 4, 5};
    plan p = {32, 8, 4, 12, 1, 1, QUANT_F16};
    matrix x;
    build_gptq(&x, &p);
    for (int k = 0; k < 32; k++) x.g_idx[k] = groups[k / 4];
    assert_int_equal(quant_open(&x.m, "w", NULL), QP_OK);
    for (int k = 0; k < 32; k++) assert_int_equal(x.m.order[k], sorted[k / 4] * 4 + k % 4);
    destroy(&x);
}

/* ---- AWQ ---- */

static void build_awq(matrix *x, const plan *p, bool is_gemv) {
    static const int lane[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const int groups = (p->n_in + p->group - 1) / p->group;
    const int step = p->group >= 128 ? 1 : p->group == 64 ? 2 : 4, z = ((groups + 7) / 8 + step - 1) / step * step;
    const size_t n = (size_t)p->n_out, k_all = (size_t)p->n_in;
    const size_t zero_words = is_gemv ? n * (size_t)z : (size_t)groups * n / 8;
    const size_t n_scales = is_gemv ? n * (size_t)z * 8 : (size_t)groups * n;
    *x = (matrix){.weight = mem_zarray(n * k_all / 8, 4),
                  .zeros = mem_zarray(zero_words, 4),
                  .scales = mem_zarray(n_scales, 2),
                  .expected = mem_zarray(n * k_all, 4)};
    for (int c = 0; c < p->n_out; c++) {
        for (int g = 0; g < groups; g++) {
            const uint32_t zero = (uint32_t)zero_for(p, g, c);
            if (is_gemv)
                put(x->zeros, (size_t)(c * z), 1, (size_t)g, 4, zero);
            else
                x->zeros[((size_t)g * n + (size_t)c) / 8] |= zero << 4 * lane[c % 8];
            put_scale(x, p, is_gemv ? (size_t)(c * z * 8 + g) : (size_t)g * n + (size_t)c, scale_for(g, c));
        }
        for (int k = 0; k < p->n_in; k++) {
            const uint32_t code = code_for(p, k, c);
            if (is_gemv)
                put(x->weight, (size_t)c * k_all / 8, 1, (size_t)k, 4, code);
            else
                x->weight[((size_t)k * n + (size_t)c) / 8] |= code << 4 * lane[c % 8];
            expect(x, p, k, c, (int)code - zero_for(p, k / p->group, c));
        }
    }
    x->m = (quant_matrix){.type = is_gemv ? &quant_awq_gemv : &quant_awq,
                          .n_out = p->n_out,
                          .n_in = p->n_in,
                          .stored_out = p->n_out,
                          .bits = 4,
                          .group = p->group,
                          .scale_type = QUANT_F16,
                          .parts = {x->weight, x->zeros, x->scales},
                          .part_bytes = {n * k_all / 2, zero_words * 4, n_scales * 2}};
}

static void awq_round_trips(void **state) {
    static const plan plans[] = {
        {128, 32, 4, 128, 0, 0, QUANT_F16}, {256, 40, 4, 64, 0, 0, QUANT_F16}, {96, 8, 4, 32, 0, 0, QUANT_F16}};
    for (size_t i = 0; i < 2 * HARNESS_COUNT(plans); i++) {
        matrix x;
        build_awq(&x, &plans[i / 2], i % 2);
        qp_error err = {0};
        if (quant_open(&x.m, "w", &err)) fail_msg("plan %zu: %s", i, err.text);
        check_rows(&x);
        assert_true(tile_check(&x.m));
        destroy(&x);
    }
}

/* Rows k = 0 .. 3 with codes (3 k + n) mod 16. */
static void awq_example(void **state) {
    static const uint32_t words[4] = {0x75316420, 0xa8649753, 0xdb97ca86, 0x0ecafdb9};
    static const uint16_t one[8] = {0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00};
    const uint32_t zeros = 0;
    quant_matrix m = {.type = &quant_awq,
                      .n_out = 8,
                      .n_in = 8,
                      .stored_out = 8,
                      .bits = 4,
                      .group = 8,
                      .scale_type = QUANT_F16,
                      .parts = {(const uint32_t[8]){words[0], words[1], words[2], words[3]}, &zeros, one},
                      .part_bytes = {32, 4, 16}};
    assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
    for (int n = 0; n < 8; n++) {
        float row[8];
        quant_awq.unpack_row(row, &m, n);
        for (int k = 0; k < 4; k++) assert_true(row[k] == (float)((3 * k + n) % 16));
    }
}

/* ---- refusals ---- */

static void five_bits(matrix *x) { x->m.bits = 5; }
static void no_group(matrix *x) { x->m.group = 0; }
static void short_weight(matrix *x) { x->m.part_bytes[0] -= 4; }
static void short_zeros(matrix *x) { x->m.part_bytes[1] -= 4; }
static void long_scales(matrix *x) { x->m.part_bytes[2] += 2; }
static void short_g_idx(matrix *x) { x->m.part_bytes[3] -= 4; }
static void far_group(matrix *x) { x->g_idx[5] = 4; }
static void negative_group(matrix *x) { x->g_idx[5] = -1; }
static void odd_columns(matrix *x) { x->m.stored_out = 33; }
static void few_columns(matrix *x) { x->m.n_out = 40; }

static const struct {
    void (*damage)(matrix *x);
    qp_status status;
    const char *says;
} refusals[] = {
    {five_bits, QP_UNSUPPORTED, "gptq with 5 bits"},  {no_group, QP_BAD_FORMAT, "groups of 0"},
    {short_weight, QP_BAD_FORMAT, "w.qweight:"},      {short_zeros, QP_BAD_FORMAT, "w.qzeros:"},
    {long_scales, QP_BAD_FORMAT, "w.scales:"},        {short_g_idx, QP_BAD_FORMAT, "w.g_idx: 508 bytes"},
    {far_group, QP_BAD_FORMAT, "is of group 4 of 4"}, {negative_group, QP_BAD_FORMAT, "is of group -1"},
    {odd_columns, QP_BAD_FORMAT, "33 columns"},       {few_columns, QP_BAD_FORMAT, "32 columns"},
};

static void refuses(void **state) {
    const plan p = {128, 32, 4, 32, 1, 2, QUANT_F16};
    matrix x;
    for (size_t i = 0; i < HARNESS_COUNT(refusals); i++) {
        qp_error err = {0};
        build_gptq(&x, &p);
        refusals[i].damage(&x);
        const qp_status status = quant_open(&x.m, "w", &err);
        if (status != refusals[i].status || !strstr(err.text, refusals[i].says))
            fail_msg("case %zu: status %d, \"%s\", expected \"%s\"", i, status, err.text, refusals[i].says);
        destroy(&x);
    }
    build_gptq(&x, &p);
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_int_equal(quant_open(&x.m, "w", NULL), QP_NO_MEMORY);
        mem_fail_after(-1);
    }
    assert_int_equal(quant_open(&x.m, "w", NULL), QP_OK);
    destroy(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gptq_round_trips),     cmocka_unit_test(gptq_unequal_groups),
        cmocka_unit_test(gptq_one_zero),        cmocka_unit_test(gptq_example),
        cmocka_unit_test(gptq_order_is_stable), cmocka_unit_test(awq_round_trips),
        cmocka_unit_test(awq_example),          cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
