/* tok_json.c — tokenizer.json to a tokenizer.
 *
 * One pass over the text finds the parts; the vocabulary and the merges are read straight from it, the small rest
 * becomes jansson values. "truncation" and "padding" say how batches are cut and filled, not how text is encoded. */
#include "tok_impl.h"
#include "jsonscan.h"
#include <stdio.h>

#define WHERE "tokenizer.json"

/* Texts of the file's parts; at == NULL: absent. */
typedef struct parts {
    span added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model;
} parts;

typedef struct model_parts {
    span vocab, merges;
    json_t *settings; /* all other keys */
} model_parts;

static qp_status end_scan(jsonscan *s) {
    jsonscan_end(s);
    return s->status;
}

static qp_status find_parts(span text, parts *p, qp_error *err) {
    const struct {
        const char *key;
        span *to;
    } keys[] = {
        {"added_tokens", &p->added_tokens},     {"normalizer", &p->normalizer}, {"pre_tokenizer", &p->pre_tokenizer},
        {"post_processor", &p->post_processor}, {"decoder", &p->decoder},       {"model", &p->model}};
    jsonscan s = jsonscan_start(text.at, text.bytes, WHERE, err);
    size_t n = 0;
    span key, value;
    if (!jsonscan_enter(&s, '{')) return end_scan(&s);
    while (jsonscan_member(&s, &n, &key)) {
        span *to = NULL;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            if (span_is(key, keys[i].key)) to = keys[i].to;
        if (jsonscan_skip(&s, &value) && to) *to = value;
    }
    if (s.status == QP_OK && jsonscan_peek(&s)) jsonscan_fail(&s, "text after the end");
    ERR_TRY(end_scan(&s));
    return p->model.at ? QP_OK : err_set(err, QP_BAD_FORMAT, 0, WHERE ": \"model\" is missing");
}

/* Parses one part; NULL where it is absent. */
static qp_status parse_part(span text, json_t **out, qp_error *err) {
    *out = NULL;
    return text.at ? json_parse(out, text.at, text.bytes, WHERE, err) : QP_OK;
}

static qp_status find_model_parts(span text, model_parts *m, qp_error *err) {
    jsonscan s = jsonscan_start(text.at, text.bytes, WHERE ": model", err);
    size_t n = 0;
    span key, value;
    m->settings = json_object();
    if (!m->settings) return err_no_memory(err, 64, WHERE);
    if (!jsonscan_enter(&s, '{')) return end_scan(&s);
    while (jsonscan_member(&s, &n, &key)) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(key.bytes < 63 ? key.bytes : 63), key.at);
        if (!jsonscan_skip(&s, &value)) break;
        if (!strcmp(name, "vocab"))
            m->vocab = value;
        else if (!strcmp(name, "merges"))
            m->merges = value;
        else {
            json_t *setting = NULL;
            s.status = json_parse(&setting, value.at, value.bytes, WHERE ": model", err);
            if (s.status == QP_OK && json_object_set_new(m->settings, name, setting))
                s.status = err_no_memory(err, 64, WHERE);
            if (s.status != QP_OK) break;
        }
    }
    ERR_TRY(end_scan(&s));
    return m->vocab.at ? QP_OK : err_set(err, QP_BAD_FORMAT, 0, WHERE ": model: \"vocab\" is missing");
}

/* ---- vocabularies ---- */

/* {"text": id, ...} */
static qp_status read_vocab(tok *t, span text, qp_error *err) {
    jsonscan s = jsonscan_start(text.at, text.bytes, WHERE ": vocab", err);
    size_t n = 0;
    span key;
    int64_t id;
    if (jsonscan_enter(&s, '{'))
        while (jsonscan_member(&s, &n, &key) && jsonscan_integer(&s, &id)) {
            s.status = vocab_add(&t->words, key, id, err);
            if (s.status != QP_OK) break;
        }
    return end_scan(&s);
}

/* [["text", score], ...] */
static qp_status read_scored(tok *t, span text, double **scores, qp_error *err) {
    jsonscan s = jsonscan_start(text.at, text.bytes, WHERE ": vocab", err);
    size_t n = 0, capacity = 0;
    span piece;
    if (!jsonscan_enter(&s, '[')) return end_scan(&s);
    while (jsonscan_element(&s, &n)) {
        if (n > capacity) {
            capacity = capacity ? capacity * 2 : 1024;
            double *more = mem_resize(*scores, capacity, sizeof **scores);
            if (!more) s.status = err_no_memory(err, capacity * sizeof **scores, WHERE);
            if (!more) break;
            *scores = more;
        }
        size_t k = 0;
        if (!jsonscan_enter(&s, '[') || !jsonscan_element(&s, &k) || !jsonscan_string(&s, &piece)) break;
        s.status = vocab_add(&t->words, piece, (int64_t)n - 1, err);
        if (s.status != QP_OK || !jsonscan_element(&s, &k) || !jsonscan_real(&s, &(*scores)[n - 1])) {
            jsonscan_fail(&s, "a piece has no score");
            break;
        }
        if (jsonscan_element(&s, &k)) jsonscan_fail(&s, "a piece has more than text and score");
    }
    return end_scan(&s);
}

