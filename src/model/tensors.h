/* tensors.h — the weights of a model out of its checkpoint: each slot found by name, checked, cut out of what it is
 * stored with. */
#ifndef MODEL_TENSORS_H
#define MODEL_TENSORS_H

#include "arch.h"
#include "naming.h"

/* Copies of what cannot be read where it lies. */
typedef struct tensor_source {
    const checkpoint *files;
    const model_shape *shape;
    naming how;
    struct tensors_block {
        void *memory;
        size_t bytes;
    } * blocks;
    int n_blocks, capacity;
} tensor_source;

void tensors_open(tensor_source *out, const checkpoint *files, const arch_row *arch, const model_shape *shape);
void tensors_close(tensor_source *t);
/* Checks that the tensor of a slot is there with the shape it must have, without reading it. */
qp_status tensors_check(const tensor_source *t, const slot_row *row, int layer, int member, qp_error *err);
/* Its type and sizes; of a quantised one the parts as well. The caller closes it. */
qp_status tensors_look(const tensor_source *t, const slot_row *row, int layer, int member, quant_matrix *out,
                       qp_error *err);
/* The slot as a matrix [rows, cols] ([rows, 1] for a vector), in the mapping where it lies row by row, else copied. It
 * lives as long as `t` and the checkpoint. */
qp_status tensors_fetch(tensor_source *t, const slot_row *row, int layer, int member, quant_matrix *out, qp_error *err);
/* The matrix has been re-laid: gives its pages of the files back, unless others lie woven into them. */
void tensors_release(const tensor_source *t, const quant_matrix *m);

/* Rows of the matrix that the slot is part of, and which of them is row `row` of the slot. Not for parts of heads. */
int64_t tensors_stored_rows(const model_shape *s, const slot_row *row);
int64_t tensors_stored_row(const model_shape *s, const slot_row *of, int64_t row);

#endif
