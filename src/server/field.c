/* field.c — reads the members of a request's body by tables.
 *
 * Called by everything that reads bodies. The tricky thing are old front ends: they send numbers as strings and lists
 * as JSON inside strings; rows marked FIELD_LOOSE take them, all others refuse. */
#include "field.h"
#include "base/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_IDS = 1 << 20 };

bool field_wrong_kind(refusal *why, const char *name, const json_t *found, const char *wanted) {
    return refuse(why, FAULT_BAD_REQUEST, name, "%s: found %s, expected %s", name, json_kind(found), wanted);
}

const json_t *field_find(const field_row *row, const json_t *body, char name[64]) {
    for (const char *at = row->names; *at;) {
        const size_t bytes = strcspn(at, "|");
        snprintf(name, 64, "%.*s", (int)bytes, at);
        const json_t *value = json_object_get(body, name);
        if (value && !json_is_null(value)) return value;
        at += bytes + (at[bytes] == '|');
    }
    return NULL;
}

/* ---- numbers ---- */

static bool is_loose_number(const json_t *value, double *out) {
    const char *text = json_string_value(value);
    char *end;
    if (!text || !*text || strlen(text) > 40 || strspn(text, "0123456789+-.eE") != strlen(text)) return false;
    *out = strtod(text, &end);
    return !*end;
}

static bool take_number(double *out, const field_row *row, const json_t *value, const char *name, refusal *why) {
    const bool is_int = row->kind == FIELD_INT;
    if (json_is_number(value))
        *out = json_number_value(value);
    else if (!(row->flags & FIELD_LOOSE) || !is_loose_number(value, out))
        return field_wrong_kind(why, name, value, is_int ? "an integer" : "a number");
    if (is_int && (*out != floor(*out) || fabs(*out) > 9.2e18))
        return refuse(why, FAULT_BAD_REQUEST, name, "%s: found %g, expected an integer", name, *out);
    const bool is_open = row->flags & FIELD_OPEN;
    if (*out >= row->lowest && *out <= row->highest && !(is_open && *out == row->lowest)) return true;
    return refuse(why, FAULT_BAD_REQUEST, name, "%s: found %.10g, allowed is %s %.10g and at most %.10g", name, *out,
                  is_open ? "more than" : "at least", row->lowest, row->highest);
}

static bool take_bool(bool *out, const field_row *row, const json_t *value, const char *name, refusal *why) {
    const char *text = json_string_value(value);
    if (json_is_boolean(value))
        *out = json_is_true(value);
    else if (row->flags & FIELD_LOOSE && text && (!strcmp(text, "true") || !strcmp(text, "false")))
        *out = *text == 't';
    else if (row->flags & FIELD_LOOSE && json_is_integer(value) && (json_integer_value(value) | 1) == 1)
        *out = json_integer_value(value);
    else
        return field_wrong_kind(why, name, value, "true or false");
    return true;
}

static bool take_maybe(int *out, const field_row *row, const json_t *value, const char *name, refusal *why) {
    bool is_true;
    if (!take_bool(&is_true, row, value, name, why)) return false;
    *out = is_true;
    return true;
}

/* ---- lists ---- */

static bool take_text(const char **out, const json_t *value, const char *name, refusal *why) {
    *out = json_string_value(value);
    if (!*out) return field_wrong_kind(why, name, value, "a string");
    if (!**out && !json_string_length(value))
        return refuse(why, FAULT_BAD_REQUEST, name, "%s: the text is empty", name);
    if (strlen(*out) == json_string_length(value)) return true;
    return refuse(why, FAULT_BAD_REQUEST, name, "%s: the text has a zero byte", name);
}

bool field_take_texts(field_texts *out, const json_t *value, const char *name, size_t most, arena *memory,
                      refusal *why) {
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    if (!json_is_array(value) && !json_is_string(value))
        return field_wrong_kind(why, name, value, "a string or an array of strings");
    if (n > most) return refuse(why, FAULT_BAD_REQUEST, name, "%s: found %zu texts, allowed are %zu", name, n, most);
    const char **at = arena_get(memory, n + 1, sizeof *at);
    if (!at) return refuse_memory(why, name);
    for (size_t i = 0; i < n; i++) {
        char place[96];
        snprintf(place, sizeof place, json_is_array(value) ? "%.70s[%zu]" : "%.70s", name, i);
        if (!take_text(&at[i], json_is_array(value) ? json_array_get(value, i) : value, place, why)) return false;
    }
    *out = (field_texts){at, n};
    return true;
}

static bool take_id(int32_t *out, const json_t *value, const char *name, size_t i, double lowest, double highest,
                    refusal *why) {
    char place[96];
    const double id = json_number_value(value);
    snprintf(place, sizeof place, "%.70s[%zu]", name, i);
    if (!json_is_number(value) || id != floor(id)) return field_wrong_kind(why, place, value, "an integer");
    if (id < lowest || id > highest)
        return refuse(why, FAULT_BAD_REQUEST, place, "%s: found %.0f, allowed are %.0f to %.0f", place, id, lowest,
                      highest);
    *out = (int32_t)id;
    return true;
}

bool field_take_ids(field_ids *out, const json_t *list, const char *name, double lowest, double highest, arena *memory,
                    refusal *why) {
    const size_t n = json_array_size(list);
    if (!json_is_array(list)) return field_wrong_kind(why, name, list, "an array of integers");
    if (n > MOST_IDS)
        return refuse(why, FAULT_BAD_REQUEST, name, "%s: found %zu ids, allowed are %d", name, n, MOST_IDS);
    int32_t *at = arena_get(memory, n + 1, sizeof *at);
    if (!at) return refuse_memory(why, name);
    for (size_t i = 0; i < n; i++)
        if (!take_id(&at[i], json_array_get(list, i), name, i, lowest, highest, why)) return false;
    *out = (field_ids){at, n};
    return true;
}

