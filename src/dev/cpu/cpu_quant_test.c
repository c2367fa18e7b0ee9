/* cpu_quant_test.c — products with quantised weights: every format on every level of this machine and on emulated
 * tiles, packed and unpacked, against sums in double over the slow exact unpack; and row by row bit for bit. */
#include "levels.h"
#include "pack.h"
#include "quant_samples.h"
#include <math.h>

static const struct size {
    int n_out, n_in, n_rows;
} sizes[] = {{1, 256, 1},   {16, 512, 2},  {17, 256, 3},  {33, 1024, 5},
             {100, 512, 8}, {130, 256, 9}, {35, 512, 16}, {67, 768, 53}};
/* More rows than one block of any kernel has. */
static const struct size tall = {19, 256, 275};
enum { FORMAT_STEP = HARNESS_STEP(11) };
enum { MOST_IN = 1024, MOST_ROWS = 275, MOST_OUT = 130 };

typedef struct world {
    sample s;
    int n_rows;
    bool whole;   /* activations are multiples of one number: rounding them to 8 bits loses nothing */
    int n_prompt; /* the last rows, of a prompt: multiplied another way, where there is one */
    float x[MOST_ROWS * MOST_IN], bias[MOST_OUT], out[MOST_ROWS * MOST_OUT], before[MOST_ROWS * MOST_OUT];
    double expected[MOST_ROWS * MOST_OUT], bound[MOST_ROWS * MOST_OUT];
} world;

/* In every 32 of them, in any order, is a PACK_MOST or the opposite with all but certainty. */
static float random_x(size_t i, bool whole) {
    const uint32_t bits = sample_bits(21, i);
    if (!whole) return (float)((double)bits / 2147483648.0 - 1);
    const int value = bits % 3 == 0 ? PACK_MOST : (int)(bits >> 8) % (PACK_MOST + 1);
    return (float)(bits & 0x80 ? -value : value) / 64;
}

/* The weights' own rounding (EXL2 and GPTQ to float16, which kernels leave out) and that of the activations; of a
 * prompt, both to BF16. */
static void expect(world *w) {
    const quant_matrix *m = &w->s.m;
    float row[MOST_IN];
    for (int64_t column = 0; column < m->n_out; column++) {
        m->type->unpack_row(row, m, column);
        for (int r = 0; r < w->n_rows; r++) {
            const size_t i = (size_t)r * (size_t)m->n_out + (size_t)column;
            double sum = 0, size = 0, most = 0, terms = 0;
            for (int64_t k = 0; k < m->n_in; k++) {
                const double x = (double)w->x[r * m->n_in + k];
                sum += (double)row[k] * x;
                terms += fabs((double)row[k] * x);
                size += fabs((double)row[k]);
                most = fmax(most, fabs(x));
            }
            w->expected[i] = sum + (double)w->bias[column] + (double)w->before[i];
            w->bound[i] = size * most * (w->whole ? 0x1p-11 : 0x1p-11 + 0.5 / PACK_MOST) + 1e-5;
            if (r >= w->n_rows - w->n_prompt) w->bound[i] = terms * (0x1p-8 + 0x1p-11) + 1e-5;
        }
    }
}

static void build(world *w, const sample_format *f, const struct size *size, bool whole) {
    sample_open(&w->s, f->id, f->variant, size->n_out, size->n_in);
    w->n_rows = size->n_rows;
    w->n_prompt = 0;
    w->whole = whole;
    for (size_t i = 0; i < (size_t)(size->n_rows * size->n_in); i++) w->x[i] = random_x(i, whole);
    for (size_t i = 0; i < (size_t)size->n_out; i++) w->bias[i] = random_x(i + 7, false);
    for (size_t i = 0; i < (size_t)(size->n_out * size->n_rows); i++) w->before[i] = random_x(i + 99, false);
    expect(w);
}

static void multiply(device *d, world *w, const dev_weight *weight, int row, int n_rows) {
    const int n_prompt = row + n_rows - (w->n_rows - w->n_prompt);
    const matmul_args a = {.x = w->x + row * weight->n_in,
                           .x_stride = weight->n_in,
                           .n_rows = n_rows,
                           .n_prompt = n_prompt > 0 ? n_prompt < n_rows ? n_prompt : n_rows : 0,
                           .n_parts = 1,
                           .parts = {{.w = weight,
                                      .bias = w->bias,
                                      .out = w->out + row * weight->n_out,
                                      .out_stride = weight->n_out,
                                      .add = true}}};
    d->ops->matmul(d, &a);
}

