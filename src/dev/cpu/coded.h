/* coded.h — floats by code that kernels read where they lie: which weights those are, and their scales.
 *
 * Made by cpu.c when a weight is packed, read by tiles_matmul.inc. Codes become floats on their way into a register by
 * a shift, as float16 bits, or by a table. E4m3 as float16 bits is 2^8 too small, which its scales make up for:
 * exactly, unless they overflow. */
#ifndef DEV_CPU_CODED_H
#define DEV_CPU_CODED_H

#include "cpu.h"

/* Inputs that have one scale, as kernels take them; codes of 8 bits without their sign. */
enum { CODED_STEP = 64, CODED_SIZES = 128 };

/* Kernels name kinds of codes by a format that has them. */
static inline bool is_coded(quant_id type) { return type >= QUANT_PLAIN_COUNT; }
/* Of n weights; of 4 bits whole bytes of them. */
static inline size_t bytes_of(quant_id type, int64_t n) {
    if (type == QUANT_NF4) return (size_t)n / 2;
    return (size_t)n * (is_coded(type) ? 1 : type == QUANT_F32 ? 4 : 2);
}

/* A weight's dev_weight.owned. Rows of 4 bits are whole steps. */
typedef struct cpu_coded {
    quant_codes codes;
    float values[16]; /* CODES_TABLE */
    /* Codes of 8 bits without their sign as BF16, which holds them all: lower bytes, upper bytes. */
    uint8_t lower[CODED_SIZES], upper[CODED_SIZES];
    int shift, row_shift; /* scale [row >> row_shift][k >> shift] */
    int64_t scales_of_row;
    float scales[];
} cpu_coded;

/* What makes a float of a code, besides the kind of code. */
typedef struct coded_by {
    const cpu_coded *coded;
    float scale;
} coded_by;

/* Lets w->owned describe a weight that is not packed. Leaves w alone where that cannot be or there is no kernel
 * (kernels [QUANT_CODES_COUNT]): codes that are no numbers, scales that do not lie so or overflow. */
qp_status coded_open(dev_weight *w, const cpu_matmul_kernel *const *kernels, pool *p, qp_error *err);
void coded_close(dev_weight *w);

#endif
