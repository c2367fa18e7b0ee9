/* mailbox.c — two boxes that change places: the engine fills one, the reader empties the other.
 *
 * Called by emit.c on the engine's thread and by the job's reader. The engine never waits for a reader: what comes
 * while nobody reads is appended to the same box, so that nothing is lost and a slow reader gets it as one event. The
 * lock is held for appending and for exchanging the boxes, never while text is used. */
#include "mailbox.h"
#include "base/clock.h"
#include "base/mem.h"

qp_status mailbox_open(mailbox *m, const mailbox_setup *setup, qp_error *err) {
    *m = (mailbox){.setup = *setup};
    ERR_TRY(bell_open(&m->bell, err));
    atomic_store(&m->watch, watch_hold(setup->watch));
    m->seat = (watch_seat){.handle = setup->handle, .user = setup->user};
    return QP_OK;
}

static void free_output(output *o) {
    strbuf_free(&o->text);
    mem_free(o->ids);
    mem_free(o->tokens);
    mem_free(o->top);
    mem_free(o->logits);
}

void mailbox_close(mailbox *m) {
    free_output(&m->boxes[0]);
    free_output(&m->boxes[1]);
    strbuf_free(&m->end.held_text);
    mem_free(m->end.held_ids);
    watch_let_go(atomic_load(&m->watch));
    bell_close(&m->bell);
}

/* ---- the engine's side ---- */

static bool resize(void *array, size_t count, size_t size) {
    void *more = mem_resize(*(void **)array, count, size);
    if (more) *(void **)array = more;
    return more != NULL;
}

static bool make_room(output *o, const mailbox_setup *s, size_t more) {
    if (o->n + more <= o->capacity) return true;
    const size_t n = 2 * (o->n + more), n_top = (size_t)s->n_top;
    if (!resize(&o->ids, n, sizeof *o->ids)) return false;
    if (s->wants_tokens && !resize(&o->tokens, n, sizeof *o->tokens)) return false;
    if (n_top && !resize(&o->top, n, n_top * sizeof *o->top)) return false;
    if (s->n_logits && !resize(&o->logits, n, s->n_logits * sizeof *o->logits)) return false;
    o->capacity = n;
    return true;
}

/* The pointers of a token are set when it is read: the arrays may move until then. */
static void put_item(output *o, const mailbox_setup *s, const mailbox_item *item) {
    const size_t i = o->n++, n_top = (size_t)s->n_top;
    o->ids[i] = item->id;
    if (!s->wants_tokens) return;
    o->tokens[i] = (qp_token){.id = item->id, .p = item->p, .logprob = item->logprob, .n_top = item->n_top};
    if (item->n_top) memcpy(o->top + i * n_top, item->top, (size_t)item->n_top * sizeof *item->top);
    if (s->n_logits && item->logits)
        memcpy(o->logits + i * s->n_logits, item->logits, s->n_logits * sizeof *item->logits);
}

static void tell(mailbox *m) {
    m->is_untold = false;
    bell_ring(&m->bell);
    watch *w = atomic_load(&m->watch);
    if (w) watch_tell(w, &m->seat);
}

qp_status mailbox_add(mailbox *m, span text, const mailbox_item *items, size_t n, double sampled_at, qp_error *err) {
    bell_lock(&m->bell);
    output *o = &m->boxes[m->filling];
    const bool is_ok = make_room(o, &m->setup, n);
    if (is_ok) {
        for (size_t i = 0; i < n; i++) put_item(o, &m->setup, &items[i]);
        strbuf_add(&o->text, text.at, text.bytes);
        o->sampled_at = sampled_at;
    }
    const bool failed = !is_ok || o->text.failed;
    bell_unlock(&m->bell);
    if (failed) return err_no_memory(err, text.bytes, "generated text that waits for its reader");
    m->is_untold = true;
    return QP_OK;
}

void mailbox_tell(mailbox *m) {
    if (m->is_untold) tell(m);
}

void mailbox_prompt(mailbox *m, size_t done, size_t of) {
    if (!m->setup.wants_prompt) return;
    bell_lock(&m->bell);
    m->has_prompt_news = true;
    m->prompt_done = done;
    m->prompt_tokens = of;
    bell_unlock(&m->bell);
    tell(m);
}

