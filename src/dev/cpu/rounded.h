/* rounded.h — float16 weights as the BF16 that products round them to, made once while a model loads.
 *
 * Called by cpu.c for levels that have round_f16 (cpu.h). A rounded weight is one of BF16 from then on: its type and
 * data are those of the rows that it owns; `stored` stays what came, for embeddings. */
#ifndef DEV_CPU_ROUNDED_H
#define DEV_CPU_ROUNDED_H

#include "cpu.h"
#include "pack_cache.h"

/* In rows, or woven where the level's kernel of BF16 wants it so. On the pool's threads, or out of the cache (NULL:
 * none), which must outlive it. Leaves a weight alone that is not float16, and on failure. */
qp_status rounded_open(dev_weight *w, const cpu_matmul_ops *by, pool *p, pack_cache *cache, qp_error *err);
bool rounded_is(const dev_weight *w);
void rounded_close(dev_weight *w);

#endif
