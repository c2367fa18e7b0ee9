/* cuda_digest_test.c — tokens chosen out of a GPU's digests are those that are chosen out of the rows themselves.
 *
 * Random rows (flat, steep, with equal logits, with some that are no numbers), settings, histories, masks, bans and
 * biases: where the digest proves a choice it must be the row's, and where settings and row are ordinary it must prove
 * one. On the machine's GPU, else on the emulated one; the argument is the number of rounds. */
#include "cuda_harness.h"
#include "base/mem.h"
#include "sample/chain.h"
#include <math.h>

enum {
    ROWS = 12,
    FEW_ROWS = 2,
    LONG = 5000,
    MOST = 40000,
    HISTORY = 300,
    MOST_CHANGES = 2 * HISTORY + 8,
    MASK_WORDS = MOST / 32 + 1
};

static int n_rounds = 9;
static int n_asked, n_proven;
static bool is_emulated;

static struct {
    device *gpu;
    float *logits, *changed;
    digest_head *heads;
    digest_body *bodies;
} there;

static struct {
    float logits[ROWS * MOST];
    struct {
        digest_order orders[ROWS];
        digest_change changes[ROWS][MOST_CHANGES];
        uint32_t masks[ROWS][MASK_WORDS];
    } asked;
    digest_head heads[ROWS];
    digest_body bodies[ROWS];
    sampler *samplers[ROWS];
    sampler_step steps[ROWS];
    int32_t histories[ROWS][HISTORY], bans[ROWS][2];
    uint32_t allowed[ROWS][MASK_WORDS];
    bool is_asked[ROWS];
} here;

static uint64_t dice = 88172645463325252; /* Marsaglia's xorshift: millions are needed */

static double chance(void) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (double)(dice >> 11) / 9007199254740992.0;
}
static int below(int n) { return (int)(chance() * n); }

/* ---- what is asked ---- */

static void fill_row(float *row, int n, int kind) {
    const double width = kind == 0 ? 1 : kind == 1 ? 4 : 12;
    for (int i = 0; i < n; i++) row[i] = (float)(width * (chance() + chance() + chance() + chance() - 2));
    for (int i = 0; i < n && kind == 3; i++) row[i] = roundf(row[i]); /* many are equal */
    for (int i = 0; i < 5 && kind == 4; i++) row[below(n)] = i % 2 ? -INFINITY : NAN;
    for (int i = 0; i < 6; i++) row[below(n)] = (float)(width * 2.5 + 3 * chance());
}

static qp_sampling random_settings(void) {
    qp_sampling s = {.temperature = (float)(chance() < 0.2 ? 0 : 0.3 + 1.2 * chance()), .seed = (uint64_t)below(1000)};
    const int kind = below(8);
    if (kind == 0) s.top_k = 1 + below(60);
    if (kind == 1) s.top_p = (float)(0.2 + 0.79 * chance());
    if (kind == 2) s.min_p = (float)(0.01 + 0.3 * chance());
    if (kind == 3) s.top_k = 40, s.top_p = 0.9F, s.min_p = 0.02F;
    if (kind == 4) s.top_a = 0.3F, s.typical = 0.8F;
    if (kind == 5) s.min_p = 0.1F, s.temperature_last = true, s.xtc_probability = 0.5F;
    if (kind == 6) s.top_k = 30, s.mirostat_tau = 3, s.smoothing_factor = 0.3F;
    if (below(3) == 0) s.repetition_penalty = (float)(0.8 + chance());
    if (below(4) == 0) s.frequency_penalty = (float)(chance() - 0.3), s.presence_penalty = (float)chance();
    if (below(3) == 0) s.penalty_range = 1 + below(HISTORY), s.penalty_decay = below(100);
    return s;
}

static void ask(int i, int n, sampler_room *room) {
    const int n_tokens = below(3) ? n : 1 + below(n);
    qp_bias bias[2] = {{below(n), (float)(6 * chance() - 3)}, {below(n), -INFINITY}};
    const qp_sampling settings = random_settings();
    const sampler_setup setup = {
        .settings = settings, .n_vocabulary = n, .n_tokens = n_tokens, .bias = bias, .n_bias = (size_t)below(3)};
    qp_error err;
    if (sampler_new(&here.samplers[i], &setup, &err) != QP_OK) fail_msg("%s", err.text);
    for (int k = 0; k < HISTORY; k++) here.histories[i][k] = below(below(2) ? n : 20);
    for (int k = 0; k < 2; k++) here.bans[i][k] = below(n);
    const bool is_strict = below(2);
    for (int k = 0; k <= n / 32; k++)
        here.allowed[i][k] = is_strict && below(4) ? 0 : (uint32_t)(chance() * 4294967296.0);
    here.steps[i] = (sampler_step){.history = here.histories[i],
                                   .n_history = (size_t)below(HISTORY),
                                   .position = (uint64_t)below(100),
                                   .ban = here.bans[i],
                                   .n_ban = (size_t)(below(3) == 0 ? 2 : 0),
                                   .allow_mask = below(3) == 0 ? here.allowed[i] : NULL};
    sampler_space space = {here.asked.changes[i], MOST_CHANGES, here.asked.masks[i]};
    digest_order *o = &here.asked.orders[i];
    here.is_asked[i] = sampler_order(here.samplers[i], room, &here.steps[i], o, &space);
    if (!here.is_asked[i]) *o = (digest_order){.n = n, .group = 1 + n / (32 * 1024), .n_groups = 1};
    o->changes = (int32_t)((uint8_t *)here.asked.changes[i] - (uint8_t *)here.asked.orders);
    o->mask = (int32_t)((uint8_t *)here.asked.masks[i] - (uint8_t *)here.asked.orders);
}

