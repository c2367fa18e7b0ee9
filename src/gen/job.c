/* job.c — one prompt and its continuation: fill, run, sample, emit, until something ends it.
 *
 * Called by api/. A job advances on its caller's thread, one token per job_next; jobs of one generator share the
 * pages of its room and nothing else. Clocks are read after the device has finished. */
#include "job.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

/* ---- life ---- */

static qp_status fill_job(job *j, const tok *t, const int32_t *prompt, const char *const *stops, size_t n_stops,
                          qp_error *err) {
    const int vocabulary = j->seq.room->model->shape.vocabulary;
    j->prompt = mem_copy(prompt, j->n_prompt, sizeof *prompt);
    j->logits = mem_array((size_t)vocabulary, sizeof(float));
    if (!j->prompt || !j->logits) return err_no_memory(err, j->n_prompt * sizeof *prompt, "a job");
    ERR_TRY(sampler_open(&j->sampler, vocabulary, err));
    if (t) ERR_TRY(detok_new(&j->detok, t, !j->settings.show_special, err));
    return stop_open(&j->stop, stops, n_stops, err);
}

static qp_status check_job(const seq_room *room, const int32_t *prompt, size_t n_prompt, const job_settings *s,
                           qp_error *err) {
    const uint64_t capacity = seq_room_tokens(room);
    const int vocabulary = room->model->shape.vocabulary;
    if (!n_prompt) return err_set(err, QP_BAD_ARGUMENT, 0, "the prompt is empty: at least one token is needed");
    if (n_prompt >= capacity)
        return err_set(err, QP_TOO_LARGE, 0, "the prompt has %zu tokens, the context holds %llu including the answer",
                       n_prompt, (unsigned long long)capacity);
    for (size_t i = 0; i < n_prompt; i++)
        if (prompt[i] < 0 || prompt[i] >= vocabulary)
            return err_set(err, QP_BAD_ARGUMENT, i, "prompt token %zu is %d, the vocabulary has the ids 0 to %d", i + 1,
                           prompt[i], vocabulary - 1);
    return sampling_check(&s->sampling, err);
}

qp_status job_new(job **out, seq_room *room, const tok *t, const int32_t *prompt, size_t n_prompt,
                  const job_settings *settings, const char *const *stops, size_t n_stops, qp_error *err) {
    *out = NULL;
    ERR_TRY(check_job(room, prompt, n_prompt, settings, err));
    job *j = MEM_NEW(job);
    if (!j) return err_no_memory(err, sizeof *j, "a job");
    j->settings = *settings;
    j->n_prompt = j->capacity = n_prompt;
    j->last_id = j->stop_id = j->matched = -1;
    j->t_submitted = clock_now();
    j->stats.prompt_tokens = n_prompt;
    seq_open(&j->seq, room);
    const qp_status status = fill_job(j, t, prompt, stops, n_stops, err);
    if (status != QP_OK)
        job_free(j);
    else
        *out = j;
    return status;
}

void job_free(job *j) {
    if (!j) return;
    seq_close(&j->seq);
    sampler_close(&j->sampler);
    stop_close(&j->stop);
    detok_free(j->detok);
    strbuf_free(&j->text);
    mem_free(j->prompt);
    mem_free(j->logits);
    mem_free(j);
}

void job_cancel(job *j) { atomic_store(&j->is_cancelled, true); }

/* ---- the end ---- */

/* Gives the pages back at once; what was held back is shown. */
static void end(job *j, qp_finish finish) {
    j->finish = finish;
    j->t_end = clock_now();
    if (finish != QP_FINISH_STOP && finish != QP_FINISH_ERROR) {
        span rest = {0};
        int matched;
        if (j->detok && detok_flush(j->detok, &rest, NULL) == QP_OK && rest.bytes)
            stop_feed(&j->stop, rest, &j->text, &matched, NULL);
        stop_flush(&j->stop, &j->text);
    }
    seq_close(&j->seq);
    qp_job_stats *s = &j->stats;
    s->queue_s = j->t_started - j->t_submitted;
    s->prefill_s = j->t_prefilled - j->t_started;
    s->first_token_s = s->new_tokens ? j->t_first - j->t_submitted : 0;
    s->decode_s = s->new_tokens ? j->t_end - j->t_first : 0;
    s->total_s = j->t_end - j->t_submitted;
}

static qp_status fail(job *j, qp_status status, const qp_error *why) {
    j->failure = status;
    j->error = *why;
    end(j, QP_FINISH_ERROR);
    return status;
}

/* ---- run ---- */

static qp_status feed(job *j, const int32_t *ids, size_t count, bool is_last, qp_error *err) {
    const seq_feed f = {&j->seq, ids, count, is_last ? 1 : 0, j->n_fed < j->n_prompt ? j->n_prompt : 0};
    return seq_run(&f, 1, j->logits, err);
}

