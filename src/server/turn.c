/* turn.c — one request's answer while it is made.
 *
 * Called by generate.c. The tricky thing is that text and tokens do not come together: text may be held back as what
 * may become a tag or a stop text. Tokens wait in a row beside it, each with the place where its text begins, and
 * travel with the part that shows that place; those of thoughts, tags and calls are dropped. */
#include "turn.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>

enum { TOKEN_BYTES = 1024 };

/* ---- tokens beside their text ---- */

static bool reserve(void **at, size_t *capacity, size_t count, size_t size) {
    if (count < *capacity) return true;
    const size_t more = *capacity ? 2 * *capacity : 16;
    void *bigger = mem_resize(*at, more, size);
    if (!bigger) return false;
    *at = bigger;
    *capacity = more;
    return true;
}

static size_t token_size(const turn *t, int32_t id) {
    char bytes[TOKEN_BYTES];
    const int n = t->setup.token_bytes(t->setup.user, id, bytes, sizeof bytes);
    return n > 0 ? (size_t)n : 0;
}

static void hold_token(turn_choice *c, const qp_token *from, uint64_t at, unsigned cut) {
    const turn *t = c->turn;
    qp_candidate *top = from->n_top ? mem_copy(from->top, (size_t)from->n_top, sizeof *top) : NULL;
    if ((from->n_top && !top) || !reserve((void **)&c->tokens, &c->held_capacity, c->n_held, sizeof *c->tokens)) {
        mem_free(top);
        c->turn->failed = true;
        return;
    }
    const bool sampled = t->setup.shows_sampled;
    for (int i = 0; sampled && i < from->n_top; i++) top[i].logprob = logf(top[i].p);
    const int n_top = from->n_top < t->setup.n_top ? from->n_top : t->setup.n_top;
    c->tokens[c->n_held++] = (turn_token){from->id, sampled ? logf(from->p) : from->logprob, true, cut, at, top, n_top};
}

/* Where each token's text begins: backwards from the end of the event's text, so that what a tokenizer leaves out at
 * the beginning of a text does no harm. */
static void hold_tokens(turn_choice *c, const qp_event *event) {
    turn *t = c->turn;
    const bool counts =
        t->setup.speech.thoughts || (t->setup.speech.tools && t->setup.speech.tools->body == BODY_HARMONY);
    if (!counts && !t->setup.wants_logprobs) return;
    uint64_t sum = 0, at = c->raw;
    for (size_t i = 0; i < event->n_ids; i++) sum += token_size(t, event->ids[i]);
    const uint64_t extra = sum > event->text_bytes ? sum - event->text_bytes : 0;
    for (size_t i = 0, before = 0; i < event->n_ids; i++) {
        const size_t size = token_size(t, event->ids[i]);
        at = c->raw + (before > extra ? before - extra : 0);
        before += size;
        if (counts && reserve((void **)&c->starts, &c->starts_capacity, c->n_starts, sizeof *c->starts))
            c->starts[c->n_starts++] = at;
        const unsigned cut = !i && !c->raw && extra == 1 && size > 1 ? 1 : 0;
        if (t->setup.wants_logprobs && event->tokens) hold_token(c, &event->tokens[i], at, cut);
    }
}

static void drop_tokens(turn_choice *c, size_t n) {
    for (size_t i = 0; i < n; i++) mem_free(c->tokens[i].top);
    if (n) memmove(c->tokens, c->tokens + n, (c->n_held - n) * sizeof *c->tokens);
    c->n_held -= n;
}

static size_t tokens_before(const turn_choice *c, uint64_t raw) {
    size_t n = 0;
    while (n < c->n_held && c->tokens[n].from < raw) n++;
    return n;
}

/* Tokens whose text is over before `raw`; of one that reaches over it, only the rest will be shown. */
static void drop_past(turn_choice *c, uint64_t raw) {
    size_t n = 0;
    while (n < c->n_held && c->tokens[n].from < raw) {
        const uint64_t end = n + 1 < c->n_held ? c->tokens[n + 1].from : c->raw;
        if (end > raw) {
            c->tokens[n].cut += (unsigned)(raw - c->tokens[n].from);
            c->tokens[n].from = raw;
            break;
        }
        n++;
    }
    drop_tokens(c, n);
}

