/* cuda_both.h — ops on the CUDA device and on the plain C of `ref`: memory on both sides, and what is compared.
 *
 * on_each runs a test on the GPU where there is one, and always on emulated ones (tests/cuda/emulate.cpp), whose memory
 * is as long as what was asked for: under the address sanitizer, kernels are checked too. An old one has the general
 * kernels alone, a new one those for decoding as well. */
#ifndef CUDA_BOTH_H
#define CUDA_BOTH_H

#include "base/mem.h"
#include "base/rng.h"
#include "cuda_harness.h"
#include "dev/cpu/cpu_open.h"
#include "dev/cuda/cuda.h"
#include <math.h>

/* The device under test and the one that is right. */
typedef struct bench {
    device *gpu, *ref;
    bool is_emulated; /* slow: what is only repeated is left out */
} bench;

static inline float *random_floats(size_t n, double size, uint64_t seed) {
    float *values = mem_array(n, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++) values[i] = (float)((rng_uniform(seed, 1, i) * 2 - 1) * size);
    return values;
}

/* ---- memory on both sides ---- */

/* What lies on the device, and how long it is. */
typedef struct there {
    device *d;
    void *at;
    size_t bytes;
} there;

/* from NULL: whatever is there. */
static inline there put(device *d, const void *from, size_t bytes) {
    there t = {d, NULL, bytes};
    qp_error err;
    if (d->ops->take(d, &t.at, bytes, &err) != QP_OK) fail_msg("%s", err.text);
    if (from) d->ops->upload(d, t.at, from, bytes);
    return t;
}
static inline void drop(const there *t) { t->d->ops->give(t->d, t->at, t->bytes); }

static inline void *get(device *d, const void *from, size_t bytes) {
    void *here = mem_array(bytes, 1);
    qp_error err = {0};
    assert_non_null(here);
    d->ops->download(d, here, from, bytes);
    if (d->ops->finish(d, &err) != QP_OK) fail_msg("%s", err.text);
    return here;
}

/* `fast` on a GPU has kernels of its own for many rows of whole numbers and for prompts over half-precision caches:
 * there a row's bits do depend on how many there are (docs/design.md), and results are near. */
static inline bool is_bitwise(const bench *b) { return b->gpu->exact || ((const cuda_device *)b->gpu)->gpu.major < 8; }

static inline void compare(const bench *b, const char *what, const float *got, const float *expected, size_t n,
                           double near, double far) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - expected[i]) <= near + far * fabs((double)expected[i])))
            fail_msg("%s, %s%s, element %zu: %.9g, not %.9g", what, b->gpu->name, b->gpu->exact ? " exact" : "", i,
                     (double)got[i], (double)expected[i]);
}

/* Both results of an op, downloaded and compared; frees them. */
static inline void settle(const bench *b, const char *what, there gpu, there ref, double near, double far) {
    float *got = get(gpu.d, gpu.at, gpu.bytes), *expected = get(ref.d, ref.at, ref.bytes);
    compare(b, what, got, expected, gpu.bytes / sizeof *got, near, far);
    mem_free(got);
    mem_free(expected);
    drop(&gpu);
    drop(&ref);
}

/* ---- all of it, on each device, exact and fast ---- */

/* What a device reserves room for: rows of a step, and inputs. */
typedef struct reserved {
    int rows, inputs;
} reserved;

static inline bench open_bench(const char *library, bool exact, reserved gpu, reserved ref) {
    bench b = {.is_emulated = library};
    qp_error err;
    const dev_options tested = cuda_test_options(2, exact);
    dev_options right = cuda_test_options(1, true);
    right.cpu_level = "ref";
    if (cuda_open_from(&b.gpu, library, &tested, &err) != QP_OK || cpu_open(&b.ref, &right, &err) != QP_OK ||
        b.gpu->ops->reserve(b.gpu, gpu.rows, gpu.inputs, &err) != QP_OK ||
        b.ref->ops->reserve(b.ref, ref.rows, ref.inputs, &err) != QP_OK)
        fail_msg("%s", err.text);
    return b;
}
static inline void close_bench(const bench *b) {
    dev_close(b->gpu);
    dev_close(b->ref);
}

/* What differs between devices: exact or fast is a matter of products, a new GPU has kernels of its own for some. */
enum { ALIKE = 0, MULTIPLIES = 1, HAS_FAST = 2 };

static inline void on_each(void (*test)(const bench *b), unsigned what) {
    static const struct on {
        bool is_emulated, exact;
        const char *kind; /* of emulated ones */
    } devices[] = {{false, false, NULL}, {false, true, NULL},    {true, false, NULL},
                   {true, true, NULL},   {true, false, "9 4 1"}, {true, false, "9 5 2"}};
    const reserved room = {80, 1100};
    char emulated[4096];
    const bool has_emulated = cuda_emulated_path(emulated, sizeof emulated), has_gpu = cuda_has_gpu();
    if (!has_emulated && !has_gpu) HARNESS_SKIP("neither a GPU nor a C++ compiler for the emulated one");
    for (size_t i = 0; i < HARNESS_COUNT(devices); i++) {
        const struct on *on = &devices[i];
        if (on->is_emulated ? !has_emulated : !has_gpu) continue;
        if (on->is_emulated && ((on->exact && !(what & MULTIPLIES)) || (on->kind && !(what & HAS_FAST)))) continue;
        cuda_emulate(on->kind);
        const bench b = open_bench(on->is_emulated ? emulated : NULL, on->exact, room, room);
        test(&b);
        close_bench(&b);
    }
    cuda_emulate(NULL);
}

/* A test of cmocka's that runs `name` so. */
#define ON_EACH(name, what)                                                                                            \
    static void test_##name(void **state) { on_each(name, what); }

#endif
