/* checkpoint_test.c — which files a folder's weights come from, the table of tensors, and hostile indexes. */
#include "checkpoint.h"
#include "harness.h"
#include "base/file.h"
#include "base/mem.h"
#include "safetensors.h"

static char folder[64];

static int make_folder(void **state) {
    harness_folder(folder);
    return 0;
}

static int empty_folder(void **state) {
    char **names, path[512];
    size_t count;
    if (file_list(&names, &count, folder, 1000, NULL) != QP_OK) return -1;
    for (size_t i = 0; i < count; i++)
        if (file_join(path, sizeof path, folder, names[i], NULL) == QP_OK) unlink(path);
    mem_free(names);
    return 0;
}

static int remove_folder(void **state) { return rmdir(folder); }

/* A shard with one-byte tensors: `names` separated by spaces; each holds its first letter. */
static void put_shard(const char *file, const char *names) {
    char path[512], copy[256];
    safetensors_item items[8];
    uint8_t data[8];
    const int64_t one[1] = {1};
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    snprintf(copy, sizeof copy, "%s", names);
    for (char *rest, *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest), n++) {
        data[n] = (uint8_t)name[0];
        items[n] = (safetensors_item){name, DTYPE_U8, 1, one, &data[n]};
    }
    const char *const metadata[] = {"format", "pt", NULL};
    assert_int_equal(safetensors_write(path, items, n, metadata, NULL), QP_OK);
}

static void put_text(const char *file, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(file_write(path, text, strlen(text), NULL), QP_OK);
}

static void expect_error(qp_status code, const char *says) {
    checkpoint *c;
    qp_error err = {0};
    const qp_status status = checkpoint_open(&c, folder, &err);
    assert_null(c);
    if (!strstr(err.text, says)) fail_msg("says \"%s\", expected \"%s\"", err.text, says);
    assert_int_equal(status, code);
}

static void expect_tensor(const checkpoint *c, const char *name, const char *file) {
    const ckpt_tensor *t = checkpoint_find(c, name);
    assert_non_null(t);
    assert_string_equal(t->name, name);
    assert_int_equal(t->data[0], name[0]);
    assert_string_equal(checkpoint_file_name(c, t->file), file);
    checkpoint_will_need(c, t);
    checkpoint_release(c, t->data, t->bytes);
    assert_int_equal(t->data[0], name[0]); /* comes again */
}

static void test_single_file_comes_first(void **state) {
    checkpoint *c;
    put_shard("model.safetensors", "a b");
    put_shard("model-00001-of-00001.safetensors", "c");
    put_text("model.safetensors.index.json", "{\"weight_map\":{\"c\":\"model-00001-of-00001.safetensors\"}}");
    assert_int_equal(checkpoint_open(&c, folder, NULL), QP_OK);
    assert_int_equal(checkpoint_count(c), 2);
    expect_tensor(c, "a", "model.safetensors");
    assert_null(checkpoint_find(c, "c"));
    assert_null(checkpoint_find(c, ""));
    assert_null(checkpoint_at(c, 2));
    assert_string_equal(checkpoint_at(c, 1)->name, "b");
    assert_int_equal(checkpoint_bytes(c), 2);
    assert_string_equal(checkpoint_metadata(c, "format"), "pt");
    assert_null(checkpoint_metadata(c, "other"));
    assert_null(checkpoint_file_name(c, 1));
    checkpoint_close(c);
    checkpoint_close(NULL);
}

