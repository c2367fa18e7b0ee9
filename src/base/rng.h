/* rng.h — random numbers as a pure function of (seed, counter): Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011). No state, so rewinding, drafting or batching cannot change a stream. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

void rng_philox(uint64_t seed, uint64_t counter_high, uint64_t counter_low, uint32_t out[4]);
/* Uniform in [0, 1) with 53 random bits. */
double rng_uniform(uint64_t seed, uint64_t counter_high, uint64_t counter_low);

#endif
