/* packed.h — how the GPU's kernels want weights of 2 to 8 bits to lie; C and CUDA read it.
 *
 * Made by pack_cuda.c, read by the kernels that include digits.cuh. A matrix is cut into tiles of 16 rows, each one
 * stream of units of 256 inputs: first the codes, then the scales of the unit, so that a tile is read from its first
 * byte to its last.
 *
 * Codes of 16 rows x 64 inputs are BITS words of each of a warp's 32 lanes. Lane 4 g + t holds rows g and g + 8 of
 * inputs 4 t .. 4 t + 3 of each 16. Words of the four blocks of a unit follow each other per lane and lie in lines of
 * 32 x 16 bytes, lane after lane.
 *
 * Scales, side by side per group (of the unit) and g = 0 .. 7 the pair of rows g, g + 8:
 *   PLAIN      d float16 [group][g][2]
 *   E4M3       the same, but codes are floats of 8 bits and lie in their words as floats.cuh tells
 *   ZERO       the same, then zeros uint8 [group][g][2]
 *   MIN        the same as PLAIN, then minima float16 [group][g][2]
 *   SUPER      d float16 [g][2], then scales int8 [group][g][2]
 *   SUPER_MIN  d, dmin float16 [g][2] each, then scales int8 and minima uint8 [group][g][2] each */
#ifndef KERNELS_PACKED_H
#define KERNELS_PACKED_H

#include <stddef.h>
#include <stdint.h>

enum {
    PACKED_ROWS = 16,     /* of a tile */
    PACKED_UNIT = 256,    /* inputs of a unit */
    PACKED_BLOCK = 64,    /* inputs whose codes are BITS words of a lane */
    PACKED_SLICES = 8,    /* parts of the inputs that are summed apart, then in order: the same for every kernel */
    PACKED_X_GROUP = 128, /* inputs that share an activation's scale */
};

/* As quant_scales has them, and what codes are that are no whole numbers. */
enum { PACKED_PLAIN, PACKED_E4M3, PACKED_ZERO, PACKED_MIN, PACKED_SUPER, PACKED_SUPER_MIN };

#ifdef __cplusplus
#define PACKED_INLINE __host__ __device__ constexpr inline
#else
#define PACKED_INLINE static inline
#endif

/* Bytes of a unit's scales. */
PACKED_INLINE int packed_scale_bytes(int scales, int group) {
    const int n = PACKED_UNIT / group;
    return scales <= PACKED_E4M3    ? n * 32
           : scales == PACKED_ZERO  ? n * 48
           : scales == PACKED_MIN   ? n * 64
           : scales == PACKED_SUPER ? 32 + n * 16
                                    : 64 + n * 32;
}
PACKED_INLINE int packed_unit_bytes(int bits, int scales, int group) {
    return bits * 512 + packed_scale_bytes(scales, group);
}
/* Kinds of which all units of a matrix may be: X(bits, group, scales). What is PLAIN and not here is mixed. */
#define PACKED_SAMES(X)                                                                                                \
    X(2, 128, PLAIN)                                                                                                   \
    X(4, 32, PLAIN)                                                                                                    \
    X(4, 128, PLAIN)                                                                                                   \
    X(8, 32, PLAIN)                                                                                                    \
    X(8, 128, E4M3)                                                                                                    \
    X(2, 32, ZERO)                                                                                                     \
    X(2, 128, ZERO)                                                                                                    \
    X(3, 32, ZERO)                                                                                                     \
    X(3, 128, ZERO)                                                                                                    \
    X(4, 32, ZERO)                                                                                                     \
    X(4, 64, ZERO)                                                                                                     \
    X(4, 128, ZERO)                                                                                                    \
    X(8, 32, ZERO)                                                                                                     \
    X(8, 128, ZERO)                                                                                                    \
    X(4, 32, MIN)                                                                                                      \
    X(5, 32, MIN)                                                                                                      \
    X(3, 16, SUPER)                                                                                                    \
    X(6, 16, SUPER)                                                                                                    \
    X(8, 16, SUPER)                                                                                                    \
    X(8, 32, SUPER)                                                                                                    \
    X(2, 16, SUPER_MIN)                                                                                                \
    X(4, 32, SUPER_MIN)                                                                                                \
    X(5, 32, SUPER_MIN)

/* Those of codes of 4 bits: with a gate in the product of many rows. */
#define PACKED_GATES(X)                                                                                                \
    X(4, 32, PLAIN)                                                                                                    \
    X(4, 128, PLAIN)                                                                                                   \
    X(4, 32, ZERO)                                                                                                     \
    X(4, 64, ZERO)                                                                                                     \
    X(4, 128, ZERO)                                                                                                    \
    X(4, 32, MIN)                                                                                                      \
    X(4, 32, SUPER_MIN)

