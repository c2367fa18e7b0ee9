/* synth_test.c — made matrices of FP8 and GPTQ are ones that a reader of files accepts, of the size that other formats
 * have, and what a plan looks at is what is loaded. */
#include "synth.h"
#include "harness.h"
#include <math.h>

static void made_formats_have_the_size_of_others(void **state) {
    static const struct {
        const char *name;
        quant_id type;
        int64_t n_out, n_in;
    } cases[] = {{"fp8_e4m3", QUANT_FP8_E4M3, 512, 1024},
                 {"fp8_e4m3", QUANT_FP8_E4M3, 33, 260},
                 {"gptq", QUANT_GPTQ, 512, 1024},
                 {"gptq", QUANT_GPTQ, 40, 256},
                 {"gptq", QUANT_F16, 36, 260}}; /* no whole words, no whole groups */
    const slot_row row = {.slot = SLOT_WQ, .rows = DIM_HIDDEN, .cols = DIM_HIDDEN};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        const int64_t n_out = cases[i].n_out, n_in = cases[i].n_in;
        double squares[2] = {0};
        for (int k = 0; k < 2; k++) {
            synth s;
            quant_matrix m;
            qp_error err;
            float values[1024];
            assert_int_equal(synth_open(&s, k ? cases[i].name : "f16", 1, &err), QP_OK);
            const weight_source source = synth_source(&s);
            assert_int_equal(source.fetch(source.user, &row, 1, 0, n_out, n_in, &m, &err), QP_OK);
            assert_int_equal(m.type->id, k ? cases[i].type : QUANT_F16);
            m.type->unpack_row(values, &m, n_out - 1);
            for (int64_t at = 0; at < n_in; at++) squares[k] += (double)values[at] * (double)values[at];
            quant_close(&m);
            synth_close(&s);
        }
        assert_true(fabs(squares[1] / squares[0] - 1) < 0.2);
    }
}

/* As checkpoints have it. */
static void made_formats_are_for_products(void **state) {
    static const struct {
        const char *name;
        slot_row row;
        quant_id type;
    } cases[] = {{"fp8_e4m3", {.slot = SLOT_W_DOWN, .rows = DIM_HIDDEN, .cols = DIM_HIDDEN}, QUANT_FP8_E4M3},
                 {"fp8_e4m3", {.slot = SLOT_HEAD, .rows = DIM_VOCAB, .cols = DIM_HIDDEN}, QUANT_F16},
                 {"fp8_e4m3", {.slot = SLOT_EMBED, .rows = DIM_VOCAB, .cols = DIM_HIDDEN}, QUANT_F16},
                 {"gptq", {.slot = SLOT_W_DOWN, .rows = DIM_HIDDEN, .cols = DIM_HIDDEN}, QUANT_GPTQ},
                 {"gptq", {.slot = SLOT_HEAD, .rows = DIM_VOCAB, .cols = DIM_HIDDEN}, QUANT_GPTQ},
                 {"gptq", {.slot = SLOT_EMBED, .rows = DIM_VOCAB, .cols = DIM_HIDDEN}, QUANT_F16}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        synth s;
        quant_matrix looked, fetched;
        qp_error err;
        assert_int_equal(synth_open(&s, cases[i].name, 1, &err), QP_OK);
        const weight_source source = synth_source(&s);
        assert_int_equal(source.look(source.user, &cases[i].row, 0, 0, 96, 256, &looked, &err), QP_OK);
        assert_int_equal(source.fetch(source.user, &cases[i].row, 0, 0, 96, 256, &fetched, &err), QP_OK);
        assert_int_equal(looked.type->id, cases[i].type);
        assert_int_equal(fetched.type->id, cases[i].type);
        assert_int_equal(quant_bytes(&looked), quant_bytes(&fetched));
        if (looked.type->run) { /* kernels must know beforehand whether they can have it */
            quant_run a, b;
            assert_true(looked.type->run(&a, &looked, 0) && fetched.type->run(&b, &fetched, 0));
            assert_true(a.end == b.end && a.bits == b.bits && a.group == b.group);
        }
        synth_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(made_formats_have_the_size_of_others),
                                       cmocka_unit_test(made_formats_are_for_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
