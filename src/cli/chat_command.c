/* chat_command.c — the slash commands of a conversation: a row each.
 *
 * What they print goes to standard error, because standard output is for answers. /set and /load work on a copy of the
 * settings that takes the place of the old ones when all of it is right, so that a refusal changes nothing. */
#include "chat_state.h"
#include "nearest.h"
#include "option_json.h"
#include "settings.h"
#include "base/utf8.h"
#include <limits.h>
#include <stdlib.h>

typedef enum argument { ARGUMENT_NONE, ARGUMENT_MAY, ARGUMENT_MUST } argument;

typedef struct slash_row {
    const char *name;
    argument argument;
    const char *value, *help; /* what /help calls the argument, and says */
    qp_status (*run)(chat_state *c, const char *text, bool *asks, qp_error *err);
} slash_row;

static qp_status run_help(chat_state *c, const char *text, bool *asks, qp_error *err);

/* ---- settings ---- */

static const command_row *command(const chat_state *c) { return c->s->command; }

static bool is_set(const options *o, const option_row *row) { return o->given[row - option_rows]; }

static bool is_own(const chat_state *c, const option_row *row) { return option_find_own(command(c), row->name) == row; }

static void take_over(chat_state *c, options *changed) {
    options_free(&c->own);
    c->own = *changed;
}

/* The document lives as long as the conversation: settings borrow texts of it. */
static qp_status set_from_json(chat_state *c, options *o, const char *name, json_t *value, qp_error *err) {
    if (json_array_append(c->loaded, value)) return err_no_memory(err, 0, name);
    return option_set_json(o, command(c), name, name, value, err);
}

static json_t *settings_of(const chat_state *c) {
    json_t *out = json_object();
    for (const option_row *row = option_rows; out && row < option_rows + option_count; row++) {
        char key[64];
        if (!is_own(c, row) || !is_set(&c->own, row)) continue;
        snprintf(key, sizeof key, "%s", row->name);
        for (char *at = key; *at; at++)
            if (*at == '-') *at = '_';
        if (json_object_set_new(out, key, option_get_json(&c->own, row))) return json_decref(out), NULL;
    }
    return out;
}

static void print_setting(const chat_state *c, const option_row *row) {
    json_t *value = is_set(&c->own, row) ? option_get_json(&c->own, row) : NULL;
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;
    fprintf(stderr, "  %-20s ", row->name);
    term_text(stderr, text ? text : "not set", strlen(text ? text : "not set"));
    fputc('\n', stderr);
    free(text);
    json_decref(value);
}

static void print_settings(const chat_state *c) {
    size_t n = 0;
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        if (!is_own(c, row) || !is_set(&c->own, row)) continue;
        print_setting(c, row);
        n++;
    }
    fprintf(stderr, "  %s; /set NAME default puts one back; there are:\n ",
            n ? "the others are as the model recommends" : "nothing is set");
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (is_own(c, row)) fprintf(stderr, " %s", row->name);
    fputc('\n', stderr);
}

/* As the command line had it. */
static qp_status put_back(chat_state *c, options *o, const option_row *row, qp_error *err) {
    const options *typed = c->s->o;
    option_unset(o, row);
    if (!is_set(typed, row)) return QP_OK;
    json_t *value = option_get_json(typed, row);
    const qp_status status = value ? set_from_json(c, o, row->name, value, err) : err_no_memory(err, 0, row->name);
    json_decref(value);
    return status;
}

/* What begins like JSON is JSON, for texts with line breaks and lists as a whole. */
static qp_status set_typed(chat_state *c, options *o, const option_row *row, const char *text, qp_error *err) {
    const bool is_text = row->kind == OPTION_TEXT || row->kind == OPTION_TEXTS;
    if (*text == '"' || (!is_text && strchr("[{", *text))) {
        json_t *value;
        ERR_TRY(json_parse(&value, text, strlen(text), row->name, err));
        const qp_status status = set_from_json(c, o, row->name, value, err);
        json_decref(value);
        return status;
    }
    const char *copy = arena_text(&c->texts, text, strlen(text));
    return copy ? option_set(o, row, row->name, copy, err) : err_no_memory(err, strlen(text), row->name);
}

static qp_status change(chat_state *c, const option_row *row, const char *text, qp_error *err) {
    options changed;
    qp_status status = options_copy(&changed, &c->own, err);
    if (status == QP_OK)
        status = strcmp(text, "default") ? set_typed(c, &changed, row, text, err) : put_back(c, &changed, row, err);
    if (status == QP_OK) status = chat_check(c, &changed, err);
    if (status == QP_OK)
        take_over(c, &changed);
    else
        options_free(&changed);
    return status;
}

static qp_status run_set(chat_state *c, const char *text, bool *asks, qp_error *err) {
    char name[64];
    const size_t bytes = strcspn(text, " =");
    if (!*text) return print_settings(c), QP_OK;
    snprintf(name, sizeof name, "%.*s", (int)(bytes < 63 ? bytes : 63), text);
    const option_row *row = option_find_own(command(c), name);
    if (!row)
        return err_set(err, QP_BAD_ARGUMENT, 0, "/set: no setting is called '%s'; did you mean '%s'?", name,
                       option_nearest_own(command(c), name));
    const char *value = text + bytes + strspn(text + bytes, " =");
    if (*value) ERR_TRY(change(c, row, value, err));
    if (*value && !strcmp(row->name, "seed")) chat_start_seeds(c);
    print_setting(c, row);
    return QP_OK;
}

