/* cuda_weights.c — matrices on their way into the GPU's memory, and how they lie there.
 *
 * Called through the device's ops while a model or an adapter is opened. Plain formats travel as they are; others are
 * unpacked by all threads in slices, to float32 where the device is exact and to 16 bits elsewhere, so that no second
 * copy of a matrix is ever made on the host. weight_pack then turns 16-bit rows into tiles for the tensor cores. */
#include "cuda_packed.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { SLICE_BYTES = 16 << 20 };

static size_t element_bytes(quant_id type) { return type == QUANT_F32 ? 4 : 2; }

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

qp_status cuda_send(cuda_device *c, void *to, const void *from, size_t bytes, qp_error *err) {
    cuda_lock(c);
    const drv_result result = c->drv.copy_up((drv_ptr)(uintptr_t)to, from, bytes, c->stream);
    cuda_unlock(c);
    return result ? drv_failed(&c->drv, result, "cuda: copying a matrix to the GPU", err) : QP_OK;
}

/* ---- formats that are unpacked ---- */

typedef struct unpacking {
    const quant_matrix *m;
    quant_id to;
    int64_t first, n_rows; /* of the slice */
    uint8_t *out;          /* [n_rows][n_in] of `to` */
    float *rows;           /* [threads][n_in] */
    bool *overflows;       /* [threads] */
} unpacking;

static void unpack_row(void *context, int64_t task, int worker) {
    const unpacking *u = context;
    const int64_t n = u->m->n_in;
    uint8_t *out = u->out + (size_t)task * (size_t)n * element_bytes(u->to);
    float *row = u->to == QUANT_F32 ? (float *)(void *)out : u->rows + (int64_t)worker * n;
    u->m->type->unpack_row(row, u->m, u->first + task);
    for (int64_t i = 0; u->to == QUANT_F16 && i < n; i++) {
        const uint16_t half = quant_f32_to_f16(row[i]);
        if ((half & 0x7fff) == 0x7c00 && isfinite(row[i])) u->overflows[worker] = true;
        ((uint16_t *)(void *)out)[i] = half;
    }
    for (int64_t i = 0; u->to == QUANT_BF16 && i < n; i++) ((uint16_t *)(void *)out)[i] = quant_f32_to_bf16(row[i]);
}

static bool any(const bool *flags, int n) {
    bool is_any = false;
    for (int i = 0; i < n; i++) is_any = is_any || flags[i];
    return is_any;
}

/* *fits: no finite weight was too large for `to`. */
static qp_status unpack_slices(cuda_device *c, const cuda_weight *w, unpacking *u, int64_t slice, bool *fits,
                               qp_error *err) {
    const size_t row_bytes = (size_t)u->m->n_in * element_bytes(u->to);
    *fits = true;
    for (u->first = 0; u->first < u->m->n_out && *fits; u->first += slice) {
        u->n_rows = u->m->n_out - u->first < slice ? u->m->n_out - u->first : slice;
        pool_run(c->pool, unpack_row, u, u->n_rows);
        *fits = !any(u->overflows, pool_threads(c->pool));
        if (*fits)
            ERR_TRY(cuda_send(c, (uint8_t *)w->data + (size_t)u->first * row_bytes, u->out,
                              (size_t)u->n_rows * row_bytes, err));
    }
    return QP_OK;
}

/* Half precision has the finer grid, so it is tried first. */
static qp_status send_unpacked(cuda_device *c, cuda_weight *w, const quant_matrix *m, qp_error *err) {
    const size_t row_bytes = (size_t)m->n_in * element_bytes(w->type), threads = (size_t)pool_threads(c->pool);
    const int64_t fitting = (int64_t)(SLICE_BYTES / row_bytes), wanted = fitting < 1 ? 1 : fitting;
    const int64_t slice = wanted < m->n_out ? wanted : m->n_out;
    unpacking u = {.m = m, .to = w->type};
    u.out = mem_array((size_t)slice, row_bytes);
    u.rows = mem_array(threads * (size_t)m->n_in, sizeof(float));
    u.overflows = mem_zarray(threads, sizeof *u.overflows);
    qp_status status = QP_OK;
    bool fits = true;
    if (!u.out || !u.rows || !u.overflows)
        status = err_no_memory(err, (size_t)slice * row_bytes, "a slice of a matrix");
    else
        status = unpack_slices(c, w, &u, slice, &fits, err);
    if (status == QP_OK && !fits) {
        u.to = w->type = QUANT_BF16;
        memset(u.overflows, 0, threads * sizeof *u.overflows);
        status = unpack_slices(c, w, &u, slice, &fits, err);
    }
    mem_free(u.out);
    mem_free(u.rows);
    mem_free(u.overflows);
    return status;
}

