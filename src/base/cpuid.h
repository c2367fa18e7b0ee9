/* cpuid.h — what this processor can do and how much of it we may use. */
#ifndef BASE_CPUID_H
#define BASE_CPUID_H

#include "machine.h"

/* A feature is true only if the operating system saves its registers too (and, for AMX, grants tile data). */
typedef struct cpu_features {
    char vendor[16], model[64];
    bool sse42, avx, f16c, fma, avx2, bmi2, gfni;
    bool avx512f, avx512bw, avx512dq, avx512vl, avx512vbmi, avx512vnni, avx512bf16, avx512fp16, avxvnni;
    bool amx_tile, amx_bf16, amx_int8, amx_fp16;
    bool neon, dotprod, i8mm, bf16; /* ARM */
} cpu_features;

/* Reads the processor; asks Linux for AMX tile data where there is AMX. */
void cpu_detect(cpu_features *out);
/* Logical CPUs this process may run on: affinity mask, then the cgroup's quota (v1 and v2), at least 1. */
int cpu_usable(void);
/* The same counted in physical cores. */
int cpu_usable_cores(void);
/* Writes one allowed logical CPU per physical core, ascending; returns how many cores there are (affinity only, no
 * quota), which may exceed `capacity`. For binding threads. */
int cpu_core_list(int *cpus, int capacity);
/* The CPUs that this thread may run on. */
void cpu_affinity(machine_set *out);
/* Keeps this thread to them; false: refused, it stays where it may be now. */
bool cpu_keep_to(const machine_set *cpus);
/* Bytes of memory of the machine or the cgroup's limit, whichever is less. */
size_t cpu_memory_bytes(void);

#endif
