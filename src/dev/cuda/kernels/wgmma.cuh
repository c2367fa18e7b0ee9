/* wgmma.cuh — Hopper's warpgroup products, its barriers in shared memory and copies in bulk.
 *
 * Used by skinny90.cuh, wide90.cuh and flash90.cuh; needs sm_90a. Where not said otherwise operands lie in shared
 * memory in rows of 64 float16 (128 bytes), the 16-byte pieces of row r exchanged by their number xor r % 8, eight rows
 * after eight: what the hardware calls K-major with a swizzle of 128 bytes. */
#ifndef KERNELS_WGMMA_CUH
#define KERNELS_WGMMA_CUH

#include "ptx.cuh"

/* Where 16 bytes `piece` (0 .. 7) of row r lie in a block of rows of 128 bytes. */
__host__ __device__ constexpr inline int swizzled(int r, int piece) { return r * 128 + ((piece ^ (r & 7)) << 4); }

#ifdef __CUDACC__ /* whoever only wants to know where things lie needs no GPU */
/* Describes rows of 128 swizzled bytes from `address` on. */
__device__ __forceinline__ uint64_t operand(uint32_t address) {
    return (uint64_t)(address >> 4 & 0x3FFF) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* Columns side by side, in pieces of 32 or 128 swizzled bytes that follow each other `column_step` bytes apart; eight
 * rows of such pieces are as many bytes, and the next eight lie `row_step` bytes on. */
enum { SWIZZLE_128 = 1, SWIZZLE_32 = 3 };
__device__ __forceinline__ uint64_t side_by_side(uint32_t address, int column_step, int row_step, int swizzle) {
    return (uint64_t)(address >> 4 & 0x3FFF) | (uint64_t)(column_step >> 4) << 16 | (uint64_t)(row_step >> 4) << 32 |
           (uint64_t)swizzle << 62;
}

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* The sums of a product as its text names them and as the operands that they are. */
#define WGMMA_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_32 WGMMA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_64                                                                                                 \
    WGMMA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"                  \
                   ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_128                                                                                                \
    WGMMA_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"                  \
                   ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"                  \
                   ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"      \
                   ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_SUMS_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define WGMMA_SUMS_AT(i) WGMMA_SUMS_4(i), WGMMA_SUMS_4((i) + 4), WGMMA_SUMS_4((i) + 8), WGMMA_SUMS_4((i) + 12)
#define WGMMA_SUMS_16 WGMMA_SUMS_AT(0)
#define WGMMA_SUMS_32 WGMMA_SUMS_16, WGMMA_SUMS_AT(16)
#define WGMMA_SUMS_64 WGMMA_SUMS_32, WGMMA_SUMS_AT(32), WGMMA_SUMS_AT(48)
#define WGMMA_SUMS_128 WGMMA_SUMS_64, WGMMA_SUMS_AT(64), WGMMA_SUMS_AT(80), WGMMA_SUMS_AT(96), WGMMA_SUMS_AT(112)

/* d[64 x N] += a[64 x 16] b[N x 16]^T, a in registers: those of m16n8k16 for the 16 rows of each warp. d: rows
 * g and g + 8 of a warp's 16, columns 8 i + 2 t and the next. */
template <int N> __device__ __forceinline__ void wgmma_weights(float *d, const uint32_t a[4], uint64_t b);

template <> __device__ __forceinline__ void wgmma_weights<32>(float *d, const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {" WGMMA_NAMES_16
                 "}, {%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
                 : WGMMA_SUMS_16
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_weights<64>(float *d, const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" WGMMA_NAMES_32
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : WGMMA_SUMS_32
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_weights<128>(float *d, const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WGMMA_NAMES_64
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
                 : WGMMA_SUMS_64
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_weights<256>(float *d, const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" WGMMA_NAMES_128
                 "}, {%128, %129, %130, %131}, %132, 1, 1, 1, 0;"
                 : WGMMA_SUMS_128
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* d[64 x 128] (+)= a[64 x 16] b[16 x 128], b with its columns side by side. d as in wgmma_weights. */
__device__ __forceinline__ void wgmma_scores(float d[64], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WGMMA_NAMES_64 "}, %64, %65, p, 1, 1, 0, 1;\n}"
                 : WGMMA_SUMS_64
                 : "l"(a), "l"(b), "r"(add));
}

/* d[64 x N] += a[64 x 16] b[16 x N], a in registers, b with its columns side by side. */
template <int N> __device__ __forceinline__ void wgmma_mix(float *d, const uint32_t a[4], uint64_t b);

template <> __device__ __forceinline__ void wgmma_mix<64>(float *d, const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" WGMMA_NAMES_32
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : WGMMA_SUMS_32
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_mix<128>(float *d, const uint32_t a[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WGMMA_NAMES_64
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : WGMMA_SUMS_64
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* ---- the shared memory of a cluster ---- */

/* 16 bytes at the same place of block `rank`'s shared memory. */
__device__ __forceinline__ float4 load_cluster16(uint32_t at, uint32_t rank) {
    float4 v;
    asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [r];\n}"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at), "r"(rank)
                 : "memory");
    return v;
}

/* What this thread has written to shared memory may be read by products and copies in bulk. */
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* ---- copies ---- */

__device__ __forceinline__ void copy_bulk(uint32_t to, const void *from, int bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
/* To the same place of all blocks in `mask`, each of whose barriers hears of it. */
__device__ __forceinline__ void copy_bulk_to(uint32_t to, const void *from, int bytes, uint32_t barrier,
                                             uint16_t mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
                 "[%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"(mask)
                 : "memory");
}
/* Out of shared memory, which is free again behind the thread's cp.async.bulk.wait_group.read. */
__device__ __forceinline__ void copy_bulk_out(void *to, uint32_t from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
template <int N> __device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
#endif

#endif
