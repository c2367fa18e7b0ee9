/* page_map.c — whole pages by the hash of all tokens up to their end.
 *
 * Called by pages.c and page_chain.c. Hashes that collide cost time and nothing else: a page is found only if its ids
 * and its parent are the wanted ones. */
#include "page_table.h"
#include <string.h>

static int32_t *bucket_of(const page_table *t, hash_pair hash) { return &t->buckets[hash.low & t->bucket_mask]; }

int32_t map_find(const page_table *t, hash_pair hash, int32_t parent, uint64_t root, const int32_t *ids) {
    for (int32_t p = *bucket_of(t, hash); p >= 0; p = t->pages[p].next_in_bucket) {
        const page *at = &t->pages[p];
        if (at->hash.low == hash.low && at->hash.high == hash.high && at->parent == parent && at->root == root &&
            !memcmp(t->ids[p], ids, sizeof t->ids[p]))
            return p;
    }
    return -1;
}

void map_insert(page_table *t, int32_t p) {
    int32_t *bucket = bucket_of(t, t->pages[p].hash);
    t->pages[p].next_in_bucket = *bucket;
    *bucket = p;
}

void map_remove(page_table *t, int32_t p) {
    int32_t *link = bucket_of(t, t->pages[p].hash);
    while (*link != p) link = &t->pages[*link].next_in_bucket;
    *link = t->pages[p].next_in_bucket;
}
