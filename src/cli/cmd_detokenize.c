/* cmd_detokenize.c — quipu detokenize: ids to text, whole, line by line, or as the chunks that streaming shows. */
#include "input.h"
#include "load.h"

typedef struct detokenizing {
    const session *s;
    const qp_tokenizer *tokenizer;
    unsigned flags;
    input_ids ids; /* of the current line; its memory is used again */
} detokenizing;

static qp_status print_chunks(const detokenizing *d, qp_error *err) {
    qp_detok_stream *stream;
    ERR_TRY(qp_detok_stream_new(&stream, d->tokenizer, d->flags, err));
    strbuf b = {0};
    qp_status status = QP_OK;
    strbuf_char(&b, '[');
    for (size_t i = 0; i < d->ids.count && status == QP_OK; i++) {
        const char *text;
        size_t bytes;
        bool has_text;
        status = qp_detok_stream_next(stream, d->ids.at[i], &text, &bytes, &has_text, err);
        if (status != QP_OK) break;
        if (i) strbuf_text(&b, ", ");
        if (has_text)
            strbuf_json(&b, text, bytes);
        else
            strbuf_text(&b, "null");
    }
    strbuf_text(&b, "]\n");
    if (status == QP_OK) status = strbuf_status(&b, err, "the chunks");
    if (status == QP_OK) fwrite(b.at, 1, b.bytes, stdout);
    strbuf_free(&b);
    qp_detok_stream_free(stream);
    return status;
}

typedef enum answer { ANSWER_PLAIN, ANSWER_LINE, ANSWER_DOCUMENT } answer;

static qp_status print_text(const detokenizing *d, answer kind, qp_error *err) {
    char *text;
    size_t bytes;
    ERR_TRY(qp_detokenize(d->tokenizer, d->ids.at, d->ids.count, d->flags, &text, &bytes, err));
    strbuf b = {0};
    if (kind == ANSWER_DOCUMENT) strbuf_text(&b, "{\"text\": ");
    if (kind == ANSWER_PLAIN)
        strbuf_add(&b, text, bytes);
    else
        strbuf_json(&b, text, bytes);
    strbuf_text(&b, kind == ANSWER_DOCUMENT ? "}\n" : "\n");
    const qp_status status = strbuf_status(&b, err, "the text");
    if (status == QP_OK) fwrite(b.at, 1, b.bytes, stdout);
    strbuf_free(&b);
    qp_free(text);
    return status;
}

static qp_status decode_line(void *user, const char *line, size_t bytes, const char *where, qp_error *err) {
    detokenizing *d = user;
    const size_t start = strspn(line, " \t\r");
    if (start >= bytes || line[start] != '[')
        return err_set(err, QP_BAD_FORMAT, start, "%s: expected a JSON array of ids", where);
    ERR_TRY(input_parse_ids(&d->ids, line, bytes, where, err));
    ERR_TRY(input_check_ids(&d->ids, qp_tokenizer_size(d->tokenizer), where, err));
    return d->s->o->stream ? print_chunks(d, err) : print_text(d, ANSWER_LINE, err);
}

static qp_status decode_all(session *s, detokenizing *d, qp_error *err) {
    ERR_TRY(input_load_ids(&d->ids, s, s->o->ids, qp_tokenizer_size(d->tokenizer), err));
    return print_text(d, s->o->json ? ANSWER_DOCUMENT : ANSWER_PLAIN, err);
}

qp_status cmd_detokenize(session *s, qp_error *err) {
    const options *o = s->o;
    qp_tokenizer *tokenizer;
    ERR_TRY(load_tokenizer(&tokenizer, s, err));
    detokenizing d = {s, tokenizer, o->skip_special ? QP_DETOKENIZE_SKIP_SPECIAL : 0, {NULL, 0, 0}};
    const bool is_lines = o->jsonl || o->stream;
    const qp_status status = is_lines ? input_each_line(o->ids, &d, decode_line, err) : decode_all(s, &d, err);
    input_free_ids(&d.ids);
    qp_tokenizer_close(tokenizer);
    return status;
}
