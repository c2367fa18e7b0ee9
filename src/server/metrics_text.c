/* metrics_text.c — /metrics in the text format of Prometheus, version 0.0.4.
 *
 * Each family is written under our name and, where the configuration asks for it, under the names that vLLM and
 * llama.cpp use for the same figure, so that dashboards made for those work. */
#include "metrics_impl.h"
#include "base/clock.h"
#include "base/mem.h"
#include "config.h"
#include "conns.h"
#include "health.h"
#include "models.h"
#include "route.h"
#include "server.h"
#include "transport.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct writer {
    strbuf *out;
    char label[600]; /* model_name="..." */
    bool has_vllm, has_llamacpp;
} writer;

/* One figure under up to three names. */
typedef struct family {
    const char *ours, *vllm, *llamacpp, *type, *help;
} family;

static void write_head(const writer *w, const char *name, const char *type, const char *help) {
    strbuf_format(w->out, "# HELP %s %s.\n# TYPE %s %s\n", name, help, name, type);
}

static void write_value(const writer *w, const char *name, const char *more, double value) {
    strbuf_format(w->out, "%s{%s%s%s} ", name, w->label, more ? "," : "", more ? more : "");
    if (fabs(value) < 1e15 && value == floor(value))
        strbuf_format(w->out, "%.0f\n", value);
    else
        strbuf_format(w->out, "%.9g\n", value);
}

typedef void write_body(const writer *w, const char *name, const void *data);

static void write_family(const writer *w, const family *f, write_body *body, const void *data) {
    char name[128];
    snprintf(name, sizeof name, "quipu_%s", f->ours);
    write_head(w, name, f->type, f->help);
    body(w, name, data);
    if (w->has_vllm && f->vllm) {
        write_head(w, f->vllm, f->type, f->help);
        body(w, f->vllm, data);
    }
    if (w->has_llamacpp && f->llamacpp) {
        write_head(w, f->llamacpp, f->type, f->help);
        body(w, f->llamacpp, data);
    }
}

static void one_value(const writer *w, const char *name, const void *data) {
    write_value(w, name, NULL, *(const double *)data);
}

static void write_one(const writer *w, const family *f, double value) { write_family(w, f, one_value, &value); }

/* ---- histograms ---- */

static void histogram_body(const writer *w, const char *name, const void *data) {
    const metric_cells *cells = data;
    uint64_t sum = 0;
    for (int i = 0; i <= cells->n_edges; i++) {
        sum += atomic_load(&((metric_cells *)cells)->counts[i]);
        if (i < cells->n_edges)
            strbuf_format(w->out, "%s_bucket{%s,le=\"%g\"} %llu\n", name, w->label, cells->edges[i],
                          (unsigned long long)sum);
        else
            strbuf_format(w->out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, w->label, (unsigned long long)sum);
    }
    strbuf_format(w->out, "%s_sum{%s} %.6f\n%s_count{%s} %llu\n", name, w->label,
                  (double)atomic_load(&((metric_cells *)cells)->micros) / 1e6, name, w->label, (unsigned long long)sum);
}

static void write_histograms(const writer *w, metrics *m) {
    for (int i = 0; i < METRIC_HISTOGRAMS; i++) {
        char vllm[128];
        snprintf(vllm, sizeof vllm, "vllm:%s", i == METRIC_step_tokens ? "iteration_tokens_total" : metric_names[i]);
        const family f = {metric_names[i], i == METRIC_batch_size ? NULL : vllm, NULL, "histogram", metric_helps[i]};
        write_family(w, &f, histogram_body, &m->histograms[i]);
    }
    const family old = {NULL, "vllm:time_per_output_token_seconds", NULL, "histogram", "The older name of inter-token"};
    if (!w->has_vllm) return;
    write_head(w, old.vllm, old.type, old.help);
    histogram_body(w, old.vllm, &m->histograms[METRIC_inter_token_latency_seconds]);
}

