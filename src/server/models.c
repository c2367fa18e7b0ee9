/* models.c — the loaded model: taken and let go by requests, put in and taken out by loader.c, and its card.
 *
 * The pointer to the loaded model is under one lock; the slot counts its users. Unloading makes it the one that
 * leaves, so new requests find nothing, and waits until it holds the last use. */
#include "models_impl.h"
#include "adapters.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "load_settings.h"
#include "reply.h"
#include "route.h"
#include "server.h"
#include "templates.h"
#include <math.h>
#include <stdio.h>

qp_status models_new(models **out, struct server *s, qp_error *err) {
    *out = MEM_NEW(models);
    if (!*out) return err_no_memory(err, sizeof **out, "the models");
    (*out)->server = s;
    const qp_status status = bell_open(&(*out)->bell, err);
    if (status != QP_OK) mem_free(*out), *out = NULL;
    return status;
}

void models_free(models *all) {
    if (!all) return;
    models_drop(models_put(all, NULL));
    bell_close(&all->bell);
    mem_free(all);
}

model_slot *models_put(models *all, model_slot *fresh) {
    bell_lock(&all->bell);
    model_slot *old = all->loaded;
    all->loaded = fresh;
    bell_unlock(&all->bell);
    return old;
}

void models_retire(models *all) {
    bell_lock(&all->bell);
    all->leaving = all->loaded;
    all->loaded = NULL;
    bell_unlock(&all->bell);
}

model_slot *models_release(models *all) {
    bell_lock(&all->bell);
    model_slot *m = all->leaving;
    all->leaving = NULL;
    bell_unlock(&all->bell);
    return m;
}

static model_slot *take(const struct server *s, bool or_leaving) {
    models *all = s->models;
    if (!all) return NULL;
    bell_lock(&all->bell);
    model_slot *m = all->loaded || !or_leaving ? all->loaded : all->leaving;
    if (m) atomic_fetch_add(&m->users, 1);
    bell_unlock(&all->bell);
    return m;
}

model_slot *models_take(struct server *s) { return take(s, false); }
model_slot *models_take_working(struct server *s) { return take(s, true); }

void models_slot_free(model_slot *m) {
    if (!m) return;
    models_drop_template(m->chat_template);
    qp_generator_free(m->generator);
    adapters_drop(m->adapters);
    qp_model_close(m->model);
    mem_free(m);
}

void models_drop(model_slot *m) {
    if (!m) return;
    models *all = m->server->models;
    bell_lock(&all->bell);
    const bool is_last = atomic_fetch_sub(&m->users, 1) == 1;
    bell_ring(&all->bell);
    bell_unlock(&all->bell);
    if (is_last) models_slot_free(m);
}

bool models_wait_alone(model_slot *m, double deadline) {
    models *all = m->server->models;
    bool is_alone;
    bell_lock(&all->bell);
    while (!(is_alone = atomic_load(&m->users) == 1) && bell_wait(&all->bell, deadline)) continue;
    bell_unlock(&all->bell);
    return is_alone;
}

/* ---- for a request ---- */

static bool is_name_of(model_slot *m, const char *name) {
    const config *c = m->server->config;
    return !name || !*name || !strcmp(name, m->id) || config_has(&c->model_alias, name) ||
           (c->use_dummy_models && config_has(&c->dummy_model_names, name)) || adapters_has(m, name);
}

/* With inline_model_loading: true if the request waits for a model, or has been told why not. */
static bool load_inline(http_request *r, const model_slot *m, const char *name) {
    const struct server *s = r->server;
    load_order order = {.is_first = false};
    qp_error err = {0};
    if (!s->config->inline_model_loading) return false;
    if (r->wants_stream) http_stream_late(r); /* a sign of life while it waits */
    if (!m && loader_park(s->loader, r)) return true;
    if (!name || load_settings_find(&order, s->config, name, &err) != QP_OK) return false;
    if (r->access != ACCESS_ADMIN && !s->config->inline_loading_for_all)
        reply_error(r, FAULT_ADMIN, "model", "model: '%.200s' is not loaded, and loading it needs the admin key", name);
    else if (loader_start_inline(s->loader, &order, r, &err) != QP_OK)
        reply_failure(r, "model", &err);
    return true;
}

/* A load may end between the two looks: its model is there then. */
static model_slot *take_for_request(struct server *s) {
    double share;
    model_slot *m = models_take(s);
    return m || loader_is_running(s, &share) ? m : models_take(s);
}

