/* prompt.h — from text or messages to the ids of a prompt. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "input.h"

/* The text as ids; `flags` of QP_TOKENIZE_... */
qp_status prompt_tokenize(input_ids *out, const qp_model *model, const char *text, size_t bytes, unsigned flags,
                          qp_error *err);
/* Puts messages (a JSON array as text), ready for an answer, through a template. */
qp_status prompt_render(strbuf *out, const qp_template *chat, const char *messages, size_t bytes, qp_error *err);
/* The model's own template. */
qp_status prompt_template(qp_template **out, session *s, qp_error *err);
/* The array that holds this one message of a user. */
void prompt_add_message(strbuf *out, const char *text, size_t bytes);

#endif
