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
    size_t n_vocab, n_merges; /* strings in them */
    json_t *settings;         /* all other keys */
} model_parts;

static qp_status end_scan(jsonscan *s) {
    jsonscan_end(s);
    return s->status;
}

static bool keep_setting(jsonscan *s, model_parts *m, span key, span value) {
    char name[64];
    json_t *setting = NULL;
    snprintf(name, sizeof name, "%.*s", (int)(key.bytes < 63 ? key.bytes : 63), key.at);
    s->status = json_parse(&setting, value.at, value.bytes, WHERE ": model", s->err);
    if (s->status == QP_OK && json_object_set_new(m->settings, name, setting))
        s->status = err_no_memory(s->err, 64, WHERE);
    return s->status == QP_OK;
}

static bool find_model_parts(jsonscan *s, model_parts *m) {
    size_t n = 0;
    span key, value;
    json_decref(m->settings); /* of an earlier "model": the last one counts */
    *m = (model_parts){.settings = json_object()};
    if (!m->settings) s->status = err_no_memory(s->err, 64, WHERE);
    if (!m->settings || !jsonscan_enter(s, '{')) return false;
    while (jsonscan_member(s, &n, &key)) {
        const bool is_vocab = span_is(key, "vocab"), is_merges = span_is(key, "merges");
        s->n_skipped = 0;
        if (!jsonscan_skip(s, &value)) return false;
        if (is_vocab)
            m->vocab = value, m->n_vocab = s->n_skipped;
        else if (is_merges)
            m->merges = value, m->n_merges = s->n_skipped;
        else if (!keep_setting(s, m, key, value))
            return false;
    }
    return s->status == QP_OK;
}

static qp_status find_parts(span text, parts *p, model_parts *m, qp_error *err) {
    const struct {
        const char *key;
        span *to;
    } keys[] = {{"added_tokens", &p->added_tokens},
                {"normalizer", &p->normalizer},
                {"pre_tokenizer", &p->pre_tokenizer},
                {"post_processor", &p->post_processor},
                {"decoder", &p->decoder}};
    jsonscan s = jsonscan_start(text.at, text.bytes, WHERE, err);
    size_t n = 0;
    span key, value;
    if (!jsonscan_enter(&s, '{')) return end_scan(&s);
    while (jsonscan_member(&s, &n, &key)) {
        span *to = NULL;
        if (span_is(key, "model")) {
            if (!find_model_parts(&s, m)) break;
            continue;
        }
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            if (span_is(key, keys[i].key)) to = keys[i].to;
        if (jsonscan_skip(&s, &value) && to) *to = value;
    }
    if (s.status == QP_OK && jsonscan_peek(&s)) jsonscan_fail(&s, "text after the end");
    ERR_TRY(end_scan(&s));
    if (!m->settings) return err_set(err, QP_BAD_FORMAT, 0, WHERE ": \"model\" is missing");
    return m->vocab.at ? QP_OK : err_set(err, QP_BAD_FORMAT, 0, WHERE ": model: \"vocab\" is missing");
}

/* Parses one part; NULL where it is absent. */
static qp_status parse_part(span text, json_t **out, qp_error *err) {
    *out = NULL;
    return text.at ? json_parse(out, text.at, text.bytes, WHERE, err) : QP_OK;
}

/* ---- vocabularies ---- */

