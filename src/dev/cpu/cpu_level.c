/* cpu_level.c — the instruction levels of the CPU device, one row each, and choosing one.
 *
 * Asked by cpu.c when a device opens, by the measurements, and by `devices`. A level is never taken unasked where it
 * is known to be slower than the one below: Intel's BF16 dot product has half the throughput of its float32
 * multiply-add, AMD's has twice. */
#include "cpu.h"
#include <string.h>
#include <unistd.h>

static bool has_all(const cpu_features *f) { return true; }
static bool is_amd(const cpu_features *f) { return !strcmp(f->vendor, "AuthenticAMD"); }
#if defined(__x86_64__)
static bool has_avx2(const cpu_features *f) { return f->avx2 && f->fma && f->f16c && f->bmi2; }
static bool has_avxvnni(const cpu_features *f) { return has_avx2(f) && f->avxvnni; }
static bool has_avx512(const cpu_features *f) {
    return has_avx2(f) && f->avx512f && f->avx512bw && f->avx512dq && f->avx512vl;
}
static bool has_avx512vnni(const cpu_features *f) { return has_avx512(f) && f->avx512vnni; }
static bool has_avx512bf16(const cpu_features *f) { return has_avx512(f) && f->avx512vbmi && f->avx512bf16; }
static bool has_amx(const cpu_features *f) { return has_avx512(f) && f->avx512bf16 && f->amx_tile && f->amx_bf16; }
static bool has_amxint8(const cpu_features *f) { return has_avx512vnni(f) && f->amx_tile && f->amx_int8 && f->gfni; }
#elif defined(__aarch64__)
static bool has_neon(const cpu_features *f) { return f->neon; }
static bool has_dotprod(const cpu_features *f) { return f->neon && f->dotprod; }
static bool has_i8mm(const cpu_features *f) { return has_dotprod(f) && f->i8mm; }
#endif

static const cpu_level levels[] = {
    {"ref", has_all, NULL, &cpu_matmul_ref, &cpu_row_ref, &cpu_attend_ref, NULL},
#if defined(__x86_64__)
    {"avx2", has_avx2, NULL, &cpu_matmul_avx2, &cpu_row_avx2, &cpu_attend_avx2, &cpu_quant_avx2},
    {"avxvnni", has_avxvnni, NULL, NULL, NULL, NULL, &cpu_quant_avxvnni},
    {"avx512", has_avx512, NULL, &cpu_matmul_avx512, &cpu_row_avx512, &cpu_attend_avx512, NULL},
    {"avx512vnni", has_avx512vnni, NULL, NULL, NULL, NULL, &cpu_quant_avx512vnni},
    {"avx512bf16", has_avx512bf16, is_amd, &cpu_matmul_avx512bf16, NULL, NULL, NULL},
    {"amx", has_amx, NULL, &cpu_matmul_amx, NULL, &cpu_attend_amx, &cpu_quant_amx},
    {"amxint8", has_amxint8, NULL, NULL, NULL, NULL, &cpu_quant_amxint8},
#elif defined(__aarch64__)
    {"neon", has_neon, NULL, &cpu_matmul_neon, &cpu_row_neon, &cpu_attend_neon, &cpu_quant_neon},
    {"dotprod", has_dotprod, NULL, NULL, NULL, NULL, &cpu_quant_dotprod},
    {"i8mm", has_i8mm, NULL, NULL, NULL, NULL, &cpu_quant_i8mm},
#endif
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

const cpu_level *cpu_level_at(int index) { return index >= 0 && index < N_LEVELS ? &levels[index] : NULL; }

const char *dev_cpu_level(int index) {
    const cpu_level *level = cpu_level_at(index);
    return level ? level->name : NULL;
}

static int find_named(const char *name) {
    for (int i = 0; i < N_LEVELS; i++)
        if (!strcmp(levels[i].name, name)) return i;
    return -1;
}

bool dev_cpu_level_available(const char *level) {
    const int i = find_named(level);
    cpu_features features;
    cpu_detect(&features);
    return i >= 0 && levels[i].usable(&features);
}

static qp_status not_there(const char *name, const cpu_features *features, qp_error *err) {
    char list[128] = "";
    for (int i = 0; i < N_LEVELS; i++)
        if (levels[i].usable(features)) {
            if (*list) strcat(list, ", ");
            strcat(list, levels[i].name);
        }
    return err_set(err, QP_BAD_ARGUMENT, 0, "cpu level: '%.40s' %s, this machine has: %s", name,
                   find_named(name) < 0 ? "is none" : "is not on this processor", list);
}

qp_status cpu_level_find(int *index, const char *name, const cpu_features *features, qp_error *err) {
    if (name) {
        *index = find_named(name);
        return *index >= 0 && levels[*index].usable(features) ? QP_OK : not_there(name, features, err);
    }
    *index = 0;
    for (int i = 0; i < N_LEVELS; i++)
        if (levels[i].usable(features) && (!levels[i].preferred || levels[i].preferred(features))) *index = i;
    return QP_OK;
}

/* The C library knows none on some processors. */
static size_t cache_bytes(int name) {
    const long bytes = sysconf(name);
    return bytes > 0 ? (size_t)bytes : 0;
}

/* Of AMD's, those since Zen 4 have AVX-512, those since Zen 5 AVX-VNNI. */
cpu_ways cpu_level_ways(const cpu_features *features) {
    enum { ZEN_5_AHEAD = 8192 };
    return (cpu_ways){.one_stream = is_amd(features) && has_avx512(features),
                      .ahead = is_amd(features) && features->avxvnni ? ZEN_5_AHEAD : 0,
                      .first_cache = cache_bytes(_SC_LEVEL1_DCACHE_SIZE),
                      .second_cache = cache_bytes(_SC_LEVEL2_CACHE_SIZE)};
}
