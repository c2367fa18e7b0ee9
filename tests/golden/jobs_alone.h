/* jobs_alone.h — jobs that must get the tokens that they get alone. */
#ifndef JOBS_ALONE_H
#define JOBS_ALONE_H

#include "harness.h"
#include <quipu.h>

enum { ALONE_IDS = 420, ALONE_NEW = 24 };

/* A prompt, and what it is answered alone. */
typedef struct alone {
    int32_t ids[ALONE_IDS], tokens[ALONE_NEW];
    float logprobs[ALONE_NEW]; /* where the job asks for them: they tell products apart that choose alike */
    size_t n_ids, n_tokens;
} alone;

/* A job with this prompt, else as `like` says. */
static inline qp_job *alone_start(qp_generator *gen, const alone *k, qp_job_options like) {
    qp_job *started;
    qp_error err;
    like.size = sizeof like;
    like.ids = k->ids;
    like.n_ids = k->n_ids;
    like.ignore_eos = true;
    if (qp_job_new(&started, gen, &like, &err) != QP_OK) fail_msg("%s", err.text);
    return started;
}

/* Compares with what `k` says, or writes it down; frees the job. Returns how often it was preempted. */
static inline uint64_t alone_read(qp_job *from, alone *k, bool is_first) {
    qp_event event;
    qp_error err;
    size_t n = 0;
    for (;;) {
        if (qp_job_next(from, &event, &err) != QP_OK) fail_msg("%s", err.text);
        if (event.kind == QP_EVENT_END) break;
        for (size_t i = 0; i < event.n_ids; i++, n++) {
            const float logprob = event.tokens ? event.tokens[i].logprob : 0;
            assert_true(n < (is_first ? ALONE_NEW : k->n_tokens));
            if (is_first) k->tokens[n] = event.ids[i], k->logprobs[n] = logprob;
            assert_int_equal(event.ids[i], k->tokens[n]);
            assert_true(logprob == k->logprobs[n]);
        }
    }
    if (is_first) k->n_tokens = n;
    if (event.finish != QP_FINISH_CANCELLED) assert_int_equal(n, k->n_tokens);
    const uint64_t preempted = (uint64_t)event.stats.preempted;
    qp_job_free(from);
    return preempted;
}

#endif
