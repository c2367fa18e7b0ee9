/* cpu_attend_test.c — attention at every level this machine has, AMX emulated where it is not there: against softmax
 * written down plainly, over odd sizes and scattered pages; and bit for bit the same however a prompt is cut, whoever
 * else is in the step, on any number of threads.
 *
 * What a query must not see is NaN: slots beyond its sequence, positions before all windows, pages of nobody. Buffers
 * are exactly as long as they must be, for the address sanitizer. */
#include "levels.h"
#include "attend_shape.h"
#include "dev/kv_quant.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>

enum { MOST_DEVICES = 16 };

/* A step with its memory. */
typedef struct step {
    attend_args a;
    row_span spans[SHAPE_SPANS];
    int32_t *pages[SHAPE_SPANS];
    float *q, *out, *sinks;
    int n_rows, n_pages;
    size_t kv_bytes;
} step;

/* The i-th level with an attention of its own, or NULL. */
static const char *tried_level(int i) {
    for (int at = 0; level_name(at); at++) {
        const bool is_same = (!strncmp(level_name(at), "avx512", 6) && strcmp(level_name(at), "avx512")) ||
                             !strcmp(level_name(at), "amxint8");
        if (!is_same && !i--) return level_name(at);
    }
    return NULL;
}

static device *open_device(const char *level, int threads) { return level_open(level, threads, false, 1, 1); }

/* Whether the device rounds this step's queries, keys, values and weights to BF16. */
static bool rounds(const device *d, const kv_view *kv) {
    const cpu_device *c = (const cpu_device *)d;
    return c->attend.page_tiles && kv->type == KV_F16 && kv->v && kv->head_dim <= CPU_ATTEND_TILES_DIM &&
           kv->v_dim <= CPU_ATTEND_TILES_DIM;
}

/* ---- making steps ---- */

typedef struct stream {
    uint64_t seed, counter;
} stream;

static double next(stream *r) { return rng_uniform(r->seed, 0, r->counter++); }
static float uniform(stream *r) { return (float)(next(r) * 2 - 1); }

static size_t width(const step *s) { return (size_t)s->a.n_heads * (size_t)s->a.kv.v_dim; }
static size_t q_width(const step *s) { return (size_t)s->a.n_heads * (size_t)s->a.kv.head_dim; }

/* Where elements lie, counted from the first page: a value's are neighbours, a key's are 16 apart. */
static size_t place(const kv_view *kv, const row_span *span, int64_t position, int head, int dim) {
    const size_t in_page = (size_t)head * DEV_PAGE_TOKENS * (size_t)dim;
    return (size_t)span->pages[position / DEV_PAGE_TOKENS] * kv->page_stride / (kv->type == KV_F16 ? 2 : 4) + in_page;
}

static size_t key_place(const kv_view *kv, const row_span *span, int64_t position, int head, int d) {
    const size_t slot = (size_t)(position % DEV_PAGE_TOKENS), dim = (size_t)kv->head_dim;
    return place(kv, span, position, head, kv->head_dim) + slot / 16 * 16 * dim + (size_t)d * 16 + slot % 16;
}

static size_t value_place(const kv_view *kv, const row_span *span, int64_t position, int head, int d) {
    const size_t slot = (size_t)(position % DEV_PAGE_TOKENS), dim = (size_t)kv->v_dim;
    if (!kv->v) return key_place(kv, span, position, head, d);
    return place(kv, span, position, head, kv->v_dim) + slot * dim + (size_t)d;
}

static void put_value(uint8_t *base, kv_type type, size_t at, float value) {
    if (type == KV_F16)
        ((uint16_t *)(void *)base)[at] = quant_f32_to_f16(value);
    else
        ((float *)(void *)base)[at] = value;
}

static double get_value(const uint8_t *base, kv_type type, size_t at) {
    return type == KV_F16 ? quant_f16_to_f32(((const uint16_t *)(const void *)base)[at])
                          : ((const float *)(const void *)base)[at];
}

/* ---- quantised ones: the group of a token in a head ---- */

static uint8_t *group_of(const kv_view *kv, uint8_t *base, const row_span *span, int64_t position, int head,
                         kv_type type, int dim) {
    const int group = (int)(position % DEV_PAGE_TOKENS) / DEV_KEY_GROUP + head * (DEV_PAGE_TOKENS / DEV_KEY_GROUP);
    return base + (size_t)span->pages[position / DEV_PAGE_TOKENS] * kv->page_stride +
           (size_t)group * dev_kv_group_bytes(type, dim);
}

