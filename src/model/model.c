/* model.c — opens a model on a device: config, checkpoint, weights, plan, scratch, in that order.
 *
 * Called by api/. Everything is checked before it returns; one cleanup path. */
#include "model.h"
#include "leftover.h"
#include "pack_place.h"
#include "rope.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "format/gguf.h"
#include <string.h>

static qp_status override_rope(model *m, const model_options *o, qp_error *err) {
    if (o->rope_scale == 0 && o->rope_alpha == 0 && o->rope_yarn == 0) return QP_OK;
    for (int i = 0; i < m->shape.n_ropes; i++)
        ERR_TRY(rope_override(&m->shape.ropes[i], m->shape.rot_dims, o->rope_scale, o->rope_alpha, o->rope_yarn, err));
    return QP_OK;
}

static qp_status read_config(model *m, const char *folder, const char *as, qp_error *err) {
    hfconfig *config;
    ERR_TRY(hfconfig_open(&config, folder, err));
    qp_status status = shape_read_as(&m->shape, &m->arch, config, as, err);
    if (status == QP_OK) status = hfconfig_generation(config, folder, &m->ids, &m->sampling, err);
    hfconfig_close(config);
    return status;
}

/* What both kinds of model have in common, once the shape is known. */
static qp_status finish_open(model *m, weight_source source, const model_options *o, qp_error *err) {
    split_wish wish;
    source.progress = o->progress;
    source.progress_user = o->progress_user;
    ERR_TRY(override_rope(m, o, err));
    ERR_TRY(split_read(&wish, o->split, err));
    ERR_TRY(split_open(&m->split, &wish, &o->device, err));
    m->dev = m->split.dev[0];
    ERR_TRY(memory_plan_make(m->memory, m->unpacked, &m->split, &wish, m->arch, &m->shape, &source, err));
    if (o->plan_only) return QP_OK;
    ERR_TRY(memory_check(m->memory, &m->split, err));
    if (m->checkpoint && m->dev->has_packs) checkpoint_rest(m->checkpoint);
    ERR_TRY(weights_bind(&m->weights, &m->split, m->arch, &m->shape, &source, err));
    ERR_TRY(plan_make(&m->plan, &m->shape, &m->weights, err));
    return forward_open(&m->forward, &m->shape, &m->weights, &m->plan, m->dev->most_rows, err);
}

static model *new_model(qp_error *err) {
    model *m = MEM_NEW(model);
    if (!m)
        err_no_memory(err, sizeof *m, "a model");
    else
        pthread_mutex_init(&m->step_lock, NULL);
    return m;
}

static qp_status fetch_tensor(void *user, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                              quant_matrix *out, qp_error *err) {
    return tensors_fetch(user, row, layer, member, out, err);
}

static qp_status look_at_tensor(void *user, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                                quant_matrix *out, qp_error *err) {
    return tensors_look(user, row, layer, member, out, err);
}

static void release_tensor(void *user, const quant_matrix *m) { tensors_release(user, m); }

static qp_status open_folder(model *m, const char *folder, const model_options *o, qp_error *err) {
    char file[4096];
    const bool is_gguf = file_exists(folder) && gguf_at(file, sizeof file, folder);
    if (!is_gguf && !file_is_folder(folder))
        return err_set(err, file_exists(folder) ? QP_BAD_ARGUMENT : QP_NO_FILE, 0,
                       "%s: %s, a model folder in Hugging Face layout or a GGUF file is needed", folder,
                       file_exists(folder) ? "is not a folder" : "there is no such folder");
    ERR_TRY(read_config(m, folder, o->architecture, err));
    ERR_TRY(checkpoint_open(&m->checkpoint, folder, err));
    ERR_TRY(leftover_check(m->arch, &m->shape, m->checkpoint, err));
    tensors_open(&m->tensors, m->checkpoint, m->arch, &m->shape);
    const weight_source source = {
        .fetch = fetch_tensor, .release = release_tensor, .look = look_at_tensor, .user = &m->tensors};
    model_options with_place = *o;
    pack_place place;
    if (o->pack_cache && !o->plan_only) {
        ERR_TRY(pack_place_find(&place, o->pack_cache, folder, o->architecture, m->checkpoint, err));
        with_place.device.pack_path = place.path;
        with_place.device.pack_source = place.source;
    }
    return finish_open(m, source, &with_place, err);
}

static qp_status open_random(model *m, const char *shape, const char *format, uint64_t seed, const model_options *o,
                             qp_error *err) {
    m->ids = (hf_ids){.bos = -1, .pad = -1};
    if (o->pack_cache)
        return err_set(err, QP_BAD_ARGUMENT, 0, "pack cache: random weights have no file to keep them beside");
    ERR_TRY(synth_shape(&m->shape, &m->arch, shape, err));
    ERR_TRY(synth_open(&m->synth, format, seed, err));
    return finish_open(m, synth_source(&m->synth), o, err);
}

