/* tokens_routes.c — text to ids and back, in the words of TabbyAPI, llama.cpp and vLLM. */
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "handlers.h"
#include "models.h"
#include "reply.h"
#include "server.h"

enum { MOST_PIECE = 4096 };

/* ---- rendering ---- */

/* Members that templates are given under their own names. */
static int copy_variables(json_t *input, const json_t *body) {
    static const char *const names[] = {"template_vars", "chat_template_kwargs"};
    for (size_t i = 0; i < 2; i++) {
        json_t *variables = json_object_get(body, names[i]);
        if (json_is_object(variables) && json_object_update_missing(input, variables)) return -1;
    }
    return 0;
}

static qp_status render_input(char **text, size_t *bytes, chat_template *t, const json_t *messages, const json_t *body,
                              bool adds_prompt, qp_error *err) {
    json_t *input = json_pack("{s:O,s:b}", "messages", messages, "add_generation_prompt", adds_prompt);
    json_t *tools = json_object_get(body, "tools");
    if (input && json_is_array(tools)) json_object_set(input, "tools", tools);
    char *written = input && !copy_variables(input, body) ? json_dumps(input, JSON_COMPACT) : NULL;
    json_decref(input);
    if (!written) return err_no_memory(err, 0, "a conversation");
    const qp_status status = qp_template_render(t->parsed, written, strlen(written), text, bytes, NULL, err);
    free(written);
    return status;
}

/* Answers the request itself when it fails. */
static bool render(char **text, size_t *bytes, http_request *r, model_slot *m, const json_t *messages,
                   const json_t *body, bool adds_prompt) {
    chat_template *t;
    qp_error err = {0};
    qp_status status = models_take_template(&t, m, NULL, &err);
    if (status == QP_OK) status = render_input(text, bytes, t, messages, body, adds_prompt, &err);
    models_drop_template(t);
    if (status != QP_OK) reply_error(r, FAULT_TEMPLATE, "messages", "%s", err.text);
    return status == QP_OK;
}

static bool read_bool(http_request *r, const json_t *body, const char *name, bool *out) {
    qp_error err = {0};
    if (json_get_bool(body, name, out, "the body", &err) == QP_OK) return true;
    reply_failure(r, name, &err);
    return false;
}

/* ---- ids out ---- */

static json_t *id_list(const int32_t *ids, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_integer(ids[i]))) json_decref(list), list = NULL;
    return list;
}

/* The text of a token, or its bytes where they are no text by themselves. */
static json_t *piece_of(const qp_tokenizer *tokenizer, int32_t id) {
    char *text;
    size_t bytes;
    if (qp_detokenize(tokenizer, &id, 1, 0, &text, &bytes, NULL) != QP_OK) return json_string("");
    const bool is_broken = bytes >= 3 && strstr(text, "\xEF\xBF\xBD");
    json_t *piece = is_broken ? NULL : json_stringn(text, bytes);
    qp_free(text);
    if (piece) return piece;
    char raw[MOST_PIECE];
    const int length = qp_token_piece(tokenizer, id, raw, sizeof raw, NULL);
    json_t *list = json_array();
    for (int i = 0; i < length && i < MOST_PIECE; i++) json_array_append_new(list, json_integer((unsigned char)raw[i]));
    return list;
}

static json_t *pieces_of(const qp_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        json_array_append_new(list, json_pack("{s:i,s:o}", "id", ids[i], "piece", piece_of(tokenizer, ids[i])));
    return list;
}

/* ---- ids in ---- */

static int32_t *read_ids(http_request *r, const model_slot *m, const json_t *body, size_t *count) {
    const json_t *list = json_object_get(body, "tokens");
    const int size = qp_tokenizer_size(m->tokenizer);
    if (!json_is_array(list)) {
        reply_error(r, FAULT_BAD_REQUEST, "tokens", "tokens: found %s, expected an array of ids",
                    list ? json_kind(list) : "nothing");
        return NULL;
    }
    *count = json_array_size(list);
    int32_t *ids = mem_array(*count + 1, sizeof *ids);
    for (size_t i = 0; ids && i < *count; i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= size) {
            reply_error(r, FAULT_BAD_REQUEST, "tokens", "tokens[%zu]: found %s%lld, allowed are ids from 0 to %d", i,
                        json_is_integer(item) ? "" : "no integer, ", (long long)id, size - 1);
            mem_free(ids);
            return NULL;
        }
        ids[i] = (int32_t)id;
    }
    if (!ids) reply_error(r, FAULT_INTERNAL, NULL, "out of memory");
    return ids;
}

