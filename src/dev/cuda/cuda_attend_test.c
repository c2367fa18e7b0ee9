/* cuda_attend_test.c — rotation, the cache and attention of the CUDA device against the plain C of `ref`, over odd
 * sizes and every type of cache; and that a row's bits do not depend on its neighbours, on how a prompt is cut, or on
 * whether pages are done apart. */
#include "attend_shape.h"
#include "cuda_both.h"
#include "dev/kv_quant.h"

/* ---- keys, values, attention ---- */

static const shape shapes[] = {
    {1, 1, 1, 0, KV_F32, .spans = {{0, 1}}},
    {2, 1, 3, 5, KV_F16, .spans = {{0, 40}, {255, 3}}},
    {4, 4, 16, 0, KV_F16, .spans = {{0, 7}, {63, 1}, {64, 1}, {255, 2}}},
    {8, 2, 24, 0, KV_F16, .spans = {{0, 40}, {1030, 1}, {17, 3}}},
    {8, 1, 24, 32, KV_F32, .spans = {{100, 40}, {1030, 2}}},
    {3, 1, 63, 0, KV_F16, .spans = {{0, 33}, {200, 1}}},
    {8, 1, 64, 0, KV_F16, .spans = {{0, 40}, {1030, 1}, {500, 4}}},
    {7, 1, 128, 300, KV_F16, .spans = {{290, 9}, {1030, 2}}},
    {4, 2, 128, 0, KV_F16, .spans = {{0, 300}, {129, 1}, {70, 129}, {40, 1}}},
    {2, 1, 64, 100, KV_F16, .spans = {{250, 140}, {3, 1}, {0, 129}}, .has_sinks = true},
    {4, 1, 128, 0, KV_F16, .spans = {{100, 150}, {250, 64}}, .chunk = 70, .cap = 9},
    {3, 3, 128, 0, KV_F16, .spans = {{40, 1}, {0, 1}, {63, 1}}, .has_sinks = true},
    {2, 1, 256, 0, KV_F16, .spans = {{0, 7}, {700, 1}}},
    {9, 1, 257, 0, KV_F16, .spans = {{0, 3}}},
    {5, 1, 8, 0, KV_F16, .spans = {{1279, 2}, {16, 1}}},
    {4, 4, 24, 250, KV_F16, .spans = {{5, 1}, {249, 1}, {250, 1}, {251, 1}, {511, 1}, {1024, 1}, {1500, 3}}},
    {4, 2, 24, 20, KV_F32, .spans = {{0, 70}, {600, 9}}, .chunk = 300},
    {8, 1, 64, 32, KV_F32, .spans = {{100, 4}, {1030, 2}}, .cap = 0.7f},
    {4, 4, 63, 128, KV_F32, .spans = {{250, 20}, {0, 1}}, .has_sinks = true, .cap = 20},
    {4, 2, 24, 0, KV_F16, .spans = {{0, 40}, {300, 1}}, .v_dim = 12},
    {16, 1, 72, 0, KV_F16, .spans = {{250, 4}, {1030, 1}}, .v_dim = 64, .is_latent = true},
    {16, 1, 36, 0, KV_F32, .spans = {{0, 33}, {777, 1}}, .v_dim = 33, .is_latent = true},
    {32, 1, 576, 0, KV_F16, .spans = {{130, 1}}, .v_dim = 512, .is_latent = true},
    {4, 2, 64, 0, KV_Q8, .spans = {{0, 7}, {300, 1}, {250, 9}}},
    {8, 1, 80, 40, KV_Q6, .spans = {{530, 1}, {20, 3}}, .v_dim = 48, .has_sinks = true},
    {32, 4, 128, 0, KV_Q8, .spans = {{600, 1}, {40, 1}, {0, 5}}},
    {5, 1, 128, 100, KV_Q6, .spans = {{520, 1}, {255, 1}}, .has_sinks = true},
    {4, 4, 128, 0, KV_Q4, .spans = {{0, 1}, {260, 1}}, .cap = 5},
    {9, 1, 64, 0, KV_Q4, .spans = {{31, 1}, {256, 1}}},
    {2, 1, 64, 20, KV_Q6, .spans = {{300, 1}, {300, 2}}},
    {3, 3, 37, 0, KV_Q4, .spans = {{0, 5}, {600, 2}}},
    {4, 1, 72, 0, KV_Q4, .spans = {{250, 4}}, .v_dim = 64, .is_latent = true},
    {128, 128, 64, 0, KV_F16, .spans = {{1300, 1}, {600, 1}, {255, 1}}, .has_sinks = true},
    {64, 64, 128, 1000, KV_F16, .spans = {{1500, 1}}},
    {128, 128, 64, 1500, KV_Q8, .spans = {{1700, 1}, {511, 1}}},
    {128, 128, 128, 0, KV_Q6, .spans = {{1279, 1}}, .has_sinks = true},
};

