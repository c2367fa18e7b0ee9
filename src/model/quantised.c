/* quantised.c — tensors of one quantised matrix -> quant_matrix.
 *
 * Called by what fetches weights out of a checkpoint, where a plain tensor is missing. What marks a format are names:
 * X.q_weight is EXL2, X.trellis EXL3, X.qweight GPTQ or AWQ, X.weight with a block format GGUF, with 8 bits and
 * X.weight_scale FP8 or compressed-tensors, X.weight_packed the latter, X.weight of bytes with X.weight.absmax
 * bitsandbytes and with X.weight_scale_2 NVFP4, X_blocks MXFP4 of all experts. Types and shapes are compared here with
 * the sizes that the architecture needs; what the parts must hold inside is checked by quant_open. */
#include "quantised.h"
#include "base/json.h"
#include <stdio.h>
#include <string.h>

/* X of "X.weight"; false if the name does not end so or is too long. */
static bool base_of(char base[CKPT_MAX_NAME], const char *name) {
    const size_t n = strlen(name), tail = strlen(".weight");
    if (n <= tail || n >= CKPT_MAX_NAME || strcmp(name + n - tail, ".weight")) return false;
    memcpy(base, name, n - tail);
    base[n - tail] = 0;
    return true;
}

static const ckpt_tensor *part_of(const checkpoint *c, const char *base, const char *part) {
    char name[CKPT_MAX_NAME];
    if (snprintf(name, sizeof name, "%s.%s", base, part) >= (int)sizeof name) return NULL;
    return checkpoint_find(c, name);
}

/* The format of codes that lie in X.weight itself; NULL: none. */
static const quant_type *coded_type(dtype stored) {
    static const struct {
        dtype stored;
        quant_id meaning;
    } types[] = {{DTYPE_F8_E4M3, QUANT_FP8_E4M3}, {DTYPE_F8_E5M2, QUANT_FP8_E5M2}, {DTYPE_I8, QUANT_INT}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].stored == stored) return quant_type_of(types[i].meaning);
    return NULL;
}

bool quantised_has(const checkpoint *c, const char *name) {
    char base[CKPT_MAX_NAME];
    const ckpt_tensor *plain = checkpoint_find(c, name);
    if (plain) return plain->format || coded_type(plain->type) || plain->type == DTYPE_U8;
    static const char *const marks[] = {"q_weight", "qweight", "weight_packed", "trellis"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks && base_of(base, name); i++)
        if (part_of(c, base, marks[i])) return true;
    return false;
}

/* "X_blocks", "X_scales" of the matrices X that all experts have in one. */
static const ckpt_tensor *woven_part(const checkpoint *c, const char *name, const char *ending) {
    char full[CKPT_MAX_NAME];
    if (snprintf(full, sizeof full, "%s_%s", name, ending) >= (int)sizeof full) return NULL;
    return checkpoint_find(c, full);
}

bool quantised_has_experts(const checkpoint *c, const char *name) { return woven_part(c, name, "blocks") != NULL; }

/* Whether `stored` is X_blocks or X_scales of experts' matrices; how long X is then. */
static size_t woven_name(const char *stored) {
    static const char *const ends[] = {"_blocks", "_scales"};
    const size_t n = strlen(stored);
    for (int i = 0; i < 2; i++) {
        const size_t tail = strlen(ends[i]);
        if (n > tail && !strcmp(stored + n - tail, ends[i]) && strstr(stored, ".experts.")) return n - tail;
    }
    return 0;
}

void quantised_plain_name(char *out, size_t capacity, const char *stored) {
    static const char *const parts[] = {"q_weight",
                                        "q_scale",
                                        "q_scale_max",
                                        "q_groups",
                                        "q_invperm",
                                        "q_perm",
                                        "qweight",
                                        "qzeros",
                                        "scales",
                                        "g_idx",
                                        "weight_packed",
                                        "weight_scale",
                                        "weight_scale_inv",
                                        "weight_shape",
                                        "input_scale",
                                        "weight_scale_2",
                                        "trellis",
                                        "suh",
                                        "svh",
                                        "su",
                                        "sv",
                                        "mcg",
                                        "mul1",
                                        "weight_global_scale",
                                        "input_global_scale"};
    const char *dot = strrchr(stored, '.'), *inside = strstr(stored, ".weight.");
    const size_t woven = inside ? (size_t)(inside - stored) + strlen(".weight") : woven_name(stored);
    if (woven) {
        snprintf(out, capacity, "%.*s", (int)woven, stored);
        return;
    }
    for (size_t i = 0; dot && i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(dot + 1, parts[i])) {
            snprintf(out, capacity, "%.*s.weight", (int)(dot - stored), stored);
            return;
        }
    snprintf(out, capacity, "%s", stored);
}