static void put_quantised(const kv_view *kv, const row_span *span, int64_t position, int head, float *key,
                          const float *value) {
    const int slot = (int)(position % DEV_KEY_GROUP);
    kv_rotate_key(kv, key);
    kv_put_key(group_of(kv, kv->k, span, position, head, dev_key_type(kv->type), kv->head_dim), dev_key_type(kv->type),
               slot, key, kv->head_dim);
    if (kv->v)
        kv_put_value(group_of(kv, kv->v, span, position, head, kv->type, kv->v_dim), kv->type, slot, value, kv->v_dim);
}

static void put_pair(const kv_view *kv, const row_span *span, int64_t position, int head, float *key,
                     const float *value) {
    if (kv_is_quantised(kv->type)) {
        put_quantised(kv, span, position, head, key, value);
        return;
    }
    for (int d = 0; d < kv->head_dim; d++) put_value(kv->k, kv->type, key_place(kv, span, position, head, d), key[d]);
    for (int d = 0; kv->v && d < kv->v_dim; d++)
        put_value(kv->v, kv->type, value_place(kv, span, position, head, d), value[d]);
}

/* A key and a value as they were before rotation, but for what quantising cost. */
static void get_pair(float *key, float *value, const kv_view *kv, const row_span *span, int64_t position, int head) {
    const int slot = (int)(position % DEV_KEY_GROUP);
    for (int d = 0; d < kv->head_dim; d++)
        key[d] = kv_is_quantised(kv->type)
                     ? kv_get_key(group_of(kv, kv->k, span, position, head, dev_key_type(kv->type), kv->head_dim),
                                  dev_key_type(kv->type), slot, d)
                     : (float)get_value(kv->k, kv->type, key_place(kv, span, position, head, d));
    for (int d = 0; d < kv->v_dim; d++)
        value[d] = !kv->v ? key[d]
                   : kv_is_quantised(kv->type)
                       ? kv_get_value(group_of(kv, kv->v, span, position, head, kv->type, kv->v_dim), kv->type,
                                      kv->v_dim, slot, d)
                       : (float)get_value(kv->v, kv->type, value_place(kv, span, position, head, d));
    if (!kv_is_quantised(kv->type)) return;
    kv_rotate_key(kv, key);
    kv_rotate(value, kv->v_dim);
}

