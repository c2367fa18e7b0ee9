/* amx_attend.c — attention over one page of float16 keys and values, on AMX tiles.
 *
 * Called by cpu_attend.c for `fast` precision, for one query as for many, so that a prompt and an answer are the same
 * arithmetic. Queries, keys, weights and values are rounded to BF16; sums, maxima and the exponential function are
 * float32. Three passes: scores of all queries (tiles of 16 queries x 32 elements times 32 elements x 16 slots), then
 * for each 32 queries weights and weighted values (16 queries x 32 slots times 32 slots x 16 elements). Keys and values
 * are brought into the order of tiles once for all queries.
 *
 * A sum goes through elements, or through the page's slots, in ascending tiles. A slot that a query does not see has a
 * weight of zero, which changes no bit of a sum; so a query may pass over slots that only its neighbours see, and still
 * depends on what it sees alone. Zero times infinity or NaN would be NaN, so such values are left out of the tiles and
 * added by hand (add_endless).
 *
 * Tricky: keys lie in groups of 16 slots, element after element, so two elements of a group are one line and become a
 * line of pairs by one permutation. Values lie slot after slot; pairs are made of slots 16 apart, because then the
 * weights of 32 slots need no permutation at all. */
#include "cpu.h"
#include "amx_tiles.h"
#include "avx512_vec.h"

#include "attend_scores.inc"

enum {
    QUERIES = CPU_ATTEND_QUERIES,
    DIM = CPU_ATTEND_TILES_DIM,
    PAGE = DEV_PAGE_TOKENS,
    ROW = PAGE + TILE_SIDE, /* of a query's scores: a power of two would make all queries share cache sets */
    BLOCK = 2 * TILE_SIDE,  /* queries that share the tiles of keys and values, and slots that share those of queries */
    SLOTS = TILE_DEPTH,     /* of a tile of values */
    HALF_TILE = TILE_BYTES / 2, /* in elements */
    FEW = TILE_SIDE,            /* queries that are done without tiles */
};
_Static_assert((int)DEV_KEY_GROUP == (int)TILE_SIDE && (int)LANES == (int)TILE_SIDE, "a group of keys is a tile wide");
_Static_assert(QUERIES % BLOCK == 0 && PAGE % SLOTS == 0, "whole blocks");

/* The scratch memory. */
typedef struct room {
    _Alignas(64) float scores[QUERIES * ROW]; /* of a query a row; then its weights, in the first half of the row */
    uint16_t q[QUERIES * DIM];                /* [16 queries][tile of elements] */
    uint16_t kv[PAGE * DIM]; /* keys: [16 slots][tile of elements]; then values: [32 slots][16 elements] */
    float sums[BLOCK * DIM];
} room;
_Static_assert(sizeof(room) <= CPU_ATTEND_FLOATS * sizeof(float), "the scratch memory");

typedef struct page {
    const cpu_attend_page *a;
    room *room;
    int from, to;               /* slots that some query sees, in whole tiles of values */
    int key_tiles, value_tiles; /* 32 elements of a key, 16 of a value */
    int n_endless;              /* slots whose value is not finite everywhere */
    uint8_t endless[PAGE];
} page;

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }
static int up(int a, int b) { return (a + b - 1) / b; }

/* Narrows [*from, *to) to what some of the n queries from `i` see; *from == *to where they see nothing. */
static void seen_by_any(const cpu_attend_page *a, int i, int n, int *from, int *to) {
    int first = *to, last = *from;
    for (int k = i; k < i + n; k++) {
        if (a->begin[k] >= a->end[k]) continue;
        first = least(first, a->begin[k]);
        last = most(last, a->end[k]);
    }
    *from = least(most(*from, first), *to);
    *to = most(least(*to, last), *from);
}

/* ---- float16 to BF16 ---- */

