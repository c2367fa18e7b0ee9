/* wordmodel.c — WordPiece and WordLevel. */
#include "wordmodel.h"

static qp_status add_unknown(const wordmodel *m, span word, idvec *out, qp_error *err) {
    if (m->unk < 0)
        return err_set(err, QP_BAD_FORMAT, 0, "vocabulary: the unk_token is missing, but \"%.*s\" needs it",
                       (int)(word.bytes < 60 ? word.bytes : 60), word.at);
    idvec_add(out, m->unk);
    return QP_OK;
}

/* The longest piece at the beginning of `rest`; its length in *length. No piece is longer than the vocabulary's
 * longest, which bounds the search on long words. */
static int32_t longest_piece(const wordmodel *m, strbuf *scratch, span rest, bool is_first, size_t *length) {
    const size_t prefix = is_first ? 0 : m->prefix_bytes;
    size_t end = rest.bytes;
    if (end + prefix > m->words->longest) end = m->words->longest > prefix ? m->words->longest - prefix : 0;
    strbuf_clear(scratch);
    strbuf_add(scratch, m->prefix, prefix);
    strbuf_add(scratch, rest.at, end);
    for (; end > 0 && !scratch->failed; end--) {
        if (end < rest.bytes && ((unsigned char)rest.at[end] & 0xC0) == 0x80) continue;
        const int32_t id = vocab_id(m->words, (span){scratch->at, prefix + end});
        if (id >= 0) return *length = end, id;
    }
    return -1;
}

static size_t count_characters(span word) {
    size_t n = 0;
    for (size_t i = 0; i < word.bytes; i++) n += ((unsigned char)word.at[i] & 0xC0) != 0x80;
    return n;
}

static qp_status encode_pieces(const wordmodel *m, strbuf *scratch, span word, idvec *out, qp_error *err) {
    const size_t before = out->n;
    if (count_characters(word) > m->max_characters) return add_unknown(m, word, out, err);
    for (size_t start = 0, length = 0; start < word.bytes; start += length) {
        const int32_t id = longest_piece(m, scratch, (span){word.at + start, word.bytes - start}, start == 0, &length);
        if (scratch->failed) return err_no_memory(err, word.bytes, "WordPiece");
        if (id < 0) {
            out->n = before;
            return add_unknown(m, word, out, err);
        }
        idvec_add(out, id);
    }
    return QP_OK;
}

qp_status wordmodel_encode(const wordmodel *m, strbuf *scratch, span word, idvec *out, qp_error *err) {
    if (!m->is_whole) return encode_pieces(m, scratch, word, out, err);
    const int32_t id = vocab_id(m->words, word);
    if (id < 0) return add_unknown(m, word, out, err);
    idvec_add(out, id);
    return QP_OK;
}
