/* speech.c — takes an answer apart while it is written: the modes, and the life of a call.
 *
 * Called by choice.c for each event of a job. What is held is looked at again after every piece: each reader takes a
 * beginning of it or says that more is needed. The tricky thing is what may be told: a tag can be cut anywhere, so the
 * longest end that may become one stays, and blanks before it too, because they go away with the tag. */
#include "speech_state.h"
#include "base/mem.h"
#include <stdio.h>

enum { MOST_TAGS = 72 };

static const char blanks[] = " \t\r\n";
static bool is_blank(char c) { return c && strchr(blanks, c); }

/* ---- what is held ---- */

static void drop(speech *s, size_t n) {
    memmove(s->held.at, s->held.at + n, s->held.bytes - n);
    s->held.bytes -= n;
    s->held.at[s->held.bytes] = 0;
    s->base += n;
}

void speech_take(speech *s, size_t n) {
    if (s->is_open && !s->is_named) strbuf_add(&s->raw, s->held.at, n);
    drop(s, n);
}

static void say(speech *s, speech_kind kind, span text, uint64_t from, uint64_t to) {
    const speech_part part = {kind, text, s->n_calls - 1, false, from, to};
    if (kind == SAY_TEXT) s->has_text = true;
    s->setup.say(s->setup.user, &part);
}

void speech_tell(speech *s, speech_kind kind, size_t n) {
    size_t skipped = 0;
    while (s->trims && skipped < n && is_blank(s->held.at[skipped])) skipped++;
    if (skipped < n) {
        s->trims = false;
        say(s, kind, (span){s->held.at + skipped, n - skipped}, s->base + skipped, s->base + n);
    }
    if (kind == SAY_THOUGHT) s->thought_end = s->base + n;
    drop(s, n);
}

int speech_begins(const speech *s, const char *tag) {
    const size_t bytes = strlen(tag), n = s->held.bytes < bytes ? s->held.bytes : bytes;
    if (!bytes || memcmp(s->held.at, tag, n)) return -1;
    return n == bytes ? 1 : s->is_last ? -1 : 0;
}

bool speech_skip_blanks(speech *s, const char *also) {
    size_t n = 0;
    while (n < s->held.bytes && (is_blank(s->held.at[n]) || (s->held.at[n] && strchr(also, s->held.at[n])))) n++;
    speech_take(s, n);
    return s->held.bytes > 0;
}

/* Length of the longest tag that stands at `at`; *may: one could stand there if the text went on. */
static int tag_at(span text, size_t at, const char *const *tags, int n_tags, bool *may) {
    int found = -1;
    size_t longest = 0;
    *may = false;
    for (int i = 0; i < n_tags; i++) {
        const size_t bytes = strlen(tags[i]), left = text.bytes - at, n = bytes < left ? bytes : left;
        if (!bytes || memcmp(text.at + at, tags[i], n)) continue;
        if (n < bytes) {
            *may = true;
        } else if (bytes > longest) {
            longest = bytes;
            found = i;
        }
    }
    return found;
}

/* The earliest tag in what is held; -1: none yet, and *at is where one may begin. */
static int find_tags(const speech *s, const char *const *tags, int n_tags, size_t *at) {
    const span text = {s->held.at, s->held.bytes};
    for (*at = 0; *at < text.bytes; ++*at) {
        bool may;
        const int found = tag_at(text, *at, tags, n_tags, &may);
        if (may && !s->is_last) return -1;
        if (found >= 0) return found;
    }
    return -1;
}

size_t speech_find(const speech *s, const char *tag, size_t *safe) {
    return find_tags(s, &tag, 1, safe) == 0 ? *safe : SIZE_MAX;
}

static size_t without_blanks(const speech *s, size_t n) {
    while (n && is_blank(s->held.at[n - 1])) n--;
    return n;
}

/* ---- a call's life ---- */

