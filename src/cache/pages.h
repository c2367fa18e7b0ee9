/* pages.h — which page of the cache is free: page numbers only, no tensors. */
#ifndef CACHE_PAGES_H
#define CACHE_PAGES_H

#include "base/err.h"

typedef struct page_table {
    int32_t *free; /* stack of free page numbers, the next to go on top */
    int n_free, n_pages;
} page_table;

qp_status pages_open(page_table *out, int n_pages, qp_error *err);
void pages_close(page_table *t);
/* All or nothing: false if fewer than `count` are free. */
bool pages_take(page_table *t, int count, int32_t *pages);
void pages_give(page_table *t, int count, const int32_t *pages);

#endif
