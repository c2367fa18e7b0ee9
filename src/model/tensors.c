/* tensors.c — slots out of a checkpoint.
 *
 * Called by bind.c while a model opens and by `inspect`. Checkpoints store a weight alone, above others in one matrix,
 * woven with others row by row, transposed, or for all experts in one tensor. What lies row by row stays in the
 * mapping; the rest is copied once.
 *
 * The tricky thing is to see a stored tensor as a matrix of rows whatever its shape: `place` says which of its rows
 * make the weight, row r being first + r / run * jump + r % run * step. */
#include "tensors.h"
#include "quantised.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

/* ---- where a part lies ---- */

typedef struct place {
    int64_t stored; /* rows that the tensor has in all */
    int64_t first, run, jump, step;
} place;

static place whole(int64_t rows) { return (place){rows, 0, rows, rows, 1}; }

/* Rows [first, first + rows) of `stored`. */
static place slice(int64_t stored, int64_t first, int64_t rows) { return (place){stored, first, rows, rows, 1}; }

/* Where the part `part` of one slot lies. `member`: which head, for what is per head. */
static place place_of(const model_shape *s, const slot_row *row, int64_t rows, int member) {
    const int64_t head = s->head_dim, q = s->n_heads * head, kv = s->n_kv_heads * head, all = q + 2 * kv;
    const int64_t group = s->n_heads / s->n_kv_heads, jump = (group + 2) * head;
    const int64_t up = s->nope_dim + s->v_dim, ups = s->n_heads * up;
    switch (row->part) {
    case PART_STACK_Q:
        return slice(all, 0, rows);
    case PART_STACK_K:
        return slice(all, q, rows);
    case PART_STACK_V:
        return slice(all, q + kv, rows);
    case PART_GROUP_Q:
        return (place){all, 0, group * head, jump, 1};
    case PART_GROUP_K:
        return (place){all, group * head, head, jump, 1};
    case PART_GROUP_V:
        return (place){all, (group + 1) * head, head, jump, 1};
    case PART_FIRST_HALF:
        return slice(2 * rows, 0, rows);
    case PART_SECOND_HALF:
        return slice(2 * rows, rows, rows);
    case PART_EVEN:
        return (place){2 * rows, 0, rows, 2 * rows, 2};
    case PART_ODD:
        return (place){2 * rows, 1, rows, 2 * rows, 2};
    case PART_HEAD_K:
        return slice(ups, member * up, s->nope_dim);
    case PART_HEAD_V:
        return slice(ups, member * up + s->nope_dim, s->v_dim);
    case PART_ALL:
    case PART_COUNT:
        break;
    }
    return whole(rows);
}

static int64_t row_at(const place *p, int64_t r) { return p->first + r / p->run * p->jump + r % p->run * p->step; }

int64_t tensors_stored_rows(const model_shape *s, const slot_row *row) {
    return place_of(s, row, shape_dim(s, row->rows), 0).stored;
}

int64_t tensors_stored_row(const model_shape *s, const slot_row *of, int64_t row) {
    const place p = place_of(s, of, shape_dim(s, of->rows), 0);
    return row_at(&p, row);
}

/* ---- what a slot needs of its tensor ---- */

typedef struct need {
    char name[CKPT_MAX_NAME];
    const ckpt_tensor *tensor;
    const quant_type *type;
    int64_t rows, cols;                    /* of the slot */
    bool is_vector, is_stacked, is_turned; /* stacked: all experts; turned: rows and columns exchanged */
    bool is_quantised;                     /* not one plain tensor: see quantised.h */
    bool is_mx;                            /* MXFP4 of stacked experts */
    place place;
} need;

static const struct {
    dtype stored;
    quant_id meaning;
} plain_types[] = {{DTYPE_F32, QUANT_F32}, {DTYPE_F16, QUANT_F16}, {DTYPE_BF16, QUANT_BF16}};

static const quant_type *plain_type(dtype stored) {
    for (size_t i = 0; i < sizeof plain_types / sizeof *plain_types; i++)
        if (plain_types[i].stored == stored) return quant_type_of(plain_types[i].meaning);
    return NULL;
}