/* ---- BPE ---- */

static qp_status count_merges(span text, size_t *n, qp_error *err) {
    jsonscan s = jsonscan_start(text.at, text.bytes, WHERE ": merges", err);
    span unused;
    *n = 0;
    if (jsonscan_enter(&s, '['))
        while (jsonscan_element(&s, n) && jsonscan_skip(&s, &unused)) {
        }
    return end_scan(&s);
}

/* "left right" or ["left", "right"] */
static qp_status read_merge(jsonscan *s, bpe *b, uint32_t rank, strbuf *left) {
    span first, second;
    if (jsonscan_peek(s) == '"') {
        if (!jsonscan_string(s, &first)) return s->status;
        const char *space = memchr(first.at, ' ', first.bytes);
        if (!space) return jsonscan_fail(s, "a merge is two pieces with a space between"), s->status;
        second = (span){space + 1, first.bytes - (size_t)(space + 1 - first.at)};
        first.bytes = (size_t)(space - first.at);
        if (memchr(second.at, ' ', second.bytes))
            return jsonscan_fail(s, "a merge is two pieces with a space between"), s->status;
        return bpe_add_merge(b, first, second, rank, s->err);
    }
    size_t k = 0;
    if (!jsonscan_enter(s, '[') || !jsonscan_element(s, &k) || !jsonscan_string(s, &first)) return s->status;
    strbuf_clear(left);
    strbuf_add(left, first.at, first.bytes);
    if (left->failed) return err_no_memory(s->err, first.bytes, WHERE);
    if (!jsonscan_element(s, &k) || !jsonscan_string(s, &second))
        return jsonscan_fail(s, "a merge is a pair of pieces"), s->status;
    if (jsonscan_element(s, &k)) return jsonscan_fail(s, "a merge is a pair of pieces"), s->status;
    if (s->status != QP_OK) return s->status;
    return bpe_add_merge(b, (span){left->at, left->bytes}, second, rank, s->err);
}

static qp_status read_merges(tok *t, span text, qp_error *err) {
    jsonscan s = jsonscan_start(text.at, text.bytes, WHERE ": merges", err);
    strbuf left = {0};
    size_t n = 0;
    if (jsonscan_enter(&s, '['))
        while (jsonscan_element(&s, &n)) {
            s.status = read_merge(&s, &t->bpe, (uint32_t)n - 1, &left);
            if (s.status != QP_OK) break;
        }
    strbuf_free(&left);
    return end_scan(&s);
}

static span text_of(const json_t *settings, const char *key) {
    const json_t *value = json_object_get(settings, key);
    return json_is_string(value) ? (span){json_string_value(value), json_string_length(value)} : (span){0};
}

static qp_status check_dropout(const json_t *settings, qp_error *err) {
    double dropout = 0;
    ERR_TRY(json_get_real(settings, "dropout", &dropout, WHERE ": model", err));
    return dropout == 0 ? QP_OK
                        : err_set(err, QP_UNSUPPORTED, 0, WHERE ": model: dropout %g, only none is supported", dropout);
}

static qp_status read_bpe(tok *t, const model_parts *m, qp_error *err) {
    bpe_options options = {.unk = text_of(m->settings, "unk_token"),
                           .prefix = text_of(m->settings, "continuing_subword_prefix"),
                           .suffix = text_of(m->settings, "end_of_word_suffix")};
    size_t n = 0;
    ERR_TRY(check_dropout(m->settings, err));
    ERR_TRY(json_get_bool(m->settings, "fuse_unk", &options.fuse_unk, WHERE ": model", err));
    ERR_TRY(json_get_bool(m->settings, "byte_fallback", &options.byte_fallback, WHERE ": model", err));
    ERR_TRY(json_get_bool(m->settings, "ignore_merges", &options.ignore_merges, WHERE ": model", err));
    ERR_TRY(read_vocab(t, m->vocab, err));
    if (m->merges.at) ERR_TRY(count_merges(m->merges, &n, err));
    ERR_TRY(bpe_start(&t->bpe, &t->words, &options, n, err));
    if (m->merges.at) ERR_TRY(read_merges(t, m->merges, err));
    t->model = TOK_MODEL_BPE;
    return QP_OK;
}

/* ---- the other models ---- */

