/* nv.h — row of quant_table.c for NVFP4. */
#ifndef QUANT_NV_H
#define QUANT_NV_H

#include "quant.h"

extern const quant_type quant_nvfp4;

#endif
