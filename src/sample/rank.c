/* rank.c — selection by histogram: the keys' range is split into 1024 parts, the part in which the cut lies is split
 * again, until few are left, which are sorted. Linear in the length whatever the keys are. */
#include "rank.h"
#include <stdbool.h>
#include <string.h>

enum { PARTS_BITS = 10, PARTS = 1 << PARTS_BITS, FEW = 48 };

typedef struct members {
    const uint32_t *keys;
    const float *masses;
    int32_t *at; /* [n]; NULL: all of 0 .. n-1 */
    int n;
} members;

static inline int member(const members *m, int i) { return m->at ? m->at[i] : i; }
static inline double mass_of(const members *m, int index) { return m->masses ? (double)m->masses[index] : 1; }

static void find_range(const members *m, uint32_t *lowest, uint32_t *highest) {
    uint32_t low = UINT32_MAX, high = 0;
    for (int i = 0; i < m->n; i++) {
        const uint32_t key = m->keys[member(m, i)];
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    *lowest = low;
    *highest = high;
}

/* The part in which the sum reaches `wanted`, or the last that has any; what lies before it is taken off `wanted`. */
static uint32_t find_part(const members *m, uint32_t lowest, int shift, double *wanted) {
    double masses[PARTS] = {0};
    for (int i = 0; i < m->n; i++) {
        const int index = member(m, i);
        masses[(m->keys[index] - lowest) >> shift] += mass_of(m, index);
    }
    double before = 0, before_last = 0;
    uint32_t last = 0;
    for (uint32_t part = 0; part < PARTS; part++) {
        if (!(masses[part] > 0)) continue;
        last = part;
        before_last = before;
        before += masses[part];
        if (before >= *wanted) break;
    }
    *wanted -= before_last;
    return last;
}

static void keep_part(members *m, uint32_t lowest, int shift, uint32_t part, int32_t *scratch) {
    int n = 0;
    for (int i = 0; i < m->n; i++) { /* no branch: who stays is anybody's guess */
        const int index = member(m, i);
        const bool stays = (m->keys[index] - lowest) >> shift == part;
        scratch[n] = index;
        n += stays;
    }
    m->at = scratch;
    m->n = n;
}

/* Stable, so that equal keys keep their order. */
static void sort_few(members *m, int32_t *scratch) {
    for (int i = 0; i < m->n; i++) {
        const int32_t index = member(m, i);
        int j = i;
        for (; j > 0 && m->keys[scratch[j - 1]] > m->keys[index]; j--) scratch[j] = scratch[j - 1];
        scratch[j] = index;
    }
    m->at = scratch;
}

static rank_cut walk(const members *m, double wanted) {
    rank_cut cut = {0};
    double sum = 0;
    for (int i = 0; i < m->n && (i == 0 || sum < wanted); i++) {
        const int index = m->at[i];
        cut.n_equal = i && m->keys[index] == cut.key ? cut.n_equal + 1 : 1;
        cut.key = m->keys[index];
        sum += mass_of(m, index);
    }
    return cut;
}

rank_cut rank_by_mass(const uint32_t *keys, const float *masses, int n, double wanted, int32_t *scratch) {
    members m = {keys, masses, NULL, n};
    while (m.n > FEW) {
        uint32_t lowest, highest;
        find_range(&m, &lowest, &highest);
        const int bits = highest > lowest ? 32 - __builtin_clz(highest - lowest) : 0;
        const int shift = bits > PARTS_BITS ? bits - PARTS_BITS : 0;
        keep_part(&m, lowest, shift, find_part(&m, lowest, shift, &wanted), scratch);
        if (shift == 0) return walk(&m, wanted); /* all equal */
    }
    sort_few(&m, scratch);
    return walk(&m, wanted);
}

void rank_sort(uint32_t *keys, int n, uint32_t *scratch) {
    enum { DIGIT = 8, DIGITS = 4, VALUES = 1 << DIGIT };
    for (int digit = 0; digit < DIGITS; digit++) {
        int at[VALUES] = {0}, sum = 0;
        for (int i = 0; i < n; i++) at[keys[i] >> digit * DIGIT & (VALUES - 1)]++;
        for (int v = 0; v < VALUES; v++) {
            const int count = at[v];
            at[v] = sum;
            sum += count;
        }
        for (int i = 0; i < n; i++) scratch[at[keys[i] >> digit * DIGIT & (VALUES - 1)]++] = keys[i];
        memcpy(keys, scratch, (size_t)n * sizeof *keys);
    }
}
