/* mx.h — row of quant_table.c for MXFP4 as gpt-oss's folders store it. */
#ifndef QUANT_MX_H
#define QUANT_MX_H

#include "quant.h"

extern const quant_type quant_mxfp4_rows;

#endif
