/* guidance.h — classifier-free guidance: away from what a negative prompt would say. */
#ifndef SAMPLE_GUIDANCE_H
#define SAMPLE_GUIDANCE_H

#include "room.h"

/* Fills room->guided [n] with scale * log p + (1 - scale) * log p of the negative prompt. */
void guidance_mix(sampler_room *room, const float *logits, const float *negative, int n, float scale);

#endif
