/* sweep_test.c — the loops over all logits: the same bits from every instruction set, and what plain C says. */
#include "candidates.h"
#include "num.h"
#include "base/rng.h"
#include "harness.h"

enum { MOST = 70000 };

typedef struct field {
    float logits[MOST], peaks[ROW_MOST_GROUPS], masses[ROW_MOST_GROUPS], copies[MOST + 2 * ROW_BLOCK];
    uint8_t homes[MOST / ROW_BLOCK + 1];
    uint32_t open[MOST / 32 + 1], mask[MOST / 32 + 1];
    int32_t ids[MOST + ROW_BLOCK];
    float values[MOST + ROW_BLOCK], p[MOST + ROW_BLOCK];
} field;

static double uniform(uint64_t a, uint64_t b) { return rng_uniform(5, a, b); }

static const int sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 32768, 32769, 65535, 65537, MOST};
static const softmax_curve curves[] = {{0, 1.7f, 0}, {0, 0, -0.3f}, {0, 40, 0}, {0, 1e-3f, 0}};

/* What the loops should see: the open values, some of them changed. */
static logit_row make(field *f, int n, uint64_t trial, float *seen) {
    for (int i = 0; i < n; i++) f->logits[i] = (float)(30 * uniform(trial, (uint64_t)i) - 15);
    if (trial % 3 == 1) f->logits[n / 2] = NAN, f->logits[0] = -INFINITY;
    memset(f->open, 0xFF, sizeof f->open);
    f->open[n / 32] &= n % 32 ? (1u << (n % 32)) - 1 : UINT32_MAX;
    for (int b = 0; b < row_blocks(n); b++) {
        const double dice = uniform(trial + 100, (uint64_t)b);
        f->mask[b] = dice < 0.2 ? 0 : dice < 0.5 ? (uint32_t)(dice * 1e9) : UINT32_MAX;
    }
    logit_row r = {.homes = f->homes, .copies = f->copies, .peaks = f->peaks};
    row_begin(&r, f->logits, n, f->open, trial % 2 ? f->mask : NULL);
    for (int i = 0; i < n; i++) seen[i] = trial % 2 && !row_bit(f->mask, i) ? -INFINITY : f->logits[i];
    for (int i = n / 3; i < n; i += 1 + n / 7) {
        float *value = row_touch(&r, i);
        if (value && *value > -INFINITY) *value = seen[i] = seen[i] + 2;
        row_forbid(&r, i / 2);
        seen[i / 2] = -INFINITY;
    }
    return r;
}

static void peaks_are_the_greatest(const logit_row *r, const float *seen) {
    float highest = -INFINITY;
    for (int g = 0; g < r->n_groups; g++) {
        float peak = -INFINITY;
        for (int i = g * r->group * ROW_BLOCK; i < (g + 1) * r->group * ROW_BLOCK && i < r->n; i++)
            peak = seen[i] > peak ? seen[i] : peak;
        assert_true(peak == r->peaks[g]);
        highest = peak > highest ? peak : highest;
    }
    assert_true(highest == r->highest);
}

static void masses_are_right(const sweep_ops *ops, field *f, const logit_row *r, softmax_curve c, const float *seen) {
    c.highest = r->highest;
    double wanted = 0;
    for (int i = 0; i < r->n; i++) {
        const double d = (double)seen[i] - c.highest, x = d * (c.slope + d * c.bend);
        if (x > EXP2_LEAST) wanted += exp2(x);
    }
    const double mass = ops->masses(f->masses, r, &c);
    if (!(fabs(mass - wanted) <= 2e-6 * wanted)) fail_msg("%s: %.9g, expected %.9g", ops->name, mass, wanted);
}

static void gathering_finds_all(const sweep_ops *ops, field *f, const logit_row *r, float floor, const float *seen) {
    const int n = ops->gather(f->ids, f->values, r, floor);
    int k = 0;
    for (int i = 0; i < r->n; i++) {
        if (!(seen[i] >= floor)) continue;
        assert_true(k < n);
        assert_int_equal(f->ids[k], i);
        assert_true(f->values[k++] == seen[i]);
    }
    assert_int_equal(k, n);
}

static void loops_do_what_plain_ones_do(void **state) {
    static field f;
    static float seen[MOST];
    for (size_t s = 0; s < HARNESS_COUNT(sizes); s++) {
        for (uint64_t trial = 0; trial < 6; trial++) {
            logit_row r = make(&f, sizes[s], trial, seen);
            for (const sweep_ops *const *ops = sweep_usable(); *ops; ops++) {
                (*ops)->peaks(&r);
                peaks_are_the_greatest(&r, seen);
                if (!(r.highest > -INFINITY)) continue;
                for (size_t c = 0; c < HARNESS_COUNT(curves); c++) masses_are_right(*ops, &f, &r, curves[c], seen);
                gathering_finds_all(*ops, &f, &r, r.highest - 3, seen);
                gathering_finds_all(*ops, &f, &r, -FLT_MAX, seen);
            }
        }
    }
}

