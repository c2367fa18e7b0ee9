/* naming.h — under which prefix a checkpoint has the tensors of the text model. */
#ifndef MODEL_NAMING_H
#define MODEL_NAMING_H

#include "arch.h"

/* What stands before the names of the architecture's row, and what of them is missing. */
typedef struct naming {
    const char *prefix;  /* instead of ... */
    const char *instead; /* ... this, where a name begins with it */
} naming;

/* How this checkpoint names tensors: found by where its embedding is. Plain where that is nowhere. */
naming naming_find(const checkpoint *c, const arch_row *row);
/* A row's name as the checkpoint has it. */
qp_status names_stored(char *out, size_t capacity, naming how, const char *name, qp_error *err);
/* The reverse; false where it does not fit. */
bool names_plain(char *out, size_t capacity, naming how, const char *stored);

#endif
