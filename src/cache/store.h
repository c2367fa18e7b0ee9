/* store.h — the memory behind the pages: keys and values of all layers on one device. */
#ifndef CACHE_STORE_H
#define CACHE_STORE_H

#include "dev/dev.h"

/* What one token's entry looks like. */
typedef struct store_shape {
    int n_layers, n_kv_heads, head_dim;
    kv_type type;
} store_shape;

typedef struct kv_store {
    device *dev;
    store_shape shape;
    int n_pages;
    void *memory; /* [n_layers][n_pages][keys | values][n_kv_heads][DEV_PAGE_TOKENS][head_dim] */
    size_t bytes;
    kv_view *views; /* [n_layers]: what forward.c is lent */
} kv_store;

/* Bytes of one page over all layers; false where the product overflows. */
bool store_page_bytes(const store_shape *shape, size_t *out);
/* The device grants the memory lazily where it can: pages never used cost no memory. */
qp_status store_open(kv_store *out, device *dev, const store_shape *shape, int n_pages, qp_error *err);
void store_close(kv_store *s);

#endif
