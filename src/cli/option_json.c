/* option_json.c — options as members of JSON objects, for lines of a batch and saved conversations.
 *
 * Values go through the same setters as what is typed, so that names, checks and refusals are the same. The tricky
 * thing are lists: an array replaces what the command line gave instead of adding to it. */
#include "option_json.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>

/* A scalar as a user would type it; `room` holds numbers. */
static const char *typed(const json_t *value, char room[40]) {
    if (json_is_string(value))
        return strlen(json_string_value(value)) == json_string_length(value) ? json_string_value(value) : NULL;
    if (json_is_boolean(value)) return json_is_true(value) ? "true" : "false";
    if (json_is_integer(value))
        snprintf(room, 40, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(room, 40, "%.17g", json_real_value(value));
    else
        return NULL;
    return room;
}

static qp_status set_scalar(options *o, const option_row *row, const char *key, const json_t *value, qp_error *err) {
    char room[40];
    const char *text = typed(value, room);
    const bool keeps_text = row->kind == OPTION_TEXT || row->kind == OPTION_TEXTS;
    if (!text || (keeps_text && text == room))
        return err_set(err, QP_BAD_ARGUMENT, 0, "\"%s\": found %s, expected %s", key, json_kind(value),
                       keeps_text   ? "a string"
                       : row->value ? row->value
                                    : "a boolean");
    return option_set(o, row, key, text, err);
}

/* [1, 2] for an option that is typed as 1,2. */
static qp_status set_joined(options *o, const option_row *row, const char *key, const json_t *list, qp_error *err) {
    strbuf joined = {0};
    const json_t *item;
    size_t i;
    if (!json_array_size(list)) return option_unset(o, row), QP_OK;
    json_array_foreach(list, i, item) {
        char room[40];
        const char *text = typed(item, room);
        strbuf_format(&joined, "%s%s", i ? "," : "", text ? text : "?");
    }
    qp_status status = strbuf_status(&joined, err, key);
    if (status == QP_OK) status = option_set(o, row, key, joined.at ? joined.at : "", err);
    strbuf_free(&joined);
    return status;
}

/* {"7": -1.5} for an option that is typed as 7:-1.5. */
static qp_status set_pairs(options *o, const option_row *row, const char *key, json_t *pairs, qp_error *err) {
    const char *id;
    json_t *value;
    json_object_foreach(pairs, id, value) {
        char room[40], pair[120];
        const char *text = typed(value, room);
        snprintf(pair, sizeof pair, "%.40s:%.60s", id, text ? text : "?");
        ERR_TRY(option_set(o, row, key, pair, err));
    }
    return QP_OK;
}

qp_status option_set_json(options *o, const command_row *c, const char *name, const char *key, json_t *value,
                          qp_error *err) {
    const option_row *row = option_find_own(c, name);
    if (!row)
        return err_set(err, QP_BAD_ARGUMENT, 0, "\"%.80s\" is no option of an answer; did you mean --%s?", key,
                       option_nearest_own(c, name));
    const bool is_list = row->kind == OPTION_TEXTS || row->kind == OPTION_IDS || row->kind == OPTION_BIASES;
    if (json_is_null(value)) return QP_OK;
    if (is_list) option_unset(o, row); /* what is given here instead of the command's */
    if (row->kind == OPTION_BIASES && json_is_object(value)) return set_pairs(o, row, key, value, err);
    if (row->kind == OPTION_REALS && json_is_array(value)) return set_joined(o, row, key, value, err);
    if (!is_list || !json_is_array(value)) return set_scalar(o, row, key, value, err);
    json_t *item;
    size_t i;
    json_array_foreach(value, i, item) ERR_TRY(set_scalar(o, row, key, item, err));
    return QP_OK;
}

/* ---- the other way ---- */

static json_t *of_text(const char *text) { return text ? json_string(text) : json_null(); }

static json_t *of_texts(const option_texts *list) {
    json_t *out = json_array();
    for (size_t i = 0; out && i < list->count; i++)
        if (json_array_append_new(out, json_string(list->at[i]))) return json_decref(out), NULL;
    return out;
}

static json_t *of_reals(const option_reals *list) {
    json_t *out = json_array();
    for (size_t i = 0; out && i < list->count; i++)
        if (json_array_append_new(out, json_real(list->at[i]))) return json_decref(out), NULL;
    return out;
}

static json_t *of_ids(const option_ids *list) {
    json_t *out = json_array();
    for (size_t i = 0; out && i < list->count; i++)
        if (json_array_append_new(out, json_integer(list->at[i]))) return json_decref(out), NULL;
    return out;
}

/* JSON has no infinity, so that one is a text. */
static json_t *of_biases(const option_biases *list) {
    json_t *out = json_object();
    for (size_t i = 0; out && i < list->count; i++) {
        const double bias = (double)list->at[i].bias;
        char id[16];
        snprintf(id, sizeof id, "%d", list->at[i].id);
        if (json_object_set_new(out, id, isinf(bias) ? json_string(bias < 0 ? "-inf" : "inf") : json_real(bias)))
            return json_decref(out), NULL;
    }
    return out;
}

json_t *option_get_json(const options *o, const option_row *row) {
    const void *field = (const char *)o + row->field;
    switch (row->kind) {
    case OPTION_FLAG:
        return json_boolean(*(const bool *)field);
    case OPTION_INT:
        return json_integer(*(const int64_t *)field);
    case OPTION_REAL:
        return json_real(*(const double *)field);
    case OPTION_TEXT:
    case OPTION_CHOICE:
        return of_text(*(const char *const *)field);
    case OPTION_TEXTS:
        return of_texts(field);
    case OPTION_REALS:
        return of_reals(field);
    case OPTION_IDS:
        return of_ids(field);
    case OPTION_BIASES:
        return of_biases(field);
    case OPTION_INTS:
        return NULL; /* no answer has one */
    }
    return NULL;
}
