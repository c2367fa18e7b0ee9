/* cuda_program_test.c — a decode step three times, from the embedding to the digest of its logits: launch by launch, as
 * the list that the program shortens, and as that again. All results must be the same to the last bit, residual, keys,
 * values, logits and digests alike.
 *
 * Runs on the GPU where there is one, and always on emulated ones (tests/cuda/emulate.cpp) of few multiprocessors,
 * where who goes on and when copies arrive is different with each seed. */
#include "cuda_packed.h"
#include "program_kargs.h"
#include "base/rng.h"
#include "dev/kv_quant.h"
#include "quant_samples.h"
#include "cuda_harness.h"

enum { MOST_SPANS = 4, ROW_PAGES = 40, SLOTS = DEV_PAGE_TOKENS, SCATTERED = 16 /* of GPTQ's variants */ };

/* What of a head is turned: all of it, by halves or by pairs; three quarters; so little that halves are no fours. */
typedef enum turned { ALL, PAIRS, MOST, FEW } turned;

/* A kind of layer. */
typedef struct kind {
    const char *what;
    sample_format attention, ffn;
    int hidden, ffn_width, heads, kv_heads, dim;
    int rows, past[MOST_SPANS];
    int window;
    bool apart, has_qk_norm, has_sinks; /* apart: the gate has its inputs in an order of its own */
    kv_type cache;
    turned turned;
} kind;

static const kind layer_kinds[] = {
    {"q4_0, many heads",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     1024,
     2816,
     8,
     8,
     128,
     1,
     {0},
     0,
     false,
     false,
     false,
     KV_F16,
     ALL},
    {"q4_0, grouped, pages",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     512,
     1408,
     8,
     2,
     64,
     1,
     {700},
     0,
     false,
     false,
     true,
     KV_F16,
     ALL},
    {"q4_0, rows",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     768,
     1024,
     6,
     6,
     128,
     4,
     {3, 255, 256, 1100},
     0,
     false,
     true,
     false,
     KV_F16,
     ALL},
    {"q4_0, window",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     512,
     512,
     8,
     1,
     64,
     2,
     {900, 31},
     300,
     false,
     false,
     false,
     KV_F16,
     ALL},
    {"q8_0",
     {QUANT_Q8_0, 0},
     {QUANT_Q8_0, 0},
     1024,
     1536,
     16,
     4,
     64,
     3,
     {5, 511, 77},
     0,
     false,
     false,
     false,
     KV_F16,
     ALL},
    {"exl2", {QUANT_EXL2, 0}, {QUANT_EXL2, 0}, 1024, 1024, 8, 4, 128, 1, {300}, 0, false, false, false, KV_F16, ALL},
    {"exl2, gaps", {QUANT_EXL2, 0}, {QUANT_EXL2, 0}, 544, 800, 8, 4, 64, 1, {300}, 0, false, false, false, KV_F16, ALL},
    {"exl2, gaps, rows",
     {QUANT_EXL2, 0},
     {QUANT_EXL2, 0},
     544,
     800,
     8,
     4,
     64,
     3,
     {3, 300, 5},
     0,
     false,
     false,
     false,
     KV_F16,
     ALL},
    {"fp8",
     {QUANT_FP8_E4M3, SAMPLE_TENSOR},
     {QUANT_FP8_E4M3, SAMPLE_TENSOR},
     1024,
     768,
     8,
     4,
     64,
     1,
     {300},
     0,
     false,
     false,
     false,
     KV_F16,
     ALL},
    {"fp8, rows",
     {QUANT_FP8_E4M3, SAMPLE_TENSOR},
     {QUANT_FP8_E4M3, SAMPLE_TENSOR},
     512,
     768,
     8,
     4,
     64,
     4,
     {30, 3, 300, 7},
     0,
     false,
     false,
     false,
     KV_F16,
     ALL},
    {"gptq, scattered",
     {QUANT_GPTQ, 52},
     {QUANT_GPTQ, 52},
     1024,
     768,
     8,
     8,
     128,
     2,
     {5, 30},
     0,
     true,
     false,
     false,
     KV_F16,
     ALL},
    {"q4_0, a page",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     512,
     512,
     4,
     4,
     128,
     1,
     {214},
     0,
     false,
     false,
     true,
     KV_F16,
     PAIRS},
    {"q4_0, a page, grouped",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     512,
     512,
     16,
     2,
     64,
     1,
     {131},
     0,
     false,
     false,
     false,
     KV_F16,
     MOST},
    {"q4_0, a page, window, rows",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     512,
     512,
     8,
     4,
     64,
     4,
     {90, 255, 0, 64},
     50,
     false,
     false,
     false,
     KV_F16,
     FEW},
    {"q4_0, a page, scattered",
     {QUANT_GPTQ, 52},
     {QUANT_GPTQ, 52},
     512,
     512,
     4,
     4,
     128,
     1,
     {79},
     0,
     false,
     true,
     true,
     KV_F16,
     MOST},
    {"exl2, rows",
     {QUANT_EXL2, 0},
     {QUANT_EXL2, 0},
     512,
     768,
     8,
     4,
     64,
     2,
     {0, 256},
     0,
     false,
     false,
     false,
     KV_F16,
     ALL},
};
/* Rows so long that a warp has several units of a tile, not as many as others. */
static const kind wide_kinds[] = {
    {"q4_0, wide",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     4096,
     4352,
     32,
     4,
     128,
     1,
     {40},
     0,
     false,
     false,
     false,
     KV_F16,
     ALL},
    {"q4_0, wide rows",
     {QUANT_Q4_0, 0},
     {QUANT_Q4_0, 0},
     4096,
     4352,
     32,
     4,
     128,
     2,
     {40, 7},
     0,
     false,
     false,
     false,
     KV_F16,
     ALL},
};

