/* presets.h — sampling presets: what a request's fields are when it does not say, and what they are in any case. */
#ifndef SERVER_PRESETS_H
#define SERVER_PRESETS_H

#include "http.h"
#include <jansson.h>

struct server;
struct config;

/* Applies the selected preset to a request's object, before it is validated. Never touches stream, messages, model. */
qp_status presets_apply(struct server *s, json_t *body, qp_error *err);

typedef struct presets presets;

/* Selects the configured preset, if there is one. */
qp_status presets_new(presets **out, const struct config *c, qp_error *err);
void presets_free(presets *p);
/* Selects a preset by name: a file of the folder, or one that came with quipu. */
qp_status presets_select(presets *p, const char *name, qp_error *err);
/* Takes {field: {override, force, additive}} itself. */
qp_status presets_set(presets *p, const json_t *overrides, qp_error *err);
void presets_clear(presets *p);
/* {"selected_preset", "overrides", "presets"}; NULL when memory is short. */
json_t *presets_describe(presets *p);

#endif