/* ---- parts ---- */

enum { ANY = -1 };

typedef struct part {
    const char *name;
    int rank;
    int64_t rows, cols; /* ANY: no matter */
    bool is_optional;
} part;

static qp_status take_part(quant_matrix *m, int index, const checkpoint *c, const char *base, const part *p, dtype type,
                           qp_error *err) {
    const ckpt_tensor *t = part_of(c, base, p->name);
    if (!t && p->is_optional) return QP_OK;
    if (!t) return err_set(err, QP_BAD_FORMAT, 0, "%s.%s: the checkpoint has no such tensor", base, p->name);
    if (t->type != type)
        return err_set(err, QP_BAD_FORMAT, 0, "%s.%s: elements of type %s, expected %s", base, p->name,
                       dtype_name(t->type), dtype_name(type));
    if (t->rank != p->rank || (p->rows != ANY && t->shape[0] != p->rows) ||
        (p->rank > 1 && p->cols != ANY && t->shape[1] != p->cols))
        return err_set(err, QP_BAD_FORMAT, 0, "%s.%s: its shape is [%lld, %lld], expected [%lld, %lld]", base, p->name,
                       (long long)t->shape[0], (long long)t->shape[1], (long long)p->rows, (long long)p->cols);
    m->parts[index] = t->data;
    m->part_bytes[index] = t->bytes;
    checkpoint_will_need(c, t);
    return QP_OK;
}

/* ---- EXL2 ---- */

static qp_status fetch_exl2(quant_matrix *m, const checkpoint *c, const char *base, qp_error *err) {
    const ckpt_tensor *codes = part_of(c, base, "q_weight"), *scales = part_of(c, base, "q_scale");
    const int64_t columns = codes->rank == 2 ? codes->shape[1] : 0, groups = scales ? scales->shape[0] : 0;
    const part parts[] = {{"q_weight", 2, ANY, columns, false},
                          {"q_scale", 2, groups, columns / 8, false},
                          {"q_scale_max", 1, groups, ANY, false},
                          {"q_groups", 1, 2 * groups, ANY, false},
                          {"q_invperm", 1, m->n_in, ANY, false}};
    static const dtype types[] = {DTYPE_I32, DTYPE_I32, DTYPE_F16, DTYPE_I16, DTYPE_I32};
    m->type = quant_type_of(QUANT_EXL2);
    m->stored_out = columns;
    for (int i = 0; i < 5; i++) ERR_TRY(take_part(m, i, c, base, &parts[i], types[i], err));
    return QP_OK;
}

/* ---- GPTQ and AWQ ---- */

static const struct {
    dtype stored;
    quant_id meaning;
} scale_types[] = {{DTYPE_F16, QUANT_F16}, {DTYPE_BF16, QUANT_BF16}, {DTYPE_F32, QUANT_F32}};

static qp_status find_scales(quant_matrix *m, const ckpt_tensor **out, const checkpoint *c, const char *base,
                             qp_error *err) {
    *out = part_of(c, base, "scales");
    if (!*out || (*out)->rank != 2)
        return err_set(err, QP_BAD_FORMAT, 0, "%s.scales: the checkpoint has no such matrix", base);
    for (size_t i = 0; i < sizeof scale_types / sizeof *scale_types; i++)
        if (scale_types[i].stored == (*out)->type) return m->scale_type = scale_types[i].meaning, QP_OK;
    return err_set(err, QP_UNSUPPORTED, 0, "%s.scales: elements of type %s, allowed are F16, BF16, F32", base,
                   dtype_name((*out)->type));
}

