/* job.h — one prompt and its continuation. */
#ifndef GEN_JOB_H
#define GEN_JOB_H

#include "seq.h"
#include "stop.h"
#include "sample/chain.h"
#include "text/detok.h"
#include <stdatomic.h>

typedef struct job_settings {
    size_t max_new_tokens; /* 0: none */
    int chunk_tokens;
    bool ignore_eos, show_special;
    qp_sampling sampling;
    const int32_t *eos;
    int n_eos;
} job_settings;

typedef struct job {
    seq seq;
    job_settings settings;
    int32_t *prompt; /* [capacity]: the prompt, then the answer so far */
    size_t n_prompt, n_fed, capacity;
    int32_t last_id; /* sampled, not fed yet; -1: none */
    detok *detok;    /* NULL: the model has no tokenizer */
    stop_scan stop;
    sampler sampler;
    float *logits; /* [vocabulary] */
    strbuf text;   /* of the current event */
    int32_t event_id;
    atomic_bool is_cancelled;
    qp_status failure; /* QP_OK unless the job has failed; then `error` says why */
    qp_error error;
    qp_finish finish;
    int matched;     /* stop text, or -1 */
    int32_t stop_id; /* end token, or -1 */
    double t_submitted, t_started, t_prefilled, t_first, t_end;
    qp_job_stats stats;
} job;

/* Copies prompt and settings (eos is borrowed: it lives in the model). `t` may be NULL: no text then. Refuses what can
 * never fit. */
qp_status job_new(job **out, seq_room *room, const tok *t, const int32_t *prompt, size_t n_prompt,
                  const job_settings *settings, const char *const *stops, size_t n_stops, qp_error *err);
void job_free(job *j);
void job_cancel(job *j);
/* Runs until the next token or the end; the event borrows from the job until the next call. */
qp_status job_next(job *j, qp_event *event, qp_error *err);

#endif
