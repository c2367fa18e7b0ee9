/* component.h — the shape that normalisers, pre-tokenizers, processors and decoders share in a tokenizer.json: an
 * object with a "type", one of which is a "Sequence" of others.
 *
 * Called by the four *_parse functions; each brings the name of its part in errors, the key of the list in its
 * sequences and a function that takes one component. */
#ifndef TEXT_COMPONENT_H
#define TEXT_COMPONENT_H

#include "base/json.h"

typedef struct component_walk {
    const char *where; /* begins the errors */
    const char *list;  /* the key of a sequence's members */
    /* One that is no sequence; *known stays true unless its type has no row. */
    qp_status (*take)(void *owner, const char *type, const json_t *json, bool *known, qp_error *err);
} component_walk;

/* Calls `take` in order for each component of `json`; absent or null: none. */
qp_status component_each(const component_walk *w, void *owner, const json_t *json, qp_error *err);

#endif
