/* attend.cu — attention over paged keys and values, general form: any sizes, windows, chunks, caps, sinks.
 *
 * A block has a few queries (rows of one sequence x heads of one KV head) and takes a page at a time: scores, softmax
 * against the page's own maximum, mixed values; then the page's result is merged into what the pages before gave. With
 * few rows and a long past each page has a block of its own (k_attend_page) and the results are merged by another
 * kernel (k_attend_merge). Both ways do the same operations in the same order for a query, whatever it shares a block
 * with, so the bits are the same. */
#include "kv.cuh"

enum { THREADS = 128, WARPS = THREADS / WARP, MOST_QUERIES = 8 };

/* A block's queries and what they share. */
struct tile {
    k_span span;
    int kv_head, head, n_heads, n_queries; /* query i: row i / n_heads of the span, head + i % n_heads */
};

/* Shared memory, cut by hand. */
struct room {
    float *q;      /* [queries][head_dim], scaled; up to a multiple of four, for they are read so */
    float *scores; /* [queries][K_PAGE], then weights */
    float *merged; /* [queries][v_dim] */
    float *halves; /* [queries][THREADS] */
    float *best, *total, *page_best, *page_total, *keep, *take; /* [queries] */
    int *begin, *end;                                           /* [queries]: slots of the page */
};

static __device__ room make_room(float *at, const k_attend_args &a, int queries) {
    room m;
    m.q = at, at += (queries * a.kv.head_dim + 3) / 4 * 4;
    m.scores = at, at += queries * K_PAGE;
    m.merged = at, at += queries * a.kv.v_dim;
    m.halves = at, at += queries * THREADS;
    m.best = at, at += queries;
    m.total = at, at += queries;
    m.page_best = at, at += queries;
    m.page_total = at, at += queries;
    m.keep = at, at += queries;
    m.take = at, at += queries;
    m.begin = (int *)at, at += queries;
    m.end = (int *)at;
    return m;
}

static __device__ tile make_tile(const k_attend_args &a) {
    tile t;
    const int per_group = (a.group + a.tile_heads - 1) / a.tile_heads, in_group = (int)blockIdx.x % per_group;
    t.span = a.spans[blockIdx.y];
    t.kv_head = (int)blockIdx.x / per_group;
    t.head = t.kv_head * a.group + in_group * a.tile_heads;
    t.n_heads = a.group - in_group * a.tile_heads;
    if (t.n_heads > a.tile_heads) t.n_heads = a.tile_heads;
    t.n_queries = t.span.n_rows * t.n_heads;
    return t;
}

static __device__ int first_seen(const k_attend_args &a, int position) {
    int first = a.window > 0 && position >= a.window ? position - a.window + 1 : 0;
    if (a.chunk > 0 && position / a.chunk * a.chunk > first) first = position / a.chunk * a.chunk;
    return first;
}

static __device__ int first_page(const k_attend_args &a, const tile &t) {
    return first_seen(a, t.span.position) / K_PAGE;
}
static __device__ int end_page(const tile &t) { return (t.span.position + t.span.n_rows - 1) / K_PAGE + 1; }

static __device__ void load_queries(const room &m, const k_attend_args &a, const tile &t, int queries) {
    const int dim = a.kv.head_dim;
    for (int i = threadIdx.x; i < queries * dim; i += THREADS) {
        const int query = i / dim, d = i % dim;
        const int64_t row = t.span.row + query / t.n_heads, head = t.head + query % t.n_heads;
        m.q[i] = query < t.n_queries ? __fmul_rn(a.q[(row * a.n_heads + head) * dim + d], a.scale) : 0;
    }
    for (int i = threadIdx.x; i < queries * a.kv.v_dim; i += THREADS) m.merged[i] = 0;
    if ((int)threadIdx.x < queries) {
        m.best[threadIdx.x] = -INFINITY;
        m.total[threadIdx.x] = 0;
    }
}

