/* pack_cuda.c — a matrix' codes and scales into the order that kernels/packed.h tells.
 *
 * Called by cuda_weights.c. A tile is packed from its first input to its last, 64 inputs after the other; scales that
 * many inputs share are repeated for each of the kernels' groups, which are at most 128 inputs. What a run has more
 * than whole units goes, with what others have, into units as wide as the widest of them: EXL2 would have a unit more
 * for each width otherwise, and some slice of the inputs half as much work again. The last unit is filled up with
 * scales of zero, and the order of the inputs says that nothing is there. */
#include "pack_cuda.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { ROWS = PACKED_ROWS, HALF = QUANT_TILE_DEPTH, NARROW = 5 /* bits of a code out of a table */ };

_Static_assert((int)PACKED_ROWS == (int)QUANT_TILE_ROWS, "a tile is a tile");

/* ---- the plan ---- */

/* The kernels' group that divides a format's; 0: none. */
static int kernel_group(int group) {
    static const int groups[] = {128, 64, 32};
    if (group == 16) return 16;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (group % groups[i] == 0) return groups[i];
    return 0;
}

/* Whether values out of the table are numbers of so many bits with a sign. */
static bool fits_bits(const quant_run *is, int bits) {
    for (int i = 0; i < 16; i++) {
        const int value = is->table[i] - is->zero;
        if (value < -(1 << (bits - 1)) || value >= 1 << (bits - 1)) return false;
    }
    return true;
}

/* What is looked up becomes codes as wide as the kernels for mixed units have them. */
static void plan_table(cuda_run *r) {
    const bool is_own = r->scales == PACKED_PLAIN && r->group >= 32;
    r->bits = is_own && fits_bits(&r->is, NARROW) ? NARROW : 8;
    if (r->bits == 8) return;
    r->lowest = r->is.zero - (1 << (r->bits - 1));
    r->is.zero -= r->lowest;
}

static bool plan_run(cuda_run *r, const quant_matrix *m, int64_t k) {
    static const int scales[] = {[QUANT_SCALES_PLAIN] = PACKED_PLAIN,
                                 [QUANT_SCALES_ZERO] = PACKED_ZERO,
                                 [QUANT_SCALES_MIN] = PACKED_MIN,
                                 [QUANT_SCALES_SUPER] = PACKED_SUPER,
                                 [QUANT_SCALES_SUPER_MIN] = PACKED_SUPER_MIN,
                                 [QUANT_SCALES_POWER] = PACKED_PLAIN};
    if (!m->type->run(&r->is, m, k)) return false;
    r->bits = r->is.bits;
    r->lowest = 0;
    r->group = kernel_group(r->is.group);
    r->scales = r->is.codes == QUANT_CODES_E4M3 ? PACKED_E4M3 : scales[r->is.scales];
    if (r->is.table) plan_table(r);
    const int64_t units = (r->is.end - r->is.begin + PACKED_UNIT - 1) / PACKED_UNIT;
    if (!r->group || r->is.end > INT32_MAX || (r->is.end - r->is.begin) % HALF) return false;
    r->n_units = (int)units;
    r->unit_bytes = packed_unit_bytes(r->bits, r->scales, r->group);
    return true;
}

/* Where order has each of n_in inputs; false: one is there twice. */
static bool invert(int32_t *places, int64_t n_in, const int32_t *order, size_t n) {
    for (size_t k = 0; k < n; k++) {
        if (order[k] < 0) continue;
        if (order[k] >= n_in || places[order[k]] >= 0) return false;
        places[order[k]] = (int32_t)k;
    }
    return true;
}

/* ---- what is left of runs ---- */

/* Whether units may hold inputs of several runs: wider codes of the same middle are the same numbers. */
static bool can_join(const cuda_plan *p) {
    for (int i = 0; i < p->n_runs; i++) {
        const cuda_run *r = &p->runs[i];
        if (r->scales != PACKED_PLAIN || r->is.table || r->group < HALF || r->is.zero != 1 << (r->bits - 1))
            return false;
    }
    return p->n_runs > 1;
}

