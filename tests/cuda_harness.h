/* cuda_harness.h — where tests find a CUDA device: the machine's GPU, and the emulated one beside the test program. */
#ifndef CUDA_HARNESS_H
#define CUDA_HARNESS_H

#include "dev/cuda/cuda_open.h"
#include "dev/dev.h"
#include "harness.h"

/* The library that tests/cuda/emulate.cpp becomes; false where there was no C++ compiler. */
static inline bool cuda_emulated_path(char *out, size_t capacity) {
    const ssize_t n = readlink("/proc/self/exe", out, capacity - 32);
    if (n <= 0) return false;
    out[n] = '\0';
    strcpy(strrchr(out, '/') + 1, "cuda_emulated.so");
    return access(out, R_OK) == 0;
}

/* The emulated GPU is what `kind` says (tests/cuda/emulate.cpp) from its next opening on; NULL: an old one, which has
 * the general kernels alone. */
static inline void cuda_emulate(const char *kind) {
    if (kind)
        setenv("EMULATE_GPU", kind, 1);
    else
        unsetenv("EMULATE_GPU");
}

/* Options of a device whose work is done by so many workers; tests that name them run under the thread sanitizer, which
 * does not know the emulated GPU's coroutines. */
static inline dev_options cuda_test_options(int workers, bool exact) {
    return (dev_options){.threads = workers, .exact = exact};
}

/* Memory that a device takes when it is opened, besides what is planned: its queue's tables, ids of a digest. */
enum { CUDA_OPEN_BYTES = (4 << 20) + 512 };

static inline bool cuda_has_gpu(void) {
    device *d;
    qp_error why;
    if (cuda_open(&d, &(dev_options){0}, &why) != QP_OK) return false;
    dev_close(d);
    return true;
}

#endif
