/* chat_answer.c — one answer: fit the conversation into the context, run the job, show its text, keep it.
 *
 * Called by cmd_chat.c for each message. On a terminal every Ctrl-C only cancels this job; out of a pipe the first does
 * and the conversation ends, the second ends the program. What the model reasons is told apart by speech.c: dim where
 * there are colours, between its tags on a plain terminal, left out where nobody is looking (with --json a member of
 * its own). The tricky thing is a message that fails: it is taken back, so that turns stay whole. */
#include "chat_state.h"
#include "constraint.h"
#include "settings.h"
#include "server/speech.h"

enum { ROOM_WANTED = 1024, ROOM_LEAST = 16 };

/* An answer while it is written. */
typedef struct telling {
    chat_state *c;
    qp_job *job;
    answer answer;
    input_ids prompt;
    speech *speech; /* NULL: the template knows no reasoning */
    strbuf text, reasoning;
    speech_kind kind; /* of what was shown last */
    char last;        /* byte that was shown; 0: nothing yet */
    bool starts_in_thought, raised;
    uint64_t seed;
    size_t n_dropped;
} telling;

/* ---- the prompt ---- */

static qp_status render(telling *t, const char *messages, size_t bytes, qp_error *err) {
    input_free_ids(&t->prompt);
    return chat_format_prompt(&t->c->format, messages, bytes, &t->prompt, &t->starts_in_thought, &t->raised, err);
}

