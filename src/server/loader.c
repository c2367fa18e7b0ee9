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
#include "load_settings.h"
#include "metrics.h"
#include "pump.h"
#include "reply.h"
#include "server.h"
#include "slog.h"
#include "templates.h"
#include "transport.h"
#include <math.h>
#include <stdio.h>

/* The engine takes no larger chunks; TabbyAPI's usual 2048 means its largest. */
enum { MOST_ONLOOKERS = 64, LEAST_CACHE = 512, CACHE_SHARE = 4, MOST_CHUNK = 512 };

typedef enum load_kind { LOAD_MODEL, LOAD_UNLOAD, LOAD_ADAPTERS } load_kind;

struct loader {
    struct server *server;
    bell bell;
    load_kind kind;
    bool is_running, has_thread, is_ending;
    pthread_t thread;
    load_order order;
    double done, total;
    http_request *onlookers[MOST_ONLOOKERS];
    int n_onlookers;
    http_request **parked; /* [n_parked]: their handlers run again when this is over */
    size_t n_parked;
    json_t *report;                 /* LOAD_ADAPTERS: what became of each */
    qp_status status, first_status; /* first: of the load at the start */
    qp_error error, first_error;
    bool has_begun; /* that one is over */
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
    const bool is = l->is_running && l->kind == LOAD_MODEL;
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

static void end_adapters(loader *l, http_request *r) {
    if (l->status == QP_NO_FILE)
        reply_error(r, FAULT_NO_MODEL, NULL, "%s", l->error.text);
    else if (l->status != QP_OK)
        reply_failure(r, "loras", &l->error);
    else
        reply_json(r, 200, json_incref(l->report));
}

static void end_one(loader *l, http_request *r) {
    if (l->kind == LOAD_ADAPTERS)
        end_adapters(l, r);
    else if (l->status != QP_OK)
        reply_failure(r, "model_name", &l->error);
    else if (l->kind == LOAD_UNLOAD)
        reply_null(r);
    else {
        send_progress(r, l->total, l->total, "finished");
        http_stream_end(r);
    }
    http_drop(r);
}

/* Their handlers find what there is now. */
static void end_parked(loader *l, http_request **parked, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (l->status != QP_OK)
            reply_failure(parked[i], "model", &l->error);
        else if (!transport_run_again(l->server->transport, parked[i]))
            reply_error(parked[i], FAULT_DRAINING, NULL, "the server is about to end");
        http_drop(parked[i]);
    }
    mem_free(parked);
}

static void end_onlookers(loader *l) {
    http_request *list[MOST_ONLOOKERS];
    bell_lock(&l->bell);
    const int n = l->n_onlookers;
    memcpy(list, l->onlookers, sizeof list);
    l->n_onlookers = 0;
    http_request **parked = l->parked;
    const size_t n_parked = l->n_parked;
    l->parked = NULL;
    l->n_parked = 0;
    l->is_running = false;
    if (l->kind == LOAD_MODEL && l->order.is_first)
        l->has_begun = true, l->first_status = l->status, l->first_error = l->error;
    bell_ring(&l->bell);
    bell_unlock(&l->bell);
    for (int i = 0; i < n; i++) end_one(l, list[i]);
    end_parked(l, parked, n_parked);
}

/* ---- taking away ---- */

static void end_old(loader *l, bool skip_queue) {
    struct server *s = l->server;
    model_slot *old = s->models->leaving; /* by this thread alone, while the work runs */
    if (!old) return;
    slog_say(s->log, QP_LOG_INFO, "unloading %s", old->id);
    if (skip_queue) pump_cancel(s->pump, NULL, CAUSE_UNLOAD);
    /* A server that ends does not wait for ever: its drain has ended the jobs before. */
    while (!models_wait_alone(old, clock_now() + 0.5))
        if (skip_queue) pump_cancel(s->pump, NULL, CAUSE_UNLOAD);
    qp_generator_stats stats;
    models_release(s->models);
    qp_generator_get_stats(old->generator, &stats);
    metrics_keep(s->metrics, &stats);
    models_drop(old);
}

/* ---- bringing ---- */

