/* cpu_rounded_test.c — float16 weights that become BF16 while they are loaded: every number is the nearest one,
 * products are those of BF16 weights bit for bit, and who must not be rounded is not. */
#include "base/file.h"
#include "base/mem.h"
#include "levels.h"
#include "quant/quant.h"
#include "rounded.h"
#include <math.h>

enum { MOST_ROWS = 200, MOST_IN = 1 << 11 };

/* Columns and inputs: of all numbers of float16, of pieces of vectors, and of more than a task of the pool. */
static const int sizes[][2] = {{64, 1024}, {1, 1}, {3, 5}, {7, 33}, {2, 47}, {40, 70}, {97, 1361}};
enum { SIZES = HARNESS_COUNT(sizes) };

typedef struct world {
    uint8_t *memory; /* the numbers begin at an odd address */
    uint16_t *rounded;
    quant_matrix m;
} world;

static world open_world(int n_out, int n_in) {
    const size_t n = (size_t)n_out * (size_t)n_in;
    world w = {.memory = mem_array(2 * n + 1, 1), .rounded = mem_array(n, sizeof *w.rounded)};
    assert_non_null(w.memory);
    assert_non_null(w.rounded);
    for (size_t i = 0; i < n; i++) {
        const uint16_t half = (uint16_t)(i * 40503); /* odd: all of them in 65,536 steps */
        memcpy(w.memory + 1 + 2 * i, &half, 2);
        w.rounded[i] = quant_f32_to_bf16(quant_f16_to_f32(half));
    }
    w.m = quant_plain(quant_type_of(QUANT_F16), n_out, n_in, w.memory + 1, 2 * n);
    return w;
}

static void close_world(world *w) {
    mem_free(w->memory);
    mem_free(w->rounded);
}

static bool is_same(uint16_t a, uint16_t b) {
    return a == b || (isnan(quant_bf16_to_f32(a)) && isnan(quant_bf16_to_f32(b)));
}

/* Panels of 48 columns; in one, pairs of inputs of 16 columns after the others; the rest of the last 16, and inputs up
 * to a multiple of 32, are filled up. */
static int64_t woven_place(const dev_weight *weight, int64_t column, int64_t k) {
    const int64_t n_in = (weight->n_in + 31) / 32 * 32, first = column / 48 * 48, left = weight->n_out - first;
    const int64_t registers = left >= 48 ? 3 : (left + 15) / 16;
    return first * n_in + (k / 2 * registers + column % 48 / 16) * 32 + column % 16 * 2 + k % 2;
}

static void assert_is_rounded(const dev_weight *weight, const world *w) {
    assert_int_equal(weight->type->id, QUANT_BF16);
    assert_int_equal(weight->stored.type->id, QUANT_F16);
    assert_ptr_equal(weight->stored.parts[0], w->memory + 1);
    const uint16_t *is = weight->data;
    const int64_t n_in = weight->n_in;
    for (int64_t i = 0; i < weight->n_out * n_in; i++) {
        const int64_t at = weight->is_woven ? woven_place(weight, i / n_in, i % n_in) : i;
        if (!is_same(is[at], w->rounded[i]))
            fail_msg("number %lld is %04x, not %04x", (long long)i, is[at], w->rounded[i]);
    }
    for (int64_t c = 0; weight->is_woven && c < weight->n_out; c++)
        for (int64_t k = n_in; k % 32; k++) assert_int_equal(is[woven_place(weight, c, k)], 0);
}

/* Whether the level lays them out in an order of its own. */
static bool weaves(const device *d) {
    const cpu_matmul_kernel *kernel = cpu_of((device *)d)->matmul.fast[QUANT_BF16];
    return kernel && kernel->weaving;
}

static void assert_is_left_alone(const dev_weight *weight, const world *w) {
    assert_int_equal(weight->type->id, QUANT_F16);
    assert_ptr_equal(weight->data, w->memory + 1);
    assert_null(weight->owned);
}

