/* cpu_ahead_test.c — attention that leaves its result as the next product reads it: the product's bits are those that
 * it makes of plain floats, and where tiles of attention do not fill those of the product, floats are what it gets.
 *
 * Beside the bits the test looks at which of the two was done: else it would hold where nothing is ever left. */
#include "levels.h"
#include "base/mem.h"
#include "base/rng.h"

enum { MOST_SPANS = 4, N_OUT = 37, MOST_ROWS = 330, MOST_IN = 2048, PAGES = 3 };

typedef struct shape {
    int n_heads, n_kv, dim;
    kv_type type;
    int rows[MOST_SPANS], past[MOST_SPANS];
    bool fits; /* whether a level that packs ahead does it here */
} shape;

static const shape shapes[] = {
    {8, 1, 64, KV_F16, {64}, {0}, true},
    {8, 2, 64, KV_F16, {17}, {250}, true},
    {4, 4, 32, KV_F16, {330}, {0}, true}, /* tiles of many rows */
    {7, 1, 128, KV_F16, {100}, {30}, true},
    {14, 2, 64, KV_F16, {40}, {300}, true}, /* of 18 rows, cut to 16 */
    {8, 4, 16, KV_F32, {33}, {5}, true},
    {8, 2, 64, KV_Q8, {50}, {0}, true},
    {8, 2, 64, KV_F16, {16, 32, 9}, {0, 100, 255}, true},
    {8, 2, 64, KV_F16, {1, 40}, {70, 0}, false}, /* the second span begins within 16 rows */
    {8, 2, 64, KV_F16, {16}, {0}, false},        /* so few rows are not packed in that order */
    {3, 1, 24, KV_F16, {50}, {0}, false},        /* 72 inputs of a task */
    {71, 1, 16, KV_F16, {20}, {0}, false},       /* heads leave no room for 16 rows */
};

typedef struct world {
    const shape *shape;
    attend_args a;
    row_span spans[MOST_SPANS];
    int32_t pages[MOST_SPANS * PAGES];
    dev_weight w;
    float *q, *mixed, *out;
    int n_rows, width;
} world;

static float uniform(uint64_t *counter) { return (float)(rng_uniform(3, 0, (*counter)++) * 2 - 1); }

static void make_spans(world *w) {
    for (int i = 0; i < MOST_SPANS && w->shape->rows[i]; i++) {
        w->spans[i] = (row_span){w->n_rows, w->shape->rows[i], w->shape->past[i], w->pages + i * PAGES};
        w->n_rows += w->shape->rows[i];
        w->a.n_spans++;
    }
    for (int i = 0; i < MOST_SPANS * PAGES; i++) w->pages[i] = i;
    w->a.spans = w->spans;
}

/* Small numbers of both signs in every type: of the quantised ones whatever bytes they are, but scales that are finite.
 */
static void fill_pages(const world *w, uint8_t *to, size_t bytes, uint64_t *counter) {
    const kv_type type = w->shape->type;
    for (size_t i = 0; i < bytes; i += 4) {
        const float x = uniform(counter);
        const uint16_t half = type == KV_F16 ? quant_f32_to_f16(x) : 0x2111;
        const uint16_t two[2] = {half, half};
        if (type == KV_F32)
            memcpy(to + i, &x, 4);
        else
            memcpy(to + i, two, 4);
    }
}

static void make_world(world *w, const shape *s) {
    uint64_t counter = 0;
    *w = (world){.shape = s, .width = s->n_heads * s->dim};
    make_spans(w);
    const size_t groups = DEV_PAGE_TOKENS / DEV_KEY_GROUP,
                 page = (size_t)s->n_kv * groups * dev_kv_group_bytes(s->type, s->dim);
    const size_t bytes = page * MOST_SPANS * PAGES;
    w->a.kv = (kv_view){s->type, s->n_kv, s->dim, s->dim, mem_array(bytes, 1), mem_array(bytes, 1), page};
    fill_pages(w, w->a.kv.k, bytes, &counter);
    fill_pages(w, w->a.kv.v, bytes, &counter);
    const size_t n = (size_t)w->n_rows * (size_t)w->width, n_weights = (size_t)w->width * N_OUT;
    uint16_t *weights = mem_array(n_weights, sizeof *weights);
    for (size_t i = 0; i < n_weights; i++) weights[i] = quant_f32_to_bf16(uniform(&counter));
    w->w =
        (dev_weight){.type = quant_type_of(QUANT_BF16), .n_out = N_OUT, .n_in = w->width, .data = (uint8_t *)weights};
    w->q = mem_array(n, sizeof *w->q);
    for (size_t i = 0; i < n; i++) w->q[i] = uniform(&counter);
    w->mixed = mem_array(n, sizeof *w->mixed);
    w->out = mem_array((size_t)w->n_rows * N_OUT, sizeof *w->out);
    w->a.q = w->q;
    w->a.out = w->mixed;
    w->a.n_heads = s->n_heads;
    w->a.scale = 0.2f;
}

static void free_world(world *w) {
    mem_free(w->a.kv.k);
    mem_free(w->a.kv.v);
    mem_free((void *)w->w.data);
    mem_free(w->q);
    mem_free(w->mixed);
    mem_free(w->out);
}

/* Attention and the product; whether the one left its result packed for the other. */
static bool run(device *d, world *w, bool ahead) {
    const size_t n = (size_t)w->n_rows * (size_t)w->width;
    memset(w->mixed, 0xFF, n * sizeof *w->mixed); /* NaN: all of it must be written */
    w->a.next = ahead ? &w->w : NULL;
    d->ops->attend(d, &w->a);
    const bool is_left = cpu_of(d)->left == w->mixed;
    const matmul_part part = {.w = &w->w, .out = w->out, .out_stride = N_OUT};
    const matmul_args then = {.x = w->mixed, .x_stride = w->width, .n_rows = w->n_rows, .n_parts = 1, .parts = {part}};
    d->ops->matmul(d, &then);
    return is_left;
}

static void check(device *d, const shape *s) {
    world w;
    make_world(&w, s);
    const size_t bytes = (size_t)w.n_rows * N_OUT * sizeof *w.out;
    assert_false(run(d, &w, false));
    float *plain = mem_copy(w.out, bytes, 1);
    const bool packs =
        !d->exact && cpu_of(d)->matmul.fast[QUANT_BF16] && cpu_of(d)->matmul.fast[QUANT_BF16]->packs_ahead;
    const bool is_left = run(d, &w, true);
    if (is_left != (packs && s->fits))
        fail_msg("%s: %d/%d heads of %d, %d rows: left %d", d->level, s->n_heads, s->n_kv, s->dim, w.n_rows, is_left);
    if (memcmp(plain, w.out, bytes))
        fail_msg("%s, %d threads: %d/%d heads of %d, %d rows: other bits", d->level, d->threads, s->n_heads, s->n_kv,
                 s->dim, w.n_rows);
    for (size_t i = 0; i < (size_t)w.n_rows * N_OUT; i++) assert_true(plain[i] - plain[i] == 0);
    mem_free(plain);
    free_world(&w);
}

static void what_is_left_changes_nothing(void **state) {
    for (int i = 0; level_name(i); i++)
        for (int way = 0; way < 3; way++) {
            device *d = level_open(level_name(i), way == 1 ? 3 : 1, way == 2, MOST_ROWS, MOST_IN);
            for (size_t s = 0; s < HARNESS_COUNT(shapes); s++) check(d, &shapes[s]);
            dev_close(d);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_left_changes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