/* Caches of codes, whose new tokens are the first of a page, of a group, or within. */
#define LAYERS                                                                                                         \
    {QUANT_Q4_0, 0}, { QUANT_Q4_0, 0 }
static const kind coded_kinds[] = {
    {"q8, first token", LAYERS, 512, 512, 4, 4, 128, 1, {0}, 0, false, false, false, KV_Q8, ALL},
    {"q8, pages", LAYERS, 512, 512, 4, 4, 128, 2, {1203, 256}, 0, false, true, true, KV_Q8, ALL},
    {"q8, grouped, window", LAYERS, 512, 512, 8, 1, 64, 4, {700, 1279, 15, 512}, 300, false, false, false, KV_Q8, ALL},
    {"q6, one page", LAYERS, 512, 512, 8, 2, 128, 2, {255, 37}, 0, false, false, true, KV_Q6, ALL},
    {"q6, pages", LAYERS, 512, 512, 8, 8, 64, 3, {256, 1500, 777}, 0, false, true, false, KV_Q6, ALL},
    {"q6, many heads of one", LAYERS, 1024, 512, 8, 1, 128, 1, {1100}, 500, false, false, false, KV_Q6, ALL},
    {"q8, one page", LAYERS, 512, 512, 4, 4, 128, 1, {201}, 0, false, false, true, KV_Q8, MOST},
    {"q6, one page, grouped", LAYERS, 512, 512, 8, 1, 64, 1, {230}, 0, false, false, false, KV_Q6, PAIRS},
    {"q4, one page", LAYERS, 512, 512, 8, 8, 64, 1, {143}, 0, false, false, false, KV_Q4, ALL},
    {"q4, pages", LAYERS, 512, 512, 4, 2, 128, 4, {16, 512, 1301, 800}, 0, false, false, false, KV_Q4, ALL},
    {"q4, grouped, pages", LAYERS, 512, 512, 8, 4, 64, 1, {1039}, 0, false, false, true, KV_Q4, ALL},
};
/* So many KV heads that splits have several pages, and so many pages that quads do not know all of them before. */
static const kind split_kinds[] = {
    {"splits", LAYERS, 512, 512, 64, 64, 64, 1, {1500}, 0, false, false, true, KV_F16, ALL},
    {"splits, window, rows", LAYERS, 512, 512, 64, 64, 64, 3, {1500, 700, 1279}, 1100, false, true, false, KV_F16, ALL},
    {"q8, splits", LAYERS, 512, 512, 128, 128, 64, 2, {1400, 300}, 0, false, false, true, KV_Q8, ALL},
    {"q4, splits", LAYERS, 512, 512, 256, 128, 64, 1, {1283}, 0, false, false, false, KV_Q4, ALL},
    {"many pages", LAYERS, 512, 512, 1, 1, 64, 1, {8700}, 0, false, false, false, KV_F16, ALL},
};
#undef LAYERS

