/* program_ring.cuh — how weights reach a program's warps: a ring of each in shared memory, filled ahead of the stages.
 *
 * Used by program.cuh. Which units a warp multiplies is known before any activation is, so its ring runs on into the
 * stages that come: while blocks wait for each other the memory goes on working. A slot has a unit, which
 * comes with one copy in bulk; a barrier of the slot says when it is there. The warp that reads a slot is the one that
 * fills it again. How rings begin is found once, by a program's first launch. */
#ifndef KERNELS_PROGRAM_RING_CUH
#define KERNELS_PROGRAM_RING_CUH

#include "../program_kargs.h"
#include "digits.cuh"

/* What lies in front of the scratch. */
__device__ __forceinline__ uint8_t *program_shared() {
    SHARED_MEMORY(shared);
    return shared;
}
__device__ __forceinline__ program_state &state_of() { return *(program_state *)(program_shared() + PROGRAM_BARRIERS); }
__device__ __forceinline__ program_stage &stage_of(int i) {
    return ((program_stage *)(program_shared() + PROGRAM_STAGES))[i & 1];
}
__device__ __forceinline__ program_share &share_of(int stream) {
    return ((program_share *)(program_shared() + PROGRAM_SHARES))[stream];
}

/* The barrier of a warp's first slot; those of the others follow, 8 bytes each. */
__device__ __forceinline__ uint32_t slot_barriers(uint32_t warp) {
    return shared_address(program_shared()) + warp * PROGRAM_MOST_SLOTS * 8;
}

/* ---- who has what ---- */

enum { SLICES_SHIFT = 3, WARPS_SHIFT = 4 };
static_assert(1 << SLICES_SHIFT == PACKED_SLICES && 1 << WARPS_SHIFT == PROGRAM_WARPS, "their logarithms");

/* Blocks of a cluster share its tiles: each has some slices of their inputs, each of its warps one of these in every
 * tile of a group. */
__device__ __forceinline__ int cluster_shift() { return SLICES_SHIFT - state_of().slice_shift; }
__device__ __forceinline__ int block_slice() { return (int)cluster_rank() << state_of().slice_shift; }
__device__ __forceinline__ int warp_slice() {
    return block_slice() + (threadIdx.x / 32 & ((1 << state_of().slice_shift) - 1));
}
__device__ __forceinline__ int warp_group() { return threadIdx.x / 32 >> state_of().slice_shift; }
__device__ __forceinline__ int group_shift() { return WARPS_SHIFT - state_of().slice_shift; }

/* ---- meeting ---- */

enum { MOST_LOOKS = 1 << 26 }; /* at what others have done: seconds */

/* Until all blocks have come to the stage, if it waits. What comes before it needs nothing of the stage before. */
__device__ __forceinline__ void await_turn(const program_stage &s) {
    if (!s.waits) return;
    if (threadIdx.x == 0)
        for (int i = 0; load_acquire(state_of().met) < s.waits * gridDim.x; i++)
            if (i == MOST_LOOKS) __trap();
    __syncthreads();
}

/* ---- what a block has of a stream ---- */

/* The cluster's share of a product's tiles; every other stage the other way round, for who has one less. */
__device__ __forceinline__ void deal_tiles(const program_stream &s, int stream) {
    program_share &to = share_of(stream);
    const int n_clusters = gridDim.x >> cluster_shift(), at = blockIdx.x >> cluster_shift();
    const int cluster = stream & 1 ? n_clusters - 1 - at : at, times = s.gates ? 2 : 1, n = s.all_tiles / times;
    const int first = (uint32_t)cluster * n / (uint32_t)n_clusters * times;
    const int end = (uint32_t)(cluster + 1) * n / (uint32_t)n_clusters * times;
    to.first = first, to.end = end;
    to.slices = s.slices, to.tile_bytes = s.tile_bytes, to.unit_bytes = s.unit_bytes, to.n_units = s.n_units;
    to.first_unit = packed_slice(block_slice(), s.n_units);
    to.units = packed_slice(block_slice() + (1 << state_of().slice_shift), s.n_units) - to.first_unit;
    to.gates = s.gates, to.ends[0] = 0;
    int base = 0, n_parts = 0;
#pragma unroll
    for (int part = 0; part < PROGRAM_PARTS; part++) {
        if (s.gates ? part < times : base < end && base + s.n_tiles[part] > first) {
            to.tiles[n_parts] = s.tiles[part] + (int64_t)(first / times - (s.gates ? 0 : base)) * s.tile_bytes;
            to.ends[n_parts++] = min(end, base + s.n_tiles[part]) - first;
        }
        base += s.n_tiles[part];
    }
    to.n_parts = n_parts;
}

