/* embedding_fields.h — what a request for vectors asks for, read and checked. */
#ifndef SERVER_EMBEDDING_FIELDS_H
#define SERVER_EMBEDDING_FIELDS_H

#include "field.h"
#include "models.h"

typedef struct embedding_text {
    int32_t *ids; /* qp_free()d */
    size_t n_ids;
} embedding_text;

typedef struct embedding_ask {
    arena memory;
    embedding_text *texts;
    size_t n, dimensions; /* dimensions 0: all that the model has */
    bool is_base64, is_llamacpp;
    double timeout;     /* 0: none */
    const json_t *lora; /* NULL: not given */
} embedding_ask;

/* For the OpenAPI description, too. */
extern const field_row embedding_rows[];
extern const size_t embedding_row_count;

/* embedding_ask_free is owed in any case. */
bool embedding_ask_read(embedding_ask *out, const json_t *body, bool is_llamacpp, const model_slot *m, refusal *why);
void embedding_ask_free(embedding_ask *a);

#endif
