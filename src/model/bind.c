/* bind.c — asks for each weight that the architecture's row names and gives it to the device.
 *
 * Called once by model.c. Matrices stay where the source has them if the device can read them there; vectors (norms,
 * biases) are small and become float32 device memory. */
#include "bind.h"
#include "base/hash.h"
#include "base/mem.h"
#include <string.h>

static bound_slot *slot_at(const weights *w, slot s, int layer) {
    const int row = slot_is_per_layer(s) ? layer : w->n_layers;
    return &w->slots[(size_t)row * SLOT_COUNT + (size_t)s];
}

const dev_weight *weights_matrix(const weights *w, slot s, int layer) {
    const bound *b = &slot_at(w, s, layer)->one;
    return b->matrix.type ? &b->matrix : NULL;
}

uint64_t weights_sample(const weights *w, slot s, int layer) { return slot_at(w, s, layer)->one.sample; }

const float *weights_vector(const weights *w, slot s, int layer) { return slot_at(w, s, layer)->one.vector; }

const dev_weight *weights_matrices(const weights *w, slot s, int layer) { return slot_at(w, s, layer)->matrices; }

const float *const *weights_vectors(const weights *w, slot s, int layer) {
    return (const float *const *)slot_at(w, s, layer)->vectors;
}

int weights_share(const dev_split *split, slot s, int layer, bool tied) {
    const bool is_before = (s == SLOT_EMBED || s == SLOT_POSITIONS) && !tied;
    if (slot_is_per_layer(s)) return dev_share_of(split, layer);
    return is_before ? 0 : split->n - 1;
}

static device *device_of(const weights *w, slot s, int layer) {
    return w->split.dev[weights_share(&w->split, s, layer, w->tied)];
}

static void give_back(const weight_source *source, const quant_matrix *m) {
    if (source->release) source->release(source->user, m);
}

/* Unpacks [n, 1] into float32 device memory. */
static qp_status bind_vector(device *dev, float **out, const quant_matrix *m, float plus, qp_error *err) {
    const size_t bytes = (size_t)m->n_out * sizeof(float);
    float *host = mem_array((size_t)m->n_out, sizeof(float));
    if (!host) return err_no_memory(err, bytes, "a vector of weights");
    for (int64_t i = 0; i < m->n_out; i++) {
        m->type->unpack_row(host + i, m, i);
        host[i] += plus;
    }
    void *memory = NULL;
    const qp_status status = dev->ops->take(dev, &memory, bytes, err);
    if (status == QP_OK) dev->ops->upload(dev, memory, host, bytes);
    *out = memory;
    mem_free(host);
    return status;
}

/* What a model of this shape reads of this slot for one token: all, or the experts that are chosen. */
static void count(weights *w, const slot_row *row, const model_shape *shape, const quant_matrix *m) {
    const uint64_t bytes = quant_bytes(m);
    w->bytes += bytes;
    w->n_parameters += (uint64_t)m->n_out * (uint64_t)m->n_in;
    if (row->slot == SLOT_EMBED) w->embed_bytes = bytes;
    if (slot_count(row->slot) == SLOT_PER_EXPERT)
        w->idle_bytes +=
            bytes * (uint64_t)(shape->route.n_experts - shape->route.top_k) / (uint64_t)shape->route.n_experts;
}

/* An embedding table is only looked up in, unless it is the head too. */
dev_use weights_use(slot s, const model_shape *shape) {
    if (s == SLOT_POSITIONS) return DEV_USE_LOOKUP;
    if (s == SLOT_EMBED) return shape->tied ? DEV_USE_TABLE : DEV_USE_LOOKUP;
    if (s == SLOT_ROUTER) return DEV_USE_EXACT;
    return slot_count(s) == SLOT_PER_EXPERT ? DEV_USE_EXPERT : DEV_USE_PRODUCT;
}

/* Tells a matrix from all others of the model. */
static uint64_t key_of(const slot_row *row, int layer, int member) {
    const int64_t numbers[] = {row->slot, row->part, layer, member};
    const uint64_t key = hash_bytes(numbers, sizeof numbers, hash_bytes(row->pattern, strlen(row->pattern), 0));
    return key ? key : 1;
}

static qp_status bind_matrix(device *dev, dev_weight *out, const quant_matrix *m, dev_use use, uint64_t key,
                             const weight_source *source, qp_error *err) {
    ERR_TRY(dev->ops->weight_open(dev, out, m, err));
    out->use = use;
    out->key = key;
    ERR_TRY(dev->ops->weight_pack(dev, out, err));
    if (out->packed || out->data != m->parts[0]) give_back(source, m);
    return QP_OK;
}

/* Of what the file says, so read before that is given back: a byte that is touched later brings the large page around
 * it, of all matrices together hundreds of MiB. */
