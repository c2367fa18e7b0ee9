/* safetensors_test.c — what is taken, what is refused and in which words; damaged files; writing and reading back. */
#include "safetensors.h"
#include "harness.h"
#include "base/json.h"
#include "base/rng.h"

/* ---- the reference library's verdicts ---- */

/* Where this reader differs, on purpose: always towards refusing. */
static const struct {
    const char *name, *says;
} stricter[] = {
    {"rank 9", "9 dimensions, allowed are 8"},
    {"tensor is an array", "the entry is an array, expected an object"},
    {"duplicate name, same", "duplicate object key"},
    {"duplicate key in metadata", "duplicate object key"},
    {"name with a zero byte", "\\u0000"},
    {"name of 1025 bytes", "the name has 1025 bytes, allowed are 1024"},
};

static const char *stricter_says(const char *name) {
    for (size_t i = 0; i < sizeof stricter / sizeof *stricter; i++)
        if (!strcmp(stricter[i].name, name)) return stricter[i].says;
    return NULL;
}

static uint8_t *from_hex(const char *hex, size_t *bytes) {
    *bytes = strlen(hex) / 2;
    uint8_t *out = malloc(*bytes ? *bytes : 1); /* exactly as large as the file: a read beyond it is seen */
    assert_non_null(out);
    for (size_t i = 0; i < *bytes; i++) {
        unsigned value = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        out[i] = (uint8_t)value;
    }
    return out;
}

static void check_case(const json_t *item) {
    const char *name = json_string_value(json_object_get(item, "name")), *says = stricter_says(name);
    const bool accept = json_is_true(json_object_get(item, "accept")) && !says;
    size_t bytes;
    uint8_t *file = from_hex(json_string_value(json_object_get(item, "hex")), &bytes);
    safetensors f;
    qp_error err = {0};
    const qp_status status = safetensors_parse(&f, file, bytes, "x.safetensors", &err);
    if ((status == QP_OK) != accept) fail_msg("%s: %s", name, status ? err.text : "accepted");
    if (says && !strstr(err.text, says)) fail_msg("%s: says \"%s\", expected \"%s\"", name, err.text, says);
    if (status && strncmp(err.text, "x.safetensors: ", 15)) fail_msg("%s: no file in \"%s\"", name, err.text);
    if (status && err.offset > bytes) fail_msg("%s: offset %llu of %zu", name, (unsigned long long)err.offset, bytes);
    safetensors_close(&f);
    free(file);
}

static void test_agrees_with_reference(void **state) {
    json_t *root;
    qp_error err;
    assert_int_equal(json_load_path(&root, QUIPU_SOURCE "/tests/golden/safetensors.json", 1 << 20, &err), QP_OK);
    const json_t *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) > 90);
    for (size_t i = 0; i < json_array_size(cases); i++) check_case(json_array_get(cases, i));
    json_decref(root);
}

/* ---- the words of errors ---- */

static uint8_t *make_file(const char *header, size_t data_bytes, size_t *bytes) {
    const size_t header_bytes = strlen(header);
    *bytes = 8 + header_bytes + data_bytes;
    uint8_t *file = calloc(*bytes, 1);
    assert_non_null(file);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)(header_bytes >> (8 * i));
    memcpy(file + 8, header, header_bytes);
    return file;
}

static const struct {
    const char *header;
    size_t data_bytes;
    const char *says;
} refusals[] = {
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,20]}}", 20,
     "m: tensor \"w\": shape [2, 3] of F32 needs 24 bytes, \"data_offsets\" give 20"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7,
     "m: tensor \"w\": \"data_offsets\" end at 8, but the file has 7 bytes of data"},
    {"{\"w\":{\"dtype\":\"Q4\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "m: tensor \"w\": \"dtype\" is \"Q4\", which is no type of this format"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,8]}}", 8,
     "m: tensor \"w\": \"shape\"[0] is negative, expected an integer of at least 0"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2.5],\"data_offsets\":[0,8]}}", 8,
     "m: tensor \"w\": \"shape\"[1] is a real number, expected an integer of at least 0"},
    {"{\"w\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "m: tensor \"w\": \"dtype\" is nothing, expected a string"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
     "m: tensor \"w\": \"data_offsets\" are 8 to 0, expected 0 <= begin <= end"},
    {"{\"v\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"w\":{\"dtype\":\"U8\",\"shape\":[4],"
     "\"data_offsets\":[2,6]}}",
     6, "m: tensor \"w\": begins at byte 2 of the data, but v ends at 4: they overlap"},
    {"{\"v\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"w\":{\"dtype\":\"U8\",\"shape\":[4],"
     "\"data_offsets\":[6,10]}}",
     10, "m: tensor \"w\": begins at byte 6 of the data, but v ends at 4: a hole"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 5,
     "m: the tensors end at byte 4 of the data, but the file has 5 bytes of it"},
    {"{\"a\\u001b[2Jb\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,5]}}", 5,
     "m: tensor \"a?[2Jb\": shape [4] of U8 needs 4 bytes, \"data_offsets\" give 5"},
    {"{\"__metadata__\":{\"n\":3}}", 0, "m: \"__metadata__\": \"n\" is an integer, expected a string"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],", 0,
     "m: the header is not valid JSON at line 1, column 32: string or '}' expected near end of file"},
};

