/* api_model.c — opening models: options checked, engine and tokenizer put behind one handle. */
#include "handles.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "dev/kv_quant.h"
#include <math.h>
#include <stdio.h>

static qp_status check_factor(const char *name, double value, qp_error *err) {
    if (value == 0 || (isfinite(value) && value > 0)) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "%s is %g, a positive number is needed", name, value);
}

qp_status api_model_options(model_options *out, const qp_model_options *o, qp_error *err) {
    ERR_TRY(check_factor("rope_scale", o->rope_scale, err));
    ERR_TRY(check_factor("rope_alpha", o->rope_alpha, err));
    ERR_TRY(check_factor("rope_yarn", o->rope_yarn, err));
    if (o->threads < 0 || o->threads > 1024)
        return err_set(err, QP_BAD_ARGUMENT, 0, "threads is %d, allowed are 0 (all cores) to 1024", o->threads);
    *out = (model_options){.device = {.kind = o->device,
                                      .cpu_level = o->cpu_level,
                                      .threads = o->threads,
                                      .pin_threads = o->pin_threads,
                                      .exact = o->precision == QP_PRECISION_EXACT,
                                      .log = o->log},
                           .split = o->split,
                           .rope_scale = o->rope_scale,
                           .rope_alpha = o->rope_alpha,
                           .rope_yarn = o->rope_yarn,
                           .architecture = o->architecture,
                           .pack_cache = o->pack_cache,
                           .progress = o->progress,
                           .progress_user = o->progress_user};
    return QP_OK;
}

/* End tokens: what generation_config.json or config.json say, else what the tokenizer calls eos. */
static void settle_ids(qp_model *m) {
    const hf_ids *ids = &m->model->ids;
    const tok *t = m->tokenizer ? m->tokenizer->tok : NULL;
    m->bos = ids->bos < 0 && t ? tok_bos(t) : ids->bos;
    m->n_eos = ids->n_eos;
    memcpy(m->eos, ids->eos, sizeof m->eos);
    if (!m->n_eos && t && tok_eos(t) >= 0) m->eos[m->n_eos++] = tok_eos(t);
}

/* A folder without tokenizer is still a model; a broken tokenizer is an error. */
static qp_status open_text(qp_model *m, const char *path, qp_error *err) {
    qp_error why;
    qp_status status = qp_tokenizer_open(&m->tokenizer, path, &why);
    if (status == QP_NO_FILE) {
        log_line(&m->log, QP_LOG_WARN, "%s: no tokenizer, only token ids can be used", path);
        status = QP_OK;
    } else if (status != QP_OK && err) {
        *err = why;
    }
    if (status != QP_OK) return status;
    chat *template = NULL;
    m->has_chat_template = api_open_chat(&template, path, NULL, NULL) == QP_OK;
    chat_free(template);
    return QP_OK;
}

static qp_status finish(qp_model **out, qp_model *m, qp_status status) {
    if (status == QP_OK)
        settle_ids(m);
    else
        qp_model_close(m);
    *out = status == QP_OK ? m : NULL;
    return status;
}

qp_status qp_model_open(qp_model **out, const char *path, const qp_model_options *options, qp_error *err) {
    API_OPTIONS(qp_model_options, o, options);
    model_options inner;
    *out = NULL;
    if (!path) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_model_open: no path");
    ERR_TRY(api_model_options(&inner, &o, err));
    qp_model *m = MEM_NEW(qp_model);
    if (!m) return err_no_memory(err, sizeof *m, "a model");
    m->log = o.log;
    qp_status status = model_open(&m->model, path, &inner, err);
    if (status == QP_OK) status = open_text(m, path, err);
    return finish(out, m, status);
}

