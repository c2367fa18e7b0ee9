/* nf4.h — row of quant_table.c for bitsandbytes' weights of 4 bits. */
#ifndef QUANT_NF4_H
#define QUANT_NF4_H

#include "quant.h"

extern const quant_type quant_nf4;

#endif
