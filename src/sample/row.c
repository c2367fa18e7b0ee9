/* row.c — which blocks of a row are the model's, copied or closed. */
#include "row.h"
#include <string.h>

static const uint32_t bit_of[ROW_BLOCK] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
    1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

static void fill_up(float *restrict out, const float *restrict from, int n) {
    for (int i = 0; i < ROW_BLOCK; i++) out[i] = i < n ? from[i] : -INFINITY;
}

static void copy_block(logit_row *r, int block, uint32_t open) {
    const int first = block * ROW_BLOCK, n = r->n - first;
    float *restrict out = r->copies + first;
    if (n >= ROW_BLOCK)
        memcpy(out, r->base + first, ROW_BLOCK * sizeof *out);
    else
        fill_up(out, r->base + first, n);
    if (open != UINT32_MAX)
        for (int i = 0; i < ROW_BLOCK; i++) out[i] = open & bit_of[i] ? out[i] : -INFINITY;
    r->homes[block] = ROW_COPY;
}

void row_divide(logit_row *r, int n) {
    r->n = n;
    r->n_blocks = row_blocks(n);
    for (r->group = 1; (r->n_groups = (r->n_blocks - 1) / r->group + 1) > ROW_MOST_GROUPS;) r->group *= 2;
}

void row_begin(logit_row *r, const float *base, int n, const uint32_t *open, const uint32_t *mask) {
    r->base = base;
    r->digest = (row_digest){0};
    row_divide(r, n);
    for (int b = 0; b < r->n_blocks; b++) {
        const uint32_t bits = mask ? open[b] & mask[b] : open[b];
        r->homes[b] = bits ? ROW_MODEL : ROW_CLOSED;
        if (bits && (bits != UINT32_MAX || n - b * ROW_BLOCK < ROW_BLOCK)) copy_block(r, b, bits);
    }
}

void row_begin_digest(logit_row *r, const row_digest *digest) {
    r->base = NULL;
    r->digest = *digest;
    row_divide(r, digest->order->n);
    memcpy(r->peaks, digest->body->peaks, (size_t)r->n_groups * sizeof *r->peaks);
    r->highest = digest->head->highest;
}

logit_row row_plain(const float *base, int n, float *peaks) {
    logit_row r = {.base = base, .peaks = peaks};
    row_divide(&r, n);
    if (n % ROW_BLOCK) fill_up(r.tail, base + n / ROW_BLOCK * ROW_BLOCK, n % ROW_BLOCK);
    return r;
}

void row_copy(logit_row *r, int block) { copy_block(r, block, UINT32_MAX); }

void row_forbid(logit_row *r, int32_t id) {
    float *value = id >= 0 && id < r->n ? row_touch(r, id) : NULL;
    if (value) *value = -INFINITY;
}

float row_value(const logit_row *r, int32_t id) {
    const int block = id / ROW_BLOCK;
    if (r->digest.head) return r->digest.body->values[id - r->digest.body->ids[0]];
    return row_is_closed(r, block) ? -INFINITY : row_block(r, block)[id % ROW_BLOCK];
}
