/* cuda_fail_test.c — when the GPU or its driver fails: clear errors, nothing lost, on the emulated GPU.
 *
 * Each call of the driver is made to fail in turn while a device is opened and used; what was taken is counted. */
#include "cuda_harness.h"
#include "base/mem.h"
#include <dlfcn.h>

enum { ILLEGAL_ADDRESS = 700, OUT_OF_MEMORY = 2 };

typedef struct emulator {
    char path[4096];
    void *library; /* kept open, so that its counters last */
    void (*inject)(const char *function, int after, int result);
    int64_t (*live)(void);
} emulator;

static emulator open_emulator(void) {
    emulator e;
    if (!cuda_emulated_path(e.path, sizeof e.path)) HARNESS_SKIP("no C++ compiler for the emulated GPU");
    e.library = dlopen(e.path, RTLD_NOW);
    assert_non_null(e.library);
    *(void **)&e.inject = dlsym(e.library, "emulate_fail");
    *(void **)&e.live = dlsym(e.library, "emulate_live");
    assert_int_equal(e.live(), 0);
    return e;
}

static void close_emulator(emulator *e) {
    e->inject(NULL, 0, 0);
    assert_int_equal(e->live(), 0);
    dlclose(e->library);
}

static device *open_device(const emulator *e) {
    const dev_options one = cuda_test_options(1, false);
    device *d;
    qp_error err;
    if (cuda_open_from(&d, e->path, &one, &err) != QP_OK) fail_msg("%s", err.text);
    return d;
}

/* Enough launches for a graph: row `id` of the table, doubled again and again. */
enum { DOUBLINGS = 16 };
static int n_begun; /* steps that had been written down */

static void ask_step(device *d, const dev_weight *table, float *x, int32_t id) {
    const embed_args row = {.ids = &id, .n_rows = 1, .table = table, .out = x, .scale = 1};
    const limit_args doubled = {.x = x, .n_rows = 1, .dim = (int)table->n_in, .scale = 2};
    d->ops->embed(d, &row);
    for (int i = 0; i < DOUBLINGS; i++) d->ops->limit(d, &doubled);
}

/* Steps of which each is written down while the one before it computes. */
static qp_status live_ahead(device *d, const dev_weight *table, const uint16_t *weights, float *x, qp_error *err) {
    uint64_t name = 0;
    for (int32_t id = 0; id < 5; id++) {
        float first = 0;
        const bool has_begun = name && d->ops->proceed(d, name, &id, 1);
        n_begun += has_begun;
        if (!has_begun) ask_step(d, table, x, id);
        name = d->ops->expect(d);
        if (name) {
            ask_step(d, table, x, -1);
            d->ops->expected(d);
        }
        d->ops->download(d, &first, x, sizeof first);
        ERR_TRY(d->ops->finish(d, err));
        const float right = quant_bf16_to_f32(weights[id * table->n_in]) * (float)(1 << DOUBLINGS);
        if (first != right) fail_msg("step %d: %g, not %g", id, (double)first, (double)right);
    }
    return QP_OK;
}

/* A short life: weights, room, a step, logits. Returns the first failure. */
static qp_status live(device *d, qp_error *err) {
    enum { IN = 40, OUT = 24 };
    uint16_t weights[IN * OUT];
    float x[IN], out[OUT], expected = 0;
    for (int i = 0; i < IN * OUT; i++) weights[i] = quant_f32_to_bf16((float)(i % 7 - 3));
    for (int i = 0; i < IN; i++) x[i] = (float)(i % 5 - 2);
    for (int i = 0; i < IN; i++) expected += x[i] * (float)(i % 7 - 3);
    const quant_matrix m = quant_plain(quant_type_of(QUANT_BF16), OUT, IN, weights, sizeof weights);
    dev_weight w = {0};
    void *in = NULL, *result = NULL;
    qp_status status = d->ops->weight_open(d, &w, &m, err);
    if (status == QP_OK) status = d->ops->weight_pack(d, &w, err);
    if (status == QP_OK) status = d->ops->reserve(d, 4, IN, err);
    if (status == QP_OK) status = d->ops->take(d, &in, sizeof x, err);
    if (status == QP_OK) status = d->ops->take(d, &result, sizeof out, err);
    for (int turn = 0; turn < 2 && status == QP_OK; turn++) {
        d->ops->upload(d, in, x, sizeof x);
        d->ops->matmul(d, &(matmul_args){.x = in,
                                         .x_stride = IN,
                                         .n_rows = 1,
                                         .n_parts = 1,
                                         .parts = {{.w = &w, .out = result, .out_stride = OUT}}});
        d->ops->download(d, out, result, sizeof out);
        status = d->ops->finish(d, err);
        if (status == QP_OK && out[0] != expected)
            fail_msg("turn %d: %g, not %g", turn, (double)out[0], (double)expected);
    }
    if (status == QP_OK) status = live_ahead(d, &w, weights, in, err);
    if (in) d->ops->give(d, in, sizeof x);
    if (result) d->ops->give(d, result, sizeof out);
    if (w.type) d->ops->weight_close(d, &w);
    return status;
}

