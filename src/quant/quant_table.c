/* quant_table.c — the list of formats: one row each. */
#include "fp.h"
#include <string.h>

static const quant_type *const table[QUANT_COUNT] = {
    [QUANT_F32] = &quant_f32,
    [QUANT_F16] = &quant_f16,
    [QUANT_BF16] = &quant_bf16,
};

const quant_type *quant_type_of(quant_id id) { return table[id]; }

const quant_type *quant_find(const char *name) {
    for (int i = 0; i < QUANT_COUNT; i++)
        if (!strcmp(table[i]->name, name)) return table[i];
    return NULL;
}
