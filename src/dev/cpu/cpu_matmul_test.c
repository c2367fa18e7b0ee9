/* cpu_matmul_test.c — matrix products of every level that this machine has, against ref, and row by row bit for bit.
 *
 * Weights and activations end where their memory ends and begin at odd addresses, so that the sanitizers see a
 * kernel that reads too far or needs alignment. */
#include "levels.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>

typedef struct shape {
    int n_in, n_out[DEV_MATMUL_PARTS], n_parts, n_rows;
    bool bias, add;
} shape;

static const shape shapes[] = {
    {1, {1}, 1, 1, false, false},         {1, {3, 2}, 2, 7, true, false},       {7, {5}, 1, 2, true, true},
    {16, {16}, 1, 16, false, false},      {17, {33, 9, 9}, 3, 3, false, false}, {31, {7, 50, 1, 13}, 4, 4, true, true},
    {33, {19}, 1, 5, false, true},        {64, {64, 32}, 2, 17, true, false},   {100, {129}, 1, 33, false, false},
    {511, {25, 47}, 2, 31, false, false}, {513, {31}, 1, 70, true, true},       {1024, {53}, 1, 1, false, false},
    {1041, {130, 27}, 2, 1, true, true},  {1543, {27}, 1, 47, false, false},    {2077, {9}, 1, 133, false, true},
    {96, {270}, 1, 135, true, false},     {20, {260}, 1, 530, false, false},    {2080, {70}, 1, 67, true, true},
};
enum { SHAPE_STEP = HARNESS_STEP(7) };
enum { N_SHAPES = sizeof shapes / sizeof *shapes, GAP = 3 /* floats between rows */, MOST_ROWS = 530, MOST_IN = 2080 };

typedef struct world {
    shape shape;
    quant_id type;
    uint8_t *stored[DEV_MATMUL_PARTS]; /* one byte more in front of the weights */
    dev_weight weights[DEV_MATMUL_PARTS];
    float *x, *bias[DEV_MATMUL_PARTS], *before[DEV_MATMUL_PARTS], *out[DEV_MATMUL_PARTS];
    double *expected[DEV_MATMUL_PARTS], *magnitude[DEV_MATMUL_PARTS]; /* as out; the latter bounds errors */
} world;

static float random_value(uint64_t *counter) { return (float)(rng_uniform(7, 0, (*counter)++) * 2 - 1); }

static float *random_floats(size_t n, uint64_t *counter) {
    float *values = mem_array(n, sizeof *values);
    for (size_t i = 0; i < n; i++) values[i] = random_value(counter);
    return values;
}

static void store_value(uint8_t *to, quant_id type, float value) {
    if (type == QUANT_F32) {
        memcpy(to, &value, 4);
        return;
    }
    const uint16_t half = type == QUANT_F16 ? quant_f32_to_f16(value) : quant_f32_to_bf16(value);
    memcpy(to, &half, 2);
}

static int64_t out_stride(const world *w, int part) { return w->shape.n_out[part] + GAP; }
static size_t out_floats(const world *w, int part) { return (size_t)(w->shape.n_rows * out_stride(w, part)); }
static int64_t x_stride(const world *w) { return w->shape.n_in + GAP; }

static void make_world(world *w, shape s, quant_id type) {
    *w = (world){.shape = s, .type = type};
    uint64_t counter = 0;
    w->x = random_floats((size_t)(s.n_rows * x_stride(w) - GAP), &counter);
    const size_t each = type == QUANT_F32 ? 4 : 2;
    for (int p = 0; p < s.n_parts; p++) {
        const size_t n = (size_t)s.n_out[p] * (size_t)s.n_in;
        w->stored[p] = mem_array(n * each + 1, 1);
        for (size_t i = 0; i < n; i++) store_value(w->stored[p] + 1 + i * each, type, random_value(&counter));
        w->weights[p] =
            (dev_weight){.type = quant_type_of(type), .n_out = s.n_out[p], .n_in = s.n_in, .data = w->stored[p] + 1};
        w->bias[p] = random_floats((size_t)s.n_out[p], &counter);
        w->before[p] = random_floats(out_floats(w, p), &counter);
        w->out[p] = mem_array(out_floats(w, p), sizeof(float));
    }
}

