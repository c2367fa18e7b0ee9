/* norm_parse.c — the "normalizer" of tokenizer.json to a row of steps, one table row per type. */
#include "norm.h"
#include "component.h"
#include "base/mem.h"

#define WHERE "tokenizer.json: normalizer"

static qp_status copy_text(char **out, size_t *bytes, const json_t *text, qp_error *err) {
    *bytes = json_string_length(text);
    *out = mem_copy_text(json_string_value(text), *bytes);
    return *out ? QP_OK : err_no_memory(err, *bytes, WHERE);
}

static qp_status need_text(const json_t *json, const char *key, const json_t **out, qp_error *err) {
    const char *text = NULL;
    ERR_TRY(json_need(json, key, WHERE, err));
    ERR_TRY(json_get_text(json, key, &text, WHERE, err));
    *out = json_object_get(json, key);
    return QP_OK;
}

static qp_status parse_form(norm_step *s, const json_t *json, qp_error *err) {
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    const char *type = json_string_value(json_object_get(json, "type"));
    s->kind = NORM_FORM;
    for (int i = 0; i < 4; i++)
        if (!strcmp(type, names[i])) s->form = (nform)i;
    return QP_OK;
}

static qp_status parse_lowercase(norm_step *s, const json_t *json, qp_error *err) {
    return s->kind = NORM_LOWERCASE, QP_OK;
}
static qp_status parse_accents(norm_step *s, const json_t *json, qp_error *err) {
    return s->kind = NORM_STRIP_ACCENTS, QP_OK;
}
static qp_status parse_nmt(norm_step *s, const json_t *json, qp_error *err) { return s->kind = NORM_NMT, QP_OK; }
static qp_status parse_byte_level(norm_step *s, const json_t *json, qp_error *err) {
    return s->kind = NORM_BYTE_LEVEL, QP_OK;
}

static qp_status parse_strip(norm_step *s, const json_t *json, qp_error *err) {
    s->kind = NORM_STRIP;
    ERR_TRY(json_need(json, "strip_left", WHERE, err));
    ERR_TRY(json_need(json, "strip_right", WHERE, err));
    ERR_TRY(json_get_bool(json, "strip_left", &s->left, WHERE, err));
    return json_get_bool(json, "strip_right", &s->right, WHERE, err);
}

static qp_status parse_replace(norm_step *s, const json_t *json, qp_error *err) {
    const json_t *content = NULL, *pattern = json_object_get(json, "pattern");
    s->kind = NORM_REPLACE;
    if (!json_is_object(pattern)) return err_set(err, QP_BAD_FORMAT, 0, WHERE ": Replace has no pattern");
    const json_t *text = json_object_get(pattern, "String"), *expression = json_object_get(pattern, "Regex");
    ERR_TRY(need_text(json, "content", &content, err));
    ERR_TRY(copy_text(&s->text, &s->text_bytes, content, err));
    if (json_is_string(expression))
        return regex_compile(&s->regex, (span){json_string_value(expression), json_string_length(expression)}, err);
    if (!json_is_string(text))
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": Replace's pattern has neither String nor Regex");
    if (!json_string_length(text)) return regex_compile(&s->regex, SPAN(""), err);
    return copy_text(&s->from, &s->from_bytes, text, err);
}

static qp_status parse_prepend(norm_step *s, const json_t *json, qp_error *err) {
    const json_t *text = NULL;
    s->kind = NORM_PREPEND;
    ERR_TRY(need_text(json, "prepend", &text, err));
    return copy_text(&s->text, &s->text_bytes, text, err);
}

static qp_status parse_append(norm_step *s, const json_t *json, qp_error *err) {
    const json_t *text = NULL;
    s->kind = NORM_APPEND;
    ERR_TRY(need_text(json, "append", &text, err));
    return copy_text(&s->text, &s->text_bytes, text, err);
}

static qp_status parse_charsmap(norm_step *s, const json_t *json, qp_error *err) {
    const char *blob = "";
    s->kind = NORM_CHARSMAP;
    ERR_TRY(json_get_text(json, "precompiled_charsmap", &blob, WHERE, err));
    return charsmap_open_base64(&s->map, blob, WHERE, err);
}

static qp_status parse_bert(norm_step *s, const json_t *json, qp_error *err) {
    s->kind = NORM_BERT;
    s->cleans = s->handles_chinese = s->lowercases = true;
    ERR_TRY(json_get_bool(json, "clean_text", &s->cleans, WHERE, err));
    ERR_TRY(json_get_bool(json, "handle_chinese_chars", &s->handles_chinese, WHERE, err));
    ERR_TRY(json_get_bool(json, "lowercase", &s->lowercases, WHERE, err));
    s->strips_accents = s->lowercases;
    return json_get_bool(json, "strip_accents", &s->strips_accents, WHERE, err);
}

static const struct {
    const char *type;
    qp_status (*parse)(norm_step *s, const json_t *json, qp_error *err);
} types[] = {
    {"NFC", parse_form},
    {"NFD", parse_form},
    {"NFKC", parse_form},
    {"NFKD", parse_form},
    {"Lowercase", parse_lowercase},
    {"Strip", parse_strip},
    {"StripAccents", parse_accents},
    {"Replace", parse_replace},
    {"Prepend", parse_prepend},
    {"Append", parse_append},
    {"Precompiled", parse_charsmap},
    {"BertNormalizer", parse_bert},
    {"Nmt", parse_nmt},
    {"ByteLevel", parse_byte_level},
};

static qp_status take(void *owner, const char *type, const json_t *json, bool *known, qp_error *err) {
    norm *n = owner;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(type, types[i].type) != 0) continue;
        if (n->n == NORM_MAX_STEPS) return err_set(err, QP_TOO_LARGE, 0, WHERE ": more than %d steps", NORM_MAX_STEPS);
        return types[i].parse(&n->steps[n->n++], json, err);
    }
    *known = false;
    return QP_OK;
}

qp_status norm_parse(norm *n, const json_t *json, qp_error *err) {
    static const component_walk walk = {WHERE, "normalizers", take};
    return component_each(&walk, n, json, err);
}

void norm_free(norm *n) {
    for (int i = 0; i < n->n; i++) {
        regex_free(n->steps[i].regex);
        mem_free(n->steps[i].from);
        mem_free(n->steps[i].text);
        charsmap_free(&n->steps[i].map);
    }
    *n = (norm){0};
}
