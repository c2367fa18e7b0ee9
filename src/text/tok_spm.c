/* tok_spm.c — SentencePiece's tokenizer.model to a tokenizer.
 *
 * The file is a protobuf message: pieces with scores and kinds, the trainer's settings, the normaliser. BPE pieces
 * become merges: every way to cut a piece into two others is one, and its rank is the order of the piece's score. The
 * special tokens are found in texts as in the other formats (QP_TOKENIZE_PLAIN_SPECIAL turns that off). */
#include "tok_impl.h"
#include "proto.h"
#include "uni.h"
#include "base/utf8.h"
#include <stdlib.h>

#define WHERE "tokenizer.model"

typedef enum spm_kind { SPM_NORMAL = 1, SPM_UNKNOWN, SPM_CONTROL, SPM_USER, SPM_UNUSED, SPM_BYTE } spm_kind;
enum { SPM_UNIGRAM = 1, SPM_BPE = 2, MAX_PIECE = 1 << 16 };

typedef struct spm_piece {
    span text;
    float score;
    uint8_t kind;
} spm_piece;

typedef struct spm {
    spm_piece *pieces;
    size_t n, capacity;
    uint64_t model_type;
    bool byte_fallback, is_suffix;
    int64_t unk, bos, eos, pad;
    span charsmap;
    bool adds_dummy_prefix, removes_extra_spaces, escapes_spaces;
} spm;

/* ---- the message ---- */

static qp_status bad_message(qp_error *err, const char *part) {
    return err_set(err, QP_BAD_FORMAT, 0, WHERE ": %s is not a SentencePiece message", part);
}

static bool is_utf8(span text) { return utf8_valid_prefix(text.at, text.bytes) == text.bytes; }

static qp_status read_piece(spm *m, span message, qp_error *err) {
    spm_piece piece = {.kind = SPM_NORMAL};
    proto p = proto_of(message);
    for (proto_field f; proto_next(&p, &f);) {
        if (f.number == 1 && f.wire == 2) piece.text = f.bytes;
        if (f.number == 2 && f.wire == 5) piece.score = proto_float(&f);
        if (f.number == 3 && f.wire == 0) piece.kind = (uint8_t)(f.value < 255 ? f.value : 255);
    }
    if (p.is_bad || piece.kind < SPM_NORMAL || piece.kind > SPM_BYTE || piece.score != piece.score)
        return bad_message(err, "a piece");
    if (!piece.text.bytes || piece.text.bytes > MAX_PIECE || !is_utf8(piece.text))
        return err_set(err, QP_BAD_FORMAT, 0, WHERE ": piece %zu is empty, too long or not UTF-8", m->n);
    if (m->n == m->capacity) {
        const size_t capacity = m->capacity ? m->capacity * 2 : 1024;
        spm_piece *more = mem_resize(m->pieces, capacity, sizeof *more);
        if (!more) return err_no_memory(err, capacity * sizeof *more, WHERE);
        m->pieces = more;
        m->capacity = capacity;
    }
    m->pieces[m->n++] = piece;
    return QP_OK;
}

static qp_status read_trainer(spm *m, span message, qp_error *err) {
    const struct {
        uint32_t number;
        int64_t *to;
    } ids[] = {{40, &m->unk}, {41, &m->bos}, {42, &m->eos}, {43, &m->pad}};
    proto p = proto_of(message);
    for (proto_field f; proto_next(&p, &f);) {
        if (f.wire != 0) continue;
        if (f.number == 3) m->model_type = f.value;
        if (f.number == 24) m->is_suffix = f.value;
        if (f.number == 35) m->byte_fallback = f.value;
        for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
            if (f.number == ids[i].number) *ids[i].to = (int32_t)f.value;
    }
    return p.is_bad ? bad_message(err, "the trainer's part") : QP_OK;
}

