/* cmd_chat.c — quipu chat: reads messages, answers each, obeys lines that begin with a slash.
 *
 * One generator serves the whole conversation, so that a prompt finds what it shares with the one before in the cache.
 * A person at a terminal is asked for messages and never loses the conversation to a mistake or to Ctrl-C. Without one,
 * lines of a pipe are messages, nothing asks for them, and what failed counts in the exit status. */
#include "chat_history.h"
#include "chat_state.h"
#include "multiline.h"
#include "settings.h"
#include <limits.h>
#include <stdarg.h>

/* ---- what is said about it ---- */

void chat_say(const chat_state *c, const char *format, ...) {
    if (c->s->term.quiet) return;
    va_list args;
    va_start(args, format);
    fputs(term_set(c->s->term.colour_err, STYLE_DIM), stderr);
    fputs("[", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, "]%s\n", term_set(c->s->term.colour_err, STYLE_PLAIN));
    va_end(args);
}

void chat_complain(const chat_state *c, const qp_error *err) {
    const bool coloured = c->s->term.colour_err;
    fflush(stdout);
    fprintf(stderr, "%squipu:%s ", term_set(coloured, STYLE_RED), term_set(coloured, STYLE_PLAIN));
    term_text(stderr, err->text, strlen(err->text));
    fputc('\n', stderr);
}

static void greet(const chat_state *c) {
    if (!c->is_live) return;
    chat_say(c, "%s, a context of %zu tokens%s%s; /help shows what there is, Ctrl-D ends", c->info.architecture,
             c->context, c->format.mode ? ", prompts as --mode " : "", c->format.mode ? c->format.mode : "");
}

/* ---- settings ---- */

qp_status chat_check(const chat_state *c, const options *o, qp_error *err) {
    if (option_given(o, c->s->command, &o->logprobs) && !c->s->o->json)
        return err_set(err, QP_BAD_ARGUMENT, 0, "logprobs needs --json: a text has no place for probabilities");
    return settings_check(o, err);
}

void chat_start_seeds(chat_state *c) {
    const bool is_given = option_given(&c->own, c->s->command, &c->own.seed);
    c->seed = is_given ? (uint64_t)c->own.seed : settings_seed(c->s);
    c->n_seeds = 0;
}

/* ---- messages ---- */

/* A line that begins with a slash is a command, with two it is a message that begins with one. */
static qp_status obey(chat_state *c, const multiline *m, bool *asks, qp_error *err) {
    const char *text = m->text.at;
    const bool is_slash = !m->is_fenced && text[0] == '/', is_escaped = is_slash && text[1] == '/';
    if (is_slash && !is_escaped) return chat_command(c, text, asks, err);
    *asks = true;
    return chat_session_ask(&c->talk, text + is_escaped, m->text.bytes - is_escaped, err);
}

/* With --json every message has its line, also one that failed. */
static void print_failure(const qp_error *why) {
    strbuf b = {0};
    strbuf_text(&b, "{\"error\": ");
    strbuf_json(&b, why->text, strlen(why->text));
    strbuf_text(&b, "}\n");
    if (!b.failed) fwrite(b.at, 1, b.bytes, stdout);
    strbuf_free(&b);
    fflush(stdout);
}

/* What cannot be obeyed or answered is said to be so, and everything goes on; only a lost output ends it. */
static qp_status take_message(chat_state *c, const multiline *m, qp_error *err) {
    qp_error why;
    bool asks = false;
    if (!m->text.bytes) return QP_OK;
    qp_status status = obey(c, m, &asks, &why);
    const bool is_answering = status == QP_OK && asks;
    if (is_answering) status = chat_answer(c, &why);
    if (status == QP_OK) {
        if (is_answering && c->shows_stats && !c->s->term.quiet) chat_print_speed(c);
        return QP_OK;
    }
    if (ferror(stdout)) return err_set(err, QP_IO, 0, "standard output cannot be written");
    c->totals.failures++;
    chat_complain(c, &why);
    if (asks && c->s->o->json) print_failure(&why);
    return QP_OK;
}

static void remember(chat_state *c, const char *path, const multiline *m) {
    qp_error err;
    if (!c->is_live || !m->text.bytes) return;
    lineedit_remember(c->line, m->text.at);
    if (*path && chat_history_add(path, m->text.at, m->text.bytes, &err) != QP_OK && c->s->term.verbose)
        chat_complain(c, &err);
}

