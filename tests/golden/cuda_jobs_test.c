/* cuda_jobs_test.c — a generator on a GPU: its plan of memory is kept, steps take no memory, and jobs get the tokens
 * that they get alone, whoever is cancelled beside them.
 *
 * On the machine's GPU, else on the emulated one, whose driver counts what is taken. The argument is the number of jobs
 * (default: few, as the emulated GPU is slow): on a GPU, `cuda_jobs_test 20000`. */
#include "cuda_harness.h"
#include "jobs_alone.h"
#include "model/model.h"
#include "gen/seq.h"
#include <quipu.h>
#include "base/rng.h"
#include <dlfcn.h>

enum { KINDS = 6, MOST_NEW = 4, MOST_AT_ONCE = 12, PAGES = 16 };

static int n_jobs = 12;

/* Counters of the emulated driver; NULL where a GPU is used. */
static struct {
    void *library;
    void (*memory)(size_t bytes);
    int64_t (*times_taken)(void), (*live)(void);
    size_t (*most_taken)(void);
} emulator;

static void *function_of(const char *name) {
    void *const at = dlsym(emulator.library, name);
    assert_non_null(at);
    return at;
}

/* Its name inside is the driver's, so that whoever opens that finds it. */
static bool find_gpu(void) {
    char path[4096];
    if (cuda_has_gpu()) return true;
    if (!cuda_emulated_path(path, sizeof path)) return false;
    emulator.library = dlopen(path, RTLD_NOW);
    assert_non_null(emulator.library);
    *(void **)&emulator.memory = function_of("emulate_memory");
    *(void **)&emulator.times_taken = function_of("emulate_times_taken");
    *(void **)&emulator.most_taken = function_of("emulate_most_taken");
    *(void **)&emulator.live = function_of("emulate_live");
    return true;
}

/* ---- the plan ---- */

static void the_plan_is_kept(void **state) {
    static const char *const formats[] = {"bf16", "f32", "q4_0", "exl2-3.0", "fp8_e4m3"};
    if (!emulator.library) HARNESS_SKIP("a GPU's driver does not say what was taken");
    for (size_t i = 0; i < 2 * HARNESS_COUNT(formats); i++) {
        model_options o = {.device = cuda_test_options(1, i % 2)};
        o.device.kind = "cuda";
        model *m;
        qp_error err;
        emulator.memory((size_t)1 << 30);
        if (model_synthesize(&m, "tiny", formats[i / 2], 7, &o, &err) != QP_OK) fail_msg("%s", err.text);
        const uint64_t planned = m->memory[0].weights + m->memory[0].scratch;
        if (emulator.most_taken() > planned + CUDA_OPEN_BYTES || emulator.most_taken() < planned / 10 * 9)
            fail_msg("%s: %zu bytes taken, %llu planned", formats[i / 2], emulator.most_taken(),
                     (unsigned long long)planned);
        model_close(m);
        assert_int_equal(emulator.live(), 0);
    }
}

/* FP8 is not for a GPU that has the general kernels alone, nor where sums shall be float32's. */
static void what_is_unpacked_is_told(void **state) {
    static const struct {
        const char *gpu;
        bool exact;
        quant_id as;
        int element; /* bytes; 0: it stays as it is */
    } cases[] = {{NULL, false, QUANT_F16, 2}, {"9 4 1", true, QUANT_F32, 4}, {"9 4 1", false, QUANT_F32, 0}};
    const uint64_t all_scales = 2 * 7 * sizeof(float);
    if (!emulator.library) HARNESS_SKIP("what a GPU has is not to be chosen");
    emulator.memory((size_t)1 << 30);
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        model_options o = {.device = cuda_test_options(1, cases[i].exact)};
        o.device.kind = "cuda";
        model *m;
        qp_error err;
        cuda_emulate(cases[i].gpu);
        if (model_synthesize(&m, "tiny", "fp8_e4m3", 7, &o, &err) != QP_OK) fail_msg("%s", err.text);
        for (quant_id id = 0; id < QUANT_COUNT; id++) {
            const memory_unpacked *of = &m->unpacked[id];
            const bool is = id == QUANT_FP8_E4M3 && cases[i].element;
            assert_int_equal(of->bytes, is ? (of->file_bytes - all_scales) * (uint64_t)cases[i].element : 0);
            assert_int_equal(of->file_bytes > 0, is);
            if (is) assert_int_equal(of->as, cases[i].as);
        }
        model_close(m);
    }
    cuda_emulate(NULL);
}

/* From the least memory that does to none: refused before anything is loaded, in words. */
static void too_little_is_said_first(void **state) {
    model_options o = {.device = cuda_test_options(1, false)};
    o.device.kind = "cuda";
    if (!emulator.library) HARNESS_SKIP("a GPU's memory stays what it is");
    bool fits = false;
    for (size_t mib = 8; !fits; mib += 8) {
        model *m;
        qp_error err;
        assert_in_range(mib, 8, 256);
        emulator.memory(mib << 20);
        fits = model_synthesize(&m, "tiny", "bf16", 7, &o, &err) == QP_OK;
        if (!fits && (err.code != QP_NO_MEMORY || !strstr(err.text, "the model does not fit on cuda:0: weights")))
            fail_msg("%zu MiB: %s", mib, err.text);
        if (!fits) assert_in_range(emulator.times_taken(), 0, 4); /* tables of launches */
        model_close(m);
        assert_int_equal(emulator.live(), 0);
    }
    emulator.memory((size_t)1 << 30);
}

