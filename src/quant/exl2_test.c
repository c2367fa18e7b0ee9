/* exl2_test.c — the worked example and the packing words of the format's description, every refusal, and matrices of
 * all widths against their description as whole numbers. Real files are compared in tests/golden/quant_models_test.c.
 */
#include "exl2.h"
#include "tile_check.h"
#include "bits.h"
#include "base/rng.h"

static uint32_t random_bits(uint64_t seed, uint64_t high, uint64_t low) {
    uint32_t bits[4];
    rng_philox(seed, high, low, bits);
    return bits[0];
}

typedef struct matrix {
    quant_matrix m;
    uint32_t *weight, *scale;
    uint16_t *scale_max, *groups;
    int32_t *invperm;
} matrix;

typedef struct group {
    unsigned bits, rows;
} group;

/* Codes by formula or at random; all parts exactly as long as they must be. */
static void build(matrix *x, const group *groups, size_t n_groups, int n_out, bool is_example) {
    int64_t n_in = 0, words = 0;
    const size_t columns = (size_t)(n_out + 31) / 32 * 32;
    for (size_t g = 0; g < n_groups; g++) {
        n_in += groups[g].rows;
        words += groups[g].rows * groups[g].bits / 32;
    }
    x->weight = mem_zarray((size_t)words * columns, 4);
    x->scale = mem_zarray(n_groups * columns / 8, 4);
    x->scale_max = mem_zarray(n_groups, 2);
    x->groups = mem_zarray(n_groups, 4);
    x->invperm = mem_zarray((size_t)n_in, 4);
    size_t word = 0;
    for (size_t g = 0; g < n_groups; g++) {
        x->groups[2 * g] = (uint16_t)groups[g].bits;
        x->groups[2 * g + 1] = (uint16_t)word;
        x->scale_max[g] = quant_f32_to_f16(is_example ? (g ? 0.05f : 0.02f) : 0.01f * (float)(g + 1));
        for (size_t c = 0; c < columns; c++) {
            x->scale[g * columns / 8 + c / 8] |= (uint32_t)((c + 7 * g) % 16) << 4 * (c % 8);
            for (size_t r = 0; r < groups[g].rows; r++) {
                const uint32_t formula = (uint32_t)(groups[g].bits == 4 ? 3 * r + c : r + c);
                const uint32_t random = (uint32_t)random_bits(3, g, r * columns + c);
                const uint32_t code = (is_example ? formula : random) & ((1u << groups[g].bits) - 1);
                const size_t t = r * groups[g].bits;
                x->weight[(word + t / 32) * columns + c] |= code << t % 32;
                if (t % 32 + groups[g].bits > 32) x->weight[(word + t / 32 + 1) * columns + c] |= code >> (32 - t % 32);
            }
        }
        word += groups[g].rows * groups[g].bits / 32;
    }
    for (int64_t i = 0; i < n_in; i++) x->invperm[i] = (int32_t)((5 * i + 1) % n_in);
    x->m = (quant_matrix){.type = &quant_exl2,
                          .n_out = n_out,
                          .n_in = n_in,
                          .stored_out = (int64_t)columns,
                          .parts = {x->weight, x->scale, x->scale_max, x->groups, x->invperm},
                          .part_bytes = {(size_t)words * columns * 4, n_groups * columns / 2, n_groups * 2,
                                         n_groups * 4, (size_t)n_in * 4}};
}

static void destroy(matrix *x) {
    quant_close(&x->m);
    mem_free(x->weight);
    mem_free(x->scale);
    mem_free(x->scale_max);
    mem_free(x->groups);
    mem_free(x->invperm);
}

static const group example[] = {{4, 32}, {2, 32}};

static void worked_example(void **state) {
    static const uint32_t column0[] = {0x52fc9630, 0xda741eb8, 0x52fc9630, 0xda741eb8, 0xe4e4e4e4, 0xe4e4e4e4};
    static const uint16_t first[2][8] = {{0x8e67, 0x8fae, 0x907b, 0x911f, 0x107b, 0x0fae, 0x0e67, 0xa666},
                                         {0x2800, 0x2600, 0x2400, 0x2000, 0x0000, 0xa000, 0xa400, 0x8a66}};
    matrix x;
    build(&x, example, 2, 32, true);
    for (size_t i = 0; i < 6; i++) assert_int_equal(x.weight[i * 32], column0[i]);
    assert_int_equal(x.scale[0], 0x76543210);
    assert_int_equal(x.scale[4], 0xedcba987);
    assert_int_equal(quant_open(&x.m, "example", NULL), QP_OK);
    double sum = 0;
    for (int n = 0; n < 32; n++) {
        float row[64];
        quant_exl2.unpack_row(row, &x.m, n);
        for (int k = 0; k < 64; k++) sum += (double)row[k];
        for (int k = 0; k < 8 && (n == 0 || n == 9); k++) assert_int_equal(quant_f32_to_f16(row[k]), first[n > 0][k]);
    }
    assert_float_equal(sum, -13.088407516479492, 1e-12);
    assert_true(tile_check(&x.m));
    destroy(&x);
}