/* The greatest of the kernels' groups whose inputs always have one scale. */
static int group_of_pieces(const cuda_plan *p, const cuda_run *joint) {
    int step = PACKED_X_GROUP, at = 0;
    for (int i = 0; i < joint->n_pieces; i++) {
        const cuda_piece *piece = &joint->pieces[i];
        const cuda_run *r = &p->runs[piece->run];
        while (at % step || r->group % step || (piece->from - r->is.begin) % step) step /= 2;
        at += piece->n;
    }
    return step;
}

/* Puts n inputs of run i from `from` on into units of their own behind all runs. */
static void add_pieces(cuda_plan *p, int *filled, int i, int64_t from, int n) {
    while (n) {
        if (*filled == PACKED_UNIT) {
            p->runs[p->n_runs++] = (cuda_run){.is = p->runs[i].is, .bits = p->runs[i].bits, .n_units = 1};
            *filled = 0;
        }
        cuda_run *joint = &p->runs[p->n_runs - 1];
        const int fits = n < PACKED_UNIT - *filled ? n : PACKED_UNIT - *filled;
        joint->pieces[joint->n_pieces++] = (cuda_piece){i, fits, from};
        if (p->runs[i].bits > joint->bits) joint->bits = p->runs[i].bits;
        *filled += fits, from += fits, n -= fits;
    }
}

static void join_tails(cuda_plan *p) {
    const int n = p->n_runs;
    int filled = PACKED_UNIT;
    for (int i = 0; i < n; i++) {
        cuda_run *r = &p->runs[i];
        r->n_units = (int)((r->is.end - r->is.begin) / PACKED_UNIT);
        const int64_t whole = r->is.begin + (int64_t)r->n_units * PACKED_UNIT;
        add_pieces(p, &filled, i, whole, (int)(r->is.end - whole));
    }
    for (int i = n; i < p->n_runs; i++) {
        cuda_run *joint = &p->runs[i];
        joint->group = group_of_pieces(p, joint);
        joint->scales = PACKED_PLAIN;
        joint->is.zero = 1 << (joint->bits - 1);
        joint->unit_bytes = packed_unit_bytes(joint->bits, joint->scales, joint->group);
    }
}

/* ---- the order of the inputs ---- */

static void put_order(int32_t **to, const quant_matrix *m, int64_t from, int64_t end) {
    for (int64_t k = from; k < end; k++) *(*to)++ = m->order ? m->order[k] : (int32_t)k;
}

static void order_run(int32_t *to, const cuda_run *r, const quant_matrix *m) {
    const int64_t end = r->is.begin + (int64_t)r->n_units * PACKED_UNIT;
    for (int i = 0; i < r->n_pieces; i++) put_order(&to, m, r->pieces[i].from, r->pieces[i].from + r->pieces[i].n);
    if (!r->n_pieces) put_order(&to, m, r->is.begin, end < r->is.end ? end : r->is.end);
}

static qp_status plan_order(cuda_plan *p, const quant_matrix *m, qp_error *err) {
    const size_t n = (size_t)p->n_units * PACKED_UNIT, all = n + (size_t)m->n_in;
    if (!m->order && p->n_runs == 1) return QP_OK;
    p->order = mem_array(all, sizeof *p->order);
    if (!p->order) return err_no_memory(err, all * sizeof *p->order, "the order of a weight's inputs");
    p->order_bytes = all * sizeof *p->order;
    for (size_t i = 0; i < all; i++) p->order[i] = -1;
    for (int i = 0; i < p->n_runs; i++)
        order_run(p->order + (size_t)p->runs[i].first_unit * PACKED_UNIT, &p->runs[i], m);
    p->has_places = invert(p->order + n, m->n_in, p->order, n);
    return QP_OK;
}

static void place_runs(cuda_plan *p) {
    for (int i = 0; i < p->n_runs; i++) {
        cuda_run *r = &p->runs[i];
        r->first_unit = p->n_units;
        r->offset = p->tile_bytes;
        p->n_units += r->n_units;
        p->tile_bytes += (size_t)r->n_units * (size_t)r->unit_bytes;
    }
}

