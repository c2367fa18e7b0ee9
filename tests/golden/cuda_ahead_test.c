/* cuda_ahead_test.c — steps of a model that were written down while the GPU computed the one before: they are used
 * where they are what comes, never else, and the logits are those of steps that were not.
 *
 * On the machine's GPU, else on the emulated one. */
#include "cuda_harness.h"
#include "base/mem.h"
#include "dev/cuda/cuda.h"
#include "gen/seq.h"
#include "model/model.h"
#include <dlfcn.h>

enum { N = 12, WIDTH = 1 << 12, TOKENS = 2048, UNSEEN = 3 /* steps before a list is a graph */ };

static struct {
    model *m;
    seq_room room;
    cuda_device *c;
} it;

typedef float rows[N][WIDTH];
static rows expected, found;

static int32_t id_of(int i) { return (i * 37 + 11) % 500; }

static int proceeded(void) { return it.c->queue.n_proceeded; }

/* `count` ids behind those that the sequence has, the logits of the last one. */
static void feed(seq *s, int count, float *logits) {
    int32_t ids[TOKENS];
    qp_error err;
    assert_true(count <= TOKENS);
    for (int i = 0; i < count; i++) ids[i] = id_of((int)s->chain.length + i);
    const seq_feed f = {.seq = s, .ids = ids, .count = (size_t)count, .last = 1};
    if (seq_run(&f, 1, logits, &err) != QP_OK) fail_msg("%s", err.text);
}

/* N tokens behind a prompt, one by one; `between` what happens before each. Returns how many had been expected. */
static int decode(rows out, int prompt, void (*between)(seq *s, int i)) {
    static float unused[WIDTH];
    seq s;
    seq_open(&s, &it.room);
    feed(&s, prompt, unused);
    const int before = proceeded();
    for (int i = 0; i < N; i++) {
        if (between) between(&s, i);
        feed(&s, 1, out[i]);
    }
    seq_close(&s);
    return proceeded() - before;
}

static void same(rows a, rows b) {
    for (int i = 0; i < N; i++)
        if (memcmp(a[i], b[i], (size_t)it.m->shape.vocabulary * sizeof(float))) fail_msg("token %d", i);
}

/* What a device does that is never told what to expect. */
static void decode_unexpected(rows out, int prompt) {
    next_step *const kept = it.m->forward.expected;
    assert_non_null(kept);
    it.m->forward.expected = NULL;
    assert_int_equal(decode(out, prompt, NULL), 0);
    it.m->forward.expected = kept;
}

static void expected_steps_are_used(void **state) {
    decode_unexpected(expected, 5);
    assert_in_range(decode(found, 5, NULL), N - UNSEEN, N);
    same(expected, found);
    assert_in_range(decode(found, 5, NULL), N - 1, N); /* the first follows a prompt */
    same(expected, found);
}

/* The page of a token that begins one is not known before. */
static void pages_begin(void **state) {
    decode_unexpected(expected, DEV_PAGE_TOKENS - 4);
    decode(found, DEV_PAGE_TOKENS - 4, NULL);
    same(expected, found);
    assert_in_range(decode(found, DEV_PAGE_TOKENS - 4, NULL), N - 2, N - 1);
    same(expected, found);
}

static void give_memory(seq *s, int i) {
    void *memory;
    assert_int_equal(it.c->head.ops->take(&it.c->head, &memory, 1 << 12, NULL), QP_OK);
    it.c->head.ops->give(&it.c->head, memory, 1 << 12);
}

static void compute_another(seq *s, int i) {
    static float unused[WIDTH];
    seq other;
    seq_open(&other, s->room);
    feed(&other, 1 + i % 3, unused);
    seq_close(&other);
}

static void queue_something(seq *s, int i) {
    const device *d = &it.c->head;
    const float x[4] = {0};
    d->ops->upload(&it.c->head, it.m->forward.low, x, sizeof x);
}

static void submit_something(seq *s, int i) {
    queue_something(s, i);
    assert_int_equal(it.c->head.ops->finish(&it.c->head, NULL), QP_OK);
}

/* The same token once more. */
static void go_back(seq *s, int i) {
    static float unused[WIDTH];
    feed(s, 1, unused);
    seq_rewind(s, s->chain.length - 1);
}

static void other_steps_are_not(void **state) {
    static void (*const between[])(seq * s, int i) = {give_memory, compute_another, queue_something, submit_something,
                                                      go_back};
    decode_unexpected(expected, 5);
    for (size_t i = 0; i < HARNESS_COUNT(between); i++) {
        const int n = decode(found, 5, between[i]);
        if (n && between[i] != go_back) fail_msg("case %zu: %d", i, n);
        same(expected, found);
    }
}

