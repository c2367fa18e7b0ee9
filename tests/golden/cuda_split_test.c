/* cuda_split_test.c — a model whose layers lie on several GPUs computes the bits that it computes on one.
 *
 * On the machine's GPUs where it has two, else on the two emulated ones. */
#include "cuda_harness.h"
#include "goldens.h"
#include "model/model.h"
#include <dlfcn.h>

enum { OUT_OF_MEMORY = 2, PROMPT = 4 };

static struct {
    void *library; /* NULL: real GPUs */
    void (*memory)(size_t bytes);
    void (*inject)(const char *function, int after, int result);
    int64_t (*live)(void);
    size_t (*most_taken_of)(int gpu);
} emulator;

static void *function_of(const char *name) {
    void *const at = dlsym(emulator.library, name);
    assert_non_null(at);
    return at;
}

static bool find_gpus(void) {
    char path[4096];
    dev_gpu gpu;
    if (dev_gpu_at(&gpu, 1, NULL) == QP_OK && cuda_has_gpu()) return true;
    if (cuda_has_gpu() || !cuda_emulated_path(path, sizeof path)) return false;
    emulator.library = dlopen(path, RTLD_NOW);
    assert_non_null(emulator.library);
    *(void **)&emulator.memory = function_of("emulate_memory");
    *(void **)&emulator.inject = function_of("emulate_fail");
    *(void **)&emulator.live = function_of("emulate_live");
    *(void **)&emulator.most_taken_of = function_of("emulate_most_taken_of");
    return true;
}

static qp_model *open_on_gpus(const char *folder, const char *split) {
    const qp_model_options o = {.size = sizeof o, .device = "cuda", .split = split};
    qp_model *m;
    qp_error err;
    const qp_status status =
        folder ? qp_model_open(&m, folder, &o, &err) : qp_model_synthesize(&m, "tiny", "q4_0", 3, &o, &err);
    if (status != QP_OK) fail_msg("%s: %s", folder ? folder : "tiny", err.text);
    return m;
}

/* A prompt and, in pieces, steps of single tokens. */
static void compare(const char *folder, const char *split) {
    static const int32_t ids[PROMPT] = {5, 9, 2, 77};
    qp_model *one = open_on_gpus(folder, NULL), *two = open_on_gpus(folder, split);
    qp_model_info info;
    qp_model_get_info(two, &info);
    assert_string_equal(info.device, "cuda:0+1");
    for (size_t piece = 1; piece <= PROMPT; piece += PROMPT - 1) {
        float *a = logits_of(one, ids, PROMPT, PROMPT, piece, (size_t)info.vocabulary);
        float *b = logits_of(two, ids, PROMPT, PROMPT, piece, (size_t)info.vocabulary);
        if (memcmp(a, b, PROMPT * (size_t)info.vocabulary * sizeof *a))
            fail_msg("%s, %s: other bits on two GPUs", folder ? folder : "tiny", split);
        mem_free(a);
        mem_free(b);
    }
    qp_model_close(one);
    qp_model_close(two);
}

/* Tied and untied tables, learned positions, latent attention, experts, sinks. */
static void two_gpus_compute_what_one_does(void **state) {
    static const char *const models[] = {"llama-gqa-tied-bias", "llama-mha", "gpt2",
                                         "deepseek-v3",         "qwen2-moe", "gpt-oss"};
    for (size_t i = 0; i < HARNESS_COUNT(models); i++) {
        char folder[512];
        snprintf(folder, sizeof folder, QUIPU_SOURCE "/tests/golden/models/%s", models[i]);
        if (!access(folder, R_OK)) compare(folder, "auto");
    }
    compare(NULL, "1L,1L");
    compare(NULL, "0.5,0.5");
}

/* ---- the plan ---- */

static model_options options_of(const char *split) {
    model_options o = {.device = cuda_test_options(1, false), .split = split};
    o.device.kind = "cuda";
    return o;
}

static void each_gpu_keeps_its_plan(void **state) {
    if (!emulator.library) HARNESS_SKIP("a GPU's driver does not say what was taken");
    const model_options o = options_of("1L,1L");
    model *m;
    qp_error err;
    emulator.memory((size_t)1 << 30);
    if (model_synthesize(&m, "tiny", "bf16", 7, &o, &err) != QP_OK) fail_msg("%s", err.text);
    assert_true(m->split.n == 2 && m->split.first[1] == 1);
    assert_true(m->memory[1].weights > m->memory[0].weights); /* the table is tied, so it lies with the head */
    for (int i = 0; i < 2; i++) {
        const uint64_t planned = m->memory[i].weights + m->memory[i].scratch;
        if (emulator.most_taken_of(i) > planned + CUDA_OPEN_BYTES || emulator.most_taken_of(i) < planned / 10 * 9)
            fail_msg("GPU %d: %zu bytes taken, %llu planned", i, emulator.most_taken_of(i),
                     (unsigned long long)planned);
    }
    model_close(m);
    assert_int_equal(emulator.live(), 0);
}

