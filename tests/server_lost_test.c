/* server_lost_test.c — a device that fails for good: what runs ends with an error, the server says that it is not well,
 * and asks to be ended after fatal_grace.
 *
 * No device can be made to fail at will, so the linker puts a function before qp_generator_get_stats (--wrap in
 * CMakeLists.txt) that says what an engine says after a step that failed. */
#include "server_here.h"
#include "quipu.h"
#include "base/clock.h"
#include <stdatomic.h>

static atomic_bool has_failed;

void __real_qp_generator_get_stats(const qp_generator *generator, qp_generator_stats *stats);
void __wrap_qp_generator_get_stats(const qp_generator *generator, qp_generator_stats *stats);

void __wrap_qp_generator_get_stats(const qp_generator *generator, qp_generator_stats *stats) {
    __real_qp_generator_get_stats(generator, stats);
    stats->has_device_failed = atomic_load(&has_failed);
}

static void wait_until_lost(const server_here *h) {
    for (const double end = clock_now() + 30; !server_is_lost(h->server) && clock_now() < end;) usleep(10000);
    assert_true(server_is_lost(h->server));
}

static void test_lost_device(void **state) {
    enum { ROOM = 4 << 20, LITTLE = 4096 };
    char said[LITTLE] = "", refused[LITTLE] = "", *answer = calloc(ROOM, 1);
    server_here h;
    assert_non_null(answer);
    server_here_open(&h, true);
    h.settings.fatal_grace = 0.2;
    const int fd = server_here_connect(&h), whole = server_here_connect(&h), other = server_here_connect(&h);
    server_here_ask(fd, "POST /v1/completions",
                    "{\"prompt\":\"Once upon a time\",\"max_tokens\":1900,\"stream\":true,\"ignore_eos\":true,"
                    "\"loop_detect_window\":0}");
    server_here_ask(whole, "POST /v1/completions",
                    "{\"prompt\":\"Once upon a time\",\"max_tokens\":1900,\"ignore_eos\":true,"
                    "\"loop_detect_window\":0}");
    assert_true(server_here_read(fd, answer, ROOM, "data: {"));
    assert_false(server_is_lost(h.server));
    atomic_store(&has_failed, true);
    /* A stream ends with the error as an event, a whole answer is the error. */
    assert_true(server_here_read(fd, answer, ROOM, "data: [DONE]\n\n"));
    assert_non_null(strstr(answer, "{\"error\":{\"message\":\"the device has failed\",\"type\":\"server_error\""));
    assert_true(server_here_read(whole, refused, LITTLE, "}}"));
    assert_ptr_equal(strstr(refused, "HTTP/1.1 500 "), refused);
    assert_non_null(strstr(refused, "\"message\":\"the device has failed\""));
    wait_until_lost(&h);
    server_here_ask(other, "GET /health", NULL);
    assert_true(server_here_read(other, said, LITTLE, "]}"));
    assert_ptr_equal(strstr(said, "HTTP/1.1 503 "), said);
    assert_non_null(strstr(said, "The device has failed"));
    close(fd);
    close(whole);
    close(other);
    server_here_close(&h);
    free(answer);
}

int main(void) {
    if (access(QUIPU_SOURCE "/models/demo/model.safetensors", R_OK)) return puts("SKIP: no demo model"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lost_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
