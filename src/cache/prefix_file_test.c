/* prefix_file_test.c — prefixes go out to a file and come back byte for byte; files that are cut off, damaged, hostile
 * or of another model are refused with words, and nothing of them is offered. */
#include "prefix_file.h"
#include "harness.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"

enum { P = DEV_PAGE_TOKENS, PAGES = 6, MOST = PAGES * P, HEADER = 64 };

static int32_t story[MOST];
static char folder[64], path[96];
static device *dev;

static int begin(void **state) {
    for (int i = 0; i < MOST; i++) story[i] = 1000 + i;
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/prefix", folder);
    return dev_open(&dev, &(dev_options){.kind = "cpu", .cpu_level = "ref", .threads = 1}, NULL) != QP_OK;
}

static int end(void **state) {
    dev_close(dev);
    harness_remove(folder);
    return 0;
}

/* A cache with a shape of its own. */
typedef struct room {
    kv_store store;
    page_table *table;
    prefix_cache cache;
} room;

static const store_shape small = {1, 1, 2, .type = KV_F16};

static void open_room(room *r, const store_shape *shape, int n_pages, uint64_t root) {
    const dev_split whole = dev_whole(dev, shape->n_layers);
    assert_int_equal(store_open(&r->store, &whole, shape, n_pages, NULL), QP_OK);
    assert_int_equal(pages_open(&r->table, n_pages, NULL, NULL), QP_OK);
    r->cache = (prefix_cache){r->table, &r->store, root};
}

static void close_room(room *r) {
    pages_close(r->table);
    store_close(&r->store);
}

/* Fills the cache with the story; page i has bytes of its own. */
static void tell(room *r, int64_t n) {
    chain c;
    const page_mover mover = store_mover(&r->store);
    uint8_t *bytes = mem_array(mover.page_bytes, 1);
    chain_open(&c, r->table, r->cache.root);
    assert_int_equal(chain_reserve(&c, n, NULL), QP_OK);
    for (int i = 0; i < c.n_pages; i++) {
        for (size_t k = 0; k < mover.page_bytes; k++) bytes[k] = (uint8_t)((k + (size_t)i * 77) * 2654435761u >> 11);
        store_load(&r->store, c.pages[i], bytes);
    }
    chain_advance(&c, story, n);
    chain_close(&c);
    mem_free(bytes);
}

/* The whole pages of the story that a chain finds, with their bytes. */
static int64_t found(room *r, uint8_t *bytes) {
    chain c;
    const page_mover mover = store_mover(&r->store);
    chain_open(&c, r->table, r->cache.root);
    const int64_t n = chain_reuse_whole(&c, story, MOST);
    for (int i = 0; bytes && i < c.n_pages; i++)
        store_save(&r->store, c.pages[i], bytes + (size_t)i * mover.page_bytes);
    chain_close(&c);
    return n;
}

static void out_and_back(void **state) {
    static const store_shape shapes[] = {{1, 1, 2, .type = KV_F16}, {3, 2, 8, .type = KV_F32}};
    for (size_t i = 0; i < HARNESS_COUNT(shapes); i++) {
        room a, b;
        size_t n, page_bytes;
        assert_true(store_page_bytes(&shapes[i], &page_bytes));
        uint8_t *saved = mem_zarray(PAGES, page_bytes), *loaded = mem_zarray(PAGES, page_bytes);
        open_room(&a, &shapes[i], PAGES, 5);
        open_room(&b, &shapes[i], PAGES, 5);
        tell(&a, 4 * P + 30);
        assert_int_equal(prefix_save(&a.cache, path, story, MOST, &n, NULL), QP_OK);
        assert_int_equal(n, 4 * P);
        assert_int_equal(prefix_load(&b.cache, path, &n, NULL), QP_OK);
        assert_int_equal(n, 4 * P);
        assert_int_equal(found(&a, saved), 4 * P);
        assert_int_equal(found(&b, loaded), 4 * P);
        assert_memory_equal(saved, loaded, PAGES * page_bytes);
        assert_int_equal(prefix_load(&b.cache, path, &n, NULL), QP_OK); /* once more: nothing is there twice */
        assert_int_equal(pages_available(b.table), PAGES);
        page_stats stats;
        pages_get_stats(b.table, &stats);
        assert_int_equal(stats.cached, 4);
        mem_free(saved);
        mem_free(loaded);
        close_room(&a);
        close_room(&b);
    }
}