/* Two sequences, then one, then two. */
static void sequences_come_and_go(void **state) {
    static rows two[2];
    static float logits[2 * WIDTH];
    const size_t width = (size_t)it.m->shape.vocabulary;
    qp_error err;
    seq s[2];
    decode_unexpected(two[0], 3);
    decode_unexpected(two[1], 8);
    for (int i = 0; i < 2; i++) {
        seq_open(&s[i], &it.room);
        feed(&s[i], i ? 8 : 3, logits);
    }
    const int before = proceeded();
    for (int i = 0; i < N - 1; i++) {
        const int32_t ids[2] = {id_of((int)s[0].chain.length), id_of((int)s[1].chain.length)};
        const seq_feed f[2] = {{.seq = &s[0], .ids = &ids[0], .count = 1, .last = 1},
                               {.seq = &s[1], .ids = &ids[1], .count = 1, .last = 1}};
        const int n = i == N / 2 ? 1 : 2;
        if (seq_run(f, n, logits, &err) != QP_OK) fail_msg("%s", err.text);
        assert_memory_equal(logits, two[0][i], width * sizeof(float));
        if (n == 2) assert_memory_equal(logits + width, two[1][i - (i > N / 2)], width * sizeof(float));
    }
    assert_in_range(proceeded() - before, 1, N - 2);
    for (int i = 0; i < 2; i++) seq_close(&s[i]);
}

/* ---- steps that begin with the likeliest ids ---- */

static int led(void) { return it.c->queue.n_led; }

static void step_best(seq *const *sequences, int32_t *ids, int n) {
    qp_error err;
    if (seq_run_best(sequences, ids, n, &err) != QP_OK) fail_msg("%s", err.text);
}

/* N greedy tokens behind a prompt; `between` what happens before each, and to its id. The logits of the last one, too,
 * which tell whether keys and values are right. Returns how many steps had begun. */
static int generate(int32_t out[N], float *logits, int prompt, void (*between)(seq *s, int i, int32_t *id)) {
    static float unused[WIDTH];
    qp_error err;
    seq s;
    seq *all[] = {&s};
    seq_open(&s, &it.room);
    feed(&s, prompt, unused);
    const int before = led();
    int32_t id = 7;
    for (int i = 0; i < N; i++) {
        if (between) between(&s, i, &id);
        step_best(all, &id, 1);
        out[i] = id;
    }
    const int n = led() - before;
    const seq_feed f = {.seq = &s, .ids = &id, .count = 1, .last = 1};
    if (seq_run(&f, 1, logits, &err) != QP_OK) fail_msg("%s", err.text);
    seq_close(&s);
    return n;
}

static void generate_unexpected(int32_t out[N], float *logits, int prompt,
                                void (*between)(seq *s, int i, int32_t *id)) {
    next_step *const kept = it.m->forward.expected;
    it.m->forward.expected = NULL;
    assert_int_equal(generate(out, logits, prompt, between), 0);
    it.m->forward.expected = kept;
}

static void likely_another(seq *s, int i, int32_t *id) { *id = i % 3 == 2 ? id_of(i) : *id; }
static void likely_memory(seq *s, int i, int32_t *id) { give_memory(s, i); }
static void likely_other(seq *s, int i, int32_t *id) { compute_another(s, i); }
static void likely_upload(seq *s, int i, int32_t *id) { submit_something(s, i); }
static void likely_again(seq *s, int i, int32_t *id) {
    int32_t first = *id;
    seq *all[] = {s};
    if (i % 4 != 3) return;
    step_best(all, &first, 1);
    seq_rewind(s, s->chain.length - 1);
}
static void likely_back(seq *s, int i, int32_t *id) {
    if (i % 5 == 4) seq_rewind(s, s->chain.length - 2);
}

static void best_steps_have_begun(void **state) {
    static const struct {
        void (*between)(seq *s, int i, int32_t *id);
        int least, most; /* steps that had begun, of N; every list of launches has been a graph by then */
    } cases[] = {{NULL, N - 2, N - 1},  {likely_another, 4, 8}, {likely_memory, 0, 0}, {likely_other, 0, 0},
                 {likely_upload, 0, 0}, {likely_again, 4, N},   {likely_back, 4, N}};
    int32_t wanted[N], got[N], unused[N];
    static float logits[2][WIDTH];
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++)
        for (int prompt = 5; prompt < DEV_PAGE_TOKENS; prompt += DEV_PAGE_TOKENS - 10) { /* and where a page ends */
            generate_unexpected(wanted, logits[0], prompt, cases[i].between);
            for (int k = 0; k < 3; k++) generate(unused, logits[1], prompt, NULL);
            const int n = generate(got, logits[1], prompt, cases[i].between);
            if (memcmp(wanted, got, sizeof got)) fail_msg("case %zu, prompt of %d: other ids", i, prompt);
            assert_memory_equal(logits[0], logits[1], (size_t)it.m->shape.vocabulary * sizeof(float));
            if (n < cases[i].least - (prompt > 5) || n > cases[i].most) fail_msg("case %zu: %d had begun", i, n);
        }
}