static void reset(world *w) { memcpy(w->out, w->before, sizeof w->out); }

static void check_values(const device *d, const world *w, const char *how) {
    for (size_t i = 0; i < (size_t)w->n_rows * (size_t)w->s.m.n_out; i++)
        if (!(fabs((double)w->out[i] - w->expected[i]) <= w->bound[i]))
            fail_msg("%s %d bits, %s, %s: value %zu of %lld x %d is %.9g, not %.9g +- %.3g", w->s.m.type->name,
                     w->s.m.bits, d->level, how, i, (long long)w->s.m.n_out, w->n_rows, (double)w->out[i],
                     w->expected[i], w->bound[i]);
}

/* In pieces of 1, 2, 3 ... rows: no bit may change. */
static void check_cuts(device *d, world *w, const dev_weight *weight) {
    float whole[MOST_ROWS * MOST_OUT];
    memcpy(whole, w->out, sizeof whole);
    for (int piece = 1; piece < 12; piece += 3) {
        reset(w);
        for (int row = 0; row < w->n_rows; row += piece)
            multiply(d, w, weight, row, w->n_rows - row < piece ? w->n_rows - row : piece);
        assert_memory_equal(w->out, whole, (size_t)w->n_rows * (size_t)weight->n_out * sizeof(float));
    }
}

/* Weights may be read in several ways, whatever this processor likes: no bit may change. */
static void check_ways(device *d, world *w, const dev_weight *weight) {
    static const cpu_ways ways[] = {{.pairs = true},
                                    {.one_stream = true, .first_cache = 1024, .second_cache = 8192},
                                    {.one_stream = true, .ahead = 4096, .pairs = true}};
    static const int rows[] = {1, 6, 9, 15, 16, MOST_ROWS};
    enum { N_ROWS = sizeof rows / sizeof *rows };
    float whole[MOST_ROWS * MOST_OUT];
    const cpu_ways own = cpu_of(d)->ways;
    memcpy(whole, w->out, sizeof whole);
    for (size_t i = 0; i < 3 * N_ROWS; i++) {
        const int n = rows[i % N_ROWS] < w->n_rows ? rows[i % N_ROWS] : w->n_rows;
        reset(w);
        cpu_of(d)->ways = ways[i / N_ROWS];
        multiply(d, w, weight, 0, n);
        assert_memory_equal(w->out, whole, (size_t)n * (size_t)weight->n_out * sizeof *whole);
    }
    cpu_of(d)->ways = own;
}

static void check_weight(device *d, world *w, bool packed) {
    dev_weight weight;
    qp_error err;
    assert_int_equal(d->ops->weight_open(d, &weight, &w->s.m, &err), QP_OK);
    if (packed) assert_int_equal(d->ops->weight_pack(d, &weight, &err), QP_OK);
    if (packed && cpu_of(d)->matmul.grouped && !d->exact) assert_non_null(weight.packed);
    reset(w);
    multiply(d, w, &weight, 0, w->n_rows);
    check_values(d, w, weight.packed ? "packed" : "unpacked");
    check_cuts(d, w, &weight);
    check_ways(d, w, &weight);
    d->ops->weight_close(d, &weight);
}

static device *open_level(const char *level, int threads, bool exact) {
    return level_open(level, threads, exact, MOST_ROWS, MOST_IN);
}

static void products_are_right(void **state) {
    world *w = MEM_NEW(world);
    for (int i = 0; dev_cpu_level(i); i++)
        if (!dev_cpu_level_available(dev_cpu_level(i)))
            print_message("SKIP: this processor has no %s\n", dev_cpu_level(i));
    for (int i = 0; level_name(i); i++) {
        device *fast = open_level(level_name(i), 1 + i % 2 * 2, false), *exact = open_level(level_name(i), 2, true);
        for (size_t f = 0; f < SAMPLE_FORMATS; f += FORMAT_STEP)
            for (size_t s = 0; s < HARNESS_COUNT(sizes); s++) {
                build(w, &sample_formats[f], &sizes[s], s % 2 == 0);
                check_weight(fast, w, true);
                if (s < 3 || s == HARNESS_COUNT(sizes) - 1) check_weight(exact, w, false);
                sample_close(&w->s);
            }
        dev_close(fast);
        dev_close(exact);
    }
    mem_free(w);
}

