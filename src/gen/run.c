/* run.c — computes the step and tells the cache what it holds now.
 *
 * Called by engine.c after fill.c. The clock stops when the device has finished. A step that fails fails the jobs in
 * it; the engine goes on with the others. */
#include "engine.h"
#include "base/clock.h"
#include "base/mem.h"

/* *held: rows that *room has room for. */
static qp_status reserve(float **room, size_t *held, int rows, int width, const char *what, qp_error *err) {
    const size_t bytes = (size_t)width * sizeof(float);
    if ((size_t)rows <= *held) return QP_OK;
    float *more = mem_resize(*room, (size_t)rows, bytes);
    if (!more) return err_no_memory(err, (size_t)rows * bytes, what);
    *room = more;
    *held = (size_t)rows;
    return QP_OK;
}

static qp_status compute(engine *e, qp_error *err) {
    const model_shape *shape = &e->model->shape;
    step_input *in = &e->step.in;
    ERR_TRY(reserve(&e->logits, &e->n_logit_rows, in->n_logit_rows, shape->vocabulary, "the logits of a step", err));
    ERR_TRY(reserve(&e->states, &e->n_state_rows, in->n_state_rows, shape->hidden, "the states of a step", err));
    in->states = e->states;
    engine_list_picks(e);
    e->digests.step.prepare = engine_prepare;
    e->digests.step.context = e;
    const bool fits = e->digests.dev && in->n_logit_rows && in->n_logit_rows <= e->digests.n_rows;
    in->digest = fits && !e->step.n_score_rows ? &e->digests.step : NULL;
    if (in->digest)
        digests_turn(&e->digests, in->n_logit_rows);
    else
        engine_tell(e);
    return model_step(e->model, in, e->logits, err);
}

static void fail_all(engine *e, qp_status status, const qp_error *why) {
    for (int i = 0; i < e->step.n_parts; i++)
        if (!e->step.parts[i].job->has_ended) engine_fail(e, e->step.parts[i].job, status, why);
}

static void note_progress(job *j) {
    const lane *l = &j->lanes[0];
    const size_t done = (size_t)l->chain.length < l->n_prompt ? (size_t)l->chain.length : l->n_prompt;
    atomic_store_explicit(&j->prompt_done, done, memory_order_relaxed);
    atomic_store_explicit(&j->cached, l->n_cached, memory_order_relaxed);
    atomic_store_explicit(&j->pages, (size_t)l->chain.n_pages, memory_order_relaxed);
    if (!job_new_tokens(j)) mailbox_prompt(&j->mailbox, done, j->n_prompt);
}

bool engine_run(engine *e) {
    step *s = &e->step;
    qp_error why = {0};
    const double begin = clock_now();
    const qp_status status = compute(e, &why);
    s->model_s = clock_now() - begin;
    pace_observe(&e->pace, s->n_decode_rows, s->prompt_units, s->model_s);
    if (status != QP_OK) {
        e->counts.has_device_failed |= status != QP_NO_MEMORY;
        return fail_all(e, status, &why), false;
    }
    for (int i = 0; i < s->n_parts; i++) {
        lane *l = &s->parts[i].job->lanes[s->parts[i].lane];
        if (!s->parts[i].lane && s->parts[i].job->score.n_rows)
            score_take(&s->parts[i].job->score, e->logits, e->model->shape.vocabulary, l->ids);
        if (!s->parts[i].lane) embed_take(&s->parts[i].job->embed, e->states);
        const int64_t pages = l->chain.length / DEV_PAGE_TOKENS;
        chain_advance(&l->chain, l->ids, l->chain.length + s->parts[i].n_rows);
        if (e->window && l->chain.length / DEV_PAGE_TOKENS > pages) e->n_releases++; /* it could give up more now */
        note_progress(s->parts[i].job);
    }
    return true;
}