/* How often, for time is short where the GPU is emulated. */
typedef struct effort {
    int layers, repeats;
    size_t area; /* of words that are told; 0: as it is */
    const kind *kinds;
    int n_kinds;
} effort;

#define KINDS(of) .kinds = (of), .n_kinds = HARNESS_COUNT(of)

typedef struct world {
    const kind *k;
    effort most;
    device *gpu;
    sample samples[7];
    dev_weight weights[7];
    dev_weight table; /* of embeddings */
    uint16_t *embeddings;
    float *buffers[9], *norm, *cos, *sin, *sinks;
    digest_head *heads; /* bodies lie behind them */
    uint8_t *keys, *values;
    uint8_t *found_keys, *found_values; /* by a step */
    size_t page_bytes, kv_bytes;        /* of keys, and of values, which are no longer */
    int32_t pages[MOST_SPANS][ROW_PAGES];
    row_span spans[MOST_SPANS];
} world;

enum { STREAM, NORMED, Q, K, V, OUT, GATE, UP, PICKED };
enum { WQ, WK, WV, WO, WGATE, WUP, WDOWN, WHEAD = WUP };
enum { TABLE_ROWS = 12 };

/* Pages of a row, at most, and of all rows that there might be. */
static int row_pages(const kind *k) {
    int most = 0;
    for (int i = 0; i < k->rows; i++)
        if (k->past[i] > most) most = k->past[i];
    return most / SLOTS + 1;
}
static int count_pages(const kind *k) { return MOST_SPANS * row_pages(k); }
enum { SHUFFLE = 7 }; /* pages lie so far apart: no factor of how many there are, or two would be one */

static void *take(world *w, size_t bytes) {
    void *memory;
    assert_int_equal(w->gpu->ops->take(w->gpu, &memory, bytes, NULL), QP_OK);
    return memory;
}

static void put_random(world *w, float *to, size_t n, uint64_t seed, float size) {
    float *values = mem_array(n, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++) values[i] = (float)((double)sample_bits(seed, i) / 2147483648.0 - 1) * size;
    w->gpu->ops->upload(w->gpu, to, values, n * sizeof(float));
    mem_free(values);
}

static void open_weight(world *w, int i, const sample_format *f, int n_out, int n_in) {
    qp_error err;
    sample_open(&w->samples[i], f->id, f->variant, n_out, n_in);
    if (w->gpu->ops->weight_open(w->gpu, &w->weights[i], &w->samples[i].m, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(w->gpu->ops->weight_pack(w->gpu, &w->weights[i], &err), QP_OK);
}

/* Halves between -1 and 1, eight of each draw. */
static uint16_t *random_halves(size_t n) {
    uint16_t *halves = mem_array(n, sizeof *halves);
    uint32_t drawn[4];
    assert_non_null(halves);
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0) rng_philox(91, 0, i, drawn);
        halves[i] = (uint16_t)(drawn[i % 8 / 2] >> 16 * (i % 2) & 0xbbff);
    }
    return halves;
}

/* As keys of this cache are stored, or its values. */
static kv_type type_of(const kind *k, bool is_keys) { return is_keys ? dev_key_type(k->cache) : k->cache; }

static size_t group_bytes(const kind *k, bool is_keys) { return dev_kv_group_bytes(type_of(k, is_keys), k->dim); }

/* Where a group of a head lies in the pages. */
static size_t group_at(const world *w, int page, int head, int group, bool is_keys) {
    return (size_t)page * w->page_bytes + (size_t)(head * (SLOTS / DEV_KEY_GROUP) + group) * group_bytes(w->k, is_keys);
}

/* A group's tokens: numbers near 0. */
static void put_group(const world *w, uint8_t *group, bool is_keys, uint64_t seed) {
    float x[128];
    memset(group, 0, group_bytes(w->k, is_keys));
    for (int slot = 0; slot < DEV_KEY_GROUP; slot++) {
        for (int d = 0; d < w->k->dim; d++) {
            const uint32_t bits = sample_bits(seed, (uint64_t)(slot * w->k->dim + d));
            x[d] = (float)((double)bits / 2147483648.0 - 1) / 4;
        }
        (is_keys ? kv_put_key : kv_put_value)(group, type_of(w->k, is_keys), slot, x, w->k->dim);
    }
}

