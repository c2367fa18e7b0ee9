/* fp.h — rows of quant_table.c for the plain floating-point formats. */
#ifndef QUANT_FP_H
#define QUANT_FP_H

#include "quant.h"

extern const quant_type quant_f32, quant_f16, quant_bf16;

#endif
