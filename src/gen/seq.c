/* seq.c — sequences and the pages they hold; feeds cut into steps of the model.
 *
 * Called by job.c and by the evaluation calls of api/. A step takes rows of the feeds in order until it is full, so a
 * long prompt becomes several steps and many single tokens become one. */
#include "seq.h"
#include "base/mem.h"
#include <limits.h>

/* ---- room ---- */

kv_type seq_cache_type(qp_cache_type type) {
    static const kv_type types[] = {[QP_CACHE_FP16] = KV_F16,
                                    [QP_CACHE_FP32] = KV_F32,
                                    [QP_CACHE_Q8] = KV_Q8,
                                    [QP_CACHE_Q6] = KV_Q6,
                                    [QP_CACHE_Q4] = KV_Q4};
    return types[type];
}

kv_type seq_kv_type(const model *m, qp_cache_type type) {
    if (type == QP_CACHE_DEFAULT) return m->dev->exact ? KV_F32 : KV_F16;
    return seq_cache_type(type);
}

store_shape seq_store_shape(const model_shape *s, kv_type type) {
    if (s->kv_rank)
        return (store_shape){.n_layers = s->n_layers,
                             .n_kv_heads = 1,
                             .head_dim = s->kv_rank + s->rope_dim,
                             .type = type,
                             .v_dim = s->kv_rank,
                             .latent = true};
    return (store_shape){
        .n_layers = s->n_layers, .n_kv_heads = s->n_kv_heads, .head_dim = s->head_dim, .type = type, .v_dim = s->v_dim};
}

qp_status seq_check_room(const model *m, const store_shape *shape, uint64_t pages, qp_error *err) {
    size_t page_bytes;
    if (!store_page_bytes(shape, &page_bytes)) return QP_OK; /* store_open says so */
    return memory_check_cache(m->memory, &m->split, pages, page_bytes, err);
}

qp_status seq_room_open(seq_room *out, model *m, uint64_t tokens, qp_cache_type type, qp_error *err) {
    *out = (seq_room){.model = m};
    const uint64_t pages = tokens / DEV_PAGE_TOKENS + (tokens % DEV_PAGE_TOKENS != 0);
    if (!tokens || pages > INT_MAX / 2)
        return err_set(err, QP_BAD_ARGUMENT, 0, "cache of %llu tokens, allowed are 1 to %llu",
                       (unsigned long long)tokens, (unsigned long long)(INT_MAX / 2) * DEV_PAGE_TOKENS);
    const store_shape shape = seq_store_shape(&m->shape, seq_kv_type(m, type));
    ERR_TRY(seq_check_room(m, &shape, pages, err));
    ERR_TRY(store_open(&out->store, &m->split, &shape, (int)pages, err));
    const qp_status status = pages_open(&out->pages, (int)pages, NULL, err);
    if (status != QP_OK) store_close(&out->store);
    return status;
}

void seq_room_close(seq_room *room) {
    seq_best_close(room->best);
    pages_close(room->pages);
    store_close(&room->store);
}

uint64_t seq_room_tokens(const seq_room *room) { return (uint64_t)room->store.n_pages * DEV_PAGE_TOKENS; }

/* ---- sequences ---- */

void seq_open(seq *out, seq_room *room) {
    *out = (seq){.room = room};
    chain_open(&out->chain, room->pages, 0);
    chain_make_private(&out->chain);
}

void seq_close(seq *s) {
    chain_close(&s->chain);
    *s = (seq){0};
}

qp_status seq_reserve(seq *s, int64_t tokens, qp_error *err) { return chain_reserve(&s->chain, tokens, err); }

void seq_rewind(seq *s, int64_t length) {
    page_copy none; /* a private chain has its pages for itself: nothing to copy, nothing that can fail */
    chain_rewind(&s->chain, length, &none, NULL);
}

/* ---- feeding ---- */

typedef struct step_rows {
    int32_t ids[MODEL_MAX_ROWS], logit_rows[MODEL_MAX_ROWS];
    row_span spans[MODEL_MAX_ROWS];
    uint64_t rope_lengths[MODEL_MAX_ROWS];
    const lora_set *adapters[MODEL_MAX_ROWS];
    const step_digest *digest;
    step_input in;
} step_rows;

static bool is_prompt(const seq_feed *feed) { return feed->count > 1; }