static qp_status give_out(model **out, model *m, qp_status status) {
    if (status != QP_OK) {
        model_close(m);
        m = NULL;
    }
    *out = m;
    return status;
}

qp_status model_open(model **out, const char *folder, const model_options *options, qp_error *err) {
    *out = NULL;
    model *m = new_model(err);
    return m ? give_out(out, m, open_folder(m, folder, options, err)) : QP_NO_MEMORY;
}

qp_status model_synthesize(model **out, const char *shape, const char *format, uint64_t seed,
                           const model_options *options, qp_error *err) {
    *out = NULL;
    model *m = new_model(err);
    return m ? give_out(out, m, open_random(m, shape, format, seed, options, err)) : QP_NO_MEMORY;
}

void model_close(model *m) {
    if (!m) return;
    forward_close(&m->forward);
    plan_free(&m->plan);
    weights_close(&m->weights);
    split_close(&m->split);
    tensors_close(&m->tensors);
    synth_close(&m->synth);
    if (m->checkpoint) checkpoint_close(m->checkpoint);
    pthread_mutex_destroy(&m->step_lock);
    mem_free(m);
}

qp_status model_step(model *m, const step_input *in, float *logits, qp_error *err) {
    pthread_mutex_lock(&m->step_lock);
    const qp_status status = forward_step(&m->forward, in, logits, err);
    pthread_mutex_unlock(&m->step_lock);
    return status;
}

/* ---- identity ---- */

/* Field by field: what lies between the fields of a struct is anybody's guess. */
static uint64_t hash_rope(const hf_rope *r, uint64_t h) {
    const double numbers[] = {r->kind,
                              r->theta,
                              r->factor,
                              r->partial,
                              r->alpha,
                              (double)r->max_positions,
                              (double)r->original_max,
                              r->attention_factor,
                              r->beta_fast,
                              r->beta_slow,
                              r->mscale,
                              r->mscale_all_dim,
                              r->truncate,
                              r->low_freq_factor,
                              r->high_freq_factor};
    h = hash_bytes(numbers, sizeof numbers, h);
    h = hash_bytes(r->short_factor, (size_t)r->n_factors * sizeof *r->short_factor, h);
    return hash_bytes(r->long_factor, (size_t)r->n_factors * sizeof *r->long_factor, h);
}

static uint64_t hash_layer(const layer_kind *l, uint64_t h) {
    const double numbers[] = {l->mixer, l->window,      l->rope,         l->chunk,
                              l->ffn,   l->has_qk_norm, l->has_q_tuning, (double)l->attention_scale};
    return hash_bytes(numbers, sizeof numbers, h);
}

static uint64_t hash_shape(const model_shape *s, uint64_t h) {
    const double numbers[] = {s->n_layers,
                              s->hidden,
                              s->n_heads,
                              s->n_kv_heads,
                              s->head_dim,
                              s->ffn,
                              s->vocabulary,
                              s->rot_dims,
                              s->rope_pairs,
                              s->norm_eps,
                              s->norm,
                              s->act,
                              s->act_kind,
                              s->act_alpha,
                              s->act_limit,
                              s->qk_norm,
                              s->norm_before,
                              s->norm_after,
                              s->is_parallel,
                              s->has_one_norm,
                              s->embed_scale,
                              s->residual_scale,
                              s->attention_cap,
                              s->qkv_limit,
                              s->has_sinks,
                              s->tune_scale,
                              s->tune_floor,
                              s->tune_offset,
                              s->kv_rank,
                              s->q_rank,
                              s->rank_eps,
                              s->weighs_input,
                              s->expert_ffn,
                              s->shared_ffn,
                              s->learned_positions,
                              s->route.n_experts,
                              s->route.top_k,
                              s->route.sigmoid,
                              s->route.n_groups,
                              s->route.groups,
                              s->route.group_best,
                              s->route.normalize,
                              s->route.floor,
                              s->route.scale};
    h = hash_bytes(s->architecture, strlen(s->architecture), h);
    h = hash_bytes(numbers, sizeof numbers, h);
    for (int i = 0; i < s->n_ropes; i++) h = hash_rope(&s->ropes[i], h);
    for (int i = 0; i < s->n_layers; i++) h = hash_layer(&s->layers[i], h);
    return h;
}

/* No byte of the files is read: what has been re-laid is not in memory any more. */
uint64_t model_identity(const model *m) {
    uint64_t h = hash_shape(&m->shape, m->dev->exact);
    for (int layer = 0; layer < m->shape.n_layers; layer++)
        for (int s = 0; s < SLOT_COUNT; s++) {
            const uint64_t sample = weights_sample(&m->weights, (slot)s, layer);
            h = hash_bytes(&sample, sizeof sample, h);
        }
    return h;
}