/* Inputs of a group: as the settings say, where as many groups are stored, else what follows from their number. */
static int group_size(const quant_matrix *m, int said, int64_t groups) {
    const int64_t all = m->n_in;
    if (said == -1) return (int)all;
    if (said > 0 && (all + said - 1) / said == groups) return said;
    return groups > 0 && all % groups == 0 ? (int)(all / groups) : 0;
}

static qp_status fetch_gptq(quant_matrix *m, const checkpoint *c, const hf_quant *settings, const char *base,
                            qp_error *err) {
    const ckpt_tensor *codes = part_of(c, base, "qweight"), *scales;
    ERR_TRY(find_scales(m, &scales, c, base, err));
    const int64_t groups = scales->shape[0], columns = scales->shape[1], words = codes->rank == 2 ? codes->shape[0] : 0;
    m->type = quant_type_of(QUANT_GPTQ);
    m->stored_out = columns;
    m->bits = words < INT32_MAX && m->n_in ? (int)(words * 32 / m->n_in) : 0;
    m->group = group_size(m, settings->group, groups);
    m->zero_add = !settings->is_second;
    if (settings->bits && settings->bits != m->bits)
        return err_set(err, QP_UNSUPPORTED, 0, "%s.qweight: %d bits by its shape, %d by the settings", base, m->bits,
                       settings->bits);
    const part parts[] = {{"qweight", 2, ANY, columns, false},
                          {"qzeros", 2, groups, ANY, false},
                          {"scales", 2, groups, columns, false},
                          {"g_idx", 1, m->n_in, ANY, true}};
    const dtype types[] = {DTYPE_I32, DTYPE_I32, scales->type, DTYPE_I32};
    for (int i = 0; i < 4; i++) ERR_TRY(take_part(m, i, c, base, &parts[i], types[i], err));
    return QP_OK;
}

static qp_status fetch_awq(quant_matrix *m, const checkpoint *c, const hf_quant *settings, const char *base,
                           qp_error *err) {
    const ckpt_tensor *scales;
    ERR_TRY(find_scales(m, &scales, c, base, err));
    const bool gemv = settings->is_gemv;
    m->type = quant_type_of(gemv ? QUANT_AWQ_GEMV : QUANT_AWQ);
    m->stored_out = gemv ? scales->shape[0] : scales->shape[1];
    m->bits = settings->bits ? settings->bits : 4;
    m->group = gemv && settings->group > 0 ? settings->group : group_size(m, settings->group, scales->shape[0]);
    const part parts[] = {{"qweight", 2, gemv ? m->stored_out : m->n_in, gemv ? m->n_in / 8 : m->stored_out / 8, false},
                          {"qzeros", 2, scales->shape[0], ANY, false},
                          {"scales", 2, ANY, ANY, false}};
    const dtype types[] = {DTYPE_I32, DTYPE_I32, scales->type};
    for (int i = 0; i < 3; i++) ERR_TRY(take_part(m, i, c, base, &parts[i], types[i], err));
    return QP_OK;
}

/* ---- codes with a grid of scales ---- */

/* Weights along one side that share a scale, of which there are `n`: one for all, one for each, else `said`. */
static int side_of_block(int64_t all, int64_t n, int said) {
    if (n == 1) return (int)all;
    if (said > 0 && (all + said - 1) / said == n) return said;
    return n > 0 && all % n == 0 ? (int)(all / n) : 0;
}

