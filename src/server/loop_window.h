/* loop_window.h — do the newest tokens, so many, only repeat a piece? */
#ifndef SERVER_LOOP_WINDOW_H
#define SERVER_LOOP_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOOP_WINDOW_PERIOD = 512 }; /* longest piece */

typedef struct loop_window {
    int64_t window; /* tokens that must be repetition; 0: never looked for */
    uint64_t n;
    int32_t ids[LOOP_WINDOW_PERIOD];      /* the newest, ring */
    uint32_t run[LOOP_WINDOW_PERIOD + 1]; /* [p]: newest tokens that equal the one p before */
} loop_window;

/* One token more. True: at least `window` tokens are a piece that stands there at least three times. */
bool loop_window_feed(loop_window *l, int32_t id);

#endif