/* Several blocks of rows, the last of them cut short, with second digits in some: one format for each kind of kernel.
 */
static void blocks_of_rows_meet(void **state) {
    static const sample_format some[] = {{QUANT_Q4_0, 0}, {QUANT_Q4_K, 0}, {QUANT_Q6_K, 0}, {QUANT_Q2_K, 0}};
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++) {
        device *d = open_level(level_name(i), 2, false);
        for (size_t f = 0; f < HARNESS_COUNT(some); f++) {
            build(w, &some[f], &tall, false);
            for (int row = 0; row < tall.n_rows; row += 6)
                for (int k = 0; k < PACK_DEPTH; k++) w->x[row * tall.n_in + row % 8 * PACK_DEPTH + k] *= 100;
            expect(w);
            check_weight(d, w, true);
            sample_close(&w->s);
        }
        dev_close(d);
    }
    mem_free(w);
}

/* ---- second digits ---- */

/* A row's groups that have one, and 32 inputs as the matrix orders them. */
enum { HEAVY = 4, GROUP = 32 };

static float *input_at(world *w, int row, int64_t k) {
    const quant_matrix *m = &w->s.m;
    return &w->x[row * m->n_in + (m->order ? m->order[k] : k)];
}

/* Other groups in every five rows. */
static int64_t heavy_group(const world *w, int row, int i) { return (row / 5 + 3 * i) % (w->s.m.n_in / GROUP); }

static void make_heavy(world *w) {
    for (int row = 0; row < w->n_rows; row++)
        for (int i = 0; i < HEAVY; i++)
            for (int k = 0; k < GROUP; k++) *input_at(w, row, heavy_group(w, row, i) * GROUP + k) *= 1000;
    expect(w);
}

/* The mean square of what rounding these groups to one digit alone would lose, over all results. */
static double one_digit_loses(world *w) {
    const quant_matrix *m = &w->s.m;
    float weights[MOST_IN];
    double total = 0;
    for (int64_t column = 0; column < m->n_out; column++) {
        m->type->unpack_row(weights, m, column);
        for (int row = 0; row < w->n_rows; row++)
            for (int i = 0; i < HEAVY; i++) {
                double most = 0, size = 0;
                for (int64_t k = heavy_group(w, row, i) * GROUP, end = k + GROUP; k < end; k++) {
                    const float *x = input_at(w, row, k), weight = weights[x - &w->x[row * m->n_in]];
                    most = fmax(most, fabs((double)*x));
                    size += (double)weight * (double)weight;
                }
                total += size * (most / PACK_MOST) * (most / PACK_MOST) / 12;
            }
    }
    return total / (double)(m->n_out * w->n_rows);
}

static void check_heavy(device *d, world *w) {
    const size_t n = (size_t)w->n_rows * (size_t)w->s.m.n_out;
    dev_weight weight;
    double lost = 0;
    assert_int_equal(d->ops->weight_open(d, &weight, &w->s.m, NULL), QP_OK);
    assert_int_equal(d->ops->weight_pack(d, &weight, NULL), QP_OK);
    reset(w);
    multiply(d, w, &weight, 0, w->n_rows);
    for (size_t i = 0; i < n; i++) lost += pow((double)w->out[i] - w->expected[i], 2) / (double)n;
    if (!(lost <= one_digit_loses(w) / 100))
        fail_msg("%s %d bits, %s, %d rows: heavy groups lose %g, with one digit %g", w->s.m.type->name, w->s.m.bits,
                 d->level, w->n_rows, lost, one_digit_loses(w));
    check_cuts(d, w, &weight);
    d->ops->weight_close(d, &weight);
}

static void heaviest_groups_lose_little(void **state) {
    /* 16 x 1024 are rounded by all threads. */
    static const struct size some[] = {{33, 512, 3}, {35, 512, 16}, {35, 1024, 16}, {130, 512, 37}};
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++) {
        device *d = open_level(level_name(i), 2, false);
        for (size_t f = 0; f < SAMPLE_FORMATS; f += FORMAT_STEP)
            for (size_t n = 0; n < HARNESS_COUNT(some); n++) {
                build(w, &sample_formats[f], &some[n], false);
                make_heavy(w);
                check_heavy(d, w);
                sample_close(&w->s);
            }
        dev_close(d);
    }
    mem_free(w);
}

