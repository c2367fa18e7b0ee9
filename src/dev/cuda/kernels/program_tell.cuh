/* program_tell.cuh — how a program's blocks tell each other results: words that say themselves whether they are there.
 *
 * Used by program.cuh. Every result that others need has a word of its own in an area that was all UNSAID when the
 * launch began; who needs it looks until it is something else. So there is no meeting between two stages, and looking
 * is reading. The area of this launch is one of two: the other one, which the launch before has used, is made UNSAID
 * again on the side, to be there for the next.
 *
 * A number is never UNSAID: its bits are a NaN that no instruction makes, and one that was made so is told as another.
 */
#ifndef KERNELS_PROGRAM_TELL_CUH
#define KERNELS_PROGRAM_TELL_CUH

#include "program_ring.cuh"

enum { UNSAID = -1 };

/* Of the area that this launch has. */
template <class T> __device__ __forceinline__ T *told_at(T *p) { return (T *)((uintptr_t)p + state_of().told_shift); }

__device__ __forceinline__ void tell(float *to, float v) {
    const int bits = __float_as_int(v);
    store_relaxed4(told_at(to), bits == UNSAID ? UNSAID & INT32_MAX : bits);
}

/* Counts looks that found nothing; a block that waits for seconds ends the kernel. */
struct patience {
    int looks = 0;
    __device__ __forceinline__ void lose() {
        if (++looks == MOST_LOOKS) __trap();
    }
};

/* hears: `from` was told; otherwise it is there. */
__device__ __forceinline__ float hear(const float *from, bool hears) {
    if (!hears) return __ldcg(from);
    uint32_t v;
    for (patience p; (v = load_relaxed4(told_at(from))) == (uint32_t)UNSAID;) p.lose();
    return __uint_as_float(v);
}

__device__ __forceinline__ bool is_said(const uint4 &v) {
    return v.x != (uint32_t)UNSAID && v.y != (uint32_t)UNSAID && v.z != (uint32_t)UNSAID && v.w != (uint32_t)UNSAID;
}
__device__ __forceinline__ void put4(float v[4], const uint4 &w) {
    v[0] = __uint_as_float(w.x), v[1] = __uint_as_float(w.y);
    v[2] = __uint_as_float(w.z), v[3] = __uint_as_float(w.w);
}
/* Two words of 16 bytes at once; both where `both`, else the first. */
__device__ __forceinline__ void hear_two(float v[8], const float *from, const float *other, bool both, bool hears) {
    if (hears) from = told_at(from), other = told_at(other);
    uint4 a, b = {};
    for (patience p;; p.lose()) {
        a = load_relaxed16(from);
        if (both) b = load_relaxed16(other);
        if (!hears || (is_said(a) && is_said(b))) break;
    }
    put4(v, a), put4(v + 4, b);
}

/* n of eight words, `step` apart, at once. */
__device__ __forceinline__ void hear_apart(float v[8], const float *from, size_t step, int n, bool hears) {
    if (hears) from = told_at(from);
    for (patience p;; p.lose()) {
        bool is_unsaid = false;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint32_t word = i < n ? load_relaxed4(from + i * step) : 0;
            is_unsaid = is_unsaid || word == (uint32_t)UNSAID;
            v[i] = __uint_as_float(word);
        }
        if (!hears || !is_unsaid) return;
    }
}

/* A result that only this program reads: told, or left where launches would. */
__device__ __forceinline__ void leave_part(const program_stage &s, int part, float *out, int64_t i, float v) {
    if (s.told[part])
        tell(s.told[part] + i, v);
    else
        __stcg(out + i, v);
}

/* A result of a part of a stage: to those who wait for it, and to where it would go without a program. */
__device__ __forceinline__ void leave_result(const program_stage &s, int part, float *out, int64_t i, float v) {
    if (s.told[part]) tell(s.told[part] + i, v);
    if (out) __stcg(out + i, v);
}

/* Makes what the launch before has told unsaid, the whole grid together. */
__device__ __forceinline__ void forget_told(uint8_t *area, int64_t bytes) {
    uint4 *words = (uint4 *)area;
    const uint4 unsaid = {(uint32_t)UNSAID, (uint32_t)UNSAID, (uint32_t)UNSAID, (uint32_t)UNSAID};
    for (int64_t i = blockIdx.x * PROGRAM_THREADS + threadIdx.x; i < bytes / 16; i += gridDim.x * PROGRAM_THREADS)
        words[i] = unsaid;
}

#endif