void speech_open_call(speech *s) {
    if (!s->is_open) strbuf_clear(&s->raw);
    strbuf_clear(&s->arguments);
    s->is_open = s->is_first = true;
    s->is_named = false;
    s->n_told = 0;
    s->step = s->level = 0;
    s->walk = (json_walk){0};
}

/* "functions.f:0" is f, and so is "f[CALL_ID]x". */
static span bare_name(const char *name, size_t bytes) {
    static const span prefix = {"functions.", 10}, suffix = {"[CALL_ID]", 9};
    while (bytes && is_blank(*name)) name++, bytes--;
    while (bytes && is_blank(name[bytes - 1])) bytes--;
    if (span_starts((span){name, bytes}, prefix)) name += prefix.bytes, bytes -= prefix.bytes;
    const char *cut = bytes ? memmem(name, bytes, suffix.at, suffix.bytes) : NULL;
    if (cut) bytes = (size_t)(cut - name);
    size_t digits = bytes;
    while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
    if (digits && digits < bytes && name[digits - 1] == ':') bytes = digits - 1;
    return (span){name, bytes};
}

static void tell_arguments(speech *s) {
    const size_t n = s->arguments.bytes - s->n_told;
    if (!n || !s->is_named) return;
    say(s, SAY_ARGUMENTS, (span){s->arguments.at + s->n_told, n}, s->base, s->base);
    s->n_told = s->arguments.bytes;
}

void speech_name_call(speech *s, const char *name, size_t bytes) {
    if (s->is_named) return;
    s->is_named = true;
    s->n_calls++;
    const span bare = bare_name(name, bytes);
    snprintf(s->name, sizeof s->name, "%.*s", (int)bare.bytes, bare.at);
    say(s, SAY_CALL, (span){s->name, strlen(s->name)}, s->base, s->base);
    tell_arguments(s);
}

void speech_add_arguments(speech *s, const char *text, size_t bytes) {
    strbuf_add(&s->arguments, text, bytes);
    tell_arguments(s);
}

/* jansson says "overflow" where a number is spelled well and too large, also for a double: then the first byte tells.
 */
bool speech_is_json(const char *at, size_t bytes, json_type *kind) {
    static const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t why;
    json_t *parsed = bytes ? json_loadb(at, bytes, flags, &why) : NULL;
    if (bytes && !parsed && json_error_code(&why) == json_error_numeric_overflow)
        parsed = json_loadb(at, bytes, flags | JSON_DECODE_INT_AS_REAL, &why);
    if (parsed)
        *kind = json_typeof(parsed);
    else if (bytes && json_error_code(&why) == json_error_numeric_overflow)
        *kind = *at == '{' ? JSON_OBJECT : *at == '[' ? JSON_ARRAY : JSON_REAL;
    else
        return false;
    json_decref(parsed);
    return true;
}

static bool is_object(const strbuf *text) {
    json_type kind;
    return !text->failed && speech_is_json(text->at, text->bytes, &kind) && kind == JSON_OBJECT;
}

void speech_end_call(speech *s) {
    if (!s->is_named) return speech_fail_call(s);
    if (!s->arguments.bytes) speech_add_arguments(s, "{}", 2);
    const speech_part end = {SAY_CALL_END, {"", 0}, s->n_calls - 1, is_object(&s->arguments), s->base, s->base};
    s->setup.say(s->setup.user, &end);
    s->n_complete += end.is_complete;
    s->is_open = s->is_named = false;
    strbuf_clear(&s->raw);
    if (s->setup.is_single && end.is_complete) s->mode = MODE_OVER;
}

void speech_fail_call(speech *s) {
    s->is_open = s->is_named = false;
    s->mode = MODE_TEXT;
    if (s->raw.bytes) say(s, SAY_TEXT, (span){s->raw.at, s->raw.bytes}, s->base - s->raw.bytes, s->base);
    strbuf_clear(&s->raw);
}

void speech_after_call(speech *s) {
    if (s->mode == MODE_OVER) return;
    s->mode = *s->setup.tools->section[0] ? MODE_SECTION : MODE_TEXT;
    s->trims = true;
}