/* Every call of the driver fails once; whatever comes of it is said and given back. */
static void every_call_may_fail(void **state) {
    static const int results[] = {OUT_OF_MEMORY, ILLEGAL_ADDRESS};
    const dev_options one = cuda_test_options(1, false);
    emulator e = open_emulator();
    for (size_t r = 0; r < HARNESS_COUNT(results); r++) {
        bool went_well = false;
        for (int after = 0; !went_well; after++) {
            device *d = NULL;
            qp_error err = {0};
            assert_in_range(after, 0, 10000); /* each kernel is looked up by calls of its own, one for each image */
            n_begun = 0;
            e.inject("any", after, results[r]);
            qp_status status = cuda_open_from(&d, e.path, &one, &err);
            if (status == QP_OK) status = live(d, &err);
            went_well = status == QP_OK;
            if (!went_well && !strstr(err.text, "cuda")) fail_msg("'%s'", err.text);
            assert_true(went_well || err.code == status);
            e.inject(NULL, 0, 0);
            dev_close(d);
            assert_int_equal(e.live(), 0);
        }
        assert_true(n_begun > 1);
    }
    close_emulator(&e);
}

static void short_of_host_memory(void **state) {
    const dev_options one = cuda_test_options(1, false);
    emulator e = open_emulator();
    bool went_well = false;
    for (int64_t n = 0; !went_well; n++) {
        device *d = NULL;
        qp_error err = {0};
        assert_in_range(n, 0, 200);
        mem_fail_after(n);
        qp_status status = cuda_open_from(&d, e.path, &one, &err);
        if (status == QP_OK) status = live(d, &err);
        mem_fail_after(-1);
        went_well = status == QP_OK;
        assert_true(went_well || status == QP_NO_MEMORY);
        dev_close(d);
        assert_int_equal(e.live(), 0);
    }
    close_emulator(&e);
}

/* A full GPU: an error with the numbers; what is there goes on working. */
static void no_memory_is_no_end(void **state) {
    emulator e = open_emulator();
    device *d = open_device(&e);
    qp_error err;
    void *memory = &err;
    e.inject("cuMemAlloc_v2", 0, OUT_OF_MEMORY);
    assert_int_equal(d->ops->take(d, &memory, 1 << 20, &err), QP_NO_MEMORY);
    assert_null(memory);
    if (!strstr(err.text, "1.0 MiB asked for")) fail_msg("%s", err.text);
    e.inject(NULL, 0, 0);
    assert_int_equal(live(d, &err), QP_OK);
    dev_close(d);
    close_emulator(&e);
}

/* A fault of a kernel ends the context: the same text from then on; a new device works. */
static void a_fault_is_for_good(void **state) {
    emulator e = open_emulator();
    device *d = open_device(&e);
    qp_error err;
    e.inject("cuStreamSynchronize", 2, ILLEGAL_ADDRESS); /* of the step, not of packing and memory */
    assert_int_equal(live(d, &err), QP_INTERNAL);
    e.inject(NULL, 0, 0);
    for (int i = 0; i < 2; i++) {
        err = (qp_error){0};
        assert_int_equal(d->ops->finish(d, &err), QP_INTERNAL);
        if (!strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS")) fail_msg("%s", err.text);
    }
    dev_close(d);
    d = open_device(&e);
    assert_int_equal(live(d, &err), QP_OK);
    dev_close(d);
    close_emulator(&e);
}

static void names_are_checked(void **state) {
    emulator e = open_emulator();
    static const struct {
        const char *kind, *text;
    } wrong[] = {{"cuda:", "allowed are cuda and cuda:0"},     {"cuda:x", "allowed are cuda and cuda:0"},
                 {"cuda:1x", "allowed are cuda and cuda:0"},   {"cuda:-1", "allowed are cuda and cuda:0"},
                 {"cuda:1024", "allowed are cuda and cuda:0"}, {"cuda:7", "this machine has cuda:0 to cuda:1"}};
    for (size_t i = 0; i < HARNESS_COUNT(wrong); i++) {
        device *d;
        qp_error err;
        dev_options o = cuda_test_options(1, false);
        o.kind = wrong[i].kind;
        assert_int_equal(cuda_open_from(&d, e.path, &o, &err), QP_BAD_ARGUMENT);
        assert_null(d);
        if (!strstr(err.text, wrong[i].text)) fail_msg("%s: %s", wrong[i].kind, err.text);
    }
    close_emulator(&e);
}

static void a_driver_that_is_not_there(void **state) {
    const dev_options o = cuda_test_options(1, false);
    device *d;
    qp_error err;
    assert_int_equal(cuda_open_from(&d, "/nowhere/libcuda.so", &o, &err), QP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no driver library"));
    assert_int_equal(cuda_open_from(&d, "libm.so.6", &o, &err), QP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "has no cuInit"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail), cmocka_unit_test(short_of_host_memory),
        cmocka_unit_test(no_memory_is_no_end), cmocka_unit_test(a_fault_is_for_good),
        cmocka_unit_test(names_are_checked),   cmocka_unit_test(a_driver_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
