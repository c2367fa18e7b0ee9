/* rng_test.c — Philox4x32-10 against the known-answer vectors published with Random123, and the uniform numbers. */
#include "rng.h"
#include "harness.h"

static void known_answers(void **state) {
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        const uint32_t *c = cases[i].counter, *k = cases[i].key;
        uint32_t out[4];
        rng_philox((uint64_t)k[1] << 32 | k[0], (uint64_t)c[3] << 32 | c[2], (uint64_t)c[1] << 32 | c[0], out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void uniform_is_the_top_53_bits(void **state) {
    assert_true(rng_uniform(0, 0, 0) == (double)(0x6627e8d5e169c58dull >> 11) / 9007199254740992.0);
    assert_true(rng_uniform(UINT64_MAX, UINT64_MAX, UINT64_MAX) ==
                (double)(0x408f276d41c83b0eull >> 11) / 9007199254740992.0);
}

/* Mean, variance and occupancy of 64 bins; the bounds are six standard deviations, so chance does not fail it. */
static void uniform_is_uniform(void **state) {
    enum { N = 1 << 18, BINS = 64 };
    int bins[BINS] = {0};
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < N; i++) {
        const double x = rng_uniform(42, i >> 9, i & 511);
        assert_true(x >= 0 && x < 1);
        sum += x;
        squares += x * x;
        bins[(int)(x * BINS)]++;
    }
    const double mean = sum / N, spread = squares / N - mean * mean;
    assert_true(mean > 0.5 - 0.0034 && mean < 0.5 + 0.0034);
    assert_true(spread > 1 / 12.0 - 0.001 && spread < 1 / 12.0 + 0.001);
    for (int i = 0; i < BINS; i++) assert_in_range(bins[i], 4096 - 384, 4096 + 384);
}

static void streams_differ(void **state) {
    assert_true(rng_uniform(1, 2, 3) == rng_uniform(1, 2, 3));
    assert_true(rng_uniform(1, 2, 3) != rng_uniform(2, 2, 3));
    assert_true(rng_uniform(1, 2, 3) != rng_uniform(1, 3, 3));
    assert_true(rng_uniform(1, 2, 3) != rng_uniform(1, 2, 4));
    assert_true(rng_uniform(1, 2, 3) != rng_uniform(1, 3, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(uniform_is_the_top_53_bits),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(streams_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
