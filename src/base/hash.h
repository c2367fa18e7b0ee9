/* hash.h — content hashes of 64 and 128 bits (XXH3 of libxxhash). */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *bytes, size_t count, uint64_t seed);

typedef struct hash_pair {
    uint64_t low, high;
} hash_pair;

hash_pair hash_bytes_pair(const void *bytes, size_t count, uint64_t seed);

#endif
