/* ref_attend.c — attention over one page in plain C and double precision: the truth for every other level.
 *
 * Query by query; only what is carried from page to page is float32. */
#include "cpu.h"
#include <math.h>

static double value_at(const void *values, size_t i, bool is_f16) {
    return is_f16 ? quant_f16_to_f32(((const uint16_t *)values)[i]) : ((const float *)values)[i];
}

/* Scores of query `i` for the slots it sees, and the greatest of them and of all before. */
static double score(double *scores, const cpu_attend_page *a, int i, bool is_f16) {
    const size_t dim = (size_t)a->head_dim;
    double best = a->best[i];
    for (int slot = a->begin[i]; slot < a->end[i]; slot++) {
        double sum = 0;
        for (size_t d = 0; d < dim; d++)
            sum += a->q[(size_t)i * dim + d] * value_at(a->k, (size_t)slot * dim + d, is_f16);
        scores[slot] = sum;
        if (!(sum <= best)) best = sum; /* lets NaN through */
    }
    return best;
}

static void attend_query(const cpu_attend_page *a, int i, bool is_f16) {
    const size_t dim = (size_t)a->head_dim;
    double weights[DEV_PAGE_TOKENS];
    if (a->begin[i] >= a->end[i]) return;
    const double best = (float)score(weights, a, i, is_f16), fade = exp(a->best[i] - best);
    double total = a->total[i] * fade;
    for (int slot = a->begin[i]; slot < a->end[i]; slot++) total += weights[slot] = exp(weights[slot] - best);
    for (size_t d = 0; d < dim; d++) {
        float *sum = a->sum + (size_t)i * dim + d;
        double mixed = *sum * fade;
        for (int slot = a->begin[i]; slot < a->end[i]; slot++)
            mixed += weights[slot] * value_at(a->v, (size_t)slot * dim + d, is_f16);
        *sum = (float)mixed;
    }
    a->best[i] = (float)best;
    a->total[i] = (float)total;
}

static void page_f16(const cpu_attend_page *a) {
    for (int i = 0; i < a->n_queries; i++) attend_query(a, i, true);
}

static void page_f32(const cpu_attend_page *a) {
    for (int i = 0; i < a->n_queries; i++) attend_query(a, i, false);
}

const cpu_attend_ops cpu_attend_ref = {.page_f16 = page_f16, .page_f32 = page_f32};
