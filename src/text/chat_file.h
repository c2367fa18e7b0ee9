/* chat_file.h — what a model folder says about its chat template: the source, and the texts of special tokens. */
#ifndef TEXT_CHAT_FILE_H
#define TEXT_CHAT_FILE_H

#include "base/json.h"

typedef struct chat_file {
    char *source; /* of the template that was asked for */
    size_t source_bytes;
    char *tool_source; /* of "tool_use", if no name was asked for and there is one; else NULL */
    size_t tool_source_bytes;
    json_t *tokens; /* {"bos_token": "<s>", ...}; NULL: none */
} chat_file;

/* name NULL: "default". QP_NO_FILE: no template at all. */
qp_status chat_file_read(chat_file *out, const char *folder, const char *name, qp_error *err);
/* The same from the text of a tokenizer_config.json alone; `where` names it in errors. */
qp_status chat_file_parse(chat_file *out, const char *config, size_t bytes, const char *where, const char *name,
                          qp_error *err);
void chat_file_free(chat_file *file);

#endif
