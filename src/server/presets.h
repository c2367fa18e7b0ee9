/* presets.h — sampling presets: what a request's fields are when it does not say, and what they are in any case. */
#ifndef SERVER_PRESETS_H
#define SERVER_PRESETS_H

#include "http.h"
#include <jansson.h>

struct server;

/* Applies the selected preset to a request's object, before it is validated. Never touches stream, messages, model. */
qp_status presets_apply(struct server *s, json_t *body, qp_error *err);

#endif