static void test_errors_name_the_tensor(void **state) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        size_t bytes;
        uint8_t *file = make_file(refusals[i].header, refusals[i].data_bytes, &bytes);
        safetensors f;
        qp_error err;
        assert_int_equal(safetensors_parse(&f, file, bytes, "m", &err), QP_BAD_FORMAT);
        assert_string_equal(err.text, refusals[i].says);
        assert_null(f.tensors);
        free(file);
    }
}

static void test_header_bombs(void **state) {
    static const struct {
        char open;
        size_t count;
    } bombs[] = {{'[', 3000000}, {'{', 250001}, {',', 2000001}};
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        const size_t bytes = 8 + bombs[i].count;
        uint8_t *file = malloc(bytes);
        assert_non_null(file);
        for (int j = 0; j < 8; j++) file[j] = (uint8_t)((uint64_t)bombs[i].count >> (8 * j));
        memset(file + 8, bombs[i].open, bombs[i].count);
        safetensors f;
        qp_error err;
        assert_int_equal(safetensors_parse(&f, file, bytes, "m", &err), QP_TOO_LARGE);
        assert_non_null(strstr(err.text, "allowed are 250000 and 2000000"));
        free(file);
    }
}

/* ---- damage ---- */

static const char small_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"model.norm\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
    "\"model.w\":{\"dtype\":\"BF16\",\"shape\":[3,4],\"data_offsets\":[16,40]},\"e\":{\"dtype\":\"U8\",\"shape\":[0,7],"
    "\"data_offsets\":[40,40]},\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[40,48]}}  ";

static uint64_t sum_of(const safetensors *f) {
    uint64_t sum = 0;
    for (size_t i = 0; i < f->n_tensors; i++)
        for (size_t j = 0; j < f->tensors[i].bytes; j++) sum += f->tensors[i].data[j];
    return sum;
}

/* Every answer is either tensors that can be read to their last byte, or an error with words. */
static bool answer_is_sound(const uint8_t *file, size_t bytes) {
    safetensors f;
    qp_error err = {0};
    const qp_status status = safetensors_parse(&f, file, bytes, "m", &err);
    if (status == QP_OK) {
        assert_true(sum_of(&f) <= 255 * f.data_bytes);
        safetensors_close(&f);
        return true;
    }
    assert_int_equal(err.code, status);
    assert_true(strlen(err.text) > 10);
    return false;
}

static void test_every_truncation(void **state) {
    size_t bytes;
    uint8_t *file = make_file(small_header, 48, &bytes);
    assert_true(answer_is_sound(file, bytes));
    for (size_t n = 0; n < bytes; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, file, n);
        assert_false(answer_is_sound(cut, n));
        free(cut);
    }
    free(file);
}

/* One to four changes: a byte replaced, inserted or removed by a digit, a sign, a bracket or anything. */
static size_t corrupt(uint8_t *file, size_t bytes, size_t capacity, uint64_t round) {
    static const char likely[] = "0123456789-\"{}[],:.eE\\u \n";
    uint32_t r[4];
    rng_philox(20260, round, 0, r);
    const unsigned n_changes = 1 + r[3] % 4;
    for (unsigned i = 0; i < n_changes; i++) {
        rng_philox(20260, round, 1 + i, r);
        const size_t at = r[0] % bytes;
        const uint8_t value = r[1] % 2 ? (uint8_t)likely[r[2] % (sizeof likely - 1)] : (uint8_t)(r[2] >> 8);
        const unsigned how = r[3] % 8;
        if (how == 0 && bytes < capacity) memmove(file + at + 1, file + at, bytes++ - at);
        if (how == 1 && bytes > 1) memmove(file + at, file + at + 1, --bytes - at);
        if (how != 1) file[at] = value;
    }
    return bytes;
}

static void test_ten_thousand_corruptions(void **state) {
    size_t bytes;
    int n_accepted = 0;
    uint8_t *file = make_file(small_header, 48, &bytes);
    for (uint64_t round = 0; round < 10000; round++) {
        uint8_t work[512];
        memcpy(work, file, bytes);
        const size_t n = corrupt(work, bytes, sizeof work, round);
        uint8_t *exact = malloc(n);
        assert_non_null(exact);
        memcpy(exact, work, n);
        n_accepted += answer_is_sound(exact, n);
        free(exact);
    }
    print_message("%d of 10000 corrupted files still hold together\n", n_accepted);
    assert_in_range(n_accepted, 100, 5000); /* changes in data and names go unseen, changes in numbers do not */
    free(file);
}