/* Of several sequences, until there are too many for that. */
static void best_steps_of_several(void **state) {
    enum { MOST = STEP_MOST_LED + 1 };
    static float unused[WIDTH];
    int32_t alone[MOST][N], ids[MOST];
    seq s[MOST], *all[MOST];
    for (int i = 0; i < MOST; i++) generate_unexpected(alone[i], unused, 3 + i, NULL);
    for (int n = 1; n <= MOST; n++) {
        for (int i = 0; i < n; i++) {
            all[i] = &s[i];
            seq_open(&s[i], &it.room);
            feed(&s[i], 3 + i, unused);
            ids[i] = 7;
        }
        const int before = led();
        for (int k = 0; k < N; k++) {
            step_best(all, ids, n);
            for (int i = 0; i < n; i++) assert_int_equal(ids[i], alone[i][k]);
        }
        assert_in_range(led() - before, n == MOST ? 0 : N - 2 * UNSEEN, n == MOST ? 0 : N);
        for (int i = 0; i < n; i++) seq_close(&s[i]);
    }
}

/* Tables of more bytes than have room, and ids of another number. */
static void what_cannot_be_is_dropped(void **state) {
    device *d = &it.c->head;
    enum { BYTES = 200 << 10 };
    uint8_t *bytes = mem_zarray(1, BYTES);
    void *memory;
    const int32_t ids[2] = {1, 2};
    qp_error err;
    assert_non_null(bytes);
    assert_int_equal(d->ops->take(d, &memory, BYTES, NULL), QP_OK);
    assert_true(d->ops->expect(d) > 0);
    for (int i = 0; i < LAUNCH_TABLE_BYTES / BYTES + 2; i++) {
        bytes[0] = (uint8_t)(i + 1);
        d->ops->upload(d, memory, bytes, BYTES);
    }
    d->ops->expected(d);
    assert_false(d->ops->proceed(d, it.c->queue.ahead.name, ids, 1));
    d->ops->download(d, bytes, memory, BYTES);
    assert_int_equal(bytes[0], 0); /* nothing was done */
    assert_true(decode(found, 5, NULL) > 0);
    assert_true(it.c->queue.ahead.is_there);
    assert_false(d->ops->proceed(d, it.c->queue.ahead.name - 1, ids, 1));
    assert_true(it.c->queue.ahead.is_there);
    assert_false(d->ops->proceed(d, it.c->queue.ahead.name, ids, 2));
    assert_false(d->ops->proceed(d, it.c->queue.ahead.name, ids, 1));
    if (d->ops->finish(d, &err) != QP_OK) fail_msg("%s", err.text);
    d->ops->give(d, memory, BYTES);
    mem_free(bytes);
}

static int open_model(void **state) {
    model_options o = {.device = cuda_test_options(1, false)};
    qp_error err;
    o.device.kind = "cuda";
    if (model_synthesize(&it.m, "tiny", "q4_0", 7, &o, &err) != QP_OK) fail_msg("%s", err.text);
    if (seq_room_open(&it.room, it.m, TOKENS, QP_CACHE_DEFAULT, &err) != QP_OK) fail_msg("%s", err.text);
    it.c = (cuda_device *)(void *)it.m->forward.dev;
    assert_true(it.m->shape.vocabulary <= WIDTH);
    return 0;
}

static int close_model(void **state) {
    seq_room_close(&it.room);
    model_close(it.m);
    return 0;
}

/* Its name inside is the driver's, so that whoever opens that finds it. */
static bool find_gpu(void) {
    char path[4096];
    return cuda_has_gpu() || (cuda_emulated_path(path, sizeof path) && dlopen(path, RTLD_NOW));
}

int main(void) {
    if (!find_gpu()) return puts("SKIP: no GPU, and no C++ compiler for an emulated one"), 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expected_steps_are_used),   cmocka_unit_test(pages_begin),
        cmocka_unit_test(other_steps_are_not),       cmocka_unit_test(sequences_come_and_go),
        cmocka_unit_test(best_steps_have_begun),     cmocka_unit_test(best_steps_of_several),
        cmocka_unit_test(what_cannot_be_is_dropped),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
