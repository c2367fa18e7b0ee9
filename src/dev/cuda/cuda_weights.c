/* cuda_weights.c — matrices on their way into the GPU's memory, and how they lie there.
 *
 * Called through the device's ops while a model or an adapter is opened. weight_open looks at nothing but sizes;
 * weight_pack knows what the matrix is for and lets it travel once, through cuda_window.c, in the form in which it will
 * be read: as small numbers (cuda_packed.c), as tiles of 16 bits for the tensor cores, or as rows. Formats that no
 * kernel reads are unpacked on the way, to float32 where the device is exact and to 16 bits elsewhere. */
#include "cuda_mixture.h"
#include "cuda_window.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

static size_t element_bytes(quant_id type) { return type == QUANT_F32 ? 4 : 2; }

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

qp_status cuda_send(cuda_device *c, void *to, const void *from, size_t bytes, qp_error *err) {
    cuda_lock(c);
    const drv_result result = c->drv.copy_up((drv_ptr)(uintptr_t)to, from, bytes, c->stream);
    cuda_unlock(c);
    return result ? drv_failed(&c->drv, result, "cuda: copying a matrix to the GPU", err) : QP_OK;
}

/* ---- rows ---- */

typedef struct unpacking {
    const quant_matrix *m;
    quant_id to;
    float *rows;     /* [threads][n_in]; NULL: they lie as they shall */
    bool *overflows; /* [threads]: a finite weight was too large for `to` */
} unpacking;

static void copy_row(void *context, uint8_t *to, int64_t row, int worker) {
    const unpacking *u = context;
    const size_t bytes = (size_t)u->m->n_in * element_bytes(u->to);
    memcpy(to, (const uint8_t *)u->m->parts[0] + (size_t)row * bytes, bytes);
}

static void unpack_row(void *context, uint8_t *to, int64_t at, int worker) {
    const unpacking *u = context;
    const int64_t n = u->m->n_in;
    float *row = u->rows + (int64_t)worker * n;
    u->m->type->unpack_row(row, u->m, at);
    if (u->to == QUANT_F32) memcpy(to, row, (size_t)n * sizeof *row);
    for (int64_t i = 0; u->to == QUANT_F16 && i < n; i++) {
        const uint16_t half = quant_f32_to_f16(row[i]);
        if ((half & 0x7fff) == 0x7c00 && isfinite(row[i])) u->overflows[worker] = true;
        ((uint16_t *)(void *)to)[i] = half;
    }
    for (int64_t i = 0; u->to == QUANT_BF16 && i < n; i++) ((uint16_t *)(void *)to)[i] = quant_f32_to_bf16(row[i]);
}

static bool any(const bool *flags, int n) {
    bool is_any = false;
    for (int i = 0; i < n; i++) is_any = is_any || flags[i];
    return is_any;
}

static qp_status send_rows(cuda_device *c, cuda_weight *w, unpacking *u, qp_error *err) {
    const bool is_plain = !u->rows;
    const window_load load = {.make = is_plain ? copy_row : unpack_row,
                              .context = u,
                              .n_items = u->m->n_out,
                              .item_bytes = (size_t)u->m->n_in * element_bytes(u->to),
                              .to = w->data,
                              .tile_in = w->is_tiled ? u->m->n_in : 0};
    return window_send(c, &load, err);
}

/* Half precision has the finer grid, so it is tried first. */
static qp_status send_unpacked(cuda_device *c, cuda_weight *w, const quant_matrix *m, qp_error *err) {
    const size_t threads = (size_t)pool_threads(c->pool);
    unpacking u = {.m = m, .to = w->type};
    u.rows = mem_array(threads * (size_t)m->n_in, sizeof(float));
    u.overflows = mem_zarray(threads, sizeof *u.overflows);
    qp_status status = QP_OK;
    if (!u.rows || !u.overflows)
        status = err_no_memory(err, threads * (size_t)m->n_in * sizeof(float), "rows of a matrix");
    else
        status = send_rows(c, w, &u, err);
    if (status == QP_OK && any(u.overflows, (int)threads)) {
        u.to = w->type = QUANT_BF16;
        status = send_rows(c, w, &u, err);
    }
    mem_free(u.rows);
    mem_free(u.overflows);
    return status;
}