static void free_world(world *w) {
    mem_free(w->x);
    for (int p = 0; p < w->shape.n_parts; p++) {
        mem_free(w->stored[p]);
        mem_free(w->bias[p]);
        mem_free(w->before[p]);
        mem_free(w->out[p]);
        mem_free(w->expected[p]);
        mem_free(w->magnitude[p]);
    }
}

static device *open_level(const char *level, int threads, bool exact) {
    return level_open(level, threads, exact, MOST_ROWS, MOST_IN);
}

static void multiply_as(device *d, world *w, int row, int n_rows, bool is_exact) {
    matmul_args a = {.x = w->x + row * x_stride(w),
                     .x_stride = x_stride(w),
                     .n_rows = n_rows,
                     .n_parts = w->shape.n_parts,
                     .is_exact = is_exact};
    for (int p = 0; p < a.n_parts; p++)
        a.parts[p] = (matmul_part){.w = &w->weights[p],
                                   .bias = w->shape.bias ? w->bias[p] : NULL,
                                   .out = w->out[p] + row * out_stride(w, p),
                                   .out_stride = out_stride(w, p),
                                   .add = w->shape.add};
    d->ops->matmul(d, &a);
}

/* Rows [row, row + n_rows) of the world's product into w->out. */
static void multiply(device *d, world *w, int row, int n_rows) { multiply_as(d, w, row, n_rows, false); }

static void reset(world *w) {
    for (int p = 0; p < w->shape.n_parts; p++) memcpy(w->out[p], w->before[p], out_floats(w, p) * sizeof(float));
}

/* In double, with the sum of absolute products that bounds the error. */
static double exact_value(const world *w, int p, int row, int column, double *magnitude) {
    const size_t each = w->type == QUANT_F32 ? 4 : 2;
    const uint8_t *stored = w->stored[p] + 1 + (size_t)column * (size_t)w->shape.n_in * each;
    double sum = 0;
    *magnitude = 2;
    for (int k = 0; k < w->shape.n_in; k++) {
        float weight;
        uint16_t half;
        memcpy(&half, stored + (size_t)k * each, 2);
        if (w->type == QUANT_F32)
            memcpy(&weight, stored + (size_t)k * 4, 4);
        else
            weight = w->type == QUANT_F16 ? quant_f16_to_f32(half) : quant_bf16_to_f32(half);
        const double product = (double)weight * (double)w->x[row * x_stride(w) + k];
        sum += product;
        *magnitude += fabs(product);
    }
    if (w->shape.bias) sum += (double)w->bias[p][column];
    if (w->shape.add) sum += (double)w->before[p][row * out_stride(w, p) + column];
    return sum;
}

static void expect(world *w) {
    for (int p = 0; p < w->shape.n_parts; p++) {
        w->expected[p] = mem_zarray(out_floats(w, p), sizeof(double));
        w->magnitude[p] = mem_zarray(out_floats(w, p), sizeof(double));
        for (int row = 0; row < w->shape.n_rows; row++)
            for (int column = 0; column < out_stride(w, p); column++) {
                const int64_t i = row * out_stride(w, p) + column;
                if (column < w->shape.n_out[p])
                    w->expected[p][i] = exact_value(w, p, row, column, &w->magnitude[p][i]);
                else
                    w->expected[p][i] = (double)w->before[p][i]; /* gaps between rows are not touched */
            }
    }
}

