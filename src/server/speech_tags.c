/* speech_tags.c — calls written with tags: a name, then JSON; or a name, then each argument between tags of its own.
 *
 * Called by speech.c inside a call's tag. For arguments between tags the JSON text is made here: a parameter that is
 * declared a string is told while it is written, any other when its end shows what it is. */
#include "speech_state.h"
#include <stdio.h>

enum { LONGEST_NAME = SPEECH_NAME_MAX - 1 };

static bool give_up(speech *s) {
    if (!s->is_named) return speech_fail_call(s), true;
    if (s->is_last) speech_take(s, s->held.bytes); /* it was cut off inside the call */
    speech_end_call(s);
    speech_after_call(s);
    if (s->mode == MODE_SECTION) s->mode = MODE_TEXT;
    return true;
}

static bool wait_at_most(speech *s, size_t bytes) { return s->is_last || s->held.bytes > bytes ? give_up(s) : false; }

/* ---- the name, then JSON ---- */

enum { NAMED_BEFORE, NAMED_NAME, NAMED_FENCE, NAMED_ARGUMENTS, NAMED_CLOSE };

static bool read_before(speech *s, const tool_format *f) {
    size_t safe;
    const size_t at = *f->before_name ? speech_find(s, f->before_name, &safe) : 0;
    if (at == SIZE_MAX) return wait_at_most(s, LONGEST_NAME);
    speech_take(s, at + strlen(f->before_name));
    s->step = NAMED_NAME;
    return true;
}

static bool read_name(speech *s, const tool_format *f, int next) {
    size_t safe;
    const size_t at = speech_find(s, f->after_name, &safe);
    if (at == SIZE_MAX) return wait_at_most(s, LONGEST_NAME);
    if (!at || at > LONGEST_NAME) return give_up(s);
    speech_name_call(s, s->held.at, at);
    speech_take(s, at + strlen(f->after_name));
    s->step = next;
    return true;
}

/* Some put the JSON into a fence of Markdown. */
static bool read_fence(speech *s, const tool_format *f) {
    if (!speech_skip_blanks(s, "")) return s->is_last ? give_up(s) : false;
    const int fence = speech_begins(s, "```json"), close = speech_begins(s, f->call[1]);
    if (fence == 0 || close == 0) return false;
    if (fence == 1) speech_take(s, strlen("```json"));
    if (close == 1) speech_end_call(s);
    s->walk = (json_walk){0};
    s->step = close == 1 ? NAMED_CLOSE : NAMED_ARGUMENTS;
    return s->mode != MODE_OVER;
}

static bool read_arguments(speech *s) {
    if (!s->walk.has_begun && !speech_skip_blanks(s, "")) return s->is_last ? give_up(s) : false;
    const size_t n = json_walk_feed(&s->walk, s->held.at, s->held.bytes);
    speech_add_arguments(s, s->held.at, n);
    speech_take(s, n);
    if (!s->walk.is_done) return n ? true : s->is_last ? give_up(s) : false;
    speech_end_call(s);
    s->step = NAMED_CLOSE;
    return s->mode != MODE_OVER;
}

static bool read_close(speech *s, const tool_format *f) {
    if (*f->call[1] && !speech_skip_blanks(s, "`")) return false;
    const int close = speech_begins(s, f->call[1]);
    if (close == 0) return false;
    if (close == 1) speech_take(s, strlen(f->call[1]));
    speech_after_call(s);
    return true;
}

bool speech_read_named(speech *s) {
    const tool_format *f = s->setup.tools;
    switch (s->step) {
    case NAMED_BEFORE:
        return read_before(s, f);
    case NAMED_NAME:
        return read_name(s, f, NAMED_FENCE);
    case NAMED_FENCE:
        return read_fence(s, f);
    case NAMED_ARGUMENTS:
        return read_arguments(s);
    default:
        return read_close(s, f);
    }
}

/* ---- the name, then tags ---- */

enum { PARAMS_NAME, PARAMS_NEXT, PARAMS_KEY, PARAMS_BEGIN, PARAMS_VALUE };

/* A name that ends with its line, with the first key or with the call. */
static bool read_line_name(speech *s, const tool_format *f) {
    const char *const ends[] = {"\n", f->after_name, f->call[1]};
    size_t at = SIZE_MAX;
    if (!speech_skip_blanks(s, "")) return false;
    for (int i = 0; i < 3; i++) {
        size_t safe;
        const size_t found = speech_find(s, ends[i], &safe);
        if (found < at) at = found;
    }
    if (at == SIZE_MAX) return wait_at_most(s, LONGEST_NAME);
    if (!at || at > LONGEST_NAME) return give_up(s);
    speech_name_call(s, s->held.at, at);
    speech_take(s, at);
    s->step = PARAMS_NEXT;
    return true;
}

static bool read_next(speech *s, const tool_format *f) {
    if (!speech_skip_blanks(s, "")) return s->is_last ? give_up(s) : false;
    const int key = speech_begins(s, f->key[0]), close = speech_begins(s, f->call[1]);
    if (key == 1) {
        speech_take(s, strlen(f->key[0]));
        s->step = PARAMS_KEY;
        return true;
    }
    if (close < 0 && key < 0) return give_up(s);
    if (close != 1) return false;
    speech_take(s, strlen(f->call[1]));
    speech_add_arguments(s, s->is_first ? "{}" : "}", s->is_first ? 2 : 1);
    speech_end_call(s);
    speech_after_call(s);
    return true;
}