static size_t rows_bytes(quant_id type, bool is_tiled, int64_t n_out, int64_t n_in) {
    const int64_t rows = is_tiled ? round_up(n_out, K_TILE_ROWS) : n_out;
    const int64_t wide = is_tiled ? round_up(n_in, K_TILE_DEPTH) : n_in;
    return (size_t)rows * (size_t)wide * element_bytes(type);
}

/* Takes memory and fills it with rows or tiles. */
static qp_status load_rows(cuda_device *c, cuda_weight *w, const quant_matrix *m, bool is_tiled, qp_error *err) {
    w->bytes = rows_bytes(w->type, is_tiled, m->n_out, m->n_in);
    w->is_tiled = is_tiled;
    cuda_lock(c);
    qp_status status = cuda_take(c, &w->data, w->bytes, err);
    cuda_unlock(c);
    if (status != QP_OK) return status;
    unpacking plain = {.m = m, .to = w->type};
    status = m->type->id < QUANT_PLAIN_COUNT ? send_rows(c, w, &plain, err) : send_unpacked(c, w, m, err);
    if (status == QP_OK) return QP_OK;
    cuda_lock(c);
    cuda_give(c, w->data);
    cuda_unlock(c);
    w->data = NULL;
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

qp_status cuda_weight_open(device *d, dev_weight *out, const quant_matrix *m, qp_error *err) {
    *out = (dev_weight){0};
    ERR_TRY(check(m, err));
    cuda_weight *w = MEM_NEW(cuda_weight);
    if (!w) return err_no_memory(err, sizeof *w, "a matrix");
    w->type = type_of(cuda_of(d), m);
    *out = (dev_weight){
        .type = m->type, .n_out = m->n_out, .n_in = m->n_in, .data = m->parts[0], .stored = *m, .packed = w};
    return QP_OK;
}

/* Tiles of 16 bits are for products; those of exact devices read rows, and tables that are only looked up in are. */
static bool wants_tiles(const device *d, quant_id type, dev_use use) {
    return !d->exact && type != QUANT_F32 && use != DEV_USE_LOOKUP;
}

static bool may_pack(const cuda_device *c, dev_use use) {
    return !c->head.exact && use != DEV_USE_TABLE && use != DEV_USE_LOOKUP && c->kernels[KERNEL_k_matvec_mixed];
}

static void count_expert(cuda_device *c) {
    cuda_lock(c);
    c->mixtures.n_packed++;
    cuda_unlock(c);
}

qp_status cuda_weight_pack(device *d, dev_weight *out, qp_error *err) {
    cuda_device *c = cuda_of(d);
    cuda_weight *w = out->packed;
    if (w->data || w->packed) return QP_OK;
    if (may_pack(c, out->use)) {
        ERR_TRY(cuda_packed_make(c, &w->packed, &out->stored, err));
        if (w->packed && out->use == DEV_USE_EXPERT) count_expert(c);
        if (w->packed) return w->bytes = w->packed->bytes, QP_OK;
    }
    return load_rows(c, w, &out->stored, wants_tiles(d, w->type, out->use), err);
}

size_t cuda_weight_bytes(device *d, const quant_matrix *m, dev_use use, quant_id *as) {
    const cuda_device *c = cuda_of(d);
    size_t packed = may_pack(c, use) ? cuda_packed_bytes(m) : 0;
    if (packed && use == DEV_USE_EXPERT) packed += MIXTURE_EXPERT_BYTES;
    *as = packed ? m->type->id : type_of(c, m);
    if (packed || check(m, NULL) != QP_OK) return packed;
    return rows_bytes(*as, wants_tiles(d, *as, use), m->n_out, m->n_in);
}

void cuda_weight_here(cuda_device *c, const dev_weight *weight) {
    cuda_weight *w = weight->packed;
    qp_error why;
    if (w->data || w->packed || load_rows(c, w, &weight->stored, false, &why) == QP_OK) return;
    cuda_lock(c);
    if (c->failure.code == QP_OK) c->failure = why;
    cuda_unlock(c);
}

void cuda_weight_close(device *d, dev_weight *out) {
    cuda_device *c = cuda_of(d);
    cuda_weight *w = out->packed;
    if (w) {
        cuda_lock(c);
        if (out->use == DEV_USE_EXPERT) {
            cuda_mixture_forget(c);
            c->mixtures.n_packed -= w->packed != NULL;
        }
        cuda_give(c, w->data);
        cuda_packed_free(c, w->packed);
        cuda_unlock(c);
    }
    mem_free(w);
    *out = (dev_weight){0};
}
