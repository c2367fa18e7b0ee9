/* goldens.h — cases of tiny models with what the reference computed for them, and running them.
 *
 * Included by the tests of this folder that compare whole models; everything is static. */
#ifndef TESTS_GOLDEN_GOLDENS_H
#define TESTS_GOLDEN_GOLDENS_H

#include "quipu.h"
#include "base/json.h"
#include "base/mem.h"
#include "format/safetensors.h"
#include "harness.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct golden {
    char folder[512], name[64];
    double exact_bound, fast_bound, logits_std;
    int32_t short_ids[64], long_ids[256], greedy[64];
    double gaps[64];
    size_t n_short, n_long, n_greedy;
    safetensors file;
    const float *short_logits, *long_last;
    size_t n_short_rows, vocabulary; /* the last rows of the short prompt that are known */
} golden;

/* ---- reading ---- */

static inline size_t read_ids(const json_t *list, int32_t *out, size_t capacity) {
    const size_t n = json_array_size(list);
    assert_true(n && n <= capacity);
    for (size_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return n;
}

static inline const ckpt_tensor *tensor(const golden *g, const char *name) {
    for (size_t i = 0; i < g->file.n_tensors; i++)
        if (!strcmp(g->file.tensors[i].name, name)) return &g->file.tensors[i];
    return NULL;
}

static inline void read_golden(golden *g, const char *root, const json_t *entry) {
    char path[640];
    json_t *doc;
    const json_t *tolerance = json_object_get(entry, "tolerance");
    snprintf(g->name, sizeof g->name, "%s", json_string_value(json_object_get(entry, "name")));
    snprintf(g->folder, sizeof g->folder, "%s/%s", root, g->name);
    g->exact_bound = json_number_value(json_object_get(tolerance, "fp32_max_abs"));
    g->fast_bound = json_number_value(json_object_get(tolerance, "low_precision_rel_rmse"));
    g->logits_std = json_number_value(json_object_get(entry, "logits_std"));
    snprintf(path, sizeof path, "%s/goldens.json", g->folder);
    assert_int_equal(json_load_path(&doc, path, 1 << 20, NULL), QP_OK);
    g->n_short = read_ids(json_object_get(doc, "short_ids"), g->short_ids, 64);
    g->n_long = read_ids(json_object_get(doc, "long_ids"), g->long_ids, 256);
    g->n_greedy = read_ids(json_object_get(doc, "greedy_from_short"), g->greedy, 64);
    const json_t *gaps = json_object_get(doc, "greedy_runner_up_and_gap");
    for (size_t i = 0; i < g->n_greedy; i++) g->gaps[i] = json_number_value(json_array_get(json_array_get(gaps, i), 1));
    json_decref(doc);
    snprintf(path, sizeof path, "%s/goldens.safetensors", g->folder);
    assert_int_equal(safetensors_open(&g->file, path, NULL), QP_OK);
    const ckpt_tensor *all = tensor(g, "short_logits"), *last = tensor(g, "short_logits_last4"),
                      *rows = all ? all : last, *end = tensor(g, "long_last_logits");
    assert_non_null(rows);
    assert_non_null(end);
    g->short_logits = (const float *)(const void *)rows->data;
    g->n_short_rows = (size_t)rows->shape[0];
    g->vocabulary = (size_t)rows->shape[1];
    g->long_last = (const float *)(const void *)end->data;
}

/* ---- running ---- */

static inline qp_model *open_model(const golden *g, const char *level, int threads, qp_precision precision) {
    const qp_model_options o = {
        .size = sizeof o, .device = "cpu", .cpu_level = level, .threads = threads, .precision = precision};
    qp_model *m;
    qp_error err;
    if (qp_model_open(&m, g->folder, &o, &err) != QP_OK) fail_msg("%s", err.text);
    return m;
}

/* Feeds ids in pieces of `piece`; logits of the last `last` positions, freed by the caller. */
static inline float *logits_with(qp_cache_type type, const qp_model *m, const int32_t *ids, size_t n, size_t last,
                                 size_t piece, size_t vocabulary) {
    qp_sequence *s;
    qp_error err;
    float *out = mem_zarray(last * vocabulary, sizeof *out), *at = out;
    if (qp_sequence_new(&s, m, n, type, &err) != QP_OK) fail_msg("%s", err.text);
    for (size_t done = 0; done < n;) {
        const size_t count = n - done < piece ? n - done : piece, end = done + count;
        const size_t wanted = end > n - last ? (end - (n - last) < count ? end - (n - last) : count) : 0;
        const int32_t *part = ids + done;
        if (qp_forward(&s, &part, &count, &wanted, 1, at, &err) != QP_OK) fail_msg("%s", err.text);
        at += wanted * vocabulary;
        done = end;
    }
    qp_sequence_free(s);
    return out;
}

static inline float *logits_of(const qp_model *m, const int32_t *ids, size_t n, size_t last, size_t piece,
                               size_t vocabulary) {
    return logits_with(QP_CACHE_DEFAULT, m, ids, n, last, piece, vocabulary);
}

static inline double max_difference(const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        worst = d > worst || isnan(d) ? d : worst;
        if (isnan(d)) return INFINITY;
    }
    return worst;
}

