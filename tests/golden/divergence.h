/* divergence.h — how far one model's predictions are from another's over text that neither has seen.
 *
 * For the tests of quantised weights and caches; the text and the trained model are fixtures. Everything is static. */
#ifndef TESTS_GOLDEN_DIVERGENCE_H
#define TESTS_GOLDEN_DIVERGENCE_H

#include "goldens.h"

#define EXL2_FOLDER QUIPU_FIXTURES "/exl2"

enum { VOCABULARY = 2048, FAST_WINDOWS = HARNESS_TIMES(8) };

/* Of how many tokens `fast` must find the best one that `exact` finds, over FAST_WINDOWS windows. */
static const double LEAST_SAME_BEST = 0.99;

static inline qp_model *open_path(const char *path, const char *level, qp_precision precision) {
    const qp_model_options o = {
        .size = sizeof o, .device = "cpu", .cpu_level = level, .threads = 2, .precision = precision};
    qp_model *m;
    qp_error err;
    if (qp_model_open(&m, path, &o, &err) != QP_OK) fail_msg("%s", err.text);
    return m;
}

static inline double kl_of(const float *p, const float *q, size_t n) {
    double p_most = -INFINITY, q_most = -INFINITY, p_sum = 0, q_sum = 0, kl = 0;
    for (size_t i = 0; i < n; i++) {
        p_most = fmax(p_most, (double)p[i]);
        q_most = fmax(q_most, (double)q[i]);
    }
    for (size_t i = 0; i < n; i++) {
        p_sum += exp((double)p[i] - p_most);
        q_sum += exp((double)q[i] - q_most);
    }
    for (size_t i = 0; i < n; i++) {
        const double lp = (double)p[i] - p_most - log(p_sum), lq = (double)q[i] - q_most - log(q_sum);
        kl += exp(lp) * (lp - lq);
    }
    return kl;
}

static inline size_t best_of(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

typedef struct divergence {
    double kl, same_best;
} divergence;

/* Mean over `windows` windows of 512 tokens of unseen text. */
static inline divergence diverge(const qp_model *a, const qp_model *b, qp_cache_type b_cache, const int32_t *ids,
                                 int windows) {
    enum { WINDOW = 512 };
    divergence d = {0, 0};
    for (int w = 0; w < windows; w++) {
        float *x = logits_of(a, ids + w * WINDOW, WINDOW, WINDOW, 1 << 20, VOCABULARY);
        float *y = logits_with(b_cache, b, ids + w * WINDOW, WINDOW, WINDOW, 1 << 20, VOCABULARY);
        for (size_t row = 0; row < WINDOW; row++) {
            const float *p = x + row * VOCABULARY, *q = y + row * VOCABULARY;
            d.kl += kl_of(p, q, VOCABULARY) / (WINDOW * windows);
            d.same_best += (double)(best_of(p, VOCABULARY) == best_of(q, VOCABULARY)) / (WINDOW * windows);
        }
        mem_free(x);
        mem_free(y);
    }
    return d;
}

/* Rounded to some format, in the file or folder `path`, the trained model `plain` must still be itself, and `fast`
 * close to it. */
static inline void check_rounded(const qp_model *plain, const char *path, const char *format, const int32_t *ids) {
    qp_model *exact = open_path(path, NULL, QP_PRECISION_EXACT);
    qp_model *fast = open_path(path, NULL, QP_PRECISION_FAST);
    const divergence rounding = diverge(plain, exact, QP_CACHE_DEFAULT, ids, 1);
    const divergence d = diverge(exact, fast, QP_CACHE_DEFAULT, ids, FAST_WINDOWS);
    print_message("%s: KL of the rounding %.4f; of fast %.6f, same best %.2f %%\n", format, rounding.kl, d.kl,
                  100 * d.same_best);
    assert_true(rounding.kl < 0.5);
    assert_true(d.kl <= 0.0002);
    assert_true(d.same_best >= LEAST_SAME_BEST);
    qp_model_close(exact);
    qp_model_close(fast);
}

static inline int32_t *unseen_text(void) {
    safetensors text;
    assert_int_equal(safetensors_open(&text, EXL2_FOLDER "/validation_ids.safetensors", NULL), QP_OK);
    const ckpt_tensor *t = &text.tensors[0];
    int32_t *ids = mem_array(t->bytes / 2, sizeof *ids);
    for (size_t i = 0; i < (size_t)t->shape[0]; i++)
        ids[i] = t->type == DTYPE_I32 ? ((const int32_t *)(const void *)t->data)[i]
                                      : ((const uint16_t *)(const void *)t->data)[i];
    safetensors_close(&text);
    return ids;
}

#endif
