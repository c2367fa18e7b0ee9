/* amx_measure.c — the limit of tile products: four independent sums out of registers, BF16 and int8.
 *
 * Tricky: the operands must not be zeros. An Emerald Rapids needs 16.0 cycles for a product of tiles of zeros and 19.4
 * for one of any other numbers, all ones included, at an unchanged clock: a limit taken with zeros is a fifth beyond
 * what weights and activations can reach. */
#include "cpu_measure.h"
#include "amx_tiles.h"

/* Small numbers of both signs as BF16; as int8 they are some numbers, too. The tiles overlap but for a row each. */
static void load_operands(void) {
    _Alignas(64) uint16_t numbers[19][32];
    uint32_t bits = 1;
    for (int i = 0; i < 19 * 32; i++) {
        bits = bits * 1664525u + 1013904223u;
        numbers[i / 32][i % 32] = (uint16_t)(0x3C00 | (bits >> 31) << 15 | (bits >> 24 & 127));
    }
    _tile_loadd(4, numbers[0], 64);
    _tile_loadd(5, numbers[1], 64);
    _tile_loadd(6, numbers[2], 64);
    _tile_loadd(7, numbers[3], 64);
}

static void prepare(void) {
    const tile_config config = tiles_full();
    tiles_configure(&config);
    load_operands();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
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
    tiles_release();
    return all;
}

static float run_bf16(int64_t turns) {
    prepare();
    for (int64_t t = 0; t < turns; t++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    return consume();
}

static float run_int8(int64_t turns) {
    prepare();
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
    {"amx_bf16", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 4 * 2 * 16 * 16 * 32, run_bf16},
    {"amx_int8", "GOP/s", has_int8, CPU_PEAK_WHOLE, 4 * 2 * 16 * 16 * 64, run_int8},
};

const cpu_measure_ops cpu_measure_amx = {"amx", {NULL}, peaks, 2};
