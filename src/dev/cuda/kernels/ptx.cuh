/* ptx.cuh — the GPU's own instructions that no function of CUDA's headers stands for, each behind a small function.
 *
 * Used by the kernels of packed weights, of decoding and of programs. tests/cuda/emulate.h has versions of its own of
 * all of them, with which those kernels run where there is no GPU: what it cannot do (wgmma.cuh) stands elsewhere.
 * Addresses in shared memory are numbers of 32 bits. */
#ifndef KERNELS_PTX_CUH
#define KERNELS_PTX_CUH

#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_fp16.h>

#define SHARED_MEMORY(name) extern __shared__ __align__(128) uint8_t name[]

/* ---- products of a warp ---- */

__device__ __forceinline__ void mma_digits(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Sixteen inputs only: groups of 16. */
__device__ __forceinline__ void mma_digits16(int c[4], uint32_t a0, uint32_t a1, uint32_t b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b));
}
/* Both signed, and the sums all begin with `start`. */
__device__ __forceinline__ void mma_codes(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, int start) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(start));
}
__device__ __forceinline__ void mma_half(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 8 x 8 halves of a warp, of which lane 4 i + j has columns 2 j and 2 j + 1 of row i, become columns of their rows. */
__device__ __forceinline__ uint32_t transpose_halves(uint32_t pair) {
    uint32_t r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair));
    return r;
}

