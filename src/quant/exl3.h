/* exl3.h — row of quant_table.c for ExLlamaV3's format. */
#ifndef QUANT_EXL3_H
#define QUANT_EXL3_H

#include "quant.h"

extern const quant_type quant_exl3;

/* The value of a state under codebook 0 ("3INST"), 1 ("mcg") or 2 ("mul1"). */
float exl3_value(int codebook, uint32_t state);

#endif
