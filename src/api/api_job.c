/* api_job.c — jobs and watches behind their public handles: options checked and gathered, prompts tokenised.
 *
 * All of it runs on the caller's thread; a job reaches the engine whole or not at all. */
#include "handles.h"
#include "base/clock.h"
#include "base/mem.h"
#include <math.h>

struct qp_job {
    job *job;
};

struct qp_watch {
    watch *watch;
};

/* What job_setup points to while a job is made. */
typedef struct gathered {
    int32_t *ids, *negative_ids; /* made by tokenising */
    int32_t *end_ids;            /* end tokens and stop_ids */
    int32_t *allow;              /* allow_ids and end_ids */
    uint32_t *breakers, *keep;   /* handed over to the job */
    job_setup setup;
} gathered;

static void free_gathered(gathered *g) {
    mem_free(g->ids);
    mem_free(g->negative_ids);
    mem_free(g->end_ids);
    mem_free(g->allow);
    mem_free(g->breakers);
    mem_free(g->keep);
}

static const tok *tok_of(const qp_generator *g) { return g->model->tokenizer ? g->model->tokenizer->tok : NULL; }
static int vocabulary_of(const qp_generator *g) { return g->model->model->shape.vocabulary; }

/* ---- options ---- */

static qp_status check_options(const qp_generator *g, const qp_job_options *o, qp_error *err) {
    if (!o->prompt == !o->ids)
        return err_set(err, QP_BAD_ARGUMENT, 0, "a job needs a prompt or ids, exactly one of them");
    if (o->negative_prompt && o->negative_ids)
        return err_set(err, QP_BAD_ARGUMENT, 0, "a job takes a negative prompt or negative ids, not both");
    const bool has_negative = o->negative_prompt || o->negative_ids;
    const bool has_guidance = o->sampling.guidance != 0 && o->sampling.guidance != 1;
    if (has_guidance != has_negative)
        return err_set(err, QP_BAD_ARGUMENT, 0, "guidance is %g and there is %s negative prompt: it takes both",
                       (double)o->sampling.guidance, has_negative ? "a" : "no");
    if (!tok_of(g) && (o->prompt || o->negative_prompt || o->n_stop || o->n_ban || o->heal))
        return err_set(err, QP_BAD_ARGUMENT, 0,
                       "the model has no tokenizer: give ids, no stop or banned texts, no healing");
    if (o->pooling != QP_POOL_NONE && (has_negative || o->n_filters || o->heal || o->score_prompt))
        return err_set(err, QP_BAD_ARGUMENT, 0,
                       "a job with pooling makes no answer: it takes no negative prompt, filters, healing or scores");
    if (o->n_top < 0 || o->n_top > 1024)
        return err_set(err, QP_BAD_ARGUMENT, 0, "n_top is %d, allowed are 0 to 1024", o->n_top);
    return QP_OK;
}

/* *out is the caller's array, or *made one to be freed. */
static qp_status encode(const qp_generator *g, const char *text, size_t bytes, unsigned flags, int32_t **made,
                        const int32_t **out, size_t *n, qp_error *err) {
    ERR_TRY(tok_encode(tok_of(g), (span){text, bytes ? bytes : strlen(text)}, flags, made, n, err));
    *out = *made;
    return QP_OK;
}

static qp_status gather_prompts(gathered *a, const qp_generator *g, const qp_job_options *o, qp_error *err) {
    job_setup *s = &a->setup;
    s->ids = o->ids;
    s->n_ids = o->n_ids;
    s->negative_ids = o->negative_ids;
    s->n_negative_ids = o->n_negative_ids;
    if (o->prompt) ERR_TRY(encode(g, o->prompt, o->prompt_bytes, o->tokenize_flags, &a->ids, &s->ids, &s->n_ids, err));
    if (!o->negative_prompt) return QP_OK;
    return encode(g, o->negative_prompt, 0, o->tokenize_flags, &a->negative_ids, &s->negative_ids, &s->n_negative_ids,
                  err);
}

