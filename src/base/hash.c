/* hash.c — content hashes of 64 and 128 bits. */
#include "hash.h"
#include <xxhash.h>

uint64_t hash_bytes(const void *bytes, size_t count, uint64_t seed) { return XXH3_64bits_withSeed(bytes, count, seed); }

hash_pair hash_bytes_pair(const void *bytes, size_t count, uint64_t seed) {
    const XXH128_hash_t h = XXH3_128bits_withSeed(bytes, count, seed);
    return (hash_pair){h.low64, h.high64};
}