enum { PAGES = 32, GROUPS = DEV_PAGE_TOKENS / DEV_KEY_GROUP };

/* A step over pages in a scattered order. */
typedef struct world {
    const shape *c;
    row_span spans[SHAPE_SPANS];
    int n_spans, n_rows;
    int32_t pages[SHAPE_SPANS][PAGES];
    size_t page_bytes; /* keys or values of one page */
    int n_pages;
} world;

static world make_world(const shape *c) {
    world w = {.c = c};
    w.page_bytes = (size_t)c->n_kv * GROUPS * dev_kv_group_bytes(dev_key_type(c->type), c->dim);
    for (int i = 0; i < SHAPE_SPANS && c->spans[i].n_rows; i++, w.n_spans++) {
        const int n = (int)((c->spans[i].past + c->spans[i].n_rows - 1) / DEV_PAGE_TOKENS) + 1;
        w.spans[i] = (row_span){w.n_rows, c->spans[i].n_rows, c->spans[i].past, NULL};
        w.n_rows += c->spans[i].n_rows;
        for (int p = 0; p < n; p++) w.pages[i][p] = w.n_pages + n - 1 - p;
        w.n_pages += n;
    }
    return w;
}

static kv_view view_of(const world *w, const there *kv) {
    const shape *c = w->c;
    return (kv_view){
        c->type,      c->n_kv, c->dim, c->v_dim ? c->v_dim : c->dim, kv[0].at, c->is_latent ? NULL : kv[1].at,
        w->page_bytes};
}

/* The same for types of few bits, each head of each page with kv_quant.c. */
static void fill_coded(const world *w, uint8_t *keys, uint8_t *mixed) {
    const shape *c = w->c;
    const int v_dim = c->v_dim ? c->v_dim : c->dim;
    const size_t k_group = dev_kv_group_bytes(dev_key_type(c->type), c->dim),
                 v_group = dev_kv_group_bytes(c->type, v_dim);
    for (size_t i = 0; i < (size_t)w->n_pages * (size_t)c->n_kv * DEV_PAGE_TOKENS; i++) {
        const size_t group = i / DEV_KEY_GROUP, per_page = (size_t)c->n_kv * GROUPS, in_page = group % per_page;
        const size_t page = group / per_page * w->page_bytes;
        const int slot = (int)(i % DEV_KEY_GROUP);
        float *x = random_floats((size_t)c->dim, 1, 100 + i), *y = random_floats((size_t)v_dim, 1, 1 << 20 | i);
        kv_put_key(keys + page + in_page * k_group, dev_key_type(c->type), slot, x, c->dim);
        kv_put_value(mixed + page + in_page * v_group, c->type, slot, y, v_dim);
        mem_free(x);
        mem_free(y);
    }
}

/* Random keys and values everywhere. */
static void fill_pages(const world *w, uint8_t *keys, uint8_t *mixed) {
    if (kv_is_quantised(w->c->type)) return fill_coded(w, keys, mixed);
    const size_t each = w->c->type == KV_F16 ? 2 : 4, n = (size_t)w->n_pages * w->page_bytes / each;
    for (size_t i = 0; i < n; i++) {
        const float k = (float)(rng_uniform(3, 0, i) * 2 - 1), v = (float)(rng_uniform(4, 0, i) * 2 - 1);
        const uint16_t k_half = quant_f32_to_f16(k), v_half = quant_f32_to_f16(v);
        memcpy(keys + i * each, each == 2 ? (const void *)&k_half : &k, each);
        memcpy(mixed + i * each, each == 2 ? (const void *)&v_half : &v, each);
    }
}