static qp_status check_ids(const int32_t *ids, size_t n, int vocabulary, const char *what, qp_error *err) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return err_set(err, QP_BAD_ARGUMENT, i, "%s %zu is %d, the vocabulary has the ids 0 to %d", what, i + 1,
                           ids[i], vocabulary - 1);
    return QP_OK;
}

static qp_status gather_end_ids(gathered *a, const qp_generator *g, const qp_job_options *o, qp_error *err) {
    const size_t n_eos = o->ignore_eos ? 0 : (size_t)g->model->n_eos;
    ERR_TRY(check_ids(o->stop_ids, o->n_stop_ids, vocabulary_of(g), "stop id", err));
    a->end_ids = mem_array(n_eos + o->n_stop_ids + 1, sizeof *a->end_ids);
    a->allow = mem_array(o->n_allow_ids + n_eos + o->n_stop_ids + 1, sizeof *a->allow);
    if (!a->end_ids || !a->allow) return err_no_memory(err, o->n_allow_ids, "a job's settings");
    size_t n = 0;
    for (size_t i = 0; i < n_eos; i++) /* a generation_config may name more than the vocabulary has */
        if (g->model->eos[i] >= 0 && g->model->eos[i] < vocabulary_of(g)) a->end_ids[n++] = g->model->eos[i];
    for (size_t i = 0; i < o->n_stop_ids; i++) a->end_ids[n++] = o->stop_ids[i];
    a->setup.end_ids = a->end_ids;
    a->setup.n_end_ids = n;
    if (!o->n_allow_ids) return QP_OK;
    memcpy(a->allow, o->allow_ids, o->n_allow_ids * sizeof *a->allow);
    memcpy(a->allow + o->n_allow_ids, a->end_ids, n * sizeof *a->allow);
    a->setup.sampling.allow = a->allow;
    a->setup.sampling.n_allow = o->n_allow_ids + n;
    return QP_OK;
}

static qp_status gather_sampling(gathered *a, const qp_generator *g, const qp_job_options *o, qp_error *err) {
    sampler_setup *s = &a->setup.sampling;
    const int vocabulary = vocabulary_of(g);
    s->settings = o->sampling;
    s->n_vocabulary = vocabulary;
    s->n_tokens = tok_of(g) && tok_size(tok_of(g)) < vocabulary ? tok_size(tok_of(g)) : 0;
    s->bias = o->bias;
    s->n_bias = o->n_bias;
    s->ban = o->ban_ids;
    s->n_ban = o->n_ban_ids;
    s->n_top = o->n_top;
    s->wants_p = o->n_top || o->want_logprobs;
    s->dry_breakers = g->sets.dry_breakers;
    s->xtc_keep = g->sets.xtc_keep;
    if (o->dry_breaker_ids) {
        ERR_TRY(token_set_of(&a->breakers, o->dry_breaker_ids, o->n_dry_breaker_ids, vocabulary, "dry breaker", err));
        s->dry_breakers = a->breakers;
    }
    if (!o->xtc_keep_ids) return QP_OK;
    ERR_TRY(token_set_of(&a->keep, o->xtc_keep_ids, o->n_xtc_keep_ids, vocabulary, "xtc keep id", err));
    s->xtc_keep = a->keep;
    return QP_OK;
}

/* ---- what can fit ---- */

static uint64_t pages_for(uint64_t tokens) { return (tokens + DEV_PAGE_TOKENS - 1) / DEV_PAGE_TOKENS; }

/* Of a prompt with its answer. */
static uint64_t most_tokens(const qp_generator *g) {
    const uint64_t capacity = engine_capacity(g->engine);
    return g->max_length && g->max_length < capacity ? g->max_length : capacity;
}