static void keep_ids(turn_choice *c, const qp_event *event) {
    for (size_t i = 0; c->turn->setup.return_ids && i < event->n_ids; i++) {
        if (!reserve((void **)&c->ids, &c->ids_capacity, c->n_ids, sizeof *c->ids)) {
            c->turn->failed = true;
            return;
        }
        c->ids[c->n_ids++] = event->ids[i];
    }
}

/* ---- parts ---- */

static turn_call *begin_call(turn_choice *c, span name) {
    turn *t = c->turn;
    turn_call *more = mem_resize(c->calls, (size_t)c->n_calls + 1, sizeof *more);
    if (!more) return t->failed = true, NULL;
    c->calls = more;
    turn_call *call = &c->calls[c->n_calls];
    *call = (turn_call){.name = mem_copy_text(name.at, name.bytes)};
    if (!call->name) return t->failed = true, NULL;
    t->setup.make_id(t->setup.user, call->id, sizeof call->id, "call_", 24);
    c->n_calls++;
    return call;
}

static turn_call *call_of(turn_choice *c, const speech_part *p) {
    if (p->kind < SAY_CALL) return NULL;
    if (p->kind == SAY_CALL) return begin_call(c, p->text);
    if (p->call < 0 || p->call >= c->n_calls) return NULL;
    turn_call *call = &c->calls[p->call];
    if (p->kind == SAY_ARGUMENTS) strbuf_add(&call->arguments, p->text.at, p->text.bytes);
    if (p->kind == SAY_CALL_END) call->is_complete = p->is_complete;
    return call;
}

static void on_part(void *user, const speech_part *p) {
    turn_choice *c = user;
    turn *t = c->turn;
    turn_part part = {.kind = p->kind, .text = p->text, .call = call_of(c, p), .call_index = p->call};
    if (p->kind >= SAY_CALL && !part.call) return;
    if (p->kind == SAY_TEXT) strbuf_add(&c->text, p->text.at, p->text.bytes);
    if (p->kind == SAY_THOUGHT) strbuf_add(&c->thought, p->text.at, p->text.bytes);
    size_t n = 0;
    if (p->kind == SAY_TEXT) {
        drop_past(c, p->from);
        n = tokens_before(c, p->to);
        part.tokens = c->tokens;
        part.n_tokens = n;
    }
    if (t->setup.is_stream) turn_begin(t);
    if (t->setup.dialect->part) t->setup.dialect->part(t, c, &part);
    drop_tokens(c, n);
}

/* ---- events ---- */

void turn_feed(turn *t, int choice, const qp_event *event) {
    turn_choice *c = &t->choices[choice];
    if (event->kind == QP_EVENT_PROMPT) {
        if (t->setup.is_stream && t->setup.dialect->progress) {
            turn_begin(t);
            t->setup.dialect->progress(t, c, event->prompt_done, t->setup.prompt_tokens / (size_t)t->setup.n_prompts,
                                       event->read_at - t->setup.started);
        }
        return;
    }
    if (c->is_loop || speech_is_over(c->speech)) return;
    c->n_tokens += event->n_ids;
    hold_tokens(c, event);
    keep_ids(c, event);
    for (size_t i = 0; i < event->n_ids; i++) c->is_loop |= loop_window_feed(&c->loop, event->ids[i]);
    c->raw += event->text_bytes;
    if (t->setup.is_stream) turn_begin(t);
    speech_feed(c->speech, event->text, event->text_bytes, false);
    if (speech_failed(c->speech)) t->failed = true;
}

bool turn_is_over(const turn *t, int choice) {
    return t->choices[choice].is_loop || speech_is_over(t->choices[choice].speech);
}