static void run_attend(device *d, const world *w, there *q, there *out, const there *kv, const there *sinks,
                       const row_span *spans, int n_spans) {
    const shape *c = w->c;
    const attend_args a = {.q = q->at,
                           .out = out->at,
                           .n_heads = c->n_heads,
                           .scale = 1.5f / sqrtf((float)c->dim),
                           .window = c->window,
                           .chunk = c->chunk,
                           .cap = c->cap,
                           .sinks = c->has_sinks ? sinks->at : NULL,
                           .kv = view_of(w, kv),
                           .spans = spans,
                           .n_spans = n_spans};
    d->ops->attend(d, &a);
}

/* Every span with so many rows at a time. */
static void run_chunks(device *d, const world *w, there *q, there *out, const there *kv, const there *sinks, int rows) {
    for (int s = 0; s < w->n_spans; s++)
        for (int r = 0; r < w->spans[s].n_rows; r += rows) {
            const int left = w->spans[s].n_rows - r;
            const row_span part = {w->spans[s].row + r, left < rows ? left : rows, w->spans[s].past + r,
                                   w->spans[s].pages};
            run_attend(d, w, q, out, kv, sinks, &part, 1);
        }
}

static void attend_case(const bench *b, const shape *c) {
    world w = make_world(c);
    for (int i = 0; i < w.n_spans; i++) w.spans[i].pages = w.pages[i];
    const int v_dim = c->v_dim ? c->v_dim : c->dim;
    const size_t q_bytes = (size_t)w.n_rows * (size_t)(c->n_heads * c->dim) * 4,
                 out_bytes = (size_t)w.n_rows * (size_t)(c->n_heads * v_dim) * 4,
                 kv_bytes = (size_t)w.n_pages * w.page_bytes;
    float *queries = random_floats(q_bytes / 4, 2, 1), *sink = random_floats((size_t)c->n_heads, 3, 2);
    uint8_t *keys = mem_array(kv_bytes, 1), *mixed = mem_array(kv_bytes, 1);
    float *poison = mem_array(out_bytes, 1);
    memset(poison, 0xFF, out_bytes);
    fill_pages(&w, keys, mixed);
    device *const both[] = {b->gpu, b->ref};
    float *results[4] = {NULL}; /* gpu, ref, gpu in chunks of 1 and 7 */
    for (int i = 0; i < 4; i++) {
        if (i == 2 && b->is_emulated) continue;
        device *d = both[i == 1];
        there q = put(d, queries, q_bytes), kv[] = {put(d, keys, kv_bytes), put(d, mixed, kv_bytes)};
        there sinks = put(d, sink, (size_t)c->n_heads * 4), out = put(d, poison, out_bytes);
        if (i < 2)
            run_attend(d, &w, &q, &out, kv, &sinks, w.spans, w.n_spans);
        else
            run_chunks(d, &w, &q, &out, kv, &sinks, i == 2 ? 1 : 7);
        results[i] = get(d, out.at, out_bytes);
        there *all[] = {&q, &kv[0], &kv[1], &sinks, &out};
        for (size_t k = 0; k < HARNESS_COUNT(all); k++) drop(all[k]);
    }
    const double near = is_bitwise(b) ? 6e-6 : 2e-3;
    compare(b, "attention", results[0], results[1], out_bytes / 4, near, 0);
    for (int i = 2; i < 4; i++) {
        if (!results[i]) continue;
        if (is_bitwise(b))
            assert_memory_equal(results[0], results[i], out_bytes);
        else
            compare(b, "attention in chunks", results[i], results[1], out_bytes / 4, near, 0);
    }
    for (int i = 0; i < 4; i++) mem_free(results[i]);
    void *all[] = {queries, sink, keys, mixed, poison};
    for (size_t i = 0; i < HARNESS_COUNT(all); i++) mem_free(all[i]);
}

static void attention(const bench *b) {
    for (size_t i = 0; i < HARNESS_COUNT(shapes); i++) attend_case(b, &shapes[i]);
}

/* ---- rotation ---- */

