/* safetensors.c — header of a safetensors file -> checked tensors.
 *
 * Called by checkpoint.c. Stages: where the header lies, JSON, each tensor by itself (type, shape, bytes), then all
 * together (no gap, no overlap, nothing left over). Accepts what the reference library accepts except where noted in
 * the test: names twice, more than CKPT_MAX_RANK dimensions, names that are no C string. The tricky thing: a small
 * header can ask jansson for a great deal of memory, so values are counted before they are parsed. */
#include "safetensors.h"
#include "base/json.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8,
    HEADER_LIMIT = 100 * 1000 * 1000, /* the reference's */
    VALUE_LIMIT = 2 * 1000 * 1000,
    OBJECT_LIMIT = 250 * 1000, /* tensors: each is an object */
};

typedef struct reader {
    safetensors *f;
    const char *where;
    const uint8_t *data; /* behind the header */
    size_t data_at, data_bytes;
    qp_error *err;
} reader;

static qp_status refuse(const reader *r, const char *name, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static qp_status refuse(const reader *r, const char *name, uint64_t offset, const char *format, ...) {
    char shown[64], text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return err_set(r->err, QP_BAD_FORMAT, offset, "%s: tensor \"%s\": %s", r->where,
                   utf8_shown(shown, sizeof shown, name), text);
}

/* ---- the header as bytes and as JSON ---- */

static uint64_t little_endian(const uint8_t at[LENGTH_BYTES]) {
    uint64_t value = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

static qp_status find_header(size_t *bytes, const uint8_t *at, size_t file_bytes, const char *where, qp_error *err) {
    if (file_bytes < LENGTH_BYTES)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %zu bytes, a safetensors file has at least %d", where, file_bytes,
                       LENGTH_BYTES);
    const uint64_t length = little_endian(at);
    if (length > HEADER_LIMIT)
        return err_set(err, QP_BAD_FORMAT, 0,
                       "%s: the header's length is %llu, allowed are %d; not a safetensors file?", where,
                       (unsigned long long)length, HEADER_LIMIT);
    if (length > file_bytes - LENGTH_BYTES)
        return err_set(err, QP_BAD_FORMAT, file_bytes, "%s: the header's length is %llu, but only %zu bytes follow",
                       where, (unsigned long long)length, file_bytes - LENGTH_BYTES);
    *bytes = (size_t)length;
    return QP_OK;
}

/* Bounds the memory that parsing may take; characters inside strings count too, which only makes it stricter. */
static qp_status count_values(const char *text, size_t bytes, const char *where, qp_error *err) {
    size_t values = 0, objects = 0;
    for (size_t i = 0; i < bytes; i++) {
        objects += text[i] == '{';
        values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    if (values <= VALUE_LIMIT && objects <= OBJECT_LIMIT) return QP_OK;
    return err_set(err, QP_TOO_LARGE, LENGTH_BYTES,
                   "%s: the header has %zu objects and %zu values, allowed are %d and %d", where, objects, values,
                   OBJECT_LIMIT, VALUE_LIMIT);
}

static qp_status parse_header(json_t **out, const char *text, size_t bytes, const char *where, qp_error *err) {
    *out = NULL;
    ERR_TRY(count_values(text, bytes, where, err));
    json_error_t why;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!root && json_error_code(&why) == json_error_out_of_memory) return err_no_memory(err, bytes, where);
    if (!root)
        return err_set(err, QP_BAD_FORMAT, LENGTH_BYTES + (uint64_t)(why.position < 0 ? 0 : why.position),
                       "%s: the header is not valid JSON at line %d, column %d: %s", where, why.line, why.column,
                       why.text);
    *out = root;
    if (json_is_object(root)) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, LENGTH_BYTES, "%s: the header is not a JSON object", where);
}

/* ---- one tensor ---- */

static qp_status read_type(const reader *r, ckpt_tensor *t, const json_t *entry) {
    const json_t *value = json_object_get(entry, "dtype");
    if (!json_is_string(value))
        return refuse(r, t->name, LENGTH_BYTES, "\"dtype\" is %s, expected a string", json_kind(value));
    if (dtype_find(&t->type, json_string_value(value), json_string_length(value))) return QP_OK;
    char shown[64];
    return refuse(r, t->name, LENGTH_BYTES, "\"dtype\" is \"%s\", which is no type of this format",
                  utf8_shown(shown, sizeof shown, json_string_value(value)));
}

