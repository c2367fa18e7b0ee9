/* digest.cu — what a sampler needs to know of a row of logits, found where the row is.
 *
 * Called by cuda_digest.c, all `early`; blockIdx.y is the row. The row as the settings want it (copy, change), the
 * greatest of each group, their masses, and the greatest values or those of one group. The numbers must be the
 * sampler's to the bit (base/digest.h): sums have the shape of its sweeps, nothing is fused. */
#include "keys.cuh"
#include "../digest_kargs.h"

enum { THREADS = DIGEST_LIST_THREADS, WARPS = THREADS / WARP, LANES = DIGEST_LANES };

static __device__ __forceinline__ bool is_changed(const digest_order &o) { return o.is_masked || o.n_changes; }

static __device__ __forceinline__ const float *row_of(const k_digest_args &a, const digest_order &o) {
    return (is_changed(o) ? a.changed : a.logits) + (int64_t)blockIdx.y * a.stride;
}

static __device__ __forceinline__ float value_at(const float *row, const digest_order &o, int64_t id) {
    return id < o.n ? row[id] : -INFINITY;
}

/* ---- the row as the settings want it ---- */

/* Grid: [pieces][rows]. */
KERNEL k_digest_copy(const k_digest_args a) {
    take_turn();
    const digest_order o = a.orders[blockIdx.y];
    const uint32_t *mask = (const uint32_t *)((const uint8_t *)a.orders + o.mask);
    const float *from = a.logits + (int64_t)blockIdx.y * a.stride;
    float *to = a.changed + (int64_t)blockIdx.y * a.stride;
    if (!is_changed(o)) return;
    for (int64_t id = thread_index(); id < o.n; id += thread_count())
        to[id] = !o.is_masked || mask[id / 32] >> (id % 32) & 1 ? from[id] : -INFINITY;
}

static __device__ float change(float logit, const digest_change &c) {
    if (!(fabsf(logit) <= GREATEST)) return logit;
    const bool is_negative = __float_as_uint(logit) >> 31;
    const float repeated = is_negative ? __fmul_rn(logit, c.divisor) : __fdiv_rn(logit, c.divisor);
    const float after = __fadd_rn(__fadd_rn(repeated, -c.minus), -c.then_minus);
    return after > GREATEST ? GREATEST : after < -GREATEST ? -GREATEST : after;
}

static __device__ bool is_first(const digest_change *list, int at) {
    for (int i = 0; i < at; i++)
        if (list[i].id == list[at].id) return false;
    return true;
}

/* Grid: [pieces][rows]. The thread of an id's first change makes all of them. */
KERNEL k_digest_change(const k_digest_args a) {
    take_turn();
    const digest_order o = a.orders[blockIdx.y];
    const digest_change *list = (const digest_change *)((const uint8_t *)a.orders + o.changes);
    float *row = a.changed + (int64_t)blockIdx.y * a.stride;
    for (int i = (int)thread_index(); i < o.n_changes; i += (int)thread_count()) {
        const int32_t id = list[i].id;
        if (id < 0 || id >= o.n || (o.has_many && !is_first(list, i))) continue;
        float logit = row[id];
        for (int k = i; k < (o.has_many ? o.n_changes : i + 1); k++)
            if (list[k].id == id) logit = change(logit, list[k]);
        row[id] = logit;
    }
}

/* ---- groups ---- */

/* NaN is nothing. */
static __device__ __forceinline__ float greater(float x, float y) { return x > y ? x : y; }

static __device__ __forceinline__ float warp_greatest(float x) {
    for (int step = 16; step; step /= 2) x = greater(__shfl_xor_sync(ALL_LANES, x, step), x);
    return x;
}

