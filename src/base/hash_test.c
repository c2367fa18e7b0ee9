/* hash_test.c — XXH3's published value for the empty input, sensitivity to every byte, to length and to the seed; and
 * the small neighbours that need no file of their own: clock and log. */
#include "clock.h"
#include "hash.h"
#include "log.h"
#include "harness.h"

static void hashes(void **state) {
    uint8_t bytes[300] = {0};
    assert_int_equal(hash_bytes("", 0, 0), 0x2d06800538d394c2ull);
    const uint64_t base = hash_bytes(bytes, sizeof bytes, 1);
    assert_int_equal(base, hash_bytes(bytes, sizeof bytes, 1));
    assert_int_not_equal(base, hash_bytes(bytes, sizeof bytes, 2));
    assert_int_not_equal(base, hash_bytes(bytes, sizeof bytes - 1, 1));
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        assert_int_not_equal(base, hash_bytes(bytes, sizeof bytes, 1));
        bytes[i] = 0;
    }
}

static void clock_goes_on(void **state) {
    const double start = clock_now();
    double last = start;
    for (int i = 0; i < 1000; i++) {
        const double now = clock_now();
        assert_true(now >= last);
        last = now;
    }
    usleep(2000);
    assert_true(clock_now() - start >= 0.002 && clock_now() - start < 60);
}

static void keep_line(void *user, qp_log_level level, const char *line) {
    snprintf(user, 2000, "%d %s", (int)level, line);
}

static void logs_one_line(void **state) {
    char got[2000] = "";
    const qp_log log = {keep_line, got};
    log_line(&log, QP_LOG_WARN, "%s %d", "layers", 3);
    char want[64];
    snprintf(want, sizeof want, "%d layers 3", (int)QP_LOG_WARN);
    assert_string_equal(got, want);
    log_line(&log, QP_LOG_WARN, "%1500s", "x");
    assert_int_equal(strlen(got), 1023 + 2);
    log_line(NULL, QP_LOG_WARN, "nobody hears this");
    log_line(&(qp_log){0}, QP_LOG_WARN, "nor this");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hashes), cmocka_unit_test(clock_goes_on),
                                       cmocka_unit_test(logs_one_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
