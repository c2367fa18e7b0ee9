/* prompt_profile.c — where does the time of a prompt go?
 *
 * usage: bench_prompt_profile [LEVEL|-] [THREADS] [ROWS] [REPEATS] [SHAPE] [fast|exact]
 *
 * A model of random weights computes prompts of ROWS tokens. Each op of the device is timed from outside: the table of
 * ops is laid over by one whose functions look at the clock before and after. Printed are, for each kind of op and
 * product of its own size, seconds of the median prompt, its share, and how fast that is: GFLOP/s where an op
 * multiplies, else GB/s of the activations that it reads and writes. The last lines compare the whole with the best
 * arithmetic of the machine: measured before and after each prompt, so that a busy neighbour slows both, and the share
 * is the median of the prompts' shares. */
#include "figures.h"
#include "base/clock.h"
#include "base/mem.h"
#include "model/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KINDS = 64, MOST_REPEATS = 99 };

typedef struct kind {
    char name[48];
    int calls;               /* of one prompt */
    double work, bytes;      /* of one prompt: operations, else bytes */
    double seconds;          /* of the prompt that runs */
    double of[MOST_REPEATS]; /* of each prompt */
} kind;

/* The device calls back without a context: one prompt at a time is all that this program does. */
static kind kinds[MOST_KINDS];
static int n_kinds;
static const dev_ops *real;

static void stop(const qp_error *err) {
    fprintf(stderr, "prompt_profile: %s\n", err->text);
    exit(1);
}

static void book(const char *name, double begin, double work, double floats) {
    const double seconds = clock_now() - begin;
    int i = 0;
    while (i < n_kinds && strcmp(kinds[i].name, name)) i++;
    if (i == MOST_KINDS) exit(1);
    if (i == n_kinds) snprintf(kinds[n_kinds++].name, sizeof kinds->name, "%s", name);
    kinds[i].calls++;
    kinds[i].work += work;
    kinds[i].bytes += 4 * floats;
    kinds[i].seconds += seconds;
}

/* ---- the ops, timed ---- */

static void timed_embed(device *d, const embed_args *a) {
    const double begin = clock_now();
    real->embed(d, a);
    book("embed", begin, 0, 1.5 * a->n_rows * (double)a->table->n_in);
}

static void timed_norm(device *d, const norm_args *a) {
    const double begin = clock_now();
    real->norm(d, a);
    book("norm", begin, 0, 2.0 * a->n_rows * a->dim * (a->heads ? a->heads : 1));
}

static void timed_matmul(device *d, const matmul_args *a) {
    char name[48];
    double n_out = 0;
    for (int i = 0; i < a->n_parts; i++) n_out += (double)a->parts[i].w->n_out;
    const double n_in = (double)a->parts[0].w->n_in;
    snprintf(name, sizeof name, "product %.0f -> %.0f", n_in, n_out);
    const double begin = clock_now();
    real->matmul(d, a);
    book(name, begin, 2 * a->n_rows * n_in * n_out, 0);
}

static void timed_rope_store(device *d, const rope_store_args *a) {
    double rows = 0;
    for (int i = 0; i < a->n_spans; i++) rows += a->spans[i].n_rows;
    const double begin = clock_now();
    real->rope_store(d, a);
    book("rotate, store", begin, 0, rows * (2.0 * a->n_heads + 3.0 * a->kv.n_kv_heads) * a->kv.head_dim);
}

static void timed_attend(device *d, const attend_args *a) {
    double pairs = 0;
    for (int i = 0; i < a->n_spans; i++) {
        const double n = a->spans[i].n_rows;
        pairs += n * (double)a->spans[i].past + n * (n + 1) / 2;
    }
    const double begin = clock_now();
    real->attend(d, a);
    book("attention", begin, 2 * pairs * a->n_heads * (a->kv.head_dim + a->kv.v_dim), 0);
}

static void timed_gate(device *d, const gate_args *a) {
    const double begin = clock_now();
    real->gate(d, a);
    book("gate", begin, 0, 3.0 * a->n_rows * a->dim);
}

static void timed_add(device *d, const add_args *a) {
    const double begin = clock_now();
    real->add(d, a);
    book("add", begin, 0, 3.0 * a->n_rows * a->dim);
}

static dev_ops timed_ops(void) {
    dev_ops ops = *real;
    ops.embed = timed_embed;
    ops.norm = timed_norm;
    ops.matmul = timed_matmul;
    ops.rope_store = timed_rope_store;
    ops.attend = timed_attend;
    ops.gate = timed_gate;
    ops.add = timed_add;
    return ops;
}

/* ---- prompts ---- */

typedef struct prompt {
    model *m;
    step_input in;
    row_span span;
    uint64_t length;
    int32_t last, *ids, *pages;
    kv_view *kv;
    float *logits;
} prompt;

static void *need(void *memory) {
    if (!memory) exit(1);
    return memory;
}