static uint8_t *random_cache(const world *w, bool is_keys) {
    if (w->k->cache == KV_F16) return (uint8_t *)random_halves(w->kv_bytes / 2);
    uint8_t *cache = mem_array(w->kv_bytes, 1);
    assert_non_null(cache);
    for (int page = 0; page < count_pages(w->k); page++)
        for (int i = 0; i < w->k->kv_heads * (SLOTS / DEV_KEY_GROUP); i++)
            put_group(w, cache + group_at(w, page, 0, i, is_keys), is_keys, (uint64_t)(page * 1000 + i));
    return cache;
}

/* What rows do not see may be anything; here it is no number. */
static uint8_t *seen_values(const world *w, const uint8_t *values) {
    const kind *k = w->k;
    const size_t token = group_bytes(k, false) / DEV_KEY_GROUP;
    uint8_t *seen = mem_array(w->kv_bytes, 1);
    assert_non_null(seen);
    memset(seen, 0xFF, w->kv_bytes);
    for (int s = 0; s < k->rows; s++) {
        const int past = k->past[s], first = k->window && past >= k->window ? past - k->window + 1 : 0;
        for (int i = first; i < past; i++)
            for (int head = 0; head < k->kv_heads; head++) {
                const size_t at = group_at(w, w->pages[s][i / SLOTS], head, 0, false) + (size_t)(i % SLOTS) * token;
                memcpy(seen + at, values + at, token);
            }
    }
    return seen;
}

static void open_table(world *w) {
    const size_t n = (size_t)TABLE_ROWS * (size_t)w->k->hidden;
    const quant_id type = w->k->rows % 2 ? QUANT_F16 : QUANT_BF16;
    qp_error err;
    w->embeddings = random_halves(n);
    const quant_matrix m =
        quant_plain(quant_type_of(type), TABLE_ROWS, w->k->hidden, w->embeddings, n * sizeof *w->embeddings);
    if (w->gpu->ops->weight_open(w->gpu, &w->table, &m, &err) != QP_OK) fail_msg("%s", err.text);
    w->table.use = DEV_USE_TABLE;
}

static void build(world *w, device *gpu, const kind *k, effort most) {
    *w = (world){.k = k, .gpu = gpu, .most = most};
    const int q = k->heads * k->dim, kv = k->kv_heads * k->dim;
    const int widths[] = {k->hidden, k->hidden, q, kv, kv, q, k->ffn_width, k->ffn_width, k->hidden};
    const int shapes[7][2] = {{q, k->hidden},           {kv, k->hidden},           {kv, k->hidden},
                              {k->hidden, q},           {k->ffn_width, k->hidden}, {k->ffn_width, k->hidden},
                              {k->hidden, k->ffn_width}};
    for (int i = 0; i < 7; i++) {
        sample_format f = i < WGATE ? k->attention : k->ffn;
        if (k->apart && i == WUP) f.variant &= ~SCATTERED;
        open_weight(w, i, &f, shapes[i][0], shapes[i][1]);
    }
    open_table(w);
    w->heads = take(w, (size_t)k->rows * (sizeof(digest_head) + sizeof(digest_body)));
    for (int i = 0; i < 9; i++) w->buffers[i] = take(w, (size_t)(k->rows * widths[i]) * sizeof(float));
    w->norm = take(w, (size_t)k->hidden * sizeof(float));
    w->sinks = take(w, (size_t)k->heads * sizeof(float));
    w->cos = take(w, (size_t)(k->rows * k->dim) * sizeof(float));
    w->sin = take(w, (size_t)(k->rows * k->dim) * sizeof(float));
    put_random(w, w->norm, (size_t)k->hidden, 41, 1);
    put_random(w, w->sinks, (size_t)k->heads, 42, 1);
    put_random(w, w->cos, (size_t)(k->rows * k->dim), 43, 1);
    put_random(w, w->sin, (size_t)(k->rows * k->dim), 44, 1);
    assert_true(row_pages(k) <= ROW_PAGES && count_pages(k) % SHUFFLE);
    w->page_bytes = (size_t)(k->kv_heads * (SLOTS / DEV_KEY_GROUP)) * group_bytes(k, true);
    w->kv_bytes = w->page_bytes * (size_t)count_pages(k);
    w->keys = take(w, w->kv_bytes);
    w->values = take(w, w->kv_bytes);
    for (int s = 0; s < k->rows; s++) {
        for (int p = 0; p < row_pages(k); p++) w->pages[s][p] = (s * row_pages(k) + p) * SHUFFLE % count_pages(k);
        w->spans[s] = (row_span){.row = s, .n_rows = 1, .past = k->past[s], .pages = w->pages[s]};
    }
    uint8_t *values = random_cache(w, false);
    w->found_keys = random_cache(w, true);
    w->found_values = seen_values(w, values);
    mem_free(values);
}