static bool has_text(span text, const char *piece) {
    return text.bytes && memmem(text.at, text.bytes, piece, strlen(piece)) != NULL;
}

/* Text by what its tag says, else by the tool's schema. */
static bool is_text_value(const speech *s, span attributes) {
    if (has_text(attributes, "string=\"true\"")) return true;
    if (has_text(attributes, "string=\"false\"")) return false;
    return !strcmp(speech_parameter_type(s, s->key), "string");
}

static void begin_value(speech *s) {
    strbuf piece = {0};
    strbuf_char(&piece, s->is_first ? '{' : ',');
    strbuf_json(&piece, s->key, strlen(s->key));
    strbuf_text(&piece, s->is_text_value ? ":\"" : ":");
    if (piece.failed) s->failed = true;
    if (!piece.failed) speech_add_arguments(s, piece.at, piece.bytes);
    strbuf_free(&piece);
    s->is_first = false;
}

static bool read_param_key(speech *s, const tool_format *f) {
    size_t safe;
    const size_t at = speech_find(s, f->key[1], &safe);
    if (at == SIZE_MAX) return wait_at_most(s, LONGEST_NAME);
    if (!at || at > LONGEST_NAME) return give_up(s);
    const char *rest = s->held.at + at + strlen(f->key[1]), *found = strstr(rest, f->value[0]);
    if (!found) return wait_at_most(s, 2 * (size_t)LONGEST_NAME);
    snprintf(s->key, sizeof s->key, "%.*s", (int)at, s->held.at);
    s->is_text_value = is_text_value(s, (span){rest, (size_t)(found - rest)});
    speech_take(s, (size_t)(found - s->held.at) + strlen(f->value[0]));
    begin_value(s);
    s->step = PARAMS_BEGIN;
    return true;
}

static bool read_begin(speech *s, const tool_format *f) {
    if (!s->held.bytes) return s->is_last ? give_up(s) : false;
    if (f->flags & TOOLS_TRIM && *s->held.at == '\n') speech_take(s, 1);
    s->step = PARAMS_VALUE;
    return true;
}

/* A piece of a text inside its quotes. */
static void add_text(speech *s, size_t n) {
    strbuf quoted = {0};
    strbuf_json(&quoted, s->held.at, n);
    if (quoted.failed) s->failed = true;
    if (!quoted.failed) speech_add_arguments(s, quoted.at + 1, quoted.bytes - 2);
    strbuf_free(&quoted);
}

/* What is JSON stays, what Python spells so becomes JSON, all else is a text. */
static void add_value(speech *s, size_t n) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    const span value = {s->held.at, n};
    strbuf quoted = {0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(value, words[i][0])) return speech_add_arguments(s, words[i][1], strlen(words[i][1]));
    json_type kind;
    const bool is_json = speech_is_json(value.at, value.bytes, &kind);
    if (!is_json) strbuf_json(&quoted, value.at, value.bytes);
    if (quoted.failed) s->failed = true;
    if (!quoted.failed) speech_add_arguments(s, is_json ? value.at : quoted.at, is_json ? value.bytes : quoted.bytes);
    strbuf_free(&quoted);
}

/* Where the value's closing tag stands; inside the texts of well-formed JSON it is none. */
static size_t find_value_end(const speech *s, const char *close, size_t *safe) {
    json_walk w = {0};
    const char first = s->held.at[strspn(s->held.at, " \t\r\n")];
    if (!s->setup.is_exact || s->is_text_value || !first || !strchr("{[\"", first)) return speech_find(s, close, safe);
    const size_t from = json_walk_feed(&w, s->held.at, s->held.bytes);
    *safe = 0; /* such a value is told when it is whole */
    if (!w.is_done) return SIZE_MAX;
    const char *found =
        s->held.bytes > from ? memmem(s->held.at + from, s->held.bytes - from, close, strlen(close)) : NULL;
    return found ? (size_t)(found - s->held.at) : SIZE_MAX;
}

static bool read_param_value(speech *s, const tool_format *f) {
    size_t safe;
    const size_t at = find_value_end(s, f->value[1], &safe), end = at == SIZE_MAX ? safe : at;
    const bool trims = f->flags & TOOLS_TRIM && end && s->held.at[end - 1] == '\n';
    const size_t n = trims ? end - 1 : end;
    if (at == SIZE_MAX) {
        if (s->is_text_value && n) add_text(s, n), speech_take(s, n);
        return s->is_last ? give_up(s) : false;
    }
    if (s->is_text_value)
        add_text(s, n), speech_add_arguments(s, "\"", 1);
    else
        add_value(s, n);
    speech_take(s, at + strlen(f->value[1]));
    s->step = PARAMS_NEXT;
    return true;
}

bool speech_read_params(speech *s) {
    const tool_format *f = s->setup.tools;
    switch (s->step) {
    case PARAMS_NAME:
        return f->flags & TOOLS_LINE ? read_line_name(s, f) : read_name(s, f, PARAMS_NEXT);
    case PARAMS_NEXT:
        return read_next(s, f);
    case PARAMS_KEY:
        return read_param_key(s, f);
    case PARAMS_BEGIN:
        return read_begin(s, f);
    default:
        return read_param_value(s, f);
    }
}
