/* post.c — post-processors: the special tokens that stand around an encoded text. */
#include "post.h"

#define WHERE "tokenizer.json: post_processor"

static qp_status add_step(post *p, idvec **out, qp_error *err) {
    *out = &p->steps[0];
    if (p->n == POST_MAX_STEPS) return err_set(err, QP_TOO_LARGE, 0, WHERE ": more than %d steps", POST_MAX_STEPS);
    *out = &p->steps[p->n++];
    return QP_OK;
}

static qp_status checked(const idvec *step, qp_error *err) {
    return step->failed ? err_no_memory(err, step->n * sizeof *step->at, WHERE) : QP_OK;
}

qp_status post_surround(post *p, int32_t first, int32_t last, qp_error *err) {
    idvec *step;
    ERR_TRY(add_step(p, &step, err));
    if (first >= 0) idvec_add(step, first);
    idvec_add(step, POST_TEXT);
    if (last >= 0) idvec_add(step, last);
    return checked(step, err);
}

/* "SpecialToken": {"id": name}; its ids stand in the template's "special_tokens". */
static qp_status add_special(idvec *step, const json_t *special, const json_t *all, qp_error *err) {
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *ids = name ? json_object_get(json_object_get(all, name), "ids") : NULL;
    if (!json_is_array(ids))
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": special token \"%.80s\" has no ids", name ? name : "");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return err_set(err, QP_BAD_FORMAT, 0, WHERE ": an id of \"%.80s\" is %s, expected a small integer", name,
                           json_kind(id));
        idvec_add(step, (int32_t)json_integer_value(id));
    }
    return QP_OK;
}

static qp_status parse_template(post *p, const json_t *json, qp_error *err) {
    json_t *single = NULL, *all = NULL;
    idvec *step;
    ERR_TRY(json_need(json, "single", WHERE, err));
    ERR_TRY(json_get_array(json, "single", &single, WHERE, err));
    ERR_TRY(json_get_object(json, "special_tokens", &all, WHERE, err));
    ERR_TRY(add_step(p, &step, err));
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i), *special = json_object_get(item, "SpecialToken");
        const char *sequence = json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
        if (special)
            ERR_TRY(add_special(step, special, all, err));
        else if (sequence && !strcmp(sequence, "A"))
            idvec_add(step, POST_TEXT);
        else
            return err_set(err, QP_UNSUPPORTED, 0,
                           WHERE ": item %zu of \"single\" is neither a special token nor sequence A", i);
    }
    return checked(step, err);
}

/* "sep": ["[SEP]", 102] */
static qp_status get_pair(const json_t *json, const char *key, int32_t *id, qp_error *err) {
    const json_t *number = json_array_get(json_object_get(json, key), 1);
    if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) > INT32_MAX)
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": \"%s\" is not a pair of text and id", key);
    *id = (int32_t)json_integer_value(number);
    return QP_OK;
}

static qp_status parse_cls_sep(post *p, const json_t *json, qp_error *err) {
    int32_t cls = -1, sep = -1;
    ERR_TRY(get_pair(json, "cls", &cls, err));
    ERR_TRY(get_pair(json, "sep", &sep, err));
    return post_surround(p, cls, sep, err);
}

static qp_status parse_nothing(post *p, const json_t *json, qp_error *err) {
    return QP_OK;
} /* concerns offsets alone */

static const struct {
    const char *type;
    qp_status (*parse)(post *p, const json_t *json, qp_error *err);
} types[] = {
    {"TemplateProcessing", parse_template},
    {"BertProcessing", parse_cls_sep},
    {"RobertaProcessing", parse_cls_sep},
    {"ByteLevel", parse_nothing},
};

static qp_status parse_any(post *p, const json_t *json, int depth, qp_error *err) {
    const char *type = NULL;
    json_t *list = NULL;
    if (depth > 8) return err_set(err, QP_TOO_LARGE, 0, WHERE ": sequences nested too deep");
    if (!json_is_object(json)) return err_set(err, QP_BAD_FORMAT, 0, WHERE ": %s, expected an object", json_kind(json));
    ERR_TRY(json_need(json, "type", WHERE, err));
    ERR_TRY(json_get_text(json, "type", &type, WHERE, err));
    if (!strcmp(type, "Sequence")) {
        ERR_TRY(json_get_array(json, "processors", &list, WHERE, err));
        for (size_t i = 0; i < json_array_size(list); i++)
            ERR_TRY(parse_any(p, json_array_get(list, i), depth + 1, err));
        return QP_OK;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].type)) return types[i].parse(p, json, err);
    return err_set(err, QP_UNSUPPORTED, 0, WHERE ": type \"%.60s\" is not known", type);
}

qp_status post_parse(post *p, const json_t *json, qp_error *err) {
    return !json || json_is_null(json) ? QP_OK : parse_any(p, json, 0, err);
}

void post_free(post *p) {
    for (int i = 0; i < p->n; i++) idvec_free(&p->steps[i]);
    *p = (post){0};
}

qp_status post_run(const post *p, idvec *ids, qp_error *err) {
    for (int i = 0; i < p->n; i++) {
        const idvec *step = &p->steps[i];
        idvec all = {0};
        for (size_t k = 0; k < step->n; k++) {
            if (step->at[k] == POST_TEXT)
                idvec_add_all(&all, ids->at, ids->n);
            else
                idvec_add(&all, step->at[k]);
        }
        idvec_free(ids);
        *ids = all;
        if (all.failed) return err_no_memory(err, all.n * sizeof *all.at, "encoding");
    }
    return QP_OK;
}

bool post_begins_with(const post *p, int32_t id) {
    for (int i = p->n; i-- > 0;)
        if (p->steps[i].n && p->steps[i].at[0] != POST_TEXT) return p->steps[i].at[0] == id;
    return false;
}

bool post_ends_with(const post *p, int32_t id) {
    for (int i = p->n; i-- > 0;)
        if (p->steps[i].n && p->steps[i].at[p->steps[i].n - 1] != POST_TEXT)
            return p->steps[i].at[p->steps[i].n - 1] == id;
    return false;
}