qp_status pack_cuda_plan(cuda_plan *out, bool *possible, const quant_matrix *m, qp_error *err) {
    *out = (cuda_plan){.n_tiles = (int)((m->n_out + ROWS - 1) / ROWS)};
    *possible = false;
    if (!m->type->run || m->n_out > INT32_MAX) return QP_OK;
    for (int64_t k = 0; k < m->n_in; k = out->runs[out->n_runs++].is.end)
        if (out->n_runs == PACK_MOST_RUNS || !plan_run(&out->runs[out->n_runs], m, k)) return QP_OK;
    if (can_join(out)) join_tails(out);
    place_runs(out);
    *possible = true;
    return plan_order(out, m, err);
}

void pack_cuda_free(cuda_plan *p) {
    mem_free(p->order);
    p->order = NULL;
}

/* ---- codes ---- */

/* Words of a lane out of its codes of both halves, one code to a byte: what Code<bits>::unpack of digits.cuh undoes. */
static void pack_words(uint32_t *w, const uint32_t a[4], const uint32_t b[4], int bits) {
    const uint32_t one = 0x01010101, three = 0x03030303, four = 0x04040404;
    switch (bits) {
    case 2:
        for (int i = 0; i < 2; i++) w[i] = a[i] | b[i] << 2 | a[i + 2] << 4 | b[i + 2] << 6;
        return;
    case 3:
        for (int i = 0; i < 3; i++) w[i] = a[i] << 2 | b[i] << 5;
        w[0] |= a[3] & three;
        w[1] |= b[3] & three;
        w[2] |= (a[3] & four) >> 2 | (b[3] & four) >> 1;
        return;
    case 4:
        for (int i = 0; i < 4; i++) w[i] = a[i] | b[i] << 4;
        return;
    case 5:
        for (int i = 0; i < 3; i++) w[i] = a[i] | (b[i] >> 2 & 7 * one) << 5;
        w[3] = a[3] | (b[0] & three) << 5 | (b[1] >> 1 & one) << 7;
        w[4] = (b[1] & one) | (b[2] & three) << 1 | b[3] << 3;
        return;
    case 6:
        w[0] = a[0] | (b[0] >> 4 & three) << 6;
        w[1] = a[1] | (b[0] >> 2 & three) << 6;
        w[2] = a[2] | (b[1] >> 4 & three) << 6;
        w[3] = a[3] | (b[1] >> 2 & three) << 6;
        w[4] = (b[0] & three) | b[2] << 2;
        w[5] = (b[1] & three) | b[3] << 2;
        return;
    default:
        for (int i = 0; i < 4; i++) w[i] = a[i], w[i + 4] = b[i];
    }
}

/* Four floats of 8 bits as floats.cuh wants them in a word: the first and third where a float16 has its sign and the
 * upper ten bits but two, the others in the bits between. */
static uint32_t weave_floats(uint32_t codes) {
    const uint32_t even = codes & 0x00FF00FFu, odd = codes >> 8 & 0x00FF00FFu;
    const uint32_t sign = 0x00800080u, rest = 0x007F007Fu;
    return (even & sign) << 8 | (even & rest) << 7 | (odd & sign) << 7 | (odd & rest);
}

static uint32_t codes_at(const quant_tile *t, int row, int k) {
    uint32_t four;
    memcpy(&four, &t->code[row][k], 4);
    return four;
}

/* Block b of a unit, whose two halves are t[0] and t[1]. */
static void put_block(uint8_t *unit, const quant_tile t[2], int b, int bits, bool are_floats) {
    for (int lane = 0; lane < 32; lane++) {
        uint32_t low[4], high[4], w[8];
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + 8 * (i & 1), k = lane % 4 * 4 + 16 * (i >> 1);
            low[i] = codes_at(&t[0], row, k), high[i] = codes_at(&t[1], row, k);
        }
        pack_words(w, low, high, bits);
        for (int i = 0; i < bits; i++) {
            const int word = b * bits + i;
            if (are_floats) w[i] = weave_floats(w[i]);
            memcpy(unit + word / 4 * 512 + lane * 16 + word % 4 * 4, &w[i], 4);
        }
    }
}

static void look_up(quant_tile *t, const uint8_t *table, int lowest) {
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < HALF; k++) t->code[row][k] = (uint8_t)(table[t->code[row][k]] - lowest);
}