static uint64_t fold(uint64_t hash, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    return hash;
}

static uint64_t all_bits(const sweep_ops *ops, field *f, logit_row *r) {
    ops->peaks(r);
    softmax_curve c = {r->highest, 1.3f, -0.01f};
    const double mass = ops->masses(f->masses, r, &c);
    const int n = ops->gather(f->ids, f->values, r, -FLT_MAX);
    ops->powers(f->p, f->values, n, &c);
    uint64_t hash = fold(0, &mass, sizeof mass);
    hash = fold(hash, f->masses, (size_t)r->n_groups * sizeof(float));
    hash = fold(hash, f->p, (size_t)n * sizeof(float));
    hash = fold(hash, f->values, (size_t)n * sizeof(float));
    for (int i = 0; i < n; i++) assert_true(f->p[i] == num_exp2_below(f->values[i]));
    return hash;
}

static void instruction_sets_agree_to_the_bit(void **state) {
    static field f;
    static float seen[MOST];
    const sweep_ops *const *usable = sweep_usable();
    if (!usable[1]) HARNESS_SKIP("this machine has one instruction set only");
    for (size_t s = 0; s < HARNESS_COUNT(sizes); s++) {
        for (uint64_t trial = 0; trial < 6; trial++) {
            logit_row r = make(&f, sizes[s], trial, seen);
            const uint64_t hash = all_bits(usable[0], &f, &r);
            for (int k = 1; usable[k]; k++) assert_int_equal(all_bits(usable[k], &f, &r), hash);
        }
    }
}

static void a_row_as_it_is_has_no_homes(void **state) {
    static field f;
    static float seen[MOST];
    for (size_t s = 0; s < HARNESS_COUNT(sizes); s++) {
        const int n = sizes[s];
        for (int i = 0; i < n; i++) seen[i] = f.logits[i] = (float)uniform(9, (uint64_t)i);
        float *exact = malloc((size_t)n * sizeof *exact); /* a sanitizer sees a read behind it */
        memcpy(exact, f.logits, (size_t)n * sizeof *exact);
        logit_row r = row_plain(exact, n, f.peaks);
        sweep_best()->peaks(&r);
        peaks_are_the_greatest(&r, seen);
        masses_are_right(sweep_best(), &f, &r, curves[0], seen);
        gathering_finds_all(sweep_best(), &f, &r, 0.5f, seen);
        free(exact);
    }
}

static void a_floor_lets_enough_through(void **state) {
    static field f;
    static float seen[MOST];
    static uint32_t keys[MOST];
    static int32_t scratch[MOST];
    candidate_list c = {.keys = keys, .scratch = scratch, .p = f.p};
    for (size_t s = 0; s < HARNESS_COUNT(sizes); s++) {
        logit_row r = make(&f, sizes[s], 3, seen);
        sweep_best()->peaks(&r);
        for (int k = 1; k <= 300; k += 13) {
            const float floor = candidates_floor_of_rank(&c, &r, k);
            const int n = sweep_best()->gather(f.ids, f.values, &r, floor);
            const int all = sweep_best()->gather(f.ids, f.values, &r, -FLT_MAX);
            assert_true(n >= (k < all ? k : all));
        }
        for (double share = 0.05; share < 1; share += 0.1) {
            const softmax_curve curve = {r.highest, 2, 0};
            const double mass = sweep_best()->masses(f.masses, &r, &curve);
            c.n = sweep_best()->gather(f.ids, f.values, &r, candidates_floor_of_mass(&c, &r, &curve, share * mass));
            sweep_best()->powers(f.p, f.values, c.n, &curve);
            candidates_add_up(&c);
            assert_true(c.sum >= share * mass * (1 - 1e-6));
        }
    }
}

/* ---- num.h ---- */

static void powers_and_logarithms_are_exact_enough(void **state) {
    for (int i = 0; i <= 200000; i++) {
        const float x = -125.0f * (float)i / 200000;
        const double power = num_exp2_below(x);
        assert_true(i == 200000 ? power == 0 : fabs(power / exp2(x) - 1) < 4e-7);
        const double y = (double)x * 8 + 500;
        assert_true(fabs(num_exp2(y) / exp2(y) - 1) < 1e-14);
        const double z = exp2(y) * (1 + uniform(1, (uint64_t)i));
        assert_true(fabs(num_ln(z) - log(z)) <= 1e-15 * fabs(log(z)) + 1e-16);
    }
    assert_true(num_exp2_below(0) == 1 && num_exp2_below(-INFINITY) == 0 && num_exp2_below(NAN) == 0);
    assert_true(num_ln(1) == 0 && num_exp2(0) == 1 && num_exp2(-2000) == 0 && num_exp2(2000) == exp2(1000));
    assert_true(num_exp2(NAN) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_do_what_plain_ones_do),
        cmocka_unit_test(instruction_sets_agree_to_the_bit),
        cmocka_unit_test(a_row_as_it_is_has_no_homes),
        cmocka_unit_test(a_floor_lets_enough_through),
        cmocka_unit_test(powers_and_logarithms_are_exact_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
