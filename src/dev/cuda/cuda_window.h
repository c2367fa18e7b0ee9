/* cuda_window.h — the pinned memory through which matrices travel to the GPU.
 *
 * Used by cuda_weights.c and cuda_packed.c while a model or an adapter is opened. */
#ifndef DEV_CUDA_CUDA_WINDOW_H
#define DEV_CUDA_CUDA_WINDOW_H

#include "cuda.h"

/* What travels: items (rows, or packed tiles) that threads make one by one. */
typedef struct window_load {
    void (*make)(void *context, uint8_t *to, int64_t item, int worker);
    void *context;
    int64_t n_items;
    size_t item_bytes;
    uint8_t *to;     /* device memory */
    int64_t tile_in; /* items are rows of so many 16-bit inputs that become tiles (kargs.h) there; 0: they stay */
} window_load;

qp_status window_send(cuda_device *c, const window_load *load, qp_error *err);
/* Gives the memory back; the next load takes it again. */
void window_close(cuda_device *c);

#endif
