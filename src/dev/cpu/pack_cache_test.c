/* pack_cache_test.c — the file of packed weights: written once and found again, and never believed when it is old, cut
 * or changed, wherever that may be. */
#include "pack_cache.h"
#include "pack.h"
#include "harness.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

enum { SOURCE = 77, ENTRY_BYTES = 32, TAIL_BYTES = 64 };
static const size_t sizes[] = {1, 64, 5000, 63, 128};
enum { WEIGHTS = HARNESS_COUNT(sizes) };

typedef struct world {
    char folder[64], path[128], said[512];
    int n_said;
    pool *pool;
    uint8_t weights[WEIGHTS][5000];
} world;

static void hear(void *user, qp_log_level level, const char *line) {
    world *w = user;
    snprintf(w->said, sizeof w->said, "%s", line);
    w->n_said += level <= QP_LOG_WARN;
}

static int open_world(void **state) {
    world *w = MEM_NEW(world);
    assert_non_null(w);
    harness_folder(w->folder);
    snprintf(w->path, sizeof w->path, "%s/a.packed", w->folder);
    assert_int_equal(pool_new(&w->pool, 2, false, NULL), QP_OK);
    for (size_t i = 0; i < WEIGHTS; i++)
        for (size_t at = 0; at < sizes[i]; at++) w->weights[i][at] = (uint8_t)(at * 7 + i);
    *state = w;
    return 0;
}

static int close_world(void **state) {
    world *w = *state;
    harness_remove(w->folder);
    pool_free(w->pool);
    mem_free(w);
    return 0;
}

static pack_cache *open_cache(world *w, uint64_t source) {
    pack_cache *c;
    w->n_said = 0;
    w->said[0] = 0;
    const qp_log log = {hear, w};
    assert_int_equal(pack_cache_open(&c, w->path, source, w->pool, &log, NULL), QP_OK);
    return c;
}

static void add_all(world *w, pack_cache *c) {
    for (size_t i = 0; i < WEIGHTS; i++) {
        assert_null(pack_cache_find(c, i + 1, sizes[i]));
        pack_cache_add(c, i + 1, w->weights[i], sizes[i]);
    }
}

static void write_cache(world *w) {
    file_remove(w->path);
    pack_cache *c = open_cache(w, SOURCE);
    assert_int_equal(w->n_said, 0); /* the first time is no surprise */
    add_all(w, c);
    pack_cache_settle(c);
    pack_cache_close(c);
}

static void expect_all(world *w) {
    pack_cache *c = open_cache(w, SOURCE);
    for (size_t i = 0; i < WEIGHTS; i++) {
        const uint8_t *found = pack_cache_find(c, i + 1, sizes[i]);
        assert_non_null(found);
        assert_int_equal((uintptr_t)found % 64, 0);
        assert_memory_equal(found, w->weights[i], sizes[i]);
    }
    pack_cache_settle(c);
    pack_cache_close(c);
    assert_int_equal(w->n_said, 0);
}

/* A bad file is told of, has nothing, and a good one takes its place. */
static void expect_anew(world *w, const char *why) {
    pack_cache *c = open_cache(w, SOURCE);
    if (w->n_said != 1 || !strstr(w->said, "written anew") || !strstr(w->said, why))
        fail_msg("said '%s', expected '%s'", w->said, why);
    add_all(w, c);
    pack_cache_settle(c);
    pack_cache_close(c);
    expect_all(w);
}

static void found_again(void **state) {
    world *w = *state;
    write_cache(w);
    assert_non_null(strstr(w->said, "5 weights"));
    expect_all(w);
    expect_all(w);
}

static void another_order(void **state) {
    world *w = *state;
    write_cache(w);
    pack_cache *c = open_cache(w, SOURCE);
    for (size_t i = WEIGHTS; i-- > 0;)
        assert_memory_equal(pack_cache_find(c, i + 1, sizes[i]), w->weights[i], sizes[i]);
    pack_cache_close(c);
}

static void rewrite(const world *w, const char *bytes, size_t n) {
    assert_int_equal(file_write(w->path, bytes, n, NULL), QP_OK);
}

/* ---- what a file may be instead ---- */

