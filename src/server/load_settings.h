/* load_settings.h — how a model is loaded: what the request says, else the model's folder, else the configuration. */
#ifndef SERVER_LOAD_SETTINGS_H
#define SERVER_LOAD_SETTINGS_H

#include "loader.h"
#include <jansson.h>

struct config;

/* Takes the settings that the document has (names as TabbyAPI's), and leaves the others alone. */
qp_status load_settings_read(load_order *o, const json_t *document, const char *where, qp_error *err);
/* The folder of model_dir that has this name. QP_NO_FILE: there is none. */
qp_status load_settings_find(load_order *o, const struct config *c, const char *name, qp_error *err);
/* Fills what is not set yet, from o->path/tabby_config.yml and the configuration: all of it for the first model, of
 * later ones what use_as_default names. What this server does not have is told to `warn`. */
qp_status load_settings_complete(load_order *o, const struct config *c, const qp_log *warn, qp_error *err);
/* The adapters of the configuration; `out` has room for ADAPTERS_MOST. */
qp_status load_settings_wishes(adapter_wish *out, int *n, const struct config *c, qp_error *err);
/* Is this a setting that use_as_default may name? */
bool load_settings_knows(const char *name);

#endif