/* ---- tools ---- */

static const json_t *find_tool(const speech *s, const char *name, size_t bytes) {
    size_t i;
    json_t *tool;
    json_array_foreach(s->setup.tool_list, i, tool) {
        const json_t *function = json_object_get(tool, "function"), *found = json_object_get(function, "name");
        if (json_is_string(found) && json_string_length(found) == bytes &&
            !memcmp(json_string_value(found), name, bytes))
            return function;
    }
    return NULL;
}

bool speech_knows(const speech *s, const char *name, size_t bytes) { return find_tool(s, name, bytes) != NULL; }

const char *speech_parameter_type(const speech *s, const char *key) {
    const json_t *function = find_tool(s, s->name, strlen(s->name));
    const json_t *properties = json_object_get(json_object_get(function, "parameters"), "properties");
    const char *type = json_string_value(json_object_get(json_object_get(properties, key), "type"));
    return type ? type : "";
}

/* ---- modes ---- */

static void enter_call(speech *s) {
    speech_open_call(s);
    s->mode = MODE_CALL;
}

/* 1: a thought or call begins here; 0: it may; -1: no. */
static int begin_something(speech *s, size_t n_blank) {
    const thought_format *thoughts = s->setup.thoughts;
    const span all = {s->held.at, s->held.bytes};
    bool may = false;
    if (thoughts && tag_at(all, n_blank, &thoughts->open, 1, &may) == 0) {
        drop(s, n_blank + strlen(thoughts->open));
        s->mode = MODE_THOUGHT;
        s->trims = true;
        return 1;
    }
    const tool_format *tools = s->setup.tools;
    const int bare = tools && tools->flags & TOOLS_BARE ? speech_probe_bare(s) : -1;
    if (bare == 1) enter_call(s);
    return bare == 1 ? 1 : (may || bare == 0) && !s->is_last ? 0 : -1;
}

static bool read_start(speech *s) {
    size_t n_blank = 0;
    while (n_blank < s->held.bytes && is_blank(s->held.at[n_blank])) n_blank++;
    if (n_blank == s->held.bytes && !s->is_last) return false;
    const int begins = n_blank < s->held.bytes ? begin_something(s, n_blank) : -1;
    if (begins < 0) s->mode = MODE_TEXT;
    return begins != 0;
}

static bool read_text(speech *s) {
    const tool_format *tools = s->setup.tools;
    if (s->setup.is_either && s->has_text) tools = NULL;
    const char *tags[MOST_TAGS] = {tools ? tools->section[0] : "", tools ? tools->call[0] : ""};
    int n_tags = 2;
    size_t at;
    for (size_t i = 0; i < s->setup.n_stops && n_tags < MOST_TAGS; i++) tags[n_tags++] = s->setup.stops[i];
    const int found = find_tags(s, tags, n_tags, &at);
    if (found < 0 && s->is_last) at = s->held.bytes;
    const bool keeps_blanks = !tools || found >= 2 || (found < 0 && s->is_last);
    const size_t n = keeps_blanks ? at : without_blanks(s, at);
    if (n) speech_tell(s, SAY_TEXT, n);
    if (found < 0) return false;
    if (found >= 2) {
        s->stop = found - 2;
        s->mode = MODE_OVER;
        return true;
    }
    drop(s, at - n);
    strbuf_clear(&s->raw);
    s->is_open = true;
    s->is_named = false;
    speech_take(s, strlen(tags[found]));
    if (found == 1) enter_call(s);
    if (found == 0) s->mode = MODE_SECTION;
    return true;
}

static bool read_thought(speech *s) {
    const char *close = s->setup.thoughts->close;
    size_t safe;
    const size_t at = speech_find(s, close, &safe);
    const bool is_found = at != SIZE_MAX;
    const size_t n = without_blanks(s, is_found ? at : safe);
    if (n) speech_tell(s, SAY_THOUGHT, n);
    if (!is_found) return false;
    drop(s, at - n + strlen(close));
    s->thought_end = s->base;
    s->mode = MODE_START;
    s->trims = true;
    return true;
}

