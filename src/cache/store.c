/* store.c — the memory behind the pages.
 *
 * Called by gen/ when a generator or a sequence is opened, and when the page table wants a page copied, spilled or
 * restored. Lends one kv_view per layer to model/forward.c, so that model and cache need not know each other. Sizes are
 * computed by the function that also answers "will it fit?". What lies where in a page is known to store_open,
 * store_copy and the kernels alone. */
#include "store.h"
#include "base/mem.h"

/* Keys or values of one page in one layer. */
static bool half_page_bytes(const store_shape *shape, size_t *out) {
    const size_t each = shape->type == KV_F16 ? 2 : 4;
    return mem_mul((size_t)shape->n_kv_heads, (size_t)shape->head_dim, out) &&
           mem_mul(*out, each * DEV_PAGE_TOKENS, out);
}

bool store_page_bytes(const store_shape *shape, size_t *out) {
    return half_page_bytes(shape, out) && mem_mul(*out, 2, out) && mem_mul(*out, (size_t)shape->n_layers, out);
}

qp_status store_open(kv_store *out, device *dev, const store_shape *shape, int n_pages, qp_error *err) {
    *out = (kv_store){.dev = dev, .shape = *shape, .n_pages = n_pages};
    size_t half, page, bytes;
    if (!half_page_bytes(shape, &half) || !store_page_bytes(shape, &page) || !mem_mul(page, (size_t)n_pages, &bytes))
        return err_set(err, QP_TOO_LARGE, 0, "cache of %d pages: its size overflows", n_pages);
    out->views = mem_zarray((size_t)shape->n_layers, sizeof *out->views);
    if (!out->views) return err_no_memory(err, 0, "the cache's layers");
    const qp_status status = dev->ops->take(dev, &out->memory, bytes, err);
    if (status != QP_OK) return store_close(out), status;
    out->bytes = bytes;
    for (int i = 0; i < shape->n_layers; i++) {
        uint8_t *base = (uint8_t *)out->memory + (size_t)i * (size_t)n_pages * 2 * half;
        out->views[i] = (kv_view){shape->type, shape->n_kv_heads, shape->head_dim, base, base + half, 2 * half};
    }
    return QP_OK;
}

void store_close(kv_store *s) {
    if (s->memory) s->dev->ops->give(s->dev, s->memory, s->bytes);
    mem_free(s->views);
    *s = (kv_store){0};
}

/* ---- pages as a whole ---- */

/* Keys, then values, of one page in one layer. */
static uint8_t *page_at(const kv_store *s, int layer, int32_t page) {
    return s->views[layer].k + (size_t)page * s->views[layer].page_stride;
}

/* Keys are copied in whole groups; the values beside them may as well be. */
void store_copy(const kv_store *s, page_copy copy) {
    const size_t row = (size_t)s->shape.head_dim * (s->shape.type == KV_F16 ? 2 : 4);
    const size_t n_groups = (size_t)(copy.n_tokens + DEV_KEY_GROUP - 1) / DEV_KEY_GROUP;
    for (int i = 0; copy.n_tokens && i < s->shape.n_layers; i++) {
        const copy_args heads = {.to = page_at(s, i, copy.to),
                                 .from = page_at(s, i, copy.from),
                                 .bytes = n_groups * DEV_KEY_GROUP * row,
                                 .stride = DEV_PAGE_TOKENS * row,
                                 .n_blocks = 2 * s->shape.n_kv_heads};
        s->dev->ops->copy(s->dev, &heads);
    }
}

void store_save(const kv_store *s, int32_t page, void *to) {
    const size_t bytes = s->views[0].page_stride;
    for (int i = 0; i < s->shape.n_layers; i++)
        s->dev->ops->download(s->dev, (uint8_t *)to + (size_t)i * bytes, page_at(s, i, page), bytes);
}

void store_load(kv_store *s, int32_t page, const void *from) {
    const size_t bytes = s->views[0].page_stride;
    for (int i = 0; i < s->shape.n_layers; i++)
        s->dev->ops->upload(s->dev, page_at(s, i, page), (const uint8_t *)from + (size_t)i * bytes, bytes);
}

static void mover_save(void *store, int32_t page, void *to) { store_save(store, page, to); }
static void mover_load(void *store, int32_t page, const void *from) { store_load(store, page, from); }

page_mover store_mover(kv_store *s) {
    page_mover mover = {mover_save, mover_load, s, 0};
    store_page_bytes(&s->shape, &mover.page_bytes); /* fits: store_open has seen it */
    return mover;
}
