/* chat.h — messages, tools and flags -> the text that a model was trained on.
 *
 * A chat is a parsed template with the texts of the model's special tokens. The rules are those of transformers'
 * apply_chat_template: which file wins, what the template can see, where continue_final_message cuts. */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "base/err.h"
#include "base/str.h"
#include <jansson.h>

typedef struct chat chat; /* immutable, shared by threads */

/* From a model folder. `name` chooses among several templates (NULL: "default"). The files in the order in which
 * they win: chat_template.jinja with additional_chat_templates/NAME.jinja, chat_template.json, the chat_template of
 * tokenizer_config.json (one text, or a list of named ones). QP_NO_FILE: the folder has no template at all. */
qp_status chat_open(chat **out, const char *folder, const char *name, qp_error *err);
/* The same out of the text of a tokenizer_config.json; `where` names it in errors. */
qp_status chat_new_config(chat **out, const char *config, size_t bytes, const char *where, const char *name,
                          qp_error *err);
/* From source text; no special tokens. */
qp_status chat_new(chat **out, span source, qp_error *err);
/* A format of ours by name, for models without a template; an unknown name is an error that lists the known ones. */
qp_status chat_builtin(chat **out, const char *name, qp_error *err);
/* Names of the built-in formats: 0, 1, ... until NULL. */
const char *chat_builtin_name(int index);
/* Texts at which an answer in this format ends, beside the end tokens: 0, 1, ... until NULL. */
const char *chat_builtin_stop(const char *name, int index);
void chat_free(chat *c);

/* Appends the rendering to `out`. `input` is an object {"messages", "tools"?, "documents"?,
 * "add_generation_prompt"?, "continue_final_message"?, "now"? (seconds or ISO time), "tokens"? {"bos_token"...}};
 * any other key is a variable. *raised: the template called raise_exception; see tmpl_render. */
qp_status chat_render(const chat *c, const json_t *input, strbuf *out, bool *raised, qp_error *err);

/* Whether the template reads this variable. */
bool chat_mentions(const chat *c, const char *name);
/* The template's source text; lives as long as the chat. */
span chat_source(const chat *c);
/* Whether the template handles a message's content only as a string, so that a list of text parts must be joined
 * before rendering (chat_flatten). Found out by rendering a probe: see chat.c. */
bool chat_wants_flat_content(const chat *c);
/* A copy of `messages` where each content that is a list of text parts is their texts, joined without separator;
 * other parts are refused. The caller json_decref()s it. */
qp_status chat_flatten(json_t **out, const json_t *messages, qp_error *err);

#endif