static bool read_section(speech *s) {
    const tool_format *tools = s->setup.tools;
    if (!speech_skip_blanks(s, "")) return false;
    const int close = speech_begins(s, tools->section[1]), call = speech_begins(s, tools->call[0]);
    if (call == 1) {
        speech_take(s, strlen(tools->call[0]));
        enter_call(s);
    } else if (close == 1 && !s->is_open) {
        drop(s, strlen(tools->section[1]));
        s->mode = MODE_TEXT;
        s->trims = true;
    } else if (close == 0 || call == 0) {
        return false;
    } else if (s->is_open) {
        speech_fail_call(s);
    } else {
        s->mode = MODE_TEXT;
    }
    return true;
}

static bool read_call(speech *s) {
    switch (s->setup.tools->body) {
    case BODY_JSON:
    case BODY_KEYED:
        return speech_read_json(s);
    case BODY_NAMED:
        return speech_read_named(s);
    case BODY_PARAMS:
        return speech_read_params(s);
    case BODY_PYTHON:
        return speech_read_python(s);
    case BODY_GEMMA:
        return speech_read_gemma(s);
    case BODY_HARMONY:
        return false;
    }
    return false;
}

static bool read_more(speech *s) {
    switch (s->mode) {
    case MODE_START:
        return read_start(s);
    case MODE_TEXT:
        return read_text(s);
    case MODE_THOUGHT:
        return read_thought(s);
    case MODE_SECTION:
        return read_section(s);
    case MODE_CALL:
        return read_call(s);
    case MODE_HEADER:
    case MODE_MESSAGE:
        return speech_read_harmony(s);
    case MODE_OVER:
        return false;
    }
    return false;
}

/* The text ended inside something. */
static void finish(speech *s) {
    if (s->mode == MODE_OVER) return;
    if (s->is_open && s->is_named)
        speech_end_call(s);
    else if (s->is_open)
        speech_fail_call(s);
    if (s->held.bytes && s->mode != MODE_OVER)
        speech_tell(s, s->mode == MODE_THOUGHT ? SAY_THOUGHT : SAY_TEXT, s->held.bytes);
}

void speech_feed(speech *s, const char *text, size_t bytes, bool is_last) {
    if (s->mode == MODE_OVER) return;
    strbuf_add(&s->held, text, bytes);
    s->is_last = is_last;
    if (s->held.failed) s->failed = true;
    if (s->failed) return;
    while (read_more(s))
        ;
    if (is_last) finish(s);
    if (s->raw.failed || s->arguments.failed) s->failed = true;
}

/* ---- outside ---- */

speech *speech_new(const speech_setup *setup) {
    speech *s = MEM_NEW(speech);
    if (!s) return NULL;
    s->setup = *setup;
    s->stop = -1;
    const bool is_harmony = setup->tools && setup->tools->body == BODY_HARMONY;
    s->mode = is_harmony ? MODE_HEADER : setup->thoughts && setup->starts_in_thought ? MODE_THOUGHT : MODE_START;
    s->trims = s->mode == MODE_THOUGHT;
    strbuf_add(&s->held, "", 0);
    s->failed = s->held.failed;
    return s;
}

void speech_free(speech *s) {
    if (!s) return;
    strbuf_free(&s->held);
    strbuf_free(&s->raw);
    strbuf_free(&s->arguments);
    mem_free(s);
}

bool speech_is_over(const speech *s) { return s->mode == MODE_OVER; }
int speech_stop(const speech *s) { return s->stop; }
int speech_calls(const speech *s) { return s->n_calls; }
int speech_complete_calls(const speech *s) { return s->n_complete; }
uint64_t speech_thought_end(const speech *s) { return s->thought_end; }
bool speech_failed(const speech *s) { return s->failed; }
