/* program_ring.cuh — how weights reach a program's warps: a ring of each in shared memory, filled ahead of the stages.
 *
 * Used by program.cuh. Which units a warp multiplies is known before any activation is, so its ring runs on into the
 * stages that come: while blocks wait for each other the memory goes on working. One lane asks for some units at once
 * with one copy in bulk; a barrier of the slot says when they are there. The warp that reads a slot is the one that
 * fills it again. */
#ifndef KERNELS_PROGRAM_RING_CUH
#define KERNELS_PROGRAM_RING_CUH

#include "../program_kargs.h"
#include "digits.cuh"

/* Part and tile of tile v of all. */
template <class OF> __device__ __forceinline__ int find_tile(int *tile, const OF &of, int v, bool gates) {
    if (gates) {
        *tile = v / 2;
        return v % 2;
    }
    int p = 0;
    while (v >= of(p)) v -= of(p++);
    *tile = v;
    return p;
}

__device__ __forceinline__ int slice_of(int warp, int v) { return (warp + 3 * v) % PACKED_SLICES; }

/* What lies in front of the scratch. */
__device__ __forceinline__ uint8_t *program_shared() {
    SHARED_MEMORY(shared);
    return shared;
}
__device__ __forceinline__ program_state &state_of() { return *(program_state *)(program_shared() + PROGRAM_BARRIERS); }
__device__ __forceinline__ program_stage &stage_of(int i) {
    return ((program_stage *)(program_shared() + PROGRAM_STAGES))[i & 1];
}
__device__ __forceinline__ program_stream &stream_of(int i) {
    return ((program_stream *)(program_shared() + PROGRAM_STREAMS))[i];
}

/* ---- meeting ---- */

enum { MOST_LOOKS = 1 << 26 }; /* at what others have done: seconds */

/* Until so many arrivals; 0: at once. What comes before it in a stage needs nothing of the stage before. */
__device__ __forceinline__ void await_turn(uint32_t turn) {
    if (!turn) return;
    if (threadIdx.x == 0)
        for (int i = 0; load_acquire(state_of().met) < turn; i++)
            if (i == MOST_LOOKS) __trap();
    __syncthreads();
}

/* ---- rings ---- */

/* Goes on to the slice's first unit of the warp's next tile; false at the end of the program. */
__device__ __forceinline__ bool seek_unit(program_warp &w, int n_streams) {
    const int warp = threadIdx.x / 32;
    while (w.unit == w.end_unit) { /* a slice may be empty */
        w.tile += PROGRAM_GROUPS;
        while (w.tile >= w.end_tile) {
            if (++w.stream >= n_streams) return false;
            w.tile = stream_of(w.stream).first + warp / PACKED_SLICES, w.end_tile = stream_of(w.stream).end;
        }
        const program_stream &s = stream_of(w.stream);
        const int slice = slice_of(warp, w.tile);
        int t;
        const int p = find_tile(
            &t, [&](int i) { return s.n_tiles[i]; }, w.tile, s.gates);
        w.unit = packed_slice(slice, s.n_units), w.end_unit = packed_slice(slice + 1, s.n_units);
        w.from = s.tiles[p] + (size_t)t * s.tile_bytes;
        w.from += s.units && w.unit < w.end_unit ? __ldg(&s.units[w.unit].offset) : (uint32_t)w.unit * s.unit_bytes;
    }
    return true;
}

/* Asks for what comes next into a slot; lane 0 only. */
__device__ __forceinline__ void fill_slot(int slot) {
    const program_state &p = state_of();
    const int warp = threadIdx.x / 32;
    program_warp w = p.warps[warp];
    if (w.stream >= p.n_streams) return;
    if (seek_unit(w, p.n_streams)) {
        const program_stream &s = stream_of(w.stream);
        const int n = min(p.per_slot, w.end_unit - w.unit);
        int bytes = n * s.unit_bytes;
        if (s.units) {
            bytes = 0;
            for (int i = 0; i < n; i++) bytes += __ldg(&s.units[w.unit + i].bytes);
        }
        const uint32_t to = p.rings + (warp * p.n_slots + slot) * p.slot_bytes;
        const uint32_t barrier = shared_address(program_shared()) + (warp * PROGRAM_MOST_SLOTS + slot) * 8;
        const uint64_t policy = evict_first();
        barrier_expect(barrier, bytes);
        copy_bulk_once(to, w.from, bytes, barrier, policy);
        w.unit += n, w.from += bytes;
    }
    state_of().warps[warp] = w;
}

/* Lane 0 of each warp, once all streams are known. */
__device__ __forceinline__ void start_ring() {
    program_warp &w = state_of().warps[threadIdx.x / 32];
    w.stream = -1;
    w.tile = w.end_tile = w.unit = w.end_unit = 0;
    w.slot = w.parity = 0;
    for (int i = 0; i < state_of().n_slots; i++) fill_slot(i);
}

/* A warp's ring while it is read. */
struct weight_ring {
    uint32_t ring, barriers, slot, parity;
    int n_slots, per_slot, slot_bytes;

    __device__ __forceinline__ weight_ring() {
        const program_state &p = state_of();
        const int warp = threadIdx.x / 32;
        n_slots = p.n_slots, per_slot = p.per_slot, slot_bytes = p.slot_bytes;
        slot = p.warps[warp].slot, parity = p.warps[warp].parity;
        ring = p.rings + warp * n_slots * slot_bytes;
        barriers = shared_address(program_shared()) + warp * PROGRAM_MOST_SLOTS * 8;
    }
    __device__ __forceinline__ uint32_t wait() const {
        barrier_wait(barriers + slot * 8, parity);
        return ring + slot * slot_bytes;
    }
    /* The slot has been read. */
    __device__ __forceinline__ void next() {
        __syncwarp();
        if (threadIdx.x % 32 == 0) fill_slot(slot);
        if ((int)++slot == n_slots) slot = 0, parity ^= 1;
    }
    /* All lanes have read where it was. */
    __device__ __forceinline__ void close() const {
        if (threadIdx.x % 32) return;
        program_warp &w = state_of().warps[threadIdx.x / 32];
        w.slot = slot, w.parity = parity;
    }
};

#endif
