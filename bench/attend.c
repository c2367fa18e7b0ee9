/* attend.c — how fast is attention? Decoding one token at several depths against the bandwidth of memory, and whole
 * prompts against the processor's arithmetic; one line per shape and question.
 *
 * usage: attend [LEVEL [THREADS]]. Built by `ninja bench_attend`. Between repeats of a decode step as many other
 * layers' keys and values are read as a real model would read weights, so that caches are cold. */
#include "base/clock.h"
#include "base/err.h"
#include "dev/dev.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLD_BYTES = 96 << 20, REPEATS = 9 };

typedef struct shape {
    const char *name;
    int n_heads, n_kv, dim;
} shape;

static const shape shapes[] = {{"tinyllama", 32, 4, 64}, {"llama3-8b", 32, 8, 128}, {"llama2-7b", 32, 32, 128}};

/* One question: n_rows rows of a sequence that has `past` tokens. */
typedef struct question {
    int64_t past;
    int n_rows;
} question;

static const question questions[] = {{0, 1}, {1024, 1}, {4096, 1}, {16384, 1}, {0, 512}, {0, 2048}};

static void *take(device *d, size_t bytes) {
    void *memory;
    qp_error err;
    if (d->ops->take(d, &memory, bytes, &err) == QP_OK) return memory;
    fprintf(stderr, "attend: %s\n", err.text);
    exit(1);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Halves near 1, with different signs: no speed depends on values, but NaN and denormals would. */
static void fill_halves(uint16_t *to, size_t bytes) {
    for (size_t i = 0; i < bytes / 2; i++) to[i] = (uint16_t)(0x3400 + (i * 2654435761u >> 16 & 0x83FF));
}

static double median_seconds(device *d, const attend_args *layers, int n_layers) {
    double seconds[REPEATS];
    for (int r = -1; r < REPEATS; r++) {
        const double begin = clock_now();
        for (int l = 0; l < n_layers; l++) d->ops->attend(d, &layers[l]);
        d->ops->finish(d, NULL);
        if (r >= 0) seconds[r] = (clock_now() - begin) / n_layers;
    }
    qsort(seconds, REPEATS, sizeof *seconds, by_size);
    return seconds[REPEATS / 2];
}

static void ask(device *d, const shape *s, question q) {
    const int n_pages = (int)((q.past + q.n_rows - 1) / DEV_PAGE_TOKENS) + 1;
    const size_t page = (size_t)s->n_kv * DEV_PAGE_TOKENS * (size_t)s->dim * 2, layer = page * (size_t)n_pages;
    int n_layers = q.n_rows > 1 ? 1 : (int)(COLD_BYTES / (2 * layer)) + 1;
    if (n_layers > 64) n_layers = 64;
    const size_t floats = (size_t)q.n_rows * (size_t)s->n_heads * (size_t)s->dim * sizeof(float);
    uint8_t *k = take(d, layer * (size_t)n_layers), *v = take(d, layer * (size_t)n_layers);
    float *x = take(d, floats), *out = take(d, floats);
    int32_t *pages = malloc((size_t)n_pages * sizeof *pages);
    attend_args *layers = calloc((size_t)n_layers, sizeof *layers);
    const row_span span = {.n_rows = q.n_rows, .past = q.past, .pages = pages};
    if (!pages || !layers) exit(1);
    fill_halves((uint16_t *)(void *)k, layer * (size_t)n_layers);
    fill_halves((uint16_t *)(void *)v, layer * (size_t)n_layers);
    for (size_t i = 0; i < floats / sizeof(float); i++) x[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    for (int i = 0; i < n_pages; i++) pages[i] = n_pages - 1 - i;
    for (int l = 0; l < n_layers; l++)
        layers[l] = (attend_args){.q = x,
                                  .out = out,
                                  .n_heads = s->n_heads,
                                  .scale = 0.1f,
                                  .kv = {KV_F16, s->n_kv, s->dim, k + (size_t)l * layer, v + (size_t)l * layer, page},
                                  .spans = &span,
                                  .n_spans = 1};
    const double seconds = median_seconds(d, layers, n_layers);
    const double seen = (double)q.n_rows * (double)q.past + (double)q.n_rows * (q.n_rows + 1) / 2;
    const double bytes = (double)(q.past + q.n_rows) * s->n_kv * s->dim * 4;
    printf("%-10s past %5lld rows %4d: %10.1f us %7.2f GB/s %8.1f GFLOP/s\n", s->name, (long long)q.past, q.n_rows,
           seconds * 1e6, bytes / seconds * 1e-9, 4 * seen * s->n_heads * s->dim / seconds * 1e-9);
    free(layers);
    free(pages);
    d->ops->give(d, x, floats);
    d->ops->give(d, out, floats);
    d->ops->give(d, k, layer * (size_t)n_layers);
    d->ops->give(d, v, layer * (size_t)n_layers);
}

int main(int argc, char **argv) {
    dev_options options = {.cpu_level = argc > 1 && strcmp(argv[1], "best") ? argv[1] : NULL,
                           .threads = argc > 2 ? atoi(argv[2]) : 0};
    device *d;
    qp_error err;
    if (dev_open(&d, &options, &err) != QP_OK) {
        fprintf(stderr, "attend: %s\n", err.text);
        return 1;
    }
    const dev_measure_options measuring = {.cpu_level = options.cpu_level, .threads = d->threads, .seconds = 0.5};
    qp_measure bandwidth;
    if (dev_measure_bandwidth(&bandwidth, &measuring, &err) == QP_OK)
        printf("%s, %d threads, memory reads %.1f %s\n", d->level, d->threads, bandwidth.median, bandwidth.unit);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof questions / sizeof *questions; j++) ask(d, &shapes[i], questions[j]);
    dev_close(d);
    return 0;
}