/* Zeros, subnormals, infinities and NaN. */
static __m512i narrow_any(__m512i halves) {
    const __m256i low = _mm512_castsi512_si256(halves), high = _mm512_extracti64x4_epi64(halves, 1);
    const __m256i a = _mm512_cvtepi32_epi16(tiles_bf16(_mm512_cvtph_ps(low)));
    const __m256i b = _mm512_cvtepi32_epi16(tiles_bf16(_mm512_cvtph_ps(high)));
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* Whether some of the 32 are of that kind. */
static inline bool is_unusual(__m512i halves) {
    const __m512i size = _mm512_and_si512(halves, _mm512_set1_epi16(0x7FFF));
    const __m512i range = _mm512_sub_epi16(size, _mm512_set1_epi16(0x0400));
    return __builtin_expect(_mm512_cmpge_epu16_mask(range, _mm512_set1_epi16(0x7800)) != 0, 0);
}

/* Others, to nearest even: shifted to the narrower mantissa, with the other exponent's bias. */
static inline __m512i narrow_normal(__m512i halves) {
    const __m512i size = _mm512_and_si512(halves, _mm512_set1_epi16(0x7FFF));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(size, 3), _mm512_set1_epi16(1));
    const __m512i rounded = _mm512_add_epi16(_mm512_add_epi16(size, _mm512_set1_epi16(3)), odd);
    const __m512i biased = _mm512_add_epi16(_mm512_srli_epi16(rounded, 3), _mm512_set1_epi16(112 << 7));
    return _mm512_ternarylogic_epi64(halves, biased, _mm512_set1_epi16((int16_t)0x8000), 0xE4); /* sign and the rest */
}

static inline __m512i narrow(__m512i halves) { return is_unusual(halves) ? narrow_any(halves) : narrow_normal(halves); }

static __mmask32 not_finite(__m512i halves) {
    const __m512i size = _mm512_and_si512(halves, _mm512_set1_epi16(0x7FFF));
    return _mm512_cmpge_epu16_mask(size, _mm512_set1_epi16(0x7C00));
}

/* Lines [16 a][16 b] become 16 pairs a b. */
static inline __m512i pair_halves(__m512i line) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, line);
}

/* ---- into tiles ---- */

/* Queries that do not exist and elements beyond the last are zeros. */
static void pack_queries(const page *p) {
    const cpu_attend_page *a = p->a;
    const int tiles = p->key_tiles, dim = a->head_dim, rows = up(a->n_queries, TILE_SIDE) * TILE_SIDE;
    for (int i = 0; i < rows; i++)
        for (int t = 0; t < tiles; t++) {
            const int n = i < a->n_queries ? dim - t * TILE_DEPTH : 0;
            const float *q = n > 0 ? a->q + (size_t)i * (size_t)dim + (size_t)t * TILE_DEPTH : a->q;
            const __m512i low = tiles_bf16(vec_load_part(q, n));
            const __m512i high = tiles_bf16(vec_load_part(n > LANES ? q + LANES : q, n - LANES));
            uint16_t *line = p->room->q + ((i / TILE_SIDE * tiles + t) * TILE_SIDE + i % TILE_SIDE) * TILE_DEPTH;
            _mm256_storeu_si256((void *)line, _mm512_cvtepi32_epi16(low));
            _mm256_storeu_si256((void *)(line + LANES), _mm512_cvtepi32_epi16(high));
        }
}

/* What follows in memory is asked for meanwhile, as far ahead as it will be read. */
static void pack_keys(const page *p) {
    const size_t dim = (size_t)p->a->head_dim, pairs = (size_t)p->key_tiles * TILE_DEPTH / 2;
    const uint16_t *keys = p->a->k;
    const uint8_t *soon = p->a->v;
    for (int slot = p->from; slot < p->to; slot += DEV_KEY_GROUP) {
        const size_t first = (size_t)slot * dim;
        uint16_t *to = p->room->kv + (size_t)slot * 2 * pairs;
        for (size_t pair = 0; pair < pairs; pair++) {
            const size_t at = 2 * pair, left = dim > at ? dim - at : 0;
            const __mmask32 lanes = left > 1 ? ~0u : left ? 0xFFFF : 0;
            const uint16_t *from = keys + first + (left ? at * DEV_KEY_GROUP : 0);
            __builtin_prefetch(soon + 2 * (first + at * DEV_KEY_GROUP), 0, 2);
            const __m512i line = lanes == ~0u ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi16(lanes, from);
            _mm512_store_si512(to + pair * 2 * DEV_KEY_GROUP, pair_halves(narrow(line)));
        }
    }
}

static void note_endless(page *p, int slot, __mmask32 lanes) {
    for (int half = 0; half < 2; half++, lanes >>= 16) {
        const uint8_t which = (uint8_t)(slot + half * TILE_SIDE);
        if (!(lanes & 0xFFFF) || (p->n_endless && memchr(p->endless, which, (size_t)p->n_endless))) continue;
        p->endless[p->n_endless++] = which;
    }
}

