/* chat_format.c — the model's template, or a format of --mode with its stop texts and the model's special tokens.
 *
 * Templates write the tokens around a text themselves, so the tokenizer adds none. The one exception is --mode raw,
 * which is nothing but the text. */
#include "chat_format.h"
#include "prompt.h"
#include "base/mem.h"

enum { PIECE_MAX = 256 };

static const qp_tokenizer *tokenizer_of(const chat_format *f) { return qp_model_peek_tokenizer(f->model); }

/* ---- special tokens ---- */

/* The text of a special token, "" where it is none. */
static void special_text(const chat_format *f, int32_t id, char out[PIECE_MAX]) {
    bool is_special = false;
    const int bytes = id < 0 ? -1 : qp_token_piece(tokenizer_of(f), id, out, PIECE_MAX - 1, &is_special);
    out[bytes > 0 && bytes < PIECE_MAX && is_special ? bytes : 0] = 0;
}

/* The id of a text that is one special token; -1: it is none. */
static int32_t special_id(const chat_format *f, const char *text) {
    char piece[PIECE_MAX];
    const int32_t id = qp_token_id(tokenizer_of(f), text);
    special_text(f, id, piece);
    return *piece ? id : -1;
}

static qp_status find_tokens(chat_format *f, const qp_model_info *info, qp_error *err) {
    char bos[PIECE_MAX], eos[PIECE_MAX];
    special_text(f, info->bos, bos);
    special_text(f, info->n_eos ? info->eos[0] : -1, eos);
    f->tokens = json_pack("{s:s, s:s}", "bos_token", bos, "eos_token", eos);
    return f->tokens ? QP_OK : err_set(err, QP_BAD_FORMAT, 0, "a special token is not UTF-8 (or memory is short)");
}

static void find_stops(chat_format *f) {
    const char *stop;
    for (int i = 0; (stop = qp_template_builtin_stop(f->mode, i)) && f->n_stops < CHAT_STOPS_MAX; i++) {
        f->stops[f->n_stops++] = stop;
        const int32_t id = special_id(f, stop);
        if (id >= 0) f->stop_ids[f->n_stop_ids++] = id;
    }
}

/* Some models do not call an end what their template writes behind an answer, and would go on speaking for the user. */
static void find_end(chat_format *f) {
    static const char probe[] = "quipuprobe", input[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                                                        "{\"role\": \"assistant\", \"content\": \"quipuprobe\"}]}";
    char *text = NULL;
    int32_t *ids = NULL;
    size_t bytes, count = 0;
    char piece[PIECE_MAX];
    if (qp_template_render(f->chat, input, sizeof input - 1, &text, &bytes, NULL, NULL) != QP_OK) return;
    const char *end = strstr(text, probe);
    end = end ? end + sizeof probe - 1 : text + bytes;
    end += strspn(end, " \n");
    if (qp_tokenize(tokenizer_of(f), end, strlen(end), QP_TOKENIZE_NO_SPECIAL, &ids, &count, NULL) == QP_OK && count) {
        special_text(f, ids[0], piece);
        if (*piece) f->stop_ids[f->n_stop_ids++] = ids[0];
    }
    qp_free(ids);
    qp_free(text);
}

static void find_thoughts(chat_format *f) {
    span source;
    source.at = qp_template_peek_source(f->chat, &source.bytes);
    f->thoughts = thought_format_detect(source, tokenizer_of(f));
    f->shows_special = f->thoughts && special_id(f, f->thoughts->close) >= 0;
}

/* ---- opening ---- */

static qp_status open_template(chat_format *f, session *s, const qp_model_info *info, qp_error *err) {
    if (f->mode) return qp_template_builtin(&f->chat, f->mode, err);
    if (info->has_chat_template) return prompt_template(&f->chat, s, err);
    return session_usage(s, err,
                         "the model has no chat template: choose the format of its prompts with --mode, or "
                         "--mode raw for none");
}

qp_status chat_format_open(chat_format *f, session *s, const qp_model *model, const char *mode, qp_error *err) {
    qp_model_info info;
    *f = (chat_format){.model = model, .mode = mode};
    qp_model_get_info(model, &info);
    if (!tokenizer_of(f)) return err_set(err, QP_UNSUPPORTED, 0, "the model has no tokenizer, which a chat needs");
    ERR_TRY(open_template(f, s, &info, err));
    find_thoughts(f);
    if (!mode) return find_end(f), QP_OK;
    find_stops(f);
    return find_tokens(f, &info, err);
}

void chat_format_close(chat_format *f) {
    qp_template_free(f->chat);
    json_decref(f->tokens);
    *f = (chat_format){.mode = NULL};
}

/* ---- rendering ---- */

static qp_status write_input(const chat_format *f, const char *messages, size_t bytes, strbuf *out, qp_error *err) {
    char *tokens = f->tokens ? json_dumps(f->tokens, JSON_COMPACT) : NULL;
    if (f->tokens && !tokens) return err_no_memory(err, 0, "the messages");
    strbuf_text(out, "{\"messages\": ");
    strbuf_add(out, messages, bytes);
    if (tokens) strbuf_format(out, ", \"tokens\": %s", tokens);
    strbuf_text(out, ", \"add_generation_prompt\": true}");
    free(tokens);
    return strbuf_status(out, err, "the messages");
}

qp_status chat_format_prompt(const chat_format *f, const char *messages, size_t bytes, input_ids *out,
                             bool *starts_in_thought, bool *raised, qp_error *err) {
    strbuf input = {0};
    char *text = NULL;
    size_t n = 0;
    *raised = *starts_in_thought = false;
    qp_status status = write_input(f, messages, bytes, &input, err);
    if (status == QP_OK) status = qp_template_render(f->chat, input.at, input.bytes, &text, &n, raised, err);
    if (status == QP_OK) {
        const unsigned flags = f->mode && !strcmp(f->mode, "raw") ? 0 : QP_TOKENIZE_NO_SPECIAL;
        *starts_in_thought = f->thoughts && thought_is_open(f->thoughts, (span){text, n});
        status = prompt_tokenize(out, f->model, text, n, flags, err);
    }
    qp_free(text);
    strbuf_free(&input);
    return status;
}
