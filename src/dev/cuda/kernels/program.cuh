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

#include "program_attend.cuh"
#include "program_product.cuh"

/* ---- meeting ---- */

/* The last block to leave makes all ready for the next launch. */
__device__ __forceinline__ void leave(const k_program_args &a) {
    if (atomicAdd(a.met + 1, 1u) + 1 != gridDim.x) return;
    a.met[0] = a.met[1] = 0;
    a.met[2] ^= 1;
    a.met[3] = (uint32_t)(a.told_bytes / 16);
}

/* ---- stages ---- */

__device__ __forceinline__ void run_gate(int stage, uint32_t turn) {
    const program_stage &s = stage_of(stage);
    const k_gate_args &a = s.is.gate;
    await_turn(turn);
    for (int64_t i = thread_index(); i < a.n; i += thread_count()) {
        const float gate = activate(a.act, hear(s.before + i, s.hears_before));
        const float up = a.up ? hear(a.up + i, s.hears) : 1;
        leave_result(s, 0, a.gate, i, __fmul_rn(gate, up));
    }
}

__device__ __forceinline__ void copy_words(void *to, const void *from, int bytes, int i, int step) {
    for (; i < bytes / 16; i += step) ((uint4 *)to)[i] = __ldg((const uint4 *)from + i);
}

/* The next stage into shared memory, by one warp while it works; it is there behind its wait_copies. */
__device__ __forceinline__ void fetch_stage(const k_program_args &a, int i) {
    const int lane = threadIdx.x % 32;
    if (i < a.n_stages && lane < (int)sizeof(program_stage) / 16)
        copy_async16(shared_address(&stage_of(i)) + lane * 16, (const uint8_t *)(a.stages + i) + lane * 16,
                     evict_last());
    commit_copies();
}

/* The block's share of a product's tiles; every other stage the other way round, for who has one less. */
__device__ __forceinline__ void deal_tiles(program_stream *s, int index) {
    const int block = index & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x, times = s->gates ? 2 : 1;
    const int n = s->all_tiles / times;
    s->first = (int)((int64_t)block * n / gridDim.x) * times;
    s->end = (int)((int64_t)(block + 1) * n / gridDim.x) * times;
}

template <class FAMILY> __device__ __forceinline__ void run_program(const k_program_args &a) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    program_state &state = state_of();
    copy_words(&stream_of(0), a.streams, a.n_streams * (int)sizeof(program_stream), threadIdx.x, PROGRAM_THREADS);
    if (warp == 0) copy_words(&stage_of(0), a.stages, sizeof(program_stage), lane, 32);
    if (threadIdx.x < PROGRAM_WARPS * PROGRAM_MOST_SLOTS)
        barrier_init(shared_address(program_shared()) + threadIdx.x * 8, 1);
    if (threadIdx.x == 0) {
        state.n_streams = a.n_streams, state.n_slots = a.n_slots;
        state.per_slot = a.per_slot, state.slot_bytes = a.slot_bytes;
        state.scratch = program_ring_at(a.n_streams, 0);
        state.met = a.met;
        state.told_shift = __ldcg(a.met + 2) ? a.area_bytes : 0;
        state.rings = shared_address(program_shared()) + program_ring_at(a.n_streams, a.scratch_bytes);
    }
    barriers_made();
    __syncthreads();
    for (int i = threadIdx.x; i < a.n_streams; i += PROGRAM_THREADS) deal_tiles(&stream_of(i), i);
    __syncthreads();
    if (lane == 0) start_ring();
    forget_told(a.told + a.area_bytes - state.told_shift, (int64_t)__ldcg(a.met + 3) * 16);
    __syncthreads();
    for (uint32_t i = 0, turn = 0; (int)i < a.n_stages; i++) {
        if (warp == PROGRAM_WARPS - 1) fetch_stage(a, i + 1);
        const program_stage &s = stage_of(i);
        if (s.waits) turn += gridDim.x;
        const uint32_t now = s.waits ? turn : 0;
        if (s.what == PROGRAM_PRODUCT)
            FAMILY::product(i, s.kind, s.is.product.n_rows == 1, now);
        else if (s.what == PROGRAM_GATE)
            run_gate(i, now);
        else if (s.what == PROGRAM_MERGE)
            run_merge(i, now);
        else if (s.dim == 64)
            run_attend<64>(i, now);
        else
            run_attend<128>(i, now);
        if (warp == PROGRAM_WARPS - 1) wait_copies<0>();
        __syncthreads();
        if (threadIdx.x == 0 && (int)i + 1 < a.n_stages && stage_of(i + 1).waits) add_release(a.met);
    }
    if (threadIdx.x == 0) leave(a);
}

#endif
