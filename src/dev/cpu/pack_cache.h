/* pack_cache.h — weights as pack.c has re-laid them, kept in a file and mapped by later loads.
 *
 * Made by cpu.c when the device opens, asked by pack.c for each weight, settled when all have come. A file that is of
 * use is mapped: a load copies nothing, and all processes share one copy. Any other is written anew, which never makes
 * a load fail. */
#ifndef DEV_CPU_PACK_CACHE_H
#define DEV_CPU_PACK_CACHE_H

#include "base/pool.h"

typedef struct pack_cache pack_cache;

/* `source` tells of what files and by which program the weights are made. Fails for lack of memory alone. */
qp_status pack_cache_open(pack_cache **out, const char *path, uint64_t source, pool *p, const qp_log *log,
                          qp_error *err);
/* Whether there is a file of use, so that finds find. NULL is a fine cache, here and below. */
bool pack_cache_is_full(const pack_cache *c);
/* The bytes of that weight, until the cache is closed; NULL: not there. */
const uint8_t *pack_cache_find(pack_cache *c, uint64_t key, size_t bytes);
/* What a find did not have. */
void pack_cache_add(pack_cache *c, uint64_t key, const uint8_t *at, size_t bytes);
/* All weights have been asked for: a new file gets its name. */
void pack_cache_settle(pack_cache *c);
void pack_cache_close(pack_cache *c);

#endif
