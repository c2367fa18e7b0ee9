/* arch_test.c — every architecture of the fixtures against the reference's logits and greedy continuations.
 *
 * Each case is fed in one pass, in chunks and token by token, with one thread and with two: in exact precision all of
 * those give the same bits, within the case's float32 bound of the reference; in fast precision they stay within the
 * 16-bit bound. The other instruction levels are tried on the cases of models_test.c and by the tests of src/dev. */
#include "goldens.h"

static const size_t pieces[] = {1 << 20, 64, 7, 1};

/* Rotation that hangs on the length of the sequence sees another length when the prompt comes in pieces. */
static bool depends_on_length(const golden *g) {
    static const char *const names[] = {"llama-rope-dynamic", "llama-rope-longrope", "internlm3", "phi3-longrope"};
    for (size_t i = 0; i < HARNESS_COUNT(names); i++)
        if (!strcmp(names[i], g->name)) return true;
    return false;
}

static void short_prompt(const golden *g, const qp_model *m, float **first) {
    const size_t n = g->n_short_rows * g->vocabulary;
    for (size_t p = 0; p < HARNESS_COUNT(pieces); p++) {
        float *a = logits_of(m, g->short_ids, g->n_short, g->n_short_rows, pieces[p], g->vocabulary);
        if (*first) {
            if (memcmp(a, *first, n * sizeof *a)) fail_msg("%s: pieces of %zu give other bits", g->name, pieces[p]);
            mem_free(a);
            continue;
        }
        *first = a;
    }
}

static void long_prompt(const golden *g, const qp_model *m, float **first) {
    for (size_t p = 0; p < HARNESS_COUNT(pieces) && (p == 0 || !depends_on_length(g)); p++) {
        float *a = logits_of(m, g->long_ids, g->n_long, 1, pieces[p], g->vocabulary);
        if (*first) {
            if (memcmp(a, *first, g->vocabulary * sizeof *a))
                fail_msg("%s: pieces of %zu of the long prompt give other bits", g->name, pieces[p]);
            mem_free(a);
            continue;
        }
        *first = a;
    }
}

static void exact_equals(const golden *g) {
    float *brief = NULL, *end = NULL;
    for (int threads = 1; threads <= 2; threads++) {
        qp_model *m = open_model(g, NULL, threads, QP_PRECISION_EXACT);
        short_prompt(g, m, &brief);
        long_prompt(g, m, &end);
        greedy_equals(g, m, "best");
        qp_model_close(m);
    }
    const double off = max_difference(brief, g->short_logits, g->n_short_rows * g->vocabulary);
    const double off_long = max_difference(end, g->long_last, g->vocabulary);
    printf("%-24s exact: off by %.2g and %.2g, allowed %.2g", g->name, off, off_long, g->exact_bound);
    if (!(off <= g->exact_bound) || !(off_long <= g->exact_bound))
        fail_msg("%s: off by %g (short) and %g (long), allowed %g", g->name, off, off_long, g->exact_bound);
    mem_free(brief);
    mem_free(end);
}

static void fast_is_close(const golden *g) {
    const size_t n = g->n_short_rows * g->vocabulary;
    float *first = NULL;
    qp_model *m = open_model(g, NULL, 2, QP_PRECISION_FAST);
    short_prompt(g, m, &first);
    const double off = relative_rmse(first, g->short_logits, n, g->logits_std);
    printf("; fast: %.2g, allowed %.2g\n", off, g->fast_bound);
    if (!(off <= g->fast_bound)) fail_msg("%s: relative error %g, allowed %g", g->name, off, g->fast_bound);
    mem_free(first);
    qp_model_close(m);
}

static void every_case_equals_the_reference(void **state) {
    json_t *cases;
    const char *root = QUIPU_FIXTURES "/models", *only = getenv("QUIPU_CASE");
    if (json_load_path(&cases, QUIPU_FIXTURES "/models/cases.json", 1 << 20, NULL) != QP_OK)
        HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    const json_t *list = json_object_get(cases, "cases");
    assert_true(json_array_size(list) >= 40);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!strncmp(name, "lora-", 5) || (only && strcmp(only, name))) continue;
        golden g = {0};
        read_golden(&g, root, entry);
        exact_equals(&g);
        fast_is_close(&g);
        safetensors_close(&g.file);
    }
    json_decref(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_equals_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
