/* models_impl.h — what models.c, loader.c and templates.c share about the loaded model. */
#ifndef SERVER_MODELS_IMPL_H
#define SERVER_MODELS_IMPL_H

#include "base/bell.h"
#include "models.h"

typedef struct models models;

struct models {
    struct server *server;
    bell bell; /* rings when a use ends */
    model_slot *loaded;
    model_slot *leaving; /* taken away, and not yet let go by all */
};

qp_status models_new(models **out, struct server *s, qp_error *err);
/* Lets go of the loaded model, after everybody else has. */
void models_free(models *all);
/* Puts another model (NULL: none) in the place of the loaded one; gives back the old one with its use. */
model_slot *models_put(models *all, model_slot *fresh);
/* Takes the loaded model away from new requests; it is `leaving` then, with the use that it had. */
void models_retire(models *all);
/* The one that leaves, no longer listed, with that use; NULL: none. */
model_slot *models_release(models *all);
/* Waits until the caller has the only use; false at the deadline. */
bool models_wait_alone(model_slot *m, double deadline);
/* For one that was never put. */
void models_slot_free(model_slot *m);
/* Taken; NULL: none. */
void models_set_template(model_slot *m, chat_template *fresh);
/* "FP16". */
const char *models_cache_word(const model_slot *m);

#endif
