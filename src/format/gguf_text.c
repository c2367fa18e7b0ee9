/* gguf_text.c — the tokenizer inside a GGUF file -> the document that other models bring along: a SentencePiece
 * message for "llama" and "t5", a tokenizer.json for "gpt2"; with a tokenizer_config.json and the chat template.
 *
 * Called by the API. Making documents costs a few milliseconds and keeps one reader per kind of tokenizer. The tricky
 * thing: the split pattern of a BPE tokenizer is only named; a name that is not known is refused, for a guess would
 * give other tokens without anybody noticing. */
#include "gguf_meta.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

typedef struct source {
    const gguf *g;
    const gguf_value *tokens, *kinds, *scores;
    const char *where;
} source;

static int64_t kind_of(const source *s, uint64_t id) {
    int64_t kind = NORMAL;
    gguf_int(s->kinds, id, &kind);
    return kind >= NORMAL && kind <= BYTE ? kind : NORMAL;
}

/* ---- SentencePiece: a protobuf message ---- */

static void put_varint(strbuf *b, uint64_t value) {
    for (; value >= 0x80; value >>= 7) strbuf_char(b, (char)(value | 0x80));
    strbuf_char(b, (char)value);
}

static void put_number(strbuf *b, uint32_t field, int64_t value) {
    put_varint(b, field << 3);
    put_varint(b, (uint64_t)value);
}

static void put_bytes(strbuf *b, uint32_t field, const void *at, size_t bytes) {
    put_varint(b, field << 3 | 2);
    put_varint(b, bytes);
    strbuf_add(b, at, bytes);
}

static void put_piece(strbuf *b, strbuf *piece, const source *s, span text, uint64_t id, bool is_bpe) {
    double score = 0;
    float single;
    const int64_t kind = kind_of(s, id);
    gguf_real(s->scores, id, &score);
    single = (float)score;
    strbuf_clear(piece);
    put_bytes(piece, 1, text.at, text.bytes);
    put_varint(piece, 2 << 3 | 5);
    strbuf_add(piece, &single, 4);
    put_number(piece, 3, is_bpe && kind == UNUSED ? CONTROL : kind); /* what pads a vocabulary is no BPE piece */
    put_bytes(b, 1, piece->at, piece->bytes);
}

static int64_t id_of(const source *s, const char *key, int64_t fallback) {
    int64_t id = fallback;
    gguf_int(gguf_find(s->g, key), 0, &id);
    return id;
}

static bool flag_of(const source *s, const char *key, bool fallback) {
    int64_t flag = fallback;
    gguf_int(gguf_find(s->g, key), 0, &flag);
    return flag != 0;
}

static void put_settings(strbuf *b, strbuf *part, const source *s, bool is_bpe) {
    strbuf_clear(part);
    put_number(part, 3, is_bpe ? 2 : 1);
    put_number(part, 35, is_bpe);
    put_number(part, 40, id_of(s, "tokenizer.ggml.unknown_token_id", is_bpe ? 0 : 2));
    put_number(part, 41, id_of(s, "tokenizer.ggml.bos_token_id", is_bpe ? 1 : -1));
    put_number(part, 42, id_of(s, "tokenizer.ggml.eos_token_id", is_bpe ? 2 : 1));
    put_number(part, 43, id_of(s, "tokenizer.ggml.padding_token_id", -1));
    put_bytes(b, 2, part->at, part->bytes);
    strbuf_clear(part);
    const gguf_value *charsmap = gguf_find(s->g, "tokenizer.ggml.precompiled_charsmap");
    if (charsmap && charsmap->is_array && (charsmap->kind == GGUF_U8 || charsmap->kind == GGUF_I8))
        put_bytes(part, 2, charsmap->at, (size_t)charsmap->count);
    put_number(part, 3, flag_of(s, "tokenizer.ggml.add_space_prefix", true));
    put_number(part, 4, flag_of(s, "tokenizer.ggml.remove_extra_whitespaces", false));
    put_number(part, 5, 1);
    put_bytes(b, 3, part->at, part->bytes);
}