/* ---- the engine ---- */

#define FIGURE(field) offsetof(engine_figures, field)
typedef struct engine_figures {
    double running, waiting, usage, pages, pages_free, pages_cached, queries, hits, preempted, prompt, cached,
        new_tokens, prompt_s, new_s, prompt_rate, new_rate, steps, refused;
} engine_figures;

static const struct {
    family family;
    size_t at;
} engine_rows[] = {
    {{"requests_running", "vllm:num_requests_running", "llamacpp:requests_processing", "gauge", "Jobs that run"},
     FIGURE(running)},
    {{"requests_waiting", "vllm:num_requests_waiting", "llamacpp:requests_deferred", "gauge", "Jobs that wait"},
     FIGURE(waiting)},
    {{"kv_cache_usage_ratio", "vllm:kv_cache_usage_perc", NULL, "gauge", "Share of the cache that jobs use"},
     FIGURE(usage)},
    {{"kv_pages_total", NULL, NULL, "gauge", "Pages of the cache, of 256 tokens"}, FIGURE(pages)},
    {{"kv_pages_free", NULL, NULL, "gauge", "Pages that no job uses, the reusable ones included"}, FIGURE(pages_free)},
    {{"kv_pages_cached", NULL, NULL, "gauge", "Pages that no job uses but a prompt may find again"},
     FIGURE(pages_cached)},
    {{"prefix_cache_queries_total", "vllm:prefix_cache_queries_total", NULL, "counter", "Prompt tokens looked for"},
     FIGURE(queries)},
    {{"prefix_cache_hits_total", "vllm:prefix_cache_hits_total", NULL, "counter", "Prompt tokens found in the cache"},
     FIGURE(hits)},
    {{"preemptions_total", "vllm:num_preemptions_total", NULL, "counter",
      "Jobs that had to give their pages to others"},
     FIGURE(preempted)},
    {{"prompt_tokens_total", "vllm:prompt_tokens_total", "llamacpp:prompt_tokens_total", "counter",
      "Prompt tokens that were computed"},
     FIGURE(prompt)},
    {{"prompt_tokens_cached_total", NULL, NULL, "counter", "Prompt tokens that were found in the cache"},
     FIGURE(cached)},
    {{"generation_tokens_total", "vllm:generation_tokens_total", "llamacpp:tokens_predicted_total", "counter",
      "New tokens"},
     FIGURE(new_tokens)},
    {{"prompt_seconds_total", NULL, "llamacpp:prompt_seconds_total", "counter", "Seconds of jobs in their prompts"},
     FIGURE(prompt_s)},
    {{"generation_seconds_total", NULL, "llamacpp:tokens_predicted_seconds_total", "counter",
      "Seconds of jobs in their answers"},
     FIGURE(new_s)},
    {{"prompt_tokens_per_second", NULL, "llamacpp:prompt_tokens_seconds", "gauge",
      "Prompt tokens per second, about the last 10 s"},
     FIGURE(prompt_rate)},
    {{"generation_tokens_per_second", NULL, "llamacpp:predicted_tokens_seconds", "gauge",
      "New tokens per second, about the last 10 s"},
     FIGURE(new_rate)},
    {{"decode_steps_total", NULL, "llamacpp:n_decode_total", "counter", "Steps of the engine"}, FIGURE(steps)},
    {{"jobs_refused_total", NULL, NULL, "counter", "Jobs that the full queue refused"}, FIGURE(refused)},
};