static qp_status take_scales(quant_matrix *m, const checkpoint *c, const hf_quant *settings, const char *base,
                             qp_error *err) {
    const ckpt_tensor *t = part_of(c, base, "weight_scale_inv");
    if (!t) t = part_of(c, base, "weight_scale");
    if (!t) return err_set(err, QP_BAD_FORMAT, 0, "%s.weight_scale: the checkpoint has no such tensor", base);
    if (part_of(c, base, "weight_zero_point") || part_of(c, base, "weight_g_idx"))
        return err_set(err, QP_UNSUPPORTED, 0, "%s: compressed weights with zeros or an order of inputs", base);
    m->scale_type = QUANT_COUNT;
    for (size_t i = 0; i < sizeof scale_types / sizeof *scale_types; i++)
        if (scale_types[i].stored == t->type) m->scale_type = scale_types[i].meaning;
    if (m->scale_type == QUANT_COUNT || t->rank > 2)
        return err_set(err, QP_UNSUPPORTED, 0,
                       "%s: elements of type %s in %d dimensions, allowed are F16, BF16, F32 in 2", t->name,
                       dtype_name(t->type), t->rank);
    m->row_group =
        side_of_block(m->n_out, t->rank > 0 ? t->shape[0] : 1, settings->block[0] ? settings->block[0] : 128);
    m->group = side_of_block(m->n_in, t->rank > 1 ? t->shape[1] : 1, settings->block[1] ? settings->block[1] : 128);
    m->parts[1] = t->data;
    m->part_bytes[1] = t->bytes;
    return QP_OK;
}

static qp_status fetch_coded(quant_matrix *m, const checkpoint *c, const hf_quant *settings, const ckpt_tensor *t,
                             const char *base, qp_error *err) {
    if (t->rank != 2 || t->shape[0] != m->n_out || t->shape[1] != m->n_in)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: rank %d, [%lld, %lld], expected [%lld, %lld]", t->name, t->rank,
                       (long long)t->shape[0], (long long)t->shape[1], (long long)m->n_out, (long long)m->n_in);
    m->type = coded_type(t->type);
    m->bits = 8;
    m->parts[0] = t->data;
    m->part_bytes[0] = t->bytes;
    return take_scales(m, c, settings, base, err);
}

static qp_status fetch_packed(quant_matrix *m, const checkpoint *c, const hf_quant *settings, const char *base,
                              qp_error *err) {
    const part codes = {"weight_packed", 2, m->n_out, m->n_in / 8, false}; /* eight of 4 bits in a word */
    m->type = quant_type_of(QUANT_INT);
    m->bits = 4;
    ERR_TRY(take_part(m, 0, c, base, &codes, DTYPE_I32, err));
    return take_scales(m, c, settings, base, err);
}

/* ---- NVFP4 ---- */

static qp_status fetch_nvfp4(quant_matrix *m, const checkpoint *c, const char *base, qp_error *err) {
    m->is_divided = part_of(c, base, "weight_packed") != NULL; /* compressed-tensors; else ModelOpt */
    const char *whole = m->is_divided ? "weight_global_scale" : "weight_scale_2";
    const ckpt_tensor *one = part_of(c, base, whole);
    const part parts[] = {{m->is_divided ? "weight_packed" : "weight", 2, m->n_out, m->n_in / 2, false},
                          {"weight_scale", 2, m->n_out, m->n_in / 16, false},
                          {whole, one ? one->rank : 1, ANY, ANY, false}};
    static const dtype types[] = {DTYPE_U8, DTYPE_F8_E4M3, DTYPE_F32};
    m->type = quant_type_of(QUANT_NVFP4);
    for (int i = 0; i < 3; i++) ERR_TRY(take_part(m, i, c, base, &parts[i], types[i], err));
    return QP_OK;
}

/* ---- bitsandbytes ---- */

static qp_status read_state(quant_matrix *m, const json_t *state, const char *where, qp_error *err) {
    int64_t block = 0, nested = 0, rows = 0, cols = 0;
    double offset = 0;
    json_t *shape = NULL;
    ERR_TRY(json_get_int(state, "blocksize", 1, 1 << 20, &block, where, err));
    ERR_TRY(json_get_int(state, "nested_blocksize", 1, 1 << 20, &nested, where, err));
    ERR_TRY(json_get_real(state, "nested_offset", &offset, where, err));
    ERR_TRY(json_get_array(state, "shape", &shape, where, err));
    rows = json_integer_value(json_array_get(shape, 0));
    cols = json_integer_value(json_array_get(shape, 1));
    if (json_array_size(shape) != 2 || rows != m->n_out || cols != m->n_in)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: its shape is [%lld, %lld], expected [%lld, %lld]", where,
                       (long long)rows, (long long)cols, (long long)m->n_out, (long long)m->n_in);
    m->group = (int)block;
    m->row_group = (int)nested;
    m->offset = (float)offset;
    return QP_OK;
}

