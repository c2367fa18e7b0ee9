/* gguf.c — header of a GGUF file -> checked metadata and tensors.
 *
 * Called by checkpoint.c and gguf_meta.c. Order in the file: magic, version, counts, key-value pairs, descriptions of
 * tensors, padding, data. A reader walks along it and every step asks first whether so many bytes are left. */
#include "gguf.h"
#include "base/utf8.h"
#include <stdio.h>
#include <string.h>

enum {
    MAX_VALUES = 1 << 16,
    MAX_TENSORS = 1 << 20,
    MAX_KEY = 65535,
    MAX_TENSOR_RANK = 4,
    LEAST_VALUE = 13, /* bytes of a key-value pair: an empty key, a kind, one byte */
    LEAST_TENSOR = 32,
    MAX_ENTRIES = 100000, /* of a folder */
};

static const gguf_type types[] = {
    {0, "f32", DTYPE_F32, 1, 4},        {1, "f16", DTYPE_F16, 1, 2},        {30, "bf16", DTYPE_BF16, 1, 2},
    {2, "q4_0", DTYPE_U8, 32, 18},      {3, "q4_1", DTYPE_U8, 32, 20},      {6, "q5_0", DTYPE_U8, 32, 22},
    {7, "q5_1", DTYPE_U8, 32, 24},      {8, "q8_0", DTYPE_U8, 32, 34},      {10, "q2_k", DTYPE_U8, 256, 84},
    {11, "q3_k", DTYPE_U8, 256, 110},   {12, "q4_k", DTYPE_U8, 256, 144},   {13, "q5_k", DTYPE_U8, 256, 176},
    {14, "q6_k", DTYPE_U8, 256, 210},   {16, "iq2_xxs", DTYPE_U8, 256, 66}, {17, "iq2_xs", DTYPE_U8, 256, 74},
    {18, "iq3_xxs", DTYPE_U8, 256, 98}, {19, "iq1_s", DTYPE_U8, 256, 50},   {20, "iq4_nl", DTYPE_U8, 32, 18},
    {21, "iq3_s", DTYPE_U8, 256, 110},  {22, "iq2_s", DTYPE_U8, 256, 82},   {23, "iq4_xs", DTYPE_U8, 256, 136},
    {29, "iq1_m", DTYPE_U8, 256, 56},   {34, "tq1_0", DTYPE_U8, 256, 54},   {35, "tq2_0", DTYPE_U8, 256, 66},
    {39, "mxfp4", DTYPE_U8, 32, 17},
};

const gguf_type *gguf_type_at(size_t i) { return i < sizeof types / sizeof *types ? &types[i] : NULL; }

static const gguf_type *find_type(uint32_t id) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

static bool is_named_gguf(const char *path) {
    const size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".gguf");
}

/* Metadata is in the first split: whichever is named, that one is meant. */
static void name_first_split(char *path) {
    const size_t bytes = strlen(path), tail = strlen("-00001-of-00001.gguf");
    int number, total, end = 0;
    char *at = bytes > tail ? path + bytes - tail : path + bytes;
    if (sscanf(at, "-%5d-of-%5d.gguf%n", &number, &total, &end) == 2 && (size_t)end == tail) memcpy(at + 1, "00001", 5);
}

bool gguf_at(char *out, size_t capacity, const char *path) {
    if (is_named_gguf(path) && !file_is_folder(path)) {
        if (snprintf(out, capacity, "%s", path) >= (int)capacity) return false;
        name_first_split(out);
        return true;
    }
    if (!file_is_folder(path) || file_join(out, capacity, path, "config.json", NULL) || file_exists(out)) return false;
    if (file_find(out, capacity, path, ".gguf", NULL) == QP_OK && *out) return true;
    char **names;
    size_t count, found = 0;
    if (file_list(&names, &count, path, MAX_ENTRIES, NULL)) return false;
    for (size_t i = 0; i < count; i++)
        if (is_named_gguf(names[i]) && strstr(names[i], "-00001-of-") && !found++)
            if (file_join(out, capacity, path, names[i], NULL)) found = 2;
    mem_free(names);
    return found == 1;
}

/* ---- walking ---- */

typedef struct reader {
    gguf *g;
    const char *where;
    const uint8_t *file;
    size_t bytes, at;
    qp_error *err;
} reader;

static qp_status cut_short(const reader *r, const char *what) {
    return err_set(r->err, QP_BAD_FORMAT, r->at, "%s: %s at byte %zu does not fit the file's %zu bytes", r->where, what,
                   r->at, r->bytes);
}