/* The second digits of rows that are packed one by one, the last first, are those of rows that are packed together: no
 * byte may differ, whether every group has one, some have, or none. */
static void packed_rows_are_joined(void **state) {
    enum { ROWS = 13, IN = 640 };
    static float x[ROWS * IN];
    for (int i = 0; level_name(i); i++) {
        device *d = open_level(level_name(i), 1, false);
        const cpu_matmul_kernel *k = cpu_of(d)->matmul.grouped;
        const size_t bytes = k ? k->packed_bytes(ROWS, IN) : 0;
        uint8_t *whole = mem_big(bytes + 1), *apart = mem_big(bytes + 1);
        for (int heavy = 1; heavy <= 1000 && k; heavy *= 10) {
            for (int n = 0; n < ROWS * IN; n++) {
                x[n] = random_x((size_t)n, heavy == 10);
                if (n % IN / GROUP % 7 == n / IN % 3) x[n] *= (float)heavy;
            }
            k->pack(whole, x, IN, ROWS, IN, 0, ROWS);
            for (int row = ROWS; row--;) k->pack_rows(apart, x, IN, ROWS, IN, row, row + 1, NULL);
            if (heavy == 1000) assert_true(memcmp(whole, apart, bytes));
            k->join_rows(apart, ROWS, IN, 0, ROWS);
            assert_memory_equal(whole, apart, bytes);
        }
        mem_big_free(whole, bytes + 1);
        mem_big_free(apart, bytes + 1);
        dev_close(d);
    }
}

/* ---- rows of prompts ---- */

/* Answers in front of prompts, in one op: either are what they are alone. */
static void check_mixed(device *d, world *w, const dev_weight *weight) {
    float apart[MOST_ROWS * MOST_OUT];
    const int n_answers = w->n_rows / 3;
    const size_t n = (size_t)(n_answers * w->s.m.n_out), all = (size_t)(w->n_rows * w->s.m.n_out);
    memcpy(apart, w->out, all * sizeof *apart);
    w->n_prompt = w->n_rows - n_answers;
    reset(w);
    multiply(d, w, weight, 0, n_answers);
    memcpy(apart, w->out, n * sizeof *apart);
    reset(w);
    multiply(d, w, weight, 0, w->n_rows);
    assert_memory_equal(w->out, apart, all * sizeof *apart);
}

static void check_prompt(device *d, world *w) {
    dev_weight weight;
    w->n_prompt = w->n_rows;
    expect(w);
    assert_int_equal(d->ops->weight_open(d, &weight, &w->s.m, NULL), QP_OK);
    assert_int_equal(d->ops->weight_pack(d, &weight, NULL), QP_OK);
    reset(w);
    multiply(d, w, &weight, 0, w->n_rows);
    check_values(d, w, "a prompt");
    check_cuts(d, w, &weight);
    reset(w);
    multiply(d, w, &weight, 0, w->n_rows);
    check_mixed(d, w, &weight);
    d->ops->weight_close(d, &weight);
}

/* Several blocks of k and of rows, strips and panels that are not full. */
static void prompts_are_right(void **state) {
    static const struct size some[] = {{17, 256, 1},  {100, 512, 8},  {130, 256, 17}, {35, 1024, 49},
                                       {67, 768, 95}, {19, 256, 275}, {33, 1024, 64}};
    world *w = MEM_NEW(world);
    for (int i = 0; level_name(i); i++) {
        device *d = open_level(level_name(i), 1 + i % 2 * 2, false);
        for (size_t f = 0; f < SAMPLE_FORMATS && cpu_of(d)->matmul.prompts; f += FORMAT_STEP)
            for (size_t n = f % 3; n < HARNESS_COUNT(some); n += 3) {
                build(w, &sample_formats[f], &some[n], n % 2);
                check_prompt(d, w);
                sample_close(&w->s);
            }
        dev_close(d);
    }
    mem_free(w);
}

