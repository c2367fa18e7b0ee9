/* decoder_parse.c — the "decoder" of tokenizer.json to a row of steps, one table row per type. */
#include "decoder.h"
#include "component.h"

#define WHERE "tokenizer.json: decoder"

qp_status decoder_add(decoder *d, decoder_step step, qp_error *err) {
    if (d->n == DECODER_MAX_STEPS)
        return err_set(err, QP_TOO_LARGE, 0, WHERE ": more than %d steps", DECODER_MAX_STEPS);
    d->is_none = false;
    d->steps[d->n++] = step;
    return QP_OK;
}

static qp_status copy_text(char **out, size_t *bytes, span text, qp_error *err) {
    *out = mem_copy_text(text.at, text.bytes);
    *bytes = text.bytes;
    return *out ? QP_OK : err_no_memory(err, text.bytes, WHERE);
}

/* A new step whose texts are owned. */
static qp_status add_texts(decoder *d, decoder_step step, span from, span to, qp_error *err) {
    ERR_TRY(decoder_add(d, step, err));
    decoder_step *s = &d->steps[d->n - 1];
    ERR_TRY(copy_text(&s->from, &s->from_bytes, from, err));
    return copy_text(&s->to, &s->to_bytes, to, err);
}

qp_status decoder_add_replace(decoder *d, span from, span to, qp_error *err) {
    return add_texts(d, (decoder_step){.kind = DECODER_REPLACE}, from, to, err);
}

qp_status decoder_add_strip(decoder *d, span content, size_t start, size_t stop, qp_error *err) {
    return add_texts(d, (decoder_step){.kind = DECODER_STRIP, .start = start, .stop = stop}, content, SPAN(""), err);
}

/* A text of the object, which may hold zero bytes; `missing` where it is absent. */
static qp_status get_span(const json_t *json, const char *key, const char *missing, span *out, qp_error *err) {
    const char *text = missing;
    ERR_TRY(json_get_text(json, key, &text, WHERE, err));
    const json_t *value = json_object_get(json, key);
    *out = json_is_string(value) ? (span){json_string_value(value), json_string_length(value)} : span_of(missing);
    return QP_OK;
}

static qp_status parse_byte_level(decoder *d, const json_t *json, qp_error *err) {
    return decoder_add(d, (decoder_step){.kind = DECODER_BYTE_LEVEL}, err);
}

static qp_status parse_byte_fallback(decoder *d, const json_t *json, qp_error *err) {
    return decoder_add(d, (decoder_step){.kind = DECODER_BYTE_FALLBACK}, err);
}

static qp_status parse_fuse(decoder *d, const json_t *json, qp_error *err) {
    return decoder_add(d, (decoder_step){.kind = DECODER_FUSE}, err);
}

static qp_status parse_metaspace(decoder *d, const json_t *json, qp_error *err) {
    span mark;
    const char *scheme = NULL;
    bool adds_prefix = true;
    ERR_TRY(get_span(json, "replacement", "\xe2\x96\x81", &mark, err));
    ERR_TRY(json_get_text(json, "prepend_scheme", &scheme, WHERE, err));
    ERR_TRY(json_get_bool(json, "add_prefix_space", &adds_prefix, WHERE, err));
    const decoder_step step = {.kind = DECODER_METASPACE,
                               .drops_first = scheme ? strcmp(scheme, "never") != 0 : adds_prefix};
    return add_texts(d, step, mark, SPAN(""), err);
}

static qp_status parse_wordpiece(decoder *d, const json_t *json, qp_error *err) {
    span prefix;
    decoder_step step = {.kind = DECODER_WORDPIECE, .cleans = true};
    ERR_TRY(get_span(json, "prefix", "##", &prefix, err));
    ERR_TRY(json_get_bool(json, "cleanup", &step.cleans, WHERE, err));
    return add_texts(d, step, prefix, SPAN(""), err);
}

static qp_status parse_replace(decoder *d, const json_t *json, qp_error *err) {
    span content, expression;
    json_t *pattern = NULL;
    ERR_TRY(json_need(json, "pattern", WHERE, err));
    ERR_TRY(json_get_object(json, "pattern", &pattern, WHERE, err));
    ERR_TRY(get_span(json, "content", "", &content, err));
    span text;
    ERR_TRY(get_span(pattern, "String", "", &text, err));
    ERR_TRY(get_span(pattern, "Regex", "", &expression, err));
    ERR_TRY(add_texts(d, (decoder_step){.kind = DECODER_REPLACE}, text, content, err));
    return text.bytes ? QP_OK : regex_compile(&d->steps[d->n - 1].regex, expression, err);
}

static qp_status parse_strip(decoder *d, const json_t *json, qp_error *err) {
    span content;
    int64_t start = 0, stop = 0;
    ERR_TRY(json_need(json, "content", WHERE, err));
    ERR_TRY(get_span(json, "content", "", &content, err));
    ERR_TRY(json_get_int(json, "start", 0, INT32_MAX, &start, WHERE, err));
    ERR_TRY(json_get_int(json, "stop", 0, INT32_MAX, &stop, WHERE, err));
    if (!content.bytes)
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": Strip's content is empty, expected one character");
    return decoder_add_strip(d, content, (size_t)start, (size_t)stop, err);
}

static qp_status parse_ctc(decoder *d, const json_t *json, qp_error *err) {
    span pad, delimiter;
    decoder_step step = {.kind = DECODER_CTC, .cleans = true};
    ERR_TRY(get_span(json, "pad_token", "<pad>", &pad, err));
    ERR_TRY(get_span(json, "word_delimiter_token", "|", &delimiter, err));
    ERR_TRY(json_get_bool(json, "cleanup", &step.cleans, WHERE, err));
    return add_texts(d, step, pad, delimiter, err);
}

static qp_status parse_bpe(decoder *d, const json_t *json, qp_error *err) {
    span suffix;
    ERR_TRY(get_span(json, "suffix", "</w>", &suffix, err));
    return add_texts(d, (decoder_step){.kind = DECODER_BPE}, suffix, SPAN(""), err);
}

static const struct {
    const char *type;
    qp_status (*parse)(decoder *d, const json_t *json, qp_error *err);
} types[] = {
    {"ByteLevel", parse_byte_level},
    {"ByteFallback", parse_byte_fallback},
    {"Metaspace", parse_metaspace},
    {"WordPiece", parse_wordpiece},
    {"Replace", parse_replace},
    {"Strip", parse_strip},
    {"Fuse", parse_fuse},
    {"CTC", parse_ctc},
    {"BPEDecoder", parse_bpe},
};

static qp_status take(void *owner, const char *type, const json_t *json, bool *known, qp_error *err) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].type)) return types[i].parse(owner, json, err);
    *known = false;
    return QP_OK;
}

qp_status decoder_parse(decoder *d, const json_t *json, qp_error *err) {
    static const component_walk walk = {WHERE, "decoders", take};
    d->is_none = !json || json_is_null(json);
    return component_each(&walk, d, json, err);
}

void decoder_free(decoder *d) {
    for (int i = 0; i < d->n; i++) {
        regex_free(d->steps[i].regex);
        mem_free(d->steps[i].from);
        mem_free(d->steps[i].to);
    }
    *d = (decoder){0};
}
