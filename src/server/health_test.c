/* health_test.c — when an engine counts as stalled, and what is remembered. */
#include "harness.h"
#include "health.h"
#include "metrics.h"
#include "models_impl.h"
#include "server.h"

static void test_stall(void **state) {
    health *h;
    qp_generator_stats stats = {.steps = 5};
    assert_int_equal(health_new(&h, 30, NULL), QP_OK);
    assert_false(health_look(h, &stats, 0, 1000)); /* idle for ever is well */
    assert_false(health_look(h, &stats, 0, 2000));
    assert_false(health_look(h, &stats, 1, 2001));
    assert_false(health_look(h, &stats, 1, 2029));
    assert_true(health_look(h, &stats, 1, 2031)); /* 31 s of work without a step */
    assert_true(health_is_stalled(h));
    assert_false(health_look(h, &stats, 1, 2040)); /* no news */
    stats.steps++;
    assert_true(health_look(h, &stats, 1, 2041));
    assert_false(health_is_stalled(h));
    for (int i = 0; i < 100; i++) {
        stats.steps++;
        assert_false(health_look(h, &stats, 1, 2041 + 29 * i)); /* slow steps are steps */
    }
    assert_false(health_look(h, NULL, 1, 1e6)); /* no model, nothing to stall */
    health_free(h);
}

/* What the engine says of its device is for good: that no more work comes does not heal it. */
static void test_loss(void **state) {
    health *h;
    config c = {.stall_timeout = 30, .fatal_grace = 5};
    qp_generator_stats stats = {.steps = 5};
    assert_int_equal(health_new(&h, 30, NULL), QP_OK);
    server s = {.config = &c, .health = h};
    health_look(h, &stats, 1, 1000);
    assert_true(health_lost_for(h, 1000) < 0);
    assert_false(server_is_lost(&s));
    stats.has_device_failed = true;
    assert_false(health_look(h, &stats, 1, 1001));
    stats.has_device_failed = false;
    stats.steps++;
    health_look(h, &stats, 0, 1003);
    health_look(h, NULL, 0, 1004);
    assert_true(health_lost_for(h, 1004) == 3);
    health_free(h);
}

/* Work that begins after a long rest has its whole time. */
static void test_after_a_rest(void **state) {
    health *h;
    const qp_generator_stats stats = {.steps = 5};
    assert_int_equal(health_new(&h, 30, NULL), QP_OK);
    health_look(h, &stats, 0, 1000);
    health_look(h, &stats, 0, 5000);
    assert_false(health_look(h, &stats, 3, 5001));
    assert_false(health_is_stalled(h));
    health_free(h);
}

static void test_issues(void **state) {
    config c = {.stall_timeout = 30};
    server s = {.config = &c};
    json_t *issues;
    assert_int_equal(health_new(&s.health, 30, NULL), QP_OK);
    assert_int_equal(metrics_new(&s.metrics, NULL), QP_OK);
    for (int i = 0; i < 150; i++) health_note(s.health, "issue %d", i);
    assert_false(health_is_ready(&s, &issues));
    assert_int_equal(json_array_size(issues), 101); /* what holds now, and the last 100 */
    assert_string_equal(json_string_value(json_object_get(json_array_get(issues, 0), "description")),
                        "No model is loaded");
    assert_string_equal(json_string_value(json_object_get(json_array_get(issues, 1), "description")), "issue 149");
    assert_string_equal(json_string_value(json_object_get(json_array_get(issues, 100), "description")), "issue 50");
    json_decref(issues);
    assert_int_equal(health_retry_after(&s), 1);
    atomic_store(&s.is_draining, true);
    assert_false(health_is_ready(&s, NULL));
    assert_int_equal(health_retry_after(&s), 5);
    metrics_free(s.metrics);
    health_free(s.health);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_after_a_rest),
        cmocka_unit_test(test_issues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
