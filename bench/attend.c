/* attend.c — how fast is attention? Decoding at several depths, one sequence and many, against the bandwidth of memory,
 * and whole prompts against the processor's arithmetic; one line per shape and question.
 *
 * usage: attend [LEVEL [THREADS [all]]]; all: every type of cache that is no wider than float16. Built by `ninja
 * bench_attend`. Between repeats of a decode step as many other layers' keys and values are read as a real model would
 * read weights, so that caches are cold. On a machine that others use, too, limits change from moment to moment: after
 * each step the same memory is read plainly, and the share is the median of the ratios of such pairs. */
#include "figures.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/pool.h"
#include "dev/kv_quant.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLD_BYTES = 96 << 20, REPEATS = 15, READ_TASK = 1 << 18, MOST_LAYERS = 64, MOST_SEQUENCES = 32 };

typedef struct shape {
    const char *name;
    int n_heads, n_kv, dim;
} shape;

static const shape shapes[] = {{"tinyllama", 32, 4, 64}, {"llama3-8b", 32, 8, 128}, {"llama2-7b", 32, 32, 128}};

/* One question: n_rows rows of each of n_sequences sequences, the deepest of which has `past` tokens; the others have
 * evenly less. */
typedef struct question {
    int64_t past;
    int n_rows, n_sequences;
} question;

static const question questions[] = {{0, 1, 1},     {1024, 1, 1},  {4096, 1, 1}, {16384, 1, 1},
                                     {4096, 1, 16}, {4096, 1, 32}, {0, 512, 1},  {0, 2048, 1}};

static void *take(device *d, size_t bytes) {
    void *memory;
    qp_error err;
    if (d->ops->take(d, &memory, bytes, &err) == QP_OK) return memory;
    fprintf(stderr, "attend: %s\n", err.text);
    exit(1);
}

/* Halves near 1, with different signs: no speed depends on values, but NaN and denormals would. */
static void fill_halves(uint16_t *to, size_t bytes) {
    for (size_t i = 0; i < bytes / 2; i++) to[i] = (uint16_t)(0x3400 + (i * 2654435761u >> 16 & 0x83FF));
}

/* ---- a step and its limit ---- */

/* What a question needs: memory and arguments of some layers. */
typedef struct setup {
    attend_args layers[MOST_LAYERS];
    row_span spans[MOST_SEQUENCES];
    int32_t *pages;
    int n_layers, n_pages, n_rows;
    double tokens, products; /* that a layer's rows read, and pairs of a row and a token */
    size_t layer_bytes, row_bytes;
    uint8_t *memory;
    float *x, *out;
} setup;

typedef struct reading {
    const uint64_t *from;
    _Atomic uint64_t sum;
} reading;

static void read_task(void *context, int64_t task, int worker) {
    reading *r = context;
    const uint64_t *at = r->from + task * READ_TASK / 8;
    uint64_t sums[8] = {0};
    for (int i = 0; i < READ_TASK / 8; i += 8)
        for (int j = 0; j < 8; j++) sums[j] += at[i + j];
    for (int j = 0; j < 8; j++) atomic_fetch_add(&r->sum, sums[j]);
}

/* Seconds for a layer's bytes, read plainly. */
static double read_seconds(pool *p, const uint8_t *from, size_t bytes) {
    reading r = {.from = (const void *)from};
    const int64_t tasks = (int64_t)(bytes / READ_TASK);
    const double begin = clock_now();
    pool_run(p, read_task, &r, tasks);
    return tasks ? (clock_now() - begin) * (double)bytes / ((double)tasks * READ_TASK) : 0;
}

typedef struct answer {
    double seconds, share; /* of the reading speed */
} answer;

/* Layer after layer; what is read plainly lies half way round. */
static answer run(device *d, pool *p, const setup *s) {
    enum { MOST = REPEATS * MOST_LAYERS };
    static double seconds[MOST], shares[MOST];
    const int n = s->n_layers > REPEATS ? 2 * s->n_layers : REPEATS;
    for (int i = -1; i < n; i++) {
        const int l = (i + s->n_layers) % s->n_layers;
        const double begin = clock_now();
        d->ops->attend(d, &s->layers[l]);
        d->ops->finish(d, NULL);
        const double took = clock_now() - begin;
        const size_t other = (size_t)((l + s->n_layers / 2) % s->n_layers);
        const double read = read_seconds(p, s->memory + other * s->layer_bytes, s->layer_bytes);
        if (i < 0) continue;
        seconds[i] = took;
        shares[i] = read / (double)s->layer_bytes * s->tokens / took;
    }
    return (answer){figures_median(seconds, (size_t)n), figures_median(shares, (size_t)n)};
}

/* ---- setting up ---- */

