/* program.cuh — one kernel for all layers of a decode step: it stays on the GPU and walks the stages that
 * cuda_program.c made of the step's launches.
 *
 * Instances are spelled in program.cu, one for each family of formats that a model mixes. One block of 16 warps per
 * multiprocessor, all there at once. Between stages blocks look for what others tell (program_tell.cuh) or, where
 * there is no room for that, meet: what one wrote the others read behind it, past the first cache, which knows nothing
 * of that. Meanwhile the rings of weights fill up (program_ring.cuh): that is what all this is for. A block that waits
 * much too long ends the kernel with an error instead of hanging. */
#ifndef KERNELS_PROGRAM_CUH
#define KERNELS_PROGRAM_CUH

#include "embed.cuh"
#include "keys.cuh"
#include "program_merge.cuh"
#include "program_product.cuh"

/* ---- meeting ---- */

__device__ __forceinline__ unsigned long long *best_of(const k_program_args &a) {
    return (unsigned long long *)(a.met + PROGRAM_BEST);
}

/* A logit and its id as a number: the greater, and of equal ones the first, has the greater one. 0: it is none. */
__device__ __forceinline__ unsigned long long rank_of(float logit, int id) {
    const uint32_t key = key_of(__fadd_rn(logit, 0)); /* there is one zero */
    return logit == logit ? (unsigned long long)key << 32 | ~(uint32_t)id : 0;
}

/* The greatest of all lanes': of the upper halves first, then of those that have it. */
__device__ __forceinline__ unsigned long long warp_first(unsigned long long x) {
    const uint32_t upper = __reduce_max_sync(ALL_LANES, (uint32_t)(x >> 32));
    const uint32_t lower = __reduce_max_sync(ALL_LANES, x >> 32 == upper ? (uint32_t)x : 0);
    return (unsigned long long)upper << 32 | lower;
}

/* The best of the logits that the block has made. */
__device__ __noinline__ void offer_best(const k_program_args &a) {
    const program_share &tiles = share_of(state_of().n_streams - 1);
    unsigned long long *room = (unsigned long long *)(program_shared() + state_of().scratch), best = 0;
    const int end = min(tiles.end * PACKED_ROWS, a.n_best);
    for (int first = tiles.first * PACKED_ROWS; first < end; first += PROGRAM_THREADS) { /* as often in all warps */
        const int id = first + (int)threadIdx.x;
        const unsigned long long rank = id < end ? rank_of(__ldcg(a.logits + id), id) : 0;
        best = rank > best ? rank : best;
    }
    best = warp_first(best);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    best = warp_first(threadIdx.x < PROGRAM_WARPS ? room[threadIdx.x] : 0);
    if (threadIdx.x == 0) atomicMax(best_of(a), best), __threadfence();
}

/* The head that digest.cu makes of a row. */
__device__ __forceinline__ void end_best(const k_program_args &a) {
    __threadfence();
    const unsigned long long rank = atomicExch(best_of(a), 0ull);
    digest_head head = {-INFINITY, INFINITY, -1, 0};
    if (rank) head.highest = value_of((uint32_t)(rank >> 32));
    if (fabsf(head.highest) <= GREATEST) head.best = (int)~(uint32_t)rank;
    a.best[0] = head.best;
    a.heads[0] = a.heads_here[0] = head;
}

/* The last block to leave makes all ready for the next launch. */
__device__ __forceinline__ void leave(const k_program_args &a) {
    if (a.n_best) offer_best(a);
    if (threadIdx.x || atomicAdd(a.met + 1, 1u) + 1 != gridDim.x) return;
    if (a.n_best) end_best(a);
    a.met[0] = a.met[1] = 0;
    a.met[2] ^= 1;
    a.met[3] = (uint32_t)(a.told_bytes / 16);
}

/* ---- stages ---- */

/* Which one the warp is at. */
__device__ __forceinline__ int stage_now() { return state_of().at[thread_now() / 32]; }

