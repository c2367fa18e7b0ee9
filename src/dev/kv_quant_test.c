/* kv_quant_test.c — quantised keys and values: the rotation against the matrix written down, what is put is what is got
 * within half a step, each token alone in its bytes, and the layout that all devices share. */
#include "kv_quant.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness.h"
#include <math.h>

static const kv_type types[] = {KV_Q8, KV_Q6, KV_Q4};

static float noise(uint64_t seed, int i) { return (float)rng_uniform(seed, 0, (uint64_t)i) * 2 - 1; }

/* ---- rotation ---- */

/* Sylvester's construction: the sign is the parity of the common bits. */
static double entry(int row, int column, int n) {
    return (__builtin_popcount((unsigned)(row & column)) & 1 ? -1 : 1) / sqrt(n);
}

static void rotation_is_the_hadamard_matrix(void **state) {
    static const struct {
        int n, pieces[8];
    } cases[] = {{1, {1}},       {2, {2}},     {63, {32, 16, 8, 4, 2, 1}},
                 {80, {64, 16}}, {128, {128}}, {1100, {512, 512, 64, 8, 4}}};
    for (size_t c = 0; c < HARNESS_COUNT(cases); c++) {
        float x[1100], y[1100];
        for (int i = 0; i < cases[c].n; i++) x[i] = y[i] = noise(c, i);
        kv_rotate(y, cases[c].n);
        for (int p = 0, first = 0; p < 8 && cases[c].pieces[p]; first += cases[c].pieces[p++])
            for (int row = 0; row < cases[c].pieces[p]; row++) {
                double expected = 0;
                for (int i = 0; i < cases[c].pieces[p]; i++)
                    expected += entry(row, i, cases[c].pieces[p]) * (double)x[first + i];
                assert_true(fabs(expected - (double)y[first + row]) < 2e-6);
            }
        kv_rotate(y, cases[c].n);
        for (int i = 0; i < cases[c].n; i++) assert_true(fabsf(x[i] - y[i]) < 2e-6f);
    }
}

static void latents_turn_apart(void **state) {
    float x[72], y[72];
    const kv_view kv = {.type = KV_Q4, .n_kv_heads = 1, .head_dim = 72, .v_dim = 64};
    for (int i = 0; i < 72; i++) x[i] = y[i] = noise(9, i);
    kv_rotate_key(&kv, x);
    kv_rotate(y, 64);
    kv_rotate(y + 64, 8);
    assert_memory_equal(x, y, sizeof x);
}

/* ---- codes ---- */

enum { GROUP_BYTES = 65536 };

/* The largest step that a block of 32 with this extreme may have. */
static float step_of(kv_type type, const float *x, int n) {
    float most = 0;
    for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return most / (type == KV_Q8 ? 127.f : type == KV_Q6 ? 31.f : 7.f);
}

static void check_block(kv_type type, const float *x, const float *got, int n) {
    const float step = step_of(type, x, n);
    double error = 0;
    for (int i = 0; i < n; i++) {
        /* one side has a code less, and a scale that suits the many may cut the few by an eighth of the extreme */
        const float allowed = type == KV_Q8 ? step : step + 0.14f * step * (type == KV_Q6 ? 31 : 7);
        assert_true(fabsf(x[i] - got[i]) <= allowed * 1.01f);
        error += (double)((x[i] - got[i]) * (x[i] - got[i]));
    }
    assert_true(sqrt(error / n) <= 0.45 * (double)step);
}

static void tokens_come_back_and_disturb_nobody(void **state) {
    static const int dims[] = {1, 31, 32, 33, 64, 80, 576, 1100};
    for (size_t t = 0; t < HARNESS_COUNT(types) * HARNESS_COUNT(dims); t++) {
        const kv_type type = types[t % HARNESS_COUNT(types)];
        const int dim = dims[t / HARNESS_COUNT(types)];
        const size_t bytes = dev_kv_group_bytes(type, dim);
        uint8_t *keys = mem_zarray(bytes, 1), *values = mem_zarray(bytes, 1);
        float x[16][1100], back[1100];
        for (int slot = 15; slot >= 0; slot--) {
            for (int d = 0; d < dim; d++) x[slot][d] = noise(t + 5, slot * dim + d) * (float)(slot + 1);
            kv_put_key(keys, type, slot, x[slot], dim);
            kv_put_value(values, type, slot, x[slot], dim);
        }
        for (int slot = 0; slot < 16; slot++) {
            for (int d = 0; d < dim; d++) back[d] = kv_get_key(keys, type, slot, d);
            for (int d = 0; d < dim; d += 32) check_block(type, x[slot] + d, back + d, dim - d < 32 ? dim - d : 32);
            for (int d = 0; d < dim; d++) back[d] = kv_get_value(values, type, dim, slot, d);
            kv_rotate(x[slot], dim);
            for (int d = 0; d < dim; d += 32) check_block(type, x[slot] + d, back + d, dim - d < 32 ? dim - d : 32);
        }
        mem_free(keys);
        mem_free(values);
    }
}

