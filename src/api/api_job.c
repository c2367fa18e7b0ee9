/* api_job.c — generators and jobs behind their public handles: options checked, prompts tokenised. */
#include "handles.h"
#include "base/mem.h"

struct qp_job {
    job *job;
    qp_generator *generator;
    qp_job *next, *previous; /* in the generator's list */
};

struct qp_generator {
    const qp_model *model;
    seq_room room;
    int chunk_tokens;
    qp_job *jobs;
};

qp_status qp_generator_new(qp_generator **out, const qp_model *m, const qp_generator_options *options, qp_error *err) {
    API_OPTIONS(qp_generator_options, o, options);
    *out = NULL;
    if (o.chunk_tokens < 0 || o.chunk_tokens > MODEL_MAX_ROWS)
        return err_set(err, QP_BAD_ARGUMENT, 0, "chunk_tokens is %d, allowed are 1 to %d (0: the default)",
                       o.chunk_tokens, MODEL_MAX_ROWS);
    qp_generator *g = MEM_NEW(qp_generator);
    if (!g) return err_no_memory(err, sizeof *g, "a generator");
    g->model = m;
    g->chunk_tokens = o.chunk_tokens ? o.chunk_tokens : MODEL_MAX_ROWS;
    const uint64_t tokens = o.cache_tokens ? o.cache_tokens : (uint64_t)m->model->shape.trained_context;
    const qp_status status = seq_room_open(&g->room, m->model, tokens, o.cache_type, err);
    if (status != QP_OK)
        mem_free(g);
    else
        *out = g;
    return status;
}

void qp_generator_free(qp_generator *g) {
    if (!g) return;
    while (g->jobs) qp_job_free(g->jobs);
    seq_room_close(&g->room);
    mem_free(g);
}

/* ---- jobs ---- */

static qp_status check_options(const qp_generator *g, const qp_job_options *o, qp_error *err) {
    if (!o->prompt == !o->ids)
        return err_set(err, QP_BAD_ARGUMENT, 0, "a job needs a prompt or ids, exactly one of them");
    if (!g->model->tokenizer && (o->prompt || o->n_stop))
        return err_set(err, QP_BAD_ARGUMENT, 0, "the model has no tokenizer: give ids, and no stop texts");
    return QP_OK;
}

/* *ids is the caller's array, or *made one to be freed. */
static qp_status prompt_ids(const qp_generator *g, const qp_job_options *o, const int32_t **ids, size_t *n,
                            int32_t **made, qp_error *err) {
    *made = NULL;
    *ids = o->ids;
    *n = o->n_ids;
    if (!o->prompt) return QP_OK;
    const size_t bytes = o->prompt_bytes ? o->prompt_bytes : strlen(o->prompt);
    ERR_TRY(tok_encode(g->model->tokenizer->tok, (span){o->prompt, bytes}, o->tokenize_flags, made, n, err));
    *ids = *made;
    return QP_OK;
}

static qp_status submit(qp_job *j, qp_generator *g, const qp_job_options *o, qp_error *err) {
    const job_settings settings = {.max_new_tokens = o->max_new_tokens,
                                   .chunk_tokens = g->chunk_tokens,
                                   .ignore_eos = o->ignore_eos,
                                   .show_special = o->show_special,
                                   .sampling = o->sampling,
                                   .eos = g->model->eos,
                                   .n_eos = g->model->n_eos};
    const int32_t *ids;
    int32_t *made;
    size_t n;
    ERR_TRY(prompt_ids(g, o, &ids, &n, &made, err));
    const tok *t = g->model->tokenizer ? g->model->tokenizer->tok : NULL;
    const qp_status status = job_new(&j->job, &g->room, t, ids, n, &settings, o->stop, o->n_stop, err);
    mem_free(made);
    return status;
}

qp_status qp_job_new(qp_job **out, qp_generator *g, const qp_job_options *options, qp_error *err) {
    API_OPTIONS(qp_job_options, o, options);
    *out = NULL;
    ERR_TRY(check_options(g, &o, err));
    qp_job *j = MEM_NEW(qp_job);
    if (!j) return err_no_memory(err, sizeof *j, "a job");
    const qp_status status = submit(j, g, &o, err);
    if (status != QP_OK) return mem_free(j), status;
    *j = (qp_job){.job = j->job, .generator = g, .next = g->jobs};
    if (g->jobs) g->jobs->previous = j;
    g->jobs = j;
    *out = j;
    return QP_OK;
}

void qp_job_free(qp_job *j) {
    if (!j) return;
    if (j->previous)
        j->previous->next = j->next;
    else
        j->generator->jobs = j->next;
    if (j->next) j->next->previous = j->previous;
    job_free(j->job);
    mem_free(j);
}

void qp_job_cancel(qp_job *j) { job_cancel(j->job); }

qp_status qp_job_next(qp_job *j, qp_event *event, qp_error *err) { return job_next(j->job, event, err); }

const int32_t *qp_job_peek_prompt(const qp_job *j, size_t *count) {
    *count = j->job->n_prompt;
    return j->job->prompt;
}
