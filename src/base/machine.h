/* machine.h — how much of the machine this process may use: cores, CPU quota and memory.
 *
 * cpuid.c asks with root "" and the process's affinity mask; tests ask with the root of a made-up tree of /proc and
 * /sys. What cannot be read sets no limit: these are hints for sizes, never errors. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MACHINE_CPUS = 8192 };

/* A set of logical CPUs; the layout is that of the kernel's affinity masks on little-endian machines. */
typedef struct machine_set {
    uint64_t bits[MACHINE_CPUS / 64];
} machine_set;

static inline bool machine_has(const machine_set *set, int cpu) { return set->bits[cpu / 64] >> (cpu % 64) & 1; }
static inline void machine_add(machine_set *set, int cpu) { set->bits[cpu / 64] |= (uint64_t)1 << (cpu % 64); }
static inline void machine_drop(machine_set *set, int cpu) { set->bits[cpu / 64] &= ~((uint64_t)1 << (cpu % 64)); }
int machine_count(const machine_set *set);

/* Reads the kernel's list form, "0-3,8,10-11"; false if it is not one or names a CPU beyond MACHINE_CPUS. */
bool machine_parse_list(machine_set *out, const char *text);

/* Whole CPUs that the strictest cgroup above this process grants (v1 and v2), rounded down, at least 1; INT32_MAX
 * where there is no quota. */
int machine_quota(const char *root);
/* Writes one CPU per physical core of `allowed`, ascending; returns how many cores there are, which may exceed
 * `capacity`. */
int machine_cores(const char *root, const machine_set *allowed, int *cpus, int capacity);
/* Bytes of memory: of the machine or of the strictest cgroup, whichever is less; 0 if nothing can be read. */
size_t machine_memory(const char *root);

#endif