/* 16 elements of slot j and of slot j + 16. */
static inline void put_values(page *p, uint16_t *to, __m512i line, int j) {
    if (!is_unusual(line)) {
        _mm512_store_si512(to, pair_halves(narrow_normal(line)));
        return;
    }
    const __mmask32 lanes = not_finite(line);
    if (lanes) note_endless(p, j, lanes);
    _mm512_store_si512(to, pair_halves(narrow_any(_mm512_maskz_mov_epi16(~lanes, line))));
}

static inline __m512i beside(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Of 32 slots from `slot` on, those in [begin, end), and as many elements as there are; the rest is zeros. */
static void pack_some(page *p, int slot, int begin, int end, uint16_t *to) {
    const int dim = p->a->v_dim;
    const uint16_t *values = p->a->v;
    for (int t = 0; t < p->value_tiles; t++)
        for (int j = slot; j < slot + TILE_SIDE; j++, to += TILE_DEPTH) {
            const __mmask16 lanes = vec_mask(dim - t * TILE_SIDE);
            const bool low = j >= begin && j < end, high = j + TILE_SIDE >= begin && j + TILE_SIDE < end;
            const uint16_t *from = values + j * dim + t * TILE_SIDE;
            const __m256i a = _mm256_maskz_loadu_epi16(low ? lanes : 0, low ? from : values);
            const __m256i b = _mm256_maskz_loadu_epi16(high ? lanes : 0, high ? from + TILE_SIDE * dim : values);
            put_values(p, to, beside(a, b), j);
        }
}

/* All of them. */
static void pack_whole(page *p, int slot, uint16_t *to) {
    const size_t dim = (size_t)p->a->v_dim;
    const uint16_t *from = (const uint16_t *)p->a->v + (size_t)slot * dim;
    const uint8_t *soon = (const uint8_t *)(p->a->next_k ? p->a->next_k : p->a->v) + (size_t)slot * dim * 2;
    for (int j = slot; j < slot + TILE_SIDE; j++, to += TILE_DEPTH)
        for (int t = 0; t < p->value_tiles; t++, from += TILE_SIDE, soon += 2 * TILE_DEPTH) {
            __builtin_prefetch(soon, 0, 2);
            const __m256i a = _mm256_loadu_si256((const void *)from);
            const __m256i b = _mm256_loadu_si256((const void *)(from + TILE_SIDE * dim));
            put_values(p, to + t * HALF_TILE, beside(a, b), j);
        }
}

/* Slots that no query sees may hold anything: they are zeros. */
static void pack_values(page *p, int begin, int end) {
    for (int slot = p->from; slot < p->to; slot += SLOTS) {
        uint16_t *to = p->room->kv + (size_t)(slot / SLOTS * p->value_tiles) * HALF_TILE;
        if (slot >= begin && slot + SLOTS <= end && p->a->v_dim % TILE_SIDE == 0)
            pack_whole(p, slot, to);
        else
            pack_some(p, slot, begin, end, to);
    }
}

/* ---- products ---- */

/* Tiles of one side of a product: lines `pitch` bytes apart, tiles of depth `step`, and `other` to the second of two
 * tiles beside each other; 0: there is one. */
typedef struct operand {
    const void *at;
    size_t pitch, step, other;
} operand;

/* sums[two tiles of a][two tiles of b], `pitch` bytes from row to row. */
static void multiply(float *sums, size_t pitch, operand a, operand b, int n) {
    const uint8_t *x = a.at, *y = b.at;
    uint8_t *to = (uint8_t *)sums;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int i = 0; i < n; i++, x += a.step, y += b.step) {
        _tile_loadd(4, x, a.pitch);
        _tile_loadd(6, y, b.pitch);
        _tile_dpbf16ps(0, 4, 6);
        if (b.other) {
            _tile_loadd(7, y + b.other, b.pitch);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (!a.other) continue;
        _tile_loadd(5, x + a.other, a.pitch);
        _tile_dpbf16ps(2, 5, 6);
        if (b.other) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, to, pitch);
    if (b.other) _tile_stored(1, to + 64, pitch);
    if (!a.other) return;
    to += TILE_SIDE * pitch;
    _tile_stored(2, to, pitch);
    if (b.other) _tile_stored(3, to + 64, pitch);
}

/* Scores of a block's queries for slots [from, to), two groups of keys at a time. */
static void score(const page *p, int i, int n, int from, int to) {
    const size_t group = (size_t)p->key_tiles * TILE_BYTES;
    const operand q = {p->room->q + (size_t)i * (size_t)p->key_tiles * TILE_DEPTH, 64, TILE_BYTES,
                       n > TILE_SIDE ? group : 0};
    for (int slot = from; slot < to; slot += BLOCK) {
        const operand k = {p->room->kv + (size_t)slot * (size_t)p->key_tiles * TILE_DEPTH, 64, TILE_BYTES, group};
        multiply(p->room->scores + i * ROW + slot, ROW * sizeof(float), q, k, p->key_tiles);
    }
}

/* ---- weights ---- */

/* e^x for x <= 0 within 2^-13: enough for what will be rounded to 8 bits. Never less than e^-70, as vec_weight. */
static inline vec rough_weight(vec x) {
    const vec round = vec_set(0x1.8p23f), per_two = vec_set(0x1.715476p0f), high = vec_max(vec_set(-70), x);
    const vec shifted = vec_fma(high, per_two, round); /* the exponent is in the low bits */
    const vec f = vec_fma(high, per_two, vec_sub(round, shifted));
    vec sum = vec_set(0x1.c3f76p-5f);
    sum = vec_fma(sum, f, vec_set(0x1.f0de1ap-3f));
    sum = vec_fma(sum, f, vec_set(0x1.62f31ap-1f));
    sum = vec_fma(sum, f, vec_set(0x1.fff692p-1f));
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(sum), exponent));
}

