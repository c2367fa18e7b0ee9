/* demand.h — the form that a request demands of its answer's text: JSON, a schema, a regular expression, a grammar, a
 * choice; read from whichever of the many fields says so. */
#ifndef SERVER_DEMAND_H
#define SERVER_DEMAND_H

#include "ask.h"

/* Texts live in the request's arena. */
typedef struct demand {
    const char *param;      /* the field; NULL: any text will do */
    const char *kind;       /* of qp_grammar_new */
    span source;            /* ends with a zero byte */
    const char *whitespace; /* as in qp_grammar_options */
    bool is_lenient;        /* what cannot be enforced is told and left out ... */
    bool is_strict;         /* ... or, down to unknown formats, refused */
} demand;

/* Reads and checks the fields; whether the source is one is for the compiler to say (form.c). */
bool demand_read(demand *out, ask *a, refusal *why);
/* A JSON value as text in the request's arena, numbers spelled as short as they came; at == NULL: no memory. */
span demand_dump(ask *a, const json_t *value);

#endif