/* Most tokens that a prompt (and a negative one) can be continued by. */
static uint64_t room_for_answer(const qp_generator *g, uint64_t n, uint64_t n_negative) {
    const uint64_t pages = engine_capacity(g->engine) / DEV_PAGE_TOKENS;
    const uint64_t longest = n > n_negative ? n : n_negative;
    uint64_t most = most_tokens(g), low = 0;
    most = longest < most ? most - longest : 0;
    while (n_negative && low < most) {
        const uint64_t middle = most - (most - low) / 2;
        if (pages_for(n + middle) + pages_for(n_negative + middle) <= pages)
            low = middle;
        else
            most = middle - 1;
    }
    return most;
}

static qp_status set_length(gathered *a, const qp_generator *g, const qp_job_options *o, qp_error *err) {
    job_setup *s = &a->setup;
    uint64_t room = room_for_answer(g, s->n_ids, s->n_negative_ids);
    if (o->pooling != QP_POOL_NONE && !room && s->n_ids <= most_tokens(g)) room = 1; /* nothing comes behind it */
    if (!room)
        return err_set(err, QP_TOO_LARGE, 0, "the prompt has %zu tokens, the context holds %llu including the answer",
                       s->n_ids + s->n_negative_ids, (unsigned long long)most_tokens(g));
    s->max_new_tokens = o->max_new_tokens && o->max_new_tokens < room ? o->max_new_tokens : (size_t)room;
    s->min_new_tokens = o->min_new_tokens;
    return QP_OK;
}

static void set_outputs(gathered *a, const qp_generator *g, const qp_job_options *o) {
    job_setup *s = &a->setup;
    const size_t n_logits = o->want_logits ? (size_t)vocabulary_of(g) : 0;
    s->hold = (hold_setup){o->stop, o->ban, o->n_stop, o->n_ban, o->n_top, n_logits};
    s->mailbox = (mailbox_setup){.wants_tokens = o->n_top || o->want_logprobs || o->want_logits,
                                 .wants_prompt = o->show_prompt,
                                 .n_top = o->n_top,
                                 .n_logits = n_logits,
                                 .max_unread = o->max_unread,
                                 .watch = o->watch ? o->watch->watch : NULL,
                                 .user = o->user};
}

static qp_status gather(gathered *a, const qp_generator *g, const qp_job_options *o, qp_error *err) {
    *a = (gathered){.setup = {.tok = tok_of(g),
                              .vocabulary = vocabulary_of(g),
                              .show_special = o->show_special,
                              .heal = o->heal,
                              .score_prompt = o->score_prompt,
                              .no_reuse = o->no_reuse,
                              .pooling = o->pooling,
                              .hidden = g->model->model->shape.hidden,
                              .filters = o->filters,
                              .n_filters = o->n_filters,
                              .priority = o->priority,
                              .loop_repeats = o->loop_repeats,
                              .max_queue_s = o->max_queue_s,
                              .max_total_s = o->max_total_s}};
    ERR_TRY(check_options(g, o, err));
    ERR_TRY(gather_prompts(a, g, o, err));
    ERR_TRY(set_length(a, g, o, err));
    ERR_TRY(gather_end_ids(a, g, o, err));
    ERR_TRY(gather_sampling(a, g, o, err));
    ERR_TRY(api_adapters(&a->setup.adapters, g->model->model, o->adapters, o->n_adapters, err));
    set_outputs(a, g, o);
    return QP_OK;
}

/* ---- making ---- */

static qp_status make_job(qp_job **out, const qp_generator *g, gathered *a, qp_error *err) {
    qp_job *handle = MEM_NEW(qp_job);
    if (!handle) return err_no_memory(err, sizeof *handle, "a job");
    a->setup.mailbox.handle = handle;
    const qp_status status = job_new(&handle->job, &a->setup, g->engine->inbox, err);
    if (status != QP_OK) return mem_free(handle), status;
    for (size_t i = 0; i < a->setup.n_filters; i++) constraint_start(&a->setup.filters[i], g->has_spare_core);
    job_take_sets(handle->job, a->breakers, a->keep);
    a->breakers = a->keep = NULL;
    *out = handle;
    return QP_OK;
}

/* Filters are the job's, also where there will be no job. */
static void free_filters(const qp_job_options *o) {
    for (size_t i = 0; i < o->n_filters; i++)
        if (o->filters[i].free) o->filters[i].free(o->filters[i].user);
}

