/* cuda_window.c — matrices on their way out of the files into the GPU's memory.
 *
 * Called by cuda_weights.c and cuda_packed.c. All threads of the pool read, unpack or pack a slice of a matrix into
 * pinned memory while the slice before it travels, so that loading is as fast as the slower of disk and bus, and of the
 * model there is never a second copy on the host.
 *
 * The tricky thing is when a slice's memory may be written again: on the host when its copy has ended, as an event
 * tells; on the GPU always, as copies and the kernel that makes tiles of rows follow each other in one stream. */
#include "cuda_window.h"
#include <string.h>

enum { SLICE_BYTES = 16 << 20, STEP_BYTES = 1 << 20, THREADS = 256 };

/* ---- memory ---- */

/* The lock is held. */
static void close_window(cuda_device *c) {
    cuda_window *w = &c->window;
    if (c->stream) cuda_noted(c, c->drv.stream_wait(c->stream), "cuda: waiting for the GPU");
    for (int i = 0; i < 2; i++) {
        if (w->host[i]) c->drv.host_give(w->host[i]);
        if (w->gone[i]) c->drv.event_destroy(w->gone[i]);
        cuda_give(c, w->rows[i]);
        w->host[i] = NULL;
        w->gone[i] = NULL;
        w->rows[i] = NULL;
        w->is_travelling[i] = false;
    }
    w->bytes = w->rows_bytes = 0;
}

void window_close(cuda_device *c) {
    pthread_mutex_lock(&c->window.lock);
    cuda_lock(c);
    close_window(c);
    cuda_unlock(c);
    pthread_mutex_unlock(&c->window.lock);
}

static qp_status open_window(cuda_device *c, size_t bytes, qp_error *err) {
    cuda_window *w = &c->window;
    close_window(c);
    for (int i = 0; i < 2; i++) {
        void *host = NULL;
        drv_result result = c->drv.host_take(&host, bytes, 0);
        if (result) return drv_failed(&c->drv, result, "cuda: pinned memory", err);
        w->host[i] = host;
        result = c->drv.event_create(&w->gone[i], DRV_EVENT_PLAIN);
        if (result) return drv_failed(&c->drv, result, "cuda: an event", err);
    }
    w->bytes = bytes;
    return QP_OK;
}

static qp_status make_room(cuda_device *c, size_t bytes, bool has_rows, qp_error *err) {
    cuda_window *w = &c->window;
    bytes = (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
    if (w->bytes < bytes) {
        const qp_status status = open_window(c, bytes, err);
        if (status != QP_OK) return close_window(c), status;
    }
    for (int i = 0; has_rows && w->rows_bytes < w->bytes && i < 2; i++) {
        cuda_give(c, w->rows[i]);
        ERR_TRY(cuda_take(c, &w->rows[i], w->bytes, err));
    }
    if (has_rows) w->rows_bytes = w->bytes;
    return QP_OK;
}

/* ---- a slice ---- */

typedef struct slice {
    const window_load *load;
    uint8_t *to;
    int64_t first;
} slice;

static void make_item(void *context, int64_t task, int worker) {
    const slice *s = context;
    s->load->make(s->load->context, s->to + (size_t)task * s->load->item_bytes, s->first + task, worker);
}

/* Waits until what was in this half has left it. */
static qp_status wait_half(cuda_device *c, int half, qp_error *err) {
    cuda_window *w = &c->window;
    if (!w->is_travelling[half]) return QP_OK;
    cuda_lock(c);
    const drv_result result = c->drv.event_wait(w->gone[half]);
    w->is_travelling[half] = false;
    cuda_unlock(c);
    return result ? drv_failed(&c->drv, result, "cuda: copying a matrix to the GPU", err) : QP_OK;
}

/* Items [first, first + n), which are rows in w->rows[half], as tiles. */
static void push_tiles(cuda_device *c, const window_load *l, int half, int64_t first, int64_t n) {
    const int64_t wide = (l->tile_in + K_TILE_DEPTH - 1) / K_TILE_DEPTH * K_TILE_DEPTH;
    const k_tile_args a = {
        .rows = c->window.rows[half], .tiles = l->to + (size_t)(first * wide) * 2, .n_out = n, .n_in = l->tile_in};
    const int64_t elements = (n + K_TILE_ROWS - 1) / K_TILE_ROWS * K_TILE_ROWS * wide;
    launch_push(c, KERNEL_k_tile, (launch_shape){.x = (elements + 1023) / 1024, .threads = THREADS}, &a, sizeof a);
    launch_flush(c);
}

static qp_status send_half(cuda_device *c, const window_load *l, int half, int64_t first, int64_t n, qp_error *err) {
    cuda_window *w = &c->window;
    void *to = l->tile_in ? w->rows[half] : l->to + (size_t)first * l->item_bytes;
    const size_t bytes = (size_t)n * l->item_bytes;
    cuda_lock(c);
    launch_flush(c);
    drv_result result = c->drv.copy_up((drv_ptr)(uintptr_t)to, w->host[half], bytes, c->stream);
    if (!result && l->tile_in) push_tiles(c, l, half, first, n);
    if (!result) result = c->drv.event_record(w->gone[half], c->stream);
    w->is_travelling[half] = true;
    cuda_unlock(c);
    return result ? drv_failed(&c->drv, result, "cuda: copying a matrix to the GPU", err) : QP_OK;
}

/* ---- all of them ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static qp_status send_all(cuda_device *c, const window_load *l, int64_t each, qp_error *err) {
    cuda_window *w = &c->window;
    for (slice s = {.load = l}; s.first < l->n_items; s.first += each) {
        const int64_t n = least(each, l->n_items - s.first);
        ERR_TRY(wait_half(c, w->filling, err));
        s.to = w->host[w->filling];
        pool_run(c->pool, make_item, &s, n);
        ERR_TRY(send_half(c, l, w->filling, s.first, n, err));
        w->filling = 1 - w->filling;
    }
    return QP_OK;
}

qp_status window_send(cuda_device *c, const window_load *l, qp_error *err) {
    const int64_t step = l->tile_in ? K_TILE_ROWS : 1, fitting = (int64_t)(SLICE_BYTES / l->item_bytes) / step * step;
    const int64_t each = least(fitting < step ? step : fitting, l->n_items);
    pthread_mutex_lock(&c->window.lock);
    cuda_lock(c);
    qp_status status = make_room(c, (size_t)each * l->item_bytes, l->tile_in != 0, err);
    cuda_unlock(c);
    if (status == QP_OK) status = send_all(c, l, each, err);
    pthread_mutex_unlock(&c->window.lock);
    return status;
}