/* `bound` is the relative error of a product's terms. */
static void assert_close(const world *w, double bound) {
    for (int p = 0; p < w->shape.n_parts; p++)
        for (size_t i = 0; i < out_floats(w, p); i++) {
            if (fabs((double)w->out[p][i] - w->expected[p][i]) <= bound * w->magnitude[p][i]) continue;
            fail_msg("%s %d x %d, %d rows: value %zu of part %d is %.9g, not %.9g", w->weights[p].type->name,
                     w->shape.n_out[p], w->shape.n_in, w->shape.n_rows, i, p, (double)w->out[p][i], w->expected[p][i]);
        }
}

/* Float32 sums of up to 2080 terms over at least 8 lanes err by far less than 2^-20 of their terms' magnitude;
 * activations rounded to BF16 by 2^-9 each, float16 weights by as much again. */
static double bound_of(const device *d, quant_id type) {
    if (!strcmp(d->level, "ref")) return 0x1p-23;
    if (d->exact || !cpu_of((device *)d)->matmul.fast[type]) return 0x1p-20;
    return type == QUANT_F16 ? 0x1.01p-8 : 0x1p-9;
}

typedef void check_fn(device *d, world *w);

/* Every shape and format on every level this machine has, both precisions, 1 to 3 threads. */
static void on_all_devices(check_fn *check) {
    device *devices[32];
    int n_devices = 0;
    for (int i = 0; dev_cpu_level(i); i++)
        if (!dev_cpu_level_available(dev_cpu_level(i)))
            print_message("SKIP: this processor has no %s\n", dev_cpu_level(i));
    for (int i = 0; level_name(i); i++)
        for (int variant = 0; variant < 3; variant++)
            devices[n_devices++] = open_level(level_name(i), variant + 1, variant == 1);
    for (int i = 0; i < N_SHAPES * QUANT_PLAIN_COUNT; i += SHAPE_STEP) {
        world w;
        make_world(&w, shapes[i / QUANT_PLAIN_COUNT], (quant_id)(i % QUANT_PLAIN_COUNT));
        expect(&w);
        for (int d = 0; d < n_devices; d++) check(devices[d], &w);
        free_world(&w);
    }
    for (int d = 0; d < n_devices; d++) dev_close(devices[d]);
}

static void check_values(device *d, world *w) {
    reset(w);
    multiply(d, w, 0, w->shape.n_rows);
    assert_close(w, bound_of(d, w->type));
}

static void products_are_right(void **state) { on_all_devices(check_values); }

typedef struct again {
    int piece; /* rows */
    cpu_ways ways;
} again;

/* The same rows again, n times in pieces and in some way: no bit may change. */
static void check_again(device *d, world *w, const again *times, size_t n) {
    const cpu_ways own = cpu_of(d)->ways;
    float *whole[DEV_MATMUL_PARTS];
    reset(w);
    multiply(d, w, 0, w->shape.n_rows);
    for (int p = 0; p < w->shape.n_parts; p++) whole[p] = mem_copy(w->out[p], out_floats(w, p), sizeof(float));
    for (size_t i = 0; i < n; i++) {
        const int piece = times[i].piece;
        reset(w);
        cpu_of(d)->ways = times[i].ways;
        for (int row = 0; row < w->shape.n_rows; row += piece)
            multiply(d, w, row, w->shape.n_rows - row < piece ? w->shape.n_rows - row : piece);
        for (int p = 0; p < w->shape.n_parts; p++)
            assert_memory_equal(w->out[p], whole[p], out_floats(w, p) * sizeof(float));
    }
    cpu_of(d)->ways = own;
    for (int p = 0; p < w->shape.n_parts; p++) mem_free(whole[p]);
}

static void check_cuts(device *d, world *w) {
    const cpu_ways alone = {.one_stream = true, .ahead = 4096}, others = {0};
    const again times[] = {{1, alone}, {3, others}, {5, alone}, {18, others}, {65, alone}, {1, others}};
    check_again(d, w, times, sizeof times / sizeof *times);
}

static void rows_do_not_know_each_other(void **state) { on_all_devices(check_cuts); }

