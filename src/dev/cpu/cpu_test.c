/* cpu_test.c — opening devices: kinds, levels, threads, memory that runs out, weights that are refused. */
#include "cpu.h"
#include "base/mem.h"
#include "harness.h"

static void names_are_checked(void **state) {
    static const struct {
        dev_options options;
        const char *text;
    } wrong[] = {
        {{.kind = "gpu"}, "device: 'gpu', allowed are auto, cpu, cuda, cuda:0 ..."},
        {{.cpu_level = "mmx"}, "cpu level: 'mmx' is none, this machine has: ref"},
        {{.threads = -1}, "threads: -1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        device *d;
        qp_error err;
        assert_int_equal(dev_open(&d, &wrong[i].options, &err), QP_BAD_ARGUMENT);
        assert_null(d);
        assert_non_null(strstr(err.text, wrong[i].text));
    }
}

/* A level that exists but not here is named as such; one that is here opens under its name. */
static void every_level_opens_or_says_why(void **state) {
    for (int i = 0; dev_cpu_level(i); i++) {
        device *d;
        qp_error err;
        const dev_options options = {.cpu_level = dev_cpu_level(i), .threads = 1};
        const qp_status status = dev_open(&d, &options, &err);
        if (dev_cpu_level_available(dev_cpu_level(i))) {
            assert_int_equal(status, QP_OK);
            assert_string_equal(d->level, dev_cpu_level(i));
            dev_close(d);
        } else {
            assert_int_equal(status, QP_BAD_ARGUMENT);
            assert_non_null(strstr(err.text, "is not on this processor"));
        }
    }
    assert_false(dev_cpu_level_available("mmx"));
    assert_null(dev_cpu_level(-1));
}

/* What is chosen unasked: tiles before all, dot products of pairs only where they are faster than float32. */
#if defined(__aarch64__)
static void the_best_level_is_chosen(void **state) {
    static const struct {
        cpu_features features;
        const char *name;
    } cases[] = {
        {{.dotprod = true, .i8mm = true}, "ref"},
        {{.neon = true}, "neon"},
        {{.neon = true, .i8mm = true}, "neon"},
        {{.neon = true, .dotprod = true}, "dotprod"},
        {{.neon = true, .dotprod = true, .i8mm = true}, "i8mm"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        int index;
        assert_int_equal(cpu_level_find(&index, NULL, &cases[i].features, NULL), QP_OK);
        assert_string_equal(cpu_level_at(index)->name, cases[i].name);
    }
}
#else
static void the_best_level_is_chosen(void **state) {
    const cpu_features avx2 = {.avx2 = true, .fma = true, .f16c = true, .bmi2 = true};
    cpu_features f[6] = {0};
    for (int i = 1; i < 6; i++) f[i] = avx2;
    for (int i = 2; i < 6; i++) f[i].avx512f = f[i].avx512bw = f[i].avx512dq = f[i].avx512vl = true;
    f[3].avx512vbmi = f[4].avx512vbmi = f[5].avx512vbmi = true;
    f[3].avx512bf16 = f[4].avx512bf16 = f[5].avx512bf16 = true;
    f[4].amx_tile = f[4].amx_bf16 = f[4].amx_int8 = true;
    f[5].amx_tile = f[5].amx_int8 = f[5].avx512vnni = f[5].gfni = true;
    static const char *const on_intel[] = {"ref", "avx2", "avx512", "avx512", "amx", "amxint8"};
    static const char *const on_amd[] = {"ref", "avx2", "avx512", "avx512bf16", "amx", "amxint8"};
    for (int i = 0; i < 12; i++) {
        int index;
        strcpy(f[i % 6].vendor, i < 6 ? "GenuineIntel" : "AuthenticAMD");
        assert_int_equal(cpu_level_find(&index, NULL, &f[i % 6], NULL), QP_OK);
        assert_string_equal(cpu_level_at(index)->name, i < 6 ? on_intel[i] : on_amd[i - 6]);
    }
}
#endif

static void opening_survives_short_memory(void **state) {
    const dev_options options = {.threads = 2};
    for (int n = 0;; n++) {
        device *d;
        mem_fail_after(n);
        qp_status status = dev_open(&d, &options, NULL);
        if (status == QP_OK) status = d->ops->reserve(d, 8, 64, NULL);
        mem_fail_after(-1);
        dev_close(d);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
        assert_true(n < 100);
    }
}

static void room_is_checked(void **state) {
    device *d;
    assert_int_equal(dev_open(&d, &(dev_options){.threads = 1}, NULL), QP_OK);
    assert_int_equal(d->ops->reserve(d, 0, 1, NULL), QP_BAD_ARGUMENT);
    assert_int_equal(d->ops->reserve(d, 1, 0, NULL), QP_BAD_ARGUMENT);
    assert_int_equal(d->ops->reserve(d, INT32_MAX, INT64_MAX / 64, NULL), QP_TOO_LARGE);
    assert_int_equal(d->ops->reserve(d, 4, 100, NULL), QP_OK);
    assert_int_equal(d->ops->reserve(d, 2, 300, NULL), QP_OK);
    assert_int_equal(cpu_of(d)->max_rows, 4);
    assert_int_equal(cpu_of(d)->max_in, 300);
    dev_close(d);
}

static void weights_are_checked(void **state) {
    static const uint16_t data[6];
    device *d;
    dev_weight w;
    assert_int_equal(dev_open(&d, NULL, NULL), QP_OK);
    quant_matrix m = {.type = quant_type_of(QUANT_F16), .n_out = 2, .n_in = 3, .parts = {data}, .part_bytes = {12}};
    assert_int_equal(d->ops->weight_open(d, &w, &m, NULL), QP_OK);
    assert_ptr_equal(w.data, data); /* not copied */
    d->ops->weight_close(d, &w);
    assert_null(w.data);
    m.part_bytes[0] = 11;
    assert_int_equal(d->ops->weight_open(d, &w, &m, NULL), QP_BAD_FORMAT);
    m.n_out = 0;
    assert_int_equal(d->ops->weight_open(d, &w, &m, NULL), QP_BAD_ARGUMENT);
    m.n_out = INT64_MAX;
    assert_int_equal(d->ops->weight_open(d, &w, &m, NULL), QP_BAD_ARGUMENT);
    dev_close(d);
}

static void memory_is_zero_and_copies(void **state) {
    device *d;
    void *memory;
    uint8_t back[3];
    assert_int_equal(dev_open(&d, &(dev_options){.kind = "cpu", .threads = 1}, NULL), QP_OK);
    assert_int_equal(d->ops->take(d, &memory, 100, NULL), QP_OK);
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (int i = 0; i < 100; i++) assert_int_equal(((uint8_t *)memory)[i], 0);
    d->ops->upload(d, memory, "abc", 3);
    d->ops->download(d, back, memory, 3);
    assert_memory_equal(back, "abc", 3);
    assert_int_equal(d->ops->finish(d, NULL), QP_OK);
    d->ops->give(d, memory, 100);
    dev_close(d);
    dev_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),         cmocka_unit_test(every_level_opens_or_says_why),
        cmocka_unit_test(the_best_level_is_chosen),  cmocka_unit_test(opening_survives_short_memory),
        cmocka_unit_test(room_is_checked),           cmocka_unit_test(weights_are_checked),
        cmocka_unit_test(memory_is_zero_and_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