/* ---- files ---- */

static qp_status full_path(char out[PATH_MAX], const char *path, qp_error *err) {
    const char *home = !strncmp(path, "~/", 2) ? getenv("HOME") : NULL;
    if (snprintf(out, PATH_MAX, "%s%s", home ? home : "", path + (home ? 1 : 0)) < PATH_MAX) return QP_OK;
    return err_set(err, QP_TOO_LARGE, 0, "a path of %zu bytes, the limit is %d", strlen(path), PATH_MAX - 1);
}

static qp_status run_save(chat_state *c, const char *text, bool *asks, qp_error *err) {
    char path[PATH_MAX];
    ERR_TRY(full_path(path, text, err));
    json_t *settings = settings_of(c);
    if (!settings) return err_no_memory(err, 0, "the settings");
    const qp_status status = chat_session_save(&c->talk, settings, path, err);
    json_decref(settings);
    if (status == QP_OK) chat_say(c, "saved %zu turns to %s", chat_session_turns(&c->talk), path);
    return status;
}

/* The settings of a file instead of those that are; they may not be right. */
static qp_status read_settings(chat_state *c, options *o, json_t *settings, const char *path, qp_error *err) {
    const char *key;
    json_t *value;
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (is_own(c, row)) option_unset(o, row);
    json_object_foreach(settings, key, value) {
        const qp_status status = set_from_json(c, o, key, value, err);
        if (status != QP_OK) return err_prefix(err, status, "%.200s, settings", path);
    }
    const qp_status status = chat_check(c, o, err);
    return status == QP_OK ? status : err_prefix(err, status, "%.200s, settings", path);
}

static qp_status load(chat_state *c, chat_session *made, const char *path, qp_error *err) {
    json_t *settings;
    options changed;
    ERR_TRY(chat_session_load(made, &settings, path, err));
    qp_status status = options_copy(&changed, &c->own, err);
    if (status == QP_OK && settings) status = read_settings(c, &changed, settings, path, err);
    json_decref(settings);
    if (status == QP_OK)
        take_over(c, &changed);
    else
        options_free(&changed);
    return status;
}

static qp_status run_load(chat_state *c, const char *text, bool *asks, qp_error *err) {
    char path[PATH_MAX];
    chat_session made;
    ERR_TRY(full_path(path, text, err));
    qp_status status = chat_session_open(&made, NULL, c->talk.has_amnesia, err);
    if (status == QP_OK) status = load(c, &made, path, err);
    if (status != QP_OK) return chat_session_close(&made), status;
    made.folds_system = c->talk.folds_system;
    chat_session_close(&c->talk);
    c->talk = made;
    chat_start_seeds(c);
    chat_say(c, "%zu turns from %s", chat_session_turns(&c->talk), path);
    return QP_OK;
}

/* ---- turns ---- */

static qp_status run_clear(chat_state *c, const char *text, bool *asks, qp_error *err) {
    const size_t n = chat_session_turns(&c->talk);
    chat_session_clear(&c->talk);
    chat_say(c, "%zu turn%s forgotten; system prompt and settings stay", n, n == 1 ? " is" : "s are");
    return QP_OK;
}

static qp_status run_undo(chat_state *c, const char *text, bool *asks, qp_error *err) {
    char shown[64];
    json_t *message = chat_session_undo(&c->talk);
    if (!message) return err_set(err, QP_BAD_ARGUMENT, 0, "/undo: there is no turn yet");
    chat_say(c, "taken back: %s",
             utf8_shown(shown, sizeof shown, json_string_value(json_object_get(message, "content"))));
    json_decref(message);
    return QP_OK;
}

static qp_status run_retry(chat_state *c, const char *text, bool *asks, qp_error *err) {
    *asks = chat_session_reopen(&c->talk);
    return *asks ? QP_OK : err_set(err, QP_BAD_ARGUMENT, 0, "/retry: there is no answer yet");
}

static qp_status run_system(chat_state *c, const char *text, bool *asks, qp_error *err) {
    const bool is_none = !strcmp(text, "-");
    if (*text) ERR_TRY(chat_session_set_system(&c->talk, is_none ? "" : text, is_none ? 0 : strlen(text), err));
    if (!c->talk.system) return fputs("  no system prompt\n", stderr), QP_OK;
    fputs("  system prompt: ", stderr);
    term_text(stderr, json_string_value(c->talk.system), json_string_length(c->talk.system));
    fputc('\n', stderr);
    return QP_OK;
}

