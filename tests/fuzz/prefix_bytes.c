/* prefix_bytes.c — any bytes as a prefix file, as they come and with the checksum put right: refused with words, or
 * whole pages that a chain finds again; afterwards no page is in use. */
#include "base/hash.h"
#include "cache/prefix_file.h"
#include <stdlib.h>
#include <string.h>

enum { PAGES = 3, HEADER = 64, MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const store_shape shape = {.n_layers = 1, .n_kv_heads = 1, .head_dim = 2, .type = KV_F16};

/* Whether what was loaded is found by the ids that the file names. */
static void look_up(const prefix_cache *cache, const uint8_t *bytes, size_t n) {
    int32_t ids[PAGES * DEV_PAGE_TOKENS];
    chain c;
    if (n % DEV_PAGE_TOKENS || n > sizeof ids / sizeof *ids) abort();
    memcpy(ids, bytes + HEADER, n * sizeof *ids);
    chain_open(&c, cache->table, cache->root);
    if (chain_reuse_whole(&c, ids, (int64_t)n) != (int64_t)n) abort();
    chain_close(&c);
}

static void load(device *dev, const uint8_t *bytes, size_t size) {
    const dev_split whole = dev_whole(dev, shape.n_layers);
    kv_store store;
    page_table *table;
    if (store_open(&store, &whole, &shape, PAGES, NULL) || pages_open(&table, PAGES, NULL, NULL)) abort();
    const prefix_cache cache = {table, &store, 1};
    size_t n = 0;
    qp_error err = {0};
    const qp_status status = prefix_load_bytes(&cache, bytes, size, "fuzz", &n, &err);
    if (status != QP_OK && (err.code != status || !err.text[0])) abort();
    if (n) look_up(&cache, bytes, n);
    page_stats stats;
    pages_get_stats(table, &stats);
    if (stats.used || stats.cached * DEV_PAGE_TOKENS != n) abort();
    pages_close(table);
    store_close(&store);
}

/* As the file's writer sums up: header, ids, each page, one after the other. */
static void put_sum_right(uint8_t *bytes, size_t size) {
    size_t page_bytes;
    if (!store_page_bytes(&shape, &page_bytes)) abort();
    const size_t each = page_bytes + DEV_PAGE_TOKENS * sizeof(int32_t);
    if (size < HEADER + sizeof(uint64_t)) return;
    const size_t n = (size - HEADER - sizeof(uint64_t)) / each, ids_bytes = n * DEV_PAGE_TOKENS * sizeof(int32_t);
    uint64_t sum = hash_bytes(bytes + HEADER, ids_bytes, hash_bytes(bytes, HEADER, 0));
    for (size_t i = 0; i < n; i++) sum = hash_bytes(bytes + HEADER + ids_bytes + i * page_bytes, page_bytes, sum);
    memcpy(bytes + size - sizeof sum, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t right[MOST];
    device *dev;
    if (size > MOST) return -1;
    if (dev_open(&dev, &(dev_options){.kind = "cpu", .cpu_level = "ref", .threads = 1}, NULL)) abort();
    load(dev, data, size);
    if (size) memcpy(right, data, size);
    put_sum_right(right, size);
    load(dev, right, size);
    dev_close(dev);
    return 0;
}
