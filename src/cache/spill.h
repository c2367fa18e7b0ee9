/* spill.h — a second tier for whole pages: bounded host memory, found again by what they hold. */
#ifndef CACHE_SPILL_H
#define CACHE_SPILL_H

#include "pages.h"

typedef struct spill_tier spill_tier;

/* What tells spilled pages apart. The serial of the parent stands for all that is before it. */
typedef struct spill_key {
    hash_pair hash;
    uint64_t parent_serial, root; /* 0: no parent */
    const int32_t *ids;
} spill_key;

qp_status spill_open(spill_tier **out, uint64_t bytes, const page_mover *mover, qp_error *err);
/* NULL is fine. */
void spill_close(spill_tier *s);

/* Saves a page that the tier does not have; the oldest one makes room. False where all slots are pinned. */
bool spill_save(spill_tier *s, const spill_key *key, uint64_t serial, int32_t page);
/* The slot that holds it, ids, parent and root compared; -1: none. */
int spill_find(const spill_tier *s, const spill_key *key);
uint64_t spill_serial(const spill_tier *s, int slot);
/* A pinned slot makes room for nobody. */
void spill_pin(spill_tier *s, int slot);
void spill_unpin(spill_tier *s, int slot);
/* Into a page; the (pinned) slot is empty afterwards. */
void spill_load(spill_tier *s, int slot, int32_t page);
/* Empties a slot that is not pinned. */
void spill_drop(spill_tier *s, int slot);

#endif