/* Two vectors of weights, rounded to BF16, as pairs. */
static inline __m512i pair_weights(vec a, vec b) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xFFFF0000);
    const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(a), half), 16);
    const __m512i high = _mm512_add_epi32(_mm512_castps_si512(b), half);
    return _mm512_ternarylogic_epi32(low, high, upper, 0xF8); /* low, or those of high */
}

/* Lanes of the vector at `slot` that a query sees. */
static __mmask16 seen_of(int slot, int begin, int end) {
    return vec_mask(end - slot) & (__mmask16)~vec_mask(begin - slot);
}

/* The same where the slots are, each as a float. */
static inline void put_apart(float *scores, vec a, vec b) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xFFFF0000);
    _mm512_storeu_si512(scores, _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(a), half), upper));
    _mm512_storeu_si512(scores + LANES, _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(b), half), upper));
}

static inline void put_weights(float *scores, int slot, vec a, vec b, bool apart) {
    if (apart)
        put_apart(scores + slot, a, b);
    else
        _mm512_storeu_si512((uint16_t *)scores + slot, pair_weights(a, b));
}

/* Scores of [from, to) into weights, apart or in pairs of slots in the row's first half; returns their sum. Where a
 * query sees none of 32 slots nothing is computed: the sum must not depend on where the others of its block begin. */
static float weigh(float *scores, int begin, int end, int from, int to, float best, bool apart) {
    const int first = begin < end ? begin / SLOTS * SLOTS : to, last = begin < end ? up(end, SLOTS) * SLOTS : to;
    vec totals[2] = {vec_set(0), vec_set(0)};
    int slot = from;
    for (; slot < first; slot += SLOTS) put_weights(scores, slot, vec_set(0), vec_set(0), apart);
    for (; slot < last; slot += SLOTS) {
        vec a = rough_weight(vec_sub(vec_load(scores + slot), vec_set(best)));
        vec b = rough_weight(vec_sub(vec_load(scores + slot + LANES), vec_set(best)));
        if (slot < begin || slot + SLOTS > end) {
            a = _mm512_maskz_mov_ps(seen_of(slot, begin, end), a);
            b = _mm512_maskz_mov_ps(seen_of(slot + LANES, begin, end), b);
        }
        totals[0] = vec_add(totals[0], a);
        totals[1] = vec_add(totals[1], b);
        put_weights(scores, slot, a, b, apart);
    }
    for (; slot < to; slot += SLOTS) put_weights(scores, slot, vec_set(0), vec_set(0), apart);
    return vec_sum(vec_add(totals[0], totals[1]));
}

