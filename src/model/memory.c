/* memory.c — adds up what a model needs on a device with memory of its own, and says what fits.
 *
 * Called by model.c before weights are bound, by gen/ before a cache is made, and for `inspect`. A device that uses the
 * host's memory plans nothing: there the system grants pages one by one.
 *
 * The tricky thing is that drivers grant large pieces in whole blocks: a weight counts as the blocks it covers. */
#include "memory.h"
#include "forward.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 2 << 20, SMALL_BYTES = 1 << 20 }; /* smaller pieces share blocks */
enum { RESERVE_PART = 8 };                             /* digests are worth that part of a cache, not more */

static uint64_t granted(uint64_t bytes) {
    return bytes <= SMALL_BYTES ? bytes : (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* ---- adding up ---- */

typedef struct adder {
    uint64_t *bytes; /* [n_layers + 2]: each layer; what is before them; what is behind them */
    device *dev;
    const model_shape *shape;
    const weight_source *source;
    memory_unpacked *unpacked; /* NULL: nobody asks */
} adder;

/* Where a weight counts: as weights_share has it. */
static uint64_t *place_of(const adder *a, slot s, int layer) {
    const dev_split ends = {.n = 2};
    if (slot_is_per_layer(s)) return &a->bytes[layer];
    return &a->bytes[a->shape->n_layers + weights_share(&ends, s, 0, a->shape->tied)];
}

/* One that lies as another format than its own. */
static void add_unpacked(const adder *a, const quant_matrix *m, quant_id as, uint64_t bytes) {
    if (!a->unpacked || as == m->type->id) return;
    memory_unpacked *of = &a->unpacked[m->type->id];
    of->as = as;
    of->file_bytes += quant_bytes(m);
    of->bytes += bytes;
}

static qp_status add_weight(const adder *a, const slot_row *row, int layer, int member, qp_error *err) {
    const bool is_vector = row->cols == DIM_NONE;
    const int64_t rows = shape_dim(a->shape, row->rows), cols = is_vector ? 1 : shape_dim(a->shape, row->cols);
    uint64_t *place = place_of(a, row->slot, layer);
    quant_matrix m;
    quant_id as;
    if (is_vector) return *place += (uint64_t)rows * sizeof(float), QP_OK;
    ERR_TRY(a->source->look(a->source->user, row, layer, member, rows, cols, &m, err));
    const uint64_t bytes = granted(a->dev->ops->weight_bytes(a->dev, &m, weights_use(row->slot, a->shape), &as));
    *place += bytes;
    add_unpacked(a, &m, as, bytes);
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

static qp_status add_all(const adder *a, const arch_row *arch, qp_error *err) {
    memset(a->bytes, 0, ((size_t)a->shape->n_layers + 2) * sizeof *a->bytes);
    for (const slot_row *row = arch->slots; row->pattern; row++) ERR_TRY(add_row(a, row, err));
    return QP_OK;
}

/* ---- a plan for each device ---- */

static void plan_scratch(memory_plan *out, const dev_split *split, int i, const model_shape *shape) {
    device *dev = split->dev[i];
    const int max_rows = split->dev[0]->most_rows;
    int width[BUF_COUNT];
    plan_widths(width, shape, dev);
    out->scratch = forward_bytes(shape, width, max_rows, i + 1 == split->n ? dev->logit_rows : 0) +
                   dev->ops->reserve_bytes(dev, max_rows, forward_widest(width));
    dev->ops->room(dev, &out->left, &out->all);
    out->unlimited = out->left;
    if (out->limit && out->limit < out->left) out->left = out->limit;
}

/* What the model itself leaves. */
static uint64_t left_over(const memory_plan *p) {
    const uint64_t model = p->weights + p->scratch;
    return p->left > model ? p->left - model : 0;
}

static void plan_reserve(memory_plan *out, const device *dev, const model_shape *shape) {
    if (!dev->ops->digest) return;
    const uint64_t wanted = step_digest_bytes(dev->logit_rows, shape->vocabulary), most = left_over(out) / RESERVE_PART;
    out->reserve = wanted < most ? wanted : most;
}

/* All devices are taken to keep weights as the first does; what does not fit then is found when each is asked. */
static qp_status cut_layers(dev_split *split, const memory_plan *plans, const split_wish *wish, const uint64_t *bytes,
                            const model_shape *shape, qp_error *err) {
    const int n = shape->n_layers;
    split_sizes sizes = {.layers = bytes, .n_layers = n, .before = bytes[n], .behind = bytes[n + 1]};
    if (split->n == 1 && !wish->counts_layers) return *split = dev_whole(split->dev[0], n), QP_OK;
    if (split->n > n) return err_set(err, QP_BAD_ARGUMENT, 0, "split: %d GPUs, the model has %d layers", split->n, n);
    if (wish->counts_layers) return split_count(split->first, wish, n, err);
    for (int i = 0; i < split->n; i++)
        sizes.room[i] = plans[i].left > plans[i].scratch ? plans[i].left - plans[i].scratch : 0;
    split_balance(split->first, split->n, &sizes); /* memory_check says what does not fit */
    return QP_OK;
}

static uint64_t sum_of_share(const uint64_t *bytes, const dev_split *split, int i, int n_layers) {
    uint64_t sum = (i == 0 ? bytes[n_layers] : 0) + (i + 1 == split->n ? bytes[n_layers + 1] : 0);
    for (int layer = split->first[i]; layer < split->first[i + 1]; layer++) sum += bytes[layer];
    return sum;
}

static qp_status plan_all(memory_plan *out, dev_split *split, const split_wish *wish, const arch_row *arch, adder *a,
                          qp_error *err) {
    const model_shape *shape = a->shape;
    for (int i = 0; i < split->n; i++) {
        out[i] = (memory_plan){.limit = wish->counts_layers ? 0 : wish->bytes[i]};
        plan_scratch(&out[i], split, i, shape);
    }
    ERR_TRY(add_all(a, arch, err));
    a->unpacked = NULL;
    ERR_TRY(cut_layers(split, out, wish, a->bytes, shape, err));
    for (int i = 0; i < split->n; i++) {
        a->dev = split->dev[i];
        if (i) ERR_TRY(add_all(a, arch, err));
        out[i].weights = sum_of_share(a->bytes, split, i, shape->n_layers);
    }
    plan_reserve(&out[split->n - 1], split->dev[split->n - 1], shape);
    return QP_OK;
}

qp_status memory_plan_make(memory_plan *out, memory_unpacked *unpacked, dev_split *split, const split_wish *wish,
                           const arch_row *arch, const model_shape *shape, const weight_source *source, qp_error *err) {
    device *first = split->dev[0];
    out[0] = (memory_plan){0};
    if (!first->ops->room) return *split = dev_whole(first, shape->n_layers), QP_OK;
    adder a = {NULL, first, shape, source, unpacked};
    memset(unpacked, 0, QUANT_COUNT * sizeof *unpacked);
    a.bytes = mem_array((size_t)shape->n_layers + 2, sizeof *a.bytes);
    if (!a.bytes) return err_no_memory(err, 0, "the sizes of layers");
    const qp_status status = plan_all(out, split, wish, arch, &a, err);
    mem_free(a.bytes);
    return status;
}

/* ---- saying so ---- */

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

uint64_t memory_plan_cache(const memory_plan *p) { return left_over(p) - p->reserve; }

uint64_t memory_plan_pages(const memory_plan *plans, const dev_split *split, size_t page_bytes) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < split->n; i++) {
        const uint64_t share = dev_split_bytes(split, i, page_bytes);
        const uint64_t pages = share ? memory_plan_cache(&plans[i]) / share : UINT64_MAX;
        if (pages < least) least = pages;
    }
    return least;
}

/* "; cuda:1: 16 layers, weights ..." of all other devices, as far as there is room. */
static void tell_others(char *out, size_t capacity, const memory_plan *plans, const dev_split *split, int except) {
    size_t used = 0;
    *out = '\0';
    for (int i = 0; i < split->n && used < capacity; i++)
        if (i != except)
            used += (size_t)snprintf(out + used, capacity - used, "; %s: %d layers, weights %.1f MiB, %.1f left",
                                     split->dev[i]->name, split->first[i + 1] - split->first[i], mib(plans[i].weights),
                                     mib(plans[i].left));
}

qp_status memory_check(const memory_plan *plans, const dev_split *split, qp_error *err) {
    for (int i = 0; i < split->n; i++) {
        const memory_plan *p = &plans[i];
        char layers[48] = "", others[256];
        if (!p->all || left_over(p)) continue;
        if (split->n > 1) snprintf(layers, sizeof layers, "%d layers, ", split->first[i + 1] - split->first[i]);
        tell_others(others, sizeof others, plans, split, i);
        return err_set(err, QP_NO_MEMORY, 0,
                       "the model does not fit on %s: %sweights %.1f MiB and scratch %.1f MiB, %.1f of %.1f MiB are "
                       "left%s",
                       split->dev[i]->name, layers, mib(p->weights), mib(p->scratch), mib(p->left), mib(p->all),
                       others);
    }
    return QP_OK;
}

/* What is left now of a device, within its limit. */
static uint64_t left_now(const memory_plan *p, device *dev, uint64_t *all) {
    uint64_t left;
    dev->ops->room(dev, &left, all);
    const uint64_t used = p->unlimited > left ? p->unlimited - left : 0;
    const uint64_t allowed = p->limit > used ? p->limit - used : 0;
    return p->limit && allowed < left ? allowed : left;
}

qp_status memory_check_cache(const memory_plan *plans, const dev_split *split, uint64_t pages, size_t page_bytes,
                             qp_error *err) {
    int tightest = 0;
    uint64_t fitting = UINT64_MAX, left = 0, all = 0;
    for (int i = 0; i < split->n && plans[0].all; i++) {
        const uint64_t share = dev_split_bytes(split, i, page_bytes), here = left_now(&plans[i], split->dev[i], &all);
        if (!share || here / share >= fitting) continue;
        fitting = here / share;
        tightest = i;
    }
    if (pages <= fitting) return QP_OK;
    const memory_plan *p = &plans[tightest];
    left = left_now(p, split->dev[tightest], &all);
    return err_set(
        err, QP_NO_MEMORY, 0,
        "a cache of %llu tokens takes %.1f MiB, %.1f of %.1f MiB are left on %s beside weights of %.1f MiB and "
        "scratch of %.1f MiB: %llu tokens would fit",
        (unsigned long long)pages * DEV_PAGE_TOKENS, mib(pages * dev_split_bytes(split, tightest, page_bytes)),
        mib(left), mib(all), split->dev[tightest]->name, mib(p->weights), mib(p->scratch),
        (unsigned long long)fitting * DEV_PAGE_TOKENS);
}