/* Pages are dealt out to the spans in a shuffled order. */
static void deal_pages(step *s, const shape *c, stream *r) {
    int counts[SHAPE_SPANS] = {0};
    for (int i = 0; i < SHAPE_SPANS && c->spans[i].n_rows; i++) {
        counts[i] = (int)((c->spans[i].past + c->spans[i].n_rows - 1) / DEV_PAGE_TOKENS) + 1;
        s->n_pages += counts[i];
    }
    s->n_pages += 2; /* of nobody */
    int32_t *order = mem_array((size_t)s->n_pages, sizeof *order);
    for (int i = 0; i < s->n_pages; i++) {
        const int j = (int)(next(r) * (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0, at = 0; i < SHAPE_SPANS; at += counts[i++])
        s->pages[i] = mem_copy(order + at, (size_t)counts[i] + 1, sizeof *order);
    mem_free(order);
}

static int64_t first_plainly(const step *s, int64_t p) {
    const int64_t windowed = s->a.window && p >= s->a.window ? p - s->a.window + 1 : 0;
    const int64_t chunked = s->a.chunk ? p - p % s->a.chunk : 0;
    return windowed > chunked ? windowed : chunked;
}

static void fill(step *s, stream *r) {
    const kv_view *kv = &s->a.kv;
    float *key = mem_array((size_t)kv->head_dim, sizeof *key), *value = mem_array((size_t)kv->head_dim, sizeof *value);
    memset(kv->k, 0xFF, s->kv_bytes); /* NaN in all types */
    if (kv->v) memset(kv->v, 0xFF, s->kv_bytes);
    for (int i = 0; i < s->a.n_spans; i++) {
        const row_span *span = &s->spans[i];
        const int64_t first = first_plainly(s, span->past);
        for (int64_t p = first; p < span->past + span->n_rows; p++)
            for (int h = 0; h < kv->n_kv_heads; h++) {
                for (int d = 0; d < kv->head_dim; d++) {
                    key[d] = uniform(r) * (kv->v ? 3 : 1);
                    value[d] = kv->v && d < kv->v_dim ? uniform(r) : 0;
                }
                put_pair(kv, span, p, h, key, value);
            }
    }
    mem_free(key);
    mem_free(value);
}

static step make_step(const shape *c, uint64_t seed) {
    stream r = {seed, 0};
    step s = {.a = {.n_heads = c->n_heads,
                    .scale = 1 / sqrtf((float)c->dim),
                    .window = c->window,
                    .chunk = c->chunk,
                    .cap = c->cap}};
    deal_pages(&s, c, &r);
    for (int i = 0; i < SHAPE_SPANS && c->spans[i].n_rows; i++) {
        s.spans[i] = (row_span){s.n_rows, c->spans[i].n_rows, c->spans[i].past, s.pages[i]};
        s.n_rows += c->spans[i].n_rows;
        s.a.n_spans++;
    }
    const size_t page =
        (size_t)c->n_kv * (DEV_PAGE_TOKENS / DEV_KEY_GROUP) * dev_kv_group_bytes(dev_key_type(c->type), c->dim);
    s.kv_bytes = page * (size_t)s.n_pages;
    uint8_t *k = mem_array(s.kv_bytes, 1), *v = c->is_latent ? NULL : mem_array(s.kv_bytes, 1);
    s.a.kv = (kv_view){c->type, c->n_kv, c->dim, c->v_dim ? c->v_dim : c->dim, k, v, page};
    s.sinks = mem_array((size_t)c->n_heads, sizeof(float));
    for (int i = 0; i < c->n_heads; i++) s.sinks[i] = uniform(&r) * 4;
    if (c->has_sinks) s.a.sinks = s.sinks;
    fill(&s, &r);
    s.q = mem_array((size_t)s.n_rows * q_width(&s), sizeof(float));
    s.out = mem_array((size_t)s.n_rows * width(&s), sizeof(float));
    for (size_t i = 0; i < (size_t)s.n_rows * q_width(&s); i++) s.q[i] = uniform(&r) * 2;
    return s;
}

static void free_step(step *s) {
    for (int i = 0; i < SHAPE_SPANS; i++) mem_free(s->pages[i]);
    mem_free(s->a.kv.k);
    mem_free(s->a.kv.v);
    mem_free(s->q);
    mem_free(s->sinks);
    mem_free(s->out);
}

/* ---- running them ---- */

static void run_spans(device *d, step *s, const row_span *spans, int n_spans) {
    attend_args a = s->a;
    a.q = s->q;
    a.out = s->out;
    a.spans = spans;
    a.n_spans = n_spans;
    cpu_attend(d, &a);
}

static float *result(device *d, step *s) {
    memset(s->out, 0xFF, (size_t)s->n_rows * width(s) * sizeof(float));
    run_spans(d, s, s->spans, s->a.n_spans);
    return mem_copy(s->out, (size_t)s->n_rows * width(s), sizeof(float));
}

static double rounded(double x) { return (double)quant_bf16_to_f32(quant_f32_to_bf16((float)x)); }

/* What a span's cache holds of one head, as numbers: read once for all its rows and query heads. */
typedef struct {
    float *keys, *values; /* [position - first][head_dim or v_dim] */
    int64_t first;
} plain_head;

static plain_head read_plainly(const step *s, const row_span *span, int head, bool bf16) {
    const kv_view *kv = &s->a.kv;
    const int64_t first = first_plainly(s, span->past), end = span->past + span->n_rows;
    const size_t n = (size_t)(end - first), dim = (size_t)kv->head_dim, v_dim = (size_t)kv->v_dim;
    const plain_head h = {mem_array(n * dim, sizeof(float)), mem_array(n * v_dim, sizeof(float)), first};
    for (size_t i = 0; i < n; i++) get_pair(h.keys + i * dim, h.values + i * v_dim, kv, span, first + (int64_t)i, head);
    for (size_t i = 0; bf16 && i < n * dim; i++) h.keys[i] = (float)rounded(h.keys[i]);
    for (size_t i = 0; bf16 && i < n * v_dim; i++) h.values[i] = (float)rounded(h.values[i]);
    return h;
}

/* Softmax as it is written in the paper, one query head, in double; of numbers rounded to BF16 where asked. */
static void attend_plainly(double *out, const step *s, const row_span *span, const plain_head *h, int row, int head,
                           bool bf16) {
    const kv_view *kv = &s->a.kv;
    const int64_t last = span->past + row, first = first_plainly(s, last), n = last + 1 - first;
    const float *q = s->q + (size_t)(span->row + row) * q_width(s) + (size_t)head * (size_t)kv->head_dim;
    const float *keys = h->keys + (first - h->first) * kv->head_dim;
    const float *values = h->values + (first - h->first) * kv->v_dim;
    double *weights = mem_array((size_t)n, sizeof *weights), most = s->a.sinks ? s->a.sinks[head] : -INFINITY;
    double *scaled = mem_array((size_t)kv->head_dim, sizeof *scaled);
    for (int d = 0; d < kv->head_dim; d++)
        scaled[d] = bf16 ? rounded(q[d] * s->a.scale) : (double)q[d] * (double)s->a.scale;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int d = 0; d < kv->head_dim; d++) sum += scaled[d] * keys[i * kv->head_dim + d];
        weights[i] = s->a.cap != 0 ? s->a.cap * tanh(sum / s->a.cap) : sum;
        most = fmax(most, weights[i]);
    }
    double total = s->a.sinks ? exp(s->a.sinks[head] - most) : 0;
    for (int64_t i = 0; i < n; i++) total += weights[i] = exp(weights[i] - most);
    memset(out, 0, (size_t)kv->v_dim * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < kv->v_dim; d++) out[d] += weights[i] / total * values[i * kv->v_dim + d];
    mem_free(scaled);
    mem_free(weights);
}