/* A tensor of bytes that is a text of JSON. */
static qp_status fetch_state(quant_matrix *m, const checkpoint *c, const char *name, qp_error *err) {
    static const char *const ends[] = {"quant_state.bitsandbytes__nf4", "quant_state.bitsandbytes__fp4"};
    const ckpt_tensor *t = part_of(c, name, ends[0]);
    if (!t) t = part_of(c, name, ends[1]);
    if (!t) return err_set(err, QP_BAD_FORMAT, 0, "%s.%s: the checkpoint has no such tensor", name, ends[0]);
    json_t *state;
    ERR_TRY(json_parse(&state, (const char *)t->data, t->bytes, t->name, err));
    const qp_status status = json_is_object(state) ? read_state(m, state, t->name, err)
                                                   : err_set(err, QP_BAD_FORMAT, 0, "%s: is %s, expected an object",
                                                             t->name, json_kind(state));
    json_decref(state);
    return status;
}

static qp_status fetch_nf4(quant_matrix *m, const checkpoint *c, const ckpt_tensor *codes, qp_error *err) {
    m->type = quant_type_of(QUANT_NF4);
    ERR_TRY(fetch_state(m, c, codes->name, err));
    const bool is_nested = m->row_group > 0;
    const part parts[] = {{"absmax", 1, ANY, ANY, false},
                          {"quant_map", 1, 16, ANY, false},
                          {"nested_absmax", 1, ANY, ANY, false},
                          {"nested_quant_map", 1, 256, ANY, false}};
    m->parts[0] = codes->data;
    m->part_bytes[0] = codes->bytes;
    for (int i = 0; i < (is_nested ? 4 : 2); i++)
        ERR_TRY(take_part(m, i + 1, c, codes->name, &parts[i], is_nested && !i ? DTYPE_U8 : DTYPE_F32, err));
    return QP_OK;
}

/* ---- EXL3 ---- */

static qp_status fetch_exl3(quant_matrix *m, const checkpoint *c, const char *base, qp_error *err) {
    const ckpt_tensor *trellis = part_of(c, base, "trellis");
    if (trellis->rank != 3 || trellis->type != DTYPE_I16 || trellis->shape[0] != m->n_in / 16 ||
        trellis->shape[1] != m->n_out / 16 || trellis->shape[2] % 16)
        return err_set(err, QP_BAD_FORMAT, 0,
                       "%s: %s of rank %d, [%lld, %lld, %lld], expected I16 of rank 3, [%lld, %lld, 16 x bits]",
                       trellis->name, dtype_name(trellis->type), trellis->rank, (long long)trellis->shape[0],
                       (long long)trellis->shape[1], (long long)trellis->shape[2], (long long)(m->n_in / 16),
                       (long long)(m->n_out / 16));
    m->type = quant_type_of(QUANT_EXL3);
    m->bits = trellis->shape[2] / 16 < 9 ? (int)(trellis->shape[2] / 16) : 0;
    m->codebook = part_of(c, base, "mcg") ? 1 : part_of(c, base, "mul1") ? 2 : 0;
    m->parts[0] = trellis->data;
    m->part_bytes[0] = trellis->bytes;
    const bool in_signs = !part_of(c, base, "suh"), out_signs = !part_of(c, base, "svh");
    const part in = {in_signs ? "su" : "suh", 1, in_signs ? m->n_in / 16 : m->n_in, ANY, false},
               out = {out_signs ? "sv" : "svh", 1, out_signs ? m->n_out / 16 : m->n_out, ANY, false};
    ERR_TRY(take_part(m, 1, c, base, &in, in_signs ? DTYPE_I16 : DTYPE_F16, err));
    return take_part(m, 2, c, base, &out, out_signs ? DTYPE_I16 : DTYPE_F16, err);
}

/* ---- GGUF ---- */

