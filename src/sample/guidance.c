/* guidance.c — the two rows as logarithms of probabilities, mixed. Where the negative prompt has no finite one, the
 * token keeps its own: infinities must not meet. */
#include "guidance.h"

void guidance_mix(sampler_room *room, const float *logits, const float *negative, int n, float scale) {
    const float mass = (float)room_log_mass(room, logits, n), negative_mass = (float)room_log_mass(room, negative, n);
    float *restrict out = room->guided;
    for (int i = 0; i < n; i++) {
        const float own = logits[i] - mass, other = negative[i] - negative_mass;
        const float mixed = scale * own + (1 - scale) * other;
        out[i] = fabsf(other) < INFINITY && own > -INFINITY ? mixed : own;
    }
}