static qp_status run_amnesia(chat_state *c, const char *text, bool *asks, qp_error *err) {
    if (*text && strcmp(text, "on") && strcmp(text, "off"))
        return err_set(err, QP_BAD_ARGUMENT, 0, "/amnesia: found '%.40s', allowed are on and off", text);
    c->talk.has_amnesia = *text ? !strcmp(text, "on") : !c->talk.has_amnesia;
    chat_say(c, c->talk.has_amnesia ? "amnesia: each message begins anew" : "no amnesia: turns are remembered");
    return QP_OK;
}

/* ---- the rest ---- */

static qp_status run_stats(chat_state *c, const char *text, bool *asks, qp_error *err) {
    const chat_totals *t = &c->totals;
    fprintf(stderr, "  %-14s %zu, of which the model sees %zu\n", "turns", chat_session_turns(&c->talk),
            chat_session_turns(&c->talk) - c->talk.first / 2);
    fprintf(stderr, "  %-14s %zu of %zu tokens after the last answer\n", "context",
            c->last.prompt_tokens + c->last.new_tokens, c->context);
    fprintf(stderr, "  %-14s %zu; prompts %llu tokens, %llu of them cached; new %llu tokens; %.1f s\n", "answers",
            t->answers, (unsigned long long)t->prompt_tokens, (unsigned long long)t->cached_tokens,
            (unsigned long long)t->new_tokens, t->seconds);
    if (!t->answers) return QP_OK;
    fprintf(stderr, "  %-14s ", "last answer");
    chat_print_speed(c);
    return QP_OK;
}

static qp_status run_quit(chat_state *c, const char *text, bool *asks, qp_error *err) {
    c->is_over = true;
    return QP_OK;
}

static const slash_row rows[] = {
    {"help", ARGUMENT_NONE, NULL, "this list", run_help},
    {"clear", ARGUMENT_NONE, NULL, "forget all turns", run_clear},
    {"undo", ARGUMENT_NONE, NULL, "take back the last message and its answer", run_undo},
    {"retry", ARGUMENT_NONE, NULL, "answer the last message anew, with another seed", run_retry},
    {"save", ARGUMENT_MUST, "FILE", "keep turns, system prompt and settings in a file", run_save},
    {"load", ARGUMENT_MUST, "FILE", "go on with what was saved", run_load},
    {"system", ARGUMENT_MAY, "TEXT", "set the system prompt, or show it; - removes it", run_system},
    {"set", ARGUMENT_MAY, "NAME VALUE", "change a setting of answers, or show them", run_set},
    {"stats", ARGUMENT_NONE, NULL, "turns, context, cache and speed", run_stats},
    {"amnesia", ARGUMENT_MAY, "on|off", "whether each message begins anew", run_amnesia},
    {"quit", ARGUMENT_NONE, NULL, "end (Ctrl-D does it too)", run_quit},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static qp_status run_help(chat_state *c, const char *text, bool *asks, qp_error *err) {
    const bool coloured = c->s->term.colour_err;
    for (size_t i = 0; i < N_ROWS; i++) {
        char name[40];
        snprintf(name, sizeof name, "/%s%s%s", rows[i].name, rows[i].value ? " " : "",
                 rows[i].value ? rows[i].value : "");
        fprintf(stderr, "  %s%-20s%s %s\n", term_set(coloured, STYLE_CYAN), name, term_set(coloured, STYLE_PLAIN),
                rows[i].help);
    }
    fputs("  A line that ends in a backslash goes on; so does everything between two lines of \"\"\".\n"
          "  A message that begins with a slash is written with two. Ctrl-C stops an answer, Ctrl-D ends.\n",
          stderr);
    return QP_OK;
}

/* ---- finding one ---- */

const char *chat_command_name(int index) { return index >= 0 && index < N_ROWS ? rows[index].name : NULL; }

static qp_status unknown(const char *name, qp_error *err) {
    const char *best = rows[0].name;
    int best_cost = INT_MAX;
    for (size_t i = 0; i < N_ROWS; i++) {
        const int cost = nearest_cost(name, rows[i].name);
        if (cost < best_cost) best = rows[i].name, best_cost = cost;
    }
    char shown[48];
    return err_set(
        err, QP_BAD_ARGUMENT, 0,
        "no command is called '/%s'; did you mean /%s? A message that begins with a slash is written with two",
        utf8_shown(shown, sizeof shown, name), best);
}

qp_status chat_command(chat_state *c, const char *line, bool *asks, qp_error *err) {
    char name[64];
    const size_t bytes = strcspn(line + 1, " \t\n");
    const char *text = line + 1 + bytes;
    text += strspn(text, " \t\n");
    snprintf(name, sizeof name, "%.*s", (int)(bytes < 63 ? bytes : 63), line + 1);
    for (const slash_row *row = rows; row < rows + N_ROWS; row++) {
        if (strcmp(name, row->name) != 0) continue;
        if (row->argument == ARGUMENT_NONE && *text)
            return err_set(err, QP_BAD_ARGUMENT, 0, "/%s takes nothing, found '%.60s'", name, text);
        if (row->argument == ARGUMENT_MUST && !*text)
            return err_set(err, QP_BAD_ARGUMENT, 0, "/%s needs a %s", name, row->value);
        return row->run(c, text, asks, err);
    }
    return unknown(name, err);
}
