/* synth_random.h — what random weights are made of, whatever their format. Used by synth.c and its formats. */
#ifndef MODEL_SYNTH_RANDOM_H
#define MODEL_SYNTH_RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* xorshift64* (Vigna 2014): a few bytes a cycle, good enough for values whose only job is to be unlike. The state is
 * not 0. */
static inline uint64_t synth_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Dull;
}

static inline void synth_random_bytes(uint8_t *to, size_t bytes, uint64_t seed) {
    uint64_t state = seed | 1;
    for (size_t at = 0; at < bytes; at += sizeof state) {
        const uint64_t more = synth_random(&state);
        memcpy(to + at, &more, bytes - at < sizeof more ? bytes - at : sizeof more);
    }
}

#endif