typedef struct turn {
    int n_heads, n_kv, dim, v_dim, rot;
    bool pairs, scaled;
    head_norm norm;
    kv_type type;
} turn;

static void rope_case(const bench *b, const turn *t) {
    enum { ROWS = 22 };
    static const int32_t first[] = {2, 0}, second[] = {1};
    const row_span spans[] = {{0, 4, 254, first}, {4, 18, 15, second}};
    const size_t q = ROWS * (size_t)(t->n_heads * t->dim), k = ROWS * (size_t)(t->n_kv * t->dim),
                 half = ROWS * (size_t)t->rot / 2,
                 page = (size_t)(t->n_kv * t->dim) * DEV_PAGE_TOKENS * (t->type == KV_F16 ? 2 : 4);
    float *x = random_floats(q + k, 1, 1);
    device *const both[] = {b->gpu, b->ref};
    uint8_t *keys[2], *mixed[2];
    there out[2];
    uint8_t *zeros = mem_zarray(3, page);
    for (int i = 0; i < 2; i++) {
        device *d = both[i];
        out[i] = put(d, x, q * 4);
        there in[] = {put(d, x + 1, k * 4),          put(d, x + 2, k * 4),          put(d, x, (size_t)t->dim * 4),
                      put(d, x + 3, (half + 1) * 4), put(d, x + 5, (half + 1) * 4), put(d, x, ROWS * 4),
                      put(d, zeros, 3 * page),       put(d, zeros, 3 * page)};
        const rope_store_args a = {.q = out[i].at,
                                   .k = in[0].at,
                                   .v = in[1].at,
                                   .n_heads = t->n_heads,
                                   .norm = t->norm,
                                   .q_norm = in[2].at,
                                   .norm_eps = 1e-5f,
                                   .rot_dims = t->rot,
                                   .pairs = t->pairs,
                                   .cos = t->rot ? in[3].at : NULL,
                                   .sin = t->rot ? in[4].at : NULL,
                                   .q_scale = t->scaled ? in[5].at : NULL,
                                   .kv = {t->type, t->n_kv, t->dim, t->v_dim, in[6].at, in[7].at, page},
                                   .spans = spans,
                                   .n_spans = 2};
        d->ops->rope_store(d, &a);
        keys[i] = (uint8_t *)get(d, in[6].at, 3 * page);
        mixed[i] = (uint8_t *)get(d, in[7].at, 3 * page);
        for (size_t j = 0; j < HARNESS_COUNT(in); j++) drop(&in[j]);
    }
    settle(b, "rotated q", out[0], out[1], 3e-6, 0);
    if (kv_is_quantised(t->type)) {
        size_t n_other = 0; /* codes between two that sums in another order have decided otherwise */
        for (size_t i = 0; i < 3 * page; i++) n_other += keys[0][i] != keys[1][i];
        for (size_t i = 0; i < 3 * page; i++) n_other += mixed[0][i] != mixed[1][i];
        assert_in_range(n_other, 0, ROWS * (size_t)(t->n_kv * (t->dim + t->v_dim)) / 100);
    } else if (t->type == KV_F32) {
        compare(b, "stored keys", (float *)(void *)keys[0], (float *)(void *)keys[1], 3 * page / 4, 3e-6, 0);
        assert_memory_equal(mixed[0], mixed[1], 3 * page);
    } else {
        for (size_t i = 0; i < 3 * page / 2; i++) {
            const double got = quant_f16_to_f32(((uint16_t *)(void *)keys[0])[i]);
            assert_true(fabs(got - quant_f16_to_f32(((uint16_t *)(void *)keys[1])[i])) <= 2e-3);
        }
        assert_memory_equal(mixed[0], mixed[1], 3 * page);
    }
    for (int i = 0; i < 2; i++) mem_free(keys[i]), mem_free(mixed[i]);
    mem_free(zeros);
    mem_free(x);
}

