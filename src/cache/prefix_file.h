/* prefix_file.h — whole pages of the cache in a file: a prompt's beginning that need not be computed again. */
#ifndef CACHE_PREFIX_FILE_H
#define CACHE_PREFIX_FILE_H

#include "store.h"

/* The cache that a file is written from or read into. */
typedef struct prefix_cache {
    page_table *table;
    kv_store *store;
    uint64_t root; /* as chain_open's */
} prefix_cache;

/* Writes what the cache holds of ids[0 .. n), as far as it goes in whole pages. The file appears complete or not at
 * all. */
qp_status prefix_save(const prefix_cache *cache, const char *path, const int32_t *ids, size_t n, size_t *n_saved,
                      qp_error *err);
/* Offers the file's pages to all chains, as many as find room. Any file is safe to load: sizes, shape and checksum are
 * looked at first. QP_BUSY: not even one page could be had. */
qp_status prefix_load(const prefix_cache *cache, const char *path, size_t *n_loaded, qp_error *err);
/* The same from memory; errors begin with `name`. */
qp_status prefix_load_bytes(const prefix_cache *cache, const uint8_t *bytes, size_t count, const char *name,
                            size_t *n_loaded, qp_error *err);

#endif