/* ---- TabbyAPI's ---- */

/* A template may have written the token that the caller decides about by add_bos_token alone. */
static size_t bos_bytes(const model_slot *m, const char *text, size_t bytes) {
    char piece[256];
    if (m->info.bos < 0) return 0;
    const int length = qp_token_piece(m->tokenizer, m->info.bos, piece, sizeof piece, NULL);
    return length > 0 && length < (int)sizeof piece && bytes >= (size_t)length && !memcmp(text, piece, (size_t)length)
               ? (size_t)length
               : 0;
}

static void encode_text(http_request *r, model_slot *m, const json_t *body, const char *text, size_t bytes) {
    bool adds_bos = true, parses_special = true;
    int32_t *ids;
    size_t count;
    qp_error err = {0};
    if (!read_bool(r, body, "add_bos_token", &adds_bos) ||
        !read_bool(r, body, "encode_special_tokens", &parses_special))
        return;
    const unsigned flags = (adds_bos ? 0 : QP_TOKENIZE_NO_SPECIAL) | (parses_special ? 0 : QP_TOKENIZE_PLAIN_SPECIAL);
    if (qp_tokenize(m->tokenizer, text, bytes, flags, &ids, &count, &err) != QP_OK)
        return reply_failure(r, "text", &err);
    json_t *list = id_list(ids, count);
    qp_free(ids);
    reply_json(r, 200, list ? json_pack("{s:o,s:I}", "tokens", list, "length", (json_int_t)count) : NULL);
}

static void encode(http_request *r, model_slot *m, const json_t *body) {
    const json_t *text = json_object_get(body, "text");
    char *rendered;
    size_t bytes;
    if (json_is_string(text)) return encode_text(r, m, body, json_string_value(text), json_string_length(text));
    if (!json_is_array(text))
        return reply_error(r, FAULT_BAD_REQUEST, "text", "text: found %s, expected a string or an array of messages",
                           text ? json_kind(text) : "nothing");
    if (!render(&rendered, &bytes, r, m, text, body, false)) return;
    const size_t skipped = bos_bytes(m, rendered, bytes);
    encode_text(r, m, body, rendered + skipped, bytes - skipped);
    qp_free(rendered);
}

static void decode_as(http_request *r, model_slot *m, const json_t *body, const char *name, bool keeps_special) {
    size_t count, bytes;
    char *text;
    qp_error err = {0};
    int32_t *ids = read_ids(r, m, body, &count);
    if (!ids) return;
    const unsigned flags = keeps_special ? 0 : QP_DETOKENIZE_SKIP_SPECIAL;
    const qp_status status = qp_detokenize(m->tokenizer, ids, count, flags, &text, &bytes, &err);
    mem_free(ids);
    if (status != QP_OK) return reply_failure(r, "tokens", &err);
    json_t *answer = json_pack("{s:s%}", name, text, bytes);
    if (answer && !strcmp(name, "content")) json_object_set_new(answer, "prompt", json_stringn(text, bytes));
    qp_free(text);
    reply_json(r, 200, answer);
}

static void decode(http_request *r, model_slot *m, const json_t *body) {
    bool keeps_special = true;
    if (read_bool(r, body, "decode_special_tokens", &keeps_special)) decode_as(r, m, body, "text", keeps_special);
}

/* ---- llama.cpp's and vLLM's ---- */

