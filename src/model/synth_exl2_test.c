/* synth_exl2_test.c — made matrices are ones that a reader of files accepts, with the bits that were asked for. */
#include "synth_exl2.h"
#include "harness.h"
#include "base/mem.h"
#include "synth.h"
#include <math.h>

static void names_are_read(void **state) {
    static const struct {
        const char *name;
        double bits;
    } cases[] = {{"exl2-2.0", 2}, {"exl2-3.5", 3.5}, {"exl2-6", 6}, {"exl2-6.1", 0},  {"exl2-1.9", 0}, {"exl2-", 0},
                 {"exl2", 0},     {"exl2--3", 0},    {"q4_0", 0},   {"exl2-3.0x", 0}, {"exl2-nan", 0}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++)
        if (synth_exl2_bits(cases[i].name) != cases[i].bits) fail_msg("%s", cases[i].name);
    synth s;
    qp_error err;
    assert_int_equal(synth_open(&s, "exl2-7.0", 1, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "gptq, fp8_e4m3 and exl2-2.0 to exl2-6.0"));
}

static void matrices_have_the_bits_asked_for(void **state) {
    static const double bits[] = {2, 2.5, 3, 3.5, 4, 4.65, 5, 6};
    static const int64_t sizes[][2] = {{4096, 4096}, {100, 11008}, {512, 96}};
    for (size_t i = 0; i < HARNESS_COUNT(bits) * HARNESS_COUNT(sizes); i++) {
        const int64_t *size = sizes[i / HARNESS_COUNT(bits)];
        const double wanted = bits[i % HARNESS_COUNT(bits)];
        synth_exl2 p;
        qp_error err;
        assert_true(synth_exl2_plan(&p, wanted, size[0], size[1]));
        const double is = (double)p.words * 32 / (double)size[1];
        if (fabs(is - wanted) > 0.5 / p.n_groups + 1e-9) fail_msg("%g bits of %g", is, wanted);
        uint8_t *block = mem_zarray(p.all_bytes, 1);
        synth_exl2_fill(block, &p, -6, 3, 4, false);
        quant_matrix m = synth_exl2_matrix(block, &p);
        if (quant_open(&m, "made", &err) != QP_OK) fail_msg("%s", err.text);
        float *row = mem_array((size_t)size[1], sizeof *row);
        double sum = 0;
        m.type->unpack_row(row, &m, size[0] - 1);
        for (int64_t k = 0; k < size[1]; k++) sum += (double)row[k] * (double)row[k];
        const double rms = sqrt(sum / (double)size[1]) * 64;
        if (!(rms > 0.5 && rms < 2)) fail_msg("%g bits: weights of %g, not 1, times 2^-6", wanted, rms);
        quant_close(&m);
        mem_free(row);
        mem_free(block);
    }
}

/* What a plan looks at is what is loaded. */
static void a_look_has_the_sizes_of_the_matrix(void **state) {
    const slot_row row = {.slot = SLOT_WQ, .rows = DIM_HIDDEN, .cols = DIM_HIDDEN};
    synth s;
    quant_matrix looked, fetched;
    qp_error err;
    assert_int_equal(synth_open(&s, "exl2-3.0", 1, &err), QP_OK);
    const weight_source source = synth_source(&s);
    assert_int_equal(source.look(source.user, &row, 1, 0, 512, 1280, &looked, &err), QP_OK);
    assert_int_equal(source.fetch(source.user, &row, 1, 0, 512, 1280, &fetched, &err), QP_OK);
    assert_int_equal(looked.type->id, QUANT_EXL2);
    assert_int_equal(quant_bytes(&looked), quant_bytes(&fetched));
    assert_memory_equal(looked.order, fetched.order, 1280 * sizeof *looked.order);
    quant_close(&looked);
    synth_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_read),
                                       cmocka_unit_test(matrices_have_the_bits_asked_for),
                                       cmocka_unit_test(a_look_has_the_sizes_of_the_matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
