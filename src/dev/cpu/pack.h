/* pack.h — how the CPU's kernels for whole numbers want weights to lie, and re-laying them so.
 *
 * Made by cpu.c when a weight is opened, read by <isa>_quant.c. A matrix is cut into tiles of 16 columns (rows of W),
 * each one stream of bytes: run after run, of each run span after span. A span is the inputs that share a float16
 * scale: first the scales of the 16 columns side by side, then the codes, 32 inputs after the other, in lines of 64
 * bytes. Byte 4 c + i of a line belongs to column c; its bits to inputs 4 j + i for several j:
 *
 *   2 bits   line l holds j = 4 l .. 4 l + 3, two bits each, the first lowest
 *   4 bits   line l holds j = 2 l, 2 l + 1, four bits each
 *   8 bits   line l holds j = l
 *   3 bits   the lower two as above; a last line with one bit of each j
 *   5 bits   the lower four as above; a last line with one bit of each j
 *   6 bits   the lower four as above; two last lines with two bits of each j, laid as for 2 bits
 *
 * The tricky thing: the layout must not cost more bits than the format has, for decoding is as fast as these bytes are
 * read; so scales stay as narrow as they are in the file. */
#ifndef DEV_CPU_PACK_H
#define DEV_CPU_PACK_H

#include "pack_cache.h"
#include "dev/dev.h"

/* PACK_LAYOUT: of what is told above; another number with each change, for files that keep packed weights. */
enum { PACK_COLUMNS = QUANT_TILE_ROWS, PACK_DEPTH = QUANT_TILE_DEPTH, PACK_LINE = 64, PACK_LAYOUT = 1 };

/* The greatest whole number of activations: with a code of 5 bits added it still fits a byte (quant_pairs.inc). */
enum { PACK_MOST = 112, PACK_NARROW = 16 };

/* What makes whole numbers of activations, given the greatest of their sizes. So small ones that this would be infinite
 * count as zeros. */
static inline float pack_inverse(float most) { return most > 0x1p-100f ? PACK_MOST / most : 0; }

typedef struct pack_run {
    quant_run is;
    int span;            /* inputs */
    int groups, blocks;  /* groups of a span; 32 inputs each of a group, at least 1 */
    size_t header_bytes; /* of a span, in front of its codes */
    size_t offset;       /* of the run in a tile */
    int base;            /* what is taken off codes in whole numbers; they fit a byte with a sign then */
    float rest;          /* what the zero has more than that */
    bool has_rest;       /* something is taken off that needs the sum of the inputs: such a rest, or minima */
    bool is_narrow;      /* codes less their base are at least -PACK_NARROW and less than PACK_NARROW */
} pack_run;

typedef struct cpu_packed {
    int n_runs;
    size_t tile_bytes;
    const int32_t *order; /* of the inputs, as quant_matrix has it */
    bool is_lent;         /* the tiles are the cache's */
    pack_run runs[];
} cpu_packed;

/* The kinds of runs that kernels have code for: X(name, bits, has a table, groups of 16). */
#define PACK_VARIANTS(X)                                                                                               \
    X(2, 2, false, false)                                                                                              \
    X(2h, 2, false, true)                                                                                              \
    X(3, 3, false, false)                                                                                              \
    X(3h, 3, false, true)                                                                                              \
    X(3t, 3, true, false)                                                                                              \
    X(3th, 3, true, true)                                                                                              \
    X(4, 4, false, false)                                                                                              \
    X(4t, 4, true, false)                                                                                              \
    X(4th, 4, true, true)                                                                                              \
    X(5, 5, false, false)                                                                                              \
    X(6, 6, false, false)                                                                                              \
    X(6h, 6, false, true)                                                                                              \
    X(8, 8, false, false)

/* Those of them whose codes may be narrow, without groups of 16: X(name, bits, has a table). */
#define PACK_NARROW_VARIANTS(X)                                                                                        \
    X(2, 2, false)                                                                                                     \
    X(3, 3, false)                                                                                                     \
    X(3t, 3, true)                                                                                                     \
    X(4, 4, false)                                                                                                     \
    X(4t, 4, true)                                                                                                     \
    X(5, 5, false)

/* Bytes of the codes of 32 inputs. */
static inline size_t pack_code_bytes(const pack_run *r) { return (size_t)r->is.bits * PACK_LINE; }

/* Re-lays w->stored, whose order must outlive it, into memory that w then owns, on the pool's threads, or takes it out
 * of the cache (NULL: none), which must outlive it, too. Leaves w alone where the matrix has no description as whole
 * numbers. */
qp_status pack_weight(dev_weight *w, pool *p, pack_cache *cache, qp_error *err);
void pack_free(dev_weight *w);

#endif
