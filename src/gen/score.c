/* score.c — the probabilities of a prompt's own tokens.
 *
 * Called by job.c, sched.c, fill.c and run.c. Logits of a long prompt would fill the memory, so a step computes only as
 * many scored rows as fit into a fixed room. */
#include "score.h"
#include "base/mem.h"
#include <math.h>

enum { ROOM_BYTES = 64 << 20, LEAST_ROWS = 16 };

qp_status score_open(score *s, size_t n_prompt, int n_top, qp_error *err) {
    const size_t n = n_prompt ? n_prompt - 1 : 0;
    size_t n_candidates;
    s->tokens = mem_zarray(n + 1, sizeof *s->tokens);
    s->top = mem_mul(n + 1, (size_t)n_top, &n_candidates) ? mem_zarray(n_candidates + 1, sizeof *s->top) : NULL;
    if (!s->tokens || !s->top) return err_no_memory(err, n * sizeof *s->tokens, "the probabilities of a prompt");
    s->n = n;
    s->n_top = n_top;
    return QP_OK;
}

void score_close(score *s) {
    mem_free(s->tokens);
    mem_free(s->top);
    s->tokens = NULL;
    s->top = NULL;
}

int score_most_rows(int vocabulary) {
    const size_t rows = ROOM_BYTES / ((size_t)vocabulary * sizeof(float));
    return rows < LEAST_ROWS ? LEAST_ROWS : rows > 4096 ? 4096 : (int)rows;
}

static double log_sum(const float *row, int n) {
    float greatest = row[0];
    double sum = 0;
    for (int i = 1; i < n; i++) greatest = row[i] > greatest ? row[i] : greatest;
    for (int i = 0; i < n; i++) sum += exp((double)row[i] - (double)greatest);
    return (double)greatest + log(sum);
}

/* The n_top greatest, falling; among equals the lower id first. Keeps their logits in .logprob. */
static int take_top(qp_candidate *top, int n_top, const float *row, int n) {
    int count = 0;
    for (int id = 0; id < n && n_top; id++) {
        if (count == n_top && row[id] <= top[count - 1].logprob) continue;
        int at = count < n_top ? count++ : count - 1;
        for (; at && top[at - 1].logprob < row[id]; at--) top[at] = top[at - 1];
        top[at] = (qp_candidate){.id = id, .logprob = row[id]};
    }
    return count;
}

static void take_row(score *s, size_t i, const float *row, int vocabulary, int32_t id) {
    const double whole = log_sum(row, vocabulary);
    qp_candidate *top = s->top + i * (size_t)s->n_top;
    const int n_top = take_top(top, s->n_top, row, vocabulary);
    for (int k = 0; k < n_top; k++) {
        top[k].logprob = (float)((double)top[k].logprob - whole);
        top[k].p = expf(top[k].logprob);
    }
    const float logprob = (float)((double)row[id] - whole);
    s->tokens[i] = (qp_token){.id = id, .p = expf(logprob), .logprob = logprob, .top = top, .n_top = n_top};
}

void score_take(score *s, const float *logits, int vocabulary, const int32_t *ids) {
    const size_t done = atomic_load_explicit(&s->n_done, memory_order_relaxed);
    for (int k = 0; k < s->n_rows; k++) {
        const float *row = logits + (size_t)(s->row + k) * (size_t)vocabulary;
        take_row(s, done + (size_t)k, row, vocabulary, ids[done + (size_t)k + 1]);
    }
    atomic_store_explicit(&s->n_done, done + (size_t)s->n_rows, memory_order_release);
    s->n_rows = 0;
}
