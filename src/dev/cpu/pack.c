/* pack.c — weights of any format of whole numbers, re-laid for the kernels while a model loads.
 *
 * Called by cpu.c. One task is one tile of 16 columns: it asks the format for 16 x 32 weights after the other and
 * spreads their codes over the lines. Tasks write to places of their own, so all threads work at once and the source
 * is read once, piece by piece; nothing is held twice. */
#include "pack.h"
#include "base/hash.h"
#include "base/mem.h"
#include <string.h>

/* ---- the plan ---- */

static int span_of_run(const quant_run *r) {
    if (r->scales == QUANT_SCALES_SUPER || r->scales == QUANT_SCALES_SUPER_MIN) return QUANT_SUPER;
    return r->group < PACK_DEPTH ? PACK_DEPTH : r->group;
}

/* Bytes in front of a span's codes, all 16 columns of each: d, dmin or zeros; then the scales of its groups. */
static size_t header_bytes(const quant_run *r, int span) {
    const size_t groups = (size_t)(span / r->group), column = PACK_COLUMNS;
    switch (r->scales) {
    case QUANT_SCALES_PLAIN:
        return 2 * column * groups;
    case QUANT_SCALES_ZERO:
        return 3 * column * groups;
    case QUANT_SCALES_MIN:
        return 4 * column * groups;
    case QUANT_SCALES_POWER:
        return column * groups;
    case QUANT_SCALES_SUPER:
        return 2 * column + column * groups;
    case QUANT_SCALES_SUPER_MIN:
        return 4 * column + 2 * column * groups;
    }
    return 0;
}

static bool has_minima(const quant_run *r) {
    return r->scales == QUANT_SCALES_ZERO || r->scales == QUANT_SCALES_MIN || r->scales == QUANT_SCALES_SUPER_MIN;
}

/* Where something is taken off anyway, what is left of the codes is as small as can be. */
static int base_of(const quant_run *r) {
    if (r->bits == 8 || r->table) return 128;
    if (has_minima(r)) return 1 << (r->bits - 1);
    return r->zero > 0 && r->zero <= 128 ? r->zero : 0;
}

static bool is_narrow(const quant_run *r, int base) {
    for (int i = 0; i < 1 << r->bits; i++) {
        const int code = (r->table ? r->table[i] : i) - base;
        if (code < -PACK_NARROW || code >= PACK_NARROW) return false;
    }
    return true;
}