/* How many pieces of memory a generator with a cache of so many pages takes. */
static int64_t pieces_beside(qp_model *m, uint64_t pages) {
    const qp_generator_options g = {.size = sizeof g, .cache_tokens = pages * DEV_PAGE_TOKENS};
    const int64_t before = emulator.live();
    qp_generator *gen;
    qp_error err;
    if (qp_generator_new(&gen, m, &g, &err) != QP_OK) fail_msg("%llu pages: %s", (unsigned long long)pages, err.text);
    const int64_t pieces = emulator.live() - before;
    qp_generator_free(gen);
    return pieces;
}

/* A cache of as much as the plan says leaves room for what a generator takes beside it; a larger one is made, too. */
static void the_planned_cache_leaves_the_reserve(void **state) {
    const qp_model_options o = {.size = sizeof o, .device = "cuda", .precision = QP_PRECISION_FAST};
    model_options inner = {.device = cuda_test_options(1, false), .plan_only = true};
    inner.device.kind = "cuda";
    if (!emulator.library) HARNESS_SKIP("a GPU's driver does not say what was taken");
    emulator.memory((size_t)96 << 20);
    model *planned;
    qp_model *m;
    qp_error err;
    size_t page;
    if (model_synthesize(&planned, "tiny", "bf16", 7, &inner, &err) != QP_OK) fail_msg("%s", err.text);
    const store_shape shape = seq_store_shape(&planned->shape, KV_F16);
    assert_true(store_page_bytes(&shape, &page));
    const uint64_t pages = memory_plan_pages(planned->memory, &planned->split, page),
                   reserve = planned->memory[0].reserve / page;
    assert_true(reserve > 1);
    model_close(planned);
    if (qp_model_synthesize(&m, "tiny", "bf16", 7, &o, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(pieces_beside(m, pages), pieces_beside(m, 1));
    assert_true(pieces_beside(m, pages + reserve) < pieces_beside(m, 1));
    qp_model_close(m);
    emulator.memory((size_t)1 << 30);
}

/* ---- jobs ---- */

static qp_job *start(qp_generator *gen, const alone *k, size_t index) {
    return alone_start(
        gen, k,
        (qp_job_options){.max_new_tokens = MOST_NEW,
                         .sampling = {.temperature = index % 3 ? 0.9F : 0, .top_p = 0.9F, .seed = index}});
}

static void read_job(qp_job *from, alone *k, bool is_first) {
    alone_read(from, k, is_first);
    assert_true(k->n_tokens <= MOST_NEW);
}

static void run_many(qp_generator *gen, alone *kinds, uint64_t seed) {
    qp_job *jobs[MOST_AT_ONCE];
    size_t which[MOST_AT_ONCE];
    for (int done = 0; done < n_jobs; done += MOST_AT_ONCE) {
        for (size_t i = 0; i < MOST_AT_ONCE; i++) {
            which[i] = (size_t)(rng_uniform(seed, 2, (uint64_t)done + i) * KINDS);
            jobs[i] = start(gen, &kinds[which[i]], which[i]);
            if (i && rng_uniform(seed, 3, (uint64_t)done + i) < 0.3F) qp_job_cancel(jobs[i / 2]);
        }
        for (size_t i = 0; i < MOST_AT_ONCE; i++) read_job(jobs[i], &kinds[which[i]], false);
    }
}

static void jobs_are_as_if_alone_in(const char *format, qp_precision precision) {
    const qp_model_options o = {.size = sizeof o, .device = "cuda", .precision = precision};
    const qp_generator_options g = {.size = sizeof g, .cache_tokens = PAGES * 256};
    qp_model *m;
    qp_generator *gen;
    qp_generator_stats stats;
    qp_error err;
    static alone kinds[KINDS];
    if (qp_model_synthesize(&m, "tiny", format, 3, &o, &err) != QP_OK) fail_msg("%s", err.text);
    if (qp_generator_new(&gen, m, &g, &err) != QP_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < KINDS; i++) {
        kinds[i].n_ids = 1 + i * 4;
        for (size_t k = 0; k < kinds[i].n_ids; k++) kinds[i].ids[k] = (int32_t)(rng_uniform(i / 2, 1, k) * 500);
        read_job(start(gen, &kinds[i], i), &kinds[i], true);
    }
    const int64_t taken = emulator.library ? emulator.times_taken() : 0;
    run_many(gen, kinds, 11);
    if (emulator.library) assert_int_equal(emulator.times_taken(), taken); /* a generator that runs takes nothing */
    do {
        qp_generator_get_stats(gen, &stats);
    } while (stats.jobs_running || stats.jobs_waiting);
    assert_int_equal(stats.pages_used, 0);
    qp_generator_free(gen);
    qp_model_close(m);
}

static void jobs_are_as_if_alone(void **state) {
    jobs_are_as_if_alone_in("bf16", QP_PRECISION_FAST);
    jobs_are_as_if_alone_in("q4_0", QP_PRECISION_EXACT);
    if (emulator.library) assert_int_equal(emulator.live(), 0);
}

int main(int argc, char **argv) {
    if (!find_gpu()) return puts("SKIP: no GPU, and no C++ compiler for an emulated one"), 77;
    if (argc > 1) n_jobs = atoi(argv[1]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_plan_is_kept), cmocka_unit_test(what_is_unpacked_is_told),
                                       cmocka_unit_test(too_little_is_said_first),
                                       cmocka_unit_test(the_planned_cache_leaves_the_reserve),
                                       cmocka_unit_test(jobs_are_as_if_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
