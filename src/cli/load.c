/* load.c — opens models for commands: which one, with what settings, and who hears about it. */
#include "load.h"
#include "base/file.h"
#include <limits.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where the demo model lies, seen from the folder of the program: in a build, and installed. */
static const char *const demo_places[] = {"../../models/demo", "../share/quipu/models/demo"};

static bool find_demo(char *out, size_t capacity) {
    char program[PATH_MAX];
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    if (bytes <= 0) return false;
    program[bytes] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof demo_places / sizeof *demo_places; i++) {
        char config[PATH_MAX + 64];
        if (snprintf(config, sizeof config, "%s/%s/config.json", program, demo_places[i]) >= (int)sizeof config)
            continue;
        if (!file_exists(config)) continue;
        char *name = strrchr(config, '/');
        *name = 0;
        char *real = realpath(config, NULL);
        const bool fits = snprintf(out, capacity, "%s", real ? real : config) < (int)capacity;
        free(real);
        return fits;
    }
    return false;
}

qp_status load_path(char *out, size_t capacity, session *s, qp_error *err) {
    if (s->o->model) {
        if (snprintf(out, capacity, "%s", s->o->model) < (int)capacity) return QP_OK;
        return err_set(err, QP_TOO_LARGE, 0, "--model: a path of %zu bytes, the limit is %zu", strlen(s->o->model),
                       capacity - 1);
    }
    if (!find_demo(out, capacity))
        return session_usage(s, err, "no model: give -m PATH or set QUIPU_MODEL (the demo model is not beside quipu)");
    if (!s->term.quiet && !s->has_named_model) fprintf(stderr, "no -m given: the demo model, %s\n", out);
    s->has_named_model = true;
    return QP_OK;
}

static void print_log(void *user, qp_log_level level, const char *line) {
    const term *t = user;
    if (level > (t->verbose ? QP_LOG_DEBUG : t->quiet ? QP_LOG_ERROR : QP_LOG_WARN)) return;
    static const term_style styles[] = {STYLE_RED, STYLE_YELLOW, STYLE_DIM, STYLE_DIM};
    fprintf(stderr, "%s%s%s\n", term_set(t->colour_err, styles[level]), line, term_set(t->colour_err, STYLE_PLAIN));
}

static void show_progress(void *user, double done, double total) { term_bar(user, "loading", done, total); }

static qp_model_options model_options(session *s, int threads) {
    const options *o = s->o;
    return (qp_model_options){
        .size = sizeof(qp_model_options),
        .device = o->device,
        .cpu_level = o->cpu,
        .threads = threads,
        .pin_threads = o->pin_threads,
        .precision = o->precision && !strcmp(o->precision, "exact") ? QP_PRECISION_EXACT : QP_PRECISION_FAST,
        .rope_scale = o->rope_scale,
        .rope_alpha = o->rope_alpha,
        .rope_yarn = o->rope_yarn,
        .log = {print_log, &s->term},
        .progress = show_progress,
        .progress_user = &s->term,
        .architecture = o->architecture,
        .pack_cache = o->pack_cache,
        .split = o->split,
    };
}

qp_status load_model(qp_model **out, session *s, int threads, qp_error *err) {
    char path[PATH_MAX];
    ERR_TRY(load_path(path, sizeof path, s, err));
    const qp_model_options wanted = model_options(s, threads);
    const qp_status status = qp_model_open(out, path, &wanted, err);
    term_bar_end(&s->term);
    return status;
}

qp_status load_plan(char **json, session *s, const char *path, qp_error *err) {
    const qp_model_options wanted = model_options(s, 0);
    return qp_plan_json(json, path, &wanted, err);
}

qp_status load_random(qp_model **out, session *s, int threads, qp_error *err) {
    const options *o = s->o;
    const qp_model_options wanted = model_options(s, threads);
    const qp_status status = qp_model_synthesize(out, o->shape, o->format, (uint64_t)o->seed, &wanted, err);
    term_bar_end(&s->term);
    return status;
}

qp_status load_tokenizer(qp_tokenizer **out, session *s, qp_error *err) {
    char path[PATH_MAX];
    ERR_TRY(load_path(path, sizeof path, s, err));
    return qp_tokenizer_open(out, path, err);
}

qp_cache_type load_cache_type(const options *o) {
    if (!o->cache) return QP_CACHE_DEFAULT;
    qp_cache_type type = QP_CACHE_FP16;
    while (strcmp(o->cache, qp_cache_type_name(type)) != 0) type++; /* one of the option's choices */
    return type;
}

/* ---- adapters ---- */

/* Cuts ":0.5" off the path; 1 where there is no such number behind the last colon. */
static float cut_scale(char *path) {
    char *colon = strrchr(path, ':'), *end;
    if (!colon || !colon[1]) return 1;
    const float scale = strtof(colon + 1, &end);
    if (*end) return 1;
    *colon = '\0';
    return scale;
}

qp_status load_adapters(adapter_list *out, const qp_model *model, const options *o, qp_error *err) {
    *out = (adapter_list){.count = 0};
    if (o->lora.count > LOAD_ADAPTERS)
        return err_set(err, QP_BAD_ARGUMENT, 0, "--lora: given %zu times, allowed are 0 to %d", o->lora.count,
                       LOAD_ADAPTERS);
    for (size_t i = 0; i < o->lora.count; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s", o->lora.at[i]) >= (int)sizeof path)
            return err_set(err, QP_TOO_LARGE, 0, "--lora: a path of %zu bytes, the limit is %zu", strlen(o->lora.at[i]),
                           sizeof path - 1);
        const float scale = cut_scale(path);
        const qp_status status = qp_adapter_open(&out->uses[i].adapter, model, path, err);
        if (status != QP_OK) return load_close_adapters(out), status;
        out->uses[out->count++].scale = scale;
    }
    return QP_OK;
}

void load_close_adapters(adapter_list *list) {
    for (size_t i = 0; i < list->count; i++) qp_adapter_close(list->uses[i].adapter);
    list->count = 0;
}