static void rotation(const bench *b) {
    static const turn cases[] = {{4, 2, 16, 16, 16, false, false, HEAD_NORM_NONE, KV_F16},
                                 {4, 2, 64, 64, 64, false, false, HEAD_NORM_NONE, KV_F16},
                                 {3, 1, 64, 64, 64, true, true, HEAD_NORM_NONE, KV_F16},
                                 {5, 2, 128, 128, 128, false, true, HEAD_NORM_NONE, KV_F16},
                                 {2, 1, 128, 128, 128, true, false, HEAD_NORM_NONE, KV_F16},
                                 {3, 1, 37, 37, 20, true, true, HEAD_NORM_FIRST, KV_F32},
                                 {5, 5, 130, 70, 64, false, true, HEAD_NORM_LAST, KV_F32},
                                 {1, 1, 8, 8, 0, false, false, HEAD_NORM_FIRST, KV_F16},
                                 {4, 2, 64, 64, 32, false, false, HEAD_NORM_NONE, KV_Q8},
                                 {2, 1, 80, 48, 16, true, true, HEAD_NORM_FIRST, KV_Q6},
                                 {3, 2, 130, 37, 64, false, false, HEAD_NORM_NONE, KV_Q4}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) rope_case(b, &cases[i]);
}

/* Single rows of many sequences: rotation and attention right behind each other, which a GPU does in one kernel. */
static const shape rows_of_many[] = {
    {4, 4, 128, 0, KV_F16, .spans = {{0, 1}, {3, 1}, {15, 1}, {16, 1}, {40, 1}, {255, 1}, {256, 1}, {700, 1}}},
    {8, 2, 64, 0, KV_F16, .spans = {{63, 1}, {0, 1}, {31, 1}, {512, 1}, {1, 1}, {1023, 1}}},
    {16, 2, 128, 100, KV_F16, .spans = {{99, 1}, {100, 1}, {101, 1}, {355, 1}, {0, 1}}, .has_sinks = true},
    {6, 3, 64, 20, KV_F16, .spans = {{5, 1}, {19, 1}, {20, 1}, {270, 1}, {271, 1}}, .has_sinks = true, .cap = 9},
    {4, 2, 128, 0, KV_F16, .spans = {{69, 1}, {70, 1}, {71, 1}, {300, 1}, {0, 1}}, .chunk = 70},
    {9, 1, 128, 0, KV_F16, .spans = {{0, 1}, {17, 1}, {100, 1}, {300, 1}, {47, 1}}}, /* more heads than a warp has */
    {4, 4, 128, 0, KV_F16, .spans = {{0, 1}, {290, 1}, {40, 1}}},                    /* fewer rows than a batch */
    {4, 2, 64, 0, KV_Q8, .spans = {{0, 1}, {29, 1}, {40, 1}, {300, 1}, {5, 1}}},
};

static void turn_and_attend(device *d, const world *w, there *q, there *kv, const there *in, there *out,
                            const there *sinks, bool pairs) {
    const rope_store_args a = {.q = q->at,
                               .k = in[0].at,
                               .v = in[1].at,
                               .n_heads = w->c->n_heads,
                               .rot_dims = w->c->dim,
                               .pairs = pairs,
                               .cos = in[2].at,
                               .sin = in[3].at,
                               .q_scale = pairs ? in[4].at : NULL,
                               .kv = view_of(w, kv),
                               .spans = w->spans,
                               .n_spans = w->n_spans};
    d->ops->rope_store(d, &a);
    run_attend(d, w, q, out, kv, sinks, w->spans, w->n_spans);
}

