/* job.c — making a job of what a client asked for, and giving it back in two parts.
 *
 * Called by api/ on the client's thread (job_new, job_cancel) and by the engine. All that can be refused is refused
 * here, and all that takes time without needing the engine is done here: copies, the detokeniser's start, the tokens
 * that may complete the prompt's last one. job_strip gives back what only the engine used, at once when the job ends;
 * the rest goes with the last owner. */
#include "job.h"
#include "inbox.h"
#include "base/clock.h"
#include "base/mem.h"
#include <math.h>

enum { PRIMING = 8 }; /* prompt tokens that the detokeniser sees, so that the answer's spaces are right */

/* ---- lanes ---- */

static qp_status open_lane(lane *l, const int32_t *ids, size_t n, size_t n_more, qp_error *err) {
    const size_t capacity = n + (n_more < 256 ? n_more : 256);
    l->ids = mem_array(capacity, sizeof *ids);
    if (!l->ids) return err_no_memory(err, capacity * sizeof *ids, "the ids of a job");
    memcpy(l->ids, ids, n * sizeof *ids);
    l->n = l->n_prompt = n;
    l->capacity = capacity;
    return QP_OK;
}

static qp_status append_id(lane *l, int32_t id, qp_error *err) {
    if (l->n == l->capacity) {
        int32_t *more = mem_resize(l->ids, 2 * l->n, sizeof *more);
        if (!more) return err_no_memory(err, 2 * l->n * sizeof *more, "the ids of a job");
        l->ids = more;
        l->capacity = 2 * l->n;
    }
    l->ids[l->n++] = id;
    return QP_OK;
}

qp_status job_append(job *j, int32_t id, qp_error *err) {
    for (int i = 0; i < j->n_lanes; i++) ERR_TRY(append_id(&j->lanes[i], id, err));
    return QP_OK;
}

/* ---- text ---- */

static qp_status prime(detok *d, const int32_t *ids, size_t n, qp_error *err) {
    span text;
    bool has_text;
    for (size_t i = n > PRIMING ? n - PRIMING : 0; i < n; i++) ERR_TRY(detok_next(d, ids[i], &text, &has_text, err));
    return QP_OK;
}

static qp_status open_text(job *j, const job_setup *s, qp_error *err) {
    ERR_TRY(hold_open(&j->hold, &s->hold, err));
    if (!s->tok) return QP_OK;
    ERR_TRY(detok_new(&j->detok, s->tok, !s->show_special, err));
    ERR_TRY(prime(j->detok, j->lanes[0].ids, j->lanes[0].n, err));
    if (!s->hold.n_bans) return QP_OK;
    ERR_TRY(detok_new(&j->detok_base, s->tok, !s->show_special, err));
    return detok_copy(j->detok_base, j->detok, err);
}

/* ---- healing: the prompt's last token is taken off, the first new one must begin with its text ---- */

static void fill_heal_mask(uint32_t *mask, const tok *t, int vocabulary, span head) {
    for (int32_t id = 0; id < vocabulary && id < tok_size(t); id++) {
        const span text = tok_bytes(t, id);
        if (text.at && !tok_is_special(t, id) && span_starts(text, head)) mask[id / 32] |= 1u << (id % 32);
    }
}

/* What the token would have said after the prompt before it. */
static qp_status measure_heal(job *j, const job_setup *s, int32_t id, qp_error *err) {
    detok *d;
    span text = {0};
    bool has_text = false;
    ERR_TRY(detok_new(&d, s->tok, !s->show_special, err));
    qp_status status = detok_copy(d, j->detok, err);
    if (status == QP_OK) status = detok_next(d, id, &text, &has_text, err);
    j->heal_bytes = j->heal_left = has_text ? text.bytes : 0;
    detok_free(d);
    return status;
}

static bool can_heal(const job_setup *s) {
    if (!s->heal || !s->tok || s->n_ids < 2) return false;
    const int32_t last = s->ids[s->n_ids - 1];
    return tok_bytes(s->tok, last).bytes && !tok_is_special(s->tok, last);
}

static qp_status open_heal(job *j, const job_setup *s, qp_error *err) {
    const int32_t last = s->ids[s->n_ids - 1];
    const size_t words = ((size_t)s->vocabulary + 31) / 32;
    j->heal_mask = mem_zarray(words, sizeof(uint32_t));
    if (!j->heal_mask) return err_no_memory(err, words * sizeof(uint32_t), "the tokens that complete another");
    fill_heal_mask(j->heal_mask, s->tok, s->vocabulary, tok_bytes(s->tok, last));
    return measure_heal(j, s, last, err);
}

