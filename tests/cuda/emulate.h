/* emulate.h — what CUDA's headers give to a kernel, and what ptx.cuh has of a GPU's own instructions, so that kernels
 * can be compiled as plain C++ and run without a GPU.
 *
 * Included before a kernel by the build. A thread of a block is a coroutine (emulate_run.cpp): it runs until it waits
 * for others, for a copy, or for what another block counts. Slow, but exact about who waits for whom; memory checkers
 * see every access, and addresses in shared memory are checked anyway. */
#ifndef TESTS_CUDA_EMULATE_H
#define TESTS_CUDA_EMULATE_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Kernels of files that are built with EMULATE_FAST lie together: an old GPU has none of them. */
#ifdef EMULATE_FAST
#define __global__ __attribute__((visibility("default"), section("fast_kernels")))
#else
#define __global__ __attribute__((visibility("default")))
#endif
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ inline __attribute__((noinline)) /* files may share such functions */
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static /* kernels whose blocks are there together have none */

struct emulated_index {
    unsigned x, y, z;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct half {
    uint16_t bits;
};
struct alignas(4) half2 {
    half x, y;
};
static inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

extern emulated_index threadIdx, blockIdx, blockDim, gridDim;

/* The launch ends with an error that has this text. */
[[noreturn]] void emulate_fault(const char *what);

/* ---- shared memory ---- */

enum { SHARED_BASE = 1024 }; /* its first address, as on a GPU: 0 is none */
extern uint8_t *emulated_shared;
extern unsigned emulated_shared_bytes;
#define DYNAMIC_SHARED(type, name) type *name = (type *)emulated_shared
#define SHARED_MEMORY(name) uint8_t *name = emulated_shared

/* Where `bytes` lie that begin at a multiple of themselves. */
static inline uint8_t *emulate_at(uint32_t address, unsigned bytes) {
    const uint32_t at = address - SHARED_BASE;
    if (at % bytes) emulate_fault("an address in shared memory is not aligned");
    if (at > emulated_shared_bytes || bytes > emulated_shared_bytes - at)
        emulate_fault("an address lies outside of the shared memory");
    return emulated_shared + at;
}
template <class T> static inline T emulate_load(uint32_t address) {
    T v;
    memcpy(&v, emulate_at(address, sizeof v), sizeof v);
    return v;
}
static inline uint32_t shared_address(const void *p) {
    return (uint32_t)((const uint8_t *)p - emulated_shared) + SHARED_BASE;
}
static inline uint4 load_shared16(uint32_t a) { return emulate_load<uint4>(a); }
static inline uint2 load_shared8(uint32_t a) { return emulate_load<uint2>(a); }
static inline uint32_t load_shared4(uint32_t a) { return emulate_load<uint32_t>(a); }
static inline uint32_t load_shared2(uint32_t a) { return emulate_load<uint16_t>(a); }
static inline void store_shared1(uint32_t to, uint32_t v) { *emulate_at(to, 1) = (uint8_t)v; }
static inline void store_shared2(uint32_t to, uint16_t v) { memcpy(emulate_at(to, 2), &v, 2); }
static inline void store_shared4(uint32_t to, uint32_t v) { memcpy(emulate_at(to, 4), &v, 4); }
static inline void store_shared8(uint32_t to, uint32_t v, uint32_t w) {
    const uint32_t both[2] = {v, w};
    memcpy(emulate_at(to, 8), both, 8);
}
static inline void store_shared16(uint32_t to, const uint32_t v[4]) { memcpy(emulate_at(to, 16), v, 16); }

/* ---- memory that all share ---- */

template <class T> static inline const T *emulate_aligned(const T *p) {
    if ((uintptr_t)p % alignof(T)) emulate_fault("an address in memory is not aligned");
    return p;
}
template <class T> static inline T __ldg(const T *p) { return *emulate_aligned(p); }
template <class T> static inline T __ldcg(const T *p) { return *emulate_aligned(p); }
template <class T> static inline void __stcg(T *p, T v) { *const_cast<T *>(emulate_aligned(p)) = v; }
static inline uint32_t atomicAdd(uint32_t *to, uint32_t n) { return (*to += n) - n; }
static inline unsigned long long atomicMax(unsigned long long *to, unsigned long long v) {
    const unsigned long long before = *to;
    if (v > before) *to = v;
    return before;
}
static inline unsigned long long atomicExch(unsigned long long *to, unsigned long long v) {
    const unsigned long long before = *to;
    return *to = v, before;
}
static inline void __threadfence() {}
static inline void add_release(uint32_t *to) { ++*to; }
/* Others go on first. */
uint32_t load_acquire(const uint32_t *from);
uint32_t load_relaxed4(const void *from);
uint4 load_relaxed16(const void *from);
static inline void store_relaxed4(void *to, uint32_t v) { *(uint32_t *)to = v; }

/* ---- copies on their own way; when they arrive is chance ---- */

static inline uint64_t evict_first() { return 0; }
static inline uint64_t evict_last() { return 0; }
void copy_async16(uint32_t to, const void *from, uint64_t policy);
void commit_copies();
void emulate_wait_copies(int but);
template <int N> static inline void wait_copies() { emulate_wait_copies(N); }

void barrier_init(uint32_t b, int n);
static inline void barriers_made() {}
void barrier_expect(uint32_t b, int bytes);
void barrier_wait(uint32_t b, uint32_t parity);
void copy_bulk_once(uint32_t to, const void *from, int bytes, uint32_t barrier, uint64_t policy);
void prefetch_bulk(const void *from, int bytes);
void copy_bulk_by_one(uint32_t to, const void *from, int bytes, uint32_t barrier, uint64_t policy, bool wanted);

uint32_t cluster_rank();
uint32_t cluster_blocks();
void cluster_sync();
void barrier_arrive(uint32_t b, uint32_t rank);
static inline void barrier_arrive_here(uint32_t b) { barrier_arrive(b, cluster_rank()); }
void emulate_send(uint32_t to, const float *words, unsigned bytes, uint32_t barrier, uint32_t rank);
static inline void send4(uint32_t to, float v, uint32_t barrier, uint32_t rank) {
    emulate_send(to, &v, 4, barrier, rank);
}
static inline void send8(uint32_t to, float v, float w, uint32_t barrier, uint32_t rank) {
    const float words[2] = {v, w};
    emulate_send(to, words, 8, barrier, rank);
}

static inline bool agreed(bool said) { return said; }
template <class T> static inline void find_now(T &) {}
static inline uint32_t thread_now() { return threadIdx.x; }
static inline uint32_t lane_now() { return threadIdx.x % 32; }
unsigned __ballot_sync(unsigned lanes, bool vote);
static inline bool all_say(bool yes) { return __ballot_sync(~0u, yes) == ~0u; }

/* ---- meeting ---- */

/* So many threads of the block at one of its barriers; 0: all that have not ended. */
void emulate_barrier(int barrier, unsigned n);
static inline void __syncthreads() { emulate_barrier(0, 0); }
static inline void prepare_meeting(int, int) {}
template <int BARRIER, int THREADS> static inline void meet_threads() { emulate_barrier(BARRIER, THREADS); }
static inline void meet_threads_at(int barrier, int threads) { emulate_barrier(barrier, (unsigned)threads); }
void emulate_pass(int barrier, unsigned n); /* the thread goes on */
template <int BARRIER, int THREADS> static inline void pass_threads() { emulate_pass(BARRIER, THREADS); }

/* All lanes of the warp that have not ended meet. Each shows `bytes`, at most EMULATED_SLOT; the last one to come lets
 * `work` change what they have shown. The result points to the 32 lanes' slots until the meeting after next. */
enum { EMULATED_SLOT = 64 };
typedef void emulated_work(uint8_t (*slots)[EMULATED_SLOT]);
const uint8_t *emulate_meet(emulated_work *work, const void *shown, size_t bytes);

static inline void __syncwarp() { emulate_meet(NULL, NULL, 0); }
template <class T> static inline T __shfl_sync(unsigned, T value, int lane) {
    T out;
    memcpy(&out, emulate_meet(NULL, &value, sizeof value) + EMULATED_SLOT * (lane % 32), sizeof out);
    return out;
}
template <class T> static inline T __shfl_xor_sync(unsigned lanes, T value, int step) {
    return __shfl_sync(lanes, value, (int)threadIdx.x % 32 ^ step);
}

static inline unsigned __reduce_max_sync(unsigned lanes, unsigned value) {
    for (int step = 16; step; step /= 2) {
        const unsigned other = __shfl_xor_sync(lanes, value, step);
        value = other > value ? other : value;
    }
    return value;
}

/* ---- products of a warp ---- */

struct f16;
struct bf16;
void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, f16);
void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, bf16);
void mma_half(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
void mma_digits(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
void mma_codes(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, int start);
uint32_t transpose_halves(uint32_t pair);
void mma_digits16(int c[4], uint32_t a0, uint32_t a1, uint32_t b);
void load_transposed(uint32_t r[4], uint32_t at);

/* ---- numbers ---- */

extern "C" { /* quant/fp.c */
float quant_f16_to_f32(uint16_t half);
uint16_t quant_f32_to_f16(float value);
uint16_t quant_f32_to_bf16(float value);
}
float to_float(f16 x);
void put_float(f16 *to, float x);
void put_float(bf16 *to, float x);
static inline half __float2half_rn(float x) { return {quant_f32_to_f16(x)}; }
static inline half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
static inline float2 __half22float2(half2 v) { return {quant_f16_to_f32(v.x.bits), quant_f16_to_f32(v.y.bits)}; }

static inline half __int2half_rn(int x) { return __float2half_rn((float)x); }
static inline half2 __half2half2(half x) { return {x, x}; }
static inline half2 __hsub2(half2 a, half2 b) {
    const float2 x = __half22float2(a), y = __half22float2(b);
    return __floats2half2_rn(x.x - y.x, x.y - y.y);
}
static inline half2 __hmul2(half2 a, half2 b) {
    const float2 x = __half22float2(a), y = __half22float2(b);
    return __floats2half2_rn(x.x * y.x, x.y * y.y);
}
static inline half2 __float2half2_rn(float x) { return __floats2half2_rn(x, x); }
static inline half2 __hadd2(half2 a, half2 b) {
    const float2 x = __half22float2(a), y = __half22float2(b);
    return __floats2half2_rn(x.x + y.x, x.y + y.y);
}
/* Rounded once where the sums of products fit a float, as those of codes do. */
static inline half2 __hfma2(half2 a, half2 b, half2 c) {
    const float2 x = __half22float2(a), y = __half22float2(b), z = __half22float2(c);
    return __floats2half2_rn(fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y));
}

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }
/* Four of the eight bytes of low and high, one for each digit of `which`. */
static inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t which) {
    const uint64_t all = (uint64_t)high << 32 | low;
    uint32_t picked = 0;
    for (int i = 0; i < 4; i++) picked |= (uint32_t)(all >> 8 * (which >> 4 * i & 7) & 255) << 8 * i;
    return picked;
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline int __float2int_rn(float x) {
    return x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : (int)lrintf(x);
}
static inline uint32_t __float_as_uint(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
static inline float __uint_as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline uint32_t and_or(uint32_t word, uint32_t mask, uint32_t other) { return (word & mask) | other; }
static inline float max_nan(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }
static inline float rsqrt_fast(float x) { return 1 / sqrtf(x); }
static inline float exp2_fast(float x) {
    const float r = exp2f(x);
    return r < FLT_MIN ? 0 : r;
}
[[noreturn]] static inline void __trap() { emulate_fault("the kernel traps"); }

#endif