static uint64_t sample_of(const quant_matrix *m) {
    enum { SAMPLE_BYTES = 64 };
    const size_t bytes = m->part_bytes[0];
    return hash_bytes(m->parts[0], bytes < SAMPLE_BYTES ? bytes : SAMPLE_BYTES, (uint64_t)m->type->id);
}

static qp_status bind_one(weights *w, const slot_row *row, const model_shape *shape, int layer, int member,
                          const weight_source *source, qp_error *err) {
    const bool is_vector = row->cols == DIM_NONE;
    const int64_t rows = shape_dim(shape, row->rows), cols = is_vector ? 1 : shape_dim(shape, row->cols);
    quant_matrix m;
    ERR_TRY(source->fetch(source->user, row, layer, member, rows, cols, &m, err));
    bound_slot *b = slot_at(w, row->slot, layer);
    const bool is_many = b->n_members > 0;
    device *dev = device_of(w, row->slot, layer);
    b->one.n = b->vector_n = rows;
    if (is_vector) {
        ERR_TRY(bind_vector(dev, is_many ? &b->vectors[member] : &b->one.vector, &m, row->flags & SLOT_PLUS_ONE ? 1 : 0,
                            err));
        give_back(source, &m);
    } else {
        dev_weight *matrix = is_many ? &b->matrices[member] : &b->one.matrix;
        if (!is_many) b->one.sample = sample_of(&m);
        ERR_TRY(bind_matrix(dev, matrix, &m, weights_use(row->slot, shape), key_of(row, layer, member), source, err));
        if (matrix->packed) w->packed_bytes += quant_bytes(&m);
    }
    count(w, row, shape, &m);
    return QP_OK;
}

static qp_status bind_slot(weights *w, const slot_row *row, const model_shape *shape, int layer,
                           const weight_source *source, qp_error *err) {
    const slot_many many = slot_count(row->slot);
    const int members = slot_members(row->slot, shape);
    bound_slot *b = slot_at(w, row->slot, layer);
    if (many == SLOT_PER_EXPERT || many == SLOT_PER_HEAD) {
        b->n_members = members;
        if (row->cols == DIM_NONE)
            b->vectors = mem_zarray((size_t)members, sizeof *b->vectors);
        else
            b->matrices = mem_zarray((size_t)members, sizeof *b->matrices);
        if (!b->vectors && !b->matrices) return err_no_memory(err, 0, "the list of weights");
    }
    for (int i = 0; i < members; i++) ERR_TRY(bind_one(w, row, shape, layer, i, source, err));
    return QP_OK;
}

/* All slots of one layer, or with layer == n_layers those that are not per layer. */
static qp_status bind_layer(weights *w, const arch_row *arch, const model_shape *shape, int layer,
                            const weight_source *source, qp_error *err) {
    for (const slot_row *row = arch->slots; row->pattern; row++)
        if (shape_needs(shape, row->need, layer) && slot_is_per_layer(row->slot) == (layer < w->n_layers))
            ERR_TRY(bind_slot(w, row, shape, layer, source, err));
    if (source->progress) source->progress(source->progress_user, layer + 1, w->n_layers + 1);
    return QP_OK;
}

qp_status weights_bind(weights *out, const dev_split *split, const arch_row *arch, const model_shape *shape,
                       const weight_source *source, qp_error *err) {
    *out = (weights){.split = *split, .n_layers = shape->n_layers, .tied = shape->tied};
    out->slots = mem_zarray((size_t)shape->n_layers + 1, SLOT_COUNT * sizeof *out->slots);
    if (!out->slots) return err_no_memory(err, 0, "the list of weights");
    for (int i = 0; i <= shape->n_layers; i++) {
        const qp_status status = bind_layer(out, arch, shape, i, source, err);
        if (status != QP_OK) return weights_close(out), status;
    }
    for (int i = 0; i < split->n; i++)
        if (split->dev[i]->ops->weights_end) split->dev[i]->ops->weights_end(split->dev[i]);
    return QP_OK;
}

static void close_slot(device *dev, bound_slot *b) {
    const size_t bytes = (size_t)b->vector_n * sizeof(float);
    if (b->one.matrix.type) dev->ops->weight_close(dev, &b->one.matrix);
    if (b->one.vector) dev->ops->give(dev, b->one.vector, bytes);
    for (int i = 0; i < b->n_members; i++) {
        if (b->matrices && b->matrices[i].type) dev->ops->weight_close(dev, &b->matrices[i]);
        if (b->vectors && b->vectors[i]) dev->ops->give(dev, b->vectors[i], bytes);
    }
    mem_free(b->matrices);
    mem_free(b->vectors);
}

void weights_close(weights *w) {
    for (int layer = 0; w->slots && layer <= w->n_layers; layer++)
        for (slot s = 0; s < SLOT_COUNT; s++)
            close_slot(device_of(w, s, layer), &w->slots[(size_t)layer * SLOT_COUNT + (size_t)s]);
    mem_free(w->slots);
    *w = (weights){0};
}