/* The slots of `page` that each query sees. */
static __device__ void see(const room &m, const k_attend_args &a, const tile &t, int page, int queries) {
    const int i = (int)threadIdx.x;
    __syncthreads();
    if (i >= queries) return;
    const int position = t.span.position + i / t.n_heads;
    int begin = first_seen(a, position) - page * K_PAGE, end = position + 1 - page * K_PAGE;
    if (begin < 0) begin = 0;
    if (end > K_PAGE) end = K_PAGE;
    m.begin[i] = begin;
    m.end[i] = i < t.n_queries && end > begin ? end : begin;
}

/* ---- a page ---- */

/* What any of the queries sees; nothing: begin >= end. */
static __device__ void see_any(const room &m, int queries, int *begin, int *end) {
    *begin = K_PAGE;
    *end = 0;
    for (int i = 0; i < queries; i++) {
        if (m.end[i] <= m.begin[i]) continue;
        if (m.begin[i] < *begin) *begin = m.begin[i];
        if (m.end[i] > *end) *end = m.end[i];
    }
}

/* Thread t computes the scores of slots 2 t and 2 t + 1, neighbours in memory. */
template <class KV, int QUERIES>
static __device__ void score(const room &m, const k_attend_args &a, const uint8_t *keys, int begin, int end) {
    const int slot = 2 * (int)threadIdx.x, dim = a.kv.head_dim;
    float sums[2][QUERIES] = {};
    if (slot + 1 >= begin && slot < end) {
#pragma unroll 4
        for (int d = 0; d < dim; d++) {
            const float first = KV::key(keys, dim, slot, d), second = KV::key(keys, dim, slot + 1, d);
            for (int i = 0; i < QUERIES; i++) {
                sums[0][i] = __fmaf_rn(m.q[i * dim + d], first, sums[0][i]);
                sums[1][i] = __fmaf_rn(m.q[i * dim + d], second, sums[1][i]);
            }
        }
    }
    for (int i = 0; i < QUERIES; i++)
        for (int j = 0; j < 2; j++) {
            const float s = sums[j][i];
            m.scores[i * K_PAGE + slot + j] = a.cap != 0 ? __fmul_rn(a.cap, tanhf(s / a.cap)) : s;
        }
}

/* Scores to weights, a warp for each query. */
static __device__ void soften(const room &m, int queries) {
    const int lane = threadIdx.x % WARP;
    for (int i = threadIdx.x / WARP; i < queries; i += WARPS) {
        float *scores = m.scores + i * K_PAGE, most = -INFINITY, sum = 0;
        for (int s = lane; s < K_PAGE; s += WARP)
            if (s >= m.begin[i] && s < m.end[i] && !(scores[s] <= most)) most = scores[s]; /* lets NaN through */
        most = warp_most(most);
        for (int s = lane; s < K_PAGE; s += WARP) {
            scores[s] = s >= m.begin[i] && s < m.end[i] ? expf(scores[s] - most) : 0;
            sum = __fadd_rn(sum, scores[s]);
        }
        sum = warp_sum(sum);
        if (lane == 0) m.page_best[i] = most, m.page_total[i] = sum;
    }
}

template <class KV> static __device__ float value_at(const k_attend_args &a, const uint8_t *values, int slot, int d) {
    return a.kv.v ? KV::value(values, a.kv.v_dim, slot, d) : KV::key(values, a.kv.head_dim, slot, d);
}

/* Values [first, first + THREADS) of the page's result, into m.halves. Half of the threads take even slots, half odd
 * ones; a thread has two dimensions, 64 apart. */