static uint64_t number_at(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | at[i];
    return value;
}

static qp_status read_number(reader *r, uint64_t *out, size_t bytes, const char *what) {
    if (r->bytes - r->at < bytes) return cut_short(r, what);
    *out = number_at(r->file + r->at, bytes);
    r->at += bytes;
    return QP_OK;
}

static qp_status read_text(reader *r, span *out, const char *what) {
    uint64_t length = 0;
    ERR_TRY(read_number(r, &length, 8, what));
    if (length > r->bytes - r->at) return cut_short(r, what);
    *out = (span){(const char *)r->file + r->at, (size_t)length};
    r->at += (size_t)length;
    return QP_OK;
}

/* ---- metadata ---- */

/* Bytes of a single value; 0 for strings and arrays. */
static size_t kind_bytes(gguf_kind kind) {
    static const uint8_t bytes[GGUF_KIND_COUNT] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    return bytes[kind];
}

static qp_status bad_kind(const reader *r, span key, uint64_t kind) {
    return err_set(r->err, QP_BAD_FORMAT, r->at, "%s: \"%.*s\" is of kind %llu, allowed are 0 to %d", r->where,
                   (int)(key.bytes > 60 ? 60 : key.bytes), key.at, (unsigned long long)kind, GGUF_KIND_COUNT - 1);
}

static qp_status skip_elements(reader *r, const gguf_value *v) {
    span text;
    const size_t each = kind_bytes(v->kind);
    if (each && v->count > (r->bytes - r->at) / each) return cut_short(r, "an array");
    r->at += (size_t)v->count * each;
    for (uint64_t i = 0; !each && i < v->count; i++) ERR_TRY(read_text(r, &text, "a string of an array"));
    return QP_OK;
}

static qp_status read_value(reader *r, gguf_value *v) {
    uint64_t kind = 0;
    *v = (gguf_value){.count = 1};
    ERR_TRY(read_text(r, &v->key, "a key"));
    if (v->key.bytes > MAX_KEY || memchr(v->key.at, 0, v->key.bytes))
        return err_set(r->err, QP_BAD_FORMAT, r->at, "%s: a key of %zu bytes, allowed are %d without zeros", r->where,
                       v->key.bytes, MAX_KEY);
    ERR_TRY(read_number(r, &kind, 4, "a kind"));
    if (kind >= GGUF_KIND_COUNT) return bad_kind(r, v->key, kind);
    v->is_array = kind == GGUF_ARRAY;
    if (v->is_array) {
        ERR_TRY(read_number(r, &kind, 4, "the kind of an array"));
        if (kind >= GGUF_KIND_COUNT || kind == GGUF_ARRAY) return bad_kind(r, v->key, kind);
        ERR_TRY(read_number(r, &v->count, 8, "the length of an array"));
    }
    v->kind = (gguf_kind)kind;
    v->at = r->file + r->at;
    return skip_elements(r, v);
}

static qp_status read_values(reader *r, uint64_t n) {
    if (n > MAX_VALUES || n > (r->bytes - r->at) / LEAST_VALUE)
        return err_set(r->err, QP_BAD_FORMAT, 16, "%s: %llu key-value pairs, allowed are %d and what fits the file",
                       r->where, (unsigned long long)n, MAX_VALUES);
    r->g->values = mem_zarray((size_t)n, sizeof *r->g->values);
    if (!r->g->values) return err_no_memory(r->err, (size_t)n * sizeof *r->g->values, r->where);
    for (; r->g->n_values < n; r->g->n_values++) ERR_TRY(read_value(r, &r->g->values[r->g->n_values]));
    return QP_OK;
}

/* ---- tensors ---- */

static qp_status bad_tensor(const reader *r, const ckpt_tensor *t, const char *what, uint64_t found) {
    char shown[64];
    return err_set(r->err, QP_BAD_FORMAT, r->at, "%s: tensor \"%s\": %s %llu", r->where,
                   utf8_shown(shown, sizeof shown, t->name), what, (unsigned long long)found);
}