static qp_status read_shape(const reader *r, ckpt_tensor *t, const json_t *entry) {
    const json_t *value = json_object_get(entry, "shape");
    if (!json_is_array(value))
        return refuse(r, t->name, LENGTH_BYTES, "\"shape\" is %s, expected an array", json_kind(value));
    if (json_array_size(value) > CKPT_MAX_RANK)
        return refuse(r, t->name, LENGTH_BYTES, "\"shape\" has %zu dimensions, allowed are %d", json_array_size(value),
                      CKPT_MAX_RANK);
    t->rank = (int)json_array_size(value);
    for (int i = 0; i < t->rank; i++) {
        const json_t *side = json_array_get(value, (size_t)i);
        if (!json_is_integer(side) || json_integer_value(side) < 0)
            return refuse(r, t->name, LENGTH_BYTES, "\"shape\"[%d] is %s, expected an integer of at least 0", i,
                          json_is_integer(side) ? "negative" : json_kind(side));
        t->shape[i] = json_integer_value(side);
    }
    return QP_OK;
}

/* *begin, *end: a piece of the data that lies inside the file. */
static qp_status read_offsets(const reader *r, const char *name, const json_t *entry, size_t *begin, size_t *end) {
    const json_t *value = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(value, 0), *to = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return refuse(r, name, LENGTH_BYTES, "\"data_offsets\" is %s, expected an array of two integers",
                      json_is_array(value) ? "another array" : json_kind(value));
    const json_int_t a = json_integer_value(from), b = json_integer_value(to);
    if (a < 0 || b < a)
        return refuse(r, name, LENGTH_BYTES, "\"data_offsets\" are %lld to %lld, expected 0 <= begin <= end",
                      (long long)a, (long long)b);
    if ((uint64_t)b > r->data_bytes)
        return refuse(r, name, r->data_at + r->data_bytes,
                      "\"data_offsets\" end at %lld, but the file has %zu bytes of data", (long long)b, r->data_bytes);
    *begin = (size_t)a;
    *end = (size_t)b;
    return QP_OK;
}

bool safetensors_size(size_t *bytes, dtype type, int rank, const int64_t *shape) {
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || !mem_mul(n, (size_t)shape[i], &n)) return false;
    if (!mem_mul(n, (size_t)dtype_bits(type), &n) || n % 8) return false;
    *bytes = n / 8;
    return true;
}

static void shape_for_people(char out[96], const ckpt_tensor *t) {
    int n = snprintf(out, 96, "[");
    for (int i = 0; i < t->rank && n < 80; i++)
        n += snprintf(out + n, 96 - (size_t)n, i ? ", %lld" : "%lld", (long long)t->shape[i]);
    if (n > 94) n = 94;
    snprintf(out + n, 96 - (size_t)n, "]");
}

static qp_status check_size(const reader *r, const ckpt_tensor *t) {
    size_t bytes;
    char shape[96];
    shape_for_people(shape, t);
    const uint64_t at = r->data_at + (uint64_t)(t->data - r->data);
    if (!safetensors_size(&bytes, t->type, t->rank, t->shape))
        return refuse(r, t->name, at, "shape %s of %s is too large or does not fill whole bytes", shape,
                      dtype_name(t->type));
    if (bytes == t->bytes) return QP_OK;
    return refuse(r, t->name, at, "shape %s of %s needs %zu bytes, \"data_offsets\" give %zu", shape,
                  dtype_name(t->type), bytes, t->bytes);
}

static qp_status read_tensor(const reader *r, ckpt_tensor *t, const char *name, const json_t *entry) {
    const size_t name_bytes = strlen(name);
    if (name_bytes > CKPT_MAX_NAME)
        return refuse(r, name, LENGTH_BYTES, "the name has %zu bytes, allowed are %d", name_bytes, CKPT_MAX_NAME);
    if (!json_is_object(entry))
        return refuse(r, name, LENGTH_BYTES, "the entry is %s, expected an object", json_kind(entry));
    t->name = arena_text(&r->f->names, name, name_bytes);
    if (!t->name) return err_no_memory(r->err, name_bytes, r->where);
    size_t begin = 0, end = 0;
    ERR_TRY(read_type(r, t, entry));
    ERR_TRY(read_shape(r, t, entry));
    ERR_TRY(read_offsets(r, t->name, entry, &begin, &end));
    t->data = r->data + begin;
    t->bytes = end - begin;
    return check_size(r, t);
}