static qp_status read_unigram(tok *t, const model_parts *m, qp_error *err) {
    int64_t unk = -1;
    bool byte_fallback = false;
    double *scores = NULL;
    qp_status status = read_scored(t, m->vocab, &scores, err);
    if (status == QP_OK)
        status = json_get_int(m->settings, "unk_id", 0, t->words.n_ids - 1, &unk, WHERE ": model", err);
    if (status == QP_OK) status = json_get_bool(m->settings, "byte_fallback", &byte_fallback, WHERE ": model", err);
    if (status != QP_OK) return mem_free(scores), status;
    t->model = TOK_MODEL_UNIGRAM;
    return unigram_open(&t->unigram, &t->words, scores, (int32_t)unk, byte_fallback, NULL, err);
}

static qp_status read_words(tok *t, const model_parts *m, bool is_whole, qp_error *err) {
    const span unk = text_of(m->settings, "unk_token"), prefix = text_of(m->settings, "continuing_subword_prefix");
    int64_t max_characters = 100;
    ERR_TRY(json_get_int(m->settings, "max_input_chars_per_word", 0, INT32_MAX, &max_characters, WHERE ": model", err));
    ERR_TRY(read_vocab(t, m->vocab, err));
    const span marks = prefix.at ? prefix : SPAN("##");
    t->word = (wordmodel){.words = &t->words, .is_whole = is_whole, .max_characters = (size_t)max_characters};
    t->word.unk = vocab_id(&t->words, unk.at ? unk : SPAN("[UNK]"));
    t->word.prefix = mem_copy_text(marks.at, marks.bytes);
    t->word.prefix_bytes = marks.bytes;
    t->model = TOK_MODEL_WORDS;
    return t->word.prefix ? QP_OK : err_no_memory(err, marks.bytes, WHERE);
}

/* Old files do not say their model's type. */
static const char *guess_type(const model_parts *m) {
    if (m->merges.at) return "BPE";
    if (*m->vocab.at == '[') return "Unigram";
    return json_object_get(m->settings, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

static qp_status read_model(tok *t, span text, qp_error *err) {
    model_parts m = {0};
    const char *type = NULL;
    qp_status status = find_model_parts(text, &m, err);
    if (status == QP_OK) status = json_get_text(m.settings, "type", &type, WHERE ": model", err);
    if (status == QP_OK && !type) type = guess_type(&m);
    if (status == QP_OK) {
        if (!strcmp(type, "BPE"))
            status = read_bpe(t, &m, err);
        else if (!strcmp(type, "Unigram"))
            status = read_unigram(t, &m, err);
        else if (!strcmp(type, "WordPiece"))
            status = read_words(t, &m, false, err);
        else if (!strcmp(type, "WordLevel"))
            status = read_words(t, &m, true, err);
        else
            status = err_set(err, QP_UNSUPPORTED, 0, WHERE ": model: type \"%.60s\" is not known", type);
    }
    json_decref(m.settings);
    return status;
}

/* ---- the rest ---- */

static qp_status read_added(tok *t, span text, qp_error *err) {
    json_t *list;
    ERR_TRY(parse_part(text, &list, err));
    qp_status status = QP_OK;
    for (size_t i = 0; status == QP_OK && i < json_array_size(list); i++)
        status = tok_add_token(t, json_array_get(list, i), -1, err);
    json_decref(list);
    return status;
}

static qp_status read_steps(tok *t, const parts *p, qp_error *err) {
    json_t *json[4] = {0};
    const span texts[4] = {p->normalizer, p->pre_tokenizer, p->post_processor, p->decoder};
    qp_status status = QP_OK;
    for (int i = 0; i < 4 && status == QP_OK; i++) status = parse_part(texts[i], &json[i], err);
    if (status == QP_OK) status = norm_parse(&t->norm, json[0], err);
    if (status == QP_OK) status = pretok_parse(&t->pretok, json[1], err);
    if (status == QP_OK) status = post_parse(&t->post, json[2], err);
    if (status == QP_OK) status = decoder_parse(&t->decoder, json[3], err);
    for (int i = 0; i < 4; i++) json_decref(json[i]);
    return status;
}

static qp_status read_all(tok *t, span text, qp_error *err) {
    parts p = {0};
    ERR_TRY(find_parts(text, &p, err));
    ERR_TRY(read_steps(t, &p, err));
    ERR_TRY(read_model(t, p.model, err));
    if (t->model == TOK_MODEL_BPE) {
        pretok_take_bytes(&t->pretok);
        ERR_TRY(bpe_finish(&t->bpe, t->pretok.ends_in_bytes, err));
    }
    return read_added(t, p.added_tokens, err);
}

qp_status tok_new_json(tok **out, const char *text, size_t bytes, const char *config_text, size_t config_bytes,
                       qp_error *err) {
    tok *t;
    *out = NULL;
    ERR_TRY(tok_start(&t, err));
    qp_status status = read_all(t, (span){text, bytes}, err);
    if (status == QP_OK) status = tok_finish(t, config_text, config_bytes, err);
    if (status != QP_OK) return tok_free(t), status;
    *out = t;
    return QP_OK;
}