/* The file has the fastest dimension first. */
static qp_status read_shape(reader *r, ckpt_tensor *t) {
    uint64_t rank = 0, side = 0;
    ERR_TRY(read_number(r, &rank, 4, "a number of dimensions"));
    if (rank < 1 || rank > MAX_TENSOR_RANK) return bad_tensor(r, t, "dimensions: 1 to 4 are allowed, not", rank);
    t->rank = (int)rank;
    for (int i = t->rank; i-- > 0;) {
        ERR_TRY(read_number(r, &side, 8, "a dimension"));
        if (side > INT64_MAX) return bad_tensor(r, t, "a dimension of", side);
        t->shape[i] = (int64_t)side;
    }
    return QP_OK;
}

static qp_status read_type(reader *r, ckpt_tensor *t) {
    uint64_t id = 0;
    ERR_TRY(read_number(r, &id, 4, "a type"));
    const gguf_type *type = find_type((uint32_t)id);
    if (!type) return bad_tensor(r, t, "is of a type that this engine does not know, number", id);
    t->type = type->type;
    t->format = type->type == DTYPE_U8 ? type->name : NULL;
    size_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (!mem_mul(n, (size_t)t->shape[i], &n))
            return bad_tensor(r, t, "its size overflows in dimension", (uint64_t)i);
    if (t->shape[t->rank - 1] % type->weights)
        return bad_tensor(r, t, "rows do not fill blocks; weights of a row:", (uint64_t)t->shape[t->rank - 1]);
    if (!mem_mul(n / type->weights, type->bytes, &t->bytes)) return bad_tensor(r, t, "too large; weights:", n);
    return QP_OK;
}

/* *offset: from the beginning of the data. */
static qp_status read_tensor(reader *r, ckpt_tensor *t, uint64_t *offset) {
    span name = {0};
    ERR_TRY(read_text(r, &name, "the name of a tensor"));
    if (!name.bytes || name.bytes > CKPT_MAX_NAME || memchr(name.at, 0, name.bytes))
        return err_set(r->err, QP_BAD_FORMAT, r->at, "%s: the name of a tensor has %zu bytes, allowed are 1 to %d",
                       r->where, name.bytes, CKPT_MAX_NAME);
    t->name = arena_text(&r->g->names, name.at, name.bytes);
    if (!t->name) return err_no_memory(r->err, name.bytes, r->where);
    ERR_TRY(read_shape(r, t));
    ERR_TRY(read_type(r, t));
    return read_number(r, offset, 8, "an offset");
}

static qp_status read_alignment(const reader *r, uint64_t *out) {
    int64_t alignment = 32;
    const gguf_value *v = gguf_find(r->g, "general.alignment");
    *out = 32;
    if (!v) return QP_OK;
    if (!gguf_int(v, 0, &alignment) || alignment < 1 || alignment > 1 << 20 || alignment & (alignment - 1))
        return err_set(r->err, QP_BAD_FORMAT, (uint64_t)(v->at - r->file),
                       "%s: \"general.alignment\" is no power of two up to 2^20", r->where);
    *out = (uint64_t)alignment;
    return QP_OK;
}

static qp_status place_tensors(reader *r, const uint64_t *offsets) {
    uint64_t alignment;
    ERR_TRY(read_alignment(r, &alignment));
    const size_t begin = (size_t)((r->at + alignment - 1) / alignment * alignment);
    const size_t left = begin < r->bytes ? r->bytes - begin : 0;
    for (size_t i = 0; i < r->g->n_tensors; i++) {
        ckpt_tensor *t = &r->g->tensors[i];
        if (offsets[i] % alignment) return bad_tensor(r, t, "its offset is no multiple of the alignment:", offsets[i]);
        if (offsets[i] > left || t->bytes > left - offsets[i])
            return bad_tensor(r, t, "does not fit the file; it begins at data byte", offsets[i]);
        t->data = r->file + begin + offsets[i];
        r->g->data_bytes += t->bytes;
    }
    return QP_OK;
}

static qp_status read_tensors(reader *r, uint64_t n) {
    if (n > MAX_TENSORS || n > (r->bytes - r->at) / LEAST_TENSOR)
        return err_set(r->err, QP_BAD_FORMAT, 8, "%s: %llu tensors, allowed are %d and what fits the file", r->where,
                       (unsigned long long)n, MAX_TENSORS);
    uint64_t *offsets = mem_zarray((size_t)n, sizeof *offsets);
    r->g->tensors = mem_zarray((size_t)n, sizeof *r->g->tensors);
    qp_status status = offsets && r->g->tensors ? QP_OK : err_no_memory(r->err, (size_t)n * sizeof *offsets, r->where);
    for (size_t i = 0; i < n && status == QP_OK; i++) {
        status = read_tensor(r, &r->g->tensors[i], &offsets[i]);
        r->g->n_tensors = i + 1;
    }
    if (status == QP_OK) status = place_tensors(r, offsets);
    mem_free(offsets);
    return status;
}

