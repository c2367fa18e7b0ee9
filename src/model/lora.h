/* lora.h — low-rank adapters (Hu et al. 2021): what PEFT saves, applied beside the weights without changing them. */
#ifndef MODEL_LORA_H
#define MODEL_LORA_H

#include "bind.h"
#include <stdatomic.h>

enum { LORA_MAX_RANK = 512, LORA_MOST = 8 }; /* rank of one matrix; adapters of one sequence */

/* y += B A x for one weight of one layer; the adapter's own scale is in B. */
typedef struct lora_pair {
    device *dev;        /* its layer's */
    dev_weight a, b;    /* [rank, n_in], [n_out, rank] */
    float *rows, *cols; /* what they point to */
} lora_pair;

typedef struct lora {
    atomic_int owners; /* who opened it, and the jobs that are computed with it */
    dev_split split;
    int n_layers;
    int *index; /* [n_layers][SLOT_COUNT]: into pairs, -1: none */
    lora_pair *pairs;
    int n_pairs, capacity;
    uint64_t identity; /* unlike that of adapters with other weights */
} lora;

/* What one sequence is computed with. */
typedef struct lora_set {
    lora *adapters[LORA_MOST];
    float scales[LORA_MOST];
    int n;
} lora_set;

/* Reads a PEFT folder for a model of this shape. Every tensor in it must belong to a weight of the model. */
qp_status lora_open(lora **out, const dev_split *split, const arch_row *arch, const model_shape *shape,
                    const char *folder, qp_error *err);
/* One owner more; one less, the last of whom frees it. NULL is fine. */
void lora_hold(lora *l);
void lora_close(lora *l);
/* NULL: this weight is left as it is. */
const lora_pair *lora_find(const lora *l, int layer, slot s);
/* What tells keys and values that these adapters made from others; 0 for none. */
uint64_t lora_set_identity(const lora_set *set);

#endif