/* A JSON document inside a string; "1,2,3" is the array of it. NULL: it is none. */
static json_t *unpack(const char *text, bool *failed) {
    strbuf b = {0};
    const bool is_bare = text[strspn(text, " ")] != '[';
    strbuf_text(&b, is_bare ? "[" : "");
    strbuf_text(&b, text);
    strbuf_text(&b, is_bare ? "]" : "");
    json_t *out = b.failed ? NULL : json_loadb(b.at, b.bytes, 0, NULL);
    *failed = b.failed;
    strbuf_free(&b);
    return out;
}

static bool take_list(void *to, const field_row *row, const json_t *value, const char *name, arena *memory,
                      refusal *why) {
    if (row->kind == FIELD_TEXTS) return field_take_texts(to, value, name, (size_t)row->highest, memory, why);
    return field_take_ids(to, value, name, row->lowest, row->highest, memory, why);
}

/* Strings out of an unpacked document must outlive it. */
static bool keep_texts(field_texts *list, const char *name, arena *memory, refusal *why) {
    for (size_t i = 0; i < list->count; i++)
        if (!(list->at[i] = arena_text(memory, list->at[i], strlen(list->at[i])))) return refuse_memory(why, name);
    return true;
}

static bool take_loose_list(void *to, const field_row *row, const json_t *value, const char *name, arena *memory,
                            refusal *why) {
    const char *text = json_string_value(value);
    const bool is_packed = row->flags & FIELD_LOOSE && text && (row->kind == FIELD_IDS || *text == '[');
    if (!is_packed) return take_list(to, row, value, name, memory, why);
    bool failed;
    json_t *inner = unpack(text, &failed);
    if (failed) return refuse_memory(why, name);
    if (!inner && row->kind == FIELD_TEXTS) return take_list(to, row, value, name, memory, why);
    if (!inner)
        return refuse(why, FAULT_BAD_REQUEST, name, "%s: found \"%.80s\", expected ids as [1,2] or \"1,2\"", name,
                      text);
    bool is_good = take_list(to, row, inner, name, memory, why);
    if (is_good && row->kind == FIELD_TEXTS) is_good = keep_texts(to, name, memory, why);
    json_decref(inner);
    return is_good;
}

/* ---- rows ---- */

static void set_standard(char *to, const field_row *row) {
    switch (row->kind) {
    case FIELD_REAL:
        *(double *)to = row->standard;
        break;
    case FIELD_INT:
        *(int64_t *)to = (int64_t)row->standard;
        break;
    case FIELD_BOOL:
        *(bool *)to = row->standard != 0;
        break;
    case FIELD_MAYBE:
        *(int *)to = -1;
        break;
    case FIELD_TEXT:
        *(span *)to = (span){0};
        break;
    case FIELD_TEXTS:
        *(field_texts *)to = (field_texts){0};
        break;
    case FIELD_IDS:
        *(field_ids *)to = (field_ids){0};
        break;
    case FIELD_JSON:
        *(const json_t **)to = NULL;
        break;
    case FIELD_NONE:
        break;
    }
}

static bool take(char *to, const field_row *row, const json_t *value, const char *name, arena *memory, refusal *why) {
    double number;
    switch (row->kind) {
    case FIELD_REAL:
        return take_number((double *)to, row, value, name, why);
    case FIELD_INT:
        if (!take_number(&number, row, value, name, why)) return false;
        *(int64_t *)to = json_is_integer(value) ? (int64_t)json_integer_value(value) : (int64_t)number;
        return true;
    case FIELD_BOOL:
        return take_bool((bool *)to, row, value, name, why);
    case FIELD_MAYBE:
        return take_maybe((int *)to, row, value, name, why);
    case FIELD_TEXT:
        if (!json_is_string(value)) return field_wrong_kind(why, name, value, "a string");
        *(span *)to = (span){json_string_value(value), json_string_length(value)};
        return true;
    case FIELD_TEXTS:
    case FIELD_IDS:
        return take_loose_list(to, row, value, name, memory, why);
    case FIELD_JSON:
        *(const json_t **)to = value;
        return true;
    case FIELD_NONE:
        return true;
    }
    return true;
}

static bool is_standard(const char *at, const field_row *row) {
    switch (row->kind) {
    case FIELD_REAL:
        return *(const double *)at == row->standard;
    case FIELD_INT:
        return *(const int64_t *)at == (int64_t)row->standard;
    case FIELD_BOOL:
        return *(const bool *)at == (row->standard != 0);
    default:
        return false;
    }
}

void field_note(field_report *report, const char *name) {
    if (!report) return;
    const size_t used = strlen(report->unbuilt);
    snprintf(report->unbuilt + used, sizeof report->unbuilt - used, "%s%s", used ? ", " : "", name);
}

bool field_read(void *out, const field_row *rows, size_t n_rows, const json_t *body, arena *memory,
                field_report *report, refusal *why) {
    if (report) *report = (field_report){{0}};
    for (const field_row *row = rows; row < rows + n_rows; row++) {
        char name[64], *to = (char *)out + row->offset;
        set_standard(to, row);
        const json_t *value = field_find(row, body, name);
        if (!value && row->flags & FIELD_NEEDED)
            return refuse(why, FAULT_BAD_REQUEST, row->names, "%s: missing", row->names);
        if (!value) continue;
        if (!take(to, row, value, name, memory, why)) return false;
        if (row->flags & FIELD_UNBUILT && !is_standard(to, row)) field_note(report, name);
    }
    return true;
}
