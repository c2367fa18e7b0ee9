/* memory.c — adds up what a model needs on a device with memory of its own, and says what fits.
 *
 * Called by model.c before weights are bound, by gen/ before a cache is made, and for `inspect`. A device that uses the
 * host's memory plans nothing: there the system grants pages one by one.
 *
 * The tricky thing is that drivers grant large pieces in whole blocks: a weight counts as the blocks it covers. */
#include "memory.h"
#include "forward.h"

enum { BLOCK_BYTES = 2 << 20, SMALL_BYTES = 1 << 20 }; /* smaller pieces share blocks */

static uint64_t granted(uint64_t bytes) {
    return bytes <= SMALL_BYTES ? bytes : (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* ---- adding up ---- */

typedef struct adder {
    memory_plan *plan;
    device *dev;
    const model_shape *shape;
    const weight_source *source;
} adder;

static qp_status add_weight(const adder *a, const slot_row *row, int layer, int member, qp_error *err) {
    const bool is_vector = row->cols == DIM_NONE;
    const int64_t rows = shape_dim(a->shape, row->rows), cols = is_vector ? 1 : shape_dim(a->shape, row->cols);
    quant_matrix m;
    if (is_vector) return a->plan->weights += (uint64_t)rows * sizeof(float), QP_OK;
    ERR_TRY(a->source->look(a->source->user, row, layer, member, rows, cols, &m, err));
    a->plan->weights += granted(a->dev->ops->weight_bytes(a->dev, &m, weights_use(row->slot, a->shape)));
    quant_close(&m);
    return QP_OK;
}

static qp_status add_row(const adder *a, const slot_row *row, qp_error *err) {
    const int members = slot_members(row->slot, a->shape),
              layers = slot_is_per_layer(row->slot) ? a->shape->n_layers : 1;
    for (int layer = 0; layer < layers; layer++)
        for (int i = 0; shape_needs(a->shape, row->need, layer) && i < members; i++)
            ERR_TRY(add_weight(a, row, layer, i, err));
    return QP_OK;
}

qp_status memory_plan_make(memory_plan *out, device *dev, const arch_row *arch, const model_shape *shape,
                           const weight_source *source, int max_rows, qp_error *err) {
    *out = (memory_plan){0};
    if (!dev->ops->room) return QP_OK;
    const adder a = {out, dev, shape, source};
    int width[BUF_COUNT];
    for (const slot_row *row = arch->slots; row->pattern; row++) ERR_TRY(add_row(&a, row, err));
    plan_widths(width, shape, dev);
    out->scratch = forward_bytes(shape, width, max_rows, dev->logit_rows) +
                   dev->ops->reserve_bytes(dev, max_rows, forward_widest(width));
    dev->ops->room(dev, &out->left, &out->all);
    return QP_OK;
}

/* ---- saying so ---- */

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

uint64_t memory_plan_cache(const memory_plan *p) {
    const uint64_t model = p->weights + p->scratch;
    return p->left > model ? p->left - model : 0;
}

qp_status memory_check(const memory_plan *p, const device *dev, qp_error *err) {
    if (!p->all || memory_plan_cache(p)) return QP_OK;
    return err_set(err, QP_NO_MEMORY, 0,
                   "the model does not fit on %s: weights %.1f MiB and scratch %.1f MiB, %.1f of %.1f MiB are left",
                   dev->name, mib(p->weights), mib(p->scratch), mib(p->left), mib(p->all));
}

qp_status memory_check_cache(const memory_plan *p, device *dev, uint64_t pages, size_t page_bytes, qp_error *err) {
    uint64_t left, all;
    if (!p->all || !page_bytes) return QP_OK;
    dev->ops->room(dev, &left, &all);
    const uint64_t fitting = left / page_bytes;
    if (pages <= fitting) return QP_OK;
    return err_set(
        err, QP_NO_MEMORY, 0,
        "a cache of %llu tokens takes %.1f MiB, %.1f of %.1f MiB are left on %s beside weights of %.1f MiB and "
        "scratch of %.1f MiB: %llu tokens would fit",
        (unsigned long long)pages * DEV_PAGE_TOKENS, mib(pages * page_bytes), mib(left), mib(all), dev->name,
        mib(p->weights), mib(p->scratch), (unsigned long long)fitting * DEV_PAGE_TOKENS);
}
