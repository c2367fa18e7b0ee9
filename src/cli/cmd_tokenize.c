/* cmd_tokenize.c — quipu tokenize: text to ids, plain, piece by piece, or line by line. */
#include "input.h"
#include "load.h"
#include "base/json.h"
#include "base/mem.h"

/* What one text became. */
typedef struct encoded {
    int32_t *ids;
    size_t count;
} encoded;

typedef struct tokenizing {
    const session *s;
    const qp_tokenizer *tokenizer;
    unsigned flags;
} tokenizing;

static unsigned tokenize_flags(const options *o) {
    return (o->no_special ? QP_TOKENIZE_NO_SPECIAL : 0) | (o->no_parse_special ? QP_TOKENIZE_PLAIN_SPECIAL : 0);
}

static void add_ids(strbuf *out, const encoded *e, const char *between) {
    for (size_t i = 0; i < e->count; i++) strbuf_format(out, "%s%d", i ? between : "", e->ids[i]);
}

/* The raw vocabulary entry of an id; valid until the next call with the same buffer. */
static void load_piece(strbuf *out, const qp_tokenizer *tokenizer, int32_t id, bool *is_special) {
    char small[256];
    strbuf_clear(out);
    const int bytes = qp_token_piece(tokenizer, id, small, sizeof small, is_special);
    if (bytes <= 0) return;
    if ((size_t)bytes <= sizeof small) {
        strbuf_add(out, small, (size_t)bytes);
        return;
    }
    char *large = mem_array((size_t)bytes, 1);
    if (large) strbuf_add(out, large, (size_t)qp_token_piece(tokenizer, id, large, (size_t)bytes, NULL));
    mem_free(large);
}

static void add_pieces(strbuf *out, const tokenizing *t, const encoded *e) {
    strbuf piece = {0};
    strbuf_char(out, '[');
    for (size_t i = 0; i < e->count; i++) {
        load_piece(&piece, t->tokenizer, e->ids[i], NULL);
        if (i) strbuf_text(out, ", ");
        strbuf_json(out, piece.at ? piece.at : "", piece.bytes);
    }
    strbuf_char(out, ']');
    strbuf_free(&piece);
}

/* One line of text: blanks as they are, control characters as \n or \x1b. */
static void add_visible(strbuf *out, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            strbuf_text(out, "\\n");
        else if (c == '\t')
            strbuf_text(out, "\\t");
        else if (c < 32 || c == 127)
            strbuf_format(out, "\\x%02x", c);
        else
            strbuf_char(out, text[i]);
    }
}

/* What one token is, while pieces are printed. */
typedef struct piece_view {
    strbuf raw, line;
    bool is_special;
} piece_view;

enum { PIECE_WIDTH = 24 };

/* Id, vocabulary entry, and what the token adds to the text ("..." while a character is incomplete). */
static void print_piece(const tokenizing *t, piece_view *v, int32_t id, const char *text, size_t bytes, bool has_text) {
    const bool coloured = t->s->term.colour_out;
    load_piece(&v->raw, t->tokenizer, id, &v->is_special);
    strbuf_clear(&v->line);
    strbuf_format(&v->line, "%s%7d%s  %s", term_set(coloured, STYLE_DIM), id, term_set(coloured, STYLE_PLAIN),
                  term_set(coloured, v->is_special ? STYLE_YELLOW : STYLE_CYAN));
    const size_t start = v->line.bytes;
    add_visible(&v->line, v->raw.at ? v->raw.at : "", v->raw.bytes);
    int pad = PIECE_WIDTH;
    for (size_t i = start; i < v->line.bytes; i++) pad -= (v->line.at[i] & 0xC0) != 0x80;
    strbuf_format(&v->line, "%s%*s ", term_set(coloured, STYLE_PLAIN), pad > 0 ? pad : 0, "");
    strbuf_text(&v->line, has_text ? "\"" : "...");
    if (has_text) add_visible(&v->line, text, bytes);
    strbuf_text(&v->line, has_text ? "\"\n" : "\n");
    if (!v->line.failed) fwrite(v->line.at, 1, v->line.bytes, stdout);
}

