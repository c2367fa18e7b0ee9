/* synth_exl2.c — random weights as a file of ExLlamaV2 has them: groups of 128 inputs in falling width, in an order of
 * their own.
 *
 * Called by synth.c. A file of 3.0 bits is no file of 3-bit groups: the converter gives more to the inputs that count
 * and takes it from others. So here a tenth of the groups has a bit more and a tenth a bit less than the others, as
 * far as there are such widths, and the mean is what was asked for. */
#include "synth_exl2.h"
#include "synth_random.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT, SCALE, SCALE_MAX, GROUPS, INVPERM, PARTS };
enum { LEAST = 2, MOST = 6, ALIGN = 64 };

double synth_exl2_bits(const char *name) {
    char *end;
    if (strncmp(name, "exl2-", 5) != 0 || name[5] < '0' || name[5] > '9') return 0;
    const double bits = strtod(name + 5, &end);
    return *end || !(bits >= LEAST && bits <= MOST) ? 0 : bits;
}

bool synth_exl2_fits(int64_t cols) { return cols % QUANT_TILE_DEPTH == 0; }

/* Of group g, falling. */
static int width_of(const synth_exl2 *p, int g) {
    const int least = (int)floor(p->bits), wider = (int)lround((p->bits - least) * p->n_groups);
    const int tenth = least > LEAST && least + 2 <= MOST ? p->n_groups / 10 : 0;
    return least + (g < wider) + (g < tenth) - (g >= p->n_groups - tenth);
}

bool synth_exl2_plan(synth_exl2 *out, double bits, int64_t rows, int64_t cols) {
    *out = (synth_exl2){.bits = bits, .rows = rows, .cols = cols, .columns = (rows + 31) / 32 * 32};
    out->group = cols % 128 == 0 ? 128 : QUANT_TILE_DEPTH;
    out->n_groups = (int)(cols / out->group);
    const size_t columns = (size_t)out->columns, groups = (size_t)out->n_groups;
    for (int g = 0; g < out->n_groups; g++) out->words += (size_t)(out->group * width_of(out, g) / 32);
    if (out->words > UINT16_MAX || !mem_mul(out->words, columns * 4, &out->bytes[WEIGHT])) return false;
    out->bytes[SCALE] = groups * (columns / 2);
    out->bytes[SCALE_MAX] = groups * 2;
    out->bytes[GROUPS] = groups * 4;
    out->bytes[INVPERM] = (size_t)cols * 4;
    for (int i = PARTS - 1; i >= 0; i--) { /* codes last: a block without them is a short one */
        out->at[i] = out->all_bytes;
        if (!mem_add(out->all_bytes, (out->bytes[i] + ALIGN - 1) / ALIGN * ALIGN, &out->all_bytes)) return false;
    }
    return true;
}

static void fill_order(int32_t *invperm, int64_t n, uint64_t seed) {
    uint64_t state = seed | 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = (int64_t)(synth_random(&state) % (uint64_t)(i + 1));
        invperm[i] = invperm[k];
        invperm[k] = (int32_t)i;
    }
}

/* Scales (s + 1)^2 * max / 256 of about 2^exponent for codes of this width; s is random. */
static void fill_scale_max(uint16_t *to, const synth_exl2 *p, int exponent) {
    for (int g = 0; g < p->n_groups; g++)
        to[g] = quant_f32_to_f16(ldexpf(3.46f * 256 / 94, exponent - width_of(p, g))); /* 94: the mean of (s + 1)^2 */
}

void synth_exl2_fill(void *block, const synth_exl2 *p, int exponent, uint64_t seed, uint64_t order_seed,
                     bool only_shape) {
    uint8_t *at = block;
    uint16_t *groups = (uint16_t *)(void *)(at + p->at[GROUPS]);
    size_t word = 0;
    for (int g = 0; g < p->n_groups; g++) {
        groups[2 * g] = (uint16_t)width_of(p, g);
        groups[2 * g + 1] = (uint16_t)word;
        word += (size_t)(p->group * width_of(p, g) / 32);
    }
    fill_order((int32_t *)(void *)(at + p->at[INVPERM]), p->cols, order_seed);
    if (only_shape) return;
    synth_random_bytes(at + p->at[WEIGHT], p->bytes[WEIGHT], seed);
    synth_random_bytes(at + p->at[SCALE], p->bytes[SCALE], seed + 1);
    fill_scale_max((uint16_t *)(void *)(at + p->at[SCALE_MAX]), p, exponent);
}

quant_matrix synth_exl2_matrix(const void *block, const synth_exl2 *p) {
    quant_matrix m = {.type = quant_type_of(QUANT_EXL2), .n_out = p->rows, .n_in = p->cols, .stored_out = p->columns};
    for (int i = 0; i < PARTS; i++) {
        m.parts[i] = (const uint8_t *)block + p->at[i];
        m.part_bytes[i] = p->bytes[i];
    }
    return m;
}
