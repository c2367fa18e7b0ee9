/* api_device.c — what the machine has, and how fast it can be at best. */
#include "quipu.h"
#include "base/cpuid.h"
#include "base/err.h"
#include "base/mem.h"
#include "dev/dev.h"
#include "handles.h"
#include <jansson.h>
#include <stdio.h>

static const struct {
    const char *name;
    size_t offset;
} features[] = {
#define X(name) {#name, offsetof(cpu_features, name)},
    X(sse42) X(avx) X(f16c) X(fma) X(avx2) X(bmi2) X(gfni) X(avxvnni) X(avx512f) X(avx512bw) X(avx512dq) X(avx512vl)
        X(avx512vbmi) X(avx512vnni) X(avx512bf16) X(avx512fp16) X(amx_tile) X(amx_bf16) X(amx_int8) X(amx_fp16) X(neon)
            X(dotprod) X(i8mm) X(bf16)
#undef X
};

static json_t *list_features(const cpu_features *f) {
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (*(const bool *)((const char *)f + features[i].offset))
            json_array_append_new(list, json_string(features[i].name));
    return list;
}

static json_t *list_levels(const char **best) {
    json_t *levels = json_array();
    const char *name;
    for (int i = 0; (name = dev_cpu_level(i)); i++) {
        const bool has = dev_cpu_level_available(name);
        if (has) *best = name;
        json_array_append_new(levels, json_pack("{s:s,s:b}", "name", name, "available", has));
    }
    return levels;
}

/* Every GPU, whether this build can use it and why not. */
static json_t *list_gpus(json_t *devices, const char **used) {
    dev_gpu gpu;
    qp_error why;
    for (int i = 0; dev_gpu_at(&gpu, i, &why) == QP_OK; i++) {
        char name[32], capability[32];
        snprintf(name, sizeof name, "cuda:%d", gpu.index);
        snprintf(capability, sizeof capability, "%d.%d", gpu.major, gpu.minor);
        if (!i && gpu.has_kernels) *used = "cuda";
        json_array_append_new(devices, json_pack("{s:s,s:s,s:s,s:s,s:i,s:I,s:b,s:s}", "kind", "cuda", "device", name,
                                                 "model", gpu.name, "compute_capability", capability, "multiprocessors",
                                                 gpu.multiprocessors, "memory_bytes", (json_int_t)gpu.memory_bytes,
                                                 "usable", gpu.has_kernels, "built_for", gpu.built_for));
    }
    json_t *about = json_pack("{s:b,s:s}", "built", gpu.has_kernels, "built_for", gpu.built_for);
    if (why.code != QP_NO_FILE) json_object_set_new(about, "why_none", json_string(why.text));
    return about;
}

qp_status qp_devices_json(char **json, qp_error *err) {
    cpu_features f;
    const char *best = "ref";
    cpu_detect(&f);
    json_t *levels = list_levels(&best);
    json_t *cpu =
        json_pack("{s:s,s:s,s:s,s:o,s:o,s:s,s:i,s:i,s:I}", "kind", "cpu", "model", f.model, "vendor", f.vendor,
                  "features", list_features(&f), "levels", levels, "level_used", best, "logical_cpus", cpu_usable(),
                  "cores_used", cpu_usable_cores(), "memory_bytes", (json_int_t)cpu_memory_bytes());
    json_t *devices = json_pack("[o]", cpu);
    const char *used = "cpu";
    json_t *cuda = list_gpus(devices, &used);
    json_t *all = json_pack("{s:o,s:s,s:o}", "devices", devices, "used", used, "cuda", cuda);
    char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    json_decref(all);
    *json = text ? mem_copy_text(text, strlen(text)) : NULL;
    free(text);
    return *json ? QP_OK : err_no_memory(err, 0, "the list of devices");
}

static qp_status read_options(const qp_measure_options *given, dev_measure_options *out, qp_error *err) {
    API_OPTIONS(qp_measure_options, o, given);
    *out = (dev_measure_options){o.cpu_level, o.threads, o.seconds > 0 ? o.seconds : 1};
    if (o.threads < 0 || o.threads > 1024)
        return err_set(err, QP_BAD_ARGUMENT, 0, "threads is %d, allowed are 0 (all cores) to 1024", o.threads);
    if (!(o.seconds >= 0 && o.seconds <= 600))
        return err_set(err, QP_BAD_ARGUMENT, 0, "seconds is %g, allowed are 0 to 600", o.seconds);
    return QP_OK;
}

qp_status qp_measure_bandwidth(qp_measure *out, const qp_measure_options *options, qp_error *err) {
    dev_measure_options o;
    ERR_TRY(read_options(options, &o, err));
    return dev_measure_bandwidth(out, &o, err);
}

qp_status qp_measure_compute(qp_measure *out, int capacity, int *count, const qp_measure_options *options,
                             qp_error *err) {
    dev_measure_options o;
    ERR_TRY(read_options(options, &o, err));
    return dev_measure_compute(out, capacity, count, &o, err);
}