__device__ __noinline__ void run_gate(int stage) {
    const program_stage &s = stage_of(stage);
    const k_gate_args &a = s.is.gate;
    await_turn(s);
    for (int64_t first = thread_index() / 32 * 32; first < a.n; first += thread_count()) { /* whole warps */
        const int64_t i = first + threadIdx.x % 32;
        const float gate = activate(a.act, hear(s.before + i, s.hears_before, i < a.n));
        const float up = a.up ? hear(a.up + i, s.hears, i < a.n) : 1;
        if (i >= a.n) continue;
        const int row = (int)i / s.width, column = (int)i % s.width;
        leave_result(s, 0, a.gate, i, find_place(s, row, column), __fmul_rn(gate, up));
    }
}

/* Rows of embeddings: whoever reads them waits for them. */
template <class T> __device__ __forceinline__ void embed_rows(const program_stage &s) {
    const k_embed_args &a = s.is.embed.of;
    const int dim = (int)a.dim;
    for (int i = (int)thread_index(); i < s.is.embed.n_rows * dim; i += (int)thread_count()) {
        const int row = i / dim;
        leave_result(s, 0, a.out, i, i, embedded<T>(a, embedded_id(a, row), i - row * dim));
    }
}
__device__ __forceinline__ void embed(const program_stage &s) {
    if (s.is.embed.type == PROGRAM_F16)
        embed_rows<f16>(s);
    else if (s.is.embed.type == PROGRAM_BF16)
        embed_rows<bf16>(s);
    else
        embed_rows<float>(s);
}

/* A stage into shared memory, by one warp while it works; it is there behind its wait_copies. The first two are there
 * from the beginning. */
__device__ __forceinline__ void fetch_stage(const k_program_args &a, int i) {
    const int lane = thread_now() % 32;
    if (i < a.n_stages && lane < (int)sizeof(program_stage) / 16)
        copy_async16(shared_address(&stage_of(i)) + lane * 16, (const uint8_t *)(a.stages + i) + lane * 16,
                     evict_last());
    commit_copies();
}

/* Attention of caches of float16, and of codes. */
struct plain_caches {
    static __device__ __forceinline__ void attend(const program_stage &s, int i) {
        if (agreed(s.dim == 64))
            run_attend<64, plain_cache<64>>(i);
        else
            run_attend<128, plain_cache<128>>(i);
    }
    static __device__ __forceinline__ void merge(int i) { run_merge<plain_pages>(i); }
};
struct coded_caches {
    template <int DIM, int KEY_BITS, int VALUE_BITS>
    static __device__ __forceinline__ void attend_heads(const program_stage &s, int i) {
        if (agreed(s.is.heads.attend.n_heads <= 4 * s.is.heads.attend.n_kv_heads))
            run_attend<DIM, coded_cache<DIM, KEY_BITS, VALUE_BITS, 1>>(i);
        else
            run_attend<DIM, coded_cache<DIM, KEY_BITS, VALUE_BITS, 2>>(i);
    }
    static __device__ __forceinline__ void attend(const program_stage &s, int i) {
#define X(d, k, v)                                                                                                     \
    if (agreed(s.dim == d && s.key_bits == k && s.value_bits == v)) return attend_heads<d, k, v>(s, i);
        PROGRAM_CODED_CACHES(X)
#undef X
    }
    static __device__ __forceinline__ void merge(int i) { run_merge<rotated_pages>(i); }
};

/* One word tells which function it is: each question takes as long as several of its instructions. */
template <class FAMILY, class CACHES> __device__ __forceinline__ void run_stage(int i) {
    const program_stage &s = stage_of(i);
    const int way = s.way;
    if (FAMILY::common_row(way, i)) return;
    if (agreed(way == program_way(PROGRAM_ATTEND, 0, 0))) return CACHES::attend(s, i);
    if (agreed(way == program_way(PROGRAM_MERGE, 0, 0))) return CACHES::merge(i);
    if (FAMILY::rows(way, i) || FAMILY::rare_row(way, i)) return;
    run_gate(i);
}

/* The stage that the warp has come to; false: it was the last one. Nothing is kept in registers meanwhile: stages need
 * them all, and what would be saved for them must come back past a memory that is busy with weights. */
template <class FAMILY, class CACHES> __device__ __forceinline__ bool walk_stage(const k_program_args &a) {
    if (thread_now() / 32 == PROGRAM_WARPS - 1 && stage_now()) fetch_stage(a, stage_now() + 1);
    run_stage<FAMILY, CACHES>(stage_now());
    const int thread = thread_now(), next = stage_now() + 1;
    if (thread / 32 == PROGRAM_WARPS - 1) wait_copies<0>();
    __syncthreads();
    if (next == a.n_stages) return false;
    if (thread == 0 && stage_of(next).waits) add_release(a.met);
    if (thread % 32 == 0) state_of().at[thread / 32] = next;
    __syncwarp();
    return true;
}