static void odd_numbers_are_kept_or_told(void **state) {
    uint8_t group[GROUP_BYTES];
    const struct {
        float x, expected;
    } cases[] = {{0, 0}, {1e30f, 65504}, {1e-30f, 0}, {INFINITY, INFINITY}, {NAN, NAN}};
    for (size_t c = 0; c < HARNESS_COUNT(cases); c++)
        for (size_t t = 0; t < HARNESS_COUNT(types); t++) {
            float x[32] = {0, cases[c].x};
            kv_put_key(group, types[t], 3, x, 32);
            const float got = kv_get_key(group, types[t], 3, 1);
            if (isnan(cases[c].expected))
                assert_true(isnan(got));
            else if (cases[c].expected == 65504)
                assert_true(got >= 65504 && got < INFINITY); /* the largest scale there is */
            else
                assert_true(got == cases[c].expected);
        }
}

/* ---- the layout ---- */

static void planes_unpack_to_their_codes(void **state) {
    for (size_t t = 0; t < HARNESS_COUNT(types); t++) {
        uint8_t codes[KV_KEY_CODES];
        int8_t wide[KV_KEY_CODES], narrow[KV_VALUE_CODES];
        for (int i = 0; i < KV_KEY_CODES; i++) codes[i] = (uint8_t)(i * 2654435761u >> 11);
        kv_unpack(wide, codes, types[t], KV_KEY_CODES);
        kv_unpack(narrow, codes, types[t], KV_VALUE_CODES);
        for (int i = 0; i < KV_KEY_CODES; i++) assert_int_equal(wide[i], kv_code(codes, types[t], KV_KEY_CODES, i));
        for (int i = 0; i < KV_VALUE_CODES; i++)
            assert_int_equal(narrow[i], kv_code(codes, types[t], KV_VALUE_CODES, i));
    }
}

/* One element of one token, byte by byte: files hold this. */
static void bytes_are_where_files_expect_them(void **state) {
    static const struct {
        kv_type type;
        float x; /* a whole code, beside an extreme that is one */
        size_t bytes;
        size_t key_at[3],
            value_at[3]; /* where element 17 of token 5 shows in a group of 32 elements; 0: nowhere else */
    } cases[] = {{KV_Q8, 68, 544, {32 + 17 * 16 + 5, 0}, {5 * 34 + 2 + 17, 0}},
                 {KV_Q6, 68, 416, {32 + 1 * 16 + 5, 32 + 256 + 1 * 16 + 5}, {5 * 26 + 2 + 1, 5 * 26 + 2 + 16 + 1}},
                 {KV_Q4, 64, 288, {32 + 1 * 16 + 5, 0}, {5 * 18 + 2 + 1, 0}}};
    for (size_t c = 0; c < HARNESS_COUNT(cases); c++) {
        uint8_t none[544] = {0}, one[544] = {0};
        float x[32] = {[3] = -128}, y[32] = {[3] = -128, [17] = cases[c].x};
        assert_int_equal(dev_kv_group_bytes(cases[c].type, 32), cases[c].bytes);
        for (int is_value = 0; is_value < 2; is_value++) {
            if (is_value) kv_rotate(x, 32), kv_rotate(y, 32); /* put turns them back */
            (is_value ? kv_put_value : kv_put_key)(none, cases[c].type, 5, x, 32);
            (is_value ? kv_put_value : kv_put_key)(one, cases[c].type, 5, y, 32);
            const size_t *at = is_value ? cases[c].value_at : cases[c].key_at;
            for (size_t i = 0; i < cases[c].bytes; i++)
                assert_int_equal(none[i] != one[i], i == at[0] || (at[1] && i == at[1]));
            memset(none, 0, sizeof none);
            memset(one, 0, sizeof one);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotation_is_the_hadamard_matrix),     cmocka_unit_test(latents_turn_apart),
        cmocka_unit_test(tokens_come_back_and_disturb_nobody), cmocka_unit_test(odd_numbers_are_kept_or_told),
        cmocka_unit_test(planes_unpack_to_their_codes),        cmocka_unit_test(bytes_are_where_files_expect_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
