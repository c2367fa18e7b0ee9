/* memory.h — what a model will take of its device's memory, known before a byte of it is loaded. */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include "bind.h"

typedef struct memory_plan {
    uint64_t weights, scratch; /* bytes that the model takes */
    uint64_t left, all;        /* that the device has, without what the driver is left; all 0: it has none of its own */
} memory_plan;

/* Looks at every weight that the model needs and at none of their bytes. */
qp_status memory_plan_make(memory_plan *out, device *dev, const arch_row *arch, const model_shape *shape,
                           const weight_source *source, int max_rows, qp_error *err);
/* What is left for the cache; 0 where the model itself does not fit. */
uint64_t memory_plan_cache(const memory_plan *p);
/* QP_NO_MEMORY with the plan in words, if the model does not fit. */
qp_status memory_check(const memory_plan *p, const device *dev, qp_error *err);
/* The same for a cache of so many pages beside the model, which is loaded. */
qp_status memory_check_cache(const memory_plan *p, device *dev, uint64_t pages, size_t page_bytes, qp_error *err);

#endif
