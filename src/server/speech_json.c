/* speech_json.c — calls written as JSON: {"name": "f", "arguments": {...}}, also in arrays, also {"f": {...}}.
 *
 * Called by speech.c inside a call's tag, or where a whole answer may be a call. Arguments are told as they come; a
 * name that comes after them makes them wait. */
#include "speech_state.h"
#include <stdio.h>

enum { OUTSIDE, KEY, NAME, ARGUMENTS, SKIPPED };
enum { LONGEST_KEY = 4096, LONGEST_PROBE = 16384 };

static bool is_one_of(const char *text, const char *const *list) {
    for (; *list; list++)
        if (!strcmp(text, *list)) return true;
    return false;
}

static const char *const name_keys[] = {"name", "tool_name", "function", "tool", NULL};
static const char *const argument_keys[] = {"arguments", "parameters", "args", "input", NULL};
static const char *const other_keys[] = {"type", "id", NULL};

/* What the call has so far is all that will come. */
static bool give_up(speech *s) {
    if (!s->is_named) return speech_fail_call(s), true;
    if (s->is_last) speech_take(s, s->held.bytes); /* it was cut off inside the call */
    speech_end_call(s);
    s->step = OUTSIDE;
    return true;
}

/* The first value of what is held, read; NULL: it is not complete. *n: its bytes. */
static json_t *held_value(const speech *s, size_t *n) {
    json_walk w = {0};
    *n = json_walk_feed(&w, s->held.at, s->held.bytes);
    return w.is_done ? json_loadb(s->held.at, *n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
}

static bool wait_or_give_up(speech *s) { return s->is_last || s->held.bytes > LONGEST_KEY ? give_up(s) : false; }

static bool read_outside(speech *s) {
    const char *close = s->setup.tools->call[1];
    if (!speech_skip_blanks(s, ",;[]")) return false;
    const int closes = speech_begins(s, close);
    if (closes == 0) return false;
    if (closes == 1 && !s->is_open) {
        speech_take(s, strlen(close));
        speech_after_call(s);
    } else if (*s->held.at == '{') {
        speech_open_call(s);
        s->level = 1;
        s->step = KEY;
        speech_take(s, 1);
    } else if (s->is_open) {
        speech_fail_call(s);
    } else {
        speech_after_call(s);
        if (s->mode == MODE_SECTION) s->mode = MODE_TEXT;
    }
    return true;
}

static bool close_object(speech *s) {
    speech_take(s, 1);
    if (--s->level) return true;
    if (!s->is_named) return give_up(s);
    speech_end_call(s);
    s->step = OUTSIDE;
    return true;
}

/* "key": and the first byte of its value; 0 bytes: not all there. */
static size_t key_bytes(const speech *s) {
    json_walk w = {0};
    size_t n = json_walk_feed(&w, s->held.at, s->held.bytes);
    if (!w.is_done) return 0;
    n += strspn(s->held.at + n, " \t\r\n");
    if (s->held.at[n] != ':') return n < s->held.bytes ? SIZE_MAX : 0;
    n += 1 + strspn(s->held.at + n + 1, " \t\r\n");
    return n < s->held.bytes ? n : 0;
}

static void begin_value(speech *s, const char *key, bool is_object) {
    s->walk = (json_walk){0};
    if (s->setup.tools->body == BODY_KEYED) {
        speech_name_call(s, key, strlen(key));
        s->step = ARGUMENTS;
    } else if (!strcmp(key, "function") && is_object) {
        s->level++;
        speech_take(s, 1);
    } else if (is_one_of(key, argument_keys)) {
        s->step = ARGUMENTS;
    } else {
        s->step = is_one_of(key, name_keys) ? NAME : SKIPPED;
    }
}

static bool read_key(speech *s) {
    char key[SPEECH_NAME_MAX];
    size_t n;
    if (!speech_skip_blanks(s, ",")) return wait_or_give_up(s);
    if (*s->held.at == '}') return close_object(s);
    if (*s->held.at != '"') return give_up(s);
    const size_t bytes = key_bytes(s);
    if (!bytes) return wait_or_give_up(s);
    json_t *value = held_value(s, &n);
    snprintf(key, sizeof key, "%s", json_is_string(value) ? json_string_value(value) : "");
    json_decref(value);
    if (bytes == SIZE_MAX || !*key) return give_up(s);
    speech_take(s, bytes);
    begin_value(s, key, *s->held.at == '{');
    return true;
}

static bool read_name(speech *s) {
    size_t n;
    json_t *value = held_value(s, &n);
    if (!value) return wait_or_give_up(s);
    const bool is_name = json_is_string(value) && json_string_length(value);
    if (is_name) speech_name_call(s, json_string_value(value), json_string_length(value));
    json_decref(value);
    if (!is_name) return give_up(s);
    speech_take(s, n);
    s->step = KEY;
    return true;
}

/* Arguments given as a text that holds JSON. */
static bool read_text_arguments(speech *s) {
    size_t n;
    json_t *value = held_value(s, &n);
    if (!value) return s->is_last ? give_up(s) : false;
    if (json_is_string(value)) speech_add_arguments(s, json_string_value(value), json_string_length(value));
    json_decref(value);
    speech_take(s, n);
    s->step = KEY;
    return true;
}

static bool read_value(speech *s, bool is_told) {
    if (!s->held.bytes) return s->is_last ? give_up(s) : false;
    if (is_told && !s->walk.has_begun && *s->held.at == '"') return read_text_arguments(s);
    const size_t n = json_walk_feed(&s->walk, s->held.at, s->held.bytes);
    if (is_told) speech_add_arguments(s, s->held.at, n);
    speech_take(s, n);
    if (s->walk.is_done) s->step = KEY;
    return n || s->walk.is_done;
}

bool speech_read_json(speech *s) {
    switch (s->step) {
    case OUTSIDE:
        return read_outside(s);
    case KEY:
        return read_key(s);
    case NAME:
        return read_name(s);
    case ARGUMENTS:
        return read_value(s, true);
    default:
        return read_value(s, false);
    }
}

/* ---- is the whole answer a call? ---- */

/* Looks at one member; 1: it names a known tool, 0: go on behind it (*at is moved) or wait (*at is not), -1: no. */
static int probe_member(const speech *s, span text, size_t *at) {
    json_walk w = {0};
    char key[SPEECH_NAME_MAX];
    size_t n = *at + json_walk_feed(&w, text.at + *at, text.bytes - *at);
    if (!w.is_done) return 0;
    snprintf(key, sizeof key, "%.*s", (int)(n - *at) - 2, text.at + *at + 1);
    const bool is_name = is_one_of(key, name_keys);
    if (!is_name && !is_one_of(key, argument_keys) && !is_one_of(key, other_keys)) return -1;
    n += strspn(text.at + n, " \t\r\n");
    if (n == text.bytes) return 0;
    if (text.at[n] != ':') return -1;
    n += 1 + strspn(text.at + n + 1, " \t\r\n");
    if (n == text.bytes) return 0;
    if (is_name && text.at[n] == '{') return *at = n + 1, 0; /* {"function": {"name" ... */
    w = (json_walk){0};
    const size_t end = n + json_walk_feed(&w, text.at + n, text.bytes - n);
    if (!w.is_done) return 0;
    if (is_name && (text.at[n] != '"' || !speech_knows(s, text.at + n + 1, end - n - 2))) return -1;
    *at = end + strspn(text.at + end, " \t\r\n,");
    return is_name;
}

static int probe_json(const speech *s, span text, size_t at) {
    at += strspn(text.at + at, " \t\r\n[");
    if (at == text.bytes) return 0;
    if (text.at[at] != '{') return -1;
    at += 1 + strspn(text.at + at + 1, " \t\r\n");
    while (at < text.bytes) {
        const size_t before = at;
        if (text.at[at] != '"') return -1;
        const int found = probe_member(s, text, &at);
        if (found) return found;
        if (at == before) break;
        at += strspn(text.at + at, " \t\r\n");
    }
    return text.bytes > LONGEST_PROBE ? -1 : 0;
}

static int probe_python(const speech *s, span text, size_t at) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (text.at[at] != '[') return -1;
    at += 1 + strspn(text.at + at + 1, " \t\r\n");
    const size_t bytes = strspn(text.at + at, letters);
    if (at + bytes == text.bytes) return bytes < SPEECH_NAME_MAX ? 0 : -1;
    return bytes && text.at[at + bytes] == '(' && speech_knows(s, text.at + at, bytes) ? 1 : -1;
}

int speech_probe_bare(const speech *s) {
    const span text = {s->held.at, s->held.bytes};
    const size_t at = strspn(text.at, " \t\r\n");
    if (!json_array_size(s->setup.tool_list)) return -1;
    return s->setup.tools->body == BODY_PYTHON ? probe_python(s, text, at) : probe_json(s, text, at);
}