/* The shape that the tensor must have; returns its rank. */
static int expected_shape(const tensor_source *t, const slot_row *row, const need *n, int64_t *out) {
    int rank = 0;
    if (n->is_stacked) out[rank++] = t->shape->route.n_experts;
    if (n->is_vector && (row->flags & SLOT_BY_HEAD)) {
        out[rank++] = n->rows / t->shape->head_dim;
        out[rank++] = t->shape->head_dim;
    } else if (n->is_vector) {
        out[rank++] = n->place.stored;
    } else {
        const bool exchanged = (row->flags & SLOT_TRANSPOSED) != 0;
        const int64_t cols = row->part == PART_HEAD_K ? n->rows : n->cols;
        out[rank++] = exchanged ? cols : n->place.stored;
        out[rank++] = exchanged ? n->place.stored : cols;
    }
    return rank;
}

static void write_shape(char *out, size_t capacity, const int64_t *shape, int rank) {
    size_t used = (size_t)snprintf(out, capacity, "[");
    for (int i = 0; i < rank && used < capacity; i++)
        used += (size_t)snprintf(out + used, capacity - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (used < capacity) snprintf(out + used, capacity - used, "]");
}

static qp_status check_shape(const tensor_source *t, const slot_row *row, const need *n, qp_error *err) {
    int64_t shape[3];
    const int rank = expected_shape(t, row, n, shape);
    const ckpt_tensor *found = n->tensor;
    if (found->rank == rank && !memcmp(found->shape, shape, (size_t)rank * sizeof *shape)) return QP_OK;
    if (n->is_vector && rank == 1 && shape[0] == 1 && found->rank == 0) return QP_OK; /* a number */
    char is[128], should[128];
    write_shape(is, sizeof is, found->shape, found->rank);
    write_shape(should, sizeof should, shape, rank);
    const bool exchanged = rank == 2 && found->rank == 2 && found->shape[0] == shape[1] && found->shape[1] == shape[0];
    return err_set(err, QP_BAD_FORMAT, 0, "%s: its shape is %s, expected %s%s", found->name, is, should,
                   exchanged ? ": it is transposed" : "");
}

/* The weight of a key's head is used the other way round: rows of the slot are columns of what is stored. */
static void settle_part(const tensor_source *t, const slot_row *row, int member, need *n) {
    n->is_vector = row->cols == DIM_NONE;
    n->rows = shape_dim(t->shape, row->rows);
    n->cols = n->is_vector ? 1 : shape_dim(t->shape, row->cols);
    n->is_stacked = slot_count(row->slot) == SLOT_PER_EXPERT && !slot_row_is_split(row);
    n->is_turned = !n->is_vector && ((row->flags & SLOT_TRANSPOSED) != 0) != (row->part == PART_HEAD_K);
    n->place = place_of(t->shape, row, n->rows, member);
}

/* Quantised matrices are read whole, but for experts', which may be woven row by row. */
static qp_status check_quantised(const slot_row *row, const need *n, qp_error *err) {
    if (n->is_mx && n->place.run >= n->rows) return QP_OK;
    if (row->part == PART_ALL && !n->is_stacked && !n->is_turned) return QP_OK;
    return err_set(err, QP_UNSUPPORTED, 0, "%s: quantized weights that are stored within others are not supported",
                   n->name);
}

static qp_status find(const tensor_source *t, const slot_row *row, int layer, int member, need *n, qp_error *err) {
    char plain[CKPT_MAX_NAME];
    settle_part(t, row, member, n);
    ERR_TRY(slot_tensor_name(plain, sizeof plain, row, layer, member, err));
    ERR_TRY(names_stored(n->name, sizeof n->name, t->how, plain, err));
    n->is_mx = !n->is_vector && n->is_stacked && quantised_has_experts(t->files, n->name);
    n->is_quantised = n->is_mx || (!n->is_vector && quantised_has(t->files, n->name));
    if (n->is_quantised) return check_quantised(row, n, err);
    n->tensor = checkpoint_find(t->files, n->name);
    if (!n->tensor)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: the checkpoint has no such tensor; %lld x %lld elements are needed",
                       n->name, (long long)n->place.stored, (long long)n->cols);
    n->type = plain_type(n->tensor->type);
    if (!n->type)
        return err_set(err, QP_UNSUPPORTED, 0, "%s: elements of type %s, this engine computes with F32, F16 and BF16",
                       n->name, dtype_name(n->tensor->type));
    return check_shape(t, row, n, err);
}