static qp_status tell_filters(const job_setup *s, qp_error *err) {
    const span head = tok_bytes(s->tok, s->ids[s->n_ids - 1]);
    for (size_t i = 0; i < s->n_filters; i++) ERR_TRY(s->filters[i].heal(s->filters[i].user, head.at, head.bytes, err));
    return QP_OK;
}

/* ---- making ---- */

static qp_status check_ids(const int32_t *ids, size_t n, int vocabulary, const char *what, qp_error *err) {
    if (!n) return err_set(err, QP_BAD_ARGUMENT, 0, "the %s is empty: at least one token is needed", what);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return err_set(err, QP_BAD_ARGUMENT, i, "%s token %zu is %d, the vocabulary has the ids 0 to %d", what,
                           i + 1, ids[i], vocabulary - 1);
    return QP_OK;
}

static qp_status check_seconds(double value, const char *name, qp_error *err) {
    if (value >= 0 && value <= 1e9) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "%s is %g, allowed are 0 (none) to 1e9 seconds", name, value);
}

static qp_status check_filters(const job_setup *s, qp_error *err) {
    for (size_t i = 0; i < s->n_filters; i++) {
        if (!s->filters[i].mask || !s->filters[i].accept)
            return err_set(err, QP_BAD_ARGUMENT, i, "filter %zu has no mask or no accept function", i + 1);
        if (s->hold.n_bans && !s->filters[i].rewind)
            return err_set(err, QP_BAD_ARGUMENT, i, "filter %zu cannot rewind, which banned texts need", i + 1);
        if (s->heal && !s->filters[i].heal)
            return err_set(err, QP_BAD_ARGUMENT, i, "filter %zu cannot heal, which completing the prompt needs", i + 1);
    }
    return QP_OK;
}

static qp_status check(const job_setup *s, qp_error *err) {
    ERR_TRY(check_ids(s->ids, s->n_ids, s->vocabulary, "prompt", err));
    if (s->negative_ids) ERR_TRY(check_ids(s->negative_ids, s->n_negative_ids, s->vocabulary, "negative prompt", err));
    ERR_TRY(check_seconds(s->max_queue_s, "max_queue_s", err));
    ERR_TRY(check_seconds(s->max_total_s, "max_total_s", err));
    if (s->loop_repeats && (s->loop_repeats < 2 || s->loop_repeats > 1000000))
        return err_set(err, QP_BAD_ARGUMENT, 0, "loop_repeats is %d, allowed are 0 (off) and 2 to 1000000",
                       s->loop_repeats);
    return check_filters(s, err);
}

static qp_status copy_array(void *out, const void *from, size_t n, size_t size, qp_error *err) {
    if (!n) return QP_OK;
    *(void **)out = mem_copy(from, n, size);
    return *(void **)out ? QP_OK : err_no_memory(err, n * size, "a job's settings");
}

static qp_status fill_arrays(job *j, const job_setup *s, qp_error *err) {
    const size_t words = ((size_t)s->vocabulary + 31) / 32;
    ERR_TRY(copy_array(&j->prompt, s->ids, s->n_ids, sizeof *s->ids, err));
    ERR_TRY(copy_array(&j->end_ids, s->end_ids, s->n_end_ids, sizeof *s->end_ids, err));
    j->n_end_ids = s->n_end_ids;
    j->banned = mem_array(s->n_end_ids + 1, sizeof *j->banned);
    if (!j->banned) return err_no_memory(err, s->n_end_ids, "a job's settings");
    if (s->n_filters || j->heal_mask) {
        j->mask = mem_array(words, sizeof *j->mask);
        if (!j->mask) return err_no_memory(err, words * sizeof *j->mask, "a mask of the vocabulary");
    }
    if (s->mailbox.n_top) {
        j->top = mem_array((size_t)s->mailbox.n_top, sizeof *j->top);
        if (!j->top) return err_no_memory(err, 0, "a token's alternatives");
    }
    return copy_array(&j->filters, s->filters, s->n_filters, sizeof *s->filters, err);
}