static void tokenize_content(http_request *r, model_slot *m, const json_t *body, const json_t *content) {
    bool adds_special = false, parses_special = true, with_pieces = false;
    int32_t *ids;
    size_t count;
    qp_error err = {0};
    if (!read_bool(r, body, "add_special", &adds_special) || !read_bool(r, body, "parse_special", &parses_special) ||
        !read_bool(r, body, "with_pieces", &with_pieces))
        return;
    const unsigned flags =
        (adds_special ? 0 : QP_TOKENIZE_NO_SPECIAL) | (parses_special ? 0 : QP_TOKENIZE_PLAIN_SPECIAL);
    if (qp_tokenize(m->tokenizer, json_string_value(content), json_string_length(content), flags, &ids, &count, &err) !=
        QP_OK)
        return reply_failure(r, "content", &err);
    json_t *list = with_pieces ? pieces_of(m->tokenizer, ids, count) : id_list(ids, count);
    qp_free(ids);
    reply_json(r, 200, list ? json_pack("{s:o}", "tokens", list) : NULL);
}

static void count_tokens(http_request *r, model_slot *m, const json_t *body, const char *text, size_t bytes,
                         bool adds_special) {
    int32_t *ids;
    size_t count;
    qp_error err = {0};
    if (!read_bool(r, body, "add_special_tokens", &adds_special)) return;
    const unsigned flags = adds_special ? 0 : QP_TOKENIZE_NO_SPECIAL;
    if (qp_tokenize(m->tokenizer, text, bytes, flags, &ids, &count, &err) != QP_OK)
        return reply_failure(r, "prompt", &err);
    json_t *list = id_list(ids, count);
    qp_free(ids);
    reply_json(r, 200,
               list ? json_pack("{s:I,s:I,s:o}", "count", (json_int_t)count, "max_model_len", (json_int_t)m->max_length,
                                "tokens", list)
                    : NULL);
}

static void tokenize(http_request *r, model_slot *m, const json_t *body) {
    const json_t *content = json_object_get(body, "content"), *prompt = json_object_get(body, "prompt"),
                 *messages = json_object_get(body, "messages");
    char *rendered;
    size_t bytes;
    bool adds_prompt = true;
    if (json_is_string(content)) return tokenize_content(r, m, body, content);
    if (json_is_string(prompt))
        return count_tokens(r, m, body, json_string_value(prompt), json_string_length(prompt), true);
    if (!json_is_array(messages))
        return reply_error(r, FAULT_BAD_REQUEST, "content", "content, prompt or messages: one of them is needed");
    if (!read_bool(r, body, "add_generation_prompt", &adds_prompt)) return;
    if (!render(&rendered, &bytes, r, m, messages, body, adds_prompt)) return;
    count_tokens(r, m, body, rendered, bytes, false); /* the template has written what is special */
    qp_free(rendered);
}

static void detokenize(http_request *r, model_slot *m, const json_t *body) { decode_as(r, m, body, "content", true); }

static void apply_template(http_request *r, model_slot *m, const json_t *body) {
    const json_t *messages = json_object_get(body, "messages");
    bool adds_prompt = true;
    char *text;
    size_t bytes;
    if (!json_is_array(messages))
        return reply_error(r, FAULT_BAD_REQUEST, "messages", "messages: found %s, expected an array",
                           messages ? json_kind(messages) : "nothing");
    if (!read_bool(r, body, "add_generation_prompt", &adds_prompt)) return;
    if (!render(&text, &bytes, r, m, messages, body, adds_prompt)) return;
    reply_json(r, 200, json_pack("{s:s%}", "prompt", text, bytes));
    qp_free(text);
}

/* ---- the routes ---- */

static void with_model(http_request *r, void (*answer)(http_request *r, model_slot *m, const json_t *body)) {
    json_t *body = reply_read_body(r);
    model_slot *m = body ? models_for_request(r, NULL) : NULL;
    if (m) answer(r, m, body);
    models_drop(m);
    json_decref(body);
}

void tokens_encode(http_request *r) { with_model(r, encode); }
void tokens_decode(http_request *r) { with_model(r, decode); }
void tokens_tokenize(http_request *r) { with_model(r, tokenize); }
void tokens_detokenize(http_request *r) { with_model(r, detokenize); }
void tokens_apply_template(http_request *r) { with_model(r, apply_template); }
