/* loader.c — the one thread that takes models away and brings others, and the requests that watch it.
 *
 * Asked by models_routes.c and at the start. The old model goes first, because both may not fit into memory; it goes
 * when its last request has let go. The load goes on when the client that asked for it leaves: a request here is only
 * an onlooker. */
#include "loader.h"
#include "base/clock.h"
#include "base/cpuid.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/signals.h"
#include "health.h"
#include "metrics.h"
#include "pump.h"
#include "reply.h"
#include "server.h"
#include "slog.h"
#include "templates.h"
#include <math.h>
#include <stdio.h>

/* The engine takes no larger chunks; TabbyAPI's usual 2048 means its largest. */
enum { MOST_ONLOOKERS = 64, LEAST_CACHE = 512, CACHE_SHARE = 4, MOST_CHUNK = 512 };

struct loader {
    struct server *server;
    bell bell;
    bool is_running, is_unload, has_thread, is_ending;
    pthread_t thread;
    load_order order;
    double done, total;
    http_request *onlookers[MOST_ONLOOKERS];
    int n_onlookers;
    qp_status status;
    qp_error error;
};

qp_status loader_new(loader **out, struct server *s, qp_error *err) {
    *out = MEM_NEW(loader);
    if (!*out) return err_no_memory(err, sizeof **out, "the loader");
    (*out)->server = s;
    const qp_status status = bell_open(&(*out)->bell, err);
    if (status != QP_OK) mem_free(*out), *out = NULL;
    return status;
}

bool loader_is_running(struct server *s, double *share) {
    loader *l = s->loader;
    if (!l) return false;
    bell_lock(&l->bell);
    const bool is = l->is_running && !l->is_unload;
    *share = l->total > 0 ? l->done / l->total : 0;
    bell_unlock(&l->bell);
    return is;
}

/* ---- onlookers ---- */

static void send_progress(http_request *r, double done, double total, const char *state) {
    char event[200];
    const int bytes = snprintf(
        event, sizeof event, "data: {\"model_type\":\"model\",\"module\":%.0f,\"modules\":%.0f,\"status\":\"%s\"}\n\n",
        done, total, state);
    http_stream_send(r, event, (size_t)bytes);
}

static void on_progress(void *user, double done, double total) {
    loader *l = user;
    bell_lock(&l->bell);
    l->done = done;
    l->total = total;
    for (int i = 0; i < l->n_onlookers; i++) send_progress(l->onlookers[i], done, total, "processing");
    bell_unlock(&l->bell);
}

static void end_one(const loader *l, http_request *r) {
    if (l->status != QP_OK)
        reply_failure(r, "model_name", &l->error);
    else if (l->is_unload)
        reply_null(r);
    else {
        send_progress(r, l->total, l->total, "finished");
        http_stream_end(r);
    }
    http_drop(r);
}

static void end_onlookers(loader *l) {
    http_request *list[MOST_ONLOOKERS];
    bell_lock(&l->bell);
    const int n = l->n_onlookers;
    memcpy(list, l->onlookers, sizeof list);
    l->n_onlookers = 0;
    l->is_running = false;
    bell_ring(&l->bell);
    bell_unlock(&l->bell);
    for (int i = 0; i < n; i++) end_one(l, list[i]);
}

/* ---- taking away ---- */

static void take_away(loader *l, bool skip_queue) {
    struct server *s = l->server;
    model_slot *old = models_put(s->models, NULL);
    if (!old) return;
    slog_say(s->log, QP_LOG_INFO, "unloading %s", old->id);
    if (skip_queue) pump_cancel(s->pump, NULL, CAUSE_UNLOAD);
    /* A server that ends does not wait for ever: its drain has ended the jobs before. */
    while (!models_wait_alone(old, clock_now() + 0.5))
        if (skip_queue) pump_cancel(s->pump, NULL, CAUSE_UNLOAD);
    qp_generator_stats stats;
    qp_generator_get_stats(old->generator, &stats);
    metrics_keep(s->metrics, &stats);
    models_drop(old);
}

/* ---- bringing ---- */

static qp_cache_type cache_type_of(const config *c, const load_order *o) {
    const char *word = o->cache_mode ? o->cache_mode : c->cache_mode;
    if (!word) return QP_CACHE_DEFAULT;
    return !strcmp(word, "fp32") || !strcmp(word, "FP32") ? QP_CACHE_FP32 : QP_CACHE_FP16;
}

static double pick(double asked, double configured) { return asked > 0 ? asked : configured; }

