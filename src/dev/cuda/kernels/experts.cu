/* experts.cu — mixtures of experts: who is chosen, which rows each expert has, and what their results make together.
 *
 * A pair is a row with one of its chosen experts: row * top_k + k. The products are those of matmul_*.cu, told by
 * k_groups. A row adds up its experts in ascending order of their numbers. */
#include "kernel.cuh"

/* The greatest of all lanes' values, the lowest index among equals. */
static __device__ int warp_best(double value, int index) {
    for (int step = 16; step; step /= 2) {
        const double other = __shfl_xor_sync(ALL_LANES, value, step);
        const int other_index = __shfl_xor_sync(ALL_LANES, index, step);
        if (other > value || (other == value && other_index < index)) value = other, index = other_index;
    }
    return index;
}

static __device__ double warp_sum_double(double x) {
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

static __device__ int best_of(const double *values, int n) {
    double value = -INFINITY;
    int index = n;
    for (int i = threadIdx.x; i < n; i += WARP)
        if (index == n || values[i] > value) value = values[i], index = i;
    index = warp_best(value, index);
    return index < n ? index : 0;
}

/* The scores of a row out of its logits. */
static __device__ void score(double *scores, const k_route_args &a, const float *logits) {
    float most = -INFINITY;
    double total = 0;
    for (int i = threadIdx.x; i < a.n_experts; i += WARP) most = fmaxf(most, logits[i]);
    most = warp_most(most);
    for (int i = threadIdx.x; i < a.n_experts; i += WARP) {
        scores[i] = a.sigmoid ? 1 / (1 + exp(-(double)logits[i])) : exp((double)logits[i] - (double)most);
        total += scores[i];
    }
    total = warp_sum_double(total);
    for (int i = threadIdx.x; i < a.n_experts && !a.sigmoid; i += WARP) scores[i] /= total;
    __syncwarp();
}

static __device__ double group_score(const double *scores, int n, int n_best) {
    double first = -INFINITY, second = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (scores[i] > first) {
            second = first;
            first = scores[i];
        } else if (scores[i] > second) {
            second = scores[i];
        }
    }
    return n_best == 2 && n > 1 ? first + second : first;
}

/* Experts outside the best groups can no longer be chosen. */
static __device__ void keep_groups(double *choice, double *of_groups, const k_route_args &a) {
    const int size = a.n_experts / a.n_groups;
    for (int g = threadIdx.x; g < a.n_groups; g += WARP)
        of_groups[g] = group_score(choice + g * size, size, a.group_best);
    __syncwarp();
    for (int kept = 0; kept < a.groups; kept++) {
        const int g = best_of(of_groups, a.n_groups);
        __syncwarp();
        if (threadIdx.x == 0) of_groups[g] = -INFINITY;
        __syncwarp();
    }
    for (int i = threadIdx.x; i < size * a.n_groups; i += WARP)
        if (of_groups[i / size] != -INFINITY) choice[i] = -INFINITY;
    __syncwarp();
}

/* The chosen ones in ascending order. */
static __device__ void sort_chosen(int32_t *sorted, const int32_t *chosen, int n) {
    for (int i = threadIdx.x; i < n; i += WARP) {
        int place = 0;
        for (int j = 0; j < n; j++) place += chosen[j] < chosen[i] || (chosen[j] == chosen[i] && j < i);
        sorted[place] = chosen[i];
    }
    __syncwarp();
}