/* Sums that are parked while other rows use the caches. */
static void check_caches(device *d, world *w) {
    static const size_t caches[][2] = {{1 << 10, 8 << 10}, {3 << 10, 1 << 20}, {1 << 20, 1 << 10}};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        again once = {w->shape.n_rows, cpu_of(d)->ways};
        once.ways.first_cache = caches[i][0];
        once.ways.second_cache = caches[i][1];
        check_again(d, w, &once, 1);
    }
}

static void caches_change_nothing(void **state) { on_all_devices(check_caches); }

/* One thread and four. */
static void threads_change_nothing(void **state) {
    for (int i = 0; level_name(i); i++) {
        device *one = open_level(level_name(i), 1, false), *many = open_level(level_name(i), 4, false);
        for (int s = 0; s < N_SHAPES; s += SHAPE_STEP) {
            world a, b;
            make_world(&a, shapes[s], QUANT_BF16);
            make_world(&b, shapes[s], QUANT_BF16);
            reset(&a);
            reset(&b);
            multiply(one, &a, 0, a.shape.n_rows);
            multiply(many, &b, 0, b.shape.n_rows);
            for (int p = 0; p < a.shape.n_parts; p++)
                assert_memory_equal(a.out[p], b.out[p], out_floats(&a, p) * sizeof(float));
            free_world(&a);
            free_world(&b);
        }
        dev_close(one);
        dev_close(many);
    }
}

/* More results than the second cache keeps, whole lines apart, from weights at whole lines: the bits of products that
 * lie as badly as they can. */
static void check_places(device *d, quant_id type) {
    enum { N_IN = 224, N_OUT = 512, ROWS = 521, LINE = 64 };
    world w;
    make_world(&w, (shape){N_IN, {N_OUT}, 1, ROWS, true, false}, type);
    multiply(d, &w, 0, ROWS);
    const size_t bytes = (size_t)N_IN * N_OUT * (type == QUANT_F32 ? 4 : 2);
    uint8_t *stored = mem_big(bytes);
    float *out = mem_big((size_t)ROWS * N_OUT * sizeof *out);
    assert_non_null(stored);
    assert_non_null(out);
    assert_int_equal((uintptr_t)stored % LINE, 0);
    assert_int_equal((uintptr_t)out % LINE, 0);
    memcpy(stored, w.stored[0] + 1, bytes);
    dev_weight weight = w.weights[0];
    weight.data = stored;
    matmul_args a = {.x = w.x, .x_stride = x_stride(&w), .n_rows = ROWS, .n_parts = 1};
    a.parts[0] = (matmul_part){.w = &weight, .bias = w.bias[0], .out = out, .out_stride = N_OUT};
    d->ops->matmul(d, &a);
    for (size_t row = 0; row < ROWS; row++)
        assert_memory_equal(out + row * N_OUT, w.out[0] + row * (size_t)out_stride(&w, 0), N_OUT * sizeof *out);
    mem_big_free(stored, bytes);
    mem_big_free(out, (size_t)ROWS * N_OUT * sizeof *out);
    free_world(&w);
}

static void places_change_nothing(void **state) {
    for (int i = 0; level_name(i); i++) {
        for (int threads = 1; threads <= 2; threads++) {
            device *d = open_level(level_name(i), threads, false);
            for (int type = 0; type < QUANT_PLAIN_COUNT; type++) check_places(d, (quant_id)type);
            dev_close(d);
        }
    }
}

