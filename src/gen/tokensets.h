/* tokensets.h — the sets of tokens that samplers use unless a job brings its own: bits over the vocabulary. */
#ifndef GEN_TOKENSETS_H
#define GEN_TOKENSETS_H

#include "text/tok.h"

typedef struct token_sets {
    uint32_t *dry_breakers; /* tokens at which a repetition may not go on: with . , ! ? < > [ ] ( ) { } " ` newline or
                               tab in them, and added ones */
    uint32_t *xtc_keep;     /* tokens that XTC does not remove: with a newline in them, and added ones */
} token_sets;

/* `t` may be NULL: then the sets are empty. */
qp_status token_sets_open(token_sets *out, const tok *t, int vocabulary, qp_error *err);
void token_sets_close(token_sets *s);
/* Bits of the ids; ids outside the vocabulary are refused, `what` names them. mem_free()d by the caller. */
qp_status token_set_of(uint32_t **out, const int32_t *ids, size_t n, int vocabulary, const char *what, qp_error *err);

#endif