static void weigh_block(const page *p, int i, int n, int from, int to, bool apart) {
    const cpu_attend_page *a = p->a;
    float *scores = p->room->scores + i * ROW;
    for (int k = 0; k < n && a->cap != 0; k++) cap_scores(scores + k * ROW, a->begin[i + k], a->end[i + k], a->cap);
    for (int k = 0; k < n; k++) a->to.best[i + k] = find_best(scores + k * ROW, a->begin[i + k], a->end[i + k]);
    for (int k = 0; k < n; k++)
        a->to.total[i + k] =
            weigh(scores + k * ROW, a->begin[i + k], a->end[i + k], from, to, a->to.best[i + k], apart);
}

/* ---- values ---- */

static void put_sums(const page *p, int i, int n) {
    const int dim = p->a->v_dim, pitch = p->value_tiles * TILE_SIDE;
    for (int k = 0; k < n; k++) {
        const float *from = p->room->sums + k * pitch;
        float *to = p->a->to.sum + (size_t)(i + k) * (size_t)dim;
        for (int d = 0; d < dim; d += LANES) vec_store_part(to + d, vec_load(from + d), dim - d);
    }
}

/* Weighted values of a block's queries. Rows of the last block that are no queries have whatever weights: their sums
 * go nowhere. */
static void mix(const page *p, int i, int n, int from, int to) {
    const size_t pitch = (size_t)p->value_tiles * 64;
    const operand weights = {(const uint16_t *)(p->room->scores + i * ROW) + from, ROW * sizeof(float), 64,
                             n > TILE_SIDE ? TILE_SIDE * ROW * sizeof(float) : 0};
    const uint16_t *values = p->room->kv + (size_t)(from / SLOTS * p->value_tiles) * HALF_TILE;
    for (int t = 0; t < p->value_tiles; t += 2) {
        const operand v = {values + t * HALF_TILE, 64, (size_t)p->value_tiles * TILE_BYTES,
                           t + 1 < p->value_tiles ? TILE_BYTES : 0};
        multiply(p->room->sums + t * TILE_SIDE, pitch, weights, v, (to - from) / SLOTS);
    }
    put_sums(p, i, n);
}

/* What is infinite or NaN in a value that was left out of the tiles. */
static void add_endless(const page *p, int slot) {
    const cpu_attend_page *a = p->a;
    const uint16_t *value = (const uint16_t *)a->v + (size_t)slot * (size_t)a->v_dim;
    for (int i = 0; i < a->n_queries; i++)
        for (int d = 0; d < a->v_dim && a->begin[i] <= slot && slot < a->end[i]; d++)
            if ((value[d] & 0x7C00) == 0x7C00) a->to.sum[i * a->v_dim + d] += quant_f16_to_f32(value[d]);
}

/* ---- a page ---- */

static void score_all(const page *p, int begin, int end) {
    for (int i = 0; i < p->a->n_queries; i += BLOCK) {
        const int n = least(BLOCK, p->a->n_queries - i);
        int from = begin, to = end;
        seen_by_any(p->a, i, n, &from, &to);
        if (from < to) score(p, i, n, from / SLOTS * SLOTS, up(to, SLOTS) * SLOTS);
    }
}

static void mix_all(const page *p, int begin, int end) {
    for (int i = 0; i < p->a->n_queries; i += BLOCK) {
        const int n = least(BLOCK, p->a->n_queries - i);
        int from = begin, to = end;
        seen_by_any(p->a, i, n, &from, &to);
        from = from / SLOTS * SLOTS;
        to = to > from ? up(to, SLOTS) * SLOTS : from;
        weigh_block(p, i, n, from, to, false);
        mix(p, i, n, from, to);
    }
}

#include "amx_few.inc"

static void page_tiles(const cpu_attend_page *a) {
    page p = {.a = a, .room = a->scratch};
    if (a->n_queries <= FEW) {
        page_few(&p);
        return;
    }
    int begin = 0, end = PAGE;
    seen_by_any(a, 0, a->n_queries, &begin, &end);
    p.from = begin / SLOTS * SLOTS;
    p.to = end > begin ? up(end, SLOTS) * SLOTS : p.from;
    p.key_tiles = up(a->head_dim, TILE_DEPTH);
    p.value_tiles = up(a->v_dim, TILE_SIDE);
    const tile_config config = tiles_full();
    tiles_configure(&config);
    pack_queries(&p);
    pack_keys(&p);
    score_all(&p, begin, end);
    pack_values(&p, begin, end);
    mix_all(&p, begin, end);
    for (int i = 0; i < p.n_endless; i++) add_endless(&p, p.endless[i]);
    tiles_release();
}

const cpu_attend_ops cpu_attend_amx = {.page_tiles = page_tiles};