static engine_figures figures_of(metrics *m, const qp_generator_stats *s) {
    pthread_mutex_lock(&m->lock);
    const qp_generator_stats past = m->past;
    pthread_mutex_unlock(&m->lock);
    engine_figures f = {
        .running = (double)s->jobs_running,
        .waiting = (double)s->jobs_waiting,
        .usage = s->pages ? (double)s->pages_used / (double)s->pages : 0,
        .pages = (double)s->pages,
        .pages_free = (double)(s->pages - s->pages_used),
        .pages_cached = (double)s->pages_cached,
        .preempted = (double)(past.jobs_preempted + s->jobs_preempted),
        .prompt = (double)(past.prompt_tokens + s->prompt_tokens),
        .cached = (double)(past.cached_tokens + s->cached_tokens),
        .new_tokens = (double)(past.new_tokens + s->new_tokens),
        .prompt_s = (double)atomic_load(&m->prompt_micros) / 1e6,
        .new_s = (double)atomic_load(&m->generation_micros) / 1e6,
        .prompt_rate = s->rate_prompt,
        .new_rate = s->rate_new,
        .steps = (double)(past.steps + s->steps),
        .refused = (double)(past.jobs_refused + s->jobs_refused),
    };
    f.queries = f.prompt + f.cached;
    f.hits = f.cached;
    return f;
}

static void write_engine(const writer *w, metrics *m, const qp_generator_stats *stats) {
    const engine_figures figures = figures_of(m, stats);
    for (size_t i = 0; i < sizeof engine_rows / sizeof *engine_rows; i++)
        write_one(w, &engine_rows[i].family, *(const double *)((const char *)&figures + engine_rows[i].at));
    if (!w->has_vllm) return;
    char more[128];
    snprintf(more, sizeof more, "block_size=\"256\",num_gpu_blocks=\"%llu\"", (unsigned long long)stats->pages);
    write_head(w, "vllm:cache_config_info", "gauge", "The cache");
    write_value(w, "vllm:cache_config_info", more, 1);
}

/* ---- requests ---- */

static void finished_body(const writer *w, const char *name, const void *data) {
    for (int i = 0; i < METRIC_FINISHES; i++) {
        char more[64];
        snprintf(more, sizeof more, "finished_reason=\"%s\"", metric_finish_words[i]);
        write_value(w, name, more, (double)atomic_load(&((metrics *)data)->finished[i]));
    }
}

static void cancelled_body(const writer *w, const char *name, const void *data) {
    for (int i = CAUSE_NONE + 1; i < CAUSE_COUNT; i++) {
        char more[64];
        snprintf(more, sizeof more, "cause=\"%s\"", http_cause_text((http_cause)i));
        write_value(w, name, more, (double)atomic_load(&((metrics *)data)->cancelled[i]));
    }
}

static const char *method_word(http_method method) {
    static const char *const words[] = {"GET", "POST", "DELETE", "OPTIONS", "OTHER"};
    return words[method];
}

static void http_body(const writer *w, const char *name, const void *data) {
    for (size_t row = 0; row <= route_count && row < METRIC_ROUTES; row++)
        for (int i = 0; i < METRIC_STATUSES; i++) {
            const uint64_t count = atomic_load(&((metrics *)data)->http[row][i]);
            if (!count) continue;
            strbuf_format(w->out, "%s{handler=\"%s\",method=\"%s\",status=\"", name,
                          row < route_count ? route_rows[row].path : "other",
                          row < route_count ? method_word(route_rows[row].method) : "any");
            if (metric_statuses[i])
                strbuf_format(w->out, "%d\"} %llu\n", metric_statuses[i], (unsigned long long)count);
            else
                strbuf_format(w->out, "other\"} %llu\n", (unsigned long long)count);
        }
}