bool mailbox_end(mailbox *m, const job_end *end) {
    bell_lock(&m->bell);
    const bool is_first = !m->has_ended;
    if (is_first) {
        m->end = *end;
        m->has_ended = true;
    }
    bell_unlock(&m->bell);
    if (is_first) tell(m);
    return is_first;
}

bool mailbox_is_full(mailbox *m) {
    if (!m->setup.max_unread) return false;
    bell_lock(&m->bell);
    const bool is_full = m->boxes[m->filling].n >= m->setup.max_unread;
    bell_unlock(&m->bell);
    return is_full;
}

/* ---- the reader's side ---- */

static void clear_output(output *o) {
    strbuf_clear(&o->text);
    o->n = 0;
}

static bool has_content(const output *o) { return o->n || o->text.bytes; }

static void set_pointers(output *o, const mailbox_setup *s) {
    for (size_t i = 0; s->wants_tokens && i < o->n; i++) {
        o->tokens[i].top = o->tokens[i].n_top ? o->top + i * (size_t)s->n_top : NULL;
        o->tokens[i].logits = s->n_logits ? o->logits + i * s->n_logits : NULL;
    }
}

static void content_event(mailbox *m, output *o, qp_event *event) {
    set_pointers(o, &m->setup);
    *event = (qp_event){.kind = QP_EVENT_TEXT,
                        .text = o->text.at ? o->text.at : "",
                        .text_bytes = o->text.bytes,
                        .ids = o->ids,
                        .n_ids = o->n,
                        .stop_id = -1,
                        .tokens = m->setup.wants_tokens ? o->tokens : NULL,
                        .held_text = "",
                        .sampled_at = o->sampled_at};
}

static void end_event(const mailbox *m, qp_event *event) {
    const job_end *e = &m->end;
    *event = (qp_event){.kind = QP_EVENT_END,
                        .text = "",
                        .finish = e->finish,
                        .stop_text = e->stop_text,
                        .stop_id = e->stop_id,
                        .stats = e->stats,
                        .held_text = e->held_text.at ? e->held_text.at : "",
                        .held_ids = e->held_ids,
                        .n_held_ids = e->n_held_ids};
}

qp_status mailbox_read(mailbox *m, double deadline, qp_event *event, qp_error *err) {
    qp_status status = QP_OK;
    bell_lock(&m->bell);
    output *full = &m->boxes[m->filling];
    while (!has_content(full) && !m->has_prompt_news && !m->has_ended && bell_wait(&m->bell, deadline)) continue;
    if (has_content(full)) {
        m->filling = 1 - m->filling;
        clear_output(&m->boxes[m->filling]);
        content_event(m, full, event);
    } else if (m->has_ended) {
        end_event(m, event);
        status = m->end.status;
        if (status != QP_OK && err) *err = m->end.error;
    } else if (m->has_prompt_news) {
        *event = (qp_event){.kind = QP_EVENT_PROMPT, .text = "", .stop_id = -1, .held_text = ""};
    } else {
        status = err_set(err, QP_BUSY, 0, "the job has nothing to read yet");
    }
    if (status != QP_BUSY) {
        event->prompt_done = m->prompt_done;
        if (event->kind != QP_EVENT_END) event->stats.prompt_tokens = m->prompt_tokens;
        m->has_prompt_news = false;
        event->read_at = clock_now();
    }
    bell_unlock(&m->bell);
    /* The engine may still be on its way to the watch with the end that was just read. */
    if (status != QP_BUSY && event->kind == QP_EVENT_END) mailbox_leave(m);
    return status;
}

/* The engine sees the watch after the seat is ready. What it said before it saw the watch is told here. */
qp_status mailbox_watch(mailbox *m, watch *w, void *user, qp_error *err) {
    if (atomic_load(&m->watch)) return err_set(err, QP_BUSY, 0, "the job has a watch already: it may have one");
    m->seat.user = user;
    atomic_store(&m->watch, watch_hold(w));
    bell_lock(&m->bell);
    const bool has_news = has_content(&m->boxes[m->filling]) || m->has_prompt_news || m->has_ended;
    bell_unlock(&m->bell);
    if (has_news) watch_tell(w, &m->seat);
    return QP_OK;
}

void mailbox_leave(mailbox *m) {
    watch *w = atomic_load(&m->watch);
    if (w) watch_leave(w, &m->seat);
}
