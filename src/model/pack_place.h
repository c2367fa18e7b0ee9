/* pack_place.h — where the packed weights of a model are kept, and what they are made of. */
#ifndef MODEL_PACK_PLACE_H
#define MODEL_PACK_PLACE_H

#include "format/checkpoint.h"

typedef struct pack_place {
    char path[4096];
    uint64_t source; /* another number when the model's files change, or the program does */
} pack_place;

/* `where`: "model" for beside the model's files, else a folder for those of any number of models; `as`: the
 * architecture that the model is read as, or NULL. */
qp_status pack_place_find(pack_place *out, const char *where, const char *model, const char *as, const checkpoint *c,
                          qp_error *err);

#endif
