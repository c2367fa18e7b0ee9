/* amx_tiles.h — the tile unit's configuration and the rounding to what it multiplies, for amx*_*.c only.
 *
 * Tricky: gcc 12's intrinsic for the tile configuration does not tell the compiler that it reads all 64 bytes, so it
 * is inline assembly here, with the whole object as operand. Stores of tiles carry a memory clobber in both compilers;
 * gcc's loads do not: behind what was written for tiles in the same function stands a barrier, or such a store. */
#ifndef DEV_CPU_AMX_TILES_H
#define DEV_CPU_AMX_TILES_H

#include <immintrin.h>
#include <stdint.h>

enum {
    TILE_SIDE = 16,  /* columns and rows of a tile of sums */
    TILE_DEPTH = 32, /* of k, in a tile of what is multiplied */
    TILE_BYTES = 1024,
};

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "as the processor reads it");

/* All eight tiles 16 rows of 64 bytes. */
static inline tile_config tiles_full(void) {
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = TILE_SIDE;
        config.row_bytes[i] = 64;
    }
    return config;
}

static inline void tiles_configure(const tile_config *config) { __asm__ volatile("ldtilecfg %0" ::"m"(*config)); }
/* What was written before is in memory for tiles that are loaded after. */
static inline void tiles_barrier(void) { __asm__ volatile("" ::: "memory"); }
static inline void tiles_release(void) { __asm__ volatile("tilerelease"); }

/* 16 floats to BF16, to nearest even, in the low halves; NaN stays NaN. */
static inline __m512i tiles_bf16(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    return _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16);
}

#endif