static void drop(world *w) {
    void *const memory[] = {w->norm, w->sinks, w->cos, w->sin, w->keys, w->values, w->heads};
    w->gpu->ops->weight_close(w->gpu, &w->table);
    mem_free(w->embeddings);
    for (int i = 0; i < 7; i++) w->gpu->ops->weight_close(w->gpu, &w->weights[i]);
    for (int i = 0; i < 7; i++) sample_close(&w->samples[i]);
    for (int i = 0; i < 9; i++) w->gpu->ops->give(w->gpu, w->buffers[i], 0);
    for (size_t i = 0; i < HARNESS_COUNT(memory); i++) w->gpu->ops->give(w->gpu, memory[i], 0);
    mem_free(w->found_keys);
    mem_free(w->found_values);
}

/* What a step finds: caches, and a residual of another step. */
static void fill(world *w) {
    w->gpu->ops->upload(w->gpu, w->keys, w->found_keys, w->kv_bytes);
    w->gpu->ops->upload(w->gpu, w->values, w->found_values, w->kv_bytes);
    put_random(w, w->buffers[STREAM], (size_t)(w->k->rows * w->k->hidden), 17, 2);
    qp_error err;
    assert_int_equal(w->gpu->ops->finish(w->gpu, &err), QP_OK);
}

static void run_norm(world *w, int to) {
    const norm_args a = {.kind = NORM_RMS,
                         .x = w->buffers[STREAM],
                         .n_rows = w->k->rows,
                         .dim = w->k->hidden,
                         .weight = w->norm,
                         .eps = 1e-5f,
                         .out = w->buffers[to]};
    w->gpu->ops->norm(w->gpu, &a);
}

static matmul_part part_of(world *w, int weight, int to, bool add) {
    return (matmul_part){
        .w = &w->weights[weight], .out = w->buffers[to], .out_stride = w->weights[weight].n_out, .add = add};
}

static void run_products(world *w, int from, const int *which, const int *to, int n, bool add, bool gates) {
    matmul_args a = {.x = w->buffers[from],
                     .x_stride = w->weights[which[0]].n_in,
                     .n_rows = w->k->rows,
                     .n_parts = n,
                     .is_gated = gates,
                     .act = ACT_SILU};
    for (int i = 0; i < n; i++) a.parts[i] = part_of(w, which[i], to[i], add);
    w->gpu->ops->matmul(w->gpu, &a);
}

static int rot_dims(const kind *k) { return k->turned == MOST ? k->dim * 3 / 4 : k->turned == FEW ? 20 : k->dim; }

static void run_attention(world *w) {
    const kind *k = w->k;
    const kv_view kv = {.type = k->cache,
                        .n_kv_heads = k->kv_heads,
                        .head_dim = k->dim,
                        .v_dim = k->dim,
                        .k = w->keys,
                        .v = w->values,
                        .page_stride = w->page_bytes};
    const rope_store_args r = {.q = w->buffers[Q],
                               .k = w->buffers[K],
                               .v = w->buffers[V],
                               .n_heads = k->heads,
                               .norm = k->has_qk_norm ? HEAD_NORM_FIRST : HEAD_NORM_NONE,
                               .norm_eps = 1e-6f,
                               .rot_dims = rot_dims(k),
                               .pairs = k->turned == PAIRS,
                               .cos = w->cos,
                               .sin = w->sin,
                               .kv = kv,
                               .spans = w->spans,
                               .n_spans = k->rows};
    const attend_args a = {.q = w->buffers[Q],
                           .out = w->buffers[OUT],
                           .n_heads = k->heads,
                           .scale = 0.125f,
                           .window = k->window,
                           .sinks = k->has_sinks ? w->sinks : NULL,
                           .kv = kv,
                           .spans = w->spans,
                           .n_spans = k->rows};
    w->gpu->ops->rope_store(w->gpu, &r);
    w->gpu->ops->attend(w->gpu, &a);
}

