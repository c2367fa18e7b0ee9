/* tok_tiktoken.c — *.tiktoken files to a tokenizer: lines of "base64-of-bytes rank", and a split pattern by name.
 *
 * The file has no merges: two neighbours join if their bytes together are a token, lowest rank first. So every way to
 * cut a token into two others is a merge with the token's rank. The pattern stands nowhere in the format; it comes from
 * the caller, from "split_pattern" in tokenizer_config.json, or from the file's name. */
#include "tok_impl.h"
#include "bytealpha.h"
#include "base/file.h"

#define WHERE "tiktoken file"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS_AND(digits) CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED "[^\\r\\n\\p{L}\\p{N}]?"
#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *name, *pattern;
} patterns[] = {
    {"gpt2", GPT2_PATTERN},
    {"r50k_base", GPT2_PATTERN},
    {"p50k_base", GPT2_PATTERN},
    {"cl100k_base", WORDS_AND("\\p{N}{1,3}")},
    {"llama3", WORDS_AND("\\p{N}{1,3}")},
    {"qwen", WORDS_AND("\\p{N}")},
    {"o200k_base", CASED UPPER "*" LOWER "+" CONTRACTIONS "?|" CASED UPPER "+" LOWER "*" CONTRACTIONS
                               "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL},
};

/* ---- the lines ---- */

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool add_base64(strbuf *out, span text) {
    uint32_t bits = 0;
    int n = 0;
    while (text.bytes && text.at[text.bytes - 1] == '=') text.bytes--;
    for (size_t i = 0; i < text.bytes; i++) {
        const int digit = digit_of(text.at[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        if ((n += 6) >= 8) strbuf_char(out, (char)(bits >> (n -= 8)));
    }
    return out->bytes > 0;
}

static bool read_number(span text, int64_t *out) {
    *out = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || *out > VOCAB_MAX_ID) return false;
        *out = *out * 10 + (text.at[i] - '0');
    }
    return text.bytes > 0;
}

static qp_status add_line(tok *t, span line, size_t number, strbuf *raw, strbuf *piece, qp_error *err) {
    const char *space = memchr(line.at, ' ', line.bytes);
    int64_t rank;
    strbuf_clear(raw);
    strbuf_clear(piece);
    const size_t left = space ? (size_t)(space - line.at) : 0;
    if (!space || !add_base64(raw, (span){line.at, left}) ||
        !read_number((span){space + 1, line.bytes - left - 1}, &rank))
        return err_set(err, QP_BAD_FORMAT, (uint64_t)number, WHERE ": line %zu is not base64, a space and a number",
                       number);
    bytealpha_encode(piece, (span){raw->at, raw->bytes});
    ERR_TRY(strbuf_status(piece, err, WHERE));
    return vocab_add(&t->words, (span){piece->at, piece->bytes}, rank, err);
}

static qp_status read_lines(tok *t, span text, qp_error *err) {
    strbuf raw = {0}, piece = {0};
    qp_status status = QP_OK;
    size_t number = 0;
    while (text.bytes && status == QP_OK) {
        const char *end = memchr(text.at, '\n', text.bytes);
        const size_t n = end ? (size_t)(end - text.at) : text.bytes;
        span line = {text.at, n};
        if (line.bytes && line.at[line.bytes - 1] == '\r') line.bytes--;
        number++;
        if (line.bytes) status = add_line(t, line, number, &raw, &piece, err);
        text.at += n + (end != NULL);
        text.bytes -= n + (end != NULL);
    }
    strbuf_free(&raw);
    strbuf_free(&piece);
    if (status == QP_OK && !t->words.n_ids) return err_set(err, QP_BAD_FORMAT, 0, WHERE ": no tokens");
    return status;
}

/* ---- merges ---- */

/* Calls `bpe_add_pair` for all cuts of all tokens, or only counts them. */
static qp_status add_cuts(tok *t, bool counts, size_t *n, qp_error *err) {
    for (const vocab_entry *e = NULL; (e = vocab_next(&t->words, e));) {
        const span text = {e->text, e->bytes};
        const int32_t id = e->id;
        if (vocab_piece(&t->words, id).at != text.at) continue; /* the id went to a later line */
        for (size_t at = 1; at < text.bytes; at++) {
            if (((unsigned char)text.at[at] & 0xC0) == 0x80) continue;
            const int32_t left = vocab_id(&t->words, (span){text.at, at});
            const int32_t right = left < 0 ? -1 : vocab_id(&t->words, (span){text.at + at, text.bytes - at});
            if (right < 0) continue;
            ++*n;
            if (!counts) ERR_TRY(bpe_add_pair(&t->bpe, left, right, id, (uint32_t)id, err));
        }
    }
    return QP_OK;
}

static qp_status make_bpe(tok *t, qp_error *err) {
    const bpe_options options = {.ignore_merges = true};
    size_t n = 0, again = 0;
    ERR_TRY(add_cuts(t, true, &n, err));
    ERR_TRY(bpe_start(&t->bpe, &t->words, &options, n, err));
    t->model = TOK_MODEL_BPE;
    ERR_TRY(add_cuts(t, false, &again, err));
    return bpe_finish(&t->bpe, true, err);
}

/* ---- the pattern ---- */

static qp_status add_pattern(tok *t, const char *pattern, qp_error *err) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (!strcmp(pattern, patterns[i].name)) pattern = patterns[i].pattern;
    bool is_name = true; /* a lone word can only be a name that is not known */
    for (const char *c = pattern; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_' ||
              *c == '-'))
            is_name = false;
    if (is_name)
        return err_set(err, QP_UNSUPPORTED, 0,
                       WHERE ": split pattern \"%.80s\" is not known; known are gpt2, r50k_base, p50k_base, "
                             "cl100k_base, o200k_base, llama3, qwen, or a regular expression",
                       pattern);
    return pretok_add_split(&t->pretok, span_of(pattern), PRETOK_ISOLATED, false, err);
}

