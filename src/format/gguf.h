/* gguf.h — one file in the GGUF format (versions 2 and 3), read in place: typed metadata and tensors.
 *
 * checkpoint.c takes the tensors, gguf_config.c and gguf_text.c turn the metadata into the documents that other
 * formats bring along as files. Reading checks everything that the header claims against the file's size and touches no
 * tensor data; strings inside arrays are checked too, so walking them later cannot fail. The tricky thing: the header
 * is hostile, and there is no count in it that does not have to be covered by bytes that follow. */
#ifndef FORMAT_GGUF_H
#define FORMAT_GGUF_H

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt_tensor.h"

typedef enum gguf_kind {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KIND_COUNT
} gguf_kind;

typedef struct gguf_value {
    span key;
    gguf_kind kind; /* of the value or, of an array, of its elements */
    bool is_array;
    uint64_t count; /* elements; 1 of what is no array */
    const uint8_t *at;
} gguf_value;

typedef struct gguf {
    file_map map; /* of gguf_open */
    gguf_value *values;
    size_t n_values;
    ckpt_tensor *tensors; /* names as in the file */
    size_t n_tensors;
    uint64_t data_bytes; /* of all tensors */
    arena names;
} gguf;

qp_status gguf_open(gguf *out, const char *path, qp_error *err);
/* The same from memory, which must outlive it; `where` begins the errors. */
qp_status gguf_parse(gguf *out, const uint8_t *at, size_t bytes, const char *where, qp_error *err);
void gguf_close(gguf *g);

/* The GGUF file that a model's path means: the path itself, or the only one (or the first split) in a folder without
 * config.json. False where it means none. */
bool gguf_at(char *out, size_t capacity, const char *path);

/* ---- metadata ---- */

/* NULL where there is none. */
const gguf_value *gguf_find(const gguf *g, const char *key);
/* Element i of a value: false where the value is NULL, of another kind or shorter. Whole numbers of all widths and
 * bools are integers; they and floats are reals. */
bool gguf_int(const gguf_value *v, uint64_t i, int64_t *out);
bool gguf_real(const gguf_value *v, uint64_t i, double *out);
bool gguf_text(const gguf_value *v, span *out); /* a single string */
/* The strings of an array one after the other: *at begins as NULL and moves; false behind the last. */
bool gguf_next_text(const gguf_value *v, const uint8_t **at, uint64_t *i, span *out);

/* ---- types of tensors ---- */

typedef struct gguf_type {
    uint32_t id;
    const char *name;        /* as quant.h calls the format */
    dtype type;              /* of plain ones; U8 stands for blocks */
    uint32_t weights, bytes; /* of a block */
} gguf_type;

/* 0, 1, ... until NULL. */
const gguf_type *gguf_type_at(size_t i);

#endif