/* As `out` should be. */
static double *expect_plainly(const step *s, bool bf16) {
    const int group = s->a.n_heads / s->a.kv.n_kv_heads;
    double *expected = mem_array((size_t)s->n_rows * width(s), sizeof *expected);
    for (int i = 0; i < s->a.n_spans; i++)
        for (int kv_head = 0; kv_head < s->a.kv.n_kv_heads; kv_head++) {
            const row_span *span = &s->spans[i];
            const plain_head h = read_plainly(s, span, kv_head, bf16);
            for (int row = 0; row < span->n_rows; row++)
                for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
                    attend_plainly(expected + (size_t)(span->row + row) * width(s) +
                                       (size_t)head * (size_t)s->a.kv.v_dim,
                                   s, span, &h, row, head, bf16);
            mem_free(h.keys);
            mem_free(h.values);
        }
    return expected;
}

/* Weights that are rounded to 8 bits are off by up to 1 of 512, and so is their sum. */
static void compare(const device *d, const shape *c, const step *s, const double *expected) {
    const double allowed = rounds(d, &s->a.kv) ? 2.0 / 512 : 4e-6;
    for (size_t i = 0; i < (size_t)s->n_rows * width(s); i++)
        if (!(fabs(s->out[i] - expected[i]) <= allowed))
            fail_msg("%s, %d threads: %d/%d heads of %d, window %d, row %zu, element %zu: %.9g, not %.9g", d->level,
                     d->threads, c->n_heads, c->n_kv, c->dim, c->window, i / width(s), i % width(s), (double)s->out[i],
                     expected[i]);
}

/* ---- tests ---- */