template <class KV, int QUERIES>
static __device__ void mix(const room &m, const k_attend_args &a, const uint8_t *values, int begin, int end,
                           int first) {
    const int half = threadIdx.x / 64, d = first + (int)threadIdx.x % 64, dim = a.kv.v_dim;
    float sums[2][QUERIES] = {};
    for (int s = begin + ((begin ^ half) & 1); s < end; s += 2)
        for (int j = 0; j < 2; j++) {
            if (d + 64 * j >= dim) continue;
            const float v = value_at<KV>(a, values, s, d + 64 * j);
            for (int i = 0; i < QUERIES; i++) sums[j][i] = __fmaf_rn(m.scores[i * K_PAGE + s], v, sums[j][i]);
        }
    __syncthreads();
    for (int j = 0; half && j < 2; j++)
        for (int i = 0; i < QUERIES; i++) m.halves[i * THREADS + threadIdx.x % 64 + 64 * j] = sums[j][i];
    __syncthreads();
    for (int j = 0; !half && j < 2; j++)
        for (int i = 0; i < QUERIES; i++) {
            float *sum = &m.halves[i * THREADS + threadIdx.x % 64 + 64 * j];
            *sum = __fadd_rn(sums[j][i], *sum);
        }
    __syncthreads();
}

/* ---- merging ---- */

/* How much of the sum so far and of a page's counts; makes best and total those of both. */
static __device__ void merge_numbers(float *best, float *total, float page_best, float page_total, float *keep,
                                     float *take) {
    *keep = 1;
    *take = 0;
    if (page_total == 0) return;
    const float most = *best >= page_best ? *best : page_best;
    *keep = expf(*best - most);
    *take = expf(page_best - most);
    *best = most;
    *total = __fmaf_rn(*total, *keep, __fmul_rn(page_total, *take));
}

static __device__ float merge_value(float sum, float keep, float page_sum, float take) {
    return take == 0 && keep == 1 ? sum : __fmaf_rn(sum, keep, __fmul_rn(page_sum, take));
}

static __device__ float divide(const k_attend_args &a, float sum, float best, float total, int head) {
    return sum / (a.sinks ? __fadd_rn(total, expf(a.sinks[head] - best)) : total);
}

static __device__ float *result_at(const k_attend_args &a, const tile &t, int query) {
    const int64_t row = t.span.row + query / t.n_heads, head = t.head + query % t.n_heads;
    return a.out + (row * a.n_heads + head) * a.kv.v_dim;
}

/* ---- kernels ---- */

/* Scores and weights of a page; false where none of it is seen. */
template <class KV, int QUERIES>
static __device__ bool weigh_page(const room &m, const k_attend_args &a, const tile &t, int page,
                                  const uint8_t **values, int *begin, int *end) {
    const int64_t at = a.pages[t.span.pages + page] * a.kv.page_stride;
    const uint8_t *keys = a.kv.k + at + t.kv_head * KV::key_head_bytes(a.kv.head_dim);
    *values = a.kv.v ? a.kv.v + at + t.kv_head * KV::value_head_bytes(a.kv.v_dim) : keys;
    see(m, a, t, page, QUERIES);
    __syncthreads();
    see_any(m, QUERIES, begin, end);
    if (*begin >= *end) return false;
    score<KV, QUERIES>(m, a, keys, *begin, *end);
    __syncthreads();
    soften(m, QUERIES);
    __syncthreads();
    return true;
}

/* Grid: [head tiles][spans]: all pages. */
template <class KV, int QUERIES> static __device__ void attend(const k_attend_args &a) {
    DYNAMIC_SHARED(float, shared);
    const room m = make_room(shared, a, QUERIES);
    const tile t = make_tile(a);
    const int dim = a.kv.v_dim, i = (int)threadIdx.x;
    load_queries(m, a, t, QUERIES);
    for (int page = first_page(a, t); page < end_page(t); page++) {
        const uint8_t *values;
        int begin, end;
        if (!weigh_page<KV, QUERIES>(m, a, t, page, &values, &begin, &end)) continue;
        if (i < QUERIES)
            merge_numbers(&m.best[i], &m.total[i], m.page_best[i], m.page_total[i], &m.keep[i], &m.take[i]);
        for (int first = 0; first < dim; first += THREADS) {
            mix<KV, QUERIES>(m, a, values, begin, end, first);
            for (int q = 0; q < QUERIES && first + i < dim; q++) {
                float *sum = &m.merged[q * dim + first + i];
                *sum = merge_value(*sum, m.keep[q], m.halves[q * THREADS + i], m.take[q]);
            }
        }
    }
    __syncthreads();
    for (int q = 0; q < t.n_queries; q++)
        for (int d = i; d < dim; d += THREADS)
            result_at(a, t, q)[d] = divide(a, m.merged[q * dim + d], m.best[q], m.total[q], t.head + q % t.n_heads);
}

