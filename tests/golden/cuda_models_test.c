/* cuda_models_test.c — whole models on a GPU against the reference's logits and greedy continuations.
 *
 * Every case of tests/golden/models and of QUIPU_FIXTURES: exact precision within the case's float32 bound, fast
 * precision within its 16-bit bound, and the same bits however the prompt is cut. All cases run and give a line each
 * before the test says whether one was wrong. Skipped where there is no GPU; cuda_ops_test.c then still runs the
 * kernels. */
#include "cuda_harness.h"
#include "goldens.h"

static qp_model *open_on_gpu(const golden *g, qp_precision precision) {
    const qp_model_options o = {.size = sizeof o, .device = "cuda", .precision = precision};
    qp_model *m;
    qp_error err;
    if (qp_model_open(&m, g->folder, &o, &err) == QP_OK) return m;
    printf("%s: %s\n", g->name, err.text);
    return NULL;
}

/* The short prompt whole and in pieces; the greatest difference or relative error, infinite where bits differ. */
static double try_prompt(const golden *g, const qp_model *m, qp_precision precision) {
    const size_t n = g->n_short_rows * g->vocabulary;
    float *whole = logits_of(m, g->short_ids, g->n_short, g->n_short_rows, 1 << 20, g->vocabulary);
    float *cut = logits_of(m, g->short_ids, g->n_short, g->n_short_rows, 7, g->vocabulary);
    double off = precision == QP_PRECISION_EXACT ? max_difference(whole, g->short_logits, n)
                                                 : relative_rmse(whole, g->short_logits, n, g->logits_std);
    if (memcmp(whole, cut, n * sizeof *whole)) {
        printf("%s: other bits for a prompt in pieces, up to %g\n", g->name, max_difference(whole, cut, n));
        off = (double)INFINITY;
    }
    mem_free(whole);
    mem_free(cut);
    return off;
}

static bool try_case(const golden *g) {
    qp_model *exact = open_on_gpu(g, QP_PRECISION_EXACT);
    if (!exact) return false;
    const double off = try_prompt(g, exact, QP_PRECISION_EXACT);
    float *end = logits_of(exact, g->long_ids, g->n_long, 1, 1 << 20, g->vocabulary);
    const double off_long = max_difference(end, g->long_last, g->vocabulary);
    mem_free(end);
    const bool is_right = off <= g->exact_bound && off_long <= g->exact_bound;
    if (is_right) greedy_equals(g, exact, "cuda");
    qp_model_close(exact);
    qp_model *fast = open_on_gpu(g, QP_PRECISION_FAST);
    if (!fast) return false;
    const double relative = try_prompt(g, fast, QP_PRECISION_FAST);
    qp_model_close(fast);
    printf("%-28s exact %8.2g and %8.2g of %8.2g, fast %8.2g of %8.2g%s\n", g->name, off, off_long, g->exact_bound,
           relative, g->fast_bound, is_right && relative <= g->fast_bound ? "" : "   WRONG");
    fflush(stdout);
    return is_right && relative <= g->fast_bound;
}

/* Returns how many cases were wrong. */
static int try_list(const char *root, int *count) {
    char path[512];
    json_t *cases;
    int wrong = 0;
    snprintf(path, sizeof path, "%s/cases.json", root);
    if (json_load_path(&cases, path, 1 << 20, NULL) != QP_OK) {
        printf("SKIP: no cases in %s\n", root);
        return 0;
    }
    const json_t *list = json_object_get(cases, "cases");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        golden g = {0};
        snprintf(path, sizeof path, "%s/%.64s/goldens.json", root, name);
        if (access(path, R_OK) || json_object_get(entry, "base_model")) continue; /* left out, or an adapter */
        read_golden(&g, root, entry);
        wrong += !try_case(&g);
        ++*count;
        safetensors_close(&g.file);
    }
    json_decref(cases);
    return wrong;
}

static void models_equal_the_reference(void **state) {
    int count = 0;
    if (!cuda_has_gpu()) HARNESS_SKIP("no GPU that this build can use");
    const int wrong =
        try_list(QUIPU_SOURCE "/tests/golden/models", &count) + try_list(QUIPU_FIXTURES "/models", &count);
    if (wrong) fail_msg("%d of %d models are wrong", wrong, count);
    assert_true(count > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_equal_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