static void many_case(const bench *b, const shape *c, bool pairs) {
    world w = make_world(c);
    for (int i = 0; i < w.n_spans; i++) w.spans[i].pages = w.pages[i];
    const size_t rows = (size_t)w.n_rows, q = rows * (size_t)(c->n_heads * c->dim),
                 k = rows * (size_t)(c->n_kv * c->dim), half = rows * (size_t)c->dim / 2,
                 kv_bytes = (size_t)w.n_pages * w.page_bytes;
    float *x = random_floats(q + k, 1, 1);
    uint8_t *keys = mem_array(kv_bytes, 1), *mixed = mem_array(kv_bytes, 1);
    fill_pages(&w, keys, mixed);
    device *const both[] = {b->gpu, b->ref};
    there out[2];
    uint8_t *kept[2][2];
    for (int i = 0; i < 2; i++) {
        device *d = both[i];
        there queries = put(d, x, q * 4), sinks = put(d, x, (size_t)c->n_heads * 4);
        there kv[] = {put(d, keys, kv_bytes), put(d, mixed, kv_bytes)};
        there in[] = {put(d, x + 1, k * 4), put(d, x + 2, k * 4), put(d, x + 3, half * 4), put(d, x + 5, half * 4),
                      put(d, x, rows * 4)};
        out[i] = put(d, x, q * 4);
        turn_and_attend(d, &w, &queries, kv, in, &out[i], &sinks, pairs);
        for (int j = 0; j < 2; j++) kept[i][j] = (uint8_t *)get(d, kv[j].at, kv_bytes);
        there *all[] = {&queries, &sinks, &kv[0], &kv[1], &in[0], &in[1], &in[2], &in[3], &in[4]};
        for (size_t j = 0; j < HARNESS_COUNT(all); j++) drop(all[j]);
    }
    settle(b, "attention of turned rows", out[0], out[1],
           kv_is_quantised(c->type) ? 2e-2
           : is_bitwise(b)          ? 6e-4
                                    : 3e-3,
           0);
    for (size_t i = 0; c->type == KV_F16 && i < kv_bytes / 2; i++)
        assert_true(fabsf(quant_f16_to_f32(((uint16_t *)(void *)kept[0][0])[i]) -
                          quant_f16_to_f32(((uint16_t *)(void *)kept[1][0])[i])) <= 2e-3f);
    if (c->type == KV_F16) assert_memory_equal(kept[0][1], kept[1][1], kv_bytes);
    for (int i = 0; i < 4; i++) mem_free(kept[i / 2][i % 2]);
    void *host[] = {x, keys, mixed};
    for (size_t i = 0; i < HARNESS_COUNT(host); i++) mem_free(host[i]);
}

static void turned_attention(const bench *b) {
    for (size_t i = 0; i < HARNESS_COUNT(rows_of_many); i++)
        for (int pairs = 0; pairs < 2; pairs++) many_case(b, &rows_of_many[i], pairs);
}

static void latents(const bench *b) {
    enum { ROWS = 21, HEADS = 3, RANK = 20, ROT = 8, RAW = 13, DIM = RANK + ROT };
    static const int32_t pages[] = {1, 0};
    const row_span span = {0, ROWS, 245, pages};
    const size_t page = DEV_PAGE_TOKENS * DIM * 4;
    float *x = random_floats(ROWS * HEADS * DIM + 64, 1, 1);
    uint8_t *zeros = mem_zarray(2, page);
    device *const both[] = {b->gpu, b->ref};
    there out[2], k[2];
    for (int i = 0; i < 2; i++) {
        device *d = both[i];
        there in[] = {put(d, x, ROWS * HEADS * RAW * 4), put(d, x + 7, ROWS * DIM * 4), put(d, x, RANK * 4),
                      put(d, x + 9, ROWS * ROT / 2 * 4)};
        out[i] = put(d, x, ROWS * HEADS * DIM * 4);
        k[i] = put(d, zeros, 2 * page);
        const latent_store_args a = {.heads = in[0].at,
                                     .n_heads = HEADS,
                                     .heads_dim = RAW,
                                     .q = out[i].at,
                                     .latent = in[1].at,
                                     .norm = in[2].at,
                                     .norm_eps = 1e-6f,
                                     .rot_dims = ROT,
                                     .pairs = true,
                                     .cos = in[3].at,
                                     .sin = in[3].at,
                                     .kv = {KV_F32, 1, DIM, RANK, k[i].at, NULL, page},
                                     .spans = &span,
                                     .n_spans = 1};
        d->ops->latent_store(d, &a);
        for (size_t j = 0; j < HARNESS_COUNT(in); j++) drop(&in[j]);
    }
    settle(b, "latent q", out[0], out[1], 2e-6, 0);
    settle(b, "latents", k[0], k[1], 3e-6, 0);
    mem_free(x);
    mem_free(zeros);
}

ON_EACH(attention, HAS_FAST)
ON_EACH(rotation, HAS_FAST)
ON_EACH(turned_attention, HAS_FAST)
ON_EACH(latents, ALIKE)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_latents),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_turned_attention),
    };
    if (!cuda_has_gpu()) puts("SKIP: no GPU that this build can use: its kernels run emulated only");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
