/* loop.c — finds a piece that repeats at the end of an answer.
 *
 * Called by emit.c after each token where the job asks for it. For each period it is counted how many of the newest
 * tokens equal the one a period before; a piece of p tokens stands r times at the end when (r - 1) p do. */
#include "loop.h"

int loop_feed(loop_watch *l, const int32_t *ids, size_t n) {
    if (!l->repeats) return 0;
    const int32_t id = ids[n - 1];
    int found = 0;
    for (size_t p = 1; p <= LOOP_MOST_PERIOD && p < n; p++) {
        l->run[p] = ids[n - 1 - p] == id ? l->run[p] + 1 : 0;
        const uint64_t length = (uint64_t)l->run[p] + p;
        if (!found && length >= LOOP_LEAST_TOKENS && length >= p * (uint64_t)l->repeats) found = (int)p;
    }
    return found;
}

void loop_reset(loop_watch *l) { *l = (loop_watch){.repeats = l->repeats}; }