/* What kernels get of a packed matrix, or of several that read the same inputs. */
typedef struct packed_part {
    const uint8_t *tiles;
    const float *bias; /* [n_out] or NULL */
    float *out;
    int64_t out_stride;
    int n_out, n_tiles;
    int add; /* to what out holds */
} packed_part;

/* Of units that are not all of one kind. */
typedef struct packed_unit {
    uint32_t offset; /* in a tile */
    int32_t bytes, kind;
} packed_unit;

#define PACKED_KIND(bits, group) ((bits)*256 + (group))
/* The kinds that a matrix may mix. */
#define PACKED_MIXES(X)                                                                                                \
    X(2, 32)                                                                                                           \
    X(2, 64)                                                                                                           \
    X(2, 128)                                                                                                          \
    X(3, 32)                                                                                                           \
    X(3, 64)                                                                                                           \
    X(3, 128)                                                                                                          \
    X(4, 32)                                                                                                           \
    X(4, 64)                                                                                                           \
    X(4, 128)                                                                                                          \
    X(5, 32)                                                                                                           \
    X(5, 64)                                                                                                           \
    X(5, 128)                                                                                                          \
    X(6, 32)                                                                                                           \
    X(6, 64)                                                                                                           \
    X(6, 128)                                                                                                          \
    X(8, 32)                                                                                                           \
    X(8, 64)                                                                                                           \
    X(8, 128)

/* Of the units of a slice, if no slice has more. Those of all slices lie in front of the units. */
enum { PACKED_SLICE_UNITS = 28 };
typedef struct packed_slice_units {
    uint32_t offset, bytes; /* where the slice begins in a tile; of all its units */
    uint16_t unit_bytes[PACKED_SLICE_UNITS];
} packed_slice_units;

typedef struct packed_args {
    const float *x;
    int64_t x_stride;
    const int32_t *order; /* packed input k is x[order[k]], none where negative; NULL: k, none from n_in on */
    int n_in, n_rows;
    int rows_each, depth; /* rows of a block; units in flight of a warp, 2 .. 4 */
    int n_units, n_tiles; /* n_tiles: of all parts */
    int n_parts, zero;
    float unit; /* multiplies every scale */
    /* Of mixed units: */
    const packed_unit *units; /* [n_units] */
    int64_t tile_bytes;
    int most_unit_bytes;
    const int32_t *places; /* [n_in]: where order has each input; NULL: there is no order, or that cannot be said */
    packed_part parts[4];
} packed_args;

/* Shared memory of matvec.cuh, in bytes: digits, scales and sums, partial sums, rings. */
enum { MATVEC_BATCH = 8, MATVEC_PART = 18 }; /* tiles between two meetings; floats of a row of partial sums */
PACKED_INLINE int matvec_x_bytes(int n_rows, int n_units) { return 2 * n_rows * (n_units * PACKED_UNIT + 64); }
PACKED_INLINE int matvec_scale_bytes(int n_rows, int n_units, int sum) {
    return (n_rows * n_units * (2 + PACKED_UNIT / sum) * 4 + 15) / 16 * 16;
}
PACKED_INLINE int matvec_part_bytes(int n_rows, int warp_groups) {
    return MATVEC_BATCH * warp_groups * PACKED_SLICES * n_rows * MATVEC_PART * 4;
}
/* sum: inputs that are summed together; warp_groups: of PACKED_SLICES warps each. */
PACKED_INLINE int matvec_shared(int n_rows, int n_units, int sum, int unit_bytes, int depth, int warp_groups) {
    return matvec_x_bytes(n_rows, n_units) + matvec_scale_bytes(n_rows, n_units, sum) +
           matvec_part_bytes(n_rows, warp_groups) + PACKED_SLICES * warp_groups * depth * unit_bytes;
}
/* Units [first, next) of slice s: all kernels cut the same way. */
PACKED_INLINE int packed_slice(int s, int n_units) { return (int)((unsigned)(s * n_units) / PACKED_SLICES); }

/* [PACKED_SLICES]; NULL: all units are of one kind, or some slice has too many. */
static inline const packed_slice_units *packed_slices(const packed_unit *units, int n_units) {
    if (!units || n_units > PACKED_SLICES * PACKED_SLICE_UNITS) return NULL;
    return (const packed_slice_units *)(const void *)units - PACKED_SLICES;
}

#endif