/* As far as asked, as far as it is there, as far as there is room. */
static void as_far_as_it_goes(void **state) {
    room a, b;
    size_t n = 99;
    qp_error err;
    open_room(&a, &small, PAGES, 5);
    open_room(&b, &small, 2, 5);
    unlink(path);
    assert_int_equal(prefix_save(&a.cache, path, story, MOST, &n, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "nothing to save: the cache does not hold the first 256 of these 1536 tokens"));
    assert_int_equal(n, 0);
    assert_false(file_exists(path));
    tell(&a, MOST);
    assert_int_equal(prefix_save(&a.cache, path, story, 3 * P + 1, &n, NULL), QP_OK);
    assert_int_equal(n, 3 * P);
    assert_int_equal(prefix_load(&b.cache, path, &n, NULL), QP_OK);
    assert_int_equal(n, 2 * P);
    assert_int_equal(found(&b, NULL), 2 * P);
    chain c;
    chain_open(&c, b.table, 6);
    assert_int_equal(chain_reserve(&c, 2 * P, NULL), QP_OK);
    assert_int_equal(prefix_load(&b.cache, path, &n, &err), QP_BUSY);
    assert_int_equal(n, 0);
    chain_close(&c);
    close_room(&a);
    close_room(&b);
}

/* What lies in the second tier is saved, too. */
static void out_of_the_second_tier(void **state) {
    room a;
    size_t n;
    open_room(&a, &small, 3, 5);
    const page_mover mover = store_mover(&a.store);
    assert_int_equal(pages_spill(a.table, 100000, &mover, NULL), QP_OK);
    tell(&a, 3 * P);
    chain c;
    chain_open(&c, a.table, 6);
    assert_int_equal(chain_reserve(&c, 3 * P, NULL), QP_OK);
    chain_close(&c);
    assert_int_equal(prefix_save(&a.cache, path, story, MOST, &n, NULL), QP_OK);
    assert_int_equal(n, 3 * P);
    close_room(&a);
}

static void files_of_others_are_refused(void **state) {
    static const struct {
        store_shape shape;
        uint64_t root;
        const char *says;
    } cases[] = {
        {{2, 1, 2, .type = KV_F16}, 5, "number of layers is 1, this cache has 2"},
        {{1, 2, 2, .type = KV_F16}, 5, "number of key heads is 1, this cache has 2"},
        {{1, 1, 4, .type = KV_F16}, 5, "head size is 2, this cache has 4"},
        {{1, 1, 2, .type = KV_F32}, 5, "cache type (0: fp16, 1: fp32, 2: q8, 3: q6, 4: q4) is 0, this cache has 1"},
        {{1, 1, 2, .type = KV_Q4}, 5, "cache type (0: fp16, 1: fp32, 2: q8, 3: q6, 4: q4) is 0, this cache has 4"},
        {{1, 1, 2, .type = KV_F16}, 6, "identity of the model is 5, this cache has 6"},
    };
    room a, b;
    qp_error err;
    size_t n;
    open_room(&a, &small, PAGES, 5);
    tell(&a, P);
    assert_int_equal(prefix_save(&a.cache, path, story, P, NULL, NULL), QP_OK);
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        open_room(&b, &cases[i].shape, PAGES, cases[i].root);
        assert_int_equal(prefix_load(&b.cache, path, &n, &err), QP_UNSUPPORTED);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
        assert_int_equal(pages_available(b.table), PAGES);
        close_room(&b);
    }
    close_room(&a);
}

/* ---- hostile files ---- */

/* The file must be refused with words, and nothing may be offered. */
static qp_status refuse(room *r, const uint8_t *bytes, size_t count) {
    qp_error err = {0};
    size_t n = 9;
    page_stats stats;
    uint8_t *exact = mem_copy(bytes, count, 1); /* for the address sanitizer */
    const qp_status status = prefix_load_bytes(&r->cache, exact, count, "some file", &n, &err);
    mem_free(exact);
    if (status == QP_OK) fail_msg("%zu bytes were loaded", count);
    assert_int_equal(err.code, status);
    assert_non_null(strstr(err.text, "some file: "));
    assert_int_equal(n, 0);
    pages_get_stats(r->table, &stats);
    assert_int_equal(stats.free, stats.pages);
    return status;
}

static uint8_t *good_file(size_t *count) {
    room a;
    char *bytes;
    open_room(&a, &small, PAGES, 5);
    tell(&a, 2 * P);
    assert_int_equal(prefix_save(&a.cache, path, story, MOST, NULL, NULL), QP_OK);
    assert_int_equal(file_read(&bytes, count, path, 1 << 20, NULL), QP_OK);
    close_room(&a);
    return (uint8_t *)bytes;
}

static void cut_off_at_every_byte(void **state) {
    size_t count;
    room b;
    uint8_t *bytes = good_file(&count);
    open_room(&b, &small, PAGES, 5);
    for (size_t n = 0; n < count; n++) assert_int_equal(refuse(&b, bytes, n), QP_BAD_FORMAT);
    bytes = mem_resize(bytes, count + 1, 1);
    bytes[count] = 0;
    assert_int_equal(refuse(&b, bytes, count + 1), QP_BAD_FORMAT);
    close_room(&b);
    mem_free(bytes);
}