static qp_status make_spm(strbuf *out, const source *s, bool is_bpe, qp_error *err) {
    strbuf part = {0};
    const uint8_t *at = NULL;
    uint64_t i = 0;
    for (span text; gguf_next_text(s->tokens, &at, &i, &text);) put_piece(out, &part, s, text, i - 1, is_bpe);
    put_settings(out, &part, s, is_bpe);
    const bool failed = part.failed;
    strbuf_free(&part);
    return failed ? err_no_memory(err, 0, s->where) : strbuf_status(out, err, s->where);
}

/* ---- byte-level BPE: a tokenizer.json ---- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS_AND(digits) CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3 WORDS_AND("\\p{N}{1,3}")
#define QWEN2 WORDS_AND("\\p{N}")
#define O200K                                                                                                          \
    LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS                                   \
               "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL
#define TEKKEN LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL

static const struct splitter {
    const char *name, *pattern;
    bool single_digits; /* each digit by itself, before the pattern */
    bool whole_words;   /* a word of the vocabulary needs no merges */
    bool nfc;
} splitters[] = {
    {"gpt-2", GPT2, false, false, false},         {"default", GPT2, false, false, false},
    {"mpt", GPT2, false, false, false},           {"olmo", GPT2, false, false, false},
    {"jais", GPT2, false, false, false},          {"phi-2", GPT2, false, false, false},
    {"starcoder", GPT2, true, false, false},      {"refact", GPT2, true, false, false},
    {"command-r", GPT2, true, false, false},      {"smollm", GPT2, true, false, false},
    {"codeshell", GPT2, true, false, false},      {"exaone", GPT2, true, false, false},
    {"minerva-7b", GPT2, true, false, false},     {"llama-bpe", LLAMA3, false, true, false},
    {"llama3", LLAMA3, false, true, false},       {"llama-v3", LLAMA3, false, true, false},
    {"dbrx", LLAMA3, false, false, false},        {"smaug-bpe", LLAMA3, false, false, false},
    {"chatglm-bpe", LLAMA3, false, false, false}, {"qwen2", QWEN2, false, false, true},
    {"stablelm2", QWEN2, false, false, false},    {"deepseek-r1-qwen", QWEN2, false, false, false},
    {"gpt-4o", O200K, false, true, false},        {"tekken", TEKKEN, false, true, false},
};

static qp_status find_splitter(const struct splitter **out, const source *s, qp_error *err) {
    span name = SPAN("default");
    gguf_text(gguf_find(s->g, "tokenizer.ggml.pre"), &name);
    for (size_t i = 0; i < sizeof splitters / sizeof *splitters; i++) {
        *out = &splitters[i];
        if (span_is(name, splitters[i].name)) return QP_OK;
    }
    return err_set(err, QP_UNSUPPORTED, 0, "%s: \"tokenizer.ggml.pre\" is \"%.*s\", a split pattern that is not known",
                   s->where, (int)(name.bytes > 40 ? 40 : name.bytes), name.at);
}

/* All tokens, also those that are added: one that is not here would get the next free id instead of its own. */
static void add_vocab(strbuf *out, const source *s) {
    const uint8_t *at = NULL;
    uint64_t i = 0;
    strbuf_text(out, "\"vocab\": {");
    for (span text; gguf_next_text(s->tokens, &at, &i, &text);) {
        if (i > 1) strbuf_text(out, ", ");
        strbuf_json(out, text.at, text.bytes);
        strbuf_format(out, ": %llu", (unsigned long long)(i - 1));
    }
    strbuf_text(out, "}");
}