/* A warp for each row; shared memory: 2 n_experts + n_groups doubles, and what is chosen, twice. */
KERNEL k_route(const k_route_args a) {
    DYNAMIC_SHARED(double, scores);
    double *choice = scores + a.n_experts;
    int32_t *chosen = (int32_t *)(choice + a.n_experts + a.n_groups), *sorted = chosen + a.top_k;
    const int64_t first = (int64_t)blockIdx.x * a.top_k;
    take_turn();
    score(scores, a, a.logits + (int64_t)blockIdx.x * a.n_experts);
    for (int i = threadIdx.x; i < a.n_experts; i += WARP) choice[i] = scores[i] + (a.bias ? a.bias[i] : 0);
    __syncwarp();
    if (a.n_groups > 1) keep_groups(choice, choice + a.n_experts, a);
    for (int k = 0; k < a.top_k; k++) {
        const int best = best_of(choice, a.n_experts);
        __syncwarp();
        if (threadIdx.x == 0) {
            chosen[k] = best;
            choice[best] = -INFINITY;
        }
        __syncwarp();
    }
    sort_chosen(sorted, chosen, a.top_k);
    double total = 0;
    for (int k = 0; k < a.top_k; k++) total += scores[sorted[k]];
    const double by = a.scale / (a.normalize ? total + a.floor : 1);
    for (int k = threadIdx.x; k < a.top_k; k += WARP) {
        a.experts[first + k] = sorted[k];
        a.weights[first + k] = (float)(scores[sorted[k]] * by);
    }
}

/* Where a lane's n entries begin among those of all lanes; *all: how many these are. */
static __device__ int place_of(int n, int *all) {
    const int lane = threadIdx.x % WARP;
    int end = n;
    for (int step = 1; step < WARP; step *= 2) {
        const int before = __shfl_sync(ALL_LANES, end, lane < step ? lane : lane - step);
        if (lane >= step) end += before;
    }
    *all = __shfl_sync(ALL_LANES, end, WARP - 1);
    return end - n;
}

/* Which experts have any pairs, and their shares, by one warp. */
static __device__ void list_active(const k_group_args &a, const uint32_t *counts) {
    const int lane = threadIdx.x % WARP;
    int n_active = 0, n_shares = 0;
    for (int first = 0; first < a.n_experts; first += WARP) {
        const int e = first + lane, n = e < a.n_experts ? (int)counts[e] : 0;
        const int shares = a.n_shares ? (n + a.rows_each - 1) / a.rows_each : 0;
        int all;
        const int active = n_active + place_of(n > 0, &all);
        n_active += all;
        const int share = n_shares + place_of(shares, &all);
        n_shares += all;
        if (n && active < a.n_active) a.active[active] = e;
        for (int i = 0; i < shares && share + i < a.n_shares; i++) a.shares[share + i] = {e, i * a.rows_each};
    }
    for (int i = n_active + lane; i < a.n_active; i += WARP) a.active[i] = -1;
    for (int i = n_shares + lane; i < a.n_shares; i += WARP) a.shares[i] = {-1, 0};
}

/* One block. An expert's pairs come in the order in which threads get there: no result hangs on it. Shared memory:
 * n_experts words. */
KERNEL k_group(const k_group_args a) {
    DYNAMIC_SHARED(uint32_t, counts);
    take_turn();
    for (int e = threadIdx.x; e < a.n_experts; e += blockDim.x) counts[e] = 0;
    __syncthreads();
    for (int pair = threadIdx.x; pair < a.n_pairs; pair += blockDim.x) {
        const int e = a.experts[pair];
        a.lists[(int64_t)e * a.list_stride + atomicAdd(&counts[e], 1)] = pair;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < a.n_experts; e += blockDim.x) a.counts[e] = (int32_t)counts[e];
    if (threadIdx.x < WARP) list_active(a, counts);
}

/* Grid: [pieces of a row][pairs]. */
KERNEL k_weigh(const k_pairs_args a) {
    take_turn();
    const float *x = a.x + (int64_t)(blockIdx.y / a.top_k) * a.dim;
    const float weight = a.weights[blockIdx.y];
    float *out = a.out + (int64_t)blockIdx.y * a.dim;
    for (int64_t i = thread_index(); i < a.dim; i += thread_count()) out[i] = __fmul_rn(x[i], weight);
}

/* Grid: [pieces of a row][rows]. */
KERNEL k_mix(const k_pairs_args a) {
    const int64_t first = (int64_t)blockIdx.y * a.top_k;
    take_turn();
    for (int64_t i = thread_index(); i < a.dim; i += thread_count()) {
        float sum = 0;
        for (int k = 0; k < a.top_k; k++)
            sum = __fmaf_rn(a.weights ? a.weights[first + k] : 1, a.x[(first + k) * a.dim + i], sum);
        a.out[(int64_t)blockIdx.y * a.dim + i] = sum;
    }
}
