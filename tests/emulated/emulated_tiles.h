/* emulated_tiles.h — AMX tiles, and the products of bit matrices that go with them, in plain C, so that kernels for
 * them are tested on machines without.
 *
 * Included by emulated_*.c before the kernel's own source, whose intrinsics then mean these functions. As the
 * instruction set reference tells: a product goes through pairs of k in ascending order, the even and the odd of them
 * in a sum each, and adds both to what the tile held. A tile that has not been loaded since the configuration holds
 * numbers that nobody could take for right. */
#ifndef EMULATED_TILES_H
#define EMULATED_TILES_H

#include "dev/cpu/amx_tiles.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static _Thread_local struct {
    uint8_t rows[8][16][64];
    tile_config config;
    bool is_configured;
} emulated;

static inline void emulated_configure(const tile_config *config) {
    emulated.config = *config;
    emulated.is_configured = true;
    memset(emulated.rows, 0xAA, sizeof emulated.rows);
}

static inline void emulated_release(void) { emulated.is_configured = false; }

static inline void emulated_zero(int tile) {
    assert(emulated.is_configured);
    memset(emulated.rows[tile], 0, sizeof emulated.rows[tile]);
}

static inline void emulated_load(int tile, const void *from, size_t pitch) {
    emulated_zero(tile);
    for (int r = 0; r < emulated.config.rows[tile]; r++)
        memcpy(emulated.rows[tile][r], (const uint8_t *)from + (size_t)r * pitch, emulated.config.row_bytes[tile]);
}

static inline void emulated_store(int tile, void *to, size_t pitch) {
    assert(emulated.is_configured);
    for (int r = 0; r < emulated.config.rows[tile]; r++)
        memcpy((uint8_t *)to + (size_t)r * pitch, emulated.rows[tile][r], emulated.config.row_bytes[tile]);
}

/* Two neighbouring BF16, widened. */
static inline void emulated_pair(float *out, const uint8_t *at) {
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    const uint32_t wide[2] = {bits << 16, bits & 0xFFFF0000};
    memcpy(out, wide, sizeof wide);
}

static inline void emulated_product(int sums, int a, int b) {
    assert(emulated.is_configured && emulated.config.row_bytes[sums] == emulated.config.row_bytes[b]);
    for (int m = 0; m < emulated.config.rows[sums]; m++)
        for (int n = 0; n < emulated.config.row_bytes[b] / 4; n++) {
            float even = 0, odd = 0, x[2], y[2], sum;
            for (int k = 0; k < emulated.config.row_bytes[a] / 4; k++) {
                emulated_pair(x, &emulated.rows[a][m][4 * k]);
                emulated_pair(y, &emulated.rows[b][k][4 * n]);
                even = fmaf(x[0], y[0], even);
                odd = fmaf(x[1], y[1], odd);
            }
            memcpy(&sum, &emulated.rows[sums][m][4 * n], 4);
            sum += even + odd;
            memcpy(&emulated.rows[sums][m][4 * n], &sum, 4);
        }
}

/* Four neighbouring bytes times four, whole numbers of 32 bits. */
static inline void emulated_bytes(int sums, int a, int b) {
    assert(emulated.is_configured && emulated.config.row_bytes[sums] == emulated.config.row_bytes[b]);
    assert(emulated.config.rows[sums] == emulated.config.rows[a]);
    assert(emulated.config.row_bytes[a] == 4 * emulated.config.rows[b]);
    for (int m = 0; m < emulated.config.rows[sums]; m++) {
        int32_t row[16];
        memcpy(row, emulated.rows[sums][m], sizeof row);
        for (int k = 0; k < emulated.config.row_bytes[a]; k++) {
            const int x = (int8_t)emulated.rows[a][m][k];
            const int8_t *w = (const int8_t *)emulated.rows[b][k / 4];
            for (int n = 0; n < emulated.config.row_bytes[b] / 4; n++) row[n] += x * w[4 * n + k % 4];
        }
        memcpy(emulated.rows[sums][m], row, sizeof row);
    }
}

/* Bit i of each byte is the parity of what byte 7 - i of the matrix picks of it, turned where `turned` has it. */
static inline __m512i emulated_affine(__m512i x, __m512i matrix, int turned) {
    uint8_t bytes[64], rows[64];
    memcpy(bytes, &x, sizeof bytes);
    memcpy(rows, &matrix, sizeof rows);
    for (int at = 0; at < 64; at++) {
        int made = turned;
        for (int i = 0; i < 8; i++) made ^= __builtin_parity((unsigned)(bytes[at] & rows[at / 8 * 8 + 7 - i])) << i;
        bytes[at] = (uint8_t)made;
    }
    memcpy(&x, bytes, sizeof bytes);
    return x;
}

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#undef _mm512_gf2p8affine_epi64_epi8
#define tiles_configure emulated_configure
#define tiles_release emulated_release
#define _tile_zero emulated_zero
#define _tile_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_dpbf16ps emulated_product
#define _tile_dpbssd emulated_bytes
#define _mm512_gf2p8affine_epi64_epi8 emulated_affine

#endif