static qp_status open_model(loader *l, model_slot *m, qp_error *err) {
    const config *c = l->server->config;
    const load_order *o = &l->order;
    const qp_model_options options = {
        .size = sizeof options,
        .device = c->device,
        .cpu_level = c->cpu_level,
        .threads = (int)c->threads,
        .pin_threads = c->pin_threads,
        .precision = !strcmp(c->precision, "exact") ? QP_PRECISION_EXACT : QP_PRECISION_FAST,
        .rope_scale = pick(o->rope_scale, c->rope_scale),
        .rope_alpha = pick(o->rope_alpha, c->rope_alpha),
        .rope_yarn = c->rope_yarn,
        .log = {slog_line, l->server->log},
        .progress = on_progress,
        .progress_user = l,
    };
    ERR_TRY(qp_model_open(&m->model, o->path, &options, err));
    qp_model_get_info(m->model, &m->info);
    m->tokenizer = qp_model_peek_tokenizer(m->model);
    if (!m->tokenizer) return err_set(err, QP_UNSUPPORTED, 0, "%.200s has no tokenizer, so it cannot be served", o->id);
    return QP_OK;
}

/* What the configuration leaves open: several answers at their trained length, as far as half of the memory goes. */
static uint64_t cache_tokens_of(const model_slot *m, int64_t asked, qp_cache_type type) {
    if (asked) return (uint64_t)asked;
    const uint64_t trained = (uint64_t)m->info.trained_context, memory = cpu_memory_bytes();
    uint64_t tokens = trained * CACHE_SHARE;
    while (memory && tokens > LEAST_CACHE && qp_model_cache_bytes(m->model, type, tokens) > memory / 2) tokens /= 2;
    return tokens;
}

static qp_status open_generator(const loader *l, model_slot *m, qp_error *err) {
    const config *c = l->server->config;
    const load_order *o = &l->order;
    const qp_cache_type type = cache_type_of(c, o);
    const int64_t length = (int64_t)pick((double)o->max_seq_len, (double)c->max_seq_len);
    const uint64_t asked = (uint64_t)pick((double)o->cache_size, (double)c->cache_size);
    const double chunk = pick((double)o->chunk_size, (double)c->chunk_size);
    const uint64_t page = 256, tokens = (cache_tokens_of(m, (int64_t)asked, type) + page - 1) / page * page;
    const uint64_t trained = (uint64_t)m->info.trained_context, wanted = length ? (uint64_t)length : trained;
    m->max_length = wanted < tokens ? wanted : tokens;
    m->limits = (qp_generator_options){
        .size = sizeof m->limits,
        .cache_tokens = tokens,
        .cache_type = type,
        .chunk_tokens = chunk < MOST_CHUNK ? (int)chunk : MOST_CHUNK,
        .max_jobs = (int)pick((double)o->max_batch_size, (double)c->max_batch_size),
        .max_queue = (int)c->max_queue,
        .max_length = m->max_length,
        .max_stall = c->max_stall,
        .max_bypass = c->queue_bypass ? (int)c->queue_bypass : -1,
        .spill_bytes = (uint64_t)c->spill_mb << 20,
    };
    return qp_generator_new(&m->generator, m->model, &m->limits, err);
}

/* sentence-transformers write down how a model's vectors are made; a folder without that file means the mean. */
static qp_status set_pooling(model_slot *m, const config *c, const char *folder, qp_error *err) {
    char path[4200];
    json_t *file;
    bool is_last = !strcmp(c->embedding_pooling, "last"), is_mean = !strcmp(c->embedding_pooling, "mean");
    snprintf(path, sizeof path, "%s/1_Pooling/config.json", folder);
    if (!is_last && !is_mean && file_exists(path)) {
        ERR_TRY(json_load_path(&file, path, 1 << 20, err));
        is_last = json_is_true(json_object_get(file, "pooling_mode_lasttoken"));
        is_mean = json_is_true(json_object_get(file, "pooling_mode_mean_tokens"));
        json_decref(file);
        if (is_last == is_mean)
            return err_set(err, QP_UNSUPPORTED, 0,
                           "%s: neither the mean nor the last token alone; embedding_pooling chooses one", path);
    }
    m->pooling = is_last ? QP_POOL_LAST : QP_POOL_MEAN;
    return QP_OK;
}

static qp_status open_template(const loader *l, model_slot *m, qp_error *err) {
    const config *c = l->server->config;
    const char *name = *l->order.prompt_template ? l->order.prompt_template : c->prompt_template;
    if (name) return templates_open(&m->chat_template, l->server, name, err);
    if (!m->info.has_chat_template) return QP_OK;
    return templates_open_own(&m->chat_template, l->order.path, err);
}

/* Changes with the build, the model and the kernels. */
static void set_fingerprint(model_slot *m) {
    char text[512];
    const int bytes =
        snprintf(text, sizeof text, "%.100s|%.60s|%.30s|%.15s|%d|%llu", qp_version(), m->info.architecture,
                 m->info.device, m->info.cpu_level, (int)m->info.precision, (unsigned long long)m->info.weight_bytes);
    const uint64_t hash = hash_bytes(text, (size_t)bytes, hash_bytes(m->path, strlen(m->path), 0));
    snprintf(m->fingerprint, sizeof m->fingerprint, "q%010llx", (unsigned long long)(hash & 0xFFFFFFFFFF));
}

