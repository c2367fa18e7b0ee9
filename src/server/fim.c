/* fim.c — fill in the middle.
 *
 * Called by text_prompt.c and llamacpp.c. A row for each family; the first one whose tokens are all in the vocabulary
 * is the model's. */
#include "fim.h"
#include "base/mem.h"

typedef struct fim_row {
    const char *prefix, *suffix, *middle; /* "": no token there */
    bool suffix_first;
} fim_row;

static const fim_row rows[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", false},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", false},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", false},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", false},
    {"▁<PRE>", "▁<SUF>", "▁<MID>", false},
    {"[PREFIX]", "[SUFFIX]", "", true},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", false},
};

static bool has(const qp_tokenizer *t, const char *piece) { return !*piece || qp_token_id(t, piece) >= 0; }

static const fim_row *find_row(const qp_tokenizer *t) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (has(t, rows[i].prefix) && has(t, rows[i].suffix) && has(t, rows[i].middle)) return &rows[i];
    return NULL;
}

static void add_marker(int32_t *ids, size_t *n, const qp_tokenizer *t, const char *piece) {
    if (*piece) ids[(*n)++] = qp_token_id(t, piece);
}

static void add(int32_t *ids, size_t *n, const int32_t *more, size_t count) {
    if (count) memcpy(ids + *n, more, count * sizeof *ids);
    *n += count;
}

/* What the tokenizer puts before any text, the bos token: at most one id. */
static size_t opening(const qp_tokenizer *t, int32_t *id) {
    int32_t *ids;
    size_t n;
    if (qp_tokenize(t, "", 0, 0, &ids, &n, NULL) != QP_OK) return 0;
    if (n) *id = ids[0];
    qp_free(ids);
    return n ? 1 : 0;
}

bool fim_make(int32_t **ids, size_t *n_ids, const qp_tokenizer *tokenizer, span prefix, span suffix, const char *param,
              refusal *why) {
    enum { PLAIN = QP_TOKENIZE_NO_SPECIAL | QP_TOKENIZE_PLAIN_SPECIAL };
    const fim_row *row = find_row(tokenizer);
    int32_t *before = NULL, *after = NULL, first = 0;
    size_t n_before = 0, n_after = 0, n = 0;
    qp_error err = {0};
    if (!row)
        return refuse(why, FAULT_PARAMETER, param, "%s: the model has no tokens for filling in the middle", param);
    qp_status status = qp_tokenize(tokenizer, prefix.at, prefix.bytes, PLAIN, &before, &n_before, &err);
    if (status == QP_OK) status = qp_tokenize(tokenizer, suffix.at, suffix.bytes, PLAIN, &after, &n_after, &err);
    int32_t *made = status == QP_OK ? mem_array(n_before + n_after + 4, sizeof *made) : NULL;
    if (made) {
        if (opening(tokenizer, &first)) made[n++] = first;
        if (row->suffix_first) add_marker(made, &n, tokenizer, row->suffix), add(made, &n, after, n_after);
        add_marker(made, &n, tokenizer, row->prefix);
        add(made, &n, before, n_before);
        if (!row->suffix_first) add_marker(made, &n, tokenizer, row->suffix), add(made, &n, after, n_after);
        add_marker(made, &n, tokenizer, row->middle);
    }
    qp_free(before);
    qp_free(after);
    *ids = made;
    *n_ids = n;
    if (status != QP_OK) return refuse_status(why, status, param, &err);
    return made || refuse_memory(why, param);
}