static void cut_anywhere(void **state) {
    world *w = *state;
    char *bytes;
    size_t n;
    write_cache(w);
    assert_int_equal(file_read(&bytes, &n, w->path, 1 << 20, NULL), QP_OK);
    for (size_t cut = 0; cut < n; cut++) {
        const bool is_head = cut <= 200, is_table = cut >= n - TAIL_BYTES - WEIGHTS * ENTRY_BYTES - 64;
        if (!is_head && !is_table && cut % 97) continue;
        rewrite(w, bytes, cut);
        expect_anew(w, "");
    }
    char *longer = mem_zarray(n + 64, 1);
    assert_non_null(longer);
    memcpy(longer, bytes, n);
    rewrite(w, longer, n + 64);
    expect_anew(w, "in the middle");
    mem_free(longer);
    mem_free(bytes);
}

/* But for the zeros between weights, which nobody reads, and those of head and tail, which checksums cover or not. */
static bool is_read(const char *bytes, size_t n, size_t at) {
    const uint64_t *table = (const uint64_t *)(const void *)(bytes + n - TAIL_BYTES);
    if (at >= n - TAIL_BYTES + 24 && at < n - 8) return false;
    if (at < 64 || at >= n - TAIL_BYTES) return true;
    if (at >= table[0]) return at < table[0] + WEIGHTS * ENTRY_BYTES;
    for (size_t i = 0, begin = 64; i < WEIGHTS; begin += (sizes[i] + 63) / 64 * 64, i++)
        if (at >= begin && at < begin + sizes[i]) return true;
    return false;
}

static void one_bit_anywhere(void **state) {
    world *w = *state;
    char *bytes;
    size_t n, tried = 0;
    write_cache(w);
    assert_int_equal(file_read(&bytes, &n, w->path, 1 << 20, NULL), QP_OK);
    for (size_t at = 0; at < n; at++) {
        if (!is_read(bytes, n, at) || (at > 400 && at < 5000 && at % 61)) continue;
        bytes[at] ^= (char)(1 << at % 8);
        rewrite(w, bytes, n);
        expect_anew(w, "");
        bytes[at] ^= (char)(1 << at % 8);
        tried++;
    }
    assert_true(tried > 600);
    mem_free(bytes);
}

static void put32(char *bytes, size_t at, uint32_t value) { memcpy(bytes + at, &value, sizeof value); }

static void named_reasons(void **state) {
    world *w = *state;
    char *bytes;
    size_t n;
    write_cache(w);
    assert_int_equal(file_read(&bytes, &n, w->path, 1 << 20, NULL), QP_OK);
    static const struct {
        size_t at;
        uint32_t value;
        const char *why;
    } cases[] = {{0, 0, "no file of packed weights"},
                 {8, 9, "version 9, this program writes 1"},
                 {12, 1000, "layout 1000"},
                 {16, SOURCE + 1, "other files"},
                 {64, 0x12345678, "weight 0 of 5 is damaged"}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        char *copy = mem_copy(bytes, n, 1);
        assert_non_null(copy);
        put32(copy, cases[i].at, cases[i].value);
        rewrite(w, copy, n);
        expect_anew(w, cases[i].why);
        mem_free(copy);
    }
    mem_free(bytes);
}

/* Places outside the file, under a checksum that an enemy has made to fit. */
static void forged_places(void **state) {
    world *w = *state;
    static const uint64_t numbers[] = {0, 1, 63, 100, 1 << 20, UINT64_MAX, UINT64_MAX - 63, 1ull << 63};
    write_cache(w);
    char *bytes;
    size_t n;
    assert_int_equal(file_read(&bytes, &n, w->path, 1 << 20, NULL), QP_OK);
    uint64_t tail[3];
    memcpy(tail, bytes + n - TAIL_BYTES, sizeof tail);
    for (size_t field = 0; field < 4; field++)
        for (size_t i = 0; i < HARNESS_COUNT(numbers); i++) {
            char *copy = mem_copy(bytes, n, 1);
            assert_non_null(copy);
            char *end = copy + n - TAIL_BYTES, *to = field < 2 ? end + 8 * field : copy + tail[0] + 8 * (field - 1);
            memcpy(to, &numbers[i], 8); /* the table's place, its length; a weight's place, its length */
            uint64_t now[3];
            memcpy(now, end, sizeof now);
            if (now[0] <= n && now[1] <= n / ENTRY_BYTES && now[0] + now[1] * ENTRY_BYTES <= n) {
                const uint64_t said[] = {now[0], now[1]};
                uint64_t sum = hash_bytes(copy, 64, 0);
                sum = hash_bytes(copy + now[0], (size_t)now[1] * ENTRY_BYTES, sum);
                now[2] = hash_bytes(said, sizeof said, sum);
                memcpy(end + 16, &now[2], 8);
            }
            rewrite(w, copy, n);
            pack_cache *c = open_cache(w, SOURCE);
            for (size_t k = 0; k < WEIGHTS; k++) { /* what it still has must be the weights */
                const uint8_t *found = pack_cache_find(c, k + 1, sizes[k]);
                if (found) assert_memory_equal(found, w->weights[k], sizes[k]);
            }
            pack_cache_close(c);
            mem_free(copy);
        }
    mem_free(bytes);
}