static void every_byte_damaged(void **state) {
    size_t count;
    room b;
    uint8_t *bytes = good_file(&count);
    open_room(&b, &small, PAGES, 5);
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        refuse(&b, bytes, count);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    close_room(&b);
    mem_free(bytes);
}

/* Numbers at the limits in each field of the header, alone and with random others. */
static void hostile_headers(void **state) {
    static const uint64_t limits[] = {0,         1,          255,        256,       257,        512,
                                      INT32_MAX, UINT32_MAX, 1ull << 40, INT64_MAX, UINT64_MAX, UINT64_MAX / 256 * 256};
    size_t count;
    room b;
    uint8_t *good = good_file(&count);
    open_room(&b, &small, PAGES, 5);
    for (uint64_t i = 0; i < 3000; i++) {
        uint8_t *bytes = mem_copy(good, count, 1);
        for (uint64_t k = 0; k <= i % 3; k++) {
            const size_t width = rng_uniform(1, i, k) < 0.5 ? 4 : 8;
            const size_t at = 8 + width * (size_t)(rng_uniform(2, i, k) * (double)((HEADER - 8) / width));
            memcpy(bytes + at, &limits[(size_t)(rng_uniform(3, i, k) * HARNESS_COUNT(limits))], width);
        }
        if (memcmp(bytes, good, count)) refuse(&b, bytes, count);
        mem_free(bytes);
    }
    close_room(&b);
    mem_free(good);
}

static void put_sum(uint8_t *bytes, size_t count, size_t page_bytes) {
    const size_t n_pages = (count - HEADER - 8) / (page_bytes + sizeof(int32_t[P]));
    const uint8_t *pages = bytes + HEADER + n_pages * sizeof(int32_t[P]);
    uint64_t sum = hash_bytes(bytes + HEADER, n_pages * sizeof(int32_t[P]), hash_bytes(bytes, HEADER, 0));
    for (size_t i = 0; i < n_pages; i++) sum = hash_bytes(pages + i * page_bytes, page_bytes, sum);
    memcpy(bytes + count - 8, &sum, 8);
}

/* Whoever can write the file can write its checksum: then any ids and bytes are taken, and harm nobody. */
static void any_content_with_its_checksum(void **state) {
    size_t count, page_bytes, n;
    uint8_t *bytes = good_file(&count);
    assert_true(store_page_bytes(&small, &page_bytes));
    for (uint64_t i = 0; i < 300; i++) {
        room b;
        open_room(&b, &small, 1 + (int)(i % PAGES), 5);
        for (size_t k = HEADER; k < count; k++) bytes[k] = (uint8_t)(rng_uniform(4, i, k) * (i % 2 ? 256 : 2));
        if (i % 3 == 0) memcpy(bytes + HEADER + sizeof(int32_t[P]), bytes + HEADER, sizeof(int32_t[P]));
        refuse(&b, bytes, count);
        put_sum(bytes, count, page_bytes);
        assert_int_equal(prefix_load_bytes(&b.cache, bytes, count, "some file", &n, NULL), QP_OK);
        assert_int_equal(n, i % PAGES ? 2 * P : P);
        assert_int_equal(found(&b, NULL), 0);
        close_room(&b);
    }
    mem_free(bytes);
}

static void short_of_memory(void **state) {
    room a, b;
    qp_error err;
    open_room(&a, &small, PAGES, 5);
    tell(&a, 2 * P);
    for (int n = 0;; n++) {
        mem_fail_after(n);
        const qp_status status = prefix_save(&a.cache, path, story, MOST, NULL, &err);
        mem_fail_after(-1);
        if (status == QP_OK) break;
        assert_true(status == QP_NO_MEMORY || (status == QP_BAD_ARGUMENT && n == 1)); /* the chain gains less */
    }
    for (int n = 0;; n++) {
        open_room(&b, &small, PAGES, 5);
        mem_fail_after(n);
        const qp_status status = prefix_load(&b.cache, path, NULL, &err);
        mem_fail_after(-1);
        assert_int_equal(found(&b, NULL), status == QP_OK ? 2 * P : 0);
        close_room(&b);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
    }
    close_room(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_and_back),           cmocka_unit_test(as_far_as_it_goes),
        cmocka_unit_test(out_of_the_second_tier), cmocka_unit_test(files_of_others_are_refused),
        cmocka_unit_test(cut_off_at_every_byte),  cmocka_unit_test(every_byte_damaged),
        cmocka_unit_test(hostile_headers),        cmocka_unit_test(any_content_with_its_checksum),
        cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