/* Where a page's result of a tile lies. */
static __device__ float *part_at(const k_attend_args &a, int queries, int page) {
    const int64_t tile = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
    return a.parts + (tile * a.most_pages + page) * queries * (2 + a.kv.v_dim);
}

/* Grid: [head tiles][spans][pages]: one page, counted from the first that its tile sees. */
template <class KV, int QUERIES> static __device__ void attend_page(const k_attend_args &a) {
    DYNAMIC_SHARED(float, shared);
    const room m = make_room(shared, a, QUERIES);
    const tile t = make_tile(a);
    const int dim = a.kv.v_dim, i = (int)threadIdx.x, page = first_page(a, t) + (int)blockIdx.z;
    const uint8_t *values;
    int begin, end;
    if (page >= end_page(t)) return;
    float *part = part_at(a, QUERIES, (int)blockIdx.z);
    load_queries(m, a, t, QUERIES);
    const bool is_seen = weigh_page<KV, QUERIES>(m, a, t, page, &values, &begin, &end);
    if (i < QUERIES) {
        part[i * (2 + dim)] = is_seen ? m.page_best[i] : -INFINITY;
        part[i * (2 + dim) + 1] = is_seen ? m.page_total[i] : 0;
    }
    for (int first = 0; is_seen && first < dim; first += THREADS) {
        mix<KV, QUERIES>(m, a, values, begin, end, first);
        for (int q = 0; q < QUERIES && first + i < dim; q++)
            part[q * (2 + dim) + 2 + first + i] = m.halves[q * THREADS + i];
    }
}

/* Grid: [head tiles][spans]: the pages' results in ascending order. */
template <int QUERIES> static __device__ void merge_pages(const k_attend_args &a) {
    const tile t = make_tile(a);
    const int dim = a.kv.v_dim, n_pages = end_page(t) - first_page(a, t);
    for (int q = 0; q < t.n_queries; q++)
        for (int d = threadIdx.x; d < dim; d += THREADS) {
            float best = -INFINITY, total = 0, sum = 0, keep, take;
            for (int page = 0; page < n_pages; page++) {
                const float *part = part_at(a, QUERIES, page) + q * (2 + dim);
                merge_numbers(&best, &total, part[0], part[1], &keep, &take);
                if (part[1] != 0) sum = merge_value(sum, keep, part[2 + d], take);
            }
            result_at(a, t, q)[d] = divide(a, sum, best, total, t.head + q % t.n_heads);
        }
}

#define KERNELS_OF(kv, name, queries)                                                                                  \
    KERNEL __launch_bounds__(THREADS) k_attend_##name##_##queries(const k_attend_args a) { attend<kv, queries>(a); }   \
    KERNEL __launch_bounds__(THREADS) k_attend_page_##name##_##queries(const k_attend_args a) {                        \
        attend_page<kv, queries>(a);                                                                                   \
    }
typedef coded_kv<8, 8> kv_q8;
typedef coded_kv<6, 6> kv_q6;
typedef coded_kv<6, 4> kv_q4;
#define KERNELS(queries)                                                                                               \
    KERNELS_OF(plain_kv<f16>, f16, queries)                                                                            \
    KERNELS_OF(plain_kv<float>, f32, queries)                                                                          \
    KERNELS_OF(kv_q8, q8, queries)                                                                                     \
    KERNELS_OF(kv_q6, q6, queries)                                                                                     \
    KERNELS_OF(kv_q4, q4, queries)                                                                                     \
    KERNEL __launch_bounds__(THREADS) k_attend_merge_##queries(const k_attend_args a) { merge_pages<queries>(a); }
KERNELS(1)
KERNELS(4)
KERNELS(8)