static const shape shapes[] = {
    {1, 1, 1, 0, KV_F32, .spans = {{0, 1}}},
    {1, 1, 1, 0, KV_F16, .spans = {{0, 5}, {3, 2}}},
    {2, 1, 3, 5, KV_F16, .spans = {{0, 40}, {255, 3}}},
    {4, 4, 16, 0, KV_F16, .spans = {{0, 7}, {63, 1}, {64, 1}, {255, 2}}},
    {4, 1, 16, 1, KV_F32, .spans = {{0, 9}, {1030, 1}}},
    {8, 2, 24, 0, KV_F16, .spans = {{0, 40}, {1030, 1}, {17, 3}}},
    {8, 1, 24, 32, KV_F32, .spans = {{100, 40}, {1030, 2}}},
    {3, 1, 63, 0, KV_F16, .spans = {{0, 33}, {200, 1}}},
    {5, 5, 63, 300, KV_F32, .spans = {{280, 40}}},
    {8, 1, 64, 0, KV_F16, .spans = {{0, 40}, {1030, 1}, {500, 4}}},
    {8, 8, 64, 5, KV_F16, .spans = {{0, 12}, {1020, 9}}},
    {16, 2, 64, 300, KV_F16, .spans = {{250, 21}, {1023, 2}}},
    {4, 1, 80, 0, KV_F16, .spans = {{0, 40}, {777, 1}}},
    {4, 4, 80, 32, KV_F32, .spans = {{31, 3}, {32, 1}, {255, 33}}},
    {4, 2, 96, 0, KV_F16, .spans = {{5, 33}}},
    {8, 2, 128, 0, KV_F16, .spans = {{0, 40}, {1030, 1}}},
    {8, 1, 128, 300, KV_F32, .spans = {{290, 40}, {1030, 2}}},
    {7, 1, 128, 0, KV_F16, .spans = {{0, 40}}},
    {2, 1, 256, 0, KV_F16, .spans = {{0, 37}, {700, 1}}},
    {9, 1, 257, 0, KV_F16, .spans = {{0, 3}}},
    {71, 1, 64, 0, KV_F16, .spans = {{120, 3}}}, /* more heads than a tile holds */
    {2, 1, 1100, 0, KV_F16, .spans = {{60, 6}}}, /* beyond what the fast kernels have room for */
    {1, 1, 8200, 0, KV_F16, .spans = {{0, 2}}},
    {4, 2, 32, 0, KV_F16, .spans = {{2049, 1}, {3000, 2}}},
    {40, 2, 32, 0, KV_F16, .spans = {{515, 4}, {256, 1}}},   /* tiles of a few rows, widened */
    {17, 1, 48, 90, KV_F16, .spans = {{240, 20}, {700, 1}}}, /* a window that begins in the middle of tiles */
    {6, 2, 40, 17, KV_F32, .spans = {{509, 8}, {15, 3}}},
    {5, 1, 8, 0, KV_F16, .spans = {{1279, 2}, {16, 1}}},
    {13, 1, 1, 0, KV_F32, .spans = {{300, 1}}},
    {2, 2, 1024, 0, KV_F16, .spans = {{255, 2}}}, /* the most that the fast kernels have room for */
    /* many sequences of one row each, at all depths */
    {8, 1, 64, 0, KV_F16,
     .spans = {{0, 1}, {15, 1}, {16, 1}, {17, 1}, {63, 1}, {255, 1}, {256, 1}, {900, 1}, {2047, 1}}},
    {4, 4, 24, 250, KV_F16, .spans = {{5, 1}, {249, 1}, {250, 1}, {251, 1}, {511, 1}, {1024, 1}, {1500, 3}}},
    /* chunks, caps, sinks */
    {4, 2, 16, 0, KV_F16, .spans = {{0, 40}, {255, 3}, {1030, 1}}, .chunk = 32},
    {4, 2, 24, 20, KV_F32, .spans = {{0, 70}, {600, 9}}, .chunk = 300},
    {8, 2, 24, 0, KV_F16, .spans = {{0, 40}, {1030, 1}}, .cap = 5},
    {8, 1, 64, 32, KV_F32, .spans = {{100, 40}, {1030, 2}}, .cap = 0.7f},
    {8, 2, 64, 0, KV_F16, .spans = {{0, 20}, {1030, 1}}, .has_sinks = true},
    {4, 4, 63, 128, KV_F32, .spans = {{250, 20}, {0, 1}}, .has_sinks = true, .cap = 20},
    /* values narrower or wider than keys; latents */
    {4, 2, 24, 0, KV_F16, .spans = {{0, 40}, {300, 1}}, .v_dim = 12},
    {4, 1, 40, 0, KV_F16, .spans = {{0, 20}, {600, 3}}, .v_dim = 32, .is_latent = true},
    {16, 1, 72, 0, KV_F16, .spans = {{250, 40}, {1030, 1}}, .v_dim = 64, .is_latent = true},
    {16, 1, 36, 0, KV_F32, .spans = {{0, 33}, {777, 1}}, .v_dim = 33, .is_latent = true},
    {32, 1, 576, 0, KV_F16, .spans = {{130, 1}}, .v_dim = 512, .is_latent = true},
    /* quantised */
    {1, 1, 1, 0, KV_Q4, .spans = {{0, 3}}},
    {4, 1, 32, 0, KV_Q8, .spans = {{0, 40}, {255, 3}}},
    {8, 2, 64, 0, KV_Q8, .spans = {{0, 40}, {1030, 1}}},
    {8, 1, 64, 30, KV_Q6, .spans = {{0, 40}, {1030, 1}, {500, 4}}},
    {3, 3, 63, 0, KV_Q6, .spans = {{200, 9}}},
    {8, 2, 80, 0, KV_Q4, .spans = {{0, 40}, {777, 1}}},
    {40, 2, 128, 0, KV_Q4, .spans = {{515, 4}, {256, 1}}, .cap = 8, .has_sinks = true},
    {2, 1, 257, 0, KV_Q4, .spans = {{0, 37}}},
    {2, 1, 1100, 0, KV_Q8, .spans = {{60, 6}}},
    {2, 2, 1024, 0, KV_Q6, .spans = {{255, 2}}},
    {4, 2, 24, 0, KV_Q6, .spans = {{0, 40}, {300, 1}}, .v_dim = 12},
    {16, 1, 72, 0, KV_Q8, .spans = {{250, 40}, {1030, 1}}, .v_dim = 64, .is_latent = true},
    {16, 1, 36, 0, KV_Q4, .spans = {{0, 33}, {777, 1}}, .v_dim = 33, .is_latent = true},
    {32, 1, 576, 0, KV_Q6, .spans = {{130, 1}}, .v_dim = 512, .is_latent = true},
};

