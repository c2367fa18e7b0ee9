/* models.h — the loaded model with all that belongs to it, counted while anybody uses it.
 *
 * At most one is loaded. Unloading takes it away from new requests; it is freed when the last request has let go. */
#ifndef SERVER_MODELS_H
#define SERVER_MODELS_H

#include "http.h"
#include <jansson.h>

struct server;
struct adapter_set;

/* A chat template in use: the model's own, or one from the template folder. Immutable. */
typedef struct chat_template {
    atomic_int users;
    char name[128];
    qp_template *parsed;
    const char *source; /* the template's own text */
} chat_template;

/* Immutable after loading but for `users`, the template and the adapters, which models_take_template and adapters.h
 * guard. */
typedef struct model_slot {
    atomic_int users;
    struct server *server;
    char id[256], path[4096];
    int64_t created; /* seconds since 1970 */
    qp_model *model;
    qp_generator *generator;
    const qp_tokenizer *tokenizer; /* the model's; never NULL: a model without one is not loaded */
    qp_model_info info;
    qp_generator_options limits;   /* as they are in use, without zeros */
    double rope_scale, rope_alpha; /* as they were asked for; 0: the model's own */
    uint64_t max_length;           /* tokens of prompt and answer together */
    qp_pooling pooling;            /* of embeddings */
    char fingerprint[16];          /* "q" and hex digits: build, model, kernels */
    chat_template *chat_template;  /* NULL: none; swapped by /v1/template/switch */
    struct adapter_set *adapters;  /* NULL: none; swapped by /v1/lora/load */
} model_slot;

/* The loaded model, held; NULL if there is none. */
model_slot *models_take(struct server *s);
/* Whose engine may be at work: the loaded one, or the one that leaves. For figures; held; NULL if there is none. */
model_slot *models_take_working(struct server *s);
void models_drop(model_slot *m);

/* The model that answers a request whose field `model` is `name` (NULL: not given), held. NULL: the request has been
 * answered (nothing loaded, loading, draining, another name in strict mode), or waits for a model that is loaded for
 * it: its handler then runs once more, from its beginning. */
model_slot *models_for_request(http_request *r, const char *name);

/* The template in use, or the named one of the template folder (`name` may be NULL), held. NULL and an error if there
 * is none. */
qp_status models_take_template(chat_template **out, model_slot *m, const char *name, qp_error *err);
void models_drop_template(chat_template *t);

/* The card of GET /v1/models and GET /v1/model. NULL when memory is short. */
json_t *models_card(model_slot *m);

#endif