/* "split_pattern" of the config, kept in the tokenizer's arena; NULL: not given. */
static qp_status pattern_of_config(tok *t, const char *config, size_t bytes, const char **out, qp_error *err) {
    json_t *json = NULL;
    const char *text = NULL;
    if (!config) return QP_OK;
    ERR_TRY(json_parse(&json, config, bytes, "tokenizer_config.json", err));
    const qp_status status = json_get_text(json, "split_pattern", &text, "tokenizer_config.json", err);
    if (text) *out = arena_text(&t->texts, text, strlen(text));
    const bool failed = text && !*out;
    json_decref(json);
    return failed ? err_no_memory(err, 64, WHERE) : status;
}

static qp_status make_all(tok *t, span text, const char *pattern, const char *config, size_t config_bytes,
                          qp_error *err) {
    const char *configured = NULL;
    t->keeps_config_ids = true;
    ERR_TRY(pattern_of_config(t, config, config_bytes, &configured, err));
    if (configured) pattern = configured;
    if (!pattern)
        return err_set(err, QP_UNSUPPORTED, 0,
                       WHERE ": its split pattern is not known; name it as \"split_pattern\" in tokenizer_config.json");
    ERR_TRY(read_lines(t, text, err));
    ERR_TRY(add_pattern(t, pattern, err));
    t->pretok.ends_in_bytes = true;
    ERR_TRY(make_bpe(t, err));
    ERR_TRY(decoder_add(&t->decoder, (decoder_step){.kind = DECODER_BYTE_LEVEL}, err));
    return tok_finish(t, config, config_bytes, err);
}

qp_status tok_new_tiktoken(tok **out, const char *text, size_t bytes, const char *pattern, const char *config_text,
                           size_t config_bytes, qp_error *err) {
    tok *t;
    *out = NULL;
    ERR_TRY(tok_start(&t, err));
    const qp_status status = make_all(t, (span){text, bytes}, pattern, config_text, config_bytes, err);
    if (status != QP_OK) return tok_free(t), status;
    *out = t;
    return QP_OK;
}

const char *tok_pattern_of_path(const char *path) {
    const char *slash = strrchr(path, '/'), *const name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (!strncmp(name, patterns[i].name, strlen(patterns[i].name))) return patterns[i].name;
    return NULL;
}