/* ---- copies ---- */

static void *take_block(tensor_source *t, size_t bytes, qp_error *err) {
    if (t->n_blocks == t->capacity) {
        const int capacity = t->capacity ? 2 * t->capacity : 64;
        void *blocks = mem_resize(t->blocks, (size_t)capacity, sizeof *t->blocks);
        if (!blocks) return err_no_memory(err, 0, "the list of copied weights"), NULL;
        t->blocks = blocks;
        t->capacity = capacity;
    }
    void *memory = mem_big(bytes);
    if (!memory) return err_no_memory(err, bytes, "a copied weight"), NULL;
    t->blocks[t->n_blocks].memory = memory;
    t->blocks[t->n_blocks++].bytes = bytes;
    return memory;
}

/* Elements of a matrix [rows][cols]: element (r, c) of the copy is what lies `at(r, c)` elements behind `from`. */
typedef struct gather {
    place p;
    int64_t row_stride, col_stride;
} gather;

#define COPY_ELEMENTS(type)                                                                                            \
    for (int64_t r = 0; r < rows; r++) {                                                                               \
        const uint8_t *row = from + row_at(&g->p, r) * g->row_stride * (int64_t)sizeof(type);                          \
        for (int64_t c = 0; c < cols; c++)                                                                             \
            memcpy((type *)to + r * cols + c, row + c * g->col_stride * (int64_t)sizeof(type), sizeof(type));          \
    }

static void copy_elements(void *to, const uint8_t *from, const gather *g, int64_t rows, int64_t cols, size_t each) {
    if (each == 4) {
        COPY_ELEMENTS(uint32_t)
    } else {
        COPY_ELEMENTS(uint16_t)
    }
}

/* How to walk the stored matrix of this slot. */
static gather walk_of(const slot_row *row, const need *n) {
    const bool exchanged = (row->flags & SLOT_TRANSPOSED) != 0 && !n->is_vector;
    if (row->part == PART_HEAD_K) { /* W^T of rows [first, first + cols) */
        const place p = {n->rows, 0, n->rows, n->rows, 1};
        return (gather){p, 1, n->rows};
    }
    return exchanged ? (gather){n->place, 1, n->place.stored} : (gather){n->place, n->cols, 1};
}

static qp_status copy(tensor_source *t, const slot_row *row, const need *n, const uint8_t *from, quant_matrix *out,
                      qp_error *err) {
    const size_t each = n->type->id == QUANT_F32 ? 4 : 2, count = (size_t)n->rows * (size_t)n->cols;
    void *to = take_block(t, count * each, err);
    if (!to) return QP_NO_MEMORY;
    const gather g = walk_of(row, n);
    if (row->part == PART_HEAD_K) from += (size_t)n->place.first * (size_t)n->rows * each;
    copy_elements(to, from, &g, n->rows, n->cols, each);
    *out =
        (quant_matrix){.type = n->type, .n_out = n->rows, .n_in = n->cols, .parts = {to}, .part_bytes = {count * each}};
    return QP_OK;
}

/* ---- quantised ---- */

/* The order of inputs moves to where it lives as long as `t`. */
static qp_status keep_order(tensor_source *t, quant_matrix *m, qp_error *err) {
    if (!m->order) return QP_OK;
    const size_t bytes = (size_t)m->n_in * sizeof *m->order;
    int32_t *kept = take_block(t, bytes, err);
    if (kept) memcpy(kept, m->order, bytes);
    quant_close(m);
    m->order = kept;
    return kept ? QP_OK : QP_NO_MEMORY;
}

static qp_status open_quantised(const tensor_source *t, const need *n, int member, quant_matrix *out, qp_error *err) {
    if (!n->is_mx) return quantised_fetch(out, t->files, &t->shape->quant, n->name, n->rows, n->cols, err);
    const quantised_rows which = {t->shape->route.n_experts, member, n->place.stored, n->place.first, n->place.step};
    return quantised_fetch_expert(out, t->files, n->name, &which, n->rows, n->cols, err);
}

