/* row.c — the overlay on a row of logits: what is closed, what is changed, and a block of both mixed. */
#include "row.h"
#include <string.h>

static const uint32_t bit_of[ROW_BLOCK] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
    1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

void row_mix(const logit_row *r, int block, float *buffer) {
    const int first = block * ROW_BLOCK, n = r->n - first < ROW_BLOCK ? r->n - first : ROW_BLOCK;
    const uint32_t open = r->open ? r->open[block] : UINT32_MAX;
    if (n == ROW_BLOCK)
        memcpy(buffer, r->base + first, ROW_BLOCK * sizeof *buffer);
    else
        for (int i = 0; i < ROW_BLOCK; i++) buffer[i] = i < n ? r->base[first + i] : -INFINITY;
    for (int i = 0; i < ROW_BLOCK; i++) buffer[i] = open & bit_of[i] ? buffer[i] : -INFINITY;
    if (!r->open) return;
    for (uint32_t bits = r->touched[block] & open; bits; bits &= bits - 1) {
        const int i = __builtin_ctz(bits);
        buffer[i] = r->changed[first + i];
    }
}

void row_begin(logit_row *r, const float *base, int n, const uint32_t *open) {
    for (int i = 0; i < r->n_touched; i++) r->touched[r->touched_ids[i] / 32] = 0;
    r->n_touched = 0;
    r->base = base;
    r->n = n;
    r->n_blocks = row_blocks(n);
    memcpy(r->open, open, (size_t)r->n_blocks * sizeof *open);
}

void row_allow(logit_row *r, const uint32_t *mask) {
    for (int i = 0; i < r->n_blocks; i++) r->open[i] &= mask[i];
}

void row_forbid(logit_row *r, int32_t id) {
    if (id >= 0 && id < r->n) r->open[id / 32] &= ~bit_of[id % 32];
}

bool row_is_touched(const logit_row *r, int32_t id) { return row_bit(r->touched, id); }

float *row_touch(logit_row *r, int32_t id) {
    if (!row_is_touched(r, id)) {
        r->touched[id / 32] |= bit_of[id % 32];
        r->touched_ids[r->n_touched++] = id;
        r->changed[id] = r->base[id];
    }
    return &r->changed[id];
}

float row_value(const logit_row *r, int32_t id) {
    if (!row_bit(r->open, id)) return -INFINITY;
    return row_is_touched(r, id) ? r->changed[id] : r->base[id];
}