static qp_status open_slot(loader *l, model_slot **out, qp_error *err) {
    model_slot *m = MEM_NEW(model_slot);
    if (!m) return err_no_memory(err, sizeof *m, "a model");
    m->server = l->server;
    atomic_store(&m->users, 1);
    snprintf(m->id, sizeof m->id, "%s", l->order.id);
    snprintf(m->path, sizeof m->path, "%s", l->order.path);
    m->created = (int64_t)clock_unix();
    qp_status status = open_model(l, m, err);
    if (status == QP_OK) status = open_generator(l, m, err);
    if (status == QP_OK) status = open_template(l, m, err);
    if (status == QP_OK) status = set_pooling(m, l->server->config, l->order.path, err);
    if (status != QP_OK) return models_slot_free(m), status;
    set_fingerprint(m);
    *out = m;
    return QP_OK;
}

static void load(loader *l) {
    struct server *s = l->server;
    model_slot *fresh = NULL;
    const double began = clock_now();
    take_away(l, l->order.skip_queue);
    slog_say(s->log, QP_LOG_INFO, "loading %s from %s", l->order.id, l->order.path);
    l->status = open_slot(l, &fresh, &l->error);
    l->error.code = l->status;
    if (l->status == QP_OK) {
        models_put(s->models, fresh);
        slog_say(s->log, QP_LOG_INFO, "%s is loaded after %.1f s: %llu tokens of cache, %llu of one answer, %s",
                 fresh->id, clock_now() - began, (unsigned long long)fresh->limits.cache_tokens,
                 (unsigned long long)fresh->max_length, fresh->info.cpu_level);
    } else {
        slog_say(s->log, QP_LOG_ERROR, "%s is not loaded: %s", l->order.id, l->error.text);
        health_note(s->health, "Loading %.80s failed: %.100s", l->order.id, l->error.text);
    }
}

static void *run(void *user) {
    pthread_setname_np(pthread_self(), "quipu-loader");
    loader *l = user;
    if (l->is_unload)
        take_away(l, l->order.skip_queue);
    else
        load(l);
    end_onlookers(l);
    return NULL;
}

/* ---- asking ---- */

static void attach(loader *l, http_request *r) {
    if (!r || l->n_onlookers == MOST_ONLOOKERS) return;
    l->onlookers[l->n_onlookers++] = http_hold(r);
    if (!l->is_unload) http_stream_begin(r, NULL);
}

/* With the lock; the thread of the last work is over. */
static qp_status start_thread(loader *l, qp_error *err) {
    if (l->has_thread) pthread_join(l->thread, NULL);
    l->has_thread = false;
    l->status = QP_OK;
    l->error = (qp_error){0};
    l->done = l->total = 0;
    sigset_t before;
    signals_block(&before);
    const int failed = pthread_create(&l->thread, NULL, run, l);
    signals_restore(&before);
    if (failed) return err_set(err, QP_NO_MEMORY, 0, "no thread for loading: %s", strerror(failed));
    l->has_thread = l->is_running = true;
    return QP_OK;
}

qp_status loader_start(loader *l, const load_order *order, http_request *r, qp_error *err) {
    qp_status status = QP_OK;
    bell_lock(&l->bell);
    if (l->is_ending)
        status = err_set(err, QP_CANCELLED, 0, "the server is about to end");
    else if (l->is_running && (l->is_unload || strcmp(l->order.path, order->path) || !r))
        status = err_set(err, QP_BUSY, 0, "%s is being %s", l->is_unload ? "the old model" : l->order.id,
                         l->is_unload ? "unloaded" : "loaded");
    else if (l->is_running)
        attach(l, r);
    else {
        l->order = *order;
        l->is_unload = false;
        status = start_thread(l, err);
        if (status == QP_OK) attach(l, r);
    }
    bell_unlock(&l->bell);
    return status;
}

qp_status loader_start_unload(loader *l, bool skip_queue, http_request *r, qp_error *err) {
    qp_status status = QP_OK;
    model_slot *m = models_take(l->server);
    models_drop(m);
    bell_lock(&l->bell);
    if (l->is_running || l->is_ending)
        status = err_set(err, QP_BUSY, 0, "%s is being loaded", l->order.id);
    else if (!m)
        status = err_set(err, QP_NO_FILE, 0, "no model is loaded");
    else {
        l->is_unload = true;
        l->order = (load_order){.skip_queue = skip_queue};
        status = start_thread(l, err);
        if (status == QP_OK) attach(l, r);
    }
    bell_unlock(&l->bell);
    return status;
}

qp_status loader_wait(loader *l, qp_error *err) {
    bell_lock(&l->bell);
    while (l->is_running) bell_wait(&l->bell, INFINITY);
    const qp_status status = l->status;
    if (err && status != QP_OK) *err = l->error;
    bell_unlock(&l->bell);
    return status;
}

void loader_free(loader *l) {
    if (!l) return;
    bell_lock(&l->bell);
    l->is_ending = true;
    bell_unlock(&l->bell);
    loader_wait(l, NULL);
    if (l->has_thread) pthread_join(l->thread, NULL);
    bell_close(&l->bell);
    mem_free(l);
}
