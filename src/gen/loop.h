/* loop.h — does a model only repeat itself? */
#ifndef GEN_LOOP_H
#define GEN_LOOP_H

#include <stddef.h>
#include <stdint.h>

enum { LOOP_MOST_PERIOD = 512, LOOP_LEAST_TOKENS = 64 };

/* Zero-initialised has seen nothing. */
typedef struct loop_watch {
    int repeats;                        /* of the piece, >= 2; 0: not looked for */
    uint32_t run[LOOP_MOST_PERIOD + 1]; /* [p]: newest tokens that equal the one p before */
} loop_watch;

/* After ids[n - 1] of an answer of n tokens was added: the shortest period whose piece stands there at least
 * l->repeats times in a row and over at least LOOP_LEAST_TOKENS tokens; 0: none. */
int loop_feed(loop_watch *l, const int32_t *ids, size_t n);
/* Tokens were taken back: begin to count again. */
void loop_reset(loop_watch *l);

#endif