/* What the next product makes of a gated one, by itself and where it may find it packed. */
static void check_next(device *d, const matmul_args *gated, int n) {
    world w;
    make_world(&w, (shape){n, {37}, 1, gated->n_rows, false, false}, QUANT_BF16);
    float *out[2];
    const size_t count = (size_t)gated->n_rows * 37;
    for (int i = 0; i < 2; i++) {
        matmul_args a = *gated;
        a.next = i ? &w.weights[0] : NULL;
        d->ops->matmul(d, &a);
        out[i] = mem_array(count, sizeof(float));
        const matmul_part part = {.w = &w.weights[0], .out = out[i], .out_stride = 37};
        const matmul_args then = {
            .x = a.parts[0].out, .x_stride = n, .n_rows = a.n_rows, .n_parts = 1, .parts = {part}};
        d->ops->matmul(d, &then);
    }
    if (memcmp(out[0], out[1], count * sizeof(float)))
        fail_msg("%s: %d rows of %d, left for the next product", d->level, gated->n_rows, n);
    for (int i = 0; i < 2; i++) mem_free(out[i]);
    free_world(&w);
}

/* Two products and the gate in one op are the bits of three, for any cut: k in one block and in several, columns and
 * rows that fill no tile, results that stay in the caches and those that do not. */
static void check_gated(device *d, quant_id type, shape s) {
    world w;
    make_world(&w, s, type);
    const int n = s.n_out[0];
    const size_t bytes = (size_t)s.n_rows * (size_t)n * sizeof(float);
    float *out[4];
    for (int i = 0; i < 4; i++) assert_non_null(out[i] = mem_big(bytes));
    matmul_args a = {.x = w.x, .x_stride = x_stride(&w), .n_rows = s.n_rows, .n_parts = 2, .act = ACT_SILU};
    for (int fused = 0; fused < 2; fused++) {
        for (int p = 0; p < 2; p++)
            a.parts[p] = (matmul_part){
                .w = &w.weights[p], .bias = s.bias ? w.bias[p] : NULL, .out = out[2 * fused + p], .out_stride = n};
        a.is_gated = fused;
        d->ops->matmul(d, &a);
        if (!fused) d->ops->gate(d, &(gate_args){ACT_SILU, out[0], out[1], s.n_rows, n});
    }
    if (memcmp(out[0], out[2], bytes)) fail_msg("%s: %d x %d, %d rows, gated", d->level, n, s.n_in, s.n_rows);
    check_next(d, &a, n);
    for (int i = 0; i < 4; i++) mem_big_free(out[i], bytes);
    free_world(&w);
}

static void gates_change_nothing(void **state) {
    static const shape gated[] = {
        {40, {5, 5}, 2, 1, true, false},        {64, {48, 48}, 2, 17, false, false},
        {96, {70, 70}, 2, 66, true, false},     {2080, {67, 67}, 2, 70, false, false},
        {224, {640, 640}, 2, 530, true, false}, {70, {2080, 2080}, 2, 17, true, false},
    };
    for (int i = 0; level_name(i); i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            device *d = open_level(level_name(i), threads, false);
            for (size_t s = 0; s < HARNESS_COUNT(gated); s++) check_gated(d, QUANT_BF16, gated[s]);
            check_gated(d, QUANT_F32, gated[2]);
            dev_close(d);
        }
}

