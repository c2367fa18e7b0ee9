/* api_template.c — quipu.h's chat templates: handles around text/chat.h. */
#include "handles.h"
#include "base/json.h"
#include "base/mem.h"

struct qp_template {
    chat *chat;
};

/* Wraps what `status` says was opened. */
static qp_status wrap(qp_template **out, chat *c, qp_status status, qp_error *err) {
    if (status != QP_OK) return status;
    qp_template *made = MEM_NEW(qp_template);
    if (!made) {
        chat_free(c);
        return err_no_memory(err, sizeof *made, "chat template");
    }
    made->chat = c;
    *out = made;
    return QP_OK;
}

qp_status qp_template_open(qp_template **out, const char *path, const char *name, qp_error *err) {
    chat *c = NULL;
    if (!out) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_template_open: out is NULL");
    *out = NULL;
    if (!path) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_template_open: path is NULL");
    const qp_status status = api_open_chat(&c, path, name, err);
    return wrap(out, c, status, err);
}

qp_status qp_template_new(qp_template **out, const char *source, size_t source_bytes, qp_error *err) {
    chat *c = NULL;
    if (!out) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_template_new: out is NULL");
    *out = NULL;
    if (!source) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_template_new: source is NULL");
    const qp_status status = chat_new(&c, (span){source, source_bytes}, err);
    return wrap(out, c, status, err);
}

qp_status qp_template_builtin(qp_template **out, const char *name, qp_error *err) {
    chat *c = NULL;
    if (!out) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_template_builtin: out is NULL");
    *out = NULL;
    if (!name) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_template_builtin: name is NULL");
    const qp_status status = chat_builtin(&c, name, err);
    return wrap(out, c, status, err);
}

const char *qp_template_builtin_name(int index) { return chat_builtin_name(index); }

const char *qp_template_builtin_stop(const char *name, int index) {
    return name ? chat_builtin_stop(name, index) : NULL;
}

const char *qp_template_peek_source(const qp_template *chat_template, size_t *source_bytes) {
    const span source = chat_template ? chat_source(chat_template->chat) : (span){NULL, 0};
    if (source_bytes) *source_bytes = source.bytes;
    return source.at;
}

void qp_template_free(qp_template *chat_template) {
    if (!chat_template) return;
    chat_free(chat_template->chat);
    mem_free(chat_template);
}

qp_status qp_template_render(const qp_template *chat_template, const char *input_json, size_t input_bytes, char **text,
                             size_t *text_bytes, bool *raised, qp_error *err) {
    json_t *input = NULL;
    strbuf out = {0};
    if (raised) *raised = false;
    if (!text) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_template_render: text is NULL");
    *text = NULL;
    if (text_bytes) *text_bytes = 0;
    if (!chat_template || !input_json)
        return err_set(err, QP_BAD_ARGUMENT, 0, "qp_template_render: %s is NULL",
                       chat_template ? "input_json" : "chat_template");
    ERR_TRY(json_parse(&input, input_json, input_bytes, "chat input", err));
    qp_status status = chat_render(chat_template->chat, input, &out, raised, err);
    json_decref(input);
    if (status == QP_OK && !(*text = strbuf_move(&out, text_bytes)))
        status = err_no_memory(err, out.bytes, "rendered text");
    strbuf_free(&out);
    return status;
}