/* ---- what is answered ---- */

/* Long rows take the emulated GPU seconds. */
static int rows_of(int n) { return n < LONG || !is_emulated ? ROWS : FEW_ROWS; }

static void fetch(int n) {
    const dev_ops *ops = there.gpu->ops;
    const digest_args args = {.logits = there.logits,
                              .n_rows = rows_of(n),
                              .width = n,
                              .changed = there.changed,
                              .orders = here.asked.orders,
                              .bytes = sizeof here.asked,
                              .heads = there.heads,
                              .bodies = there.bodies};
    qp_error err;
    ops->upload(there.gpu, there.logits, here.logits, (size_t)rows_of(n) * (size_t)n * sizeof(float));
    ops->digest(there.gpu, &args);
    ops->download(there.gpu, here.heads, there.heads, sizeof here.heads);
    ops->download(there.gpu, here.bodies, there.bodies, sizeof here.bodies);
    if (ops->finish(there.gpu, &err) != QP_OK) fail_msg("%s", err.text);
}

static void compare(int i, int n, int kind, sampler_room *room) {
    sampler_choice by_digest = {0}, by_row = {0};
    sampler_step *step = &here.steps[i];
    const bool proves = here.is_asked[i] && sampler_choose_from(here.samplers[i], room, step, &here.asked.orders[i],
                                                                &here.heads[i], &here.bodies[i], &by_digest);
    n_asked += here.is_asked[i];
    n_proven += proves;
    sampler_rewind(here.samplers[i], step->position);
    step->logits = here.logits + (size_t)i * (size_t)n;
    sampler_choose(here.samplers[i], room, step, &by_row);
    if (proves && by_digest.id != by_row.id)
        fail_msg("row %d of %d, kind %d, want %d: token %d out of the digest, %d out of the row", i, n, kind,
                 here.asked.orders[i].want, by_digest.id, by_row.id);
    if (here.is_asked[i] && !proves && here.asked.orders[i].want != DIGEST_LIST && by_row.id >= 0)
        fail_msg("row %d of %d, kind %d: not proven, token %d", i, n, kind, by_row.id);
    sampler_free(here.samplers[i]);
}

static void digests_choose_as_rows_do(void **state) {
    static const int sizes[] = {1, 31, 33, 500, 1023, 1025, 4000, 32768, MOST};
    for (int round = 0; round < n_rounds; round++) {
        const int n = sizes[round % (int)HARNESS_COUNT(sizes)], kind = below(5);
        sampler_room *room;
        assert_int_equal(sampler_room_new(&room, n, NULL), QP_OK);
        for (int i = 0; i < rows_of(n); i++) fill_row(here.logits + (size_t)i * (size_t)n, n, kind);
        for (int i = 0; i < rows_of(n); i++) ask(i, n, room);
        fetch(n);
        for (int i = 0; i < rows_of(n); i++) compare(i, n, kind, room);
        sampler_room_free(room);
    }
    printf("%d digests asked for, %d proved a token\n", n_asked, n_proven);
    if (n_rounds >= (int)HARNESS_COUNT(sizes)) assert_true(n_proven * 10 > n_asked * 7); /* of all sizes together */
}

/* ---- the device ---- */

static void *take(size_t bytes) {
    void *out;
    qp_error err;
    if (there.gpu->ops->take(there.gpu, &out, bytes, &err) != QP_OK) fail_msg("%s", err.text);
    return out;
}

static int open_all(void **state) {
    const size_t bytes = (size_t)ROWS * MOST * sizeof(float);
    there.logits = take(bytes);
    there.changed = take(bytes);
    there.heads = take(sizeof here.heads);
    there.bodies = take(sizeof here.bodies);
    return 0;
}

static int close_all(void **state) {
    const size_t bytes = (size_t)ROWS * MOST * sizeof(float);
    const dev_ops *ops = there.gpu->ops;
    ops->give(there.gpu, there.logits, bytes);
    ops->give(there.gpu, there.changed, bytes);
    ops->give(there.gpu, there.heads, sizeof here.heads);
    ops->give(there.gpu, there.bodies, sizeof here.bodies);
    dev_close(there.gpu);
    return 0;
}

static bool find_gpu(void) {
    char path[4096];
    const dev_options o = cuda_test_options(1, false);
    if (cuda_open(&there.gpu, &o, NULL) == QP_OK) return true;
    is_emulated = true;
    return cuda_emulated_path(path, sizeof path) && cuda_open_from(&there.gpu, path, &o, NULL) == QP_OK;
}

int main(int argc, char **argv) {
    if (!find_gpu()) return puts("SKIP: no GPU, and no C++ compiler for an emulated one"), 77;
    if (argc > 1) n_rounds = atoi(argv[1]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests_choose_as_rows_do)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