static void add_merges(strbuf *out, const source *s) {
    const gguf_value *merges = gguf_find(s->g, "tokenizer.ggml.merges");
    const uint8_t *at = NULL;
    uint64_t i = 0;
    strbuf_text(out, ", \"merges\": [");
    for (span text; gguf_next_text(merges, &at, &i, &text);) {
        if (i > 1) strbuf_text(out, ", ");
        strbuf_json(out, text.at, text.bytes);
    }
    strbuf_text(out, "]");
}

static void add_added(strbuf *out, const source *s) {
    const uint8_t *at = NULL;
    uint64_t i = 0;
    bool comma = false;
    strbuf_text(out, "\"added_tokens\": [");
    for (span text; gguf_next_text(s->tokens, &at, &i, &text);) {
        const int64_t kind = kind_of(s, i - 1);
        if (kind != CONTROL && kind != USER) continue;
        strbuf_format(out, "%s{\"id\": %llu, \"content\": ", comma ? ",\n " : "", (unsigned long long)(i - 1));
        comma = true;
        strbuf_json(out, text.at, text.bytes);
        strbuf_format(out,
                      ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                      "\"special\": %s}",
                      kind == CONTROL ? "true" : "false");
    }
    strbuf_text(out, "]");
}

static void add_pre_tokenizer(strbuf *out, const struct splitter *p) {
    strbuf_text(out, ",\n\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [");
    if (p->single_digits) strbuf_text(out, "{\"type\": \"Digits\", \"individual_digits\": true}, ");
    strbuf_text(out, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    strbuf_json(out, p->pattern, strlen(p->pattern));
    strbuf_text(out, "}, \"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\", "
                     "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}]}");
}

/* The id-th token; at == NULL: none. */
static span token_at(const source *s, int64_t id) {
    const uint8_t *at = NULL;
    uint64_t i = 0;
    span text = {0};
    if (id < 0 || !s->tokens || (uint64_t)id >= s->tokens->count) return text;
    while (gguf_next_text(s->tokens, &at, &i, &text) && i <= (uint64_t)id) {
    }
    return text;
}

static void add_special(strbuf *out, const source *s, int64_t id) {
    const span text = token_at(s, id);
    strbuf_text(out, "{\"SpecialToken\": {\"id\": ");
    strbuf_json(out, text.at, text.bytes);
    strbuf_text(out, ", \"type_id\": 0}}");
}

/* Begin and end tokens around a text, where the file asks for them. */
static void add_post(strbuf *out, const source *s) {
    const int64_t ids[2] = {id_of(s, "tokenizer.ggml.bos_token_id", -1), id_of(s, "tokenizer.ggml.eos_token_id", -1)};
    const bool adds[2] = {flag_of(s, "tokenizer.ggml.add_bos_token", false) && token_at(s, ids[0]).at,
                          flag_of(s, "tokenizer.ggml.add_eos_token", false) && token_at(s, ids[1]).at};
    if (!adds[0] && !adds[1]) return;
    strbuf_text(out, ",\n\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [");
    if (adds[0]) add_special(out, s, ids[0]);
    strbuf_text(out, adds[0] ? ", {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
                             : "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}");
    if (adds[1]) {
        strbuf_text(out, ", ");
        add_special(out, s, ids[1]);
    }
    strbuf_text(out, "], \"pair\": [], \"special_tokens\": {");
    for (int i = 0, n = 0; i < 2; i++) {
        if (!adds[i] || (i && adds[0] && ids[0] == ids[1])) continue;
        const span text = token_at(s, ids[i]);
        if (n++) strbuf_text(out, ", ");
        strbuf_json(out, text.at, text.bytes);
        strbuf_text(out, ": {\"id\": ");
        strbuf_json(out, text.at, text.bytes);
        strbuf_format(out, ", \"ids\": [%lld], \"tokens\": [", (long long)ids[i]);
        strbuf_json(out, text.at, text.bytes);
        strbuf_text(out, "]}");
    }
    strbuf_text(out, "}}");
}

static qp_status make_bpe(strbuf *out, const source *s, qp_error *err) {
    const struct splitter *p;
    ERR_TRY(find_splitter(&p, s, err));
    strbuf_text(out, "{\"version\": \"1.0\", ");
    add_added(out, s);
    if (p->nfc) strbuf_text(out, ",\n\"normalizer\": {\"type\": \"NFC\"}");
    add_pre_tokenizer(out, p);
    add_post(out, s);
    strbuf_text(out, ",\n\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
                     "\"use_regex\": true},\n\"model\": {\"type\": \"BPE\", \"fuse_unk\": false, "
                     "\"byte_fallback\": false, ");
    strbuf_format(out, "\"ignore_merges\": %s, ", p->whole_words ? "true" : "false");
    add_vocab(out, s);
    add_merges(out, s);
    strbuf_text(out, "}}\n");
    return strbuf_status(out, err, s->where);
}

/* ---- tokenizer_config.json ---- */

static void make_config(strbuf *out, const source *s, bool adds_bos) {
    static const char *const names[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token"},
                                           {"tokenizer.ggml.eos_token_id", "eos_token"},
                                           {"tokenizer.ggml.unknown_token_id", "unk_token"},
                                           {"tokenizer.ggml.padding_token_id", "pad_token"}};
    strbuf_format(out, "{\"add_bos_token\": %s",
                  flag_of(s, "tokenizer.ggml.add_bos_token", adds_bos) ? "true" : "false");
    strbuf_format(out, ", \"add_eos_token\": %s", flag_of(s, "tokenizer.ggml.add_eos_token", false) ? "true" : "false");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const span text = token_at(s, id_of(s, names[i][0], -1));
        if (!text.at) continue;
        strbuf_format(out, ", \"%s\": ", names[i][1]);
        strbuf_json(out, text.at, text.bytes);
    }
    span template;
    if (gguf_text(gguf_find(s->g, "tokenizer.chat_template"), &template)) {
        strbuf_text(out, ", \"chat_template\": ");
        strbuf_json(out, template.at, template.bytes);
    }
    strbuf_text(out, "}\n");
}

