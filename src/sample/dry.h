/* dry.h — DRY: what would continue a repetition is penalised the more, the longer the repetition is. */
#ifndef SAMPLE_DRY_H
#define SAMPLE_DRY_H

#include "room.h"

/* Penalises in room->row. `breakers`: bit per id, or NULL. */
void dry_apply(sampler_room *room, const qp_sampling *s, const uint32_t *breakers, const int32_t *history, size_t n);

#endif
