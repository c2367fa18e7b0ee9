/* route_test.c — paths and methods to rows, and the table itself. */
#include "harness.h"
#include "route.h"

static const struct {
    http_method method;
    const char *path, *row, *parameter, *allowed;
} cases[] = {
    {HTTP_GET, "/v1/models", "/v1/models", NULL, NULL},
    {HTTP_GET, "/models", "/v1/models", NULL, NULL},
    {HTTP_GET, "/v1/models/", "/v1/models", NULL, NULL},
    {HTTP_GET, "/v1/models/demo", "/v1/models/{id}", "demo", NULL},
    {HTTP_GET, "/models/org/name", "/v1/models/{id}", "org/name", NULL},
    {HTTP_GET, "/v1/model/list", "/v1/model/list", NULL, NULL},
    {HTTP_DELETE, "/v1/jobs/x-1", "/v1/jobs/{id}", "x-1", NULL},
    {HTTP_GET, "/health", "/health", NULL, NULL},
    {HTTP_GET, "/v1/health", "/v1/health", NULL, NULL},
    {HTTP_GET, "/", "/", NULL, NULL},
    {HTTP_GET, "/v1/jobs/x", NULL, NULL, "DELETE"},
    {HTTP_POST, "/v1/models", NULL, NULL, "GET"},
    {HTTP_OTHER, "/v1/models", NULL, NULL, "GET"},
    {HTTP_GET, "/v2/models", NULL, NULL, ""},
    {HTTP_GET, "/v1/v1/models", NULL, NULL, ""},
    {HTTP_GET, "/v1", NULL, NULL, ""},
    {HTTP_GET, "v1/models", NULL, NULL, ""},
    {HTTP_GET, "", NULL, NULL, ""},
    {HTTP_GET, "/v1/MODELS", NULL, NULL, ""},
    {HTTP_GET, "/v1/modelsx", NULL, NULL, ""},
};

static void test_find(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        const char *parameter;
        unsigned allowed;
        char methods[64];
        const route_row *row = route_find(cases[i].method, cases[i].path, &parameter, &allowed);
        if ((row != NULL) != (cases[i].row != NULL)) fail_msg("%s", cases[i].path);
        if (row) assert_string_equal(row->path, cases[i].row);
        if (cases[i].parameter)
            assert_string_equal(parameter, cases[i].parameter);
        else
            assert_null(parameter);
        route_methods(methods, sizeof methods, allowed);
        if (!row) assert_string_equal(methods, cases[i].allowed);
    }
}

/* No row hides another, and what changes the server is the admin's. */
static void test_table(void **state) {
    static const char *const admins[] = {"/v1/model/load",      "/v1/model/unload",
                                         "/v1/lora/load",       "/v1/template/switch",
                                         "/v1/template/unload", "/v1/sampling/override/switch",
                                         "/admin/drain",        "/admin/log-level",
                                         "/v1/download",        "/v1/sampling/override/unload"};
    for (const route_row *row = route_rows; row < route_rows + route_count; row++) {
        const char *parameter;
        unsigned allowed;
        assert_true(row->path[0] == '/' && row->handler != NULL);
        if (!strchr(row->path, '{')) assert_ptr_equal(route_find(row->method, row->path, &parameter, &allowed), row);
    }
    for (size_t i = 0; i < HARNESS_COUNT(admins); i++) {
        const char *parameter;
        unsigned allowed;
        const route_row *row = route_find(HTTP_POST, admins[i], &parameter, &allowed);
        assert_non_null(row);
        assert_int_equal(row->access, ACCESS_ADMIN);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_find), cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