static void open_prompt(prompt *p, int rows) {
    const model_shape *s = &p->m->shape;
    const int n_pages = (rows + DEV_PAGE_TOKENS - 1) / DEV_PAGE_TOKENS;
    p->ids = need(mem_array((size_t)rows, sizeof *p->ids));
    p->pages = need(mem_array((size_t)n_pages, sizeof *p->pages));
    p->kv = need(mem_array((size_t)s->n_layers, sizeof *p->kv));
    p->logits = need(mem_array((size_t)s->vocabulary, sizeof *p->logits));
    for (int i = 0; i < rows; i++) p->ids[i] = (int32_t)((i + 1) * 7919L % s->vocabulary);
    for (int i = 0; i < n_pages; i++) p->pages[i] = i;
    for (int l = 0; l < s->n_layers; l++) {
        const size_t page = (size_t)s->n_kv_heads * DEV_PAGE_TOKENS * (size_t)s->head_dim * 2;
        void *k, *v;
        qp_error err;
        if (p->m->dev->ops->take(p->m->dev, &k, page * (size_t)n_pages, &err)) stop(&err);
        if (p->m->dev->ops->take(p->m->dev, &v, page * (size_t)n_pages, &err)) stop(&err);
        p->kv[l] = (kv_view){KV_F16, s->n_kv_heads, s->head_dim, s->head_dim, k, v, page};
    }
    p->span = (row_span){0, rows, 0, p->pages};
    p->length = (uint64_t)rows;
    p->last = rows - 1;
    p->in = (step_input){.n_rows = rows,
                         .ids = p->ids,
                         .n_spans = 1,
                         .spans = &p->span,
                         .rope_lengths = &p->length,
                         .n_logit_rows = 1,
                         .logit_rows = &p->last,
                         .kv = p->kv};
}

/* One prompt; its whole time, what the ops took is in `kinds`. */
static double run(prompt *p) {
    qp_error err;
    for (int i = 0; i < n_kinds; i++) kinds[i].calls = 0, kinds[i].work = kinds[i].bytes = kinds[i].seconds = 0;
    const double begin = clock_now();
    if (model_step(p->m, &p->in, p->logits, &err)) stop(&err);
    return clock_now() - begin;
}

/* ---- telling ---- */

static int by_seconds(const void *a, const void *b) {
    const double x = ((const kind *)a)->of[0], y = ((const kind *)b)->of[0];
    return (x < y) - (x > y);
}

static void tell(const char *name, int calls, double seconds, double all, double work, double bytes) {
    printf("%-24s %4d  %8.2f ms  %5.1f %%", name, calls, seconds * 1e3, 100 * seconds / all);
    if (work > 0)
        printf("  %8.1f GFLOP/s", work / seconds * 1e-9);
    else if (bytes > 0)
        printf("  %8.1f GB/s", bytes / seconds * 1e-9);
    putchar('\n');
}

static double best_compute(const device *d) {
    const dev_measure_options options = {.cpu_level = d->level, .threads = d->threads, .seconds = 0.05};
    qp_measure all[32];
    int count;
    qp_error err;
    double best = 0;
    if (dev_measure_compute(all, 32, &count, &options, &err)) stop(&err);
    for (int i = 0; i < count; i++)
        if (all[i].is_best) best = all[i].median;
    return best;
}

/* `limits` are what the machine could do, before the first prompt and after each. */
static void tell_all(double *whole, double *limits, int repeats) {
    double shares[MOST_REPEATS], rest, work = 0;
    for (int r = 0; r < repeats; r++) shares[r] = 2e-9 / (limits[r] + limits[r + 1]) / whole[r];
    const double seconds = figures_median(whole, (size_t)repeats);
    rest = seconds;
    for (int i = 0; i < n_kinds; i++) {
        kinds[i].of[0] = figures_median(kinds[i].of, (size_t)repeats);
        rest -= kinds[i].of[0];
        if (!strncmp(kinds[i].name, "product", 7)) work += kinds[i].work;
    }
    qsort(kinds, (size_t)n_kinds, sizeof *kinds, by_seconds);
    for (int i = 0; i < n_kinds; i++)
        tell(kinds[i].name, kinds[i].calls, kinds[i].of[0], seconds, kinds[i].work, kinds[i].bytes);
    tell("beside the ops", 0, rest, seconds, 0, 0);
    tell("whole", 0, seconds, seconds, work, 0);
    printf("least %.2f ms, most %.2f ms; machine %.0f GFLOP/s; products of the whole time %.1f %% of it\n",
           whole[0] * 1e3, whole[repeats - 1] * 1e3, figures_median(limits, (size_t)repeats + 1),
           100 * work * figures_median(shares, (size_t)repeats));
}

int main(int argc, char **argv) {
    const int rows = argc > 3 ? atoi(argv[3]) : 512, repeats = argc > 4 ? atoi(argv[4]) : 5;
    const model_options options = {.device = {.cpu_level = argc > 1 && strcmp(argv[1], "-") ? argv[1] : NULL,
                                              .threads = argc > 2 ? atoi(argv[2]) : 0,
                                              .exact = argc > 6 && !strcmp(argv[6], "exact")}};
    static double whole[MOST_REPEATS], limits[MOST_REPEATS + 1];
    prompt p = {0};
    qp_error err;
    if (rows < 1 || rows > MODEL_MAX_ROWS || repeats < 1 || repeats > MOST_REPEATS) return 1;
    if (model_synthesize(&p.m, argc > 5 ? argv[5] : "tinyllama-1.1b", "bf16", 1, &options, &err)) stop(&err);
    open_prompt(&p, rows);
    real = p.m->dev->ops;
    const dev_ops ops = timed_ops();
    p.m->dev->ops = &ops;
    for (int r = -1; r < repeats; r++) {
        const double seconds = run(&p);
        for (int i = 0; i < n_kinds && r >= 0; i++) kinds[i].of[r] = kinds[i].seconds;
        if (r >= 0) whole[r] = seconds;
        limits[r + 1] = best_compute(p.m->dev);
    }
    printf("%s, %d threads, %d rows, %s\n", p.m->dev->level, p.m->dev->threads, rows,
           p.m->dev->exact ? "exact" : "fast");
    tell_all(whole, limits, repeats);
    return 0;
}