static qp_status read_normalizer(spm *m, span message, qp_error *err) {
    proto p = proto_of(message);
    for (proto_field f; proto_next(&p, &f);) {
        if (f.number == 2 && f.wire == 2) m->charsmap = f.bytes;
        if (f.number == 3 && f.wire == 0) m->adds_dummy_prefix = f.value;
        if (f.number == 4 && f.wire == 0) m->removes_extra_spaces = f.value;
        if (f.number == 5 && f.wire == 0) m->escapes_spaces = f.value;
    }
    return p.is_bad ? bad_message(err, "the normaliser's part") : QP_OK;
}

static qp_status read_message(spm *m, span message, qp_error *err) {
    proto p = proto_of(message);
    for (proto_field f; proto_next(&p, &f);) {
        if (f.wire != 2) continue;
        if (f.number == 1) ERR_TRY(read_piece(m, f.bytes, err));
        if (f.number == 2) ERR_TRY(read_trainer(m, f.bytes, err));
        if (f.number == 3) ERR_TRY(read_normalizer(m, f.bytes, err));
    }
    if (p.is_bad || !m->n) return bad_message(err, "the file");
    if (m->model_type == SPM_UNIGRAM || m->model_type == SPM_BPE) return QP_OK;
    return err_set(err, QP_UNSUPPORTED, 0, WHERE ": model type %llu, supported are unigram (1) and BPE (2)",
                   (unsigned long long)m->model_type);
}

/* ---- pieces to a vocabulary ---- */

static qp_status add_pieces(tok *t, const spm *m, qp_error *err) {
    for (size_t i = 0; i < m->n; i++) {
        const spm_piece *piece = &m->pieces[i];
        if (vocab_id(&t->words, piece->text) >= 0)
            return err_set(err, QP_BAD_FORMAT, 0, WHERE ": piece %zu, \"%.*s\", is there twice", i,
                           (int)(piece->text.bytes & 63), piece->text.at);
        ERR_TRY(vocab_add(&t->words, piece->text, (int64_t)i, err));
        added_token token = {.content = piece->text,
                             .id = (int32_t)i,
                             .special = piece->kind != SPM_USER,
                             .normalized = piece->kind == SPM_USER};
        const bool is_added = piece->kind == SPM_CONTROL || piece->kind == SPM_UNKNOWN ||
                              (piece->kind == SPM_USER && m->model_type == SPM_BPE);
        if (is_added) ERR_TRY(added_put(&t->added, &token, err));
        if (piece->kind == SPM_USER && !added_insert(&t->spm.user, piece->text, (int)i))
            return err_no_memory(err, piece->text.bytes, WHERE);
    }
    return QP_OK;
}

/* ---- BPE: pieces to merges ---- */

typedef struct candidate {
    int32_t left, right, id;
    float score;
} candidate;

typedef struct candidates {
    candidate *at;
    size_t n, capacity;
} candidates;

static bool add_candidate(candidates *c, candidate one) {
    if (c->n == c->capacity) {
        const size_t capacity = c->capacity ? c->capacity * 2 : 4096;
        candidate *at = mem_resize(c->at, capacity, sizeof *at);
        if (!at) return false;
        c->at = at;
        c->capacity = capacity;
    }
    c->at[c->n++] = one;
    return true;
}

static bool is_mergeable(const spm *m, int32_t id) { return id >= 0 && m->pieces[id].kind == SPM_NORMAL; }

/* All ways to cut a piece into two; a piece of a single character needs no merge. */
static bool cut_piece(const tok *t, const spm *m, int32_t id, candidates *c) {
    const span text = m->pieces[id].text;
    for (size_t at = 1; at < text.bytes; at++) {
        if (((unsigned char)text.at[at] & 0xC0) == 0x80) continue;
        const int32_t left = vocab_id(&t->words, (span){text.at, at});
        if (!is_mergeable(m, left)) continue;
        const int32_t right = vocab_id(&t->words, (span){text.at + at, text.bytes - at});
        if (is_mergeable(m, right) && !add_candidate(c, (candidate){left, right, id, m->pieces[id].score}))
            return false;
    }
    return true;
}

