/* pretok_parse.c — the "pre_tokenizer" of tokenizer.json to a chain of steps, one table row per type. */
#include "pretok.h"
#include "component.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "uni.h"

#define WHERE "tokenizer.json: pre_tokenizer"
#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static qp_status add_step(pretok *p, pretok_step step, qp_error *err) {
    if (p->n == PRETOK_MAX_STEPS) return err_set(err, QP_TOO_LARGE, 0, WHERE ": more than %d steps", PRETOK_MAX_STEPS);
    p->steps[p->n++] = step;
    return QP_OK;
}

qp_status pretok_add_split(pretok *p, span pattern, pretok_behavior behavior, bool is_inverted, qp_error *err) {
    pretok_step step = {.kind = PRETOK_SPLIT, .behavior = behavior, .is_inverted = is_inverted};
    if (p->n == PRETOK_MAX_STEPS) return add_step(p, step, err);
    ERR_TRY(scan_compile(&step.scan, pattern, err));
    if (!step.scan) ERR_TRY(regex_compile(&step.regex, pattern, err));
    return add_step(p, step, err);
}

qp_status pretok_add_metaspace(pretok *p, const char *mark, pretok_prepend prepend, bool splits, qp_error *err) {
    pretok_step step = {.kind = PRETOK_METASPACE, .prepend = prepend, .splits = splits};
    uint32_t c;
    const size_t bytes = strlen(mark);
    if (!bytes || (size_t)utf8_decode(mark, bytes, &c) != bytes)
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": Metaspace replacement \"%.40s\", allowed is one character",
                       mark);
    memcpy(step.mark, mark, bytes);
    return add_step(p, step, err);
}

static qp_status get_behavior(const json_t *json, pretok_behavior *out, qp_error *err) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = NULL;
    ERR_TRY(json_get_text(json, "behavior", &name, WHERE, err));
    for (int i = 0; name && i < 5; i++)
        if (!strcmp(name, names[i])) return *out = (pretok_behavior)i, QP_OK;
    return name ? err_set(err, QP_UNSUPPORTED, 0, WHERE ": behavior \"%.60s\" is not known", name) : QP_OK;
}

/* A literal text as a regular expression. */
static void quote(strbuf *out, const char *text) {
    for (; *text; text++) {
        if (strchr("\\.+*?()|[]{}^$#&-~", *text)) strbuf_char(out, '\\');
        strbuf_char(out, *text);
    }
}

static qp_status parse_split(pretok *p, const json_t *json, qp_error *err) {
    pretok_behavior behavior = PRETOK_ISOLATED;
    bool is_inverted = false;
    const char *text = NULL, *expression = NULL;
    const json_t *pattern = json_object_get(json, "pattern");
    if (!json_is_object(pattern)) return err_set(err, QP_BAD_FORMAT, 0, WHERE ": Split has no pattern");
    ERR_TRY(json_get_text(pattern, "String", &text, WHERE, err));
    ERR_TRY(json_get_text(pattern, "Regex", &expression, WHERE, err));
    ERR_TRY(json_need(json, "behavior", WHERE, err));
    ERR_TRY(get_behavior(json, &behavior, err));
    ERR_TRY(json_get_bool(json, "invert", &is_inverted, WHERE, err));
    if (expression) return pretok_add_split(p, span_of(expression), behavior, is_inverted, err);
    if (!text) return err_set(err, QP_BAD_FORMAT, 0, WHERE ": Split's pattern has neither String nor Regex");
    strbuf quoted = {0};
    quote(&quoted, text);
    qp_status status = strbuf_status(&quoted, err, WHERE);
    if (status == QP_OK)
        status = pretok_add_split(p, (span){quoted.at ? quoted.at : "", quoted.bytes}, behavior, is_inverted, err);
    strbuf_free(&quoted);
    return status;
}

static qp_status parse_byte_level(pretok *p, const json_t *json, qp_error *err) {
    bool adds_space = true, uses_regex = true;
    ERR_TRY(json_get_bool(json, "add_prefix_space", &adds_space, WHERE, err));
    ERR_TRY(json_get_bool(json, "use_regex", &uses_regex, WHERE, err));
    if (adds_space) ERR_TRY(add_step(p, (pretok_step){.kind = PRETOK_BYTE_LEVEL, .adds_space = true}, err));
    if (uses_regex) ERR_TRY(pretok_add_split(p, SPAN(GPT2_PATTERN), PRETOK_ISOLATED, false, err));
    return add_step(p, (pretok_step){.kind = PRETOK_BYTE_LEVEL, .maps_bytes = true}, err);
}

static qp_status parse_whitespace(pretok *p, const json_t *json, qp_error *err) {
    (void)json;
    return add_step(p, (pretok_step){.kind = PRETOK_WHITESPACE}, err);
}

static qp_status parse_whitespace_split(pretok *p, const json_t *json, qp_error *err) {
    (void)json;
    return add_step(p, (pretok_step){.kind = PRETOK_SPLIT, .behavior = PRETOK_REMOVED, .mask = UNI_SPACE}, err);
}

