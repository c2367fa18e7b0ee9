/* store_test.c — pages are copied, saved and loaded byte for byte and nothing beside them changes; attention over pages
 * that lie anywhere gives the bits that it gives over pages in a row. */
#include "store.h"
#include "harness.h"
#include "base/mem.h"
#include "base/rng.h"

enum { P = DEV_PAGE_TOKENS, PAGES = 5 };

static device *open_device(const char *level) {
    device *d;
    qp_error err;
    if (dev_open(&d, &(dev_options){.kind = "cpu", .cpu_level = level, .threads = 1}, &err)) fail_msg("%s", err.text);
    return d;
}

static const store_shape shapes[] = {{1, 1, 8, .type = KV_F16},
                                     {3, 2, 16, .type = KV_F16},
                                     {2, 3, 24, .type = KV_F32},
                                     {2, 2, 24, .type = KV_F16, .v_dim = 12},
                                     {2, 1, 40, .type = KV_F16, .v_dim = 32, .latent = true},
                                     {2, 2, 64, .type = KV_Q8},
                                     {1, 3, 80, .type = KV_Q6, .v_dim = 33},
                                     {2, 1, 40, .type = KV_Q4, .v_dim = 32, .latent = true},
                                     {2, 2, 64, .type = KV_Q4}};

static qp_status open_store(kv_store *out, device *d, const store_shape *shape, int n_pages) {
    const dev_split whole = dev_whole(d, shape->n_layers);
    return store_open(out, &whole, shape, n_pages, NULL);
}