static int by_score(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Equal scores are equal ranks: then the leftmost pair goes first, whatever it is. */
static qp_status add_merges(tok *t, candidates *c, qp_error *err) {
    if (c->n) qsort(c->at, c->n, sizeof *c->at, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (i && c->at[i].score != c->at[i - 1].score) rank++;
        ERR_TRY(bpe_add_pair(&t->bpe, c->at[i].left, c->at[i].right, c->at[i].id, rank, err));
    }
    return QP_OK;
}

static qp_status make_bpe(tok *t, const spm *m, qp_error *err) {
    candidates c = {0};
    qp_status status = QP_OK;
    for (size_t i = 0; i < m->n && status == QP_OK; i++) {
        if (m->pieces[i].kind == SPM_UNUSED)
            status = err_set(err, QP_UNSUPPORTED, 0, WHERE ": BPE with unused pieces (piece %zu)", i);
        else if (m->pieces[i].kind == SPM_NORMAL && !cut_piece(t, m, (int32_t)i, &c))
            status = err_no_memory(err, c.n * sizeof *c.at, WHERE);
    }
    const bpe_options options = {.fuse_unk = true,
                                 .byte_fallback = m->byte_fallback,
                                 .unk = m->unk >= 0 && (size_t)m->unk < m->n ? m->pieces[m->unk].text : (span){0}};
    if (status == QP_OK) status = bpe_start(&t->bpe, &t->words, &options, c.n, err);
    if (status == QP_OK) status = add_merges(t, &c, err);
    if (status == QP_OK) status = bpe_finish(&t->bpe, false, err);
    mem_free(c.at);
    t->model = TOK_MODEL_BPE;
    return status;
}

/* ---- Unigram ---- */

static void rate(const spm *m, double *scores, bool *may_find) {
    float highest = -3e38f;
    for (size_t i = 0; i < m->n; i++)
        if (m->pieces[i].kind == SPM_NORMAL && m->pieces[i].score > highest) highest = m->pieces[i].score;
    for (size_t i = 0; i < m->n; i++) {
        const spm_piece *piece = &m->pieces[i];
        may_find[i] = piece->kind == SPM_NORMAL || piece->kind == SPM_USER;
        scores[i] = piece->kind == SPM_USER ? (float)piece->text.bytes * highest - 0.1f : piece->score;
    }
}

static qp_status make_unigram(tok *t, const spm *m, qp_error *err) {
    double *scores = mem_array(m->n, sizeof *scores);
    bool *may_find = mem_array(m->n, sizeof *may_find);
    qp_status status = scores && may_find ? QP_OK : err_no_memory(err, m->n * sizeof *scores, WHERE);
    if (status == QP_OK) {
        float lowest = 3e38f;
        rate(m, scores, may_find);
        for (size_t i = 0; i < m->n; i++)
            if (m->pieces[i].kind == SPM_NORMAL && m->pieces[i].score < lowest) lowest = m->pieces[i].score;
        status = unigram_open(&t->unigram, &t->words, scores, (int32_t)m->unk, m->byte_fallback, may_find, err);
        t->unigram.in_float = true;
        t->unigram.unk_score = lowest - 10.0f;
    } else
        mem_free(scores);
    mem_free(may_find);
    t->model = TOK_MODEL_UNIGRAM;
    return status;
}

/* ---- around the model ---- */

static qp_status make_norm(tok *t, const spm *m, qp_error *err) {
    t->has_spm = true;
    t->spm.adds_dummy_prefix = m->adds_dummy_prefix;
    t->spm.removes_extra_spaces = m->removes_extra_spaces;
    t->spm.escapes_spaces = m->escapes_spaces;
    t->spm.is_suffix = m->is_suffix;
    return charsmap_open(&t->spm.map, m->charsmap.at, m->charsmap.bytes, WHERE, err);
}

static qp_status make_decoder(tok *t, const spm *m, qp_error *err) {
    ERR_TRY(decoder_add_replace(&t->decoder, SPAN("\xe2\x96\x81"), SPAN(" "), err));
    ERR_TRY(decoder_add(&t->decoder, (decoder_step){.kind = DECODER_BYTE_FALLBACK}, err));
    ERR_TRY(decoder_add(&t->decoder, (decoder_step){.kind = DECODER_FUSE}, err));
    if (!m->adds_dummy_prefix || m->is_suffix) return QP_OK;
    return decoder_add_strip(&t->decoder, SPAN(" "), 1, 0, err);
}

static void name_token(tok *t, const spm *m, tok_name name, int64_t id) {
    if (id < 0 || (size_t)id >= m->n || t->named_id[name] >= 0) return;
    t->named_id[name] = (int32_t)id;
    t->named_text[name] = vocab_piece(&t->words, (int32_t)id);
}

/* bos and eos as tokenizer_config.json says, else as models with such a file do: bos alone. */
static qp_status make_post(tok *t, const char *config, size_t config_bytes, qp_error *err) {
    bool adds_bos = true, adds_eos = false;
    json_t *json = NULL;
    if (config) ERR_TRY(json_parse(&json, config, config_bytes, "tokenizer_config.json", err));
    qp_status status = json_get_bool(json, "add_bos_token", &adds_bos, "tokenizer_config.json", err);
    if (status == QP_OK) status = json_get_bool(json, "add_eos_token", &adds_eos, "tokenizer_config.json", err);
    json_decref(json);
    if (status != QP_OK) return status;
    return post_surround(&t->post, adds_bos ? t->named_id[TOK_BOS] : -1, adds_eos ? t->named_id[TOK_EOS] : -1, err);
}

static qp_status check_ids(const spm *m, qp_error *err) {
    if (m->unk < (int64_t)m->n && m->bos < (int64_t)m->n && m->eos < (int64_t)m->n && m->pad < (int64_t)m->n)
        return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, WHERE ": a special token's id is beyond the %zu pieces", m->n);
}

