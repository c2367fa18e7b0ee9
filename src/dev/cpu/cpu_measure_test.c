/* cpu_measure_test.c — every level this machine has is measured; wrong levels and missing memory are errors. */
#include "base/mem.h"
#include "dev/dev.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void assert_sound(const qp_measure *m) {
    assert_true(m->name[0] && m->unit[0]);
    assert_true(m->lowest > 0 && m->lowest <= m->median && m->median <= m->highest);
}

static void every_level_has_limits(void **state) {
    for (int i = 0; dev_cpu_level(i); i++) {
        if (!dev_cpu_level_available(dev_cpu_level(i))) {
            print_message("SKIP: this processor has no %s\n", dev_cpu_level(i));
            continue;
        }
        const dev_measure_options options = {.cpu_level = dev_cpu_level(i), .threads = 2, .seconds = 0.01};
        qp_measure all[16];
        int count, n_best = 0, n_best_whole = 0;
        assert_int_equal(dev_measure_compute(all, 16, &count, &options, NULL), QP_OK);
        assert_in_range(count, 1, 15);
        for (int j = 0; j < count; j++) {
            assert_sound(&all[j]);
            n_best += all[j].is_best, n_best_whole += all[j].is_best_whole;
            assert_true(!all[j].is_best_whole || !strcmp(all[j].unit, "GOP/s"));
        }
        assert_int_equal(n_best, 1);
        const bool is_floats = !strcmp(options.cpu_level, "ref") || !strcmp(options.cpu_level, "neon");
        assert_int_equal(n_best_whole, is_floats ? 0 : 1);
        assert_int_equal(dev_measure_compute(all, 1, &count, &options, NULL), QP_OK);
        assert_int_equal(count, 1);
    }
}

static void reading_is_measured(void **state) {
    qp_measure read;
    const dev_measure_options options = {.threads = 2, .seconds = 0.01};
    assert_int_equal(dev_measure_bandwidth(&read, &options, NULL), QP_OK);
    assert_sound(&read);
    assert_string_equal(read.name, "read");
}

static void errors_are_told(void **state) {
    qp_measure read;
    qp_error err;
    const dev_measure_options wrong = {.cpu_level = "avx3"};
    assert_int_equal(dev_measure_bandwidth(&read, &wrong, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "'avx3' is none, this machine has: ref"));
    const dev_measure_options options = {.threads = 1, .seconds = 0.001};
    for (int n = 0; n < 3; n++) {
        mem_fail_after(n);
        const qp_status status = dev_measure_bandwidth(&read, &options, &err);
        mem_fail_after(-1);
        assert_int_equal(status, QP_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_has_limits),
        cmocka_unit_test(reading_is_measured),
        cmocka_unit_test(errors_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