/* All tried levels with one thread (for tiles) and with two (for parts). */
static int open_devices(device **devices) {
    int n = 0;
    for (int i = 0; tried_level(i); i++)
        for (int threads = 1; threads <= 2; threads++) {
            assert_in_range(n, 0, MOST_DEVICES - 1);
            devices[n++] = open_device(tried_level(i), threads);
        }
    return n;
}

static void every_level_is_softmax(void **state) {
    device *devices[MOST_DEVICES];
    const int n = open_devices(devices);
    for (size_t i = 0; i < HARNESS_COUNT(shapes); i += HARNESS_STEP(5)) {
        step s = make_step(&shapes[i], i + 1);
        double *expected[] = {expect_plainly(&s, false), expect_plainly(&s, true)};
        for (int j = 0; j < n; j++) {
            mem_free(result(devices[j], &s));
            compare(devices[j], &shapes[i], &s, expected[rounds(devices[j], &s.a.kv)]);
        }
        mem_free(expected[0]);
        mem_free(expected[1]);
        free_step(&s);
    }
    for (int j = 0; j < n; j++) dev_close(devices[j]);
}

/* One span cut into chunks, one op each; all others left out. */
static void run_chunks(device *d, step *s, const row_span *span, int chunk) {
    for (int row = 0; row < span->n_rows; row += chunk) {
        const int n = span->n_rows - row < chunk ? span->n_rows - row : chunk;
        run_spans(d, s, &(row_span){span->row + row, n, span->past + row, span->pages}, 1);
    }
}

/* One, two and four threads of a level. */
static void try_cuts(device *const *devices, step *s) {
    static const int chunks[] = {1, 7, 64};
    const size_t bytes = (size_t)s->n_rows * width(s) * sizeof(float);
    float *expected = result(devices[0], s);
    for (int t = 1; t < 3; t++) {
        float *got = result(devices[t], s);
        assert_memory_equal(got, expected, bytes);
        mem_free(got);
    }
    for (size_t c = 0; c < HARNESS_COUNT(chunks); c++) {
        memset(s->out, 0xFF, bytes);
        for (int span = 0; span < s->a.n_spans; span++) run_chunks(devices[c % 3], s, &s->spans[span], chunks[c]);
        assert_memory_equal(s->out, expected, bytes);
    }
    mem_free(expected);
}