/* ---- all tensors ---- */

static int by_place(const void *left, const void *right) {
    const ckpt_tensor *a = left, *b = right;
    if (a->data != b->data) return a->data < b->data ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Sorted by place, each must begin where the one before ends, and the last end with the file. */
static qp_status check_cover(const reader *r) {
    const safetensors *f = r->f;
    size_t reached = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const ckpt_tensor *t = &f->tensors[i];
        const size_t begin = (size_t)(t->data - r->data);
        char before[64] = "the header";
        if (i) utf8_shown(before, sizeof before, f->tensors[i - 1].name);
        if (begin != reached)
            return refuse(r, t->name, r->data_at + begin, "begins at byte %zu of the data, but %s ends at %zu: %s",
                          begin, before, reached, begin > reached ? "a hole" : "they overlap");
        reached += t->bytes;
    }
    if (reached == r->data_bytes) return QP_OK;
    return err_set(r->err, QP_BAD_FORMAT, r->data_at + reached,
                   "%s: the tensors end at byte %zu of the data, but the file has %zu bytes of it", r->where, reached,
                   r->data_bytes);
}

static qp_status keep_metadata(const reader *r, json_t *value) {
    const char *key;
    json_t *text;
    if (json_is_null(value)) return QP_OK;
    if (!json_is_object(value))
        return err_set(r->err, QP_BAD_FORMAT, LENGTH_BYTES, "%s: \"__metadata__\" is %s, expected an object", r->where,
                       json_kind(value));
    json_object_foreach(value, key, text) {
        char shown[64];
        if (!json_is_string(text))
            return err_set(r->err, QP_BAD_FORMAT, LENGTH_BYTES, "%s: \"__metadata__\": \"%s\" is %s, expected a string",
                           r->where, utf8_shown(shown, sizeof shown, key), json_kind(text));
    }
    r->f->metadata = json_incref(value);
    return QP_OK;
}

static qp_status read_entries(const reader *r, json_t *root) {
    safetensors *f = r->f;
    const char *name;
    json_t *entry;
    f->tensors = mem_zarray(json_object_size(root), sizeof *f->tensors);
    if (!f->tensors) return err_no_memory(r->err, json_object_size(root) * sizeof *f->tensors, r->where);
    json_object_foreach(root, name, entry) {
        if (!strcmp(name, "__metadata__"))
            ERR_TRY(keep_metadata(r, entry));
        else
            ERR_TRY(read_tensor(r, &f->tensors[f->n_tensors++], name, entry));
    }
    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_place);
    return check_cover(r);
}

qp_status safetensors_parse(safetensors *out, const uint8_t *at, size_t bytes, const char *where, qp_error *err) {
    *out = (safetensors){0};
    size_t header_bytes = 0;
    ERR_TRY(find_header(&header_bytes, at, bytes, where, err));
    json_t *root = NULL;
    qp_status status = parse_header(&root, (const char *)at + LENGTH_BYTES, header_bytes, where, err);
    const size_t data_at = LENGTH_BYTES + header_bytes;
    const reader r = {out, where, at + data_at, data_at, bytes - data_at, err};
    if (status == QP_OK) status = read_entries(&r, root);
    json_decref(root);
    out->data_bytes = r.data_bytes;
    if (status != QP_OK) safetensors_close(out);
    return status;
}

qp_status safetensors_open(safetensors *out, const char *path, qp_error *err) {
    file_map map;
    *out = (safetensors){0};
    ERR_TRY(file_map_open(&map, path, err));
    const qp_status status = safetensors_parse(out, map.at, map.bytes, path, err);
    if (status == QP_OK)
        out->map = map;
    else
        file_map_close(&map);
    return status;
}

void safetensors_close(safetensors *f) {
    file_map_close(&f->map);
    mem_free(f->tensors);
    arena_free(&f->names);
    json_decref(f->metadata);
    *f = (safetensors){0};
}

const char *safetensors_metadata(const safetensors *f, const char *key) {
    return json_string_value(json_object_get(f->metadata, key));
}