static void write_requests(const writer *w, struct server *s) {
    const family finished = {"requests_total", "vllm:request_success_total", NULL, "counter", "Jobs that have ended"};
    const family cancelled = {"cancelled_total", NULL, NULL, "counter", "Requests that were cancelled"};
    const family http = {"http_requests_total", NULL, NULL, "counter", "Answers"};
    write_family(w, &finished, finished_body, s->metrics);
    write_family(w, &cancelled, cancelled_body, s->metrics);
    write_family(w, &http, http_body, s->metrics);
    if (w->has_vllm) {
        write_head(w, "http_requests_total", "counter", "Answers");
        http_body(w, "http_requests_total", s->metrics);
    }
    conns_counts c = {0};
    transport_get_counts(s->transport, &c);
    write_one(w, &(family){"connections", NULL, NULL, "gauge", "Open connections"}, (double)c.open);
    write_one(w, &(family){"streams", NULL, NULL, "gauge", "Streams that run"}, (double)c.streams);
    write_one(w, &(family){"stream_queue_events", NULL, NULL, "gauge", "Events that wait for their clients"},
              (double)c.waiting_events);
    write_one(w, &(family){"stream_write_stalls_total", NULL, NULL, "counter", "Clients that read no more"},
              (double)c.stalls);
    write_one(w, &(family){"sse_pings_total", NULL, NULL, "counter", "Comments that kept a stream alive"},
              (double)c.pings);
    write_one(w, &(family){"client_timeouts_total", NULL, NULL, "counter", "Clients that were too slow to send"},
              (double)c.timeouts);
}

/* ---- the process ---- */

static double resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all, resident = 0;
    if (!file) return 0;
    if (fscanf(file, "%lu %lu", &all, &resident) != 2) resident = 0;
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    double n = -3; /* ".", ".." and this one */
    if (!folder) return 0;
    while (readdir(folder)) n++;
    closedir(folder);
    return n;
}

static void write_bare(strbuf *out, const char *name, const char *type, const char *help, double value) {
    strbuf_format(out, "# HELP %s %s.\n# TYPE %s %s\n%s %.15g\n", name, help, name, type, name, value);
}

static void write_process(strbuf *out, const struct server *s) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    const double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    write_bare(out, "process_resident_memory_bytes", "gauge", "Resident memory", resident_bytes());
    write_bare(out, "process_cpu_seconds_total", "counter", "User and system time", cpu);
    write_bare(out, "process_open_fds", "gauge", "Open descriptors", open_descriptors());
    write_bare(out, "process_start_time_seconds", "gauge", "Start of the server, seconds since 1970",
               (double)s->started_unix);
    strbuf_text(out, "# HELP quipu_build_info The program.\n# TYPE quipu_build_info gauge\n");
    strbuf_format(out, "quipu_build_info{version=\"%s\"} 1\n", qp_version());
}

static void write_model(const writer *w, const model_slot *m) {
    char more[256];
    if (!m) return;
    snprintf(more, sizeof more, "architecture=\"%s\",device=\"%s\",max_model_len=\"%llu\"", m->info.architecture,
             m->info.device, (unsigned long long)m->max_length);
    write_head(w, "quipu_model_info", "gauge", "The loaded model");
    write_value(w, "quipu_model_info", more, 1);
}

/* A label's value: the three characters that the format escapes. */
static void escape_label(char *out, size_t capacity, const char *text) {
    size_t n = 0;
    for (; *text && n + 3 < capacity; text++) {
        if (*text == '"' || *text == '\\') out[n++] = '\\';
        out[n++] = *text == '\n' ? ' ' : *text;
    }
    out[n] = 0;
}

void metrics_write(strbuf *out, struct server *s) {
    model_slot *m = models_take_working(s);
    qp_generator_stats stats = {0};
    char name[540];
    writer w = {.out = out,
                .has_vllm = config_has(&s->config->metrics_compat, "vllm"),
                .has_llamacpp = config_has(&s->config->metrics_compat, "llamacpp")};
    escape_label(name, sizeof name, m ? m->id : "");
    snprintf(w.label, sizeof w.label, "model_name=\"%s\"", name);
    if (m) qp_generator_get_stats(m->generator, &stats);
    write_engine(&w, s->metrics, &stats);
    write_requests(&w, s);
    write_histograms(&w, s->metrics);
    write_model(&w, m);
    write_process(out, s);
    models_drop(m);
}