qp_status qp_job_new(qp_job **out, qp_generator *g, const qp_job_options *options, qp_error *err) {
    API_OPTIONS(qp_job_options, o, options);
    gathered a;
    *out = NULL;
    qp_job *handle = NULL;
    qp_status status = gather(&a, g, &o, err);
    if (status == QP_OK) status = make_job(&handle, g, &a, err);
    free_gathered(&a);
    if (!handle) return free_filters(&o), status;
    status = inbox_submit(g->engine->inbox, &handle->job, 1, err);
    if (status != QP_OK) {
        qp_job_free(handle); /* frees the filters, too */
        return status;
    }
    *out = handle;
    return QP_OK;
}

/* The filters of one more job; what was cloned before a failure is freed. */
static qp_status clone_filters(qp_filter *out, const qp_job_options *o, qp_error *err) {
    for (size_t i = 0; i < o->n_filters; i++) {
        const qp_filter *f = &o->filters[i];
        const qp_status status = f->clone ? f->clone(f->user, &out[i], err)
                                          : err_set(err, QP_BAD_ARGUMENT, i,
                                                    "filter %zu has no clone function, which jobs that share a prompt "
                                                    "need",
                                                    i + 1);
        if (status == QP_OK) continue;
        while (i-- > 0)
            if (out[i].free) out[i].free(out[i].user);
        return status;
    }
    return QP_OK;
}

/* The last of them takes the filters themselves, those before it clones. */
static qp_status make_one(qp_job **out, bool is_last, const qp_generator *g, gathered *a, qp_job_options *o,
                          qp_filter *clones, qp_error *err) {
    if (!is_last && o->n_filters) ERR_TRY(clone_filters(clones, o, err));
    a->setup.filters = is_last ? o->filters : clones;
    const qp_status status = make_job(out, g, a, err);
    if (status == QP_OK && is_last) o->n_filters = 0; /* they are the job's */
    if (status == QP_OK || is_last) return status;
    const qp_job_options unused = {.filters = clones, .n_filters = o->n_filters};
    free_filters(&unused);
    return status;
}

/* Sets of tokens are made anew for each, the ids only once. */
static qp_status make_jobs(qp_job **out, int n, const qp_generator *g, qp_job_options *o, qp_error *err) {
    gathered a;
    qp_status status = gather(&a, g, o, err);
    qp_filter *clones = mem_zarray(o->n_filters + 1, sizeof *clones);
    if (status == QP_OK && !clones) status = err_no_memory(err, o->n_filters * sizeof *clones, "filters");
    const uint64_t seed = o->sampling.seed;
    for (int i = 0; status == QP_OK && i < n; i++) {
        if (i) status = gather_sampling(&a, g, o, err);
        a.setup.sampling.settings.seed = seed + (uint64_t)i;
        if (status == QP_OK) status = make_one(&out[i], i + 1 == n, g, &a, o, clones, err);
    }
    mem_free(clones);
    free_gathered(&a);
    free_filters(o);
    o->n_filters = 0;
    return status;
}

static qp_status submit_all(qp_job **out, int n, qp_generator *g, qp_error *err) {
    job **jobs = mem_array((size_t)n, sizeof(job *));
    if (!jobs) return err_no_memory(err, (size_t)n * sizeof(job *), "jobs");
    for (int i = 0; i < n; i++) jobs[i] = out[i]->job;
    const qp_status status = inbox_submit(g->engine->inbox, jobs, n, err);
    mem_free(jobs);
    return status;
}

qp_status qp_jobs_new(qp_job **out, int n, qp_generator *g, const qp_job_options *options, qp_error *err) {
    API_OPTIONS(qp_job_options, o, options);
    if (n < 1 || n > 1024) {
        free_filters(&o);
        return err_set(err, QP_BAD_ARGUMENT, 0, "%d jobs, allowed are 1 to 1024", n);
    }
    for (int i = 0; i < n; i++) out[i] = NULL;
    qp_status status = make_jobs(out, n, g, &o, err);
    if (status == QP_OK) status = submit_all(out, n, g, err);
    for (int i = 0; status != QP_OK && i < n; i++) {
        qp_job_free(out[i]);
        out[i] = NULL;
    }
    return status;
}