/* A format of which no row can be unpacked alone becomes float16, as its own reader makes of it. */
static qp_status unpack_all(tensor_source *t, quant_matrix *m, qp_error *err) {
    enum { ROWS = QUANT_BLOCK_ROWS };
    const size_t cols = (size_t)m->n_in, count = (size_t)m->n_out * cols;
    float *rows = mem_array(ROWS * cols, sizeof *rows);
    uint16_t *to = rows ? take_block(t, count * sizeof *to, err) : NULL;
    if (!to) {
        mem_free(rows);
        return rows ? QP_NO_MEMORY : err_no_memory(err, ROWS * cols * sizeof *rows, "rows of weights");
    }
    for (int64_t row = 0; row < m->n_out; row += ROWS) { /* both sides are multiples: quant_open */
        m->type->unpack_rows(rows, m, row);
        for (size_t i = 0; i < ROWS * cols; i++) to[(size_t)row * cols + i] = quant_f32_to_f16(rows[i]);
    }
    mem_free(rows);
    *m = quant_plain(quant_type_of(QUANT_F16), m->n_out, m->n_in, to, count * sizeof *to);
    return QP_OK;
}

static qp_status fetch_quantised(tensor_source *t, const need *n, int member, quant_matrix *out, qp_error *err) {
    ERR_TRY(open_quantised(t, n, member, out, err));
    return out->type->unpack_rows ? unpack_all(t, out, err) : keep_order(t, out, err);
}

/* ---- front ---- */

void tensors_open(tensor_source *out, const checkpoint *files, const arch_row *arch, const model_shape *shape) {
    *out = (tensor_source){.files = files, .shape = shape, .how = naming_find(files, arch)};
}

void tensors_close(tensor_source *t) {
    for (int i = 0; i < t->n_blocks; i++) mem_big_free(t->blocks[i].memory, t->blocks[i].bytes);
    mem_free(t->blocks);
    *t = (tensor_source){0};
}

qp_status tensors_look(const tensor_source *t, const slot_row *row, int layer, int member, quant_matrix *out,
                       qp_error *err) {
    need n;
    ERR_TRY(find(t, row, layer, member, &n, err));
    if (n.is_quantised) {
        ERR_TRY(open_quantised(t, &n, member, out, err));
        if (out->type->unpack_rows)
            *out = quant_plain(quant_type_of(QUANT_F16), n.rows, n.cols, NULL, 2 * (size_t)n.rows * (size_t)n.cols);
        return QP_OK;
    }
    const size_t each = n.type->id == QUANT_F32 ? 4 : 2;
    *out = quant_plain(n.type, n.rows, n.cols, NULL, (size_t)n.rows * (size_t)n.cols * each);
    return QP_OK;
}

qp_status tensors_check(const tensor_source *t, const slot_row *row, int layer, int member, qp_error *err) {
    quant_matrix m;
    ERR_TRY(tensors_look(t, row, layer, member, &m, err));
    quant_close(&m);
    return QP_OK;
}

qp_status tensors_fetch(tensor_source *t, const slot_row *row, int layer, int member, quant_matrix *out,
                        qp_error *err) {
    need n;
    ERR_TRY(find(t, row, layer, member, &n, err));
    if (n.is_quantised) return fetch_quantised(t, &n, member, out, err);
    const size_t each = n.type->id == QUANT_F32 ? 4 : 2;
    const uint8_t *from = n.tensor->data;
    if (n.is_stacked) from += n.tensor->bytes / (size_t)t->shape->route.n_experts * (size_t)member;
    checkpoint_will_need(t->files, n.tensor);
    if (n.is_turned || n.place.step != 1 || n.place.run < n.rows) return copy(t, row, &n, from, out, err);
    *out = (quant_matrix){.type = n.type,
                          .n_out = n.rows,
                          .n_in = n.cols,
                          .parts = {from + (size_t)n.place.first * (size_t)n.cols * each},
                          .part_bytes = {(size_t)n.rows * (size_t)n.cols * each}};
    return QP_OK;
}

void tensors_release(const tensor_source *t, const quant_matrix *m) {
    for (int i = 0; i < QUANT_PARTS && m->row_step <= 1; i++)
        if (m->parts[i]) checkpoint_release(t->files, m->parts[i], m->part_bytes[i]);
}
