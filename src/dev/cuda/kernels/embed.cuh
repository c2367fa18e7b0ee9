/* embed.cuh — an element of a token's row of a table of embeddings.
 *
 * Used by rows.cu and by a program, so that both find the same bits. */
#ifndef KERNELS_EMBED_CUH
#define KERNELS_EMBED_CUH

#include "kernel.cuh"

/* The id of a row: as it was told, or the best of the digest before. Both are asked for at once. */
static __device__ __forceinline__ int embedded_id(const k_embed_args &a, int row) {
    const int known = a.ids[row], best = max(a.best[row], 0);
    return known < 0 ? best : known;
}

template <class T> static __device__ __forceinline__ float embedded(const k_embed_args &a, int id, int64_t i) {
    const int64_t at = a.is_tiled ? tile_place(id, i, a.dim) : (int64_t)id * a.dim + i;
    return __fmul_rn(to_float(((const T *)a.table)[at]), a.scale);
}

#endif
