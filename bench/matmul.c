/* matmul.c — what share of the machine's limits do matrix products reach?
 *
 * usage: bench_matmul [LEVEL|-] [THREADS] [ROUNDS] [f32|f16|bf16|q4_0|q4_k|...] [LAYERS]
 *
 * Weights of LAYERS layers and the output matrix of the 1.1B TinyLlama shape, 2 GB and more in all, so that no cache
 * holds them; first one row (decode), then 512 rows (prompt) over fewer layers. Each round measures the limit, then
 * the product, so that a busy neighbour slows both; printed are medians of the rounds and of their shares. */
#include "figures.h"
#include "base/clock.h"
#include "base/mem.h"
#include "dev/dev.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 2048, KV = 256, INNER = 5632, VOCABULARY = 32000, ROWS = 512, MOST_LAYERS = 64, MOST_ROUNDS = 99 };

typedef struct layer {
    dev_weight q, k, v, o, gate, up, down;
} layer;

typedef struct network {
    device *dev;
    layer layers[MOST_LAYERS];
    int n_layers;
    dev_weight head;
    double weights; /* in all layers and the head */
    float *x, *out[3];
} network;

static void stop(const qp_error *err) {
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static float *floats(size_t n) {
    float *memory = mem_big(n * sizeof *memory);
    if (!memory) exit(1);
    for (size_t i = 0; i < n; i++) memory[i] = (float)((int)(i * 2654435761u >> 24 & 255) - 128) / 256;
    return memory;
}

static void add_weight(network *n, dev_weight *w, const quant_type *type, int64_t n_out, int64_t n_in) {
    qp_error err;
    quant_matrix m = {.type = type, .n_out = n_out, .n_in = n_in};
    if (!type->bytes(&m.part_bytes[0], n_out, n_in)) exit(1);
    uint16_t *data = mem_big(m.part_bytes[0]);
    if (!data) exit(1);
    for (size_t i = 0; i < m.part_bytes[0] / 2; i++) /* any two bytes are a float16 or bfloat16 of a sensible size */
        data[i] = (uint16_t)(0x2828 + (i * 40503 >> 5 & 0x707));
    m.parts[0] = data;
    if (n->dev->ops->weight_open(n->dev, w, &m, &err) || n->dev->ops->weight_pack(n->dev, w, &err)) stop(&err);
    if (w->packed) mem_big_free(data, m.part_bytes[0]);
    n->weights += (double)n_out * (double)n_in;
}

static void build(network *n, const quant_type *type) {
    for (int i = 0; i < n->n_layers; i++) {
        layer *l = &n->layers[i];
        add_weight(n, &l->q, type, HIDDEN, HIDDEN);
        add_weight(n, &l->k, type, KV, HIDDEN);
        add_weight(n, &l->v, type, KV, HIDDEN);
        add_weight(n, &l->o, type, HIDDEN, HIDDEN);
        add_weight(n, &l->gate, type, INNER, HIDDEN);
        add_weight(n, &l->up, type, INNER, HIDDEN);
        add_weight(n, &l->down, type, HIDDEN, INNER);
    }
    add_weight(n, &n->head, type, VOCABULARY, HIDDEN);
    n->x = floats((size_t)ROWS * INNER);
    for (int i = 0; i < 3; i++) n->out[i] = floats((size_t)ROWS * INNER);
}

static void multiply(network *n, const dev_weight *const *weights, int n_parts, int n_rows) {
    matmul_args a = {.x = n->x, .x_stride = weights[0]->n_in, .n_rows = n_rows, .n_parts = n_parts};
    for (int i = 0; i < n_parts; i++)
        a.parts[i] = (matmul_part){.w = weights[i], .out = n->out[i], .out_stride = weights[i]->n_out};
    n->dev->ops->matmul(n->dev, &a);
}

static void step(network *n, int n_layers, int n_rows) {
    for (int i = 0; i < n_layers; i++) {
        const layer *l = &n->layers[i];
        multiply(n, (const dev_weight *const[]){&l->q, &l->k, &l->v}, 3, n_rows);
        multiply(n, (const dev_weight *const[]){&l->o}, 1, n_rows);
        multiply(n, (const dev_weight *const[]){&l->gate, &l->up}, 2, n_rows);
        multiply(n, (const dev_weight *const[]){&l->down}, 1, n_rows);
    }
    if (n_rows == 1) multiply(n, (const dev_weight *const[]){&n->head}, 1, 1);
}

static double seconds_of(network *n, int n_layers, int n_rows) {
    const double start = clock_now();
    step(n, n_layers, n_rows);
    return clock_now() - start;
}

static void decode(network *n, const dev_measure_options *options, int rounds, double bytes) {
    double limits[MOST_ROUNDS], speeds[MOST_ROUNDS], shares[MOST_ROUNDS];
    for (int r = 0; r < rounds; r++) {
        qp_measure read;
        qp_error err;
        if (dev_measure_bandwidth(&read, options, &err)) stop(&err);
        const double a = seconds_of(n, n->n_layers, 1), b = seconds_of(n, n->n_layers, 1);
        limits[r] = read.median;
        speeds[r] = bytes / ((a + b) / 2) / 1e9;
        shares[r] = speeds[r] / limits[r];
    }
    printf("decode: %.2f GB/s of %.2f read, share %.1f %% (highest %.1f %%)\n", figures_median(speeds, (size_t)rounds),
           figures_median(limits, (size_t)rounds), 100 * figures_median(shares, (size_t)rounds),
           100 * shares[rounds - 1]);
}

static void prompt(network *n, const dev_measure_options *options, int rounds) {
    enum { LAYERS = 2 };
    const double flops = 2.0 * ROWS * LAYERS * (2.0 * HIDDEN * HIDDEN + 2.0 * KV * HIDDEN + 3.0 * INNER * HIDDEN);
    double limits[MOST_ROUNDS], speeds[MOST_ROUNDS], shares[MOST_ROUNDS];
    char name[48] = "";
    for (int r = 0; r < rounds; r++) {
        qp_measure all[16];
        qp_error err;
        int count;
        if (dev_measure_compute(all, 16, &count, options, &err)) stop(&err);
        for (int i = 0; i < count; i++) {
            if (!r) printf("  %s %.0f %s\n", all[i].name, all[i].median, all[i].unit);
            if (!all[i].is_best) continue;
            limits[r] = all[i].median;
            snprintf(name, sizeof name, "%s", all[i].name);
        }
        speeds[r] = flops / seconds_of(n, LAYERS, ROWS) / 1e9;
        shares[r] = speeds[r] / limits[r];
    }
    printf("prompt: %.0f GFLOP/s of %.0f %s, share %.1f %% (highest %.1f %%)\n", figures_median(speeds, (size_t)rounds),
           figures_median(limits, (size_t)rounds), name, 100 * figures_median(shares, (size_t)rounds),
           100 * shares[rounds - 1]);
}

int main(int argc, char **argv) {
    const char *level = argc > 1 && strcmp(argv[1], "-") ? argv[1] : NULL;
    const int rounds = argc > 3 ? atoi(argv[3]) : 5;
    const quant_type *type = quant_find(argc > 4 ? argv[4] : "bf16");
    network *n = MEM_NEW(network);
    qp_error err;
    const dev_options options = {.cpu_level = level, .threads = argc > 2 ? atoi(argv[2]) : 0};
    if (!n || !type || rounds < 1 || rounds > MOST_ROUNDS) return 1;
    n->n_layers = argc > 5 ? atoi(argv[5]) : 22;
    if (n->n_layers < 2 || n->n_layers > MOST_LAYERS) return 1;
    if (dev_open(&n->dev, &options, &err)) stop(&err);
    if (n->dev->ops->reserve(n->dev, ROWS, INNER, &err)) stop(&err);
    build(n, type);
    const double bytes = n->weights * type->bits_per_weight / 8;
    printf("%s, %d threads, %s, %.2f GB of weights\n", n->dev->level, n->dev->threads, type->name, bytes / 1e9);
    const dev_measure_options limits = {.cpu_level = n->dev->level, .threads = n->dev->threads, .seconds = 0.2};
    decode(n, &limits, rounds, bytes);
    prompt(n, &limits, rounds);
    dev_close(n->dev);
    return 0;
}
