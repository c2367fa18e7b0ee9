/* pack_model_test.c — a model whose packed weights are kept in a file: the same bits at the second load, which maps
 * them, and none of them when the model's files have changed. And what has been packed is not read again. */
#include "goldens.h"
#include "base/file.h"
#include "model/model.h"
#include <fcntl.h>
#include <sys/stat.h>

enum { N = 40, VOCABULARY = 1520 };

typedef struct said {
    char all[2048];
} said;

static void hear(void *user, qp_log_level level, const char *line) {
    said *s = user;
    const size_t used = strlen(s->all);
    snprintf(s->all + used, sizeof s->all - used, "%s\n", line);
}

/* Logits of the model with its packed weights at `where`, NULL: not kept. */
static float *logits_at(const char *path, const char *where, qp_precision precision, said *s) {
    *s = (said){{0}};
    const qp_model_options o = {
        .size = sizeof o, .device = "cpu", .threads = 2, .precision = precision, .pack_cache = where, .log = {hear, s}};
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = (i * 37 + 5) % 1500;
    qp_model *m;
    qp_error err;
    if (qp_model_open(&m, path, &o, &err) != QP_OK) fail_msg("%s", err.text);
    float *out = logits_of(m, ids, N, N, 1 << 20, VOCABULARY);
    qp_model_close(m);
    return out;
}

static void expect_same(const char *path, const char *where, const float *expected, const char *says) {
    said s;
    float *got = logits_at(path, where, QP_PRECISION_FAST, &s);
    assert_memory_equal(got, expected, N * VOCABULARY * sizeof *got);
    if (!*says ? *s.all : !strstr(s.all, says)) fail_msg("said '%s', expected '%s'", s.all, says);
    mem_free(got);
}

static void copy_model(char *path, size_t capacity, const char *folder) {
    char *bytes;
    size_t n;
    assert_int_equal(file_read(&bytes, &n, QUIPU_SOURCE "/tests/golden/gguf/q8_0.gguf", 1 << 20, NULL), QP_OK);
    assert_true(snprintf(path, capacity, "%s/a.gguf", folder) < (int)capacity);
    assert_int_equal(file_write(path, bytes, n, NULL), QP_OK);
    mem_free(bytes);
}

static void set_written(const char *path, time_t when) {
    const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void kept_and_found(void **state) {
    char folder[64], path[128], kept[160], elsewhere[128];
    harness_folder(folder);
    copy_model(path, sizeof path, folder);
    set_written(path, 1000);
    snprintf(kept, sizeof kept, "%s.packed", path);
    said s;
    float *expected = logits_at(path, NULL, QP_PRECISION_FAST, &s);
    assert_false(file_exists(kept));

    expect_same(path, "model", expected, "will be written");
    if (!file_exists(kept)) {
        mem_free(expected);
        harness_remove(folder);
        HARNESS_SKIP("this machine has no kernels for packed weights");
    }
    uint64_t bytes, written, again;
    assert_true(file_stamp(&bytes, &written, kept));
    expect_same(path, "model", expected, "");
    assert_true(file_stamp(&bytes, &again, kept));
    assert_true(again == written);

    set_written(path, 2000); /* somebody wrote the model anew */
    expect_same(path, "model", expected, "made of other files");
    expect_same(path, "model", expected, "");

    snprintf(elsewhere, sizeof elsewhere, "%s/packs", folder);
    assert_int_equal(mkdir(elsewhere, 0777), 0);
    expect_same(path, elsewhere, expected, "will be written");
    expect_same(path, elsewhere, expected, "");
    char **names;
    size_t n;
    assert_int_equal(file_list(&names, &n, elsewhere, 10, NULL), QP_OK);
    assert_int_equal(n, 1);
    assert_int_equal(strncmp(names[0], "a.gguf-", 7), 0);
    mem_free(names);
    mem_free(expected);
    harness_remove(folder);
}

/* A cut file is noticed while weights are read, wherever it was cut; the load goes on as if there were none. */
static void cut_files(void **state) {
    char folder[64], path[128], kept[160], *bytes;
    size_t n;
    said s;
    harness_folder(folder);
    copy_model(path, sizeof path, folder);
    snprintf(kept, sizeof kept, "%s.packed", path);
    float *expected = logits_at(path, "model", QP_PRECISION_FAST, &s);
    if (file_exists(kept)) {
        assert_int_equal(file_read(&bytes, &n, kept, 4 << 20, NULL), QP_OK);
        for (size_t part = 0; part < 4; part++) {
            assert_int_equal(file_write(kept, bytes, n * part / 4, NULL), QP_OK);
            expect_same(path, "model", expected, "written anew");
        }
        mem_free(bytes);
    }
    mem_free(expected);
    harness_remove(folder);
}

static void where_nothing_is_kept(void **state) {
    char folder[64], path[128], kept[160];
    said s;
    harness_folder(folder);
    copy_model(path, sizeof path, folder);
    snprintf(kept, sizeof kept, "%s.packed", path);
    mem_free(logits_at(path, "model", QP_PRECISION_EXACT, &s));
    assert_non_null(strstr(s.all, "as they are stored"));
    assert_false(file_exists(kept));

    qp_model *m;
    qp_error err;
    const qp_model_options none = {.size = sizeof none, .device = "cpu", .pack_cache = "/no-such-folder"};
    assert_int_equal(qp_model_open(&m, path, &none, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "/no-such-folder is not a folder"));
    assert_int_equal(qp_model_synthesize(&m, qp_shape_name(0), "q4_0", 1, &none, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "random weights"));
    harness_remove(folder);
}

/* A page of the file that is touched now would be a bus error. It would bring the whole piece of the page cache around
 * it, so telling a model from others cost a third of its weights. */
static void identity_reads_no_file(void **state) {
    char folder[64], path[128];
    harness_folder(folder);
    copy_model(path, sizeof path, folder);
    model *m, *same;
    const model_options o = {.device = {.threads = 2}};
    assert_int_equal(model_open(&m, path, &o, NULL), QP_OK);
    assert_int_equal(model_open(&same, path, &o, NULL), QP_OK);
    const uint64_t identity = model_identity(m);
    assert_int_equal(truncate(path, 0), 0);
    assert_true(model_identity(same) == identity);
    model_close(m);
    model_close(same);
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_and_found),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(where_nothing_is_kept),
        cmocka_unit_test(identity_reads_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
