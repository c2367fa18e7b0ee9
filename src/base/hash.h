/* hash.h — 64-bit content hashes (XXH3 of libxxhash). */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *bytes, size_t count, uint64_t seed);

#endif
