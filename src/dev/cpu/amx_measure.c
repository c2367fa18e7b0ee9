/* amx_measure.c — the limit of tile products: four independent sums out of registers, BF16 and int8. */
#include "cpu_measure.h"
#include <immintrin.h>

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Inline assembly with the whole object as operand: gcc 12's intrinsic does not keep the stores before it. */
static void configure(void) {
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = 16;
        config.row_bytes[i] = 64;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
}

static float consume(void) {
    _Alignas(64) float sums[256];
    float all = 0;
    _tile_stored(0, sums, 64);
    all += sums[0];
    _tile_stored(1, sums, 64);
    all += sums[0];
    _tile_stored(2, sums, 64);
    all += sums[0];
    _tile_stored(3, sums, 64);
    all += sums[0];
    __asm__ volatile("tilerelease");
    return all;
}

static float run_bf16(int64_t turns) {
    configure();
    for (int64_t t = 0; t < turns; t++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    return consume();
}

static float run_int8(int64_t turns) {
    configure();
    for (int64_t t = 0; t < turns; t++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    return consume();
}

static bool has_int8(const cpu_features *f) { return f->amx_int8; }

static const cpu_peak peaks[] = {
    {"amx_bf16", "GFLOP/s", NULL, true, 4 * 2 * 16 * 16 * 32, run_bf16},
    {"amx_int8", "GOP/s", has_int8, false, 4 * 2 * 16 * 16 * 64, run_int8},
};

const cpu_measure_ops cpu_measure_amx = {"amx", {NULL}, peaks, 2};