static void widen(quant_tile *t, int more) {
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < HALF; k++) t->code[row][k] = (uint8_t)(t->code[row][k] + more);
}

/* ---- scales ---- */

/* What a group has: of the 16 rows. */
typedef struct scales_now {
    uint16_t d[ROWS], dmin[ROWS];
    int8_t scale[ROWS];
    uint8_t min[ROWS];
    cuda_extremes most; /* that have passed */
} scales_now;

static uint16_t greatest(uint16_t most, const uint16_t *d) {
    for (int i = 0; i < ROWS; i++) {
        const uint16_t bits = d[i] & 0x7FFF;
        most = bits > most ? bits : most;
    }
    return most;
}

/* 2^(exponent - 128) as a float16: nothing below 2^-24, infinite where it is for the greatest code. */
static void powers_to_halves(uint16_t d[ROWS]) {
    enum { ONE = 128, LEAST = ONE - 24, NORMAL = ONE - 14, MOST = ONE + 12 };
    for (int i = 0; i < ROWS; i++) {
        const int e = d[i];
        d[i] = e > MOST      ? 0x7C00
               : e >= NORMAL ? (uint16_t)((e - NORMAL + 1) << 10)
               : e >= LEAST  ? (uint16_t)(1 << (e - LEAST))
                             : 0;
    }
}

static bool has_min(const cuda_run *r) { return r->scales == PACKED_MIN || r->scales == PACKED_SUPER_MIN; }

/* What a format has not, its tiles leave undefined. */
static void take_scales(scales_now *now, const cuda_run *r, const quant_tile *t, int half) {
    now->most.d = greatest(now->most.d, t->d[half]);
    if (has_min(r)) now->most.dmin = greatest(now->most.dmin, t->dmin[half]);
    memcpy(now->d, t->d[half], sizeof now->d);
    memcpy(now->dmin, t->dmin[half], sizeof now->dmin);
    memcpy(now->scale, t->scale[half], sizeof now->scale);
    memcpy(now->min, t->min[half], sizeof now->min);
}

static void put16(uint8_t *to, const uint16_t *of_rows) {
    for (int g = 0; g < 8; g++) memcpy(to + 4 * g, &of_rows[g], 2), memcpy(to + 4 * g + 2, &of_rows[g + 8], 2);
}

static void put8(uint8_t *to, const void *of_rows) {
    const uint8_t *from = of_rows;
    for (int g = 0; g < 8; g++) to[2 * g] = from[g], to[2 * g + 1] = from[g + 8];
}

/* Group j of a unit. */
static void put_scales(uint8_t *to, const cuda_run *r, const scales_now *now, int j) {
    const int n = PACKED_UNIT / r->group;
    if (r->scales <= PACKED_MIN) {
        put16(to + 32 * j, now->d);
        if (r->scales == PACKED_ZERO) put8(to + 32 * n + 16 * j, now->min);
        if (r->scales == PACKED_MIN) put16(to + 32 * n + 32 * j, now->dmin);
        return;
    }
    uint8_t *scale = to + (r->scales == PACKED_SUPER ? 32 : 64);
    put8(scale + 16 * j, now->scale);
    if (r->scales == PACKED_SUPER_MIN) put8(scale + 16 * n + 16 * j, now->min);
}

/* ---- units ---- */

/* The 256 inputs of d and dmin begin where their first group does. */
static void put_super(uint8_t *to, const cuda_run *r, const quant_tile *t) {
    if (r->scales < PACKED_SUPER) return;
    put16(to, t->d[0]);
    if (r->scales == PACKED_SUPER_MIN) put16(to + 32, t->dmin[0]);
}