static qp_status fetch_blocks(quant_matrix *m, const ckpt_tensor *t, qp_error *err) {
    if (t->rank != 2 || t->shape[0] != m->n_out || t->shape[1] != m->n_in)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: rank %d, [%lld, %lld], expected [%lld, %lld]", t->name, t->rank,
                       (long long)t->shape[0], (long long)t->shape[1], (long long)m->n_out, (long long)m->n_in);
    m->type = quant_find(t->format);
    if (!m->type) return err_set(err, QP_UNSUPPORTED, 0, "%s: blocks of type %s", t->name, t->format);
    m->parts[0] = t->data;
    m->part_bytes[0] = t->bytes;
    return QP_OK;
}

/* ---- MXFP4 of stacked experts ---- */

static qp_status take_woven(quant_matrix *m, int index, const checkpoint *c, const char *name, const char *ending,
                            const quantised_rows *which, const int64_t shape[4], int rank, qp_error *err) {
    const ckpt_tensor *t = woven_part(c, name, ending);
    if (!t) return err_set(err, QP_BAD_FORMAT, 0, "%s_%s: the checkpoint has no such tensor", name, ending);
    if (t->type != DTYPE_U8 || t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape))
        return err_set(err, QP_BAD_FORMAT, 0,
                       "%s: %s of rank %d, [%lld, %lld, %lld, ...], expected U8 of rank %d, [%lld, %lld, %lld, ...]",
                       t->name, dtype_name(t->type), t->rank, (long long)t->shape[0], (long long)t->shape[1],
                       (long long)t->shape[2], rank, (long long)shape[0], (long long)shape[1], (long long)shape[2]);
    const size_t row = t->bytes / (size_t)(which->experts * which->stored);
    m->parts[index] = t->data + (size_t)(which->expert * which->stored + which->first) * row;
    m->part_bytes[index] = (size_t)m->n_out * row;
    checkpoint_will_need(c, t);
    return QP_OK;
}

qp_status quantised_fetch_expert(quant_matrix *out, const checkpoint *c, const char *name, const quantised_rows *which,
                                 int64_t rows, int64_t cols, qp_error *err) {
    const int64_t shape[] = {which->experts, which->stored, cols / 32, 16};
    *out = (quant_matrix){
        .type = quant_type_of(QUANT_MXFP4_ROWS), .n_out = rows, .n_in = cols, .row_step = (int)which->step};
    ERR_TRY(take_woven(out, 0, c, name, "blocks", which, shape, 4, err));
    ERR_TRY(take_woven(out, 1, c, name, "scales", which, shape, 3, err));
    return quant_open(out, name, err);
}

/* ---- front ---- */

static qp_status fetch_by_name(quant_matrix *m, const checkpoint *c, const hf_quant *settings, const char *name,
                               qp_error *err) {
    char base[CKPT_MAX_NAME];
    const ckpt_tensor *plain = checkpoint_find(c, name);
    if (plain) {
        checkpoint_will_need(c, plain);
        if (plain->format) return fetch_blocks(m, plain, err);
    }
    if (!base_of(base, name)) return err_set(err, QP_INTERNAL, 0, "%s: no name of a weight", name);
    if (plain && plain->type == DTYPE_U8)
        return part_of(c, name, "absmax") ? fetch_nf4(m, c, plain, err) : fetch_nvfp4(m, c, base, err);
    if (plain) return fetch_coded(m, c, settings, plain, base, err);
    const ckpt_tensor *packed = part_of(c, base, "weight_packed");
    if (packed)
        return packed->type == DTYPE_U8 ? fetch_nvfp4(m, c, base, err) : fetch_packed(m, c, settings, base, err);
    if (part_of(c, base, "trellis")) return fetch_exl3(m, c, base, err);
    if (part_of(c, base, "q_weight")) return fetch_exl2(m, c, base, err);
    return settings->method == HF_QUANT_AWQ ? fetch_awq(m, c, settings, base, err)
                                            : fetch_gptq(m, c, settings, base, err);
}

qp_status quantised_fetch(quant_matrix *out, const checkpoint *c, const hf_quant *settings, const char *name,
                          int64_t rows, int64_t cols, qp_error *err) {
    *out = (quant_matrix){.n_out = rows, .n_in = cols};
    ERR_TRY(fetch_by_name(out, c, settings, name, err));
    return quant_open(out, name, err);
}