qp_status qp_model_synthesize(qp_model **out, const char *shape, const char *format, uint64_t seed,
                              const qp_model_options *options, qp_error *err) {
    API_OPTIONS(qp_model_options, o, options);
    model_options inner;
    *out = NULL;
    if (!shape || !format) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_model_synthesize: no shape or format");
    ERR_TRY(api_model_options(&inner, &o, err));
    qp_model *m = MEM_NEW(qp_model);
    if (!m) return err_no_memory(err, sizeof *m, "a model");
    m->log = o.log;
    return finish(out, m, model_synthesize(&m->model, shape, format, seed, &inner, err));
}

void qp_model_close(qp_model *m) {
    if (!m) return;
    qp_tokenizer_close(m->tokenizer);
    model_close(m->model);
    mem_free(m);
}

const char *qp_shape_name(int index) { return synth_shape_name(index); }

const qp_tokenizer *qp_model_peek_tokenizer(const qp_model *m) { return m->tokenizer; }

/* What generation_config.json recommends, in our terms; the engine itself never applies it. */
static qp_sampling recommended(const hf_sampling *s) {
    if (!s->do_sample) return (qp_sampling){0};
    return (qp_sampling){.temperature = s->temperature < 0 ? 1 : (float)s->temperature,
                         .top_k = s->top_k < 0 ? 0 : (int)s->top_k,
                         .top_p = s->top_p < 0 ? 0 : (float)s->top_p,
                         .min_p = s->min_p < 0 ? 0 : (float)s->min_p,
                         .repetition_penalty = s->repetition_penalty < 0 ? 0 : (float)s->repetition_penalty};
}

void qp_model_get_info(const qp_model *m, qp_model_info *info) {
    const model *inner = m->model;
    const model_shape *s = &inner->shape;
    const weights *w = &inner->weights;
    *info = (qp_model_info){.threads = inner->dev->threads,
                            .precision = inner->dev->exact ? QP_PRECISION_EXACT : QP_PRECISION_FAST,
                            .n_layers = s->n_layers,
                            .hidden = s->hidden,
                            .n_heads = s->n_heads,
                            .n_kv_heads = s->n_kv_heads,
                            .head_dim = s->head_dim,
                            .ffn = s->ffn,
                            .vocabulary = s->vocabulary,
                            .trained_context = s->trained_context,
                            .sliding_window = shape_common_window(s),
                            .n_parameters = w->n_parameters,
                            .weight_bytes = w->bytes,
                            .step_bytes = (s->tied ? w->bytes : w->bytes - w->embed_bytes) - w->idle_bytes,
                            .bits_per_weight = 8.0 * (double)w->bytes / (double)w->n_parameters,
                            .multiplies_whole = w->packed_bytes > w->bytes / 2,
                            .bos = m->bos,
                            .n_eos = m->n_eos,
                            .has_tokenizer = m->tokenizer != NULL,
                            .has_chat_template = m->has_chat_template,
                            .has_sampling = inner->sampling.do_sample,
                            .sampling = recommended(&inner->sampling)};
    memcpy(info->eos, m->eos, sizeof info->eos);
    snprintf(info->architecture, sizeof info->architecture, "%s", s->architecture);
    split_name(info->device, sizeof info->device, &inner->split);
    snprintf(info->cpu_level, sizeof info->cpu_level, "%s", inner->dev->level);
}

const char *qp_cache_type_name(qp_cache_type type) {
    if (type == QP_CACHE_DEFAULT) return "default";
    return type < QP_CACHE_DEFAULT || type > QP_CACHE_Q4 ? NULL : kv_type_name(seq_cache_type(type));
}

uint64_t qp_model_cache_bytes(const qp_model *m, qp_cache_type type, uint64_t tokens) {
    if (!qp_cache_type_name(type)) return UINT64_MAX;
    const store_shape shape = seq_store_shape(&m->model->shape, seq_kv_type(m->model, type));
    size_t page, bytes;
    const uint64_t pages = tokens / DEV_PAGE_TOKENS + (tokens % DEV_PAGE_TOKENS != 0);
    return store_page_bytes(&shape, &page) && mem_mul(page, pages, &bytes) ? bytes : UINT64_MAX;
}