/* Grid: [pieces][rows]; a warp for a group. */
KERNEL k_digest_peaks(const k_digest_args a) {
    take_turn();
    const digest_order o = a.orders[blockIdx.y];
    const float *row = row_of(a, o);
    const int lane = (int)(threadIdx.x % WARP), size = o.group * DIGEST_BLOCK;
    for (int g = (int)(thread_index() / WARP); g < o.n_groups; g += (int)(thread_count() / WARP)) {
        float most = -INFINITY;
        for (int i = lane; i < size; i += WARP) most = greater(value_at(row, o, (int64_t)g * size + i), most);
        most = warp_greatest(most);
        if (lane == 0) a.bodies[blockIdx.y].peaks[g] = most;
    }
}

/* The greatest of all peaks, for all threads. */
static __device__ float highest_of(const float *peaks, int n_groups, float *room) {
    float most = -INFINITY;
    for (int g = (int)threadIdx.x; g < n_groups; g += (int)blockDim.x) most = greater(peaks[g], most);
    most = warp_greatest(most);
    if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = most;
    __syncthreads();
    for (int i = 0; i < (int)blockDim.x / WARP; i++) most = greater(room[i], most);
    return most;
}

static __device__ __forceinline__ float exponent_of(const digest_order &o, float logit, float highest) {
    const float d = __fadd_rn(logit, -highest);
    return __fmul_rn(d, __fadd_rn(o.slope, __fmul_rn(d, o.bend)));
}

/* 2^x for x <= 0 as sample/num.h has it. */
static __device__ __forceinline__ float power_of(float x) {
    if (!(x > EXP2_LEAST)) return 0;
    const float shifted = __fadd_rn(x, EXP2_SHIFTER), f = __fadd_rn(x, -__fadd_rn(shifted, -EXP2_SHIFTER));
    const float f2 = __fmul_rn(f, f), low = __fadd_rn(EXP2_C1, __fmul_rn(EXP2_C2, f));
    const float high = __fadd_rn(__fadd_rn(EXP2_C3, __fmul_rn(EXP2_C4, f)), __fmul_rn(EXP2_C5, f2));
    const float poly = __fadd_rn(low, __fmul_rn(f2, high));
    const float power = __uint_as_float((__float_as_uint(shifted) << 23) + 0x3F800000u);
    return __fmul_rn(__fadd_rn(1, __fmul_rn(f, poly)), power);
}

/* Grid: [pieces][rows]; a warp for a group, of which half the lanes add. */
KERNEL k_digest_masses(const k_digest_args a) {
    __shared__ float room[WARPS];
    take_turn();
    const digest_order o = a.orders[blockIdx.y];
    digest_body *body = &a.bodies[blockIdx.y];
    if (o.want == DIGEST_BEST) return;
    const float *row = row_of(a, o), highest = highest_of(body->peaks, o.n_groups, room);
    const int lane = (int)(threadIdx.x % WARP), size = o.group * DIGEST_BLOCK;
    for (int g = (int)(thread_index() / WARP); g < o.n_groups; g += (int)(thread_count() / WARP)) {
        float sum = 0;
        if (exponent_of(o, body->peaks[g], highest) > EXP2_LEAST)
            for (int i = lane % LANES; i < size; i += LANES)
                sum = __fadd_rn(sum, power_of(exponent_of(o, value_at(row, o, (int64_t)g * size + i), highest)));
        for (int half = LANES / 2; half; half /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(ALL_LANES, sum, half));
        if (lane == 0) body->masses[g] = sum;
    }
}

/* ---- the greatest values ---- */

/* The lowest id with the highest logit; by the first warp, for all its lanes. */
static __device__ int32_t best_of(const float *peaks, const digest_order &o, const float *row, float highest) {
    const int lane = (int)threadIdx.x, size = o.group * DIGEST_BLOCK;
    for (int g = 0; g < o.n_groups; g += WARP) {
        const unsigned hits = __ballot_sync(ALL_LANES, g + lane < o.n_groups && peaks[g + lane] == highest);
        if (!hits) continue;
        const int64_t first = (int64_t)(g + __popc((hits & -hits) - 1)) * size;
        for (int i = 0; i < size; i += WARP) {
            const unsigned found = __ballot_sync(ALL_LANES, value_at(row, o, first + i + lane) == highest);
            if (found) return (int32_t)(first + i + __popc((found & -found) - 1));
        }
    }
    return -1;
}

