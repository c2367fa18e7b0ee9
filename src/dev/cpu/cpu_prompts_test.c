/* cpu_prompts_test.c — rows of prompts times packed weights where a level has products of their own for them: k in
 * several blocks, gates, and what the step before leaves in their order. Every format by itself is cpu_quant_test.c's.
 */
#include "levels.h"
#include "quant_samples.h"
#include <math.h>

enum { INNER = 96, N_OUT = 37, MOST_ROWS = 560, MOST_IN = 4224 };

typedef struct world {
    int n_in, n_rows;
    sample samples[3]; /* gate, up [INNER, n_in]; down [N_OUT, INNER] */
    dev_weight gate, up, down;
    float bias[2][INNER];
    float *x;
} world;

static float random_x(size_t i) { return (float)((double)sample_bits(5, i) / 2147483648.0 - 1); }

static void open_weight(device *d, dev_weight *w, sample *s, quant_id id, int n_out, int n_in) {
    sample_open(s, id, 0, n_out, n_in);
    assert_int_equal(d->ops->weight_open(d, w, &s->m, NULL), QP_OK);
    assert_int_equal(d->ops->weight_pack(d, w, NULL), QP_OK);
    assert_non_null(w->packed);
}

static void open_world(world *w, device *d, quant_id id, int n_in, int n_rows) {
    *w = (world){.n_in = n_in, .n_rows = n_rows};
    open_weight(d, &w->gate, &w->samples[0], id, INNER, n_in);
    open_weight(d, &w->up, &w->samples[1], QUANT_Q5_1, INNER, n_in);
    open_weight(d, &w->down, &w->samples[2], QUANT_Q4_0, N_OUT, INNER);
    for (size_t i = 0; i < 2 * INNER; i++) w->bias[i / INNER][i % INNER] = random_x(i);
    w->x = mem_array((size_t)(n_rows * n_in), sizeof *w->x);
    for (size_t i = 0; i < (size_t)(n_rows * n_in); i++) w->x[i] = random_x(i + 1000);
}

static void close_world(world *w, device *d) {
    dev_weight *const weights[] = {&w->gate, &w->up, &w->down};
    for (int i = 0; i < 3; i++) {
        d->ops->weight_close(d, weights[i]);
        sample_close(&w->samples[i]);
    }
    mem_free(w->x);
}

/* gate and up of rows [row, row + n). */
static matmul_args product(const world *w, float *gate, float *up, int row, int n) {
    return (matmul_args){.x = w->x + row * w->n_in,
                         .x_stride = w->n_in,
                         .n_rows = n,
                         .n_prompt = n,
                         .n_parts = 2,
                         .parts = {{&w->gate, w->bias[0], gate + row * INNER, INNER, false},
                                   {&w->up, NULL, up + row * INNER, INNER, false}},
                         .act = ACT_SILU};
}

static void check_values(const device *d, const world *w, const float *out) {
    float *row = mem_array((size_t)w->n_in, sizeof *row);
    for (int c = 0; c < INNER; c++) {
        w->samples[0].m.type->unpack_row(row, &w->samples[0].m, c);
        for (int r = 0; r < w->n_rows; r++) {
            double sum = (double)w->bias[0][c], size = 0;
            for (int k = 0; k < w->n_in; k++) {
                const double term = (double)row[k] * (double)w->x[r * w->n_in + k];
                sum += term;
                size += fabs(term);
            }
            if (!(fabs((double)out[r * INNER + c] - sum) <= size * 0x1p-8 * 1.2))
                fail_msg("%s, %d rows of %d: row %d, column %d is %g, not %g", d->level, w->n_rows, w->n_in, r, c,
                         (double)out[r * INNER + c], sum);
        }
    }
    mem_free(row);
}

/* Both matrices row by row in pieces, then the gate: what one op must make. */
static void make_apart(device *d, const world *w, float *gate, float *up, int piece) {
    for (int row = 0; row < w->n_rows; row += piece) {
        const matmul_args a = product(w, gate, up, row, w->n_rows - row < piece ? w->n_rows - row : piece);
        d->ops->matmul(d, &a);
    }
}

static void multiply_down(device *d, const world *w, const float *x, float *out) {
    const matmul_args a = {.x = x,
                           .x_stride = INNER,
                           .n_rows = w->n_rows,
                           .n_prompt = w->n_rows,
                           .n_parts = 1,
                           .parts = {{.w = &w->down, .out = out, .out_stride = N_OUT}}};
    d->ops->matmul(d, &a);
}