static void what_does_not_fit_is_refused_with_the_plan(void **state) {
    static const struct {
        const char *split, *text;
        qp_status status;
    } cases[] = {
        {"0.001,0.5", "the model does not fit on cuda:0: 0 layers, weights", QP_NO_MEMORY},
        {"0.5,0.001", "the model does not fit on cuda:1: 0 layers, weights", QP_NO_MEMORY},
        {"0.001,0.001", "; cuda:1: ", QP_NO_MEMORY},
        {"1L,2L", "split: 3 layers in all, the model has 2", QP_BAD_ARGUMENT},
        {"3L", "split: 3 layers in all, the model has 2", QP_BAD_ARGUMENT},
        {"x", "split: 'x', allowed are auto", QP_BAD_ARGUMENT},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        const model_options o = options_of(cases[i].split);
        model *m;
        qp_error err = {0};
        if (model_synthesize(&m, "tiny", "bf16", 7, &o, &err) != cases[i].status || !strstr(err.text, cases[i].text))
            fail_msg("%s: %s", cases[i].split, err.text);
    }
    if (!emulator.library) return;
    const model_options three = options_of("1,1,1");
    model *m;
    qp_error err = {0};
    assert_int_equal(model_synthesize(&m, "tiny", "bf16", 7, &three, &err), QP_BAD_ARGUMENT);
    assert_string_equal(err.text, "device: cuda:2, this machine has cuda:0 to cuda:1");
    assert_int_equal(emulator.live(), 0);
}

/* Caches count within what was allowed of each GPU. */
static void a_cache_too_large_for_one_gpu_is_refused(void **state) {
    const qp_model_options o = {.size = sizeof o, .device = "cuda", .split = "0.6,0.6"};
    qp_model *m;
    qp_sequence *s;
    qp_error err;
    if (qp_model_synthesize(&m, "tiny", "bf16", 3, &o, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(qp_sequence_new(&s, m, 4096, QP_CACHE_FP16, &err), QP_OK);
    qp_sequence_free(s);
    assert_int_equal(qp_sequence_new(&s, m, 1 << 24, QP_CACHE_FP16, &err), QP_NO_MEMORY);
    assert_non_null(strstr(err.text, "a cache of 16777216 tokens takes"));
    qp_model_close(m);
}

/* ---- failures ---- */

/* Each call of the driver in a step fails once: the step says so, the next ones are right again. */
static void every_call_of_a_step_may_fail(void **state) {
    static const int32_t ids[2] = {4, 7};
    if (!emulator.library) HARNESS_SKIP("a real driver does not fail at will");
    qp_model *m = open_on_gpus(NULL, "1L,1L");
    qp_error err = {0};
    bool went_well = false;
    for (int after = 0; !went_well; after++) {
        qp_sequence *s;
        float logits[512];
        const qp_status opened = qp_sequence_new(&s, m, 256, QP_CACHE_FP16, &err);
        assert_int_equal(opened, QP_OK);
        const int32_t *part = ids;
        const size_t count = 2, last = 1;
        assert_in_range(after, 0, 500);
        emulator.inject("any", after, OUT_OF_MEMORY);
        const qp_status status = qp_forward(&s, &part, &count, &last, 1, logits, &err);
        emulator.inject(NULL, 0, 0);
        went_well = status == QP_OK;
        if (!went_well && !strstr(err.text, "cuda")) fail_msg("'%s'", err.text);
        qp_sequence_free(s);
    }
    qp_model_close(m);
    assert_int_equal(emulator.live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_gpus_compute_what_one_does),
        cmocka_unit_test(each_gpu_keeps_its_plan),
        cmocka_unit_test(what_does_not_fit_is_refused_with_the_plan),
        cmocka_unit_test(a_cache_too_large_for_one_gpu_is_refused),
        cmocka_unit_test(every_call_of_a_step_may_fail),
    };
    if (!find_gpus()) return puts("SKIP: no two GPUs, and no C++ compiler for emulated ones"), 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