/* ---- front ---- */

static qp_status read_all(gguf_tokenizer *out, const source *s, span model, qp_error *err) {
    const bool is_llama = span_is(model, "llama");
    out->is_spm = is_llama || span_is(model, "t5");
    make_config(&out->config, s, is_llama);
    ERR_TRY(strbuf_status(&out->config, err, s->where));
    if (out->is_spm) return make_spm(&out->model, s, is_llama, err);
    if (span_is(model, "gpt2")) return make_bpe(&out->model, s, err);
    return err_set(err, QP_UNSUPPORTED, 0, "%s: \"tokenizer.ggml.model\" is \"%.*s\", allowed are llama, gpt2, t5",
                   s->where, (int)(model.bytes > 40 ? 40 : model.bytes), model.at);
}

qp_status gguf_tokenizer_read(gguf_tokenizer *out, const gguf *g, const char *where, qp_error *err) {
    *out = (gguf_tokenizer){0};
    const source s = {.g = g,
                      .tokens = gguf_find(g, "tokenizer.ggml.tokens"),
                      .kinds = gguf_find(g, "tokenizer.ggml.token_type"),
                      .scores = gguf_find(g, "tokenizer.ggml.scores"),
                      .where = where};
    span model;
    if (!s.tokens || !gguf_text(gguf_find(g, "tokenizer.ggml.model"), &model) || span_is(model, "no_vocab"))
        return err_set(err, QP_NO_FILE, 0, "%s: no tokenizer inside", where);
    if (!s.tokens->is_array || s.tokens->kind != GGUF_STRING)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"tokenizer.ggml.tokens\" is no list of strings", where);
    const qp_status status = read_all(out, &s, model, err);
    if (status != QP_OK) gguf_tokenizer_free(out);
    return status;
}

void gguf_tokenizer_free(gguf_tokenizer *t) {
    strbuf_free(&t->model);
    strbuf_free(&t->config);
}
