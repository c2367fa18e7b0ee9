/* kv_quant.c — keys and values into blocks of few bits, and back one by one.
 *
 * Called by dev/cpu: its stores write each token once through this file; only the plain kernels read with it, the fast
 * ones unpack whole planes (kv_unpack). The scale is the one of a few that fits the block best: at 4 bits that takes a
 * tenth off the error, and a token is written once but read at every step after it. */
#include "kv_quant.h"
#include <math.h>
#include <string.h>

const char *kv_type_name(kv_type type) {
    static const char *const names[KV_TYPES] = {"fp16", "fp32", "q8", "q6", "q4"};
    return names[type];
}

/* ---- rotation ---- */

/* The first two steps at once: compilers make vectors of the later ones alone. */
static void rotate_fours(float *x, int n) {
    for (int i = 0; i < n; i += 4) {
        const float a = x[i] + x[i + 1], b = x[i] - x[i + 1], c = x[i + 2] + x[i + 3], d = x[i + 2] - x[i + 3];
        x[i] = a + c;
        x[i + 1] = b + d;
        x[i + 2] = a - c;
        x[i + 3] = b - d;
    }
}

static void rotate_piece(float *x, int n) {
    if (n >= 4) rotate_fours(x, n);
    for (int half = n >= 4 ? 4 : 1; half < n; half *= 2)
        for (int i = 0; i < n; i += 2 * half)
            for (int j = i; j < i + half; j++) {
                const float a = x[j], b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
    const float scale = 1 / sqrtf((float)n);
    for (int i = 0; i < n; i++) x[i] *= scale;
}

void kv_rotate(float *x, int n) {
    for (int piece = KV_PIECE; n > 0;) {
        while (piece > n) piece /= 2;
        rotate_piece(x, piece);
        x += piece;
        n -= piece;
    }
}

void kv_rotate_key(const kv_view *kv, float *x) {
    const int first = kv->v ? kv->head_dim : kv->v_dim;
    kv_rotate(x, first);
    kv_rotate(x + first, kv->head_dim - first);
}

/* ---- codes ---- */

/* Codes lie within -limit .. limit, or one below: what two's complement has anyway. */
static int limit_of(kv_type type) { return type == KV_Q8 ? 127 : type == KV_Q6 ? 31 : 7; }

/* The greatest magnitude and its sign; what is not finite comes out as it is. */
static float extreme_of(const float *x) {
    float extreme = 0;
    for (int i = 0; i < DEV_KV_BLOCK; i++)
        if (!(fabsf(x[i]) <= fabsf(extreme)) && !isnan(extreme)) extreme = x[i];
    return extreme;
}

/* Rounds x / scale to codes; returns the sum of squared errors. */
static float round_all(int8_t *codes, const float *x, float scale, int limit) {
    const float inverse = scale != 0 ? 1 / scale : 0, round = 0x1.8p23f; /* added and taken away: whole numbers */
    float error = 0;
    for (int i = 0; i < DEV_KV_BLOCK; i++) {
        float code = (x[i] * inverse + round) - round;
        code = code > (float)limit ? (float)limit : code;
        code = code < (float)(-limit - 1) ? (float)(-limit - 1) : code;
        const float off = x[i] - code * scale;
        error += off * off;
        codes[i] = (int8_t)code;
    }
    return error;
}

/* The scale, as stored. The largest element may take the code that only one side has; a scale a little smaller cuts it
 * off but serves all others better. */
static uint16_t quantise(int8_t *codes, const float *x, kv_type type) {
    static const float shares[] = {1, 0.93f, 0.86f};
    const int limit = limit_of(type);
    const float extreme = extreme_of(x);
    uint16_t best = quant_f32_to_f16(extreme); /* of a block that is not finite: neither is what is read */
    float least = INFINITY;
    memset(codes, isfinite(extreme) ? 0 : 1, DEV_KV_BLOCK);
    if (!isfinite(extreme)) return best;
    for (int i = 0; i < (type == KV_Q8 ? 1 : 3); i++) {
        int8_t some[DEV_KV_BLOCK];
        const uint16_t scale = quant_f32_to_f16(fmaxf(-65504, fminf(65504, -extreme / (float)(limit + 1) * shares[i])));
        const float error = round_all(some, x, quant_f16_to_f32(scale), limit);
        if (error > least) continue; /* both may be infinite */
        least = error;
        best = scale;
        memcpy(codes, some, sizeof some);
    }
    return best;
}

/* A token's codes into a plane, in which they lie `step` apart. */
static void put_codes(uint8_t *to, kv_type type, int step, const int8_t *codes) {
    enum { N = DEV_KV_BLOCK };
    uint8_t *high = to + N / 2 * step;
    if (type == KV_Q8) {
        for (int i = 0; i < N; i++) to[i * step] = (uint8_t)codes[i];
        return;
    }
    const int zero = type == KV_Q4 ? 8 : 32;
    for (int i = 0; i < N / 2; i++)
        to[i * step] = (uint8_t)(((codes[i] + zero) & 15) | ((codes[i + N / 2] + zero) & 15) << 4);
    for (int i = 0; i < N / 4 && type == KV_Q6; i++)
        high[i * step] = (uint8_t)((codes[i] + zero) >> 4 | (codes[i + N / 4] + zero) >> 4 << 2 |
                                   (codes[i + N / 2] + zero) >> 4 << 4 | (codes[i + 3 * N / 4] + zero) >> 4 << 6);
}

/* ---- where they lie ---- */

static size_t key_block_bytes(kv_type type) { return dev_kv_group_bytes(type, DEV_KV_BLOCK); }
static size_t value_block_bytes(kv_type type) { return key_block_bytes(type) / DEV_KEY_GROUP; }

/* Block b of x, filled up with zeros. */
static void block_of(float *out, const float *x, int dim, int b) {
    const int n = dim - b * DEV_KV_BLOCK < DEV_KV_BLOCK ? dim - b * DEV_KV_BLOCK : DEV_KV_BLOCK;
    memset(out, 0, DEV_KV_BLOCK * sizeof *out);
    memcpy(out, x + b * DEV_KV_BLOCK, (size_t)n * sizeof *out);
}

void kv_put_key(uint8_t *group, kv_type type, int slot, const float *x, int dim) {
    for (int b = 0; b < kv_blocks(dim); b++, group += key_block_bytes(type)) {
        float block[DEV_KV_BLOCK];
        int8_t codes[DEV_KV_BLOCK];
        block_of(block, x, dim, b);
        const uint16_t scale = quantise(codes, block, type);
        memcpy(group + (size_t)slot * sizeof scale, &scale, sizeof scale);
        put_codes(group + DEV_KEY_GROUP * sizeof scale + slot, type, DEV_KEY_GROUP, codes);
    }
}

static void put_value_block(uint8_t *to, kv_type type, const float *block) {
    int8_t codes[DEV_KV_BLOCK];
    const uint16_t scale = quantise(codes, block, type);
    memcpy(to, &scale, sizeof scale);
    put_codes(to + sizeof scale, type, 1, codes);
}

/* In pieces of the rotation: they are whole blocks. */
void kv_put_value(uint8_t *group, kv_type type, int slot, const float *x, int dim) {
    uint8_t *to = group + (size_t)(slot * kv_blocks(dim)) * value_block_bytes(type);
    for (int d = 0; d < dim; d += KV_PIECE) {
        float rotated[KV_PIECE] = {0};
        const int n = dim - d < KV_PIECE ? dim - d : KV_PIECE;
        memcpy(rotated, x + d, (size_t)n * sizeof *x);
        kv_rotate(rotated, n);
        for (int i = 0; i < n; i += DEV_KV_BLOCK, to += value_block_bytes(type)) put_value_block(to, type, rotated + i);
    }
}

static float scaled(const uint8_t *scale, int code) {
    uint16_t half;
    memcpy(&half, scale, sizeof half);
    return quant_f16_to_f32(half) * (float)code;
}

float kv_get_key(const uint8_t *group, kv_type type, int slot, int d) {
    const uint8_t *at = group + (size_t)(d / DEV_KV_BLOCK) * key_block_bytes(type);
    const int i = d % DEV_KV_BLOCK * DEV_KEY_GROUP + slot;
    return scaled(at + slot * 2, kv_code(at + DEV_KEY_GROUP * 2, type, KV_KEY_CODES, i));
}

float kv_get_value(const uint8_t *group, kv_type type, int dim, int slot, int d) {
    const uint8_t *at = group + (size_t)(slot * kv_blocks(dim) + d / DEV_KV_BLOCK) * value_block_bytes(type);
    return scaled(at, kv_code(at + 2, type, KV_VALUE_CODES, d % DEV_KV_BLOCK));
}