static void refuse_without_model(http_request *r) {
    struct server *s = r->server;
    double share;
    if (atomic_load(&s->is_draining))
        reply_error(r, FAULT_DRAINING, NULL, "the server is about to end and takes no new work");
    else if (loader_is_running(s, &share))
        reply_error(r, FAULT_LOADING, NULL, "the model is being loaded, %.0f %% done", share * 100);
    else
        reply_error(r, FAULT_NO_MODEL, NULL, "no model is loaded");
}

model_slot *models_for_request(http_request *r, const char *name) {
    struct server *s = r->server;
    const bool is_draining = atomic_load(&s->is_draining);
    model_slot *m = is_draining ? NULL : take_for_request(s);
    const bool is_named = m && is_name_of(m, name);
    if (!is_named && !is_draining && load_inline(r, m, name)) return models_drop(m), NULL;
    if (!m) return refuse_without_model(r), NULL;
    if (is_named || !s->config->strict_model) return m;
    reply_error(r, FAULT_NO_MODEL_NAMED, "model", "model: found '%.200s', loaded is '%s'", name, m->id);
    models_drop(m);
    return NULL;
}

/* ---- templates ---- */

qp_status models_take_template(chat_template **out, model_slot *m, const char *name, qp_error *err) {
    *out = NULL;
    if (name) return templates_open(out, m->server, name, err);
    models *all = m->server->models;
    bell_lock(&all->bell);
    *out = m->chat_template;
    if (*out) atomic_fetch_add(&(*out)->users, 1);
    bell_unlock(&all->bell);
    if (*out) return QP_OK;
    return err_set(err, QP_NO_FILE, 0, "the model %.100s has no chat template, and none is set", m->id);
}

void models_set_template(model_slot *m, chat_template *fresh) {
    models *all = m->server->models;
    bell_lock(&all->bell);
    chat_template *old = m->chat_template;
    m->chat_template = fresh;
    bell_unlock(&all->bell);
    models_drop_template(old);
}

void models_drop_template(chat_template *t) {
    if (!t || atomic_fetch_sub(&t->users, 1) != 1) return;
    qp_template_free(t->parsed);
    mem_free(t);
}

/* ---- the card ---- */

const char *models_cache_word(const model_slot *m) {
    static const char *const words[] = {[QP_CACHE_FP16] = "FP16",
                                        [QP_CACHE_FP32] = "FP32",
                                        [QP_CACHE_Q8] = "Q8",
                                        [QP_CACHE_Q6] = "Q6",
                                        [QP_CACHE_Q4] = "Q4"};
    const bool is_exact = m->info.precision == QP_PRECISION_EXACT;
    const qp_cache_type standard = is_exact ? QP_CACHE_FP32 : QP_CACHE_FP16;
    return words[m->limits.cache_type ? m->limits.cache_type : standard];
}

static json_t *parameters(model_slot *m) {
    chat_template *t = NULL;
    models_take_template(&t, m, NULL, NULL);
    json_t *object =
        json_pack("{s:I,s:I,s:s,s:f,s:f,s:i,s:i,s:s?,s:s?,s:b,s:n}", "max_seq_len", (json_int_t)m->max_length,
                  "cache_size", (json_int_t)m->limits.cache_tokens, "cache_mode", models_cache_word(m), "rope_scale",
                  m->rope_scale > 0 ? m->rope_scale : 1.0, "rope_alpha", m->rope_alpha > 0 ? m->rope_alpha : 1.0,
                  "max_batch_size", m->limits.max_jobs, "chunk_size", m->limits.chunk_tokens, "prompt_template",
                  t ? t->name : NULL, "prompt_template_content", t ? t->source : NULL, "use_vision", 0, "draft");
    models_drop_template(t);
    return object;
}

json_t *models_card(model_slot *m) {
    return json_pack("{s:s,s:s,s:I,s:s,s:I,s:{s:i,s:I,s:I,s:i},s:o}", "id", m->id, "object", "model", "created",
                     (json_int_t)m->created, "owned_by", "quipu", "max_model_len", (json_int_t)m->max_length, "meta",
                     "n_ctx_train", m->info.trained_context, "n_params", (json_int_t)m->info.n_parameters, "size",
                     (json_int_t)m->info.weight_bytes, "n_vocab", m->info.vocabulary, "parameters", parameters(m));
}