/* A norm, and the product behind it, which may find the rows packed. */
static void check_norm(device *d, shape s) {
    world w;
    make_world(&w, s, QUANT_BF16);
    const size_t bytes = out_floats(&w, 0) * sizeof(float), n = (size_t)s.n_rows * (size_t)s.n_in;
    float *first = mem_array(bytes, 1), *normed = mem_array(n, sizeof *normed), *x = mem_array(n, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = w.x[i / (size_t)s.n_in * (size_t)x_stride(&w) + i % (size_t)s.n_in];
    for (int ahead = 0; ahead < 2; ahead++) {
        norm_args norm = {.x = x, .n_rows = s.n_rows, .dim = s.n_in, .weight = w.x, .eps = 1e-5f, .out = normed};
        matmul_args a = {.x = normed, .x_stride = s.n_in, .n_rows = s.n_rows, .n_parts = s.n_parts};
        for (int p = 0; p < s.n_parts; p++) {
            a.parts[p] = (matmul_part){.w = &w.weights[p], .out = w.out[p], .out_stride = out_stride(&w, p)};
            if (ahead) norm.next[norm.n_next++] = &w.weights[p];
        }
        reset(&w);
        d->ops->norm(d, &norm);
        d->ops->matmul(d, &a);
        if (!ahead) memcpy(first, w.out[0], bytes);
    }
    if (memcmp(first, w.out[0], bytes)) fail_msg("%s: %d rows of %d, left by a norm", d->level, s.n_rows, s.n_in);
    mem_free(first);
    mem_free(normed);
    mem_free(x);
    free_world(&w);
}

static void norms_change_nothing(void **state) {
    static const shape normed[] = {{64, {40, 9}, 2, 1, false, false},  {64, {40, 9}, 2, 16, false, false},
                                   {64, {40, 9}, 2, 17, false, false}, {70, {40}, 1, 67, false, false},
                                   {2080, {50}, 1, 70, false, false},  {224, {70, 70, 3}, 3, 530, false, false},
                                   {31, {40, 16}, 2, 33, false, false}};
    for (int i = 0; level_name(i); i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            device *d = open_level(level_name(i), threads, false);
            for (size_t s = 0; s < HARNESS_COUNT(normed); s++) check_norm(d, normed[s]);
            dev_close(d);
        }
}

/* An op that asks for exact products gets the bits of an exact device. */
static void exact_ops_stay_exact(void **state) {
    for (int i = 0; level_name(i); i++) {
        device *fast = open_level(level_name(i), 2, false), *exact = open_level(level_name(i), 2, true);
        for (int s = 0; s < N_SHAPES; s += 3) {
            world w;
            make_world(&w, shapes[s], s % 2 ? QUANT_BF16 : QUANT_F16);
            reset(&w);
            multiply(exact, &w, 0, w.shape.n_rows);
            float *wanted = mem_array(out_floats(&w, 0), sizeof *wanted);
            memcpy(wanted, w.out[0], out_floats(&w, 0) * sizeof *wanted);
            reset(&w);
            multiply_as(fast, &w, 0, w.shape.n_rows, true);
            if (memcmp(wanted, w.out[0], out_floats(&w, 0) * sizeof *wanted))
                fail_msg("%s: shape %d is rounded", fast->level, s);
            mem_free(wanted);
            free_world(&w);
        }
        dev_close(fast);
        dev_close(exact);
    }
}

/* Parts of different formats in one op. */
static void formats_mix(void **state) {
    for (int i = 0; level_name(i); i++) {
        device *d = open_level(level_name(i), 2, false);
        world w[QUANT_PLAIN_COUNT];
        matmul_args a = {.n_rows = 33, .n_parts = QUANT_PLAIN_COUNT};
        for (int type = 0; type < QUANT_PLAIN_COUNT; type++) {
            make_world(&w[type], (shape){100, {129}, 1, 33, false, false}, (quant_id)type);
            reset(&w[type]);
            expect(&w[type]);
            a.parts[type] =
                (matmul_part){.w = &w[type].weights[0], .out = w[type].out[0], .out_stride = out_stride(&w[type], 0)};
        }
        a.x = w[0].x;
        a.x_stride = x_stride(&w[0]);
        d->ops->matmul(d, &a);
        for (int type = 0; type < QUANT_PLAIN_COUNT; type++) {
            assert_close(&w[type], bound_of(d, (quant_id)type));
            free_world(&w[type]);
        }
        dev_close(d);
    }
}

/* A table with a wrong kernel does not pass the self-test, right ones do. */
static void wrong_run(const cpu_matmul_block *b) {
    cpu_matmul_ref.exact[QUANT_BF16]->run(b);
    b->out[b->n_columns - 1] += 0.01f;
}

static void self_test_finds_wrong_products(void **state) {
    cpu_matmul_kernel wrong = *cpu_matmul_ref.exact[QUANT_BF16];
    bool right;
    cpu_matmul_ops ops = {.fast = {[QUANT_BF16] = &wrong}};
    assert_int_equal(cpu_matmul_check(&right, &ops, NULL), QP_OK);
    assert_true(right);
    wrong.run = wrong_run;
    assert_int_equal(cpu_matmul_check(&right, &ops, NULL), QP_OK);
    assert_false(right);
    mem_fail_after(0);
    assert_int_equal(cpu_matmul_check(&right, &ops, NULL), QP_NO_MEMORY);
    mem_fail_after(-1);
}

#if defined(__x86_64__)
static void wrong_woven_run(const cpu_matmul_block *b) {
    cpu_matmul_avx512bf16.fast[QUANT_BF16]->weaving->kernel->run(b);
    b->out[b->n_columns - 1] += 0.01f;
}

static void self_test_finds_wrong_woven_products(void **state) {
    if (!dev_cpu_level_available("avx512bf16")) skip();
    cpu_matmul_kernel fast = *cpu_matmul_avx512bf16.fast[QUANT_BF16], stored = *fast.weaving->kernel;
    cpu_weaving weaving = *fast.weaving;
    cpu_matmul_ops ops = {.fast = {[QUANT_BF16] = &fast}};
    bool right;
    fast.weaving = &weaving;
    weaving.kernel = &stored;
    assert_int_equal(cpu_matmul_check(&right, &ops, NULL), QP_OK);
    assert_true(right);
    stored.run = wrong_woven_run;
    assert_int_equal(cpu_matmul_check(&right, &ops, NULL), QP_OK);
    assert_false(right);
}

#define PACKED_LEVEL avx2
#elif defined(__aarch64__)
#define PACKED_LEVEL neon
#endif
#ifdef PACKED_LEVEL
#define PACKED_OPS_OF(level) cpu_quant_##level
#define PACKED_NAME_OF(level) #level
#define PACKED_OPS(level) PACKED_OPS_OF(level)
#define PACKED_NAME(level) PACKED_NAME_OF(level)
static const cpu_matmul_kernel *right_packed_kernel(void) { return PACKED_OPS(PACKED_LEVEL).grouped; }

static void wrong_packed_run(const cpu_matmul_block *b) {
    right_packed_kernel()->run(b);
    b->out[b->n_columns - 1] += 2;
}

static void self_test_finds_wrong_packed_products(void **state) {
    if (!dev_cpu_level_available(PACKED_NAME(PACKED_LEVEL))) skip();
    cpu_matmul_kernel wrong = *right_packed_kernel();
    bool right;
    const cpu_matmul_ops ops = {.grouped = &wrong};
    assert_int_equal(cpu_matmul_check(&right, &ops, NULL), QP_OK);
    assert_true(right);
    wrong.run = wrong_packed_run;
    assert_int_equal(cpu_matmul_check(&right, &ops, NULL), QP_OK);
    assert_false(right);
    wrong.run = right_packed_kernel()->run;
    qp_status status = QP_NO_MEMORY;
    for (int n = 0; status != QP_OK; n++) {
        mem_fail_after(n);
        status = cpu_matmul_check(&right, &ops, NULL);
        mem_fail_after(-1);
        if (status != QP_OK) assert_int_equal(status, QP_NO_MEMORY);
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(rows_do_not_know_each_other),
        cmocka_unit_test(caches_change_nothing),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(places_change_nothing),
        cmocka_unit_test(gates_change_nothing),
        cmocka_unit_test(norms_change_nothing),
        cmocka_unit_test(exact_ops_stay_exact),
        cmocka_unit_test(formats_mix),
        cmocka_unit_test(self_test_finds_wrong_products),
#if defined(__x86_64__)
        cmocka_unit_test(self_test_finds_wrong_woven_products),
#endif
#ifdef PACKED_LEVEL
        cmocka_unit_test(self_test_finds_wrong_packed_products),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
