/* drv.c — finds libcuda and its functions; turns its errors into ours.
 *
 * Called by cuda.c and by whoever lists devices. The library stays loaded until drv_close. The tricky thing is that a
 * missing library, a missing GPU and a broken driver are all normal: each is a reason why "auto" goes on without. */
#include "drv.h"
#include <dlfcn.h>
#include <string.h>

/* A pointer to a function out of a pointer to data, as POSIX promises for dlsym. */
static bool find(const drv *d, const char *symbol, void *slot) {
    void *const at = dlsym(d->library, symbol);
    memcpy(slot, &at, sizeof at);
    return at != NULL;
}

static const char *find_all(drv *d) {
#define X(name, symbol, arguments)                                                                                     \
    if (!find(d, #symbol, &d->name)) return #symbol;
    DRV_FUNCTIONS(X)
#undef X
    return NULL;
}

static qp_status start(drv *d, qp_error *err) {
    const char *missing = find_all(d);
    int count = 0;
    if (missing)
        return err_set(err, QP_UNSUPPORTED, 0, "cuda: the driver library has no %s, a newer driver is needed", missing);
    drv_result result = d->init(0);
    if (!result) result = d->device_count(&count);
    if (result && result != DRV_NO_DEVICE) {
        drv_failed(d, result, "cuda: the driver does not start", err);
        return err ? err->code = QP_UNSUPPORTED : QP_UNSUPPORTED;
    }
    return count > 0 ? QP_OK : err_set(err, QP_UNSUPPORTED, 0, "cuda: the driver finds no GPU");
}

qp_status drv_open(drv *out, const char *path, qp_error *err) {
    *out = (drv){.library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!out->library) return err_set(err, QP_UNSUPPORTED, 0, "cuda: no driver library (libcuda.so.1)");
    out->has_kernels = dlsym(out->library, "quipu_has_kernels") != NULL;
    const qp_status status = start(out, err);
    if (status != QP_OK) drv_close(out);
    return status;
}

void drv_close(drv *d) {
    if (d->library) dlclose(d->library);
    *d = (drv){0};
}

qp_status drv_failed(const drv *d, drv_result result, const char *what, qp_error *err) {
    const char *name = NULL, *text = NULL;
    if (d->error_name(result, &name)) name = NULL;
    if (d->error_text(result, &text)) text = NULL;
    return err_set(err, result == DRV_OUT_OF_MEMORY ? QP_NO_MEMORY : QP_INTERNAL, 0, "%s: %s (%s)", what,
                   name ? name : "an unknown error", text ? text : "no description");
}

qp_status drv_describe(const drv *d, int index, drv_gpu *out, qp_error *err) {
    *out = (drv_gpu){0};
    drv_result result = d->device_get(&out->device, index);
    if (!result) result = d->device_name(out->name, (int)sizeof out->name, out->device);
    if (!result) result = d->device_memory(&out->memory_bytes, out->device);
    const struct {
        int attribute, *value;
    } asked[] = {{DRV_MAJOR, &out->major},
                 {DRV_MINOR, &out->minor},
                 {DRV_MULTIPROCESSORS, &out->multiprocessors},
                 {DRV_MOST_SHARED, &out->most_shared}};
    for (size_t i = 0; !result && i < sizeof asked / sizeof *asked; i++)
        result = d->device_attribute(asked[i].value, asked[i].attribute, out->device);
    return result ? drv_failed(d, result, "cuda: a GPU that does not tell what it is", err) : QP_OK;
}