/* ---- ops ---- */

static qp_status check(const quant_matrix *m, qp_error *err) {
    size_t bytes = 0, all;
    const bool by_rows = m->type->bytes != NULL; /* others have been checked by quant_open */
    if (m->n_out < 1 || m->n_in < 1 || m->n_in > INT32_MAX - K_TILE_DEPTH || m->n_out > INT32_MAX - K_TILE_ROWS ||
        !mem_mul((size_t)m->n_out, (size_t)m->n_in, &all) || all > SIZE_MAX / 16 ||
        (by_rows && !m->type->bytes(&bytes, m->n_out, m->n_in)))
        return err_set(err, QP_BAD_ARGUMENT, 0, "weights: a matrix of %lld x %lld, allowed are 1 and more",
                       (long long)m->n_out, (long long)m->n_in);
    if (m->part_bytes[0] >= bytes) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "weights: %zu bytes for %lld x %lld of %s, which takes %zu", m->part_bytes[0],
                   (long long)m->n_out, (long long)m->n_in, m->type->name, bytes);
}

static quant_id type_of(const cuda_device *c, const quant_matrix *m) {
    if (m->type->id < QUANT_PLAIN_COUNT) return m->type->id;
    return c->head.exact ? QUANT_F32 : QUANT_F16;
}

/* Takes memory and fills it with rows. */
static qp_status load_rows(cuda_device *c, cuda_weight *w, const quant_matrix *m, qp_error *err) {
    w->type = type_of(c, m);
    w->bytes = (size_t)m->n_out * (size_t)m->n_in * element_bytes(w->type);
    cuda_lock(c);
    const qp_status status = cuda_take(c, &w->data, w->bytes, err);
    cuda_unlock(c);
    if (status != QP_OK) return status;
    if (m->type->id < QUANT_PLAIN_COUNT) return cuda_send(c, w->data, m->parts[0], w->bytes, err);
    return send_unpacked(c, w, m, err);
}

qp_status cuda_weight_open(device *d, dev_weight *out, const quant_matrix *m, qp_error *err) {
    *out = (dev_weight){0};
    ERR_TRY(check(m, err));
    cuda_weight *w = MEM_NEW(cuda_weight);
    if (!w) return err_no_memory(err, sizeof *w, "a matrix");
    *out = (dev_weight){
        .type = m->type, .n_out = m->n_out, .n_in = m->n_in, .data = m->parts[0], .stored = *m, .packed = w};
    const qp_status status = load_rows(cuda_of(d), w, m, err);
    if (status != QP_OK) cuda_weight_close(d, out);
    return status;
}

/* Exact products and those of float32 read rows as they are. */
qp_status cuda_weight_pack(device *d, dev_weight *out, qp_error *err) {
    cuda_device *c = cuda_of(d);
    cuda_weight *w = out->packed;
    if (d->exact || w->packed) return QP_OK;
    if (out->use == DEV_USE_PRODUCT && c->kernels[KERNEL_k_matvec_mixed]) {
        ERR_TRY(cuda_packed_make(c, &w->packed, &out->stored, err));
        if (w->packed) {
            cuda_lock(c);
            cuda_give(c, w->data);
            cuda_unlock(c);
            w->data = NULL;
            w->bytes = w->packed->bytes;
            return QP_OK;
        }
    }
    if (w->type == QUANT_F32 || w->is_tiled) return QP_OK;
    const int64_t elements = round_up(out->n_out, K_TILE_ROWS) * round_up(out->n_in, K_TILE_DEPTH);
    k_tile_args a = {.rows = w->data, .n_out = out->n_out, .n_in = out->n_in};
    cuda_lock(c);
    const qp_status status = cuda_take(c, &a.tiles, (size_t)elements * 2, err);
    if (status == QP_OK) {
        launch_push(c, KERNEL_k_tile, (launch_shape){.x = (elements + 1023) / 1024, .threads = 256}, &a, sizeof a);
        cuda_give(c, w->data);
        *w = (cuda_weight){.type = w->type, .is_tiled = true, .data = a.tiles, .bytes = (size_t)elements * 2};
    }
    cuda_unlock(c);
    return status;
}

void cuda_weight_close(device *d, dev_weight *out) {
    cuda_device *c = cuda_of(d);
    cuda_weight *w = out->packed;
    if (w) {
        cuda_lock(c);
        cuda_give(c, w->data);
        cuda_packed_free(c, w->packed);
        cuda_unlock(c);
    }
    mem_free(w);
    *out = (dev_weight){0};
}