/* The prompt, a chunk at a time so that cancelling is quick. */
static qp_status prefill(job *j, qp_error *err) {
    j->t_started = clock_now();
    while (j->n_fed < j->n_prompt && !atomic_load(&j->is_cancelled)) {
        const size_t left = j->n_prompt - j->n_fed, chunk = (size_t)j->settings.chunk_tokens;
        const size_t count = left < chunk ? left : chunk;
        ERR_TRY(feed(j, j->prompt + j->n_fed, count, count == left, err));
        j->n_fed += count;
    }
    j->t_prefilled = clock_now();
    return QP_OK;
}

/* Logits of the next position. */
static qp_status run(job *j, qp_error *err) {
    if (j->n_fed < j->n_prompt) return prefill(j, err);
    return feed(j, &j->last_id, 1, true, err);
}

/* ---- sample and emit ---- */

static bool is_end_token(const job *j, int32_t id) {
    for (int i = 0; i < j->settings.n_eos; i++)
        if (j->settings.eos[i] == id) return !j->settings.ignore_eos;
    return false;
}

/* The token's text into j->text, as far as it may be shown. */
static qp_status emit(job *j, int32_t id, qp_error *err) {
    span text = {0};
    bool has_text = false;
    j->event_id = id;
    if (j->detok) ERR_TRY(detok_next(j->detok, id, &text, &has_text, err));
    if (has_text) ERR_TRY(stop_feed(&j->stop, text, &j->text, &j->matched, err));
    return QP_OK;
}

static bool is_full(const job *j) {
    const size_t length = j->n_prompt + j->stats.new_tokens;
    return (j->settings.max_new_tokens && j->stats.new_tokens >= j->settings.max_new_tokens) ||
           length >= seq_room_tokens(j->seq.room);
}

/* Appends to the ids behind the prompt. */
static qp_status remember(job *j, int32_t id, qp_error *err) {
    const size_t n = j->n_prompt + j->stats.new_tokens;
    if (n == j->capacity) {
        int32_t *more = mem_resize(j->prompt, 2 * n, sizeof *more);
        if (!more) return err_no_memory(err, 2 * n * sizeof *more, "the ids of a job");
        j->prompt = more;
        j->capacity = 2 * n;
    }
    j->prompt[n] = id;
    return QP_OK;
}

static qp_status sample(job *j, qp_error *err) {
    const size_t bytes = (size_t)j->sampler.n_vocabulary * sizeof(float);
    const int32_t id = sampler_pick(&j->sampler, j->logits, &j->settings.sampling, j->stats.new_tokens, j->prompt,
                                    j->n_prompt + j->stats.new_tokens);
    j->stats.logits_hash = hash_bytes(j->logits, bytes, 0);
    if (id < 0)
        return err_set(err, QP_INTERNAL, j->stats.new_tokens, "new token %zu: the model's logits are no numbers",
                       j->stats.new_tokens + 1);
    if (is_end_token(j, id)) {
        j->stop_id = id;
        end(j, QP_FINISH_EOS);
        return QP_OK;
    }
    ERR_TRY(remember(j, id, err));
    if (!j->stats.new_tokens++) j->t_first = clock_now();
    j->last_id = id;
    ERR_TRY(emit(j, id, err));
    if (j->matched >= 0)
        end(j, QP_FINISH_STOP);
    else if (is_full(j))
        end(j, QP_FINISH_LENGTH);
    return QP_OK;
}

/* ---- events ---- */

static void fill_event(const job *j, qp_event *event, bool has_id) {
    const bool is_end = j->finish != QP_FINISH_NONE;
    *event = (qp_event){.kind = is_end && !has_id && !j->text.bytes ? QP_EVENT_END : QP_EVENT_TEXT,
                        .text = j->text.at ? j->text.at : "",
                        .text_bytes = j->text.bytes,
                        .ids = has_id ? &j->event_id : NULL,
                        .n_ids = has_id,
                        .stop_id = -1};
    if (event->kind != QP_EVENT_END) return;
    event->finish = j->finish;
    event->stop_text = j->finish == QP_FINISH_STOP ? j->stop.texts[j->matched] : NULL;
    event->stop_id = j->stop_id;
    event->stats = j->stats;
}

/* One token further: QP_OK with has_id, or the end. */
static qp_status advance(job *j, bool *has_id, qp_error *err) {
    const size_t before = j->stats.new_tokens;
    if (!atomic_load(&j->is_cancelled)) ERR_TRY(run(j, err));
    if (atomic_load(&j->is_cancelled)) {
        end(j, QP_FINISH_CANCELLED);
        return QP_OK;
    }
    ERR_TRY(sample(j, err));
    *has_id = j->stats.new_tokens > before;
    return QP_OK;
}

qp_status job_next(job *j, qp_event *event, qp_error *err) {
    bool has_id = false;
    qp_error why = {0};
    strbuf_clear(&j->text);
    if (j->finish == QP_FINISH_NONE) {
        const qp_status status = advance(j, &has_id, &why);
        if (status != QP_OK) fail(j, status, &why);
    }
    fill_event(j, event, has_id);
    if (j->failure != QP_OK && err) *err = j->error;
    return j->failure;
}