/* ---- using ---- */

void qp_job_free(qp_job *j) {
    if (!j) return;
    job_cancel(j->job);
    mailbox_leave(&j->job->mailbox);
    job_let_go(j->job);
    mem_free(j);
}

void qp_job_cancel(qp_job *j) { job_cancel(j->job); }

/* An engine that let the job wait for its reader may go on with it. */
static qp_status read_event(qp_job *j, double deadline, qp_event *event, qp_error *err) {
    const qp_status status = mailbox_read(&j->job->mailbox, deadline, event, err);
    if (j->job->wants.max_unread && status == QP_OK && event->kind == QP_EVENT_TEXT) inbox_signal(j->job->inbox);
    return status;
}

qp_status qp_job_next(qp_job *j, qp_event *event, qp_error *err) { return read_event(j, (double)INFINITY, event, err); }

qp_status qp_job_poll(qp_job *j, double timeout_s, qp_event *event, qp_error *err) {
    return read_event(j, timeout_s > 0 ? clock_now() + timeout_s : 0, event, err);
}

qp_status qp_job_watch(qp_job *j, qp_watch *w, void *user, qp_error *err) {
    return mailbox_watch(&j->job->mailbox, w->watch, user, err);
}

const int32_t *qp_job_peek_prompt(const qp_job *j, size_t *count) {
    *count = j->job->n_prompt;
    return j->job->prompt;
}

void qp_job_get_progress(const qp_job *handle, qp_job_progress *p) {
    job *j = handle->job;
    *p = (qp_job_progress){.state = (qp_job_state)atomic_load(&j->state),
                           .queue_place = atomic_load(&j->queue_place),
                           .prompt_tokens = j->n_prompt,
                           .prompt_done = atomic_load(&j->prompt_done),
                           .new_tokens = atomic_load(&j->new_tokens),
                           .pages = atomic_load(&j->pages),
                           .cached_tokens = atomic_load(&j->cached)};
}

const qp_token *qp_job_peek_scores(const qp_job *handle, size_t *count) {
    score *s = &handle->job->score;
    *count = atomic_load_explicit(&s->n_done, memory_order_acquire);
    return s->tokens;
}

const float *qp_job_peek_embedding(const qp_job *handle, size_t *count) {
    const job *j = handle->job;
    const bool is_there = atomic_load(&j->state) == QP_JOB_ENDED && embed_is_complete(&j->embed);
    *count = is_there ? (size_t)j->embed.width : 0;
    return is_there ? j->embed.vector : NULL;
}

const char *qp_finish_text(qp_finish finish) {
    static const char *const words[] = {"none",  "eos",    "stop",    "length", "cancelled",
                                        "error", "filter", "timeout", "loop"};
    return (unsigned)finish < sizeof words / sizeof *words ? words[finish] : "unknown";
}

/* ---- watches ---- */

qp_status qp_watch_new(qp_watch **out, qp_error *err) {
    *out = MEM_NEW(qp_watch);
    if (!*out) return err_no_memory(err, sizeof **out, "a watch");
    const qp_status status = watch_new(&(*out)->watch, err);
    if (status != QP_OK) {
        mem_free(*out);
        *out = NULL;
    }
    return status;
}

void qp_watch_free(qp_watch *w) {
    if (!w) return;
    watch_let_go(w->watch);
    mem_free(w);
}

int qp_watch_descriptor(const qp_watch *w) { return w->watch->descriptor; }

qp_job *qp_watch_next(qp_watch *w, double timeout_s, void **user) {
    const double deadline = timeout_s < 0 ? (double)INFINITY : timeout_s > 0 ? clock_now() + timeout_s : 0;
    return watch_next(w->watch, deadline, user);
}