/* The group in which the draw lies, as the sampler finds it: the last that has a mass and begins at or below the
 * target. Sums are one after the other, so one thread's; what it adds lies near by then, and all look at the sums. For
 * all threads. */
static __device__ int drawn_group(const float *masses, const digest_order &o, int *room) {
    enum { AT_ONCE = 8 }; /* asked for together: the additions wait for each other long enough */
    __shared__ float near[DIGEST_MOST_GROUPS];
    __shared__ double before[DIGEST_MOST_GROUPS + 1]; /* of all groups in front of each */
    for (int g = (int)threadIdx.x; g < DIGEST_MOST_GROUPS; g += THREADS) near[g] = g < o.n_groups ? masses[g] : 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int g = 0; g < o.n_groups; g += AT_ONCE) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                before[g + i] = sum;
                sum += near[g + i];
            }
        }
        before[DIGEST_MOST_GROUPS] = sum;
    }
    __syncthreads();
    const double target = __dmul_rn(o.uniform, before[DIGEST_MOST_GROUPS]);
    int group = 0;
    for (int g = (int)threadIdx.x; g < o.n_groups; g += THREADS)
        if (near[g] > 0 && before[g] <= target) group = g;
    for (int step = WARP / 2; step; step /= 2) group = max(group, __shfl_xor_sync(ALL_LANES, group, step));
    if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = group;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) group = max(group, room[i]);
    return group;
}

/* For all threads: the sum of their counts. */
static __device__ int block_count(int n, int *room) {
    for (int step = 16; step; step /= 2) n += __shfl_xor_sync(ALL_LANES, n, step);
    __syncthreads();
    if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = n;
    __syncthreads();
    n = 0;
    for (int i = 0; i < WARPS; i++) n += room[i];
    return n;
}

/* The k-th greatest peak, found bit by bit; of fewer, or of none that is a number, the least float. */
static __device__ float peak_of_rank(const float *peaks, int n, int k, int *room) {
    enum { MINE = (DIGEST_MOST_GROUPS + THREADS - 1) / THREADS };
    uint32_t keys[MINE], least = 0;
    for (int i = 0; i < MINE; i++) {
        const int g = (int)threadIdx.x + i * THREADS;
        keys[i] = g < n ? key_of(peaks[g]) : 0;
    }
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        int mine = 0;
        for (int i = 0; i < MINE; i++) mine += keys[i] >= (least | bit);
        if (block_count(mine, room) >= k) least |= bit;
    }
    const float value = value_of(least);
    return value >= -GREATEST ? value : -GREATEST; /* also where the key is no number's */
}

/* How many of each group are at least `floor`, and of all; a warp for a group. */
static __device__ int count_listed(int32_t *counts, const digest_order &o, const float *peaks, const float *row,
                                   float floor, int *room) {
    const int lane = (int)(threadIdx.x % WARP), size = o.group * DIGEST_BLOCK;
    int sum = 0;
    for (int g = (int)threadIdx.x / WARP; g < o.n_groups; g += WARPS) {
        int n = 0;
        for (int i = 0; peaks[g] >= floor && i < size; i += WARP)
            n += __popc(__ballot_sync(ALL_LANES, value_at(row, o, (int64_t)g * size + i + lane) >= floor));
        if (lane == 0) counts[g] = n;
        sum += lane == 0 ? n : 0;
    }
    return block_count(sum, room);
}

/* Counts become the number of those before; by the first warp. */
static __device__ void add_up(int32_t *counts, int n, int *parts) {
    enum { EACH = DIGEST_MOST_GROUPS / WARP };
    const int first = (int)threadIdx.x * EACH;
    int before = 0;
    for (int i = first; i < first + EACH && i < n; i++) before += counts[i];
    parts[threadIdx.x] = before;
    __syncwarp();
    before = 0;
    for (int i = 0; i < (int)threadIdx.x; i++) before += parts[i];
    for (int i = first; i < first + EACH && i < n; i++) {
        const int count = counts[i];
        counts[i] = before;
        before += count;
    }
}

