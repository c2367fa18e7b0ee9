/* oai_messages.h — the messages of a chat request in the one form that templates are given.
 *
 * The other chat dialects translate theirs into OpenAI's and then come here too. */
#ifndef SERVER_OAI_MESSAGES_H
#define SERVER_OAI_MESSAGES_H

#include "field.h"

/* A new array, for the caller to json_decref. Contents are strings, `developer` is `system`, `function` is `tool`,
 * arguments of calls are objects where they parse, `reasoning_content` has its twin `reasoning`, and tool results
 * follow the order of the calls that they answer. `name` is the array's in refusals. */
bool oai_messages_read(json_t **out, const json_t *messages, const char *name, refusal *why);

/* The text of a content: a string, null (""), or parts of text joined without separator; appended to `out`. */
bool oai_messages_text(strbuf *out, const json_t *content, const char *place, refusal *why);

#endif
