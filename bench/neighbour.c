/* neighbour.c — what are two threads worth when somebody else keeps one of two cores busy? Per kind of work a line: the
 * speed of two threads over that of one, the median of pairs, the quarters and the extremes.
 *
 * usage: bench_neighbour [PAIRS [SHAPE [FORMAT]]] (31, tinyllama-1.1b, q4_0). Built by `ninja bench_neighbour`. A child
 * loops on the second of the usable cores. One thread is bound to the first core, where nobody disturbs it; two may go
 * wherever the kernel sends them. Both have models of their own in the same process and follow each other within half
 * a second, since what a core is worth changes on shared machines from minute to minute. Which of them comes first
 * changes from pair to pair. */
#include "figures.h"
#include "base/clock.h"
#include "quipu.h"
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CAPACITY = 512, MOST_PAIRS = 99 };

typedef struct side {
    qp_model *model;
    qp_sequence *sequence;
    cpu_set_t cpus;
} side;

static const struct work {
    const char *name;
    int tokens, at_once;
} works[] = {{"decode", 8, 1}, {"prompt", 64, 64}};

static float *logits;

static void check(qp_status status, const qp_error *err) {
    if (status == QP_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static side open_side(int threads, const char *shape, const char *format, const cpu_set_t *cpus) {
    qp_error err;
    side s = {.cpus = *cpus};
    const qp_model_options options = {.size = sizeof options, .device = "cpu", .threads = threads};
    check(qp_model_synthesize(&s.model, shape, format, 1, &options, &err), &err);
    check(qp_sequence_new(&s.sequence, s.model, CAPACITY, QP_CACHE_DEFAULT, &err), &err);
    return s;
}

/* Tokens per second. */
static double speed(const side *s, const struct work *w) {
    qp_error err;
    int32_t ids[CAPACITY];
    for (int i = 0; i < w->tokens; i++) ids[i] = 3 + i;
    sched_setaffinity(0, sizeof s->cpus, &s->cpus);
    check(qp_sequence_rewind(s->sequence, 0, &err), &err);
    const double start = clock_now();
    for (int done = 0; done < w->tokens; done += w->at_once) {
        const int32_t *const at = ids + done;
        const size_t count = (size_t)w->at_once, last = 1;
        check(qp_forward(&s->sequence, &at, &count, &last, 1, logits, &err), &err);
    }
    return w->tokens / (clock_now() - start);
}

static void compare(const side *one, const side *two, const struct work *w, int pairs) {
    double ratios[MOST_PAIRS], ones[MOST_PAIRS], twos[MOST_PAIRS];
    speed(one, w);
    speed(two, w);
    for (int i = 0; i < pairs; i++) {
        if (i % 2) twos[i] = speed(two, w);
        ones[i] = speed(one, w);
        if (i % 2 == 0) twos[i] = speed(two, w);
        ratios[i] = twos[i] / ones[i];
    }
    const size_t n = (size_t)pairs;
    figures_sort(ratios, n);
    printf("%s: one thread %.1f tok/s, two %.1f; ratio %.3f (quarters %.2f and %.2f, extremes %.2f and %.2f)\n",
           w->name, figures_median(ones, n), figures_median(twos, n), figures_median(ratios, n),
           figures_quantile(ratios, n, 0.25), figures_quantile(ratios, n, 0.75), ratios[0], ratios[n - 1]);
    fflush(stdout);
}

/* A process that keeps the core busy until this one ends. */
static pid_t start_neighbour(int cpu) {
    const pid_t child = fork();
    if (child) return child;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET((size_t)cpu, &only);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sched_setaffinity(0, sizeof only, &only);
    for (volatile unsigned i = 0;; i++) {
    }
}

/* The first two cores that this process may use. */
static bool find_cores(int cores[2]) {
    cpu_set_t all;
    int n = 0;
    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET((size_t)i, &all)) cores[n++] = i;
    return n == 2;
}

int main(int argc, char **argv) {
    const int pairs = argc > 1 ? atoi(argv[1]) : 31;
    const char *shape = argc > 2 ? argv[2] : "tinyllama-1.1b", *format = argc > 3 ? argv[3] : "q4_0";
    int cores[2];
    if (pairs < 1 || pairs > MOST_PAIRS || !find_cores(cores)) {
        fprintf(stderr, "1 to %d pairs, and two cores are needed\n", MOST_PAIRS);
        return 2;
    }
    cpu_set_t first, both;
    CPU_ZERO(&first);
    CPU_SET((size_t)cores[0], &first);
    both = first;
    CPU_SET((size_t)cores[1], &both);
    sched_setaffinity(0, sizeof both, &both); /* before any thread is made */
    side one = open_side(1, shape, format, &first), two = open_side(2, shape, format, &both);
    qp_model_info info;
    qp_model_get_info(two.model, &info);
    logits = malloc((size_t)info.vocabulary * sizeof *logits);
    const pid_t neighbour = start_neighbour(cores[1]);
    for (size_t i = 0; logits && i < sizeof works / sizeof *works; i++) compare(&one, &two, &works[i], pairs);
    kill(neighbour, SIGKILL);
    free(logits);
    qp_sequence_free(one.sequence);
    qp_sequence_free(two.sequence);
    qp_model_close(one.model);
    qp_model_close(two.model);
}
