/* api_generator.c — generators behind their public handle: options checked, numbers told, prefixes saved. */
#include "handles.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "cache/prefix_file.h"
#include "gen/seq.h"
#include <math.h>

enum { DEFAULT_JOBS = 256, DEFAULT_QUEUE = 1024, DEFAULT_BYPASS = 4 };
static const double DEFAULT_STALL = 0.5;

static qp_status check_range(const char *name, double value, double lowest, double highest, qp_error *err) {
    if (value >= lowest && value <= highest) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "%s is %g, allowed are %g to %g (0: the default)", name, value, lowest,
                   highest);
}

static qp_status read_options(const qp_model *m, const qp_generator_options *o, engine_options *out, qp_error *err) {
    ERR_TRY(check_range("chunk_tokens", o->chunk_tokens, 0, MODEL_MAX_ROWS, err));
    ERR_TRY(check_range("max_jobs", o->max_jobs, 0, ENGINE_MOST_JOBS, err));
    ERR_TRY(check_range("max_queue", o->max_queue, 0, 1 << 24, err));
    ERR_TRY(check_range("max_stall", o->max_stall, 0, 1000, err));
    ERR_TRY(check_range("cache_type", o->cache_type, QP_CACHE_DEFAULT, QP_CACHE_Q4, err));
    *out =
        (engine_options){.cache_tokens = o->cache_tokens ? o->cache_tokens : (uint64_t)m->model->shape.trained_context,
                         .kv_type = seq_kv_type(m->model, o->cache_type),
                         .chunk_tokens = o->chunk_tokens ? o->chunk_tokens : m->model->forward.max_rows,
                         .max_jobs = o->max_jobs ? o->max_jobs : DEFAULT_JOBS,
                         .max_bypass = o->max_bypass < 0 ? 0
                                       : o->max_bypass   ? o->max_bypass
                                                         : DEFAULT_BYPASS,
                         .max_queue = (size_t)(o->max_queue ? o->max_queue : DEFAULT_QUEUE),
                         .max_stall = o->max_stall > 0 ? o->max_stall : DEFAULT_STALL,
                         .spill_bytes = o->spill_bytes,
                         .no_reuse = o->no_reuse,
                         .first_serial = 1};
    return QP_OK;
}

/* Of a sequence: what the caller says, and no more than a table of learned positions has. 0: no limit. */
static uint64_t most_tokens(const qp_model *m, uint64_t wanted) {
    const uint64_t positions = (uint64_t)m->model->shape.learned_positions;
    return positions && (!wanted || positions < wanted) ? positions : wanted;
}

/* Where another device computes, its threads mostly wait for it. */
static bool has_spare_core(const device *d) { return strcmp(d->name, "cpu") != 0 || d->threads < cpu_usable_cores(); }

qp_status qp_generator_new(qp_generator **out, const qp_model *m, const qp_generator_options *options, qp_error *err) {
    API_OPTIONS(qp_generator_options, o, options);
    engine_options inner;
    *out = NULL;
    if (!m) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_generator_new: no model");
    ERR_TRY(read_options(m, &o, &inner, err));
    qp_generator *g = MEM_NEW(qp_generator);
    if (!g) return err_no_memory(err, sizeof *g, "a generator");
    g->model = m;
    g->max_length = most_tokens(m, o.max_length);
    g->has_spare_core = has_spare_core(m->model->dev);
    const tok *t = m->tokenizer ? m->tokenizer->tok : NULL;
    qp_status status = token_sets_open(&g->sets, t, m->model->shape.vocabulary, err);
    if (status == QP_OK) status = engine_new(&g->engine, m->model, &inner, err);
    if (status == QP_OK)
        *out = g;
    else
        qp_generator_free(g);
    return status;
}

void qp_generator_free(qp_generator *g) {
    if (!g) return;
    engine_free(g->engine);
    token_sets_close(&g->sets);
    mem_free(g);
}

void qp_generator_get_stats(const qp_generator *g, qp_generator_stats *stats) { engine_get_stats(g->engine, stats); }

/* ---- prefixes: on the engine's thread, between two steps ---- */

typedef struct prefix_errand {
    const char *path;
    const int32_t *ids; /* to save; NULL: load */
    size_t n_ids, count;
    qp_status status;
    qp_error error;
} prefix_errand;

static void move_prefix(void *engine_handle, void *context) {
    engine *e = engine_handle;
    prefix_errand *p = context;
    const prefix_cache cache = {e->pages, &e->store, e->root};
    if (p->ids)
        p->status = prefix_save(&cache, p->path, p->ids, p->n_ids, &p->count, &p->error);
    else
        p->status = prefix_load(&cache, p->path, &p->count, &p->error);
}

static qp_status run_errand(qp_generator *g, prefix_errand *p, size_t *count, qp_error *err) {
    if (!p->path) return err_set(err, QP_BAD_ARGUMENT, 0, "a prefix needs the path of a file");
    ERR_TRY(inbox_errand(g->engine->inbox, move_prefix, p, err));
    if (p->status != QP_OK && err) *err = p->error;
    if (count) *count = p->count;
    return p->status;
}

qp_status qp_prefix_save(qp_generator *g, const char *path, const int32_t *ids, size_t n_ids, size_t *n_saved,
                         qp_error *err) {
    prefix_errand p = {.path = path, .ids = ids, .n_ids = n_ids};
    if (!ids) return err_set(err, QP_BAD_ARGUMENT, 0, "a prefix needs the ids it begins with");
    return run_errand(g, &p, n_saved, err);
}

qp_status qp_prefix_load(qp_generator *g, const char *path, size_t *n_loaded, qp_error *err) {
    prefix_errand p = {.path = path};
    return run_errand(g, &p, n_loaded, err);
}
