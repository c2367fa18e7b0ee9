/* encode.c — text to ids: added tokens, normaliser, pre-tokeniser, model, post-processor, in the reference's order.
 *
 * All that a call needs lies in one struct on its stack and the heap behind it; the tokenizer itself is only read, so
 * threads may share it. Words stream from the pre-tokeniser into the model; common ones come from a cache. */
#include "tok_impl.h"
#include "uni.h"
#include "wordcache.h"
#include "base/utf8.h"

enum { CACHE_FROM_BYTES = 256, CACHE_LIMIT = 1 << 15, MAX_TEXT = 1 << 30 };

typedef struct call {
    const tok *t;
    bool skips_special; /* special tokens in the text are plain characters */
    idvec ids;
    pretok_scratch pretok;
    norm_scratch norm;
    strbuf spm;
    bpe_scratch bpe;
    unigram_scratch unigram;
    strbuf word;
    wordcache cache;
} call;

/* ---- the model ---- */

static qp_status encode_part(call *c, span word, qp_error *err) {
    const tok *t = c->t;
    switch (t->model) {
    case TOK_MODEL_BPE:
        return bpe_encode(&t->bpe, &c->bpe, word, &c->ids, err);
    case TOK_MODEL_UNIGRAM:
        return unigram_encode(&t->unigram, &c->unigram, word, &c->ids, err);
    case TOK_MODEL_WORDS:
        return wordmodel_encode(&t->word, &c->word, word, &c->ids, err);
    case TOK_MODEL_NONE:
        break;
    }
    return err_set(err, QP_INTERNAL, 0, "tokenizer without a model");
}

static qp_status encode_cached(call *c, span word, qp_error *err) {
    if (!c->cache.n_lines || !wordcache_takes(word)) return encode_part(c, word, err);
    const wordcache_key key = wordcache_key_of(word);
    if (wordcache_get(&c->cache, &key, &c->ids)) return QP_OK;
    const size_t before = c->ids.n;
    ERR_TRY(encode_part(c, word, err));
    if (!c->ids.failed) wordcache_put(&c->cache, &key, c->ids.at + before, c->ids.n - before);
    return QP_OK;
}

/* A word of the pre-tokeniser; BPE over whole texts cuts it where no piece can cross. */
static qp_status encode_word(void *context, pretok_piece word, qp_error *err) {
    call *c = context;
    const bpe *b = &c->t->bpe;
    span rest = {word.at, word.bytes};
    if (c->t->model != TOK_MODEL_BPE || !b->may_split) return encode_cached(c, rest, err);
    if (b->ignore_merges && rest.bytes <= b->words->longest && vocab_id(b->words, rest) >= 0)
        return encode_cached(c, rest, err);
    while (rest.bytes) {
        const size_t n = bpe_cut(b, rest);
        ERR_TRY(encode_cached(c, (span){rest.at, n}, err));
        rest.at += n;
        rest.bytes -= n;
    }
    return QP_OK;
}

/* ---- the text ---- */

static qp_status normalize(call *c, span text, span *out, bool *front_moved, qp_error *err) {
    if (!c->t->has_spm) return norm_run(&c->t->norm, &c->norm, text, out, front_moved, err);
    strbuf_clear(&c->spm);
    spmnorm_apply(&c->t->spm, text, &c->spm);
    *out = (span){c->spm.at ? c->spm.at : "", c->spm.bytes};
    *front_moved = false;
    return strbuf_status(&c->spm, err, "normaliser");
}

/* Text between added tokens; `offset`: where it begins in the whole text. */
static qp_status encode_plain(call *c, span text, size_t offset, qp_error *err) {
    bool front_moved;
    span now;
    ERR_TRY(normalize(c, text, &now, &front_moved, err));
    const bool is_first = offset == 0 && !front_moved;
    added_match m;
    size_t done = 0;
    for (size_t from = 0; added_next(&c->t->added, true, c->skips_special, now, &from, done, &m); done = m.end) {
        if (m.start > done)
            ERR_TRY(pretok_run(&c->t->pretok, &c->pretok,
                               (pretok_piece){now.at + done, m.start - done, is_first && done == 0}, encode_word, c,
                               err));
        idvec_add(&c->ids, m.token->id);
    }
    if (done >= now.bytes) return QP_OK;
    return pretok_run(&c->t->pretok, &c->pretok, (pretok_piece){now.at + done, now.bytes - done, is_first && done == 0},
                      encode_word, c, err);
}

static qp_status encode_text(call *c, span text, qp_error *err) {
    added_match m;
    size_t done = 0;
    for (size_t from = 0; added_next(&c->t->added, false, c->skips_special, text, &from, done, &m); done = m.end) {
        if (m.start > done) ERR_TRY(encode_plain(c, (span){text.at + done, m.start - done}, done, err));
        idvec_add(&c->ids, m.token->id);
    }
    return done < text.bytes ? encode_plain(c, (span){text.at + done, text.bytes - done}, done, err) : QP_OK;
}

static void free_call(call *c) {
    pretok_scratch_free(&c->pretok);
    norm_scratch_free(&c->norm);
    strbuf_free(&c->spm);
    bpe_scratch_free(&c->bpe);
    unigram_scratch_free(&c->unigram);
    strbuf_free(&c->word);
    wordcache_free(&c->cache);
}

/* Whether the text is UTF-8; ASCII goes by eight bytes. */
static bool is_valid(span text) {
    size_t at = 0;
    while (at < text.bytes) {
        uint64_t eight;
        uint32_t unused;
        if (text.bytes - at >= 8 && (memcpy(&eight, text.at + at, 8), !(eight & 0x8080808080808080ull))) {
            at += 8;
            continue;
        }
        const int n = utf8_decode(text.at + at, text.bytes - at, &unused);
        if (!n) return false;
        at += (size_t)n;
    }
    return true;
}

static qp_status encode_valid(const tok *t, span text, unsigned flags, int32_t **ids, size_t *count, qp_error *err) {
    call c = {.t = t, .skips_special = flags & QP_TOKENIZE_PLAIN_SPECIAL};
    if (text.bytes >= CACHE_FROM_BYTES) wordcache_start(&c.cache, 64, CACHE_LIMIT);
    idvec_room(&c.ids, text.bytes / 4 + 16);
    qp_status status = encode_text(&c, text, err);
    if (status == QP_OK && !(flags & QP_TOKENIZE_NO_SPECIAL)) status = post_run(&t->post, &c.ids, err);
    if (status == QP_OK && c.ids.failed) status = err_no_memory(err, c.ids.n * sizeof *c.ids.at, "encoding");
    free_call(&c);
    if (status != QP_OK) return idvec_free(&c.ids), status;
    *ids = c.ids.at;
    *count = c.ids.n;
    return QP_OK;
}

qp_status tok_encode(const tok *t, span text, unsigned flags, int32_t **ids, size_t *count, qp_error *err) {
    *ids = NULL;
    *count = 0;
    if (text.bytes > MAX_TEXT)
        return err_set(err, QP_TOO_LARGE, 0, "text of %zu bytes, at most %d are encoded at once", text.bytes, MAX_TEXT);
    if (is_valid(text)) return encode_valid(t, text, flags, ids, count, err);
    strbuf mended = {0};
    decoder_add_lossy(&mended, text.at, text.bytes);
    qp_status status = strbuf_status(&mended, err, "text");
    if (status == QP_OK) status = encode_valid(t, (span){mended.at, mended.bytes}, flags, ids, count, err);
    strbuf_free(&mended);
    return status;
}