static void test_allocation_failures(void **state) {
    size_t bytes;
    uint8_t *file = make_file(small_header, 48, &bytes);
    qp_status status = QP_NO_MEMORY;
    int64_t n = 0;
    for (; status == QP_NO_MEMORY && n < 100; n++) {
        safetensors f;
        mem_fail_after(n);
        status = safetensors_parse(&f, file, bytes, "m", NULL);
        mem_fail_after(-1);
        safetensors_close(&f);
    }
    assert_int_equal(status, QP_OK);
    assert_in_range(n, 3, 99);
    free(file);
}

/* ---- writing ---- */

static char folder[64];

static int make_folder(void **state) {
    harness_folder(folder);
    return 0;
}

static int remove_folder(void **state) { return rmdir(folder); }

static void test_write_and_read_back(void **state) {
    const float logits[6] = {0.5f, -1, 2, 3, -0.0f, 1e30f};
    const uint8_t nibbles[2] = {0x12, 0x34};
    const int64_t logits_shape[2] = {2, 3}, nibbles_shape[1] = {4}, empty_shape[2] = {0, 5};
    const safetensors_item items[] = {{"logits", DTYPE_F32, 2, logits_shape, logits},
                                      {"a \"name\"\n\xc3\xa4", DTYPE_F4, 1, nibbles_shape, nibbles},
                                      {"empty", DTYPE_I64, 2, empty_shape, NULL},
                                      {"scalar", DTYPE_U8, 0, NULL, nibbles}};
    const char *const metadata[] = {"format", "pt", "made by", "a \\ test", NULL};
    char path[128];
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    qp_error err;
    safetensors f;
    assert_int_equal(safetensors_write(path, items, 4, metadata, &err), QP_OK);
    assert_int_equal(safetensors_open(&f, path, &err), QP_OK);
    assert_int_equal(f.n_tensors, 4);
    assert_int_equal((size_t)(f.tensors[0].data - f.map.at) % 8, 0);
    assert_string_equal(f.tensors[0].name, "logits");
    assert_int_equal(f.tensors[0].rank, 2);
    assert_int_equal(f.tensors[0].shape[1], 3);
    assert_memory_equal(f.tensors[0].data, logits, sizeof logits);
    assert_string_equal(f.tensors[1].name, items[1].name);
    assert_memory_equal(f.tensors[1].data, nibbles, 2);
    assert_int_equal(f.data_bytes, 24 + 2 + 0 + 1);
    assert_string_equal(safetensors_metadata(&f, "made by"), "a \\ test");
    assert_null(safetensors_metadata(&f, "missing"));
    safetensors_close(&f);
    assert_int_equal(unlink(path), 0);
}

static void test_write_nothing(void **state) {
    char path[128];
    snprintf(path, sizeof path, "%s/n.safetensors", folder);
    safetensors f;
    qp_error err;
    assert_int_equal(safetensors_write(path, NULL, 0, NULL, &err), QP_OK);
    assert_int_equal(safetensors_open(&f, path, &err), QP_OK);
    assert_int_equal(f.n_tensors, 0);
    safetensors_close(&f);
    assert_int_equal(unlink(path), 0);
}

static void test_write_refuses(void **state) {
    const int64_t three[1] = {3}, huge[2] = {INT64_MAX, 3};
    const safetensors_item half_byte = {"h", DTYPE_F4, 1, three, ""}, too_large = {"t", DTYPE_F32, 2, huge, ""};
    char path[128];
    qp_error err;
    snprintf(path, sizeof path, "%s/r.safetensors", folder);
    assert_int_equal(safetensors_write(path, &half_byte, 1, NULL, &err), QP_BAD_ARGUMENT);
    assert_int_equal(safetensors_write(path, &too_large, 1, NULL, &err), QP_BAD_ARGUMENT);
    assert_string_equal(err.text, "tensor \"t\": its shape is too large or does not fill whole bytes of F32");
    assert_false(file_exists(path));
    snprintf(path, sizeof path, "%s/none/r.safetensors", folder);
    assert_int_equal(safetensors_write(path, NULL, 0, NULL, &err), QP_NO_FILE);
    snprintf(path, sizeof path, "%s/d", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_not_equal(safetensors_write(path, NULL, 0, NULL, &err), QP_OK);
    assert_int_equal(rmdir(path), 0);
}

static void test_write_to_a_device(void **state) {
    struct stat st;
    assert_int_equal(safetensors_write("/dev/null", NULL, 0, NULL, NULL), QP_OK);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    qp_error err;
    if (access("/dev/full", W_OK) != 0) HARNESS_SKIP("no /dev/full to write to");
    assert_int_equal(safetensors_write("/dev/full", NULL, 0, NULL, &err), QP_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_reference),
        cmocka_unit_test(test_errors_name_the_tensor),
        cmocka_unit_test(test_header_bombs),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_ten_thousand_corruptions),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_write_and_read_back),
        cmocka_unit_test(test_write_nothing),
        cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_write_to_a_device),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