/* Every position's key lies in the pages from the start: what a chunk must not see yet is there, and must not tell. */
static void cuts_and_threads_change_no_bit(void **state) {
    static const shape cut[] = {
        /* across the edges of key groups (16), chunks (128) and pages (256) */
        {8, 1, 64, 0, KV_F16, .spans = {{0, 70}, {1020, 9}}},
        {8, 2, 128, 0, KV_F16, .spans = {{250, 12}, {2044, 6}}},
        {4, 4, 80, 100, KV_F16, .spans = {{0, 130}, {1020, 9}}},
        {2, 1, 24, 0, KV_F32, .spans = {{0, 270}, {1023, 3}, {7, 9}}},
        {3, 1, 63, 7, KV_F16, .spans = {{0, 130}, {1000, 40}}},
        {6, 2, 16, 0, KV_F32, .spans = {{200, 120}, {0, 1}}},
        {8, 1, 256, 1200, KV_F16, .spans = {{60, 9}, {1300, 4}}},
        {40, 2, 16, 0, KV_F16, .spans = {{500, 40}, {5, 1}}},
        {7, 1, 40, 500, KV_F16, .spans = {{3000, 3}, {90, 1}, {256, 1}, {1, 1}, {511, 1}}},
        {1, 1, 128, 0, KV_F16, .spans = {{240, 60}, {2500, 1}}},
        {16, 16, 4, 0, KV_F16, .spans = {{4300, 1}}}, /* for the rounds below */
        {4, 2, 16, 0, KV_F16, .spans = {{0, 130}, {1000, 40}}, .chunk = 100, .cap = 3, .has_sinks = true},
        {16, 1, 40, 0, KV_F16, .spans = {{0, 130}, {1000, 40}}, .v_dim = 32, .is_latent = true},
        {8, 1, 64, 0, KV_Q8, .spans = {{0, 70}, {1020, 9}}},
        {6, 2, 80, 500, KV_Q6, .spans = {{0, 130}, {1000, 40}}},
        {4, 4, 40, 0, KV_Q4, .spans = {{500, 40}, {5, 1}}},
        {16, 1, 40, 0, KV_Q4, .spans = {{0, 130}, {1000, 40}}, .v_dim = 32, .is_latent = true},
    };
    for (int i = 0; tried_level(i); i++) {
        device *devices[3];
        for (int t = 0; t < 3; t++) devices[t] = open_device(tried_level(i), 1 << t);
        /* Pages go in rounds of one, and of six, though a task would take eight; or not apart at all. */
        cpu_of(devices[1])->parts_bytes = 40000;
        cpu_of(devices[2])->parts_bytes = 7 * 16 * 6 * sizeof(float);
        for (size_t j = 0; j < HARNESS_COUNT(cut); j++) {
            step s = make_step(&cut[j], 77 + j);
            try_cuts(devices, &s);
            free_step(&s);
        }
        for (int t = 0; t < 3; t++) dev_close(devices[t]);
    }
}

/* Infinity and NaN in the last rows' keys and values: rows before them must not tell. */
static void what_comes_later_does_not_tell(void **state) {
    const shape endless = {8, 2, 40, 0, KV_F16, .spans = {{0, 50}, {240, 40}}, .v_dim = 24};
    for (int i = 0; tried_level(i); i++) {
        device *d = open_device(tried_level(i), 2);
        step s = make_step(&endless, 9);
        float *clean = result(d, &s);
        for (int k = 0; k < 2; k++) {
            const row_span *span = &s.spans[k];
            const int64_t last = span->past + span->n_rows - 1;
            put_value(s.a.kv.k, KV_F16, key_place(&s.a.kv, span, last, 1, 39), NAN);
            put_value(s.a.kv.v, KV_F16, value_place(&s.a.kv, span, last, 0, 3), -INFINITY);
            put_value(s.a.kv.v, KV_F16, value_place(&s.a.kv, span, last, 1, 23), NAN);
        }
        float *got = result(d, &s);
        for (int k = 0; k < 2; k++) {
            const size_t first = (size_t)s.spans[k].row * width(&s), n = (size_t)(s.spans[k].n_rows - 1) * width(&s);
            assert_memory_equal(got + first, clean + first, n * sizeof *got);
            for (size_t at = 0; at < width(&s); at++) {
                const float value = got[first + n + at];
                const bool is_second = at >= width(&s) / 2;
                assert_true(is_second ? isnan(value) : at % 24 == 3 ? isinf(value) && value < 0 : isfinite(value));
            }
        }
        mem_free(clean);
        mem_free(got);
        free_step(&s);
        dev_close(d);
    }
}

/* Scores far apart: weights that vanish, and one that is nearly all. */
static void large_scores_stay_finite(void **state) {
    const shape large = {4, 1, 64, 0, KV_F32, .spans = {{0, 20}, {1100, 2}}};
    for (int i = 0; tried_level(i); i++) {
        device *d = open_device(tried_level(i), 2);
        step s = make_step(&large, 5);
        s.a.scale = 50;
        mem_free(result(d, &s));
        for (size_t j = 0; j < (size_t)s.n_rows * width(&s); j++) assert_true(fabsf(s.out[j]) <= 1);
        free_step(&s);
        dev_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_is_softmax),
        cmocka_unit_test(cuts_and_threads_change_no_bit),
        cmocka_unit_test(what_comes_later_does_not_tell),
        cmocka_unit_test(large_scores_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