/* A group's tiles in one part of a share. */
struct part_tiles {
    const uint8_t *first;
    int count, next_part; /* next_part: where the group may have more of them; 0: nowhere */
};

/* Those of the warp's group in part `part`, if there are any. Parts of a gated product take turns, as groups do. */
__device__ __forceinline__ part_tiles find_tiles(const program_share &s, const program_warp &w, int part) {
    const int groups = 1 << w.group_shift;
    if (agreed(s.gates))
        return {s.tiles[w.group & 1] + (size_t)(w.group >> 1) * s.tile_bytes,
                (s.end - s.first - w.group + groups - 1) >> w.group_shift, 0};
    int i = w.group;
    if (agreed(part)) i = s.ends[part - 1] + ((w.group - s.ends[part - 1]) & (groups - 1)); /* the next of the group */
    return {s.tiles[part] + (size_t)i * s.tile_bytes, (s.ends[part] - i + groups - 1) >> w.group_shift,
            part + 1 < s.n_parts ? part + 1 : 0};
}

/* Bytes from one of the group's tiles in a part to its next one. */
__device__ __forceinline__ uint32_t tile_step(const program_share &s, const program_warp &w) {
    return s.tile_bytes << w.group_shift >> (s.gates ? 1 : 0);
}

/* ---- rings ---- */

/* A warp's ring while it is read, in registers: all lanes know what is asked for next, one of them asks. A slot is
 * taken, read, and paid: filled again with what comes so many slots later. Then the next one is taken. */
struct weight_ring {
    uint32_t ring, barriers, behind; /* of the first slot; behind: the last slot's barrier */
    uint32_t at, barrier;            /* the slot that is taken next, or has been and is not paid yet */
    int slot_bytes;
    program_warp w;