/* ---- shared memory ---- */

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
/* Loads that the compiler may move, so that many are on their way at once. */
__device__ __forceinline__ uint4 load_shared16(uint32_t a) { return *(const uint4 *)__cvta_shared_to_generic(a); }
__device__ __forceinline__ uint2 load_shared8(uint32_t a) { return *(const uint2 *)__cvta_shared_to_generic(a); }
__device__ __forceinline__ uint32_t load_shared4(uint32_t a) { return *(const uint32_t *)__cvta_shared_to_generic(a); }
__device__ __forceinline__ uint32_t load_shared2(uint32_t a) { return *(const uint16_t *)__cvta_shared_to_generic(a); }
__device__ __forceinline__ void store_shared1(uint32_t to, uint32_t v) {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}
__device__ __forceinline__ void store_shared2(uint32_t to, uint16_t v) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(v) : "memory");
}
__device__ __forceinline__ void store_shared4(uint32_t to, uint32_t v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}
__device__ __forceinline__ void store_shared8(uint32_t to, uint32_t v, uint32_t w) {
    asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(to), "r"(v), "r"(w) : "memory");
}
__device__ __forceinline__ void store_shared16(uint32_t to, const uint32_t v[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t r[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

/* ---- copies of a thread's own ---- */

/* What passes by once must not push other things out of the L2 cache. */
__device__ __forceinline__ uint64_t evict_first() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
/* What others read soon shall stay there. */
__device__ __forceinline__ uint64_t evict_last() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ __forceinline__ void copy_async16(uint32_t to, const void *from, uint64_t policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(policy)
                 : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* ---- barriers in shared memory, and copies in bulk that arrive at them: sm_90 ---- */

__device__ __forceinline__ void barrier_init(uint32_t b, int n) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory");
}
__device__ __forceinline__ void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(uint32_t b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t b, uint32_t parity) {
    asm volatile("{\n.reg .pred p;\nW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra D_%=;\nbra W_%=;\nD_%=:\n}" ::"r"(b),
                 "r"(parity)
                 : "memory");
}
__device__ __forceinline__ void copy_bulk_once(uint32_t to, const void *from, int bytes, uint32_t barrier,
                                               uint64_t policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
                 "[%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}
/* Into the second cache only: whole 16 bytes. */
__device__ __forceinline__ void prefetch_bulk(const void *from, int bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
/* Asked for, if it is wanted, by one lane of a whole warp, all of whose lanes say the same: the barrier expects the
 * bytes, too. Chosen by the instruction, for then the compiler knows that there is only one. */
__device__ __forceinline__ void copy_bulk_by_one(uint32_t to, const void *from, int bytes, uint32_t barrier,
                                                 uint64_t policy, bool wanted) {
    asm volatile("{\n.reg .pred p, q;\nsetp.ne.u32 q, %5, 0;\nelect.sync _|p, 0xffffffff;\nand.pred p, p, q;\n"
                 "@p mbarrier.arrive.expect_tx.shared.b64 _, [%3], %2;\n"
                 "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
                 "[%3], %4;\n}" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy), "r"((uint32_t)wanted)
                 : "memory");
}

/* ---- clusters: blocks that write to each other's shared memory: sm_90 ---- */

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* The same for threads that have written nothing which the others read. */
__device__ __forceinline__ void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ __forceinline__ uint32_t cluster_blocks() {
    uint32_t n;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    return n;
}
__device__ __forceinline__ void barrier_arrive_here(uint32_t b) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(b) : "memory");
}
/* On the barrier at the same place of block `rank` of the cluster. It tells of what was read, of nothing written: what
 * more it could promise (release.cluster) would wait for all stores each time. */
__device__ __forceinline__ void barrier_arrive(uint32_t b, uint32_t rank) {
    asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [r];\n}" ::"r"(b),
                 "r"(rank)
                 : "memory");
}
/* Words to the same place of block `rank`'s shared memory, whose barrier hears of their bytes. */
__device__ __forceinline__ void send4(uint32_t to, float v, uint32_t barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 t, b;\nmapa.shared::cluster.u32 t, %0, %3;\nmapa.shared::cluster.u32 b, %2, %3;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [t], %1, [b];\n}" ::"r"(to),
                 "r"(__float_as_uint(v)), "r"(barrier), "r"(rank)
                 : "memory");
}
__device__ __forceinline__ void send8(uint32_t to, float v, float w, uint32_t barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 t, b;\nmapa.shared::cluster.u32 t, %0, %4;\nmapa.shared::cluster.u32 b, %3, %4;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [t], {%1,%2}, [b];\n}" ::"r"(to),
                 "r"(__float_as_uint(v)), "r"(__float_as_uint(w)), "r"(barrier), "r"(rank)
                 : "memory");
}
/* What all lanes of a whole warp say alike; the compiler learns that they do, and keeps nothing for lanes apart. */
__device__ __forceinline__ bool agreed(bool said) { return __any_sync(~0u, said); }
/* Whether all lanes of a whole warp say yes. */
__device__ __forceinline__ bool all_say(bool yes) { return __all_sync(~0u, yes); }
/* Found here, not where it is first used: in front of a wait. */
template <class T> __device__ __forceinline__ void find_now(T &v) { asm volatile("" : "+r"(v)); }
/* threadIdx.x, read anew: not kept since the last time. */
__device__ __forceinline__ uint32_t thread_now() {
    uint32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* The lane, likewise; the compiler knows no bounds of it, so that addresses stay sums with a constant behind. */
__device__ __forceinline__ uint32_t lane_now() {
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

/* ---- meeting ---- */

/* So many threads of the block, whole warps, at a barrier of their own, BARRIER or `barrier` (0: __syncthreads): all
 * wait for each other, or, who passes, is counted and goes on. prepare_meeting is called by one thread for each such
 * barrier in front of the block's first __syncthreads.
 *
 * racecheck loses its count of __syncthreads once a block's warps have met there differently often, and then reports
 * whatever only these keep apart. For it there is a build (KERNELS_RACECHECK) whose barriers lie in shared memory. */
#ifdef KERNELS_RACECHECK
enum { MOST_MEETINGS = 8 };
__device__ __forceinline__ uint32_t meeting_at(int barrier) {
    __shared__ uint64_t meetings[MOST_MEETINGS];
    return shared_address(meetings + barrier);
}
__device__ __forceinline__ void prepare_meeting(int barrier, int threads) {
    barrier_init(meeting_at(barrier), threads);
}
__device__ __forceinline__ void meet_threads_at(int barrier, int) {
    asm volatile("{\n.reg .pred p;\n.reg .b64 phase;\nmbarrier.arrive.shared::cta.b64 phase, [%0];\n"
                 "W_%=:\nmbarrier.try_wait.shared::cta.b64 p, [%0], phase;\n@p bra D_%=;\nbra W_%=;\nD_%=:\n}" ::"r"(
                     meeting_at(barrier))
                 : "memory");
}
template <int BARRIER, int THREADS> __device__ __forceinline__ void meet_threads() {
    meet_threads_at(BARRIER, THREADS);
}
template <int BARRIER, int THREADS> __device__ __forceinline__ void pass_threads() {
    barrier_arrive_here(meeting_at(BARRIER));
}
#else
__device__ __forceinline__ void prepare_meeting(int, int) {}
template <int BARRIER, int THREADS> __device__ __forceinline__ void meet_threads() {
    asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}
__device__ __forceinline__ void meet_threads_at(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
template <int BARRIER, int THREADS> __device__ __forceinline__ void pass_threads() {
    asm volatile("bar.arrive %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}
#endif
/* What the thread has seen and done before, others find behind their load_acquire. */
__device__ __forceinline__ void add_release(uint32_t *to) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(to) : "memory");
}
__device__ __forceinline__ uint32_t load_acquire(const uint32_t *from) {
    uint32_t n;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n) : "l"(from) : "memory");
    return n;
}

/* Nothing but the word itself, past the first cache. */
__device__ __forceinline__ void store_relaxed4(void *to, uint32_t v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}
__device__ __forceinline__ uint32_t load_relaxed4(const void *from) {
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}
/* Four words, each by itself. */
__device__ __forceinline__ uint4 load_relaxed16(const void *from) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}

/* ---- numbers ---- */

/* word & mask | other, which the compiler makes two instructions. */
__device__ __forceinline__ uint32_t and_or(uint32_t word, uint32_t mask, uint32_t other) {
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(r) : "r"(word), "r"(mask), "r"(other));
    return r;
}
__device__ __forceinline__ float max_nan(float a, float b) {
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
}
__device__ __forceinline__ float rsqrt_fast(float x) {
    float r;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
__device__ __forceinline__ float exp2_fast(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
#endif

#endif