static void fill_bytes(uint8_t *at, size_t n) {
    for (size_t i = 0; i < n; i++) at[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* Page and group of slots of a byte of the store: [n_layers][n_pages][keys | values][n_kv_heads][P tokens]. */
static void place_of(const kv_store *s, size_t offset, int *page, int *group) {
    const size_t stride = s->views[0].page_stride, in_page = offset % stride, groups = P / DEV_KEY_GROUP;
    const size_t key_group = dev_kv_group_bytes(dev_key_type(s->shape.type), s->shape.head_dim);
    const size_t keys = (size_t)s->shape.n_kv_heads * groups * key_group;
    const size_t each = in_page < keys ? key_group : dev_kv_group_bytes(s->shape.type, s->views[0].v_dim);
    const size_t in_part = in_page < keys ? in_page : in_page - keys;
    *group = (int)(in_part / each % groups);
    *page = (int)(offset / stride % (size_t)s->n_pages);
}

static void copies_the_first_tokens_alone(void **state) {
    static const int counts[] = {0, 1, 16, 100, 255};
    device *d = open_device("ref");
    for (size_t i = 0; i < HARNESS_COUNT(shapes) * HARNESS_COUNT(counts); i++) {
        const page_copy copy = {3, 1, counts[i % HARNESS_COUNT(counts)]};
        kv_store s;
        assert_int_equal(open_store(&s, d, &shapes[i / HARNESS_COUNT(counts)], PAGES), QP_OK);
        fill_bytes(s.memory[0], s.bytes);
        uint8_t *before = mem_copy(s.memory[0], s.bytes, 1);
        const uint8_t *after = s.memory[0];
        const size_t from_3_to_1 = 2 * s.views[0].page_stride;
        store_copy(&s, copy);
        for (size_t k = 0; k < s.bytes; k++) {
            int page, group;
            place_of(&s, k, &page, &group);
            const bool is_copied = page == 1 && group * DEV_KEY_GROUP < copy.n_tokens;
            if (after[k] != before[is_copied ? k + from_3_to_1 : k]) fail_msg("byte %zu of shape %zu", k, i);
        }
        mem_free(before);
        store_close(&s);
    }
    dev_close(d);
}

static void saves_and_loads_a_page(void **state) {
    device *d = open_device("ref");
    for (size_t i = 0; i < HARNESS_COUNT(shapes); i++) {
        kv_store s;
        assert_int_equal(open_store(&s, d, &shapes[i], PAGES), QP_OK);
        const page_mover mover = store_mover(&s);
        assert_int_equal(mover.page_bytes * PAGES, s.bytes);
        fill_bytes(s.memory[0], s.bytes);
        uint8_t *before = mem_copy(s.memory[0], s.bytes, 1), *bytes = mem_array(mover.page_bytes, 1);
        const uint8_t *after = s.memory[0];
        const size_t from_4_to_0 = 4 * s.views[0].page_stride;
        mover.save(mover.user, 4, bytes);
        mover.load(mover.user, 0, bytes);
        for (size_t k = 0; k < s.bytes; k++) {
            int page, group;
            place_of(&s, k, &page, &group);
            if (after[k] != before[page == 0 ? k + from_4_to_0 : k]) fail_msg("byte %zu of shape %zu", k, i);
        }
        mem_free(before);
        mem_free(bytes);
        store_close(&s);
    }
    dev_close(d);
}

/* Each device has the layers that it shall have; a page as bytes tells nothing of them. */
static void pages_of_several_devices_are_bytes_alike(void **state) {
    static const store_shape shape = {5, 2, 16, .type = KV_F16};
    device *d[] = {open_device("ref"), open_device("ref"), open_device("ref")};
    const dev_split split = {.n = 3, .dev = {d[0], d[1], d[2]}, .first = {0, 2, 2, 5}};
    kv_store s, whole;
    assert_int_equal(store_open(&s, &split, &shape, PAGES, NULL), QP_OK);
    assert_int_equal(open_store(&whole, d[0], &shape, PAGES), QP_OK);
    assert_true(s.memory[0] && !s.memory[1] && s.memory[2] && s.bytes == whole.bytes);
    const page_mover movers[] = {store_mover(&s), store_mover(&whole)};
    uint8_t *bytes[2] = {mem_array(movers[0].page_bytes, 1), mem_array(movers[0].page_bytes, 1)};
    fill_bytes(bytes[0], movers[0].page_bytes);
    for (int i = 0; i < 2; i++) {
        movers[i].load(movers[i].user, 3, bytes[0]);
        store_copy(i ? &whole : &s, (page_copy){3, 1, P});
        memset(bytes[1], 0, movers[i].page_bytes);
        movers[i].save(movers[i].user, 1, bytes[1]);
        assert_memory_equal(bytes[0], bytes[1], movers[i].page_bytes);
    }
    for (int i = 0; i < 5; i++) {
        const uint8_t *base = s.memory[dev_share_of(&split, i)];
        assert_ptr_equal(s.views[i].k, base + (size_t)(i < 2 ? i : i - 2) * (s.bytes / 5));
    }
    mem_free(bytes[0]);
    mem_free(bytes[1]);
    store_close(&s);
    store_close(&whole);
    for (int i = 0; i < 3; i++) dev_close(d[i]);
}

/* ---- nothing depends on pages lying together ---- */

enum { MANY = 12, TOKENS = MANY * P - 7, HEADS = 4, KV_HEADS = 2, DIM = 32, ROWS = 9 };

/* A table whose free pages are handed out criss-cross, some of them out of the cache. */
static void fragment(page_table *t) {
    chain each[MANY];
    int32_t ids[P] = {0};
    for (int i = 0; i < MANY; i++) {
        chain_open(&each[i], t, 1);
        assert_int_equal(chain_reserve(&each[i], P, NULL), QP_OK);
        ids[0] = i;
        if (i % 3 == 0) chain_advance(&each[i], ids, 50);
    }
    for (int i = 0; i < MANY; i++) chain_close(&each[i * 7 % MANY]);
    assert_int_equal(pages_available(t), MANY);
}

/* Keys, values and queries of position p, the same wherever they are kept. */
static void attend(device *d, kv_store *s, const chain *c, float *out) {
    static float q[ROWS * HEADS * DIM];
    for (int p = 0; p < TOKENS; p++)
        for (int k = 0; k < KV_HEADS * DIM; k++) {
            const size_t head = (size_t)(k / DIM) * P * DIM, i = (size_t)(k % DIM);
            const size_t key = head + dev_key_at(p % P, (int)i, DIM), value = head + (size_t)(p % P) * DIM + i;
            const size_t page = (size_t)c->pages[p / P] * s->views[0].page_stride;
            ((float *)(void *)(s->views[0].k + page))[key] = (float)rng_uniform(1, (uint64_t)p, (uint64_t)k) - 0.5f;
            ((float *)(void *)(s->views[0].v + page))[value] = (float)rng_uniform(2, (uint64_t)p, (uint64_t)k) - 0.5f;
        }
    for (size_t i = 0; i < HARNESS_COUNT(q); i++) q[i] = (float)rng_uniform(3, 0, i) - 0.5f;
    const row_span span = {0, ROWS, TOKENS - ROWS, c->pages};
    const attend_args a = {
        .q = q, .out = out, .n_heads = HEADS, .scale = 3, .kv = s->views[0], .spans = &span, .n_spans = 1};
    d->ops->attend(d, &a);
}

static void a_fragmented_cache_answers_alike(void **state) {
    static float out[2][ROWS * HEADS * DIM];
    static const store_shape shape = {1, KV_HEADS, DIM, .type = KV_F32};
    for (int l = 0; dev_cpu_level(l); l++) {
        if (!dev_cpu_level_available(dev_cpu_level(l))) continue;
        device *d = open_device(dev_cpu_level(l));
        int n_in_a_row[2] = {0};
        for (int is_fragmented = 0; is_fragmented < 2; is_fragmented++) {
            page_table *t;
            kv_store s;
            chain c;
            assert_int_equal(pages_open(&t, MANY, NULL, NULL), QP_OK);
            assert_int_equal(open_store(&s, d, &shape, MANY), QP_OK);
            assert_int_equal(d->ops->reserve(d, ROWS, HEADS * DIM, NULL), QP_OK);
            if (is_fragmented) fragment(t);
            chain_open(&c, t, 1);
            assert_int_equal(chain_reserve(&c, TOKENS, NULL), QP_OK); /* the longest job there can be */
            assert_int_equal(c.n_pages, MANY);
            for (int i = 1; i < MANY; i++) n_in_a_row[is_fragmented] += c.pages[i] == c.pages[i - 1] + 1;
            attend(d, &s, &c, out[is_fragmented]);
            chain_close(&c);
            store_close(&s);
            pages_close(t);
        }
        assert_int_equal(n_in_a_row[0], MANY - 1);
        assert_in_range(n_in_a_row[1], 0, 2);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
        dev_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_the_first_tokens_alone),
        cmocka_unit_test(saves_and_loads_a_page),
        cmocka_unit_test(pages_of_several_devices_are_bytes_alike),
        cmocka_unit_test(a_fragmented_cache_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