/* ---- the file ---- */

static qp_status read_file(reader *r) {
    uint64_t magic = 0, version = 0, n_tensors = 0, n_values = 0;
    if (r->bytes < 24 || memcmp(r->file, "GGUF", 4))
        return err_set(r->err, QP_BAD_FORMAT, 0, "%s: not a GGUF file: it does not begin with \"GGUF\" and a header",
                       r->where);
    ERR_TRY(read_number(r, &magic, 4, "the magic"));
    ERR_TRY(read_number(r, &version, 4, "the version"));
    if (version != 2 && version != 3)
        return err_set(r->err, QP_UNSUPPORTED, 4, "%s: GGUF version %llu, supported are 2 and 3 (little-endian)",
                       r->where, (unsigned long long)version);
    ERR_TRY(read_number(r, &n_tensors, 8, "the number of tensors"));
    ERR_TRY(read_number(r, &n_values, 8, "the number of key-value pairs"));
    ERR_TRY(read_values(r, n_values));
    return read_tensors(r, n_tensors);
}

qp_status gguf_parse(gguf *out, const uint8_t *at, size_t bytes, const char *where, qp_error *err) {
    *out = (gguf){0};
    reader r = {.g = out, .where = where, .file = at, .bytes = bytes, .err = err};
    const qp_status status = read_file(&r);
    if (status != QP_OK) gguf_close(out);
    return status;
}

qp_status gguf_open(gguf *out, const char *path, qp_error *err) {
    file_map map;
    *out = (gguf){0};
    ERR_TRY(file_map_open(&map, path, err));
    const qp_status status = gguf_parse(out, map.at, map.bytes, path, err);
    if (status == QP_OK)
        out->map = map;
    else
        file_map_close(&map);
    return status;
}

void gguf_close(gguf *g) {
    file_map_close(&g->map);
    mem_free(g->values);
    mem_free(g->tensors);
    arena_free(&g->names);
    *g = (gguf){0};
}

/* ---- questions ---- */

const gguf_value *gguf_find(const gguf *g, const char *key) {
    for (size_t i = 0; i < g->n_values; i++)
        if (span_is(g->values[i].key, key)) return &g->values[i];
    return NULL;
}

bool gguf_int(const gguf_value *v, uint64_t i, int64_t *out) {
    if (!v || i >= v->count || v->kind == GGUF_STRING || v->kind == GGUF_F32 || v->kind == GGUF_F64) return false;
    const size_t bytes = kind_bytes(v->kind);
    const uint64_t bits = number_at(v->at + (size_t)i * bytes, bytes);
    const bool has_sign = v->kind == GGUF_I8 || v->kind == GGUF_I16 || v->kind == GGUF_I32 || v->kind == GGUF_I64;
    const unsigned unused = 64 - 8 * (unsigned)bytes;
    if (!has_sign && bits > INT64_MAX) return false;
    *out = has_sign ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
    return true;
}

bool gguf_real(const gguf_value *v, uint64_t i, double *out) {
    int64_t whole;
    if (gguf_int(v, i, &whole)) return *out = (double)whole, true;
    if (!v || i >= v->count || v->kind == GGUF_STRING) return false;
    if (v->kind == GGUF_F64) {
        memcpy(out, v->at + (size_t)i * 8, 8);
        return true;
    }
    float value;
    if (v->kind != GGUF_F32) return false;
    memcpy(&value, v->at + (size_t)i * 4, 4);
    *out = (double)value;
    return true;
}

static span text_at(const uint8_t *at) { return (span){(const char *)at + 8, (size_t)number_at(at, 8)}; }

bool gguf_text(const gguf_value *v, span *out) {
    if (!v || v->is_array || v->kind != GGUF_STRING) return false;
    *out = text_at(v->at);
    return true;
}

bool gguf_next_text(const gguf_value *v, const uint8_t **at, uint64_t *i, span *out) {
    if (!v || !v->is_array || v->kind != GGUF_STRING) return false;
    if (!*at) {
        *at = v->at;
        *i = 0;
    }
    if (*i >= v->count) return false;
    *out = text_at(*at);
    *at += 8 + out->bytes;
    ++*i;
    return true;
}
