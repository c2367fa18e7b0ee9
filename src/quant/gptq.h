/* gptq.h — rows of quant_table.c for GPTQ and AWQ. */
#ifndef QUANT_GPTQ_H
#define QUANT_GPTQ_H

#include "quant.h"

extern const quant_type quant_gptq, quant_awq, quant_awq_gemv;

#endif