static qp_status fill(job *j, const job_setup *s, qp_error *err) {
    const bool heals = can_heal(s);
    ERR_TRY(open_lane(&j->lanes[0], s->ids, s->n_ids - heals, s->max_new_tokens, err));
    if (s->negative_ids) {
        ERR_TRY(open_lane(&j->lanes[1], s->negative_ids, s->n_negative_ids, s->max_new_tokens, err));
        j->n_lanes = 2;
    }
    ERR_TRY(open_text(j, s, err));
    if (heals) ERR_TRY(open_heal(j, s, err));
    if (heals) ERR_TRY(tell_filters(s, err));
    if (s->score_prompt) ERR_TRY(score_open(&j->score, j->lanes[0].n_prompt, s->mailbox.n_top, err));
    ERR_TRY(embed_open(&j->embed, s->pooling, j->lanes[0].n_prompt, s->hidden, err));
    ERR_TRY(sampler_new(&j->sampler, &s->sampling, err));
    return fill_arrays(j, s, err);
}

static void set_limits(job *j, const job_setup *s) {
    j->n_lanes = 1;
    j->n_prompt = s->n_ids;
    j->priority = s->priority;
    j->adapters = s->adapters;
    for (int i = 0; i < j->adapters.n; i++) lora_hold(j->adapters.adapters[i]);
    j->max_new_tokens = s->max_new_tokens;
    j->min_new_tokens = s->min_new_tokens;
    j->wants = s->mailbox;
    j->wants_tokens = s->mailbox.wants_tokens;
    j->may_force = s->n_filters == 1 && s->filters[0].forced && !s->mailbox.wants_tokens && !s->mailbox.max_unread &&
                   !s->sampling.n_allow && !s->sampling.n_ban && !s->sampling.n_bias;
    j->no_reuse = s->no_reuse;
    j->loop.repeats = s->loop_repeats;
    j->end.stop_id = -1;
    j->t_submitted = clock_now();
    j->queue_deadline = s->max_queue_s > 0 ? j->t_submitted + s->max_queue_s : (double)INFINITY;
    j->deadline = s->max_total_s > 0 ? j->t_submitted + s->max_total_s : (double)INFINITY;
}

qp_status job_new(job **out, const job_setup *setup, inbox *door, qp_error *err) {
    *out = NULL;
    ERR_TRY(check(setup, err));
    job *j = MEM_NEW(job);
    if (!j) return err_no_memory(err, sizeof *j, "a job");
    qp_status status = mailbox_open(&j->mailbox, &setup->mailbox, err);
    if (status != QP_OK) return mem_free(j), status;
    atomic_store(&j->owners, 1);
    j->inbox = inbox_hold(door);
    set_limits(j, setup);
    status = fill(j, setup, err);
    if (status == QP_OK) {
        j->n_filters = setup->n_filters;
        *out = j;
    } else {
        job_let_go(j);
    }
    return status;
}

void job_take_sets(job *j, uint32_t *dry_breakers, uint32_t *xtc_keep) {
    j->sets[0] = dry_breakers;
    j->sets[1] = xtc_keep;
}

/* ---- giving back ---- */

void job_strip(job *j) {
    for (int i = 0; i < JOB_LANES; i++) {
        mem_free(j->lanes[i].ids);
        j->lanes[i].ids = NULL;
    }
    for (size_t i = 0; i < j->n_filters; i++)
        if (j->filters[i].free) j->filters[i].free(j->filters[i].user);
    j->n_filters = 0;
    for (int i = 0; i < j->adapters.n; i++) lora_close(j->adapters.adapters[i]);
    j->adapters.n = 0;
    sampler_free(j->sampler);
    j->sampler = NULL;
    detok_free(j->detok);
    detok_free(j->detok_base);
    j->detok = j->detok_base = NULL;
    void **const arrays[] = {(void **)&j->end_ids,   (void **)&j->filters, (void **)&j->mask,
                             (void **)&j->heal_mask, (void **)&j->banned,  (void **)&j->blocked,
                             (void **)&j->top,       (void **)&j->sets[0], (void **)&j->sets[1]};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        mem_free(*arrays[i]);
        *arrays[i] = NULL;
    }
}

void job_let_go(job *j) {
    if (!j || atomic_fetch_sub(&j->owners, 1) != 1) return;
    job_strip(j);
    hold_close(&j->hold); /* the stop text that matched lives as long as the handle */
    mailbox_close(&j->mailbox);
    inbox_let_go(j->inbox);
    score_close(&j->score);
    embed_close(&j->embed);
    mem_free(j->prompt);
    mem_free(j);
}

void job_cancel(job *j) {
    if (!atomic_exchange(&j->is_cancelled, true)) inbox_signal(j->inbox);
}