static void open_weight(device *d, dev_weight *weight, const world *w, dev_use use) {
    assert_int_equal(d->ops->weight_open(d, weight, &w->m, NULL), QP_OK);
    weight->use = use;
    assert_int_equal(d->ops->weight_pack(d, weight, NULL), QP_OK);
}

static bool rounds(const device *d) { return !d->exact && cpu_of((device *)d)->matmul.round_f16; }

static void check_numbers(device *d, int n_out, int n_in) {
    static const dev_use uses[] = {DEV_USE_PRODUCT, DEV_USE_TABLE, DEV_USE_EXPERT, DEV_USE_EXACT, DEV_USE_LOOKUP};
    world w = open_world(n_out, n_in);
    for (size_t i = 0; i < HARNESS_COUNT(uses); i++) {
        dev_weight weight;
        open_weight(d, &weight, &w, uses[i]);
        if (rounds(d) && uses[i] != DEV_USE_LOOKUP && uses[i] != DEV_USE_EXACT) {
            assert_is_rounded(&weight, &w);
            assert_int_equal(weight.is_woven, weaves(d));
        } else
            assert_is_left_alone(&weight, &w);
        d->ops->weight_close(d, &weight);
    }
    close_world(&w);
}

static void on_each_level(void (*check)(device *d, int n_out, int n_in)) {
    for (int i = 0; level_name(i); i++)
        for (int exact = 0; exact < 2; exact++) {
            device *d = level_open(level_name(i), 1 + i % 3, exact, MOST_ROWS, MOST_IN);
            for (size_t s = 0; s < SIZES; s++) check(d, sizes[s][0], sizes[s][1]);
            dev_close(d);
        }
}

static void every_number_becomes_the_nearest(void **state) { on_each_level(check_numbers); }

/* Numbers that add up to something: those of the world are small, or too great. */
static void make_small(world *w) {
    for (int64_t i = 0; i < w->m.n_out * w->m.n_in; i++) {
        const uint16_t half = quant_f32_to_f16((float)((i * 7919) % 2001 - 1000) / 1013);
        memcpy(w->memory + 1 + 2 * i, &half, 2);
        w->rounded[i] = quant_f32_to_bf16(quant_f16_to_f32(half));
    }
}

static void multiply(device *d, const dev_weight *weight, const float *x, int n_rows, float *out) {
    d->ops->matmul(d, &(matmul_args){.x = x,
                                     .x_stride = weight->n_in,
                                     .n_rows = n_rows,
                                     .n_parts = 1,
                                     .parts = {{.w = weight, .out = out, .out_stride = weight->n_out}}});
}

/* The same bits as BF16 rows, but for those that are woven, whose sums are added in another order. */
static void assert_is_near(const device *d, const float *is, const float *expected, size_t n, int n_in) {
    if (!weaves(d)) assert_memory_equal(is, expected, n * sizeof *is);
    for (size_t i = 0; i < n; i++) /* terms are below 2 */
        if (!(fabsf(is[i] - expected[i]) <= 0x1p-22f * 2 * (float)n_in))
            fail_msg("%s: value %zu is %g, not %g", d->level, i, (double)is[i], (double)expected[i]);
}