static void run_layer(world *w) {
    run_norm(w, NORMED);
    run_products(w, NORMED, (int[]){WQ, WK, WV}, (int[]){Q, K, V}, 3, false, false);
    run_attention(w);
    run_products(w, OUT, (int[]){WO}, (int[]){STREAM}, 1, true, false);
    run_norm(w, NORMED);
    run_products(w, NORMED, (int[]){WGATE, WUP}, (int[]){GATE, UP}, 2, false, true);
    run_products(w, GATE, (int[]){WDOWN}, (int[]){STREAM}, 1, true, false);
}

static void run_embed(world *w) {
    static const int32_t ids[MOST_SPANS] = {TABLE_ROWS - 1, 3, 0, 3};
    const embed_args a = {
        .ids = ids, .n_rows = w->k->rows, .table = &w->table, .out = w->buffers[STREAM], .scale = 1.5f};
    w->gpu->ops->embed(w->gpu, &a);
}

/* The best of each row, which a program may have found already: then nothing is launched for it. */
static bool run_digest(world *w, digest_head *out) {
    const int n = w->k->ffn_width - 5, width = w->k->ffn_width;
    digest_order orders[MOST_SPANS];
    for (int i = 0; i < w->k->rows; i++)
        orders[i] = (digest_order){.want = DIGEST_BEST, .n = n, .group = 1, .n_groups = (n + 31) / 32};
    const digest_args a = {.logits = w->buffers[UP],
                           .n_rows = w->k->rows,
                           .width = width,
                           .changed = w->buffers[UP],
                           .orders = orders,
                           .bytes = (size_t)w->k->rows * sizeof *orders,
                           .heads = w->heads,
                           .bodies = (digest_body *)(void *)(w->heads + w->k->rows)};
    w->gpu->ops->digest(w->gpu, &a);
    const bool is_made = !((cuda_device *)(void *)w->gpu)->queue.used;
    w->gpu->ops->digest_heads(w->gpu, out, w->k->rows);
    digest_head again[MOST_SPANS];
    w->gpu->ops->digest(w->gpu, &a);
    w->gpu->ops->digest_heads(w->gpu, again, w->k->rows);
    assert_memory_equal(out, again, (size_t)w->k->rows * sizeof *out);
    return is_made;
}

static int n_made; /* digests by programs */

/* The residual, then keys and values, logits and digests. */
static uint8_t *run_step(world *w, size_t *bytes) {
    const size_t stream = (size_t)(w->k->rows * w->k->hidden) * sizeof(float);
    const size_t logits = (size_t)(w->k->rows * w->k->ffn_width) * sizeof(float);
    const size_t heads = (size_t)w->k->rows * sizeof(digest_head);
    digest_head found[2][MOST_SPANS];
    qp_error err;
    fill(w);
    run_embed(w);
    for (int i = 0; i < w->most.layers; i++) run_layer(w);
    run_norm(w, PICKED);
    run_products(w, PICKED, (int[]){WHEAD}, (int[]){UP}, 1, false, false);
    if (w->gpu->ops->finish(w->gpu, &err) != QP_OK) fail_msg("%s: %s", w->k->what, err.text);
    n_made += run_digest(w, found[0]);
    *bytes = 2 * stream + 2 * w->kv_bytes + logits + heads;
    uint8_t *all = mem_array(*bytes, 1);
    assert_non_null(all);
    w->gpu->ops->download(w->gpu, found[1], w->heads, heads);
    assert_memory_equal(found[0], found[1], heads);
    uint8_t *behind = all + 2 * stream + 2 * w->kv_bytes;
    w->gpu->ops->download(w->gpu, behind, w->buffers[UP], logits);
    memcpy(behind + logits, found[0], heads);
    w->gpu->ops->download(w->gpu, all, w->buffers[STREAM], stream);
    w->gpu->ops->download(w->gpu, all + stream, w->buffers[PICKED], stream);
    w->gpu->ops->download(w->gpu, all + 2 * stream, w->keys, w->kv_bytes);
    w->gpu->ops->download(w->gpu, all + 2 * stream + w->kv_bytes, w->values, w->kv_bytes);
    return all;
}

static void check_finite(const world *w, const uint8_t *all) {
    for (int i = 0; i < w->k->rows * w->k->hidden; i++) {
        float x;
        memcpy(&x, all + (size_t)i * sizeof x, sizeof x);
        if (!(x > -1e30f && x < 1e30f)) fail_msg("%s: element %d of the residual is %g", w->k->what, i, (double)x);
    }
}

