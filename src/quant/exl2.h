/* exl2.h — the row of quant_table.c for ExLlamaV2's format. */
#ifndef QUANT_EXL2_H
#define QUANT_EXL2_H

#include "quant.h"

extern const quant_type quant_exl2;

#endif
