/* pages.c — which page of the cache is free.
 *
 * Called by gen/ when a sequence grows and when it ends. Knows page numbers, never tensors. Pages come back in any
 * order and go out in any order: nothing above depends on neighbours lying together. */
#include "pages.h"
#include "base/mem.h"
#include <assert.h>

qp_status pages_open(page_table *out, int n_pages, qp_error *err) {
    *out = (page_table){.free = mem_array((size_t)n_pages, sizeof(int32_t)), .n_pages = n_pages, .n_free = n_pages};
    if (!out->free) return err_no_memory(err, (size_t)n_pages * sizeof(int32_t), "the page table");
    for (int i = 0; i < n_pages; i++) out->free[i] = n_pages - 1 - i;
    return QP_OK;
}

void pages_close(page_table *t) {
    mem_free(t->free);
    *t = (page_table){0};
}

bool pages_take(page_table *t, int count, int32_t *pages) {
    if (count > t->n_free) return false;
    for (int i = 0; i < count; i++) pages[i] = t->free[--t->n_free];
    return true;
}

void pages_give(page_table *t, int count, const int32_t *pages) {
    assert(count <= t->n_pages - t->n_free);
    for (int i = count - 1; i >= 0; i--) t->free[t->n_free++] = pages[i];
}