static void step_is_repeated(device *gpu, const kind *k, effort most) {
    world w;
    size_t bytes, again;
    build(&w, gpu, k, most);
    uint8_t *first = run_step(&w, &bytes);
    check_finite(&w, first);
    const int before = ((cuda_device *)(void *)gpu)->queue.n_programs;
    for (int i = 0; i < most.repeats; i++) {
        uint8_t *other = run_step(&w, &again);
        assert_int_equal(again, bytes);
        if (memcmp(other, first, bytes)) {
            size_t b = 0;
            while (other[b] == first[b]) b++;
            fail_msg("%s: time %d, byte %zu of %zu differs", k->what, i + 2, b, bytes);
        }
        mem_free(other);
    }
    if (((cuda_device *)(void *)gpu)->queue.n_programs != before + 1) fail_msg("%s: no program", k->what);
    mem_free(first);
    drop(&w);
}

static void every_kind(const char *library, effort most) {
    const dev_options options = cuda_test_options(2, false);
    device *gpu;
    qp_error err;
    if (cuda_open_from(&gpu, library, &options, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(gpu->ops->reserve(gpu, 64, 16384, &err), QP_OK);
    if (most.area) ((cuda_device *)(void *)gpu)->program_area = most.area;
    const bool has_programs = ((cuda_device *)(void *)gpu)->programs;
    if (library) assert_true(has_programs);
    for (int i = 0; i < most.n_kinds && has_programs; i++) step_is_repeated(gpu, &most.kinds[i], most);
    dev_close(gpu);
    if (has_programs) assert_true(n_made > 0);
}

static void on_gpu(effort most) {
    if (!cuda_has_gpu()) HARNESS_SKIP("no GPU");
    most.layers = 3;
    every_kind(NULL, most);
}

static void programs_compute_what_launches_do(void **state) { on_gpu((effort){.repeats = 3, KINDS(layer_kinds)}); }

static void wide_layers_do(void **state) { on_gpu((effort){.repeats = 3, KINDS(wide_kinds)}); }

static void caches_of_codes_do(void **state) { on_gpu((effort){.repeats = 3, KINDS(coded_kinds)}); }

static void splits_do(void **state) { on_gpu((effort){.repeats = 3, KINDS(split_kinds)}); }

/* Where there is no room to tell, blocks meet: at first, and halfway. */
static void without_room(size_t area) {
    on_gpu((effort){.repeats = 2, .area = area, KINDS(layer_kinds)});
    on_gpu((effort){.repeats = 2, .area = area, KINDS(coded_kinds)});
}

static void programs_need_no_room(void **state) { without_room(128); }

static void programs_need_no_room_halfway(void **state) { without_room(100 << 10); }

static void programs_need_no_luck(void **state) {
    static const struct {
        const char *gpu; /* capability, multiprocessors, seed */
        size_t area;
    } cases[] = {{"9 5 0", 0}, {"9 7 1", 0}, {"9 4 3", 100 << 10}, {"9 4 4", 128}, {"9 8 5", 128}};
    char emulated[4096];
    if (!cuda_emulated_path(emulated, sizeof emulated)) HARNESS_SKIP("no C++ compiler for the emulated GPU");
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        cuda_emulate(cases[i].gpu);
        every_kind(emulated, (effort){.layers = 2, .repeats = 2, .area = cases[i].area, KINDS(layer_kinds)});
        every_kind(emulated, (effort){.layers = 2, .repeats = 2, .area = cases[i].area, KINDS(coded_kinds)});
    }
    cuda_emulate("9 6 6");
    every_kind(emulated, (effort){.layers = 2, .repeats = 2, .kinds = wide_kinds, .n_kinds = 1});
    every_kind(emulated, (effort){.layers = 2, .repeats = 1, KINDS(split_kinds)});
    cuda_emulate("9 1 7");
    every_kind(
        emulated,
        (effort){.layers = 2, .repeats = 1, .kinds = &split_kinds[HARNESS_COUNT(split_kinds) - 1], .n_kinds = 1});
    cuda_emulate(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_compute_what_launches_do),
        cmocka_unit_test(wide_layers_do),
        cmocka_unit_test(caches_of_codes_do),
        cmocka_unit_test(splits_do),
        cmocka_unit_test(programs_need_no_room),
        cmocka_unit_test(programs_need_no_room_halfway),
        cmocka_unit_test(programs_need_no_luck),
    };
    return cmocka_run_group_tests(tests, sample_read_goldens, sample_drop_goldens);
}
