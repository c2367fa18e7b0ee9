/* prompt.c — tokenises texts and renders messages, for generate, its batches and chat. */
#include "prompt.h"
#include "load.h"
#include "base/mem.h"
#include <limits.h>

qp_status prompt_tokenize(input_ids *out, const qp_model *model, const char *text, size_t bytes, unsigned flags,
                          qp_error *err) {
    const qp_tokenizer *tokenizer = qp_model_peek_tokenizer(model);
    if (!tokenizer) return err_set(err, QP_UNSUPPORTED, 0, "the model has no tokenizer: give its prompt as ids");
    int32_t *ids;
    size_t count;
    ERR_TRY(qp_tokenize(tokenizer, text, bytes, flags, &ids, &count, err));
    *out = (input_ids){mem_copy(ids, count ? count : 1, sizeof *ids), count, count};
    qp_free(ids);
    return out->at ? QP_OK : err_no_memory(err, count * sizeof *ids, "the prompt");
}

qp_status prompt_template(qp_template **out, session *s, qp_error *err) {
    char path[PATH_MAX];
    ERR_TRY(load_path(path, sizeof path, s, err));
    return qp_template_open(out, path, NULL, err);
}

void prompt_add_message(strbuf *out, const char *text, size_t bytes) {
    strbuf_text(out, "[{\"role\": \"user\", \"content\": ");
    strbuf_json(out, text, bytes);
    strbuf_text(out, "}]");
}

qp_status prompt_render(strbuf *out, const qp_template *chat, const char *messages, size_t bytes, qp_error *err) {
    strbuf input = {0};
    char *rendered = NULL;
    size_t n = 0;
    strbuf_text(&input, "{\"messages\": ");
    strbuf_add(&input, messages, bytes);
    strbuf_text(&input, ", \"add_generation_prompt\": true}");
    qp_status status = strbuf_status(&input, err, "the messages");
    if (status == QP_OK) status = qp_template_render(chat, input.at, input.bytes, &rendered, &n, NULL, err);
    if (status == QP_OK) {
        strbuf_clear(out);
        strbuf_add(out, rendered, n);
        status = strbuf_status(out, err, "the rendered messages");
    }
    qp_free(rendered);
    strbuf_free(&input);
    return status;
}
