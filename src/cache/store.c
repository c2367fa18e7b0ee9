/* store.c — the memory behind the pages.
 *
 * Called by gen/ when a generator or a sequence is opened. Lends one kv_view per layer to model/forward.c, so that
 * model and cache need not know each other. Sizes are computed by the function that also answers "will it fit?". */
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