static void set_end(turn_choice *c, const qp_event *e, const char *eos_reason) {
    static const struct {
        const char *finish, *eos;
    } table[] = {
        [QP_FINISH_NONE] = {"stop", "stop_token"},      [QP_FINISH_EOS] = {"stop", "stop_token"},
        [QP_FINISH_STOP] = {"stop", "stop_string"},     [QP_FINISH_LENGTH] = {"length", "max_new_tokens"},
        [QP_FINISH_CANCELLED] = {"stop", "stop_token"}, [QP_FINISH_ERROR] = {"stop", "stop_token"},
        [QP_FINISH_FILTER] = {"stop", "end_filter"},    [QP_FINISH_TIMEOUT] = {"length", "timeout"},
        [QP_FINISH_LOOP] = {"stop", "loop_detected"},
    };
    const turn_setup *setup = &c->turn->setup;
    const int stop = speech_stop(c->speech);
    c->end = (turn_end){.finish = table[e->finish].finish, .eos_reason = table[e->finish].eos, .stop_id = -1};
    if (c->is_loop) c->end.eos_reason = "loop_detected", c->end.finish = "stop";
    if (eos_reason && !c->is_loop) c->end.finish = "length", c->end.eos_reason = eos_reason;
    if (e->finish == QP_FINISH_STOP) c->end.stop_text = e->stop_text;
    if (stop >= 0) {
        c->end.finish = "stop", c->end.eos_reason = "stop_string";
        c->end.stop_text = setup->speech.stops[stop];
    }
    for (size_t i = 0; e->finish == QP_FINISH_EOS && i < setup->n_stop_ids; i++)
        if (setup->stop_ids[i] == e->stop_id) c->end.stop_id = e->stop_id;
    if (e->finish == QP_FINISH_LENGTH) c->end.is_context_full = !setup->is_limited;
    if (!strcmp(c->end.finish, "stop") && speech_complete_calls(c->speech)) c->end.finish = "tool_calls";
}

static void count_thoughts(turn_choice *c) {
    const uint64_t end = speech_thought_end(c->speech);
    while (c->n_thought_tokens < c->n_starts && c->starts[c->n_thought_tokens] < end) c->n_thought_tokens++;
}

/* The stop text itself, where the client wants to see it. */
static void show_stop(turn_choice *c) {
    const turn_setup *setup = &c->turn->setup;
    if (!setup->include_stop || !c->end.stop_text) return;
    const speech_part part = {SAY_TEXT, span_of(c->end.stop_text), -1, false, c->raw, c->raw};
    on_part(c, &part);
}

void turn_end_choice(turn *t, int choice, const qp_event *event, const char *eos_reason) {
    turn_choice *c = &t->choices[choice];
    if (c->has_ended) return;
    const bool was_over = turn_is_over(t, choice);
    speech_feed(c->speech, "", 0, true);
    c->has_ended = true;
    c->stats = event->stats;
    set_end(c, event, eos_reason);
    if (!was_over) c->n_tokens = event->stats.new_tokens + (event->finish == QP_FINISH_EOS);
    show_stop(c);
    count_thoughts(c);
    c->stop_name = c->end.stop_text ? mem_copy_text(c->end.stop_text, strlen(c->end.stop_text)) : NULL;
    c->end.stop_text = c->stop_name; /* the event's is gone after this call */
    t->n_ended++;
    if (t->setup.is_stream) turn_begin(t);
    if (t->setup.dialect->close) t->setup.dialect->close(t, c);
}

void turn_echo(turn *t, int choice, const char *text, size_t bytes, const turn_token *tokens, size_t n_tokens) {
    turn_choice *c = &t->choices[choice];
    const turn_part part = {.kind = SAY_TEXT, .text = {text, bytes}, .tokens = tokens, .n_tokens = n_tokens};
    strbuf_add(&c->text, text, bytes);
    if (t->setup.is_stream) turn_begin(t);
    if (t->setup.dialect->part) t->setup.dialect->part(t, c, &part);
}

void turn_begin(turn *t) {
    if (t->has_begun) return;
    t->has_begun = true;
    if (t->setup.dialect->begin) t->setup.dialect->begin(t);
}

void turn_finish(turn *t) {
    if (!t->setup.is_stream) return;
    turn_begin(t);
    if (t->setup.dialect->end) t->setup.dialect->end(t);
}

void turn_document(turn *t, strbuf *out) { t->setup.dialect->document(t, out); }

/* ---- writing ---- */

void turn_start_event(turn *t, const char *name) {
    strbuf_clear(&t->event);
    if (name) strbuf_format(&t->event, "event: %s\n", name);
    strbuf_text(&t->event, "data: ");
}

void turn_send(turn *t) {
    strbuf_text(&t->event, "\n\n");
    if (t->event.failed) t->failed = true;
    if (!t->failed && t->setup.is_stream) t->setup.send(t->setup.user, t->event.at, t->event.bytes);
    strbuf_clear(&t->event);
}

