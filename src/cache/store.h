/* store.h — the memory behind the pages: keys and values of all layers, each on its layer's device. */
#ifndef CACHE_STORE_H
#define CACHE_STORE_H

#include "dev/dev.h"
#include "pages.h"

/* Counts up with every change of what lies where in a page: files of another layout are refused. */
enum { STORE_LAYOUT = 2 };

/* What one token's entry looks like. */
typedef struct store_shape {
    int n_layers, n_kv_heads, head_dim;
    kv_type type;
    int v_dim;   /* elements of a value; 0: as many as a key */
    bool latent; /* a value is the first v_dim elements of its key and has no memory of its own */
} store_shape;

typedef struct kv_store {
    dev_split split;
    store_shape shape;
    int n_pages;
    /* Of each device's share of the layers: [layers][n_pages][keys | values][n_kv_heads][DEV_PAGE_TOKENS tokens, as
     * kv_view tells]. */
    void *memory[DEV_MOST_SHARES];
    size_t bytes;   /* of all of it */
    kv_view *views; /* [n_layers]: what forward.c is lent */
} kv_store;

/* Bytes of one page over all layers; false where the product overflows. */
bool store_page_bytes(const store_shape *shape, size_t *out);
/* Each layer's pages lie where the layer lies. A device grants the memory lazily where it can: pages never used cost no
 * memory. */
qp_status store_open(kv_store *out, const dev_split *split, const store_shape *shape, int n_pages, qp_error *err);
void store_close(kv_store *s);
/* Copies the first tokens of a page, as the page table asks for, and what shares their DEV_KEY_GROUP. */
void store_copy(const kv_store *s, page_copy copy);
/* A page as bytes: [n_layers][keys | values][n_kv_heads][DEV_PAGE_TOKENS tokens, as kv_view tells]. */
void store_save(const kv_store *s, int32_t page, void *to);
void store_load(kv_store *s, int32_t page, const void *from);
/* The same for pages_spill. The store must stay where it is. */
page_mover store_mover(kv_store *s);

#endif
