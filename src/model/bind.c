/* bind.c — finds each weight that the architecture's row names, checks its shape, gives it to the device.
 *
 * Called once by model.c. Matrices stay where the checkpoint's mapping has them if the device can read them there;
 * vectors (norms, biases) are small and become float32 device memory. What is missing or misshapen is an error that
 * names the tensor, what was found and what was expected. */
#include "bind.h"
#include "base/mem.h"
#include <string.h>

static bound *slot_at(const weights *w, slot s, int layer) {
    const int row = slot_is_per_layer(s) ? layer : w->n_layers;
    return &w->slots[(size_t)row * SLOT_COUNT + (size_t)s];
}

const dev_weight *weights_matrix(const weights *w, slot s, int layer) {
    const bound *b = slot_at(w, s, layer);
    return b->matrix.type ? &b->matrix : NULL;
}

const float *weights_vector(const weights *w, slot s, int layer) { return slot_at(w, s, layer)->vector; }

/* Unpacks [n, 1] into float32 device memory. */
static qp_status bind_vector(device *dev, bound *b, const quant_matrix *m, qp_error *err) {
    const size_t bytes = (size_t)m->n_out * sizeof(float);
    float *host = mem_array((size_t)m->n_out, sizeof(float));
    if (!host) return err_no_memory(err, bytes, "a vector of weights");
    for (int64_t i = 0; i < m->n_out; i++) m->type->unpack_row(host + i, m, i);
    void *memory = NULL;
    const qp_status status = dev->ops->take(dev, &memory, bytes, err);
    if (status == QP_OK) {
        dev->ops->upload(dev, memory, host, bytes);
        b->vector = memory;
        b->n = m->n_out;
    }
    mem_free(host);
    return status;
}

static qp_status bind_one(weights *w, const slot_row *row, const model_shape *shape, int layer,
                          const weight_source *source, qp_error *err) {
    const int64_t rows = shape_dim(shape, row->rows), cols = row->cols == DIM_NONE ? 1 : shape_dim(shape, row->cols);
    quant_matrix m;
    ERR_TRY(source->fetch(source->user, row, layer, rows, cols, &m, err));
    bound *b = slot_at(w, row->slot, layer);
    if (row->cols == DIM_NONE)
        ERR_TRY(bind_vector(w->dev, b, &m, err));
    else
        ERR_TRY(w->dev->ops->weight_open(w->dev, &b->matrix, &m, err));
    w->bytes += m.part_bytes[0];
    w->n_parameters += (uint64_t)rows * (uint64_t)cols;
    if (row->slot == SLOT_EMBED) w->embed_bytes = m.part_bytes[0];
    return QP_OK;
}

/* All slots of one layer, or with layer == n_layers those that are not per layer. */
static qp_status bind_layer(weights *w, const arch_row *arch, const model_shape *shape, int layer,
                            const weight_source *source, qp_error *err) {
    for (const slot_row *row = arch->slots; row->pattern; row++)
        if (shape_needs(shape, row->need) && slot_is_per_layer(row->slot) == (layer < w->n_layers))
            ERR_TRY(bind_one(w, row, shape, layer, source, err));
    if (source->progress) source->progress(source->progress_user, layer + 1, w->n_layers + 1);
    return QP_OK;
}

qp_status weights_bind(weights *out, device *dev, const arch_row *arch, const model_shape *shape,
                       const weight_source *source, qp_error *err) {
    *out = (weights){.dev = dev, .n_layers = shape->n_layers};
    out->slots = mem_zarray((size_t)shape->n_layers + 1, SLOT_COUNT * sizeof(bound));
    if (!out->slots) return err_no_memory(err, 0, "the list of weights");
    for (int i = 0; i <= shape->n_layers; i++) {
        const qp_status status = bind_layer(out, arch, shape, i, source, err);
        if (status != QP_OK) return weights_close(out), status;
    }
    return QP_OK;
}

void weights_close(weights *w) {
    const size_t n = w->slots ? ((size_t)w->n_layers + 1) * SLOT_COUNT : 0;
    for (size_t i = 0; i < n; i++) {
        bound *b = &w->slots[i];
        if (b->matrix.type) w->dev->ops->weight_close(w->dev, &b->matrix);
        if (b->vector) w->dev->ops->give(w->dev, b->vector, (size_t)b->n * sizeof(float));
    }
    mem_free(w->slots);
    *w = (weights){0};
}

/* ---- a checkpoint as source ---- */

static const struct {
    dtype stored;
    quant_id meaning;
} plain_types[] = {{DTYPE_F32, QUANT_F32}, {DTYPE_F16, QUANT_F16}, {DTYPE_BF16, QUANT_BF16}};

static const quant_type *plain_type(dtype stored) {
    for (size_t i = 0; i < sizeof plain_types / sizeof *plain_types; i++)
        if (plain_types[i].stored == stored) return quant_type_of(plain_types[i].meaning);
    return NULL;
}

static qp_status check_tensor(const ckpt_tensor *t, int64_t rows, int64_t cols, bool is_vector, qp_error *err) {
    if (!plain_type(t->type))
        return err_set(err, QP_UNSUPPORTED, 0, "%s: elements of type %s, this engine computes with F32, F16 and BF16",
                       t->name, dtype_name(t->type));
    if (is_vector && (t->rank != 1 || t->shape[0] != rows))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: rank %d with %lld elements first, expected [%lld]", t->name, t->rank,
                       (long long)(t->rank ? t->shape[0] : 1), (long long)rows);
    if (!is_vector && (t->rank != 2 || t->shape[0] != rows || t->shape[1] != cols))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: rank %d, [%lld, %lld], expected [%lld, %lld]", t->name, t->rank,
                       (long long)(t->rank ? t->shape[0] : 1), (long long)(t->rank > 1 ? t->shape[1] : 1),
                       (long long)rows, (long long)cols);
    return QP_OK;
}

static qp_status fetch_tensor(void *user, const slot_row *row, int layer, int64_t rows, int64_t cols, quant_matrix *out,
                              qp_error *err) {
    const checkpoint *c = user;
    char name[CKPT_MAX_NAME];
    ERR_TRY(slot_tensor_name(name, sizeof name, row, layer, err));
    const ckpt_tensor *t = checkpoint_find(c, name);
    if (!t)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: the checkpoint has no such tensor; %lld x %lld elements are needed",
                       name, (long long)rows, (long long)cols);
    ERR_TRY(check_tensor(t, rows, cols, row->cols == DIM_NONE, err));
    checkpoint_will_need(c, t);
    *out = quant_plain(plain_type(t->type), rows, cols, t->data, t->bytes);
    return QP_OK;
}

weight_source bind_from_checkpoint(const checkpoint *c) {
    return (weight_source){.fetch = fetch_tensor, .user = (void *)(uintptr_t)c};
}