/* Bytes of files that this process has in memory. */
static size_t mapped_bytes(void) {
    unsigned long pages = 0, resident, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu %lu", &pages, &resident, &shared), 3);
    fclose(file);
    return shared * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_pages_are_given_back(void **state) {
    enum { BYTES = 8 << 20 };
    char path[512];
    uint8_t *data = mem_zarray(BYTES, 1);
    const int64_t shape[1] = {BYTES};
    checkpoint *c;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    data[BYTES - 1] = 7;
    assert_int_equal(safetensors_write(path, &(safetensors_item){"a", DTYPE_U8, 1, shape, data}, 1, NULL, NULL), QP_OK);
    assert_int_equal(checkpoint_open(&c, folder, NULL), QP_OK);
    const ckpt_tensor *t = checkpoint_find(c, "a");
    unsigned sum = 0;
    const size_t before = mapped_bytes();
    for (size_t i = 0; i < BYTES; i += 512) sum += t->data[i];
    assert_int_equal(sum, 0);
    const size_t read = mapped_bytes();
    assert_true(read >= before + BYTES / 2);
    checkpoint_release(c, t->data, t->bytes);
    assert_true(mapped_bytes() <= read - BYTES / 2);
    assert_int_equal(t->data[BYTES - 1], 7);
    data[5] = 9; /* memory of others is left alone */
    checkpoint_release(c, data, BYTES);
    checkpoint_release(c, t->data + 1, SIZE_MAX);
    assert_int_equal(data[5], 9);
    checkpoint_close(c);
    mem_free(data);
}

static void test_index(void **state) {
    checkpoint *c;
    put_shard("first.safetensors", "a b not_in_index");
    put_shard("second.safetensors", "c");
    put_text("model.safetensors.index.json",
             "{\"metadata\":{\"total_size\":3},\"weight_map\":{\"a\":\"first.safetensors\""
             ",\"c\":\"second.safetensors\",\"b\":\"first.safetensors\"}}");
    assert_int_equal(checkpoint_open(&c, folder, NULL), QP_OK);
    assert_int_equal(checkpoint_n_files(c), 2);
    assert_int_equal(checkpoint_count(c), 4);
    expect_tensor(c, "b", "first.safetensors");
    expect_tensor(c, "c", "second.safetensors");
    expect_tensor(c, "not_in_index", "first.safetensors");
    checkpoint_close(c);
}

static void test_shards_without_index(void **state) {
    checkpoint *c;
    put_shard("model-00002-of-00002.safetensors", "b");
    put_shard("model-00001-of-00002.safetensors", "a");
    put_shard("other.safetensors", "z");
    assert_int_equal(checkpoint_open(&c, folder, NULL), QP_OK);
    assert_int_equal(checkpoint_count(c), 2);
    assert_string_equal(checkpoint_file_name(c, 0), "model-00001-of-00002.safetensors");
    expect_tensor(c, "b", "model-00002-of-00002.safetensors");
    checkpoint_close(c);
}

static void test_missing_files_are_named(void **state) {
    expect_error(QP_NO_FILE, "no weights: neither model.safetensors nor");
    put_shard("model-00001-of-00003.safetensors", "a");
    put_shard("model-00003-of-00003.safetensors", "b");
    expect_error(QP_NO_FILE, "/model-00002-of-00003.safetensors: no such file; 2 of 3 shards are there");
    put_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"model-00009-of-00009.safetensors\"}}");
    expect_error(QP_NO_FILE, "/model-00009-of-00009.safetensors: cannot open: ");
    checkpoint *c;
    qp_error err;
    assert_int_equal(checkpoint_open(&c, "/no/such/folder", &err), QP_NO_FILE);
    assert_non_null(strstr(err.text, "/no/such/folder: cannot list: "));
}

static void test_tensor_twice(void **state) {
    put_shard("model-1.safetensors", "a b");
    put_shard("model-2.safetensors", "c b");
    expect_error(QP_BAD_FORMAT, ": tensor \"b\" is in both model-1.safetensors and model-2.safetensors");
}