static qp_status parse_punctuation(pretok *p, const json_t *json, qp_error *err) {
    pretok_step step = {.kind = PRETOK_SPLIT, .behavior = PRETOK_ISOLATED, .mask = UNI_PUNCT};
    ERR_TRY(get_behavior(json, &step.behavior, err));
    return add_step(p, step, err);
}

static qp_status parse_digits(pretok *p, const json_t *json, qp_error *err) {
    bool is_individual = false;
    ERR_TRY(json_get_bool(json, "individual_digits", &is_individual, WHERE, err));
    const pretok_behavior behavior = is_individual ? PRETOK_ISOLATED : PRETOK_CONTIGUOUS;
    return add_step(p, (pretok_step){.kind = PRETOK_SPLIT, .behavior = behavior, .mask = UNI_NUMBER}, err);
}

static qp_status parse_metaspace(pretok *p, const json_t *json, qp_error *err) {
    static const char *const schemes[] = {"always", "first", "never"};
    const char *mark = "\xe2\x96\x81", *scheme = NULL;
    bool splits = true, adds_prefix = true;
    ERR_TRY(json_get_text(json, "replacement", &mark, WHERE, err));
    ERR_TRY(json_get_text(json, "prepend_scheme", &scheme, WHERE, err));
    ERR_TRY(json_get_bool(json, "split", &splits, WHERE, err));
    ERR_TRY(json_get_bool(json, "add_prefix_space", &adds_prefix, WHERE, err));
    pretok_prepend prepend = adds_prefix ? PRETOK_ALWAYS : PRETOK_NEVER;
    int i = 0;
    while (scheme && i < 3 && strcmp(scheme, schemes[i]) != 0) i++;
    if (i == 3) return err_set(err, QP_UNSUPPORTED, 0, WHERE ": prepend_scheme \"%.60s\" is not known", scheme);
    if (scheme) prepend = (pretok_prepend)i;
    return pretok_add_metaspace(p, mark, prepend, splits, err);
}

static qp_status parse_bert(pretok *p, const json_t *json, qp_error *err) {
    (void)json;
    return add_step(p, (pretok_step){.kind = PRETOK_BERT}, err);
}

static qp_status parse_scripts(pretok *p, const json_t *json, qp_error *err) {
    (void)json;
    return add_step(p, (pretok_step){.kind = PRETOK_SCRIPTS}, err);
}

static qp_status parse_delimiter(pretok *p, const json_t *json, qp_error *err) {
    const char *delimiter = NULL;
    ERR_TRY(json_need(json, "delimiter", WHERE, err));
    ERR_TRY(json_get_text(json, "delimiter", &delimiter, WHERE, err));
    uint32_t c;
    const size_t bytes = strlen(delimiter);
    if (!bytes || (size_t)utf8_decode(delimiter, bytes, &c) != bytes)
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": delimiter \"%.40s\", allowed is one character", delimiter);
    strbuf quoted = {0};
    quote(&quoted, delimiter);
    qp_status status = strbuf_status(&quoted, err, WHERE);
    if (status == QP_OK)
        status = pretok_add_split(p, (span){quoted.at ? quoted.at : "", quoted.bytes}, PRETOK_REMOVED, false, err);
    strbuf_free(&quoted);
    return status;
}

static qp_status parse_fixed(pretok *p, const json_t *json, qp_error *err) {
    int64_t length = 5;
    ERR_TRY(json_get_int(json, "length", 1, INT32_MAX, &length, WHERE, err));
    return add_step(p, (pretok_step){.kind = PRETOK_FIXED, .length = (size_t)length}, err);
}

static const struct {
    const char *type;
    qp_status (*parse)(pretok *p, const json_t *json, qp_error *err);
} types[] = {
    {"Split", parse_split},
    {"ByteLevel", parse_byte_level},
    {"Whitespace", parse_whitespace},
    {"WhitespaceSplit", parse_whitespace_split},
    {"Punctuation", parse_punctuation},
    {"Digits", parse_digits},
    {"Metaspace", parse_metaspace},
    {"BertPreTokenizer", parse_bert},
    {"UnicodeScripts", parse_scripts},
    {"CharDelimiterSplit", parse_delimiter},
    {"FixedLength", parse_fixed},
};

static qp_status take(void *owner, const char *type, const json_t *json, bool *known, qp_error *err) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].type)) return types[i].parse(owner, json, err);
    *known = false;
    return QP_OK;
}

qp_status pretok_parse(pretok *p, const json_t *json, qp_error *err) {
    static const component_walk walk = {WHERE, "pretokenizers", take};
    return component_each(&walk, p, json, err);
}

void pretok_take_bytes(pretok *p) {
    if (!p->n || p->steps[p->n - 1].kind != PRETOK_BYTE_LEVEL || !p->steps[p->n - 1].maps_bytes) return;
    p->n--;
    p->ends_in_bytes = true;
}

void pretok_free(pretok *p) {
    for (int i = 0; i < p->n; i++) {
        scan_free(p->steps[i].scan);
        regex_free(p->steps[i].regex);
    }
    *p = (pretok){0};
}