static inline double relative_rmse(const float *a, const float *b, size_t n, double scale) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum / (double)n) / scale;
}

static inline void greedy_equals(const golden *g, const qp_model *m, const char *level) {
    qp_generator *gen;
    qp_job *job;
    qp_event event;
    qp_error err;
    const qp_job_options o = {
        .size = sizeof o, .ids = g->short_ids, .n_ids = g->n_short, .max_new_tokens = g->n_greedy, .ignore_eos = true};
    assert_int_equal(qp_generator_new(&gen, m, NULL, &err), QP_OK);
    assert_int_equal(qp_job_new(&job, gen, &o, &err), QP_OK);
    size_t n = 0;
    while (qp_job_next(job, &event, &err) == QP_OK && event.kind != QP_EVENT_END)
        for (size_t i = 0; i < event.n_ids; i++, n++) {
            if (event.ids[i] != g->greedy[n])
                fail_msg("%s %s: greedy id %zu is %d, expected %d", g->name, level, n, event.ids[i], g->greedy[n]);
            if (g->gaps[n] < 1e-3) goto done; /* too close to call: what follows may differ */
        }
    assert_int_equal(n, g->n_greedy);
    assert_int_equal(event.finish, QP_FINISH_LENGTH);
done:
    qp_job_free(job);
    qp_generator_free(gen);
}

/* ---- folders of the same weights ---- */

enum { FOLDER_ROWS = 20 };

static inline float *folder_logits(const char *folder, const char *level, qp_precision precision, size_t *vocabulary) {
    const qp_model_options o = {
        .size = sizeof o, .device = "cpu", .cpu_level = level, .threads = 2, .precision = precision};
    qp_model *m;
    qp_model_info info;
    qp_error err;
    int32_t ids[FOLDER_ROWS];
    for (int i = 0; i < FOLDER_ROWS; i++) ids[i] = i * 7 % 90;
    if (qp_model_open(&m, folder, &o, &err)) fail_msg("%s", err.text);
    qp_model_get_info(m, &info);
    *vocabulary = (size_t)info.vocabulary;
    float *out = logits_of(m, ids, FOLDER_ROWS, FOLDER_ROWS, 1 << 20, *vocabulary);
    qp_model_close(m);
    return out;
}

/* Exact precision gives the same bits for a quantised folder and a plain one, fast precision is near. */
static inline void compare_folders(const char *quantised, const char *plain, const char *level) {
    size_t n;
    float *expected = folder_logits(plain, level, QP_PRECISION_EXACT, &n),
          *exact = folder_logits(quantised, level, QP_PRECISION_EXACT, &n),
          *fast = folder_logits(quantised, level, QP_PRECISION_FAST, &n);
    double scale = 0;
    for (size_t i = 0; i < FOLDER_ROWS * n; i++) scale += (double)expected[i] * (double)expected[i];
    scale = sqrt(scale / (double)(FOLDER_ROWS * n));
    assert_memory_equal(exact, expected, FOLDER_ROWS * n * sizeof *exact);
    const double off = relative_rmse(fast, expected, FOLDER_ROWS * n, scale);
    if (!(off <= 0.06)) fail_msg("%s, %s: fast is off by %g", quantised, level, off);
    mem_free(expected);
    mem_free(exact);
    mem_free(fast);
}

#endif