static bool has_variant(const quant_run *r) {
    static const struct {
        int bits;
        bool has_table, halves;
    } variants[] = {
#define X(name, bits, has_table, halves) {bits, has_table, halves},
        PACK_VARIANTS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (r->codes == QUANT_CODES_WHOLE && variants[i].bits == r->bits &&
            variants[i].has_table == (r->table != NULL) && variants[i].halves == (r->group < PACK_DEPTH))
            return true;
    return false;
}

static bool count_runs(int *n, const quant_matrix *m) {
    quant_run r;
    *n = 0;
    if (!m->type->run) return false;
    for (int64_t k = 0; k < m->n_in; k = r.end, ++*n)
        if (!m->type->run(&r, m, k) || !has_variant(&r) || (r.end - r.begin) % span_of_run(&r)) return false;
    return true;
}

static cpu_packed *plan_runs(const quant_matrix *m, int n_runs) {
    cpu_packed *p = mem_zarray(1, sizeof *p + (size_t)n_runs * sizeof *p->runs);
    if (!p) return NULL;
    int64_t k = 0;
    for (; p->n_runs < n_runs; p->n_runs++) {
        pack_run *r = &p->runs[p->n_runs];
        m->type->run(&r->is, m, k);
        k = r->is.end;
        r->span = span_of_run(&r->is);
        r->groups = r->span / r->is.group;
        r->blocks = r->is.group < PACK_DEPTH ? 1 : r->is.group / PACK_DEPTH;
        r->header_bytes = header_bytes(&r->is, r->span);
        r->offset = p->tile_bytes;
        r->base = base_of(&r->is);
        r->rest = (float)(r->is.zero - r->base);
        r->has_rest = has_minima(&r->is) || r->is.zero != r->base;
        r->is_narrow = is_narrow(&r->is, r->base);
        const size_t spans = (size_t)((r->is.end - r->is.begin) / r->span);
        p->tile_bytes += spans * (r->header_bytes + (size_t)(r->span / PACK_DEPTH) * pack_code_bytes(r));
    }
    p->order = m->order;
    return p;
}

/* ---- codes ---- */

/* Bits [from, from + width) of the codes, `width` lines of them. Four codes of a column are a word, and bytes of a word
 * keep to themselves: all widths go word by word. */
static inline void put_plane(uint8_t *lines, const quant_tile *t, int from, int width) {
    const uint32_t mask = ((1u << width) - 1) * 0x01010101u;
    const int per_line = 8 / width;
    for (int c = 0; c < PACK_COLUMNS; c++)
        for (int l = 0; l < width; l++) {
            uint32_t word = 0;
            for (int i = 0; i < per_line; i++) {
                uint32_t four;
                memcpy(&four, &t->code[c][4 * (l * per_line + i)], sizeof four);
                word |= (four >> from & mask) << i * width;
            }
            memcpy(lines + l * PACK_LINE + 4 * c, &word, sizeof word);
        }
}

static void put_codes(uint8_t *lines, const quant_tile *t, int bits) {
    switch (bits) { /* every width a loop of its own, its numbers known */
    case 2:
        put_plane(lines, t, 0, 2);
        break;
    case 3:
        put_plane(lines, t, 0, 2);
        put_plane(lines + 2 * PACK_LINE, t, 2, 1);
        break;
    case 4:
        put_plane(lines, t, 0, 4);
        break;
    case 5:
        put_plane(lines, t, 0, 4);
        put_plane(lines + 4 * PACK_LINE, t, 4, 1);
        break;
    case 6:
        put_plane(lines, t, 0, 4);
        put_plane(lines + 4 * PACK_LINE, t, 4, 2);
        break;
    case 8:
        put_plane(lines, t, 0, 8);
        break;
    }
}

/* ---- scales ---- */

enum { COLUMN = PACK_COLUMNS };

/* Scales of the groups that begin at input `at` of a span; a tile of 32 inputs holds one, two, or a part of one. */
static void put_group(uint8_t *header, const pack_run *r, const quant_tile *t, int at) {
    const int n = r->is.group == 16 ? 2 : 1, first = at / r->is.group, n_groups = r->groups;
    for (int half = 0; half < n; half++) {
        const size_t g = (size_t)(first + half);
        switch (r->is.scales) {
        case QUANT_SCALES_PLAIN:
            memcpy(header + g * 2 * COLUMN, t->d[half], 2 * COLUMN);
            break;
        case QUANT_SCALES_ZERO:
            memcpy(header + g * 3 * COLUMN, t->d[half], 2 * COLUMN);
            memcpy(header + g * 3 * COLUMN + 2 * COLUMN, t->min[half], COLUMN);
            break;
        case QUANT_SCALES_MIN:
            memcpy(header + g * 4 * COLUMN, t->d[half], 2 * COLUMN);
            memcpy(header + g * 4 * COLUMN + 2 * COLUMN, t->dmin[half], 2 * COLUMN);
            break;
        case QUANT_SCALES_POWER:
            for (size_t c = 0; c < COLUMN; c++) header[g * COLUMN + c] = (uint8_t)t->d[half][c];
            break;
        case QUANT_SCALES_SUPER:
            if (!at) memcpy(header, t->d[0], 2 * COLUMN);
            memcpy(header + (2 + g) * COLUMN, t->scale[half], COLUMN);
            break;
        case QUANT_SCALES_SUPER_MIN:
            if (!at) memcpy(header, t->d[0], 2 * COLUMN);
            if (!at) memcpy(header + 2 * COLUMN, t->dmin[0], 2 * COLUMN);
            memcpy(header + (4 + g) * COLUMN, t->scale[half], COLUMN);
            memcpy(header + (4 + (size_t)n_groups + g) * COLUMN, t->min[half], COLUMN);
            break;
        }
    }
}

/* ---- tiles ---- */

typedef struct job {
    const quant_matrix *m;
    const cpu_packed *p;
    uint8_t *tiles;
} job;

static void pack_run_of_tile(uint8_t *to, const quant_matrix *m, const pack_run *r, int64_t column) {
    quant_tile t;
    for (int64_t k = r->is.begin; k < r->is.end; k += r->span) {
        uint8_t *header = to;
        to += r->header_bytes;
        for (int at = 0; at < r->span; at += PACK_DEPTH) {
            m->type->tile(&t, m, &r->is, column, k + at);
            if (at % r->is.group == 0 || r->is.group < PACK_DEPTH) put_group(header, r, &t, at);
            put_codes(to, &t, r->is.bits);
            to += pack_code_bytes(r);
        }
    }
}

static void pack_tile(void *context, int64_t task, int worker) {
    const job *j = context;
    uint8_t *tile = j->tiles + (size_t)task * j->p->tile_bytes;
    for (int i = 0; i < j->p->n_runs; i++)
        pack_run_of_tile(tile + j->p->runs[i].offset, j->m, &j->p->runs[i], task * PACK_COLUMNS);
}

/* What a weight is kept under: its own key and how it lies. */
static uint64_t key_of(const dev_weight *w, const cpu_packed *plan) {
    uint64_t key = w->key;
    for (int i = 0; i < plan->n_runs; i++) {
        const quant_run *r = &plan->runs[i].is;
        const int64_t numbers[] = {w->type->id, w->n_out, w->n_in, r->begin, r->end, r->bits, r->group, r->scales};
        key = hash_bytes(numbers, sizeof numbers, key);
    }
    return key;
}

static qp_status make_tiles(dev_weight *w, cpu_packed *plan, size_t bytes, int64_t n_tiles, pool *p, qp_error *err) {
    w->owned = mem_big(bytes);
    if (!w->owned) return err_no_memory(err, bytes, "a packed weight");
    job j = {&w->stored, plan, w->owned};
    pool_run(p, pack_tile, &j, n_tiles);
    return QP_OK;
}

static qp_status fill_plan(dev_weight *w, cpu_packed *plan, pool *p, pack_cache *cache, qp_error *err) {
    const int64_t n_tiles = (w->n_out + PACK_COLUMNS - 1) / PACK_COLUMNS;
    size_t bytes;
    if (!mem_mul((size_t)n_tiles, plan->tile_bytes, &bytes)) return err_no_memory(err, SIZE_MAX, "a packed weight");
    const uint64_t key = w->key && cache ? key_of(w, plan) : 0;
    const uint8_t *kept = key ? pack_cache_find(cache, key, bytes) : NULL;
    plan->is_lent = kept != NULL;
    if (kept)
        w->owned = (void *)(uintptr_t)kept; /* nobody writes there */
    else
        ERR_TRY(make_tiles(w, plan, bytes, n_tiles, p, err));
    if (key && !kept) pack_cache_add(cache, key, w->owned, bytes);
    w->packed = plan;
    w->owned_bytes = bytes;
    return QP_OK;
}

qp_status pack_weight(dev_weight *w, pool *p, pack_cache *cache, qp_error *err) {
    int n_runs;
    if (!count_runs(&n_runs, &w->stored)) return QP_OK;
    cpu_packed *plan = plan_runs(&w->stored, n_runs);
    if (!plan) return err_no_memory(err, (size_t)n_runs * sizeof *plan->runs, "the layout of a weight");
    const qp_status status = fill_plan(w, plan, p, cache, err);
    if (status != QP_OK) mem_free(plan);
    return status;
}

void pack_free(dev_weight *w) {
    const cpu_packed *plan = w->packed;
    if (plan && !plan->is_lent) mem_big_free(w->owned, w->owned_bytes);
    mem_free(w->packed);
    w->owned = NULL;
    w->packed = NULL;
}