static void other_source(void **state) {
    world *w = *state;
    write_cache(w);
    pack_cache *c = open_cache(w, SOURCE + 1);
    assert_non_null(strstr(w->said, "other files"));
    pack_cache_close(c); /* given up: the old one stays */
    expect_all(w);
}

/* ---- what else happens ---- */

static void lacking(void **state) {
    world *w = *state;
    write_cache(w);
    pack_cache *c = open_cache(w, SOURCE);
    assert_null(pack_cache_find(c, 1, sizes[0] + 1));
    assert_null(pack_cache_find(c, 2, sizes[1])); /* it is of another model */
    pack_cache_add(c, 2, w->weights[1], sizes[1]);
    pack_cache_settle(c);
    pack_cache_close(c);
    assert_non_null(strstr(w->said, "lacks weights"));
    assert_false(file_exists(w->path));
}

static void two_at_once(void **state) {
    world *w = *state;
    file_remove(w->path);
    pack_cache *a = open_cache(w, SOURCE), *b = open_cache(w, SOURCE);
    add_all(w, a);
    pack_cache_settle(a);
    pack_cache *reader = open_cache(w, SOURCE);
    const uint8_t *held = pack_cache_find(reader, 3, sizes[2]);
    add_all(w, b);
    pack_cache_settle(b); /* takes a's place under the reader, who keeps what it has */
    assert_non_null(held);
    assert_memory_equal(held, w->weights[2], sizes[2]);
    pack_cache_close(a);
    pack_cache_close(b);
    pack_cache_close(reader);
    expect_all(w);
    char **names;
    size_t n;
    assert_int_equal(file_list(&names, &n, w->folder, 10, NULL), QP_OK);
    assert_int_equal(n, 1); /* nothing half written is left */
    mem_free(names);
}

static void nowhere_to_write(void **state) {
    world *w = *state;
    static const char *const paths[][2] = {{"/dev/full", "No space left"},
                                           {"/no-such-folder/a.packed", "No such file"}};
    char path[sizeof w->path];
    memcpy(path, w->path, sizeof path);
    for (size_t i = 0; i < HARNESS_COUNT(paths); i++) {
        snprintf(w->path, sizeof w->path, "%s", paths[i][0]);
        pack_cache *c = open_cache(w, SOURCE);
        add_all(w, c);
        pack_cache_settle(c);
        pack_cache_close(c);
        if (!strstr(w->said, "not written, and not needed") || !strstr(w->said, paths[i][1]))
            fail_msg("said '%s', expected '%s'", w->said, paths[i][1]);
    }
    memcpy(w->path, path, sizeof path);
}

static void nothing_packed(void **state) {
    world *w = *state;
    file_remove(w->path);
    pack_cache *c = open_cache(w, SOURCE);
    pack_cache_settle(c);
    pack_cache_close(c);
    assert_non_null(strstr(w->said, "as they are stored"));
    assert_false(file_exists(w->path));
}

static void short_of_memory(void **state) {
    world *w = *state;
    for (int64_t n = 0; n < 12; n++) {
        const qp_log log = {hear, w};
        pack_cache *c;
        file_remove(w->path);
        mem_fail_after(n);
        if (pack_cache_open(&c, w->path, SOURCE, w->pool, &log, NULL) == QP_OK)
            for (size_t i = 0; i < WEIGHTS; i++) pack_cache_add(c, i + 1, w->weights[i], sizes[i]);
        pack_cache_settle(c);
        pack_cache_close(c);
        mem_fail_after(-1);
    }
    expect_all(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_again),      cmocka_unit_test(another_order),  cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(one_bit_anywhere), cmocka_unit_test(named_reasons),  cmocka_unit_test(forged_places),
        cmocka_unit_test(other_source),     cmocka_unit_test(lacking),        cmocka_unit_test(two_at_once),
        cmocka_unit_test(nowhere_to_write), cmocka_unit_test(nothing_packed), cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