/* All that is at least `floor`, in the order of ids; counts: how many are before each group. */
static __device__ void write_list(digest_body *body, const int32_t *counts, const digest_order &o, const float *peaks,
                                  const float *row, float floor) {
    const int lane = (int)(threadIdx.x % WARP), size = o.group * DIGEST_BLOCK;
    for (int g = (int)threadIdx.x / WARP; g < o.n_groups; g += WARPS) {
        int at = counts[g];
        for (int i = 0; peaks[g] >= floor && i < size; i += WARP) {
            const int64_t id = (int64_t)g * size + i + lane;
            const float value = value_at(row, o, id);
            const unsigned hits = __ballot_sync(ALL_LANES, value >= floor);
            const int to = at + __popc(hits & ((1u << lane) - 1));
            if (value >= floor) body->ids[to] = (int32_t)id, body->values[to] = value;
            at += __popc(hits);
        }
    }
}

/* As low a floor as leaves room for all above it: from everything over ever fewer of the peaks to the highest. */
static __device__ int list_greatest(digest_body *body, const digest_order &o, const float *peaks, const float *row,
                                    float *floor, int *room) {
    __shared__ int32_t counts[DIGEST_MOST_GROUPS];
    __shared__ int parts[WARP];
    for (int k = o.least; k > 0; k /= 2) {
        *floor = o.n <= DIGEST_MOST_LISTED && k == o.least ? -GREATEST : peak_of_rank(peaks, o.n_groups, k, room);
        const int n = count_listed(counts, o, peaks, row, *floor, room);
        if (n > DIGEST_MOST_LISTED) continue;
        if (threadIdx.x < WARP) add_up(counts, o.n_groups, parts);
        __syncthreads();
        write_list(body, counts, o, peaks, row, *floor);
        return n;
    }
    *floor = INFINITY;
    return 0;
}

static __device__ int list_group(digest_body *body, const digest_order &o, const float *row, int *room) {
    const int size = o.group * DIGEST_BLOCK;
    const int64_t first = (int64_t)drawn_group(body->masses, o, room) * size;
    for (int i = (int)threadIdx.x; i < size; i += THREADS) {
        body->ids[i] = (int32_t)(first + i);
        body->values[i] = value_at(row, o, first + i);
    }
    return size;
}

/* Grid: [1][rows]. Peaks are looked at again and again, each time by a warp that has nothing else to do meanwhile: they
 * lie near. */
KERNEL k_digest_list(const k_digest_args a) {
    __shared__ float room[WARPS], peaks[DIGEST_MOST_GROUPS];
    __shared__ int counts[WARPS];
    take_turn();
    const digest_order o = a.orders[blockIdx.y];
    digest_body *body = &a.bodies[blockIdx.y];
    const float *row = row_of(a, o);
    for (int g = (int)threadIdx.x; g < o.n_groups; g += THREADS) peaks[g] = body->peaks[g];
    __syncthreads();
    digest_head head = {highest_of(peaks, o.n_groups, room), INFINITY, -1, 0};
    const bool is_finite = fabsf(head.highest) <= GREATEST;
    if (is_finite && o.want == DIGEST_LIST) head.n_listed = list_greatest(body, o, peaks, row, &head.floor, counts);
    if (is_finite && o.want == DIGEST_DRAW) head.n_listed = list_group(body, o, row, counts);
    if (threadIdx.x >= WARP) return;
    if (is_finite) head.best = best_of(peaks, o, row, head.highest);
    if (threadIdx.x) return;
    a.heads[blockIdx.y] = head;
    if (a.heads_here) a.heads_here[blockIdx.y] = head, a.best[blockIdx.y] = head.best;
}
