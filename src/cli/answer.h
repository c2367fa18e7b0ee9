/* answer.h — what a job has said so far, and how it is written as JSON. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "input.h"

/* Zero-initialised is empty and ready. */
typedef struct answer {
    strbuf text;
    input_ids ids;
    strbuf tokens; /* JSON: the items of "logprobs" */
    qp_event end;  /* its texts live as long as the job */
} answer;

/* Adds an event; the last one becomes `end`. `tokenizer` names tokens, may be NULL. */
qp_status answer_take(answer *a, const qp_event *event, const qp_tokenizer *tokenizer, qp_error *err);
/* The members "text", "ids", "finish_reason", "stop_reason", and "logprobs" if they were asked for. */
void answer_add_content(strbuf *b, const answer *a, bool with_logprobs);
/* The members "usage" and "timing". */
void answer_add_figures(strbuf *b, const qp_job_stats *st);
void answer_add_ids(strbuf *b, const char *key, const input_ids *ids);
void answer_free(answer *a);

/* Tokens per second. */
double answer_prefill_rate(const qp_job_stats *st);
double answer_decode_rate(const qp_job_stats *st);

#endif
