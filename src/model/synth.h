/* synth.h — models of random weights in memory, for benchmarks and tests: speed does not depend on values. */
#ifndef MODEL_SYNTH_H
#define MODEL_SYNTH_H

#include "bind.h"

/* Memory of all made weights. */
typedef struct synth {
    const quant_type *type;
    double exl2_bits;  /* of products; the rest is of `type` */
    quant_id products; /* FP8: of products but the head; GPTQ: the head too; otherwise they are as the rest */
    uint64_t seed;
    struct synth_block {
        void *memory;
        size_t bytes;
    } * blocks;
    int n_blocks, capacity;
    struct synth_grid {
        int64_t rows, cols;
        uint8_t *memory;
    } grids[16]; /* zeros and scales of GPTQ matrices, which those of a shape share */
    int n_grids;
} synth;

/* 0, 1, ... until NULL. */
const char *synth_shape_name(int index);
/* The shape of a known model; an unknown name is an error that lists the known ones. */
qp_status synth_shape(model_shape *out, const arch_row **arch, const char *name, qp_error *err);
/* Weights of about the size that keeps activations near 1; norms are 1, biases 0. */
qp_status synth_open(synth *out, const char *format, uint64_t seed, qp_error *err);
weight_source synth_source(synth *s);
void synth_close(synth *s);

#endif