static const struct {
    const char *index, *says;
} bad_indexes[] = {
    {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}",
     ": tensor \"a\" is in \"../x.safetensors\", expected a file of the same folder"},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", ": tensor \"a\" is in \"/etc/passwd\", expected a file of"},
    {"{\"weight_map\":{\"a\":\"sub/x.safetensors\"}}", ": tensor \"a\" is in \"sub/x.safetensors\", expected"},
    {"{\"weight_map\":{\"a\":\"..\"}}", "expected a file of the same folder"},
    {"{\"weight_map\":{\"a\":\".\"}}", "expected a file of the same folder"},
    {"{\"weight_map\":{\"a\":\"\"}}", "expected a file of the same folder"},
    {"{\"weight_map\":{\"a\\u001b\":7}}", ": the file of tensor \"a?\" is an integer, expected a string"},
    {"{\"weight_map\":{}}", ": \"weight_map\" is empty"},
    {"{\"weight_map\":[]}", ": \"weight_map\" is an array, expected an object"},
    {"{}", ": \"weight_map\" is missing"},
    {"[]", ": is an array, expected an object"},
    {"{\"weight_map\":", ": not valid JSON at line 1"},
    {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\"}}",
     ": tensor \"b\" is said to be in one.safetensors, but is in none of the files"},
    {"{\"weight_map\":{\"a\":\"one.safetensors\",\"z\":\"one.safetensors\",\"y\":\"two.safetensors\"}}",
     ": tensor \"z\" is said to be in one.safetensors, but is in two.safetensors"},
    {"{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}", "not a safetensors file?"},
};

static void test_bad_indexes(void **state) {
    put_shard("one.safetensors", "a");
    put_shard("two.safetensors", "z y");
    for (size_t i = 0; i < sizeof bad_indexes / sizeof *bad_indexes; i++) {
        put_text("model.safetensors.index.json", bad_indexes[i].index);
        expect_error(QP_BAD_FORMAT, bad_indexes[i].says);
    }
}

static void test_broken_file_is_named(void **state) {
    put_text("model.safetensors", "hello");
    expect_error(QP_BAD_FORMAT, "/model.safetensors: 5 bytes, a safetensors file has at least 8");
}

static void test_many_tensors_are_found(void **state) {
    enum { N = 3000 };
    static char names[N][24];
    static safetensors_item items[N];
    static uint32_t data[N];
    char path[128];
    checkpoint *c;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "layers.%d.weight", i);
        data[i] = (uint32_t)i;
        items[i] = (safetensors_item){names[i], DTYPE_U32, 0, NULL, &data[i]};
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(safetensors_write(path, items, N, NULL, NULL), QP_OK);
    assert_int_equal(checkpoint_open(&c, folder, NULL), QP_OK);
    for (int i = 0; i < N; i++) assert_memory_equal(checkpoint_find(c, names[i])->data, &data[i], 4);
    checkpoint_close(c);
}

static void test_allocation_failures(void **state) {
    put_shard("first.safetensors", "a b");
    put_shard("second.safetensors", "c");
    put_text("model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"first.safetensors\",\"c\":\"second.safetensors\"}}");
    qp_status status = QP_NO_MEMORY;
    int64_t n = 0;
    for (; status == QP_NO_MEMORY && n < 200; n++) {
        checkpoint *c;
        mem_fail_after(n);
        status = checkpoint_open(&c, folder, NULL);
        mem_fail_after(-1);
        checkpoint_close(c);
    }
    assert_int_equal(status, QP_OK);
    assert_in_range(n, 8, 199);
}

static void test_fixture_shards(void **state) {
    const char *const path = QUIPU_FIXTURES "/models/llama-gqa-tied-bias";
    if (!file_exists(path)) HARNESS_SKIP("%s is not there", path);
    checkpoint *c;
    assert_int_equal(checkpoint_open(&c, path, NULL), QP_OK);
    assert_int_equal(checkpoint_n_files(c), 2);
    const ckpt_tensor *t = checkpoint_find(c, "model.layers.2.self_attn.q_proj.weight");
    assert_non_null(t);
    assert_int_equal(t->type, DTYPE_BF16);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 96);
    assert_int_equal(t->shape[1], 64);
    assert_int_equal(t->bytes, 96 * 64 * 2);
    checkpoint_close(c);
}

int main(void) {
#define CASE(test) cmocka_unit_test_teardown(test, empty_folder)
    const struct CMUnitTest tests[] = {
        CASE(test_single_file_comes_first),
        CASE(test_pages_are_given_back),
        CASE(test_index),
        CASE(test_shards_without_index),
        CASE(test_missing_files_are_named),
        CASE(test_tensor_twice),
        CASE(test_bad_indexes),
        CASE(test_broken_file_is_named),
        CASE(test_many_tensors_are_found),
        CASE(test_allocation_failures),
        CASE(test_fixture_shards),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