static qp_status print_pieces(const tokenizing *t, const encoded *e, qp_error *err) {
    qp_detok_stream *stream;
    ERR_TRY(qp_detok_stream_new(&stream, t->tokenizer, 0, err));
    piece_view v = {.is_special = false};
    qp_status status = QP_OK;
    for (size_t i = 0; i < e->count && status == QP_OK; i++) {
        const char *text = "";
        size_t bytes = 0;
        bool has_text = false;
        status = qp_detok_stream_next(stream, e->ids[i], &text, &bytes, &has_text, err);
        if (status == QP_OK) print_piece(t, &v, e->ids[i], text, bytes, has_text);
    }
    if (status == QP_OK) status = strbuf_status(&v.line, err, "the pieces");
    strbuf_free(&v.raw);
    strbuf_free(&v.line);
    qp_detok_stream_free(stream);
    return status;
}

static qp_status print_buffer(strbuf *b, qp_error *err) {
    const qp_status status = strbuf_status(b, err, "the answer");
    if (status == QP_OK && b->bytes) fwrite(b->at, 1, b->bytes, stdout);
    if (status == QP_OK) putchar('\n');
    strbuf_free(b);
    return status;
}

/* The answer for one text: a document with --json, else ids in a line or one piece a line. */
static qp_status print_text(const tokenizing *t, const encoded *e, qp_error *err) {
    const options *o = t->s->o;
    strbuf b = {0};
    if (o->pieces && !o->json) return print_pieces(t, e, err);
    if (o->json) strbuf_text(&b, "{\"ids\": [");
    add_ids(&b, e, o->json ? ", " : " ");
    if (o->json) strbuf_format(&b, "], \"count\": %zu", e->count);
    if (o->json && o->pieces) strbuf_text(&b, ", \"pieces\": "), add_pieces(&b, t, e);
    if (o->json) strbuf_char(&b, '}');
    return print_buffer(&b, err);
}

static qp_status print_line(const tokenizing *t, const encoded *e, qp_error *err) {
    strbuf b = {0};
    if (t->s->o->pieces) {
        add_pieces(&b, t, e);
        return print_buffer(&b, err);
    }
    strbuf_char(&b, '[');
    add_ids(&b, e, ", ");
    strbuf_char(&b, ']');
    return print_buffer(&b, err);
}

static qp_status encode_line(void *user, const char *line, size_t bytes, const char *where, qp_error *err) {
    const tokenizing *t = user;
    json_t *value;
    ERR_TRY(json_parse(&value, line, bytes, where, err));
    qp_status status;
    encoded e = {NULL, 0};
    if (!json_is_string(value))
        status = err_set(err, QP_BAD_FORMAT, 0, "%s: %s, expected a string", where, json_kind(value));
    else
        status = qp_tokenize(t->tokenizer, json_string_value(value), json_string_length(value), t->flags, &e.ids,
                             &e.count, err);
    if (status == QP_OK) status = print_line(t, &e, err);
    qp_free(e.ids);
    json_decref(value);
    return status;
}

static qp_status encode_text(session *s, const tokenizing *t, qp_error *err) {
    strbuf text = {0};
    encoded e = {NULL, 0};
    qp_status status = input_prompt(&text, s, err);
    if (status == QP_OK)
        status = qp_tokenize(t->tokenizer, text.at ? text.at : "", text.bytes, t->flags, &e.ids, &e.count, err);
    if (status == QP_OK) status = print_text(t, &e, err);
    qp_free(e.ids);
    strbuf_free(&text);
    return status;
}

qp_status cmd_tokenize(session *s, qp_error *err) {
    const options *o = s->o;
    qp_tokenizer *tokenizer;
    ERR_TRY(load_tokenizer(&tokenizer, s, err));
    tokenizing t = {s, tokenizer, tokenize_flags(o)};
    const qp_status status = o->jsonl ? input_each_line(o->file, &t, encode_line, err) : encode_text(s, &t, err);
    qp_tokenizer_close(tokenizer);
    return status;
}