static void check_products(device *d, int n_out, int n_in) {
    static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 61, MOST_ROWS};
    if (!rounds(d)) return;
    world w = open_world(n_out, n_in);
    make_small(&w);
    const dev_weight rounded = {
        .type = quant_type_of(QUANT_BF16), .n_out = n_out, .n_in = n_in, .data = w.rounded, .stored = w.m};
    const size_t n = (size_t)MOST_ROWS * (size_t)n_out;
    float *x = mem_array((size_t)MOST_ROWS * (size_t)n_in, sizeof *x), *out = mem_array(n, sizeof *out),
          *expected = mem_array(n, sizeof *out), *whole = mem_array(n, sizeof *out);
    for (int i = 0; i < MOST_ROWS * n_in; i++) x[i] = (float)(i * 31 % 257 - 128) / 77;
    dev_weight weight;
    open_weight(d, &weight, &w, DEV_USE_PRODUCT);
    multiply(d, &weight, x, MOST_ROWS, whole);
    multiply(d, &rounded, x, MOST_ROWS, expected);
    assert_is_near(d, whole, expected, n, n_in);
    for (size_t r = 0; r < HARNESS_COUNT(rows); r++) {
        multiply(d, &weight, x, rows[r], out);
        assert_memory_equal(out, whole, (size_t)rows[r] * (size_t)n_out * sizeof *out);
    }
    mem_free(whole);
    d->ops->weight_close(d, &weight);
    mem_free(x);
    mem_free(out);
    mem_free(expected);
    close_world(&w);
}

static void products_are_those_of_bf16(void **state) {
    if (!dev_cpu_level_available("avx512bf16")) print_message("SKIP: no level of this machine rounds float16\n");
    on_each_level(check_products);
}

/* A table that is the head, too, is looked up in as it was stored. */
static void check_table(device *d, int n_out, int n_in) {
    world w = open_world(n_out, n_in);
    make_small(&w);
    dev_weight table;
    open_weight(d, &table, &w, DEV_USE_TABLE);
    const int32_t id = n_out - 1;
    float *out = mem_array((size_t)n_in, sizeof *out), *row = mem_array((size_t)n_in, sizeof *row);
    d->ops->embed(d, &(embed_args){.ids = &id, .n_rows = 1, .table = &table, .out = out, .scale = 1});
    w.m.type->unpack_row(row, &w.m, id);
    assert_memory_equal(out, row, (size_t)n_in * sizeof *out);
    d->ops->weight_close(d, &table);
    mem_free(out);
    mem_free(row);
    close_world(&w);
}

static void tables_keep_their_numbers(void **state) { on_each_level(check_table); }

static void failing_leaves_the_weight_alone(void **state) {
    device *d = level_open(NULL, 2, false, MOST_ROWS, MOST_IN);
    world w = open_world(64, 1024);
    dev_weight weight;
    assert_int_equal(d->ops->weight_open(d, &weight, &w.m, NULL), QP_OK);
    mem_fail_after(0);
    const qp_status status = d->ops->weight_pack(d, &weight, NULL);
    mem_fail_after(-1);
    assert_int_equal(status, rounds(d) ? QP_NO_MEMORY : QP_OK);
    assert_is_left_alone(&weight, &w);
    d->ops->weight_close(d, &weight);
    close_world(&w);
    dev_close(d);
}

static device *open_with_cache(const char *path) {
    device *d;
    const dev_options options = {.kind = "cpu", .threads = 2, .pack_path = path, .pack_source = 7};
    assert_int_equal(dev_open(&d, &options, NULL), QP_OK);
    return d;
}

static void later_loads_find_them(void **state) {
    char folder[64], path[128];
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/a.packed", folder);
    world w = open_world(97, 1361);
    for (int load = 0; load < 2; load++) {
        device *d = open_with_cache(path);
        dev_weight weight;
        assert_int_equal(d->ops->weight_open(d, &weight, &w.m, NULL), QP_OK);
        weight.key = 12345;
        assert_int_equal(d->ops->weight_pack(d, &weight, NULL), QP_OK);
        if (rounds(d)) {
            assert_is_rounded(&weight, &w);
            assert_int_equal(weight.owned == NULL, load); /* then the file's */
        }
        d->ops->weights_end(d);
        d->ops->weight_close(d, &weight);
        dev_close(d);
    }
    close_world(&w);
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_becomes_the_nearest),
        cmocka_unit_test(products_are_those_of_bf16),
        cmocka_unit_test(tables_keep_their_numbers),
        cmocka_unit_test(failing_leaves_the_weight_alone),
        cmocka_unit_test(later_loads_find_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
