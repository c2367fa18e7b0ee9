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

/* A warp has the same slice of the inputs of every tile of its group. */
__device__ __forceinline__ int warp_slice() { return threadIdx.x / 32 % PACKED_SLICES; }
__device__ __forceinline__ int warp_group() { return threadIdx.x / 32 / PACKED_SLICES; }

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

/* The warp's slice of the first of `count` tiles of a part, each `tiles` further. */
__device__ __forceinline__ void open_part(program_warp &w, const program_stream &s, int part, int tile, int count,
                                          int tiles) {
    const int slice = warp_slice(), begin = packed_slice(slice, s.n_units), end = packed_slice(slice + 1, s.n_units);
    if (begin == end) return;
    uint32_t at = (uint32_t)begin * s.unit_bytes, bytes = (uint32_t)(end - begin) * s.unit_bytes;
    if (s.units) {
        at = __ldg(&s.units[begin].offset);
        bytes = __ldg(&s.units[end - 1].offset) + __ldg(&s.units[end - 1].bytes) - at;
    }
    w.from = s.tiles[part] + (size_t)tile * s.tile_bytes + at;
    w.jump = (uint32_t)tiles * s.tile_bytes - bytes;
    w.left = w.slice_units = end - begin;
    w.tiles_left = count;
    w.units = s.units ? s.units + begin : NULL;
    w.at = at;
    w.unit_bytes = s.unit_bytes;
}

/* Part `part` of those of the block's tiles that are the group's, if there are any. */
__device__ __forceinline__ void try_part(program_warp &w, const program_stream &s, int part) {
    const int group = warp_group();
    if (s.gates) { /* parts take turns, as groups do */
        const int first = s.first / 2, n = (s.end - s.first) / 2;
        if (part == group && n > 0) open_part(w, s, part, first, n, 1);
        return;
    }
    int base = 0;
    for (int i = 0; i < part; i++) base += s.n_tiles[i];
    int v = max(s.first, base);
    const int end = min(s.end, base + s.n_tiles[part]);
    v += (v - s.first + group) % PROGRAM_GROUPS; /* the next that is the group's */
    if (v < end) open_part(w, s, part, v - base, (end - v + PROGRAM_GROUPS - 1) / PROGRAM_GROUPS, PROGRAM_GROUPS);
}

/* Behind the warp's slice of a tile: that of its next tile, of this part, in this stream or in those that follow.
 * `left` is 0 at the end of the program. Apart, for it is rare. */
__device__ __noinline__ void open_next() {
    program_warp &w = state_of().warps[threadIdx.x / 32];
    if (w.tiles_left && --w.tiles_left) {
        w.from += w.jump, w.left = w.slice_units;
        if (w.units) w.units -= w.slice_units, w.at = __ldg(&w.units->offset);
        return;
    }
    const int n_streams = state_of().n_streams;
    while (!w.left && w.stream < n_streams) {
        if (++w.part == PROGRAM_PARTS) w.part = 0, w.stream++;
        if (w.stream < n_streams) try_part(w, stream_of(w.stream), w.part);
    }
}

/* A warp's ring while it is read, in registers: what is asked for next is lane 0's. */
struct weight_ring {
    uint32_t ring, barriers, slot, parity;
    int n_slots, per_slot, slot_bytes;
    const uint8_t *from;
    const packed_unit *units;
    int left, unit_bytes;
    uint32_t at;
    uint32_t last_at, last_bytes; /* of the last unit that the next slot takes, on their way while the warp works */

    __device__ __forceinline__ weight_ring() {
        const program_state &p = state_of();
        const int warp = threadIdx.x / 32;
        n_slots = p.n_slots, per_slot = p.per_slot, slot_bytes = p.slot_bytes;
        slot = p.warps[warp].slot, parity = p.warps[warp].parity;
        ring = p.rings + warp * n_slots * slot_bytes;
        barriers = shared_address(program_shared()) + warp * PROGRAM_MOST_SLOTS * 8;
        last_at = last_bytes = 0;
        look_ahead();
    }
    __device__ __forceinline__ void look_ahead() {
        const program_warp &w = state_of().warps[threadIdx.x / 32];
        from = w.from, units = w.units, left = w.left, unit_bytes = w.unit_bytes, at = w.at;
        look_at_last();
    }
    __device__ __forceinline__ void look_at_last() {
        if (!left || !units) return;
        const packed_unit *last = units + min(per_slot, left) - 1;
        last_at = __ldg(&last->offset), last_bytes = __ldg(&last->bytes);
    }
    /* Where the warp's ring goes on. */
    __device__ __forceinline__ void keep() const {
        program_warp &w = state_of().warps[threadIdx.x / 32];
        w.from = from, w.units = units, w.left = left, w.at = at;
    }
    /* Asks for what comes next; lane 0 only. */
    __device__ __forceinline__ void fill() {
        if (!left) return;
        const int n = min(per_slot, left), bytes = units ? last_at + last_bytes - at : n * unit_bytes;
        const uint32_t barrier = barriers + slot * 8;
        barrier_expect(barrier, bytes);
        copy_bulk_once(ring + slot * slot_bytes, from, bytes, barrier, evict_first());
        from += bytes, left -= n;
        if (units) units += n, at += bytes;
        if (left) return look_at_last();
        keep();
        open_next();
        look_ahead();
    }
    __device__ __forceinline__ uint32_t wait() const {
        barrier_wait(barriers + slot * 8, parity);
        return ring + slot * slot_bytes;
    }
    /* The slot has been read. */
    __device__ __forceinline__ void next() {
        __syncwarp();
        if (threadIdx.x % 32 == 0) fill();
        if ((int)++slot == n_slots) slot = 0, parity ^= 1;
    }
    /* All lanes have read where it was. */
    __device__ __forceinline__ void close() const {
        if (threadIdx.x % 32) return;
        keep();
        program_warp &w = state_of().warps[threadIdx.x / 32];
        w.slot = slot, w.parity = parity;
    }
};

/* Lane 0 of each warp, once all streams are known. */
__device__ __forceinline__ void start_ring() {
    program_warp &w = state_of().warps[threadIdx.x / 32];
    w.left = w.tiles_left = w.stream = 0, w.part = -1;
    w.slot = w.parity = 0;
    open_next();
    weight_ring ring;
    for (; (int)ring.slot < ring.n_slots; ring.slot++) ring.fill();
    ring.slot = 0;
    ring.close();
}

#endif
