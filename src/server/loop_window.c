/* loop_window.c — do the newest tokens only repeat a piece?
 *
 * Called by turn.c for each token. For each period it is counted how many of the newest tokens equal the one a period
 * before; a piece of p tokens stands there over run + p of them. */
#include "loop_window.h"

bool loop_window_feed(loop_window *l, int32_t id) {
    if (!l->window) return false;
    const uint64_t most = l->n < LOOP_WINDOW_PERIOD ? l->n : LOOP_WINDOW_PERIOD;
    bool found = false;
    for (uint64_t p = 1; p <= most; p++) {
        const bool same = l->ids[(l->n - p) % LOOP_WINDOW_PERIOD] == id;
        l->run[p] = same ? l->run[p] + 1 : 0;
        found |= l->run[p] >= 2 * p && l->run[p] + p >= (uint64_t)l->window;
    }
    l->ids[l->n++ % LOOP_WINDOW_PERIOD] = id;
    return found;
}