    __device__ __forceinline__ weight_ring() {
        const program_state &p = state_of();
        const uint32_t warp = thread_now() / 32; /* kept: what follows from it is not found again for every unit */
        slot_bytes = p.slot_bytes;
        w = p.warps[warp];
        ring = p.rings + warp * p.n_slots * slot_bytes;
        barriers = slot_barriers(warp);
        behind = barriers + p.n_slots * 8;
        at = ring + w.slot * slot_bytes, barrier = barriers + w.slot * 8;
    }
    /* The warp's slice of a stream whose units differ: asked for when the stream before is opened. */
    __device__ __forceinline__ packed_slice_units &slice_of(int stream) const {
        return state_of().slices[stream & 1][threadIdx.x / 32];
    }
    __device__ __forceinline__ void ask_slice(int stream) const {
        const packed_slice_units *from = stream < state_of().n_streams ? share_of(stream).slices : NULL;
        const int lane = threadIdx.x % 32;
        if (!from) return;
        if (lane < (int)sizeof *from / 16)
            copy_async16(shared_address(&slice_of(stream)) + lane * 16, (const uint8_t *)(from + w.slice) + lane * 16,
                         evict_last());
        commit_copies();
    }
    __device__ __forceinline__ void next_slice() const {
        if (share_of(w.stream).slices) wait_copies<0>(), __syncwarp();
        ask_slice(w.stream + 1);
    }
    /* The warp's slice of the first of a part's tiles. */
    __device__ __forceinline__ void open_tiles(const program_share &s, const uint8_t *tile) {
        const int first = packed_slice(w.slice, s.n_units), n = packed_slice(w.slice + 1, s.n_units) - first;
        uint32_t offset = (uint32_t)first * s.unit_bytes, bytes = (uint32_t)n * s.unit_bytes;
        w.sizes = 0, w.bytes = s.unit_bytes;
        if (s.slices) {
            const packed_slice_units &is = slice_of(w.stream);
            offset = is.offset, bytes = is.bytes;
            w.sizes = shared_address(is.unit_bytes), w.bytes = is.unit_bytes[0];
        }
        w.from = tile + offset;
        w.jump = tile_step(s, w) - bytes;
        w.left = w.slice_units = n;
    }
    /* The next part of the stream where the group has tiles, or the next stream. At the end of the program w.left is
     * not above 0. */
    __device__ __forceinline__ void open_next() {
        while (w.left <= 0 && w.stream < state_of().n_streams) {
            if (!w.next_part) {
                if (++w.stream == state_of().n_streams) return;
                if (state_of().has_slices) next_slice();
            }
            const program_share &s = share_of(w.stream);
            const part_tiles tiles = find_tiles(s, w, w.next_part);
            w.tiles_left = tiles.count, w.next_part = tiles.next_part;
            if (w.tiles_left > 0) open_tiles(s, tiles.first);
        }
    }
    /* Asks for the next unit, if there is one. No branches, so that products go on meanwhile; what is rare is left to
     * settle. */
    __device__ __forceinline__ void fill() {
        const bool is_any = w.left > 0, ends = w.left == 1; /* the slice of a tile: the next one's comes then */
        copy_bulk_by_one(at, w.from, w.bytes, barrier, evict_first(), is_any);
        store_shared4(barrier + PROGRAM_SLOTS_BYTES, w.bytes);
        w.from += w.bytes + (ends ? w.jump : 0);
        w.tiles_left -= ends;
        w.left = !ends ? w.left - 1 : w.tiles_left > 0 ? w.slice_units : 0;
        if (w.sizes && is_any) w.sizes += 2 * (ends ? 1 - w.slice_units : 1), w.bytes = (int)load_shared2(w.sizes);
    }
    __device__ __forceinline__ void turn_on() {
        at += slot_bytes, barrier += 8;
        if (barrier == behind) at = ring, barrier = barriers, w.parity ^= 1;
    }
    /* Bytes of the unit that is taken next. */
    __device__ __forceinline__ int coming_bytes() const { return (int)load_shared4(barrier + PROGRAM_SLOTS_BYTES); }
    /* Where the next unit is. */
    __device__ __forceinline__ uint32_t take() const {
        barrier_wait(barrier, w.parity);
        return at;
    }
    /* Once the lane has read it: one asks for all, and what the others do with a unit may be behind. */
    __device__ __forceinline__ void pay() {
        __syncwarp();
        fill(), turn_on();
    }
    /* Behind every pay. */
    __device__ __forceinline__ void settle() {
        if (w.left <= 0) open_next();
    }
    /* Where the warp's ring goes on. */
    __device__ __forceinline__ void close() {
        w.slot = (barrier - barriers) / 8;
        __syncwarp(); /* all have read what it was */
        if (threadIdx.x % 32 == 0) state_of().warps[threadIdx.x / 32] = w;
    }
};

/* ---- ahead of them ---- */

/* What a warp asks for into the second cache while it waits for others: its share of weights behind what its ring has,
 * so many units with each look that found too little. Rings are full by then and memory has nothing else to do. All
 * asked for at once would be in the way of what others tell. Where rings hold a block's share of the stream they are
 * enough. */
struct units_ahead {
    const uint8_t *from;
    uint32_t jump;               /* from a slice's end to the next one */
    int rest, slice, tiles_left; /* bytes of the slice that `from` lies in, and of whole ones; tiles, this one too */
    int each;                    /* at once: units, and bytes once it is open */
    bool is_open;