static void check_gated(device *d, world *w) {
    const size_t n = (size_t)(w->n_rows * INNER), n_down = (size_t)(w->n_rows * N_OUT);
    float *made[4], *down[3];
    for (int i = 0; i < 4; i++) made[i] = mem_array(n, sizeof(float));
    for (int i = 0; i < 3; i++) down[i] = mem_array(n_down, sizeof(float));
    make_apart(d, w, made[0], made[1], w->n_rows);
    check_values(d, w, made[0]);
    make_apart(d, w, made[2], made[3], 31);
    assert_memory_equal(made[2], made[0], n * sizeof(float));
    assert_memory_equal(made[3], made[1], n * sizeof(float));
    d->ops->gate(d, &(gate_args){ACT_SILU, made[0], made[1], w->n_rows, INNER});
    multiply_down(d, w, made[0], down[0]);
    for (int ahead = 0; ahead < 2; ahead++) {
        matmul_args a = product(w, made[2], made[3], 0, w->n_rows);
        a.is_gated = true;
        a.next = ahead ? &w->down : NULL;
        d->ops->matmul(d, &a);
        if (!ahead) assert_memory_equal(made[2], made[0], n * sizeof(float));
        assert_true((cpu_of(d)->left == made[2]) == (ahead && w->n_rows >= 16));
        multiply_down(d, w, made[2], down[1 + ahead]);
        assert_memory_equal(down[1 + ahead], down[0], n_down * sizeof(float));
    }
    for (int i = 0; i < 4; i++) mem_free(made[i]);
    for (int i = 0; i < 3; i++) mem_free(down[i]);
}

static device *open_level(const char *level, int threads) {
    return level_open(level, threads, false, MOST_ROWS, MOST_IN);
}

static void gates_change_nothing(void **state) {
    static const struct {
        quant_id id;
        int n_in, n_rows;
    } some[] = {{QUANT_Q4_0, 256, 5},    {QUANT_Q4_K, 512, 48},   {QUANT_Q6_K, 2304, 49},
                {QUANT_Q4_0, 4224, 100}, {QUANT_IQ4_NL, 256, 23}, {QUANT_Q2_K, 256, 560}};
    for (int i = 0, tried = 0; level_name(i); i++) {
        device *d = open_level(level_name(i), 1 + i % 3);
        for (size_t n = 0; n < HARNESS_COUNT(some) && cpu_of(d)->matmul.prompts; n++, tried++) {
            world w;
            open_world(&w, d, some[n].id, some[n].n_in, some[n].n_rows);
            check_gated(d, &w);
            close_world(&w, d);
        }
        dev_close(d);
        if (!level_name(i + 1) && !tried) print_message("SKIP: no level here has products for prompts\n");
    }
}

/* A norm that leaves its rows for the product behind it, where all rows are a prompt's; where some are not, floats. */
static void norms_change_nothing(void **state) {
    enum { ROWS = 40 };
    for (int i = 0; level_name(i); i++) {
        device *d = open_level(level_name(i), 2);
        world w;
        if (cpu_of(d)->matmul.prompts) {
            float rows[ROWS * INNER], out[2][ROWS * N_OUT];
            open_world(&w, d, QUANT_Q4_0, 256, ROWS);
            for (int prompts = ROWS; prompts >= 0; prompts -= ROWS / 2) {
                for (int ahead = 0; ahead < 2; ahead++) {
                    const norm_args norm = {.x = w.x,
                                            .n_rows = ROWS,
                                            .dim = INNER,
                                            .eps = 1e-5f,
                                            .out = rows,
                                            .next = {&w.down},
                                            .n_next = ahead,
                                            .n_prompt = prompts};
                    const matmul_args a = {.x = rows,
                                           .x_stride = INNER,
                                           .n_rows = ROWS,
                                           .n_prompt = prompts,
                                           .n_parts = 1,
                                           .parts = {{.w = &w.down, .out = out[ahead], .out_stride = N_OUT}}};
                    d->ops->norm(d, &norm);
                    assert_true((cpu_of(d)->left == rows) == (ahead && prompts == ROWS));
                    d->ops->matmul(d, &a);
                }
                assert_memory_equal(out[0], out[1], sizeof out[0]);
            }
            close_world(&w, d);
        }
        dev_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_change_nothing),
        cmocka_unit_test(norms_change_nothing),
    };
    return cmocka_run_group_tests(tests, sample_read_goldens, sample_drop_goldens);
}