static qp_status open_model(loader *l, model_slot *m, qp_error *err) {
    const config *c = l->server->config;
    const load_order *o = &l->order;
    const qp_model_options options = {
        .size = sizeof options,
        .device = c->device,
        .split = c->split,
        .cpu_level = c->cpu_level,
        .threads = (int)c->threads,
        .pin_threads = c->pin_threads,
        .precision = !strcmp(c->precision, "exact") ? QP_PRECISION_EXACT : QP_PRECISION_FAST,
        .rope_scale = o->rope_scale,
        .rope_alpha = o->rope_alpha,
        .rope_yarn = c->rope_yarn,
        .log = {slog_line, l->server->log},
        .progress = on_progress,
        .progress_user = l,
        .pack_cache = c->pack_cache,
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
    const qp_cache_type type = o->cache_type;
    const uint64_t page = 256, tokens = (cache_tokens_of(m, o->cache_size, type) + page - 1) / page * page;
    const uint64_t trained = (uint64_t)m->info.trained_context;
    const uint64_t wanted = o->max_seq_len ? (uint64_t)o->max_seq_len : trained;
    m->max_length = wanted < tokens ? wanted : tokens;
    m->limits = (qp_generator_options){
        .size = sizeof m->limits,
        .cache_tokens = tokens,
        .cache_type = type,
        .chunk_tokens = o->chunk_size < MOST_CHUNK ? (int)o->chunk_size : MOST_CHUNK,
        .max_jobs = (int)o->max_batch_size,
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
    const char *name = l->order.prompt_template;
    if (*name) return templates_open(&m->chat_template, l->server, name, err);
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

/* Those that the order names must all be there. */
static qp_status open_adapters(const loader *l, model_slot *m, qp_error *err) {
    if (!l->order.n_adapters) return QP_OK;
    m->adapters = adapters_new();
    if (!m->adapters) return err_no_memory(err, sizeof *m->adapters, "adapters");
    for (int i = 0; i < l->order.n_adapters; i++) ERR_TRY(adapters_add(m->adapters, m, &l->order.adapters[i], err));
    return QP_OK;
}

static qp_status open_slot(loader *l, model_slot **out, qp_error *err) {
    model_slot *m = MEM_NEW(model_slot);
    if (!m) return err_no_memory(err, sizeof *m, "a model");
    m->server = l->server;
    atomic_store(&m->users, 1);
    m->rope_scale = l->order.rope_scale;
    m->rope_alpha = l->order.rope_alpha;
    snprintf(m->id, sizeof m->id, "%s", l->order.id);
    snprintf(m->path, sizeof m->path, "%s", l->order.path);
    m->created = (int64_t)clock_unix();
    qp_status status = open_model(l, m, err);
    if (status == QP_OK) status = open_generator(l, m, err);
    if (status == QP_OK) status = open_template(l, m, err);
    if (status == QP_OK) status = open_adapters(l, m, err);
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
    end_old(l, l->order.skip_queue);
    slog_say(s->log, QP_LOG_INFO, "loading %s from %s", l->order.id, l->order.path);
    const qp_log warn = {slog_line, s->log};
    l->status = load_settings_complete(&l->order, s->config, &warn, &l->error);
    if (l->status == QP_OK) l->status = open_slot(l, &fresh, &l->error);
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

/* Each by itself: what cannot be loaded is told beside what can. */
static void add_reported(loader *l, adapter_set *set, const model_slot *m, const adapter_wish *wish) {
    qp_error why = {0};
    const bool is_good = adapters_add(set, m, wish, &why) == QP_OK;
    json_array_append_new(json_object_get(l->report, is_good ? "success" : "failure"), json_string(wish->name));
    if (!is_good) json_object_set_new(json_object_get(l->report, "errors"), wish->name, json_string(why.text));
    if (!is_good) slog_say(l->server->log, QP_LOG_WARN, "the adapter %s is not loaded: %s", wish->name, why.text);
}

static void change_adapters(loader *l) {
    model_slot *m = models_take(l->server);
    adapter_set *set = m ? adapters_new() : NULL;
    json_decref(l->report);
    l->report = json_pack("{s:[],s:[],s:{}}", "success", "failure", "errors");
    if (!m)
        l->status = err_set(&l->error, QP_NO_FILE, 0, "no model is loaded");
    else if (!set || !l->report)
        l->status = err_no_memory(&l->error, sizeof *set, "adapters");
    for (int i = 0; l->status == QP_OK && i < l->order.n_adapters; i++) add_reported(l, set, m, &l->order.adapters[i]);
    if (l->status == QP_OK)
        adapters_put(m, set);
    else
        adapters_drop(set);
    models_drop(m);
}

static void *run(void *user) {
    pthread_setname_np(pthread_self(), "quipu-loader");
    loader *l = user;
    switch (l->kind) {
    case LOAD_MODEL:
        load(l);
        break;
    case LOAD_UNLOAD:
        end_old(l, l->order.skip_queue);
        break;
    case LOAD_ADAPTERS:
        change_adapters(l);
        break;
    }
    end_onlookers(l);
    return NULL;
}

/* ---- asking ---- */

static void attach(loader *l, http_request *r) {
    if (!r || l->n_onlookers == MOST_ONLOOKERS) return;
    l->onlookers[l->n_onlookers++] = http_hold(r);
    if (l->kind == LOAD_MODEL) http_stream_begin(r, NULL);
}

/* With the lock; the thread of the last work is over. */
static qp_status start_thread(loader *l, qp_error *err) {
    if (l->has_thread) pthread_join(l->thread, NULL);
    l->has_thread = false;
    l->status = QP_OK;
    l->error = (qp_error){0};
    l->done = l->total = 0;
    /* Now and not on the thread: whoever asks after this was accepted never gets the old model. */
    if (l->kind != LOAD_ADAPTERS) models_retire(l->server->models);
    sigset_t before;
    signals_block(&before);
    const int failed = pthread_create(&l->thread, NULL, run, l);
    signals_restore(&before);
    l->has_thread = l->is_running = !failed;
    if (!failed) return QP_OK;
    if (l->kind != LOAD_ADAPTERS) models_put(l->server->models, models_release(l->server->models));
    return err_set(err, QP_NO_MEMORY, 0, "no thread for loading: %s", strerror(failed));
}

static qp_status is_busy(const loader *l, qp_error *err) {
    static const char *const works[] = {"%s is being loaded", "the old model is being unloaded",
                                        "adapters are being loaded"};
    return l->kind == LOAD_MODEL ? err_set(err, QP_BUSY, 0, works[0], l->order.id)
                                 : err_set(err, QP_BUSY, 0, "%s", works[l->kind]);
}

/* With the lock. */
static qp_status park(loader *l, http_request *r, qp_error *err) {
    http_request **more = mem_resize(l->parked, l->n_parked + 1, sizeof(http_request *));
    if (!more) return err_no_memory(err, sizeof *more, "a request that waits");
    l->parked = more;
    l->parked[l->n_parked++] = http_hold(r);
    return QP_OK;
}

bool loader_park(loader *l, http_request *r) {
    bell_lock(&l->bell);
    const bool is_parked = l->is_running && park(l, r, NULL) == QP_OK;
    bell_unlock(&l->bell);
    return is_parked;
}

qp_status loader_start_inline(loader *l, const load_order *order, http_request *r, qp_error *err) {
    qp_status status = QP_OK;
    bell_lock(&l->bell);
    if (l->is_ending) status = err_set(err, QP_CANCELLED, 0, "the server is about to end");
    if (status == QP_OK) status = park(l, r, err);
    if (status == QP_OK && !l->is_running) {
        l->order = *order;
        l->kind = LOAD_MODEL;
        status = start_thread(l, err);
        if (status != QP_OK) http_drop(l->parked[--l->n_parked]);
    }
    bell_unlock(&l->bell);
    return status;
}

qp_status loader_start(loader *l, const load_order *order, http_request *r, qp_error *err) {
    qp_status status = QP_OK;
    bell_lock(&l->bell);
    if (l->is_ending)
        status = err_set(err, QP_CANCELLED, 0, "the server is about to end");
    else if (l->is_running && (l->kind != LOAD_MODEL || strcmp(l->order.path, order->path) || !r))
        status = is_busy(l, err);
    else if (l->is_running)
        attach(l, r);
    else {
        l->order = *order;
        l->kind = LOAD_MODEL;
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
        status = is_busy(l, err);
    else if (!m)
        status = err_set(err, QP_NO_FILE, 0, "no model is loaded");
    else {
        l->kind = LOAD_UNLOAD;
        l->order = (load_order){.skip_queue = skip_queue};
        status = start_thread(l, err);
        if (status == QP_OK) attach(l, r);
    }
    bell_unlock(&l->bell);
    return status;
}

qp_status loader_start_adapters(loader *l, const load_order *order, http_request *r, qp_error *err) {
    qp_status status = QP_OK;
    bell_lock(&l->bell);
    if (l->is_running || l->is_ending)
        status = is_busy(l, err);
    else {
        l->kind = LOAD_ADAPTERS;
        l->order = *order;
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

bool loader_has_begun(loader *l, qp_status *status, qp_error *err) {
    bell_lock(&l->bell);
    const bool has_begun = l->has_begun;
    *status = l->first_status;
    if (err && has_begun && *status != QP_OK) *err = l->first_error;
    bell_unlock(&l->bell);
    return has_begun;
}

void loader_free(loader *l) {
    if (!l) return;
    bell_lock(&l->bell);
    l->is_ending = true;
    bell_unlock(&l->bell);
    loader_wait(l, NULL);
    if (l->has_thread) pthread_join(l->thread, NULL);
    bell_close(&l->bell);
    json_decref(l->report);
    mem_free(l);
}
