/* scaled.h — rows of quant_table.c for codes row by row with a grid of scales beside them. */
#ifndef QUANT_SCALED_H
#define QUANT_SCALED_H

#include "quant.h"

extern const quant_type quant_fp8_e4m3, quant_fp8_e5m2, quant_int;

/* A float of 8 bits: no infinities, 0x7F is its NaN. */
float scaled_e4m3(uint8_t code);
/* Whether one of n codes is. */
bool scaled_e4m3_has_nan(const uint8_t *codes, int64_t n);

#endif
