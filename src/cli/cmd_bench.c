/* cmd_bench.c — quipu bench: speed of a model beside the limits of the machine, measured before and after it. */
#include "bench.h"
#include "load.h"
#include "base/clock.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const double BESIDE_SECONDS = 0.3; /* each limit beside a model; alone, the library's own default */

static qp_measure_options measure_options(const options *o, int64_t threads, double seconds) {
    return (qp_measure_options){.size = sizeof(qp_measure_options),
                                .threads = (int)threads,
                                .cpu_level = o->cpu,
                                .seconds = o->seconds > 0 ? o->seconds : seconds};
}

/* Entry i of --threads; 0 (the default) where there is no such option. */
static int64_t threads_at(const options *o, size_t i) { return o->threads_list.count ? o->threads_list.at[i] : 0; }

static size_t n_threads(const options *o) { return o->threads_list.count ? o->threads_list.count : 1; }

static int shown_threads(int64_t threads) { return threads ? (int)threads : cpu_usable_cores(); }

/* ---- the limits alone ---- */

static qp_status measure_one(const options *o, int64_t threads, qp_measure *out, int *count, qp_error *err) {
    const qp_measure_options wanted = measure_options(o, threads, 0);
    *count = 1;
    if (!strcmp(o->word, "bandwidth")) return qp_measure_bandwidth(out, &wanted, err);
    return qp_measure_compute(out, BENCH_MEASURES_MAX, count, &wanted, err);
}

static qp_status measure_limits(session *s, qp_error *err) {
    const options *o = s->o;
    qp_measure rows[OPTION_LIST_MAX * BENCH_MEASURES_MAX];
    int threads[OPTION_LIST_MAX * BENCH_MEASURES_MAX], count = 0;
    for (size_t i = 0; i < n_threads(o); i++) {
        int n;
        ERR_TRY(measure_one(o, threads_at(o, i), rows + count, &n, err));
        for (int k = 0; k < n; k++) threads[count++] = shown_threads(threads_at(o, i));
        term_bar(&s->term, "measuring", (double)i + 1, (double)n_threads(o));
    }
    term_bar_end(&s->term);
    return bench_print_measures(rows, threads, count, s, err);
}

/* The limits have no use for a model: what was typed for one is refused. */
static qp_status check_limits(session *s, qp_error *err) {
    const options *o = s->o;
    static const char used[] = "threads|cpu|seconds|json|quiet|verbose|color";
    for (size_t i = 0; i < option_count; i++)
        if (o->typed[i] && !option_is_choice(used, option_rows[i].name))
            return session_usage(s, err, "--%s has no meaning for 'bench %s'", option_rows[i].name, o->word);
    return QP_OK;
}

/* ---- a model ---- */

static qp_status measure_beside(bench_limit *out, const options *o, int64_t threads, qp_error *err) {
    qp_measure rows[BENCH_MEASURES_MAX];
    int count;
    const qp_measure_options wanted = measure_options(o, threads, BESIDE_SECONDS);
    ERR_TRY(qp_measure_bandwidth(&out->read, &wanted, err));
    ERR_TRY(qp_measure_compute(rows, BENCH_MEASURES_MAX, &count, &wanted, err));
    for (int i = 0; i < count && i < BENCH_MEASURES_MAX; i++) {
        if (!i || rows[i].is_best) out->floats = rows[i];
        if (rows[i].is_best_whole) out->whole = rows[i];
    }
    return QP_OK;
}

/* The limits are measured with buffers of their own; they must not count as the model's memory. Where the kernel does
 * not let a process reset its peak, the peak is that of the whole run. */
static void reset_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}

static void keep_peak(bench_report *r) {
    struct rusage usage;
    const uint64_t peak = getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
    if (peak > r->peak_bytes) r->peak_bytes = peak;
}

static qp_status run_model(bench_report *r, session *s, int index, int64_t threads, qp_error *err) {
    qp_model *model;
    const double begin = clock_now();
    ERR_TRY(s->o->shape ? load_random(&model, s, (int)threads, err) : load_model(&model, s, (int)threads, err));
    r->load_s = s->o->shape ? 0 : clock_now() - begin;
    qp_model_get_info(model, &r->info);
    r->threads[index] = r->info.threads;
    r->n_threads = index + 1;
    const qp_status status = bench_run(r, s, model, index, err);
    keep_peak(r);
    qp_model_close(model);
    return status;
}

static qp_status run_threads(bench_report *r, session *s, int index, qp_error *err) {
    const int64_t threads = threads_at(s->o, (size_t)index);
    ERR_TRY(measure_beside(&r->before[index], s->o, threads, err));
    reset_peak();
    ERR_TRY(run_model(r, s, index, threads, err));
    if (strcmp(r->info.device, "cpu") != 0) { /* the processor's limits are not those of what ran */
        r->before[index] = (bench_limit){0};
        return QP_OK;
    }
    return measure_beside(&r->after[index], s->o, threads, err);
}

static qp_status check_shape(session *s, qp_error *err) {
    const char *shape = s->o->shape;
    if (!shape) {
        if (option_typed(s->o, s->command, &s->o->format)) /* QUIPU_FORMAT may be there for other runs */
            return session_usage(s, err, "--format is for the random weights of --shape");
        return QP_OK;
    }
    char names[300] = "";
    const char *name;
    for (int i = 0; (name = qp_shape_name(i)); i++) {
        if (!strcmp(name, shape)) return QP_OK;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", name);
    }
    return session_usage(s, err, "--shape: found '%.60s', known are %s", shape, names);
}

static qp_status bench_model(session *s, qp_error *err) {
    const options *o = s->o;
    char path[PATH_MAX] = "";
    ERR_TRY(check_shape(s, err));
    const int planned = bench_plan(o) * (int)n_threads(o);
    if (!planned) return session_usage(s, err, "nothing to measure: no prompt lengths (-p) and no new tokens (-n)");
    if (planned > BENCH_ROWS_MAX)
        return session_usage(s, err, "%d figures, at most %d at a time", planned, BENCH_ROWS_MAX);
    if (!o->shape) ERR_TRY(load_path(path, sizeof path, s, err));
    bench_report *r = MEM_NEW(bench_report);
    if (!r) return err_no_memory(err, sizeof *r, "the results");
    r->name = o->shape ? o->shape : path;
    r->n_planned = planned;
    qp_status status = QP_OK;
    for (size_t i = 0; i < n_threads(o) && status == QP_OK; i++) status = run_threads(r, s, (int)i, err);
    term_bar_end(&s->term);
    if (status == QP_OK) status = bench_print(r, s, err);
    mem_free(r);
    return status;
}

qp_status cmd_bench(session *s, qp_error *err) {
    if (!s->o->word) return bench_model(s, err);
    ERR_TRY(check_limits(s, err));
    return measure_limits(s, err);
}