/* `now` is carried from unit to unit: groups may be longer than these. */
static void put_unit(uint8_t *to, const cuda_run *r, const quant_matrix *m, int64_t row, int64_t k, scales_now *now) {
    uint8_t *scales = to + r->bits * 512;
    for (int b = 0; b < PACKED_UNIT / PACKED_BLOCK; b++) {
        quant_tile t[2] = {0};
        for (int h = 0; h < 2; h++) {
            const int64_t at = k + b * PACKED_BLOCK + h * HALF;
            const int in_unit = b * PACKED_BLOCK + h * HALF, in_group = (int)((at - r->is.begin) % r->is.group);
            if (at >= r->is.end) continue;
            m->type->tile(&t[h], m, &r->is, row, at);
            if (r->is.scales == QUANT_SCALES_POWER) powers_to_halves(t[h].d[0]);
            if (!in_unit) put_super(scales, r, &t[0]);
            if (!in_group || r->is.group < HALF) take_scales(now, r, &t[h], 0);
            if (in_unit % r->group == 0) put_scales(scales, r, now, in_unit / r->group);
            if (r->group < HALF) {
                take_scales(now, r, &t[h], 1);
                put_scales(scales, r, now, in_unit / r->group + 1);
            }
            if (r->is.table) look_up(&t[h], r->is.table, r->lowest);
        }
        put_block(to, t, b, r->bits, r->scales == PACKED_E4M3);
    }
}

/* A unit of pieces. The scale of one that begins amid a group stands where that group does. */
static void put_joint(uint8_t *to, const cuda_plan *p, const cuda_run *joint, const quant_matrix *m, int64_t row,
                      scales_now *now) {
    quant_tile t[PACK_MOST_PIECES] = {0};
    int n = 0;
    for (int i = 0; i < joint->n_pieces; i++) {
        const cuda_piece *piece = &joint->pieces[i];
        const cuda_run *r = &p->runs[piece->run];
        for (int64_t k = piece->from; k < piece->from + piece->n; k += HALF, n++) {
            m->type->tile(&t[n], m, &r->is, row, k - (k - r->is.begin) % r->is.group);
            take_scales(now, joint, &t[n], 0);
            if (n * HALF % joint->group == 0) put_scales(to + joint->bits * 512, joint, now, n * HALF / joint->group);
            if ((k - r->is.begin) % r->is.group) m->type->tile(&t[n], m, &r->is, row, k);
            widen(&t[n], joint->is.zero - r->is.zero);
        }
    }
    for (int b = 0; b < PACKED_UNIT / PACKED_BLOCK; b++) put_block(to, &t[2 * b], b, joint->bits, false);
}

cuda_extremes pack_cuda_tiles(uint8_t *to, const cuda_plan *p, const quant_matrix *m, int first, int n) {
    cuda_extremes most = {0};
    memset(to, 0, (size_t)n * p->tile_bytes);
    for (int tile = first; tile < first + n; tile++)
        for (int i = 0; i < p->n_runs; i++) {
            const cuda_run *r = &p->runs[i];
            scales_now now;
            memset(&now, 0, sizeof now);
            for (int u = 0; u < r->n_units; u++, to += r->unit_bytes)
                if (r->n_pieces)
                    put_joint(to, p, r, m, (int64_t)tile * ROWS, &now);
                else
                    put_unit(to, r, m, (int64_t)tile * ROWS, r->is.begin + (int64_t)u * PACKED_UNIT, &now);
            most.d = now.most.d > most.d ? now.most.d : most.d;
            most.dmin = now.most.dmin > most.dmin ? now.most.dmin : most.dmin;
        }
    return most;
}

/* Of each kind of scales: what multiplies d beside a code, and dmin. Floats end at 448, which is not 256. */
static const struct {
    float scale, min;
} most_of[] = {[PACKED_PLAIN] = {1, 0}, [PACKED_E4M3] = {448.0f / 256, 0}, [PACKED_ZERO] = {1, 0},
               [PACKED_MIN] = {1, 1},   [PACKED_SUPER] = {128, 0},         [PACKED_SUPER_MIN] = {128, 255}};

float pack_cuda_bound(const cuda_plan *p, cuda_extremes most) {
    const float d = fabsf(quant_f16_to_f32(most.d)), dmin = fabsf(quant_f16_to_f32(most.dmin));
    float bound = 0;
    if (!isfinite(d) || !isfinite(dmin)) return INFINITY;
    for (int i = 0; i < p->n_runs; i++) {
        const cuda_run *r = &p->runs[i];
        const float code = (float)(1 << r->bits);
        const float each = fabsf(r->is.unit) * (d * most_of[r->scales].scale * code + dmin * most_of[r->scales].min);
        bound = each > bound ? each : bound;
    }
    return bound;
}