static qp_status measure(void *user, const char *messages, size_t bytes, size_t *tokens, qp_error *err) {
    telling *t = user;
    ERR_TRY(render(t, messages, bytes, err));
    *tokens = t->prompt.count;
    return QP_OK;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static qp_status fit(telling *t, qp_error *err) {
    chat_state *c = t->c;
    const size_t most = c->own.new_tokens ? (size_t)c->own.new_tokens : ROOM_WANTED;
    const size_t wanted = least(least(most, ROOM_WANTED), c->context / 4 + 1);
    const chat_room room = {c->context, least(wanted, ROOM_LEAST), wanted, t, measure};
    const qp_status status = chat_session_fit(&c->talk, &room, &t->n_dropped, err);
    if (status == QP_OK || !t->raised || !c->talk.system || c->talk.folds_system) return status;
    qp_error second; /* many templates refuse a system message: then it begins the first message of the user */
    c->talk.folds_system = true;
    if (chat_session_fit(&c->talk, &room, &t->n_dropped, &second) == QP_OK) return QP_OK;
    c->talk.folds_system = false;
    return status;
}

static qp_status render_fitting(telling *t, qp_error *err) {
    strbuf messages = {0};
    qp_status status = chat_session_text(&t->c->talk, &messages, err);
    if (status == QP_OK) status = render(t, messages.at, messages.bytes, err);
    strbuf_free(&messages);
    return status;
}

/* ---- the job ---- */

/* The texts of --stop and, unless no end is to be one, those of the prompt format. */
static qp_status join_stops(const char ***out, qp_job_options *wanted, const chat_format *f, qp_error *err) {
    const size_t n = wanted->n_stop + (wanted->ignore_eos ? 0 : f->n_stops);
    const char **all = mem_array(n ? n : 1, sizeof *all);
    if (!all) return err_no_memory(err, n * sizeof *all, "the stop texts");
    for (size_t i = 0; i < n; i++) all[i] = i < wanted->n_stop ? wanted->stop[i] : f->stops[i - wanted->n_stop];
    wanted->stop = *out = all;
    wanted->n_stop = n;
    wanted->stop_ids = f->stop_ids;
    wanted->n_stop_ids = wanted->ignore_eos ? 0 : f->n_stop_ids;
    return QP_OK;
}

/* They hold for what follows the reasoning. Compiled lately, they are found again. */
static qp_status add_constraints(telling *t, constraint_list *l, qp_job_options *wanted, qp_error *err) {
    const chat_state *c = t->c;
    const constraint_before before = {c->format.thoughts, t->starts_in_thought};
    wanted->n_filters = 0;
    const qp_status status = constraint_open_behind(l, before, &c->own, qp_model_peek_tokenizer(c->model), err);
    return status == QP_OK ? constraint_filters(l, wanted, err) : status;
}

/* Guidance needs pages for a second prompt, so that what was thought to fit may still be too large. */
static qp_status submit(telling *t, qp_error *err) {
    chat_state *c = t->c;
    qp_job_options wanted;
    const char **stops = NULL;
    constraint_list constraints;
    t->seed = c->seed + c->n_seeds++;
    settings_fill(&wanted, &c->own, c->s->command, &c->info, t->seed);
    wanted.adapters = c->adapters.uses;
    wanted.n_adapters = c->adapters.count;
    wanted.show_special |= c->format.shows_special;
    wanted.show_prompt = c->s->term.live_err && !c->s->o->json;
    ERR_TRY(join_stops(&stops, &wanted, &c->format, err));
    qp_status status;
    do {
        status = render_fitting(t, err);
        if (status != QP_OK) break;
        wanted.ids = t->prompt.at;
        wanted.n_ids = t->prompt.count;
        status = add_constraints(t, &constraints, &wanted, err);
        if (status == QP_OK) status = qp_job_new(&t->job, c->generator, &wanted, err);
        constraint_close(&constraints);
    } while (status == QP_TOO_LARGE && chat_session_drop(&c->talk) && ++t->n_dropped);
    mem_free(stops);
    return status;
}

/* ---- what is shown ---- */

static void show(telling *t, const char *text, size_t bytes) {
    if (t->c->s->term.live_out)
        term_text(stdout, text, bytes);
    else
        fwrite(text, 1, bytes, stdout);
    if (bytes) t->last = text[bytes - 1];
}

static void show_tag(telling *t, bool is_open) {
    const term *s = &t->c->s->term;
    const thought_format *f = t->c->format.thoughts;
    if (s->colour_out)
        fputs(term_set(true, is_open ? STYLE_DIM : STYLE_PLAIN), stdout);
    else
        printf("%s%s", is_open ? f->open : f->close, is_open ? "\n" : "");
    if (!is_open) fputs(t->last == '\n' ? "\n" : "\n\n", stdout);
}

/* Blank lines between reasoning and answer are not the answer's. */
static span after_reasoning(const telling *t, span text) {
    while (t->reasoning.bytes && !t->text.bytes && text.bytes && strchr(" \n", *text.at)) text.at++, text.bytes--;
    return text;
}

static void say(void *user, const speech_part *part) {
    telling *t = user;
    const bool is_thought = part->kind == SAY_THOUGHT;
    const span text = is_thought ? part->text : after_reasoning(t, part->text);
    if (!text.bytes) return;
    strbuf_add(is_thought ? &t->reasoning : &t->text, text.at, text.bytes);
    if (t->c->s->o->json || (is_thought && !t->c->s->term.live_out)) return;
    const bool was_thought = t->kind == SAY_THOUGHT;
    if (is_thought != was_thought) show_tag(t, is_thought);
    t->kind = part->kind;
    show(t, text.at, text.bytes);
}

static void say_text(telling *t, const char *text, size_t bytes, bool is_last) {
    const speech_part part = {.kind = SAY_TEXT, .text = {text, bytes}};
    if (t->speech)
        speech_feed(t->speech, text, bytes, is_last);
    else
        say(t, &part);
}

static qp_status take_event(telling *t, const qp_event *event, qp_error *err) {
    term *s = &t->c->s->term;
    if (event->kind == QP_EVENT_PROMPT) {
        term_bar(s, "reading", (double)event->prompt_done, (double)event->stats.prompt_tokens);
        return QP_OK;
    }
    term_bar_end(s);
    ERR_TRY(answer_take(&t->answer, event, qp_model_peek_tokenizer(t->c->model), err));
    say_text(t, event->text, event->text_bytes, event->kind == QP_EVENT_END);
    fflush(stdout);
    if (ferror(stdout)) return err_set(err, QP_IO, 0, "standard output cannot be written");
    return t->speech && speech_failed(t->speech) ? err_no_memory(err, 0, "the answer") : QP_OK;
}

static qp_status take_events(telling *t, qp_error *err) {
    qp_event event;
    do {
        ERR_TRY(qp_job_next(t->job, &event, err));
        ERR_TRY(take_event(t, &event, err));
    } while (event.kind != QP_EVENT_END);
    return QP_OK;
}

static void end_shown(const telling *t) {
    if (t->c->s->o->json) return;
    if (t->kind == SAY_THOUGHT) fputs(term_set(t->c->s->term.colour_out, STYLE_PLAIN), stdout);
    if (t->last != '\n' || !t->c->is_live) putchar('\n');
    fflush(stdout);
}

/* ---- the document ---- */

static qp_status print_document(telling *t, qp_error *err) {
    const chat_state *c = t->c;
    strbuf b = {0}, whole = t->answer.text;
    t->answer.text = t->text;
    strbuf_char(&b, '{');
    answer_add_content(&b, &t->answer, option_given(&c->own, c->s->command, &c->own.logprobs));
    t->answer.text = whole;
    if (c->format.thoughts) {
        strbuf_text(&b, ", \"reasoning\": ");
        strbuf_json(&b, t->reasoning.at ? t->reasoning.at : "", t->reasoning.bytes);
    }
    strbuf_format(&b, ", \"seed\": %llu, \"dropped_turns\": %zu, ", (unsigned long long)t->seed, t->n_dropped);
    answer_add_figures(&b, &t->answer.end.stats);
    strbuf_text(&b, "}\n");
    const qp_status status = strbuf_status(&b, err, "the answer");
    if (status == QP_OK) fwrite(b.at, 1, b.bytes, stdout);
    strbuf_free(&b);
    fflush(stdout);
    return status;
}

/* ---- the end ---- */

static void count(chat_state *c, const qp_job_stats *st) {
    c->last = *st;
    c->totals.answers++;
    c->totals.prompt_tokens += st->prompt_tokens;
    c->totals.cached_tokens += st->cached_tokens;
    c->totals.new_tokens += st->new_tokens;
    c->totals.seconds += st->total_s;
}

static void remark(const telling *t) {
    const chat_state *c = t->c;
    const qp_event *end = &t->answer.end;
    const bool is_limit = c->own.new_tokens && end->stats.new_tokens >= (size_t)c->own.new_tokens;
    if (end->finish == QP_FINISH_LENGTH && !is_limit) chat_say(c, "the context is full, the answer is cut off here");
    if (end->finish == QP_FINISH_LOOP) chat_say(c, "stopped: the answer repeats itself");
    if (end->finish == QP_FINISH_CANCELLED) chat_say(c, "stopped");
}

static qp_status keep(telling *t, qp_error *err) {
    chat_state *c = t->c;
    const bool was_cancelled = t->answer.end.finish == QP_FINISH_CANCELLED;
    count(c, &t->answer.end.stats);
    c->is_ended |= was_cancelled && !c->is_live;
    ERR_TRY(strbuf_status(&t->text, err, "the answer"));
    ERR_TRY(strbuf_status(&t->reasoning, err, "the reasoning"));
    if (c->s->o->json) ERR_TRY(print_document(t, err));
    remark(t);
    if (!was_cancelled || t->text.bytes)
        return chat_session_answer(&c->talk, (span){t->text.at, t->text.bytes},
                                   (span){t->reasoning.at, t->reasoning.bytes}, err);
    json_decref(chat_session_undo(&c->talk));
    chat_say(c, "nothing was answered, so the message is taken back");
    return QP_OK;
}

static void cancel(void *user) { qp_job_cancel(user); }
static void ignore(void *user) {}

static qp_status open_speech(telling *t, qp_error *err) {
    const thought_format *thoughts = t->c->format.thoughts;
    const speech_setup setup = {.thoughts = thoughts, .starts_in_thought = t->starts_in_thought, .say = say, .user = t};
    if (!thoughts) return QP_OK;
    t->speech = speech_new(&setup);
    return t->speech ? QP_OK : err_no_memory(err, 0, "the answer");
}

static qp_status run(telling *t, qp_error *err) {
    interrupt *in = t->c->s->interrupt;
    ERR_TRY(fit(t, err));
    ERR_TRY(submit(t, err));
    if (t->n_dropped)
        chat_say(t->c, "the context is full: the oldest %zu turn%s no longer seen", t->n_dropped,
                 t->n_dropped == 1 ? " is" : "s are");
    ERR_TRY(open_speech(t, err));
    (t->c->is_live ? interrupt_catch_all : interrupt_catch)(in, cancel, t->job);
    const qp_status status = take_events(t, err);
    if (t->c->is_live)
        interrupt_catch_all(in, ignore, NULL);
    else
        interrupt_catch(in, NULL, NULL);
    term_bar_end(&t->c->s->term);
    end_shown(t);
    return status == QP_OK ? keep(t, err) : status;
}

qp_status chat_answer(chat_state *c, qp_error *err) {
    telling t = {.c = c, .kind = SAY_TEXT};
    const size_t first = c->talk.first;
    const qp_status status = run(&t, err);
    if (status != QP_OK) {
        json_decref(chat_session_undo(&c->talk));
        c->talk.first = first;
    }
    qp_job_free(t.job);
    speech_free(t.speech);
    answer_free(&t.answer);
    input_free_ids(&t.prompt);
    strbuf_free(&t.text);
    strbuf_free(&t.reasoning);
    return status;
}

void chat_print_speed(const chat_state *c) {
    const qp_job_stats *st = &c->last;
    const bool coloured = c->s->term.colour_err;
    fprintf(stderr, "%sprompt %zu tokens, %zu cached, %.1f tok/s; new %zu tokens, %.1f tok/s; first after %.3f s%s\n",
            term_set(coloured, STYLE_DIM), st->prompt_tokens, st->cached_tokens, answer_prefill_rate(st),
            st->new_tokens, answer_decode_rate(st), st->first_token_s, term_set(coloured, STYLE_PLAIN));
}
