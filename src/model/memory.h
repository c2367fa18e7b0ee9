/* memory.h — what a model will take of its devices' memory, known before a byte of it is loaded. */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include "bind.h"
#include "split.h"

/* On one device. */
typedef struct memory_plan {
    uint64_t weights, scratch; /* bytes that the model takes */
    uint64_t reserve;   /* that the cache should leave: for digests of logits, of at most a part of what is left */
    uint64_t limit;     /* bytes that it and its caches may take; 0: all that is left */
    uint64_t left, all; /* that the device has, without what the driver is left, within the limit; all 0: it has
                           none of its own */
    uint64_t unlimited; /* `left` without the limit */
} memory_plan;

/* Weights of a format that the first device does not read, in all layers: what they are unpacked to. All 0: none. */
typedef struct memory_unpacked {
    quant_id as;
    uint64_t file_bytes, bytes;
} memory_unpacked;

/* Cuts the layers among the devices as was wished, and plans each of them: out [split->n], unpacked [QUANT_COUNT].
 * Looks at every weight that the model needs and at none of their bytes. */
qp_status memory_plan_make(memory_plan *out, memory_unpacked *unpacked, dev_split *split, const split_wish *wish,
                           const arch_row *arch, const model_shape *shape, const weight_source *source, qp_error *err);
/* What is left for the cache on one device, beside the reserve; 0 where the model itself does not fit. */
uint64_t memory_plan_cache(const memory_plan *p);
/* QP_NO_MEMORY with the plan in words, if the model does not fit. */
qp_status memory_check(const memory_plan *plans, const dev_split *split, qp_error *err);
/* The same for a cache of so many pages beside the model, which is loaded. */
qp_status memory_check_cache(const memory_plan *plans, const dev_split *split, uint64_t pages, size_t page_bytes,
                             qp_error *err);
/* Pages of so many bytes over all layers that fit beside the model before it is loaded. */
uint64_t memory_plan_pages(const memory_plan *plans, const dev_split *split, size_t page_bytes);

#endif