void turn_write_token(turn *t, strbuf *out, int32_t id, unsigned cut, bool with_bytes) {
    char bytes[TOKEN_BYTES];
    int n = t->setup.token_bytes(t->setup.user, id, bytes, sizeof bytes);
    if (n > (int)sizeof bytes) n = (int)sizeof bytes;
    const size_t count = n > (int)cut ? (size_t)n - cut : 0;
    if (!with_bytes) return strbuf_json(out, bytes + cut, count);
    strbuf_char(out, '[');
    for (size_t i = 0; i < count; i++) strbuf_format(out, "%s%d", i ? "," : "", (unsigned char)bytes[cut + i]);
    strbuf_char(out, ']');
}

/* ---- figures ---- */

turn_usage turn_count(const turn *t) {
    turn_usage u = {.prompt_rate = -1, .completion_rate = -1};
    double decoded = 0;
    for (int i = 0; i < t->n_choices; i++) {
        const turn_choice *c = &t->choices[i];
        u.completion_tokens += c->n_tokens;
        u.thought_tokens += c->n_thought_tokens;
        if (c->n_tokens > 1) decoded += (double)c->n_tokens - 1;
        if (c->stats.decode_s > u.completion_s) u.completion_s = c->stats.decode_s;
        if (c->stats.total_s > u.total_s) u.total_s = c->stats.total_s;
        if (i % t->setup.n) continue; /* choices of one prompt share it */
        u.prompt_tokens += c->has_ended ? c->stats.prompt_tokens : 0;
        u.cached_tokens += c->stats.cached_tokens;
        u.prompt_s += c->stats.prefill_s;
    }
    if (u.prompt_tokens < t->setup.prompt_tokens) u.prompt_tokens = t->setup.prompt_tokens;
    const size_t computed = u.prompt_tokens > u.cached_tokens ? u.prompt_tokens - u.cached_tokens : 0;
    if (computed >= 8 && u.prompt_s > 0) u.prompt_rate = (double)computed / u.prompt_s;
    if (decoded > 0 && u.completion_s > 0) u.completion_rate = decoded / u.completion_s;
    return u;
}

/* ---- life ---- */

static bool open_choice(turn *t, int i) {
    turn_choice *c = &t->choices[i];
    speech_setup setup = t->setup.speech;
    setup.say = on_part;
    setup.user = c;
    c->index = i;
    c->turn = t;
    c->loop.window = t->setup.loop_tokens;
    c->end.stop_id = -1;
    strbuf_text(&c->text, "");
    c->speech = speech_new(&setup);
    return c->speech && !c->text.failed;
}

turn *turn_new(const turn_setup *setup) {
    turn *t = MEM_NEW(turn);
    if (!t) return NULL;
    t->setup = *setup;
    json_incref((json_t *)setup->request);
    snprintf(t->id, sizeof t->id, "%s", setup->id);
    snprintf(t->model, sizeof t->model, "%s", setup->model);
    snprintf(t->fingerprint, sizeof t->fingerprint, "%s", setup->fingerprint);
    t->open_kind = -1; /* no item */
    t->n_choices = setup->n_prompts * setup->n;
    t->choices = mem_zarray((size_t)t->n_choices, sizeof *t->choices);
    bool is_good = t->choices != NULL;
    for (int i = 0; is_good && i < t->n_choices; i++) is_good = open_choice(t, i);
    if (is_good) return t;
    turn_free(t);
    return NULL;
}

static void close_choice(turn_choice *c) {
    for (int i = 0; i < c->n_calls; i++) {
        mem_free(c->calls[i].name);
        strbuf_free(&c->calls[i].arguments);
    }
    drop_tokens(c, c->n_held);
    mem_free(c->tokens);
    mem_free(c->starts);
    mem_free(c->calls);
    mem_free(c->ids);
    mem_free(c->stop_name);
    strbuf_free(&c->text);
    strbuf_free(&c->thought);
    strbuf_free(&c->logprobs);
    for (int i = 0; i < 4; i++) strbuf_free(&c->arrays[i]);
    speech_free(c->speech);
}

void turn_free(turn *t) {
    if (!t) return;
    for (int i = 0; t->choices && i < t->n_choices; i++) close_choice(&t->choices[i]);
    mem_free(t->choices);
    json_decref((json_t *)t->setup.request);
    strbuf_free(&t->event);
    strbuf_free(&t->chunk_head);
    strbuf_free(&t->items);
    strbuf_free(&t->item_text);
    mem_free(t);
}
