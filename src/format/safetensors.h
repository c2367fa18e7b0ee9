/* safetensors.h — one file in the safetensors format, read in place and written.
 *
 * The format: 8 bytes little-endian header length, a JSON object {name: {dtype, shape, data_offsets}} with an optional
 * "__metadata__" of strings, then the data of all tensors without a gap. checkpoint.c opens files, the command `logits`
 * writes one. Reading checks everything the header claims against the file's size and touches no tensor data. The
 * tricky thing: the header is hostile, so every product and sum is checked before it becomes a pointer. */
#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include "base/file.h"
#include "base/mem.h"
#include "ckpt_tensor.h"
#include <jansson.h>

typedef struct safetensors {
    file_map map;         /* of safetensors_open */
    ckpt_tensor *tensors; /* in the order of their bytes */
    size_t n_tensors;
    uint64_t data_bytes;
    json_t *metadata; /* object of strings, or NULL */
    arena names;
} safetensors;

qp_status safetensors_open(safetensors *out, const char *path, qp_error *err);
/* The same from memory, which must outlive it; `where` begins the errors. */
qp_status safetensors_parse(safetensors *out, const uint8_t *at, size_t bytes, const char *where, qp_error *err);
void safetensors_close(safetensors *f);
/* NULL where there is none. */
const char *safetensors_metadata(const safetensors *f, const char *key);

/* What to write: data may lie anywhere in memory; rank and shape give its size. */
typedef struct safetensors_item {
    const char *name;
    dtype type;
    int rank;
    const int64_t *shape;
    const void *data;
} safetensors_item;

/* Writes a whole file that appears under `path` complete or not at all. Tensors lie in the order given. `metadata` is
 * key, value, key, value, ..., NULL; or NULL. */
qp_status safetensors_write(const char *path, const safetensors_item *items, size_t n_items,
                            const char *const *metadata, qp_error *err);

/* Bytes of a tensor; false where the product overflows or the bits do not fill whole bytes. */
bool safetensors_size(size_t *bytes, dtype type, int rank, const int64_t *shape);

#endif