/* Three parts of one op: two orders and none. */
static void orders_mix(void **state) {
    static const sample_format parts[3] = {{QUANT_EXL2, 0}, {QUANT_GPTQ, 20}, {QUANT_Q4_K, 0}};
    world *w[3];
    device *d = open_level(NULL, 2, false);
    dev_weight weights[3];
    matmul_args a = {.n_rows = 5, .n_parts = 3};
    for (int i = 0; i < 3; i++) {
        w[i] = MEM_NEW(world);
        build(w[i], &parts[i], &(struct size){33, 512, 5}, true);
        assert_int_equal(d->ops->weight_open(d, &weights[i], &w[i]->s.m, NULL), QP_OK);
        assert_int_equal(d->ops->weight_pack(d, &weights[i], NULL), QP_OK);
        reset(w[i]);
        a.parts[i] =
            (matmul_part){.w = &weights[i], .bias = w[i]->bias, .out = w[i]->out, .out_stride = 33, .add = true};
    }
    a.x = w[0]->x;
    a.x_stride = 512;
    d->ops->matmul(d, &a);
    for (int i = 0; i < 3; i++) {
        check_values(d, w[i], "mixed");
        d->ops->weight_close(d, &weights[i]);
        sample_close(&w[i]->s);
        mem_free(w[i]);
    }
    dev_close(d);
}

static void packing_owes_nothing_after_a_failure(void **state) {
    device *d = open_level(NULL, 1, false);
    sample s;
    dev_weight weight;
    sample_open(&s, QUANT_Q4_0, 0, 20, 256);
    assert_int_equal(d->ops->weight_open(d, &weight, &s.m, NULL), QP_OK);
    for (int n = 0; n < 2 && cpu_of(d)->matmul.grouped; n++) {
        mem_fail_after(n);
        assert_int_equal(d->ops->weight_pack(d, &weight, NULL), QP_NO_MEMORY);
        mem_fail_after(-1);
        assert_null(weight.packed);
    }
    d->ops->weight_close(d, &weight);
    sample_close(&s);
    dev_close(d);
}

static void embeds(void **state) {
    static const int32_t ids[3] = {4, 0, 2};
    for (int i = 0; dev_cpu_level(i); i++) {
        if (!dev_cpu_level_available(dev_cpu_level(i))) continue;
        device *d = open_level(dev_cpu_level(i), 2, false);
        for (size_t f = 0; f < SAMPLE_FORMATS; f++) {
            sample s;
            dev_weight table;
            float out[3 * 256], row[256];
            sample_open(&s, sample_formats[f].id, sample_formats[f].variant, 5, 256);
            assert_int_equal(d->ops->weight_open(d, &table, &s.m, NULL), QP_OK);
            d->ops->embed(d, &(embed_args){.ids = ids, .n_rows = 3, .table = &table, .out = out, .scale = 2});
            for (int r = 0; r < 3; r++) {
                s.m.type->unpack_row(row, &s.m, ids[r]);
                for (int k = 0; k < 256; k++) assert_true(out[r * 256 + k] == row[k] * 2);
            }
            d->ops->weight_close(d, &table);
            sample_close(&s);
        }
        dev_close(d);
    }
}

/* A NaN or an infinity among the activations must not vanish. */
static void bad_activations_show(void **state) {
    world *w = MEM_NEW(world);
    device *d = open_level(NULL, 1, false);
    build(w, &(sample_format){QUANT_Q4_0, 0}, &(struct size){17, 256, 3}, true);
    w->x[256 + 40] = NAN;
    w->x[512 + 200] = INFINITY;
    dev_weight weight;
    assert_int_equal(d->ops->weight_open(d, &weight, &w->s.m, NULL), QP_OK);
    assert_int_equal(d->ops->weight_pack(d, &weight, NULL), QP_OK);
    reset(w);
    multiply(d, w, &weight, 0, 3);
    for (int c = 0; c < 17; c++) {
        assert_true(isfinite(w->out[c]));
        assert_false(isfinite(w->out[17 + c]));
        assert_false(isfinite(w->out[34 + c]));
    }
    d->ops->weight_close(d, &weight);
    sample_close(&w->s);
    dev_close(d);
    mem_free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(blocks_of_rows_meet),
        cmocka_unit_test(heaviest_groups_lose_little),
        cmocka_unit_test(packed_rows_are_joined),
        cmocka_unit_test(prompts_are_right),
        cmocka_unit_test(orders_mix),
        cmocka_unit_test(packing_owes_nothing_after_a_failure),
        cmocka_unit_test(embeds),
        cmocka_unit_test(bad_activations_show),
    };
    return cmocka_run_group_tests(tests, sample_read_goldens, sample_drop_goldens);
}