/* Pages are dealt out to the sequences from the last to the first. */
static void deal(setup *s, const question *q) {
    s->pages = malloc((size_t)MOST_SEQUENCES * (size_t)(q->past + q->n_rows + DEV_PAGE_TOKENS) / DEV_PAGE_TOKENS * 2 *
                      sizeof *s->pages);
    if (!s->pages) exit(1);
    for (int i = 0; i < q->n_sequences; i++) {
        const int64_t past = q->past * (i + 1) / q->n_sequences;
        s->spans[i] = (row_span){s->n_rows, q->n_rows, past, s->pages + s->n_pages};
        s->n_rows += q->n_rows;
        s->tokens += (double)(past + q->n_rows);
        s->products += (double)q->n_rows * (double)past + (double)q->n_rows * (q->n_rows + 1) / 2;
        s->n_pages += (int)((past + q->n_rows - 1) / DEV_PAGE_TOKENS) + 1;
    }
    for (int i = 0; i < s->n_pages; i++) s->pages[i] = s->n_pages - 1 - i;
}

static void set_up(setup *s, device *d, const shape *c, const question *q, kv_type type) {
    *s = (setup){0};
    deal(s, q);
    const size_t groups = (size_t)c->n_kv * (DEV_PAGE_TOKENS / DEV_KEY_GROUP);
    const size_t keys = groups * dev_kv_group_bytes(dev_key_type(type), c->dim);
    const size_t both = keys + groups * dev_kv_group_bytes(type, c->dim);
    s->layer_bytes = both * (size_t)s->n_pages;
    s->n_layers = q->n_rows > 1 ? 1 : (int)(COLD_BYTES / s->layer_bytes) + 2;
    if (s->n_layers > MOST_LAYERS) s->n_layers = MOST_LAYERS;
    s->row_bytes = (size_t)s->n_rows * (size_t)c->n_heads * (size_t)c->dim * sizeof(float);
    s->memory = take(d, s->layer_bytes * (size_t)s->n_layers);
    s->x = take(d, s->row_bytes);
    s->out = take(d, s->row_bytes);
    fill_halves((uint16_t *)(void *)s->memory, s->layer_bytes * (size_t)s->n_layers);
    for (size_t i = 0; i < s->row_bytes / sizeof(float); i++) s->x[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    for (int l = 0; l < s->n_layers; l++) {
        uint8_t *k = s->memory + (size_t)l * s->layer_bytes;
        s->layers[l] = (attend_args){.q = s->x,
                                     .out = s->out,
                                     .n_heads = c->n_heads,
                                     .scale = 0.1f,
                                     .kv = {type, c->n_kv, c->dim, c->dim, k, k + keys, both},
                                     .spans = s->spans,
                                     .n_spans = q->n_sequences};
    }
}

static void ask(device *d, pool *p, const shape *c, const question *q, kv_type type) {
    static setup s;
    set_up(&s, d, c, q, type);
    const double token_bytes = (double)s.layer_bytes / s.n_pages / DEV_PAGE_TOKENS;
    s.tokens *= token_bytes;
    const answer a = run(d, p, &s);
    printf("%-10s %s past %5lld rows %4d x %2d: %10.1f us %8.1f GFLOP/s", c->name, kv_type_name(type),
           (long long)q->past, q->n_rows, q->n_sequences, a.seconds * 1e6,
           4 * s.products * c->n_heads * c->dim / a.seconds * 1e-9);
    if (q->n_rows == 1 && q->past)
        printf(" %7.2f GB/s, %3.0f %% of reading", s.tokens / a.seconds * 1e-9, 100 * a.share);
    putchar('\n');
    free(s.pages);
    d->ops->give(d, s.x, s.row_bytes);
    d->ops->give(d, s.out, s.row_bytes);
    d->ops->give(d, s.memory, s.layer_bytes * (size_t)s.n_layers);
}

int main(int argc, char **argv) {
    dev_options options = {.cpu_level = argc > 1 && strcmp(argv[1], "best") ? argv[1] : NULL,
                           .threads = argc > 2 ? atoi(argv[2]) : 0};
    device *d;
    pool *p;
    qp_error err;
    if (dev_open(&d, &options, &err) != QP_OK || pool_new(&p, d->threads, false, &err) != QP_OK) {
        fprintf(stderr, "attend: %s\n", err.text);
        return 1;
    }
    printf("%s, %d threads\n", d->level, d->threads);
    const bool is_all = argc > 3 && !strcmp(argv[3], "all");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof questions / sizeof *questions; j++)
            for (kv_type type = KV_F16; type < (is_all ? KV_TYPES : KV_F32); type++)
                if (type != KV_F32) ask(d, p, &shapes[i], &questions[j], type);
    pool_free(p);
    dev_close(d);
    return 0;
}
