/* store.c — the memory behind the pages.
 *
 * Called by gen/ when a generator or a sequence is opened, and when the page table wants a page copied, spilled or
 * restored. Lends one kv_view per layer to model/forward.c, so that model and cache need not know each other. Sizes are
 * computed by the function that also answers "will it fit?". What lies where in a page is known to store_open,
 * store_copy and the kernels alone. */
#include "store.h"
#include "base/mem.h"
#include "dev/kv_quant.h"

static int value_dim(const store_shape *shape) { return shape->v_dim ? shape->v_dim : shape->head_dim; }

/* What has `dim` elements a token and KV head: one page in one layer. */
static bool part_bytes(const store_shape *shape, kv_type type, int dim, size_t *out) {
    const size_t group = dev_kv_group_bytes(type, dim), groups = DEV_PAGE_TOKENS / DEV_KEY_GROUP;
    return mem_mul((size_t)shape->n_kv_heads, groups, out) && mem_mul(*out, group, out);
}

/* Keys, and keys and values, of one page in one layer. */
static bool layer_bytes(const store_shape *shape, size_t *keys, size_t *both) {
    size_t values = 0;
    if (!part_bytes(shape, dev_key_type(shape->type), shape->head_dim, keys)) return false;
    if (!shape->latent && !part_bytes(shape, shape->type, value_dim(shape), &values)) return false;
    return mem_add(*keys, values, both);
}

bool store_page_bytes(const store_shape *shape, size_t *out) {
    size_t keys;
    return layer_bytes(shape, &keys, out) && mem_mul(*out, (size_t)shape->n_layers, out);
}

static device *device_of(const kv_store *s, int layer) { return s->split.dev[dev_share_of(&s->split, layer)]; }

static size_t share_bytes(const kv_store *s, int i) { return (size_t)dev_split_bytes(&s->split, i, s->bytes); }

static void lend_views(kv_store *s, size_t keys, size_t both) {
    for (int i = 0; i < s->shape.n_layers; i++) {
        const int share = dev_share_of(&s->split, i);
        uint8_t *base = (uint8_t *)s->memory[share] + (size_t)(i - s->split.first[share]) * (size_t)s->n_pages * both;
        s->views[i] = (kv_view){.type = s->shape.type,
                                .n_kv_heads = s->shape.n_kv_heads,
                                .head_dim = s->shape.head_dim,
                                .v_dim = value_dim(&s->shape),
                                .k = base,
                                .v = s->shape.latent ? NULL : base + keys,
                                .page_stride = both};
    }
}

qp_status store_open(kv_store *out, const dev_split *split, const store_shape *shape, int n_pages, qp_error *err) {
    *out = (kv_store){.split = *split, .shape = *shape, .n_pages = n_pages};
    const device *first = split->dev[0];
    size_t keys, both, page, bytes;
    if (!(first->kv_types >> shape->type & 1))
        return err_set(err, QP_UNSUPPORTED, 0, "cache type: the device '%s' cannot keep %s", first->name,
                       kv_type_name(shape->type));
    if (!layer_bytes(shape, &keys, &both) || !store_page_bytes(shape, &page) || !mem_mul(page, (size_t)n_pages, &bytes))
        return err_set(err, QP_TOO_LARGE, 0, "cache of %d pages: its size overflows", n_pages);
    out->bytes = bytes;
    out->views = mem_zarray((size_t)shape->n_layers, sizeof *out->views);
    if (!out->views) return err_no_memory(err, 0, "the cache's layers");
    for (int i = 0; i < split->n; i++) {
        const size_t share = share_bytes(out, i);
        const qp_status status = share ? split->dev[i]->ops->take(split->dev[i], &out->memory[i], share, err) : QP_OK;
        if (status != QP_OK) return store_close(out), status;
    }
    lend_views(out, keys, both);
    return QP_OK;
}

void store_close(kv_store *s) {
    for (int i = 0; i < s->split.n; i++)
        if (s->memory[i]) s->split.dev[i]->ops->give(s->split.dev[i], s->memory[i], share_bytes(s, i));
    mem_free(s->views);
    *s = (kv_store){0};
}

/* ---- pages as a whole ---- */

/* Keys, then values, of one page in one layer. */
static uint8_t *page_at(const kv_store *s, int layer, int32_t page) {
    return s->views[layer].k + (size_t)page * s->views[layer].page_stride;
}

/* The first groups, of so many bytes, of what is at `offset` of the page. */
static void copy_part(const kv_store *s, int layer, page_copy copy, size_t offset, size_t group) {
    const size_t n_groups = (size_t)(copy.n_tokens + DEV_KEY_GROUP - 1) / DEV_KEY_GROUP;
    const copy_args heads = {.to = page_at(s, layer, copy.to) + offset,
                             .from = page_at(s, layer, copy.from) + offset,
                             .bytes = n_groups * group,
                             .stride = DEV_PAGE_TOKENS / DEV_KEY_GROUP * group,
                             .n_blocks = s->shape.n_kv_heads};
    device *d = device_of(s, layer);
    d->ops->copy(d, &heads);
}

/* Keys are copied in whole groups; the values beside them may as well be. */
void store_copy(const kv_store *s, page_copy copy) {
    size_t keys, both;
    layer_bytes(&s->shape, &keys, &both); /* fits: store_open has seen it */
    const size_t key_group = dev_kv_group_bytes(dev_key_type(s->shape.type), s->shape.head_dim);
    const size_t value_group = dev_kv_group_bytes(s->shape.type, value_dim(&s->shape));
    for (int i = 0; copy.n_tokens && i < s->shape.n_layers; i++) {
        copy_part(s, i, copy, 0, key_group);
        if (!s->shape.latent) copy_part(s, i, copy, keys, value_group);
    }
}

void store_save(const kv_store *s, int32_t page, void *to) {
    const size_t bytes = s->views[0].page_stride;
    for (int i = 0; i < s->shape.n_layers; i++) {
        device *d = device_of(s, i);
        d->ops->download(d, (uint8_t *)to + (size_t)i * bytes, page_at(s, i, page), bytes);
    }
}

void store_load(kv_store *s, int32_t page, const void *from) {
    const size_t bytes = s->views[0].page_stride;
    for (int i = 0; i < s->shape.n_layers; i++) {
        device *d = device_of(s, i);
        d->ops->upload(d, page_at(s, i, page), (const uint8_t *)from + (size_t)i * bytes, bytes);
    }
}

static void mover_save(void *store, int32_t page, void *to) { store_save(store, page, to); }
static void mover_load(void *store, int32_t page, const void *from) { store_load(store, page, from); }

page_mover store_mover(kv_store *s) {
    page_mover mover = {mover_save, mover_load, s, 0};
    store_page_bytes(&s->shape, &mover.page_bytes); /* fits: store_open has seen it */
    return mover;
}
