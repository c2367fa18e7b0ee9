/* chat_format.h — how messages become the ids of a prompt, and where an answer in that format ends. */
#ifndef CLI_CHAT_FORMAT_H
#define CLI_CHAT_FORMAT_H

#include "input.h"
#include "base/json.h"
#include "server/tool_format.h"

enum { CHAT_STOPS_MAX = 8 };

typedef struct chat_format {
    const qp_model *model;
    const char *mode; /* NULL: the model's own template */
    qp_template *chat;
    json_t *tokens; /* texts of "bos_token" and "eos_token", for a mode */
    const char *stops[CHAT_STOPS_MAX];
    int32_t stop_ids[CHAT_STOPS_MAX]; /* those of the stops that are one special token, which a text does not show */
    size_t n_stops, n_stop_ids;
    const thought_format *thoughts; /* the tags around reasoning that the template knows; NULL: none */
    bool shows_special;             /* these tags are special tokens */
} chat_format;

/* `mode` names a prompt format; NULL: the model's template. chat_format_close() is owed in any case. */
qp_status chat_format_open(chat_format *f, session *s, const qp_model *model, const char *mode, qp_error *err);
void chat_format_close(chat_format *f);
/* The prompt that asks for an answer to `messages`, a JSON array. *raised: the template itself refused them. */
qp_status chat_format_prompt(const chat_format *f, const char *messages, size_t bytes, input_ids *out,
                             bool *starts_in_thought, bool *raised, qp_error *err);

#endif