/* area: which of the two words are told in, and how many the launch before has told in the other one. */
__device__ __forceinline__ void make_state(const k_program_args &a, uint2 area) {
    program_state &state = state_of();
    state.n_streams = a.n_streams, state.has_slices = a.has_slices;
    state.n_slots = a.n_slots, state.slot_bytes = a.slot_bytes;
    state.batches = state.norms = 0;
    state.squares = program_squares_at(a.n_streams), state.squares_bytes = a.squares_bytes;
    state.scratch = program_scratch_at(a.n_streams, a.squares_bytes);
    state.met = a.met;
    state.told_shift = area.x ? a.area_bytes : 0;
    state.told_before = (int64_t)area.y * 16;
    state.rings = shared_address(program_shared()) + program_ring_at(a.n_streams, a.squares_bytes, a.scratch_bytes);
    state.slice_shift = SLICES_SHIFT;
    while (PACKED_SLICES >> state.slice_shift < (int)cluster_blocks()) state.slice_shift--;
    prepare_meeting(SUMS_BARRIER, PROGRAM_THREADS);
    for (int i = 0; i < PROGRAM_MOST_QUADS; i++) prepare_meeting(QUAD_BARRIER + i, ATTEND_WARPS * 32);
    barrier_init(shared_address(&state.sums_met), 1);
    for (int i = 0; i < PROGRAM_TURNS; i++) {
        barrier_init(shared_address(&state.ready[i]), (int)cluster_blocks());
        barrier_init(shared_address(&state.squares_met[i]), 1);
    }
}

/* What a launch reads of memory before its weights are asked for. */
struct program_begin {
    ring_start ring;
    uint2 area;
    uint4 word;            /* of the first two stages, lane by lane, a warp for each */
    program_stream stream; /* the thread's */

    __device__ __forceinline__ explicit program_begin(const k_program_args &a)
        : ring(a), area(__ldcg((const uint2 *)(a.met + 2))), word(), stream() {
        if (has_word(a)) word = __ldg((const uint4 *)(a.stages + threadIdx.x / 32) + threadIdx.x % 32);
        if ((int)threadIdx.x < a.n_streams) stream = a.streams[threadIdx.x];
    }
    static __device__ __forceinline__ bool has_word(const k_program_args &a) {
        const int stage = threadIdx.x / 32;
        return stage < 2 && stage < a.n_stages && threadIdx.x % 32 < sizeof(program_stage) / 16;
    }
};

/* Until the first stage that is left to be walked. Called, not inlined: what lives here shall not be in registers, or
 * on the stack, of what walks. */
__device__ __noinline__ void begin_program(const k_program_args &a) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const program_begin begin(a);
    if (lane < PROGRAM_MOST_SLOTS) barrier_init(slot_barriers(warp) + lane * 8, 1);
    if (threadIdx.x == 0) make_state(a, begin.area);
    if (begin.has_word(a)) ((uint4 *)&stage_of(warp))[lane] = begin.word;
    barriers_made();
    __syncthreads();
    const bool has_begun = begin.ring.take(), embeds = stage_of(0).what == PROGRAM_EMBED;
    if (embeds) embed(stage_of(0));
    if (lane == 0) state_of().at[warp] = embeds;
    if ((int)threadIdx.x < a.n_streams) deal_tiles(begin.stream, threadIdx.x);
    __syncthreads();
    if (cluster_blocks() > 1) cluster_sync();
    if (!has_begun)
        make_start(a);
    else if (a.has_slices)
        take_slices();
    forget_told(a.told + a.area_bytes - state_of().told_shift, state_of().told_before);
    __syncthreads();
    if (embeds && threadIdx.x == 0 && stage_of(1).waits) add_release(a.met);
}

template <class FAMILY, class CACHES> __device__ __forceinline__ void run_program(const k_program_args &a) {
    begin_program(a);
    while (walk_stage<FAMILY, CACHES>(a)) {
    }
    leave(a);
}

#endif
