/* cpu_measure.h — what cpu_measure.c needs of each instruction set; one table per <isa>_measure.c. */
#ifndef DEV_CPU_CPU_MEASURE_H
#define DEV_CPU_CPU_MEASURE_H

#include "base/cpuid.h"
#include <stdint.h>

/* What products can be made of an instruction. */
typedef enum cpu_peak_for {
    CPU_PEAK_NONE,
    CPU_PEAK_FLOATS, /* of 16-bit weights: it keeps float32 sums or better */
    CPU_PEAK_WHOLE,  /* of weights that lie packed */
    CPU_PEAK_KINDS,
} cpu_peak_for;

/* One multiply-add instruction at its peak: independent chains out of registers. */
typedef struct cpu_peak {
    const char *name, *unit;
    bool (*usable)(const cpu_features *features); /* beyond what the level asks; NULL: always */
    cpu_peak_for is_for;
    double ops_per_turn;
    float (*run)(int64_t turns); /* answers something made of all results */
} cpu_peak;

enum { CPU_READ_STEP = 64 << 10, CPU_READS = 4 };

typedef uint64_t cpu_read_fn(const void *from, size_t bytes);

typedef struct cpu_measure_ops {
    const char *level;
    /* Ways to read memory, until NULL: the fastest is the limit. Each uses every byte; `bytes` is a multiple of
     * CPU_READ_STEP. */
    cpu_read_fn *reads[CPU_READS];
    const cpu_peak *peaks;
    int n_peaks;
} cpu_measure_ops;

extern const cpu_measure_ops cpu_measure_ref;
#if defined(__x86_64__)
extern const cpu_measure_ops cpu_measure_avx2, cpu_measure_avxvnni, cpu_measure_avx512, cpu_measure_avx512bf16,
    cpu_measure_amx;
#elif defined(__aarch64__)
extern const cpu_measure_ops cpu_measure_neon, cpu_measure_dotprod, cpu_measure_i8mm;
#endif

#endif
