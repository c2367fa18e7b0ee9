/* tok_bytes.c — the bytes that each token adds in the middle of a text, worked out once while loading.
 *
 * A decoder is made for rows of pieces; here its steps are read as what they do to one piece that has neighbours:
 * marks become spaces, "<0x0A>" a byte, the byte alphabet bytes; what concerns the ends of a text is left out. */
#include "tok_impl.h"
#include "bytealpha.h"

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool byte_piece(span piece, char *byte) {
    if (piece.bytes != 6 || memcmp(piece.at, "<0x", 3) != 0 || piece.at[5] != '>') return false;
    const int high = hex_digit(piece.at[3]), low = hex_digit(piece.at[4]);
    *byte = (char)(high * 16 + low);
    return high >= 0 && low >= 0;
}

static void add_replaced(strbuf *out, span text, span from, const char *to) {
    const char *at = text.at, *const end = text.at + text.bytes;
    for (const char *found; from.bytes && (found = memmem(at, (size_t)(end - at), from.at, from.bytes));
         at = found + from.bytes) {
        strbuf_add(out, at, (size_t)(found - at));
        strbuf_text(out, to);
    }
    strbuf_add(out, at, (size_t)(end - at));
}

static void step_bytes(const decoder_step *s, span piece, strbuf *out) {
    const span mark = {s->from, s->from_bytes};
    char byte;
    switch (s->kind) {
    case DECODER_BYTE_LEVEL:
        if (!bytealpha_decode(out, piece)) strbuf_add(out, piece.at, piece.bytes);
        break;
    case DECODER_BYTE_FALLBACK:
        if (byte_piece(piece, &byte))
            strbuf_char(out, byte);
        else
            strbuf_add(out, piece.at, piece.bytes);
        break;
    case DECODER_REPLACE:
        add_replaced(out, piece, mark, s->to);
        break;
    case DECODER_METASPACE:
        add_replaced(out, piece, mark, " ");
        break;
    case DECODER_BPE:
        add_replaced(out, piece, mark, " ");
        break;
    case DECODER_CTC:
        add_replaced(out, piece, mark, "");
        break;
    case DECODER_WORDPIECE:
        if (!span_starts(piece, mark))
            strbuf_char(out, ' ');
        else
            piece.at += mark.bytes, piece.bytes -= mark.bytes;
        strbuf_add(out, piece.at, piece.bytes);
        break;
    case DECODER_STRIP:
    case DECODER_FUSE:
        strbuf_add(out, piece.at, piece.bytes);
        break;
    }
}

static void add_bytes(const tok *t, span piece, strbuf *out, strbuf scratch[2]) {
    for (int i = 0; i < t->decoder.n; i++) {
        strbuf *to = i + 1 == t->decoder.n ? out : &scratch[i & 1];
        if (to != out) strbuf_clear(to);
        step_bytes(&t->decoder.steps[i], piece, to);
        piece = (span){to->at ? to->at : "", to->bytes};
    }
    if (!t->decoder.n) strbuf_add(out, piece.at, piece.bytes);
}

qp_status tok_make_bytes(tok *t, qp_error *err) {
    strbuf pool = {.limit = UINT32_MAX}, scratch[2] = {0};
    t->bytes_at = mem_array((size_t)t->n_ids + 1, sizeof *t->bytes_at);
    if (!t->bytes_at) return err_no_memory(err, (size_t)t->n_ids * 4, "tokenizer");
    for (int32_t id = 0; id < t->n_ids; id++) {
        const added_token *token = added_by_id(&t->added, id);
        const span piece = token ? token->shown : vocab_piece(&t->words, id);
        t->bytes_at[id] = (uint32_t)pool.bytes;
        if (token && !decoder_is_byte_level(&t->decoder))
            strbuf_add(&pool, piece.at, piece.bytes);
        else if (piece.at)
            add_bytes(t, piece, &pool, scratch);
    }
    t->bytes_at[t->n_ids] = (uint32_t)pool.bytes;
    const bool failed = pool.failed || scratch[0].failed || scratch[1].failed;
    strbuf_free(&scratch[0]);
    strbuf_free(&scratch[1]);
    t->bytes_pool = strbuf_move(&pool, NULL);
    return failed || !t->bytes_pool ? err_no_memory(err, (size_t)t->n_ids, "tokenizer") : QP_OK;
}