static qp_status make_all(tok *t, const spm *m, const char *config, size_t config_bytes, qp_error *err) {
    t->keeps_config_ids = true;
    ERR_TRY(check_ids(m, err));
    ERR_TRY(add_pieces(t, m, err));
    ERR_TRY(make_norm(t, m, err));
    ERR_TRY(m->model_type == SPM_BPE ? make_bpe(t, m, err) : make_unigram(t, m, err));
    ERR_TRY(make_decoder(t, m, err));
    ERR_TRY(tok_finish(t, config, config_bytes, err));
    name_token(t, m, TOK_BOS, m->bos);
    name_token(t, m, TOK_EOS, m->eos);
    name_token(t, m, TOK_UNK, m->unk);
    name_token(t, m, TOK_PAD, m->pad);
    return make_post(t, config, config_bytes, err);
}

qp_status tok_new_spm(tok **out, const void *model, size_t bytes, const char *config_text, size_t config_bytes,
                      qp_error *err) {
    spm m = {.model_type = SPM_UNIGRAM,
             .unk = 0,
             .bos = 1,
             .eos = 2,
             .pad = -1,
             .adds_dummy_prefix = true,
             .removes_extra_spaces = true,
             .escapes_spaces = true};
    tok *t = NULL;
    *out = NULL;
    qp_status status = read_message(&m, (span){model, bytes}, err);
    if (status == QP_OK) status = tok_start(&t, err);
    if (status == QP_OK) status = make_all(t, &m, config_text, config_bytes, err);
    mem_free(m.pieces);
    if (status != QP_OK) return tok_free(t), status;
    *out = t;
    return QP_OK;
}