/* Reads lines until there is a message. */
static qp_status read_message(chat_state *c, multiline *m, lineedit_end *end, qp_error *err) {
    strbuf line = {0};
    qp_status status;
    multiline_clear(m);
    do {
        status = lineedit_read(c->line, m->is_open ? ". " : "> ", &line, end, err);
    } while (status == QP_OK && *end == LINEEDIT_LINE && !multiline_add(m, line.at ? line.at : "", line.bytes));
    strbuf_free(&line);
    return status == QP_OK ? strbuf_status(&m->text, err, "the message") : status;
}

static bool is_stopped(lineedit_end end) { return end == LINEEDIT_STOPPED || end == LINEEDIT_STOPPED_EMPTY; }

static qp_status converse(chat_state *c, const char *history, multiline *m, qp_error *err) {
    bool was_stopped = false;
    while (!c->is_over && !c->is_ended) {
        lineedit_end end;
        ERR_TRY(read_message(c, m, &end, err));
        if (is_stopped(end)) {
            if (was_stopped || end == LINEEDIT_STOPPED_EMPTY) chat_say(c, "nothing runs; Ctrl-D or /quit ends");
            was_stopped = true;
            continue;
        }
        was_stopped = false;
        remember(c, history, m);
        ERR_TRY(take_message(c, m, err));
        c->is_over |= end == LINEEDIT_END && !(c->is_live && m->is_open); /* there it only ends the message */
    }
    return QP_OK;
}

/* ---- around it ---- */

static void remember_line(void *user, const char *text) { lineedit_remember(user, text); }

static void load_history(chat_state *c, char path[PATH_MAX]) {
    qp_error err;
    if (!c->is_live || !chat_history_path(path, PATH_MAX)) *path = 0;
    if (*path && chat_history_load(path, c->line, remember_line, &err) != QP_OK) chat_complain(c, &err);
}

static void ignore(void *user) {}

static qp_status run(chat_state *c, qp_error *err) {
    char history[PATH_MAX];
    multiline m = {.is_open = false};
    ERR_TRY(lineedit_open(&c->line, err));
    c->is_live = lineedit_is_live(c->line);
    if (c->is_live) interrupt_catch_all(c->s->interrupt, ignore, NULL);
    lineedit_set_complete(c->line, chat_complete, c);
    load_history(c, history);
    greet(c);
    const qp_status status = converse(c, history, &m, err);
    multiline_free(&m);
    interrupt_catch(c->s->interrupt, NULL, NULL);
    if (status != QP_OK) return status;
    if (c->is_ended) return QP_CANCELLED;
    if (c->is_live || !c->totals.failures) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "%zu of the lines failed", c->totals.failures);
}

static qp_status open_generator(chat_state *c, qp_error *err) {
    const options *o = c->s->o;
    qp_generator_options wanted = {.size = sizeof wanted,
                                   .cache_tokens = settings_cache_tokens(o, c->model, 0, 1),
                                   .cache_type = load_cache_type(o),
                                   .max_jobs = 1};
    const uint64_t trained = (uint64_t)c->info.trained_context;
    wanted.max_length = !o->context && trained && trained < wanted.cache_tokens ? trained : wanted.cache_tokens;
    c->context = (size_t)wanted.max_length;
    return qp_generator_new(&c->generator, c->model, &wanted, err);
}

static qp_status open_all(chat_state *c, qp_model **model, qp_error *err) {
    session *s = c->s;
    const options *o = s->o;
    c->loaded = json_array();
    if (!c->loaded) return err_no_memory(err, 0, "the conversation");
    ERR_TRY(options_copy(&c->own, o, err));
    const qp_status status = chat_check(c, o, err);
    s->is_wrong_usage = status != QP_OK;
    ERR_TRY(status);
    ERR_TRY(chat_session_open(&c->talk, o->system, o->amnesia, err));
    ERR_TRY(load_model(model, s, (int)o->threads, err));
    c->model = *model;
    qp_model_get_info(c->model, &c->info);
    ERR_TRY(load_adapters(&c->adapters, c->model, o, err));
    ERR_TRY(chat_format_open(&c->format, s, c->model, o->mode, err));
    chat_start_seeds(c);
    c->shows_stats = o->stats;
    return open_generator(c, err);
}

qp_status cmd_chat(session *s, qp_error *err) {
    chat_state c = {.s = s};
    qp_model *model = NULL;
    qp_status status = open_all(&c, &model, err);
    if (status == QP_OK) status = run(&c, err);
    lineedit_close(c.line);
    qp_generator_free(c.generator);
    chat_format_close(&c.format);
    load_close_adapters(&c.adapters);
    qp_model_close(model);
    chat_session_close(&c.talk);
    options_free(&c.own);
    arena_free(&c.texts);
    json_decref(c.loaded);
    return status;
}
