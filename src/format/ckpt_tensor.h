/* ckpt_tensor.h — one named tensor where it lies in a mapped file: what every container format is read into.
 *
 * safetensors.c makes them, checkpoint.c joins those of all files, bind.c asks for them by name. The bytes have been
 * checked to lie inside the mapping and to match type and shape. They may start at any address: the format does not
 * promise that elements are aligned. */
#ifndef FORMAT_CKPT_TENSOR_H
#define FORMAT_CKPT_TENSOR_H

#include "dtype.h"

enum { CKPT_MAX_RANK = 8, CKPT_MAX_NAME = 1024 };

typedef struct ckpt_tensor {
    const char *name;
    dtype type;
    const char *format;           /* of quantised blocks: their name ("q4_k"), shape counts weights; else NULL */
    int rank;                     /* 0: a single element */
    int64_t shape[CKPT_MAX_RANK]; /* rank entries, slowest first; the others are 0 */
    const uint8_t *data;
    size_t bytes;
    int file; /* which of the checkpoint's files */
} ckpt_tensor;

#endif