    __device__ __forceinline__ explicit units_ahead(int units)
        : from(NULL), jump(0), rest(0), slice(0), tiles_left(0), each(units), is_open(false) {}
    __device__ __forceinline__ void open() {
        const program_state &p = state_of();
        const program_warp &w = p.warps[thread_now() / 32];
        is_open = true;
        if (w.left <= 0) return;
        const program_share &s = share_of(w.stream);
        if ((int64_t)(s.end - s.first) * s.tile_bytes <= PROGRAM_WARPS * p.n_slots * p.slot_bytes) return;
        from = w.from, jump = w.jump, tiles_left = w.tiles_left, each *= s.unit_bytes;
        slice = (int)(tile_step(s, w) - jump);
        if (!w.sizes) rest = w.left * w.bytes;
        for (int i = 0; w.sizes && i < w.left; i++) rest += (int)load_shared2(w.sizes + 2 * i);
    }
    __device__ __forceinline__ void ask() {
        if (!is_open) open();
        if (rest <= 0) return;
        const int bytes = min(rest, each);
        prefetch_bulk(from, bytes);
        from += bytes, rest -= bytes;
        if (!rest && --tiles_left > 0) from += jump, rest = slice;
    }
    /* By whole warps. */
    __device__ __forceinline__ void operator()() {
        if (lane_now() == 0) ask();
        __syncwarp();
    }
};

/* ---- how they begin ---- */

__device__ __forceinline__ program_start &start_of(const k_program_args &a) {
    return a.starts[blockIdx.x * PROGRAM_WARPS + threadIdx.x / 32];
}

/* What an earlier launch has left of a warp's ring: asked for before anything else is known, in registers. */
struct ring_start {
    int is_known, bytes; /* of the lane's slot */
    uint64_t unit;
    uint4 word; /* of program_warp */

    __device__ __forceinline__ explicit ring_start(const k_program_args &a) : bytes(0), unit(0) {
        const int lane = threadIdx.x % 32;
        const program_start &from = start_of(a);
        is_known = __ldcg(&from.is_known);
        if (lane < a.n_slots) {
            bytes = __ldcg(from.bytes + lane);
            unit = __ldcg((const unsigned long long *)from.units + lane);
        }
        word = make_uint4(0, 0, 0, 0);
        if (has_word()) word = __ldcg((const uint4 *)&from.warp + lane);
    }
    static __device__ __forceinline__ bool has_word() {
        static_assert(sizeof(program_warp) % 16 == 0, "copied in words of 16 bytes");
        return threadIdx.x % 32 < sizeof(program_warp) / 16;
    }
    /* Weights are on their way; false: there was none. */
    __device__ __forceinline__ bool take() const {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const uint32_t barrier = slot_barriers(warp) + lane * 8;
        if (!agreed(is_known)) return false;
        if (bytes) {
            const program_state &state = state_of();
            store_shared4(barrier + PROGRAM_SLOTS_BYTES, bytes);
            barrier_expect(barrier, bytes);
            copy_bulk_once(state.rings + (warp * state.n_slots + lane) * state.slot_bytes, (const void *)unit, bytes,
                           barrier, evict_first());
        }
        if (has_word()) ((uint4 *)&state_of().warps[warp])[lane] = word;
        return true;
    }
};

/* What is in shared memory besides, once all shares are made. */
__device__ __forceinline__ void take_slices() {
    const weight_ring ring;
    ring.ask_slice(ring.w.stream);
    ring.ask_slice(ring.w.stream + 1);
    wait_copies<0>();
}

/* Each warp's, once all shares are made, and what the next launches begin with. */
__device__ __forceinline__ void make_start(const k_program_args &a) {
    const int lane = threadIdx.x % 32;
    program_start &to = start_of(a);
    if (lane == 0) {
        program_warp none = {};
        none.stream = -1;
        none.slice = warp_slice(), none.group = warp_group(), none.group_shift = group_shift();
        state_of().warps[threadIdx.x / 32] = none;
    }
    __syncwarp();
    weight_ring ring;
    ring.ask_slice(0);
    ring.open_next();
    int slot = 0;
#pragma unroll 1
    do {
        const bool is_any = ring.w.left > 0;
        if (lane == 0) to.units[slot] = ring.w.from, to.bytes[slot] = is_any ? ring.w.bytes : 0;
        slot++;
        ring.pay();
        ring.settle();
    } while (ring.barrier != ring.barriers);
    ring.w.parity = 0;
    ring.close();
    if (lane == 0) to.warp = ring.w, to.is_known = true;
}

#endif
