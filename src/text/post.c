/* post.c — post-processors: the special tokens that stand around an encoded text.
 *
 * The reference hands a list of parts from one processor to the next: a template makes one part of each of its items,
 * and a second template takes two parts for a pair of texts. All that depends on the file alone, so the row of ids is
 * worked out while loading. */
#include "post.h"
#include "component.h"

#define WHERE "tokenizer.json: post_processor"

enum { MAX_PARTS = 64 };

typedef struct parts {
    idvec at[MAX_PARTS];
    int n;
} parts;

static void free_parts(parts *p) {
    for (int i = 0; i < p->n; i++) idvec_free(&p->at[i]);
    p->n = 0;
}

static qp_status new_part(parts *p, idvec **out, qp_error *err) {
    *out = &p->at[0];
    if (p->n == MAX_PARTS) return err_set(err, QP_TOO_LARGE, 0, WHERE ": more than %d parts", MAX_PARTS);
    *out = &p->at[p->n++];
    **out = (idvec){0};
    return QP_OK;
}

/* "SpecialToken": {"id": name}; its ids stand in the template's "special_tokens". */
static qp_status add_special(idvec *to, const json_t *special, const json_t *all, qp_error *err) {
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *ids = name ? json_object_get(json_object_get(all, name), "ids") : NULL;
    if (!json_is_array(ids))
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": special token \"%.80s\" has no ids", name ? name : "");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return err_set(err, QP_BAD_FORMAT, 0, WHERE ": an id of \"%.80s\" is %s, expected a small integer", name,
                           json_kind(id));
        idvec_add(to, (int32_t)json_integer_value(id));
    }
    return QP_OK;
}

static qp_status add_item(parts *to, const parts *from, const json_t *item, const json_t *all, qp_error *err) {
    idvec *part;
    const json_t *special = json_object_get(item, "SpecialToken");
    const char *sequence = json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
    ERR_TRY(new_part(to, &part, err));
    if (special) return add_special(part, special, all, err);
    const int i = sequence && !strcmp(sequence, "A") ? 0 : sequence && !strcmp(sequence, "B") ? 1 : -1;
    if (i < 0 || i >= from->n)
        return err_set(err, QP_UNSUPPORTED, 0,
                       WHERE ": a template's item is neither a special token nor a text at hand");
    idvec_add_all(part, from->at[i].at, from->at[i].n);
    return QP_OK;
}

static qp_status run_template(parts *p, const json_t *json, qp_error *err) {
    json_t *items = NULL, *all = NULL;
    const char *key = p->n == 1 ? "single" : "pair";
    if (p->n > 2) return err_set(err, QP_UNSUPPORTED, 0, WHERE ": a template for %d parts, known are 1 and 2", p->n);
    ERR_TRY(json_need(json, key, WHERE, err));
    ERR_TRY(json_get_array(json, key, &items, WHERE, err));
    ERR_TRY(json_get_object(json, "special_tokens", &all, WHERE, err));
    parts made = {0};
    qp_status status = QP_OK;
    for (size_t i = 0; i < json_array_size(items) && status == QP_OK; i++)
        status = add_item(&made, p, json_array_get(items, i), all, err);
    free_parts(p);
    *p = made;
    return status;
}

/* "sep": ["[SEP]", 102] */
static qp_status get_pair(const json_t *json, const char *key, int32_t *id, qp_error *err) {
    const json_t *number = json_array_get(json_object_get(json, key), 1);
    if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) > INT32_MAX)
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": \"%s\" is not a pair of text and id", key);
    *id = (int32_t)json_integer_value(number);
    return QP_OK;
}

static void surround(idvec *part, int32_t first, int32_t last) {
    idvec made = {0};
    if (first >= 0) idvec_add(&made, first);
    idvec_add_all(&made, part->at, part->n);
    if (last >= 0) idvec_add(&made, last);
    made.failed |= part->failed;
    idvec_free(part);
    *part = made;
}

/* The first part stands between cls and sep; further ones get what `before` says and sep. */
static qp_status run_cls_sep(parts *p, const json_t *json, bool sep_before, qp_error *err) {
    int32_t cls = -1, sep = -1;
    ERR_TRY(get_pair(json, "cls", &cls, err));
    ERR_TRY(get_pair(json, "sep", &sep, err));
    for (int i = 0; i < p->n; i++) surround(&p->at[i], i == 0 ? cls : sep_before ? sep : -1, sep);
    return QP_OK;
}

static qp_status run_bert(parts *p, const json_t *json, qp_error *err) { return run_cls_sep(p, json, false, err); }
static qp_status run_roberta(parts *p, const json_t *json, qp_error *err) { return run_cls_sep(p, json, true, err); }
static qp_status run_nothing(parts *p, const json_t *json, qp_error *err) { return QP_OK; } /* concerns offsets alone */

static const struct {
    const char *type;
    qp_status (*run)(parts *p, const json_t *json, qp_error *err);
} types[] = {
    {"TemplateProcessing", run_template},
    {"BertProcessing", run_bert},
    {"RobertaProcessing", run_roberta},
    {"ByteLevel", run_nothing},
};

static qp_status take(void *owner, const char *type, const json_t *json, bool *known, qp_error *err) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].type)) return types[i].run(owner, json, err);
    *known = false;
    return QP_OK;
}

/* The parts side by side. */
static qp_status join(post *p, const parts *made, qp_error *err) {
    for (int i = 0; i < made->n; i++) {
        idvec_add_all(&p->row, made->at[i].at, made->at[i].n);
        p->row.failed |= made->at[i].failed;
    }
    return p->row.failed ? err_no_memory(err, p->row.n * sizeof *p->row.at, WHERE) : QP_OK;
}

qp_status post_parse(post *p, const json_t *json, qp_error *err) {
    parts made = {0};
    idvec *text;
    static const component_walk walk = {WHERE, "processors", take};
    qp_status status = new_part(&made, &text, err);
    idvec_add(text, POST_TEXT);
    if (status == QP_OK) status = component_each(&walk, &made, json, err);
    if (status == QP_OK) status = join(p, &made, err);
    free_parts(&made);
    return status;
}

qp_status post_surround(post *p, int32_t first, int32_t last, qp_error *err) {
    p->row.n = 0;
    idvec_add(&p->row, POST_TEXT);
    surround(&p->row, first, last);
    return p->row.failed ? err_no_memory(err, 3 * sizeof first, WHERE) : QP_OK;
}

void post_free(post *p) { idvec_free(&p->row); }

qp_status post_run(const post *p, idvec *ids, qp_error *err) {
    if (p->row.n == 1 && p->row.at[0] == POST_TEXT) return QP_OK;
    idvec all = {0};
    for (size_t i = 0; i < p->row.n; i++) {
        if (p->row.at[i] == POST_TEXT)
            idvec_add_all(&all, ids->at, ids->n);
        else
            idvec_add(&all, p->row.at[i]);
    }
    idvec_room(&all, 1);
    idvec_free(ids);
    *ids = all;
    return all.failed ? err_no_memory(err, all.n * sizeof *all.at, "encoding") : QP_OK;
}

bool post_begins_with(const post *p, int32_t id) { return p->row.n && p->row.at[0] == id; }
bool post_ends_with(const post *p, int32_t id) { return p->row.n && p->row.at[p->row.n - 1] == id; }