/* Codes (7 r + 3) mod 2^b of one column. */
static void packing_words(void **state) {
    static const struct {
        unsigned bits;
        uint32_t words[8];
    } cases[] = {
        {2, {0x1b1b1b1b, 0x1b1b1b1b}},
        {3, {0x53977053, 0x70539770, 0x97705397}},
        {4, {0x4d6f81a3, 0xc5e7092b, 0x4d6f81a3, 0xc5e7092b}},
        {5, {0x4dfc4543, 0x78245ba3, 0x0753617d, 0x4b276cf4, 0xe55c7066}},
        {6, {0x9f611283, 0x90bbd2d9, 0xb2579740, 0x8f201eb3, 0x9cab91d5, 0x71538703}},
        {8, {0x18110a03, 0x342d261f, 0x5049423b, 0x6c655e57, 0x88817a73, 0xa49d968f, 0xc0b9b2ab, 0xdcd5cec7}},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        uint8_t codes[QUANT_TILE_ROWS][QUANT_TILE_DEPTH];
        bits_codes(codes, cases[i].words, 0, 1, 1, cases[i].bits);
        for (size_t r = 0; r < 32; r++) {
            const uint32_t expected = (uint32_t)(7 * r + 3) & ((1u << cases[i].bits) - 1);
            assert_int_equal(bits_code(cases[i].words, 0, 1, r, cases[i].bits), expected);
            assert_int_equal(codes[0][r], expected);
        }
    }
}

static void all_widths(void **state) {
    static const group mixed[] = {{8, 32}, {6, 32}, {6, 32}, {5, 64}, {4, 128}, {4, 64}, {3, 32}, {2, 64}},
                       odd[] = {{4, 32}, {2, 16}};
    for (int n_out = 1; n_out < 70; n_out += 17) {
        matrix x;
        build(&x, mixed, HARNESS_COUNT(mixed), n_out, false);
        assert_int_equal(quant_open(&x.m, "mixed", NULL), QP_OK);
        assert_true(tile_check(&x.m));
        destroy(&x);
    }
    matrix x;
    build(&x, odd, 2, 5, false);
    assert_int_equal(quant_open(&x.m, "odd", NULL), QP_OK);
    assert_false(tile_check(&x.m));
    float row[48];
    quant_exl2.unpack_row(row, &x.m, 4);
    destroy(&x);
}

/* ---- damaged ---- */

static void swap_widths(matrix *x) {
    x->groups[0] = 2;
    x->groups[2] = 4;
}
static void seven_bits(matrix *x) { x->groups[0] = 7; }
static void no_bits(matrix *x) { x->groups[2] = 0; }
static void starts_late(matrix *x) { x->groups[1] = 1; }
static void goes_back(matrix *x) { x->groups[3] = 0; }
static void beyond(matrix *x) { x->groups[3] = 6; }
static void rows_short(matrix *x) { x->groups[3] = 3; }
static void invperm_twice(matrix *x) { x->invperm[7] = x->invperm[8]; }
static void invperm_far(matrix *x) { x->invperm[63] = 64; }
static void invperm_negative(matrix *x) { x->invperm[0] = -1; }
static void short_scale(matrix *x) { x->m.part_bytes[1] -= 4; }
static void short_max(matrix *x) { x->m.part_bytes[2] -= 2; }
static void no_groups(matrix *x) { x->m.part_bytes[3] = 0; }
static void short_invperm(matrix *x) { x->m.part_bytes[4] -= 4; }
static void odd_columns(matrix *x) { x->m.stored_out = 31; }
static void no_columns(matrix *x) { x->m.stored_out = 0; }
static void few_columns(matrix *x) { x->m.n_out = 33; }

static const struct {
    void (*damage)(matrix *x);
    const char *says;
} refusals[] = {
    {swap_widths, "group 1 has 4 bits"}, {seven_bits, "has 7 bits"},      {no_bits, "has 0 bits"},
    {starts_late, "begins at row 1"},    {goes_back, "ends at 0"},        {beyond, "group 1 begins at row 6"},
    {rows_short, "72 rows in all"},      {invperm_twice, "each of 0 to"}, {invperm_far, "is row 64"},
    {invperm_negative, "is row -1"},     {short_scale, "q_scale:"},       {short_max, "q_scale_max 2"},
    {no_groups, "q_groups: 0 bytes"},    {short_invperm, "q_invperm:"},   {odd_columns, "a multiple of 32"},
    {no_columns, "a multiple of 32"},    {few_columns, "expected 33"},
};

static void refuses(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(refusals); i++) {
        matrix x;
        qp_error err = {0};
        build(&x, example, 2, 32, true);
        refusals[i].damage(&x);
        const qp_status status = quant_open(&x.m, "w", &err);
        if (status != QP_BAD_FORMAT || !strstr(err.text, refusals[i].says))
            fail_msg("case %zu: status %d, \"%s\", expected \"%s\"", i, status, err.text, refusals[i].says);
        assert_null(x.m.order);
        destroy(&x);
    }
    matrix x;
    build(&x, example, 2, 32, true);
    mem_fail_after(0);
    assert_int_equal(quant_open(&x.m, "w", NULL), QP_NO_MEMORY);
    mem_fail_after(-1);
    destroy(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example),
        cmocka_unit_test(packing_words),
        cmocka_unit_test(all_widths),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