/* {"text": id, ...} */
static qp_status read_vocab(tok *t, const model_parts *m, qp_error *err) {
    jsonscan s = jsonscan_start(m->vocab.at, m->vocab.bytes, WHERE ": vocab", err);
    size_t n = 0;
    span key;
    int64_t id;
    ERR_TRY(vocab_expect(&t->words, m->n_vocab, err));
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

/* Merges on their way into the model. Their texts are the file's own; those with escapes are copied. */
typedef struct batch {
    bpe_pair pairs[BPE_BATCH];
    size_t n;
    uint32_t rank; /* of the first */
    arena copies;
} batch;

/* About how many there are: a merge is one string or a pair of them. */
static size_t guess_merges(const model_parts *m) {
    const char *text = m->merges.at, *quote = text ? memchr(text, '"', m->merges.bytes) : NULL;
    return quote && memchr(text + 1, '[', (size_t)(quote - text)) ? m->n_merges / 2 : m->n_merges;
}

static qp_status flush(batch *p, bpe *b, qp_error *err) {
    const qp_status status = p->n ? bpe_add_merges(b, p->pairs, p->n, p->rank, err) : QP_OK;
    p->rank += (uint32_t)p->n;
    p->n = 0;
    arena_reset(&p->copies);
    return status;
}

/* Keeps a string until the batch is flushed. */
static bool keep(jsonscan *s, batch *p, span *text) {
    if (text->at != s->unescaped.at) return true;
    text->at = arena_text(&p->copies, text->at, text->bytes);
    if (!text->at) s->status = err_no_memory(s->err, text->bytes, WHERE);
    return text->at;
}

/* "left right" */
static bool read_merge_text(jsonscan *s, batch *p) {
    span text;
    if (!jsonscan_string(s, &text) || !keep(s, p, &text)) return false;
    const char *space = memchr(text.at, ' ', text.bytes);
    const size_t left = space ? (size_t)(space - text.at) : 0;
    const span right = {text.at + left + 1, space ? text.bytes - left - 1 : 0};
    if (!space || memchr(right.at, ' ', right.bytes))
        return jsonscan_fail(s, "a merge is two pieces with a space between");
    p->pairs[p->n++] = (bpe_pair){{text.at, left}, right};
    return true;
}

/* ["left", "right"] */
static bool read_merge_pair(jsonscan *s, batch *p) {
    bpe_pair *pair = &p->pairs[p->n++];
    size_t k = 0;
    if (!jsonscan_enter(s, '[') || !jsonscan_element(s, &k) || !jsonscan_string(s, &pair->left) ||
        !keep(s, p, &pair->left) || !jsonscan_element(s, &k) || !jsonscan_string(s, &pair->right) ||
        !keep(s, p, &pair->right) || jsonscan_element(s, &k))
        return jsonscan_fail(s, "a merge is a pair of pieces");
    return s->status == QP_OK;
}

static qp_status read_merges(tok *t, span text, qp_error *err) {
    jsonscan s = jsonscan_start(text.at, text.bytes, WHERE ": merges", err);
    batch p = {0};
    size_t n = 0;
    if (jsonscan_enter(&s, '['))
        while (s.status == QP_OK && jsonscan_element(&s, &n)) {
            if (!(jsonscan_peek(&s) == '"' ? read_merge_text(&s, &p) : read_merge_pair(&s, &p))) break;
            if (p.n == BPE_BATCH) s.status = flush(&p, &t->bpe, err);
        }
    if (s.status == QP_OK) s.status = flush(&p, &t->bpe, err);
    arena_free(&p.copies);
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
    ERR_TRY(check_dropout(m->settings, err));
    ERR_TRY(json_get_bool(m->settings, "fuse_unk", &options.fuse_unk, WHERE ": model", err));
    ERR_TRY(json_get_bool(m->settings, "byte_fallback", &options.byte_fallback, WHERE ": model", err));
    ERR_TRY(json_get_bool(m->settings, "ignore_merges", &options.ignore_merges, WHERE ": model", err));
    ERR_TRY(read_vocab(t, m, err));
    ERR_TRY(bpe_start(&t->bpe, &t->words, &options, guess_merges(m), err));
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
    ERR_TRY(read_vocab(t, m, err));
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

static qp_status read_model(tok *t, const model_parts *m, qp_error *err) {
    const char *type = NULL;
    ERR_TRY(json_get_text(m->settings, "type", &type, WHERE ": model", err));
    if (!type) type = guess_type(m);
    if (!strcmp(type, "BPE")) return read_bpe(t, m, err);
    if (!strcmp(type, "Unigram")) return read_unigram(t, m, err);
    if (!strcmp(type, "WordPiece")) return read_words(t, m, false, err);
    if (!strcmp(type, "WordLevel")) return read_words(t, m, true, err);
    return err_set(err, QP_UNSUPPORTED, 0, WHERE ": model: type \"%.60s\" is not known", type);
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

static qp_status read_all(tok *t, const parts *p, const model_parts *m, qp_error *err) {
    ERR_TRY(read_steps(t, p, err));
    ERR_TRY(read_model(t, m, err));
    if (t->model == TOK_MODEL_BPE) {
        pretok_take_bytes(&t->pretok);
        ERR_TRY(bpe_finish(&t->bpe, t->pretok.ends_in_bytes, err));
    }
    return read_added(t, p->added_tokens, err);
}

qp_status tok_new_json(tok **out, const char *text, size_t bytes, const char *config_text, size_t config_bytes,
                       qp_error *err) {
    tok *t = NULL;
    parts p = {0};
    model_parts m = {0};
    *out = NULL;
    qp_status status = find_parts((span){text, bytes}, &p, &m, err);
    if (status == QP_OK) status = tok_start(&t, err);
    if (status == QP_OK) status = read_all(t, &p, &m, err);
    json_decref(m.settings);
    if (status == QP_OK) status = tok_finish(t, config_text, config_bytes, err);
    if (status != QP_OK) return tok_free(t), status;
    *out = t;
    return QP_OK;
}
