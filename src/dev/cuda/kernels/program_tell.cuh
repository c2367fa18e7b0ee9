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

struct just_wait {
    __device__ __forceinline__ void operator()() const {}
};

/* Looks again and again until all lanes of a whole warp have found their words, which is what look() says; for seconds,
 * then the kernel ends. Lanes that went on as soon as they had theirs would stay apart and do all that follows one
 * after the other. wait: what is done between two looks. */
template <class LOOK, class WAIT = just_wait>
__device__ __forceinline__ void look_together(LOOK look, WAIT wait = WAIT()) {
    for (int looks = 0; !all_say(look());) {
        wait();
        if (++looks == MOST_LOOKS) __trap();
    }
}

/* UNSAID is the greatest word, so one comparison tells of many, and no branch does. */
__device__ __forceinline__ uint32_t greatest(const uint4 &v) { return max(max(v.x, v.y), max(v.z, v.w)); }
__device__ __forceinline__ void put4(float v[4], const uint4 &w) {
    v[0] = __uint_as_float(w.x), v[1] = __uint_as_float(w.y);
    v[2] = __uint_as_float(w.z), v[3] = __uint_as_float(w.w);
}

/* What all lanes of a warp read together: hears says whether it was told (otherwise it is there), needs whether this
 * lane has some, or else gets 0. */

__device__ __forceinline__ float hear(const float *from, bool hears, bool needs) {
    if (!hears) return needs ? __ldcg(from) : 0;
    uint32_t v = 0;
    look_together([&] {
        if (needs) v = load_relaxed4(told_at(from));
        return v != (uint32_t)UNSAID;
    });
    return __uint_as_float(v);
}
/* Every piece is told. */
struct no_gap {
    __device__ __forceinline__ bool operator()(int) const { return false; }
};
/* Twice four words of each of PIECES, all asked for at once. is_gap: of a piece that nobody tells, which is 0; it may
 * hang on what is asked for with them. */
template <int PIECES, class WAIT = just_wait, class GAP = no_gap>
__device__ __forceinline__ void hear_pieces(float v[PIECES][8], const float *const low[PIECES],
                                            const float *const high[PIECES], bool hears, const bool needs_low[PIECES],
                                            const bool needs_high[PIECES], WAIT wait = WAIT(), GAP is_gap = GAP()) {
    const int64_t shift = hears ? state_of().told_shift : 0;
    auto look = [&] {
        uint32_t top = 0;
        uint4 words[PIECES][2] = {};
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            if (needs_low[i]) words[i][0] = load_relaxed16((const uint8_t *)low[i] + shift);
            if (needs_high[i]) words[i][1] = load_relaxed16((const uint8_t *)high[i] + shift);
        }
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            if (is_gap(i)) words[i][0] = words[i][1] = make_uint4(0, 0, 0, 0);
            top = max(top, max(greatest(words[i][0]), greatest(words[i][1])));
            put4(v[i], words[i][0]), put4(v[i] + 4, words[i][1]);
        }
        return !hears || top != (uint32_t)UNSAID;
    };
    look_together(look, wait);
}
template <class WAIT = just_wait>
__device__ __forceinline__ void hear_eight(float v[8], const float *low, const float *high, bool hears, bool needs_low,
                                           bool needs_high, WAIT wait = WAIT()) {
    float all[1][8];
    hear_pieces<1>(all, &low, &high, hears, &needs_low, &needs_high, wait);
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = all[0][i];
}

/* Eight words at once: load(i) looks at one. */
template <class LOAD> __device__ __forceinline__ void hear_words(float v[8], bool hears, LOAD load) {
    look_together([&] {
        uint32_t top = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint32_t word = load(i);
            top = max(top, word);
            v[i] = __uint_as_float(word);
        }
        return !hears || top != (uint32_t)UNSAID;
    });
}

/* One word that is needed later: it is looked at once, and again by hear_asked if it was not there. */
__device__ __forceinline__ float ask(const float *from, bool hears, bool needs) {
    return needs ? __uint_as_float(load_relaxed4(hears ? told_at(from) : from)) : 0;
}
__device__ __forceinline__ float hear_asked(float asked, const float *from, bool hears, bool needs) {
    if (!hears || all_say(__float_as_int(asked) != UNSAID)) return asked;
    return hear(from, hears, needs);
}

/* A result that only this program reads: told, or left where launches would. */
__device__ __forceinline__ void leave_part(const program_stage &s, int part, float *out, int64_t i, float v) {
    if (s.told[part])
        tell(s.told[part] + i, v);
    else
        __stcg(out + i, v);
}

/* A result of a part of a stage: to those who wait for it, and to where it would go without a program. */
__device__ __forceinline__ void leave_result(const program_stage &s, int part, float *out, int64_t i, int64_t place,
                                             float v) {
    if (s.told[part]) tell(s.told[part] + place, v);
    if (out) __stcg(out + i, v);
}
/* Where result i of a row is told. */
__device__ __forceinline__ int64_t find_place(const program_stage &s, int row, int i) {
    return row * s.told_stride + (s.places ? __ldg(s.places + i) : i);
}

/* Makes what the launch before has told unsaid, the whole grid together. */
__device__ __forceinline__ void forget_told(uint8_t *area, int64_t bytes) {
    uint4 *words = (uint4 *)area;
    const uint4 unsaid = {(uint32_t)UNSAID, (uint32_t)UNSAID, (uint32_t)UNSAID, (uint32_t)UNSAID};
    for (int64_t i = blockIdx.x * PROGRAM_THREADS + threadIdx.x; i < bytes / 16; i += gridDim.x * PROGRAM_THREADS)
        words[i] = unsaid;
}

#endif