/* Takes as many of the feed's ids from `done` on as the step has room for; returns how many. */
static size_t add_rows(step_rows *step, const seq_feed *feed, size_t done, uint64_t rope_length) {
    step_input *in = &step->in;
    chain *c = &feed->seq->chain;
    const size_t room = (size_t)(feed->seq->room->model->forward.max_rows - in->n_rows), left = feed->count - done;
    const int n = (int)(left < room ? left : room);
    step->spans[in->n_spans] = (row_span){in->n_rows, n, c->length, c->pages};
    step->adapters[in->n_spans] = feed->seq->adapters.n ? &feed->seq->adapters : NULL;
    step->rope_lengths[in->n_spans++] = rope_length;
    if (is_prompt(feed)) in->n_prompt_rows += n;
    for (int i = 0; i < n; i++) {
        const size_t at = done + (size_t)i;
        if (at + feed->last >= feed->count) step->logit_rows[in->n_logit_rows++] = in->n_rows;
        step->ids[in->n_rows++] = feed->ids[at];
    }
    chain_advance(c, NULL, c->length + n);
    return (size_t)n;
}

static qp_status run_step(step_rows *step, model *m, const kv_view *kv, float **logits, qp_error *err) {
    step->in.ids = step->ids;
    step->in.spans = step->spans;
    step->in.rope_lengths = step->rope_lengths;
    step->in.adapters = step->adapters;
    step->in.logit_rows = step->logit_rows;
    step->in.digest = step->digest;
    step->in.kv = kv;
    const qp_status status = model_step(m, &step->in, *logits, err);
    if (step->in.n_logit_rows) *logits += (size_t)step->in.n_logit_rows * (size_t)m->shape.vocabulary;
    step->in = (step_input){0};
    return status;
}

static qp_status run_all(step_rows *step, const seq_feed *feeds, int n_feeds, float *logits, qp_error *err) {
    seq_room *room = feeds[0].seq->room;
    for (int i = 0; i < n_feeds; i++) {
        const uint64_t after = (uint64_t)feeds[i].seq->chain.length + feeds[i].count;
        const uint64_t rope_length = feeds[i].rope_length ? feeds[i].rope_length : after;
        if (step->in.n_prompt_rows && !is_prompt(&feeds[i])) /* behind prompts no answer may stand */
            ERR_TRY(run_step(step, room->model, room->store.views, &logits, err));
        for (size_t done = 0; done < feeds[i].count;) {
            done += add_rows(step, &feeds[i], done, rope_length);
            if (step->in.n_rows == room->model->forward.max_rows)
                ERR_TRY(run_step(step, room->model, room->store.views, &logits, err));
        }
    }
    return step->in.n_rows ? run_step(step, room->model, room->store.views, &logits, err) : QP_OK;
}

static qp_status check_feed(const seq_feed *feed, qp_error *err) {
    const int n = feed->seq->room->model->shape.vocabulary;
    for (size_t i = 0; i < feed->count; i++)
        if (feed->ids[i] < 0 || feed->ids[i] >= n)
            return err_set(err, QP_BAD_ARGUMENT, i, "token %zu is %d, the vocabulary has the ids 0 to %d", i + 1,
                           feed->ids[i], n - 1);
    if (feed->last > feed->count)
        return err_set(err, QP_BAD_ARGUMENT, 0, "logits of the last %zu of %zu tokens were asked for", feed->last,
                       feed->count);
    return seq_reserve(feed->seq, feed->seq->chain.length + (int64_t)feed->count, err);
}

/* Takes back what feeds 0 .. n-1 have done. */
static void undo(const seq_feed *feeds, const int64_t *before, int n) {
    for (int i = 0; i < n; i++) seq_rewind(feeds[i].seq, before[i]);
}

static qp_status run(const seq_feed *feeds, int n_feeds, const step_digest *digest, float *logits, qp_error *err) {
    step_rows *step = MEM_NEW(step_rows);
    int64_t *before = mem_array((size_t)n_feeds, sizeof *before);
    qp_status status = step && before ? QP_OK : err_no_memory(err, sizeof *step, "a step");
    int n = 0;
    if (step) step->digest = digest;
    for (; status == QP_OK && n < n_feeds; n++) {
        before[n] = feeds[n].seq->chain.length;
        status = check_feed(&feeds[n], err);
    }
    if (status == QP_OK) status = run_all(step, feeds, n_feeds, logits, err);
    if (status != QP_OK && before) undo(feeds, before, n);
    mem_free(step);
    mem_free(before);
    return status;
}

qp_status seq_run(const seq_feed *feeds, int n_feeds, float *logits, qp_error *err) {
    return run(feeds, n_feeds, NULL, logits, err);
}

qp_status seq_run_digested(const seq_feed *feeds, int n_feeds, const step_digest *digest, float *logits,
                           qp_error *err) {
    return run(feeds, n_feeds, digest, logits, err);
}
