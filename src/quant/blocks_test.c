/* blocks_test.c — every type of GGUF's blocks against the weights that the reference package reads out of them, bit for
 * bit (tests/golden/gguf_blocks.json), and against its description as whole numbers. */
#include "blocks.h"
#include "tile_check.h"
#include "base/json.h"

static json_t *goldens;

static int read_goldens(void **state) {
    return json_load_path(&goldens, QUIPU_SOURCE "/tests/golden/gguf_blocks.json", 4 << 20, NULL) != QP_OK;
}
static int drop_goldens(void **state) {
    json_decref(goldens);
    return 0;
}

/* Exactly as long as the text says, one byte behind an aligned address. */
static uint8_t *from_hex(const json_t *item, const char *key, size_t *bytes) {
    const char *hex = json_string_value(json_object_get(item, key));
    assert_non_null(hex);
    *bytes = strlen(hex) / 2;
    uint8_t *out = mem_array(*bytes + 1, 1);
    for (size_t i = 0; i < *bytes; i++) {
        unsigned value = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        out[i + 1] = (uint8_t)value;
    }
    return out;
}

static void check_type(const quant_type *type, const json_t *item) {
    size_t stored_bytes, weight_bytes, bytes;
    uint8_t *stored = from_hex(item, "blocks", &stored_bytes), *weights = from_hex(item, "weights", &weight_bytes);
    const int64_t per_block = json_integer_value(json_object_get(item, "weights_of_block"));
    const int64_t n = (int64_t)(weight_bytes / 4), n_in = per_block == 256 ? 512 : 32;
    assert_true(type->bytes(&bytes, 1, per_block));
    assert_int_equal(bytes, json_integer_value(json_object_get(item, "bytes_of_block")));
    assert_false(type->bytes(&bytes, 1, per_block + 1));
    assert_false(type->bytes(&bytes, INT64_MAX, per_block * 8));
    quant_matrix m = quant_plain(type, n / n_in, n_in, stored + 1, stored_bytes);
    assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
    float *row = mem_array((size_t)n_in, sizeof *row);
    for (int64_t r = 0; r < m.n_out; r++) {
        type->unpack_row(row, &m, r);
        for (int64_t k = 0; k < n_in; k++) {
            float expected;
            memcpy(&expected, weights + 1 + (r * n_in + k) * 4, 4);
            if (memcmp(&row[k], &expected, 4))
                fail_msg("%s: row %lld, weight %lld is %.9g, the reference has %.9g", type->name, (long long)r,
                         (long long)k, (double)row[k], (double)expected);
        }
    }
    assert_true(tile_check(&m));
    m.part_bytes[0]--;
    qp_error err;
    assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
    assert_non_null(strstr(err.text, "expected"));
    mem_free(row);
    mem_free(stored);
    mem_free(weights);
}

static void equal_to_the_reference(void **state) {
#define X(id, format, name, n, size) QUANT_##id,
    static const quant_id ids[] = {BLOCK_FORMATS(X)};
#undef X
    assert_int_equal(json_object_size(goldens), HARNESS_COUNT(ids));
    for (size_t i = 0; i < HARNESS_COUNT(ids); i++) {
        const quant_type *type = quant_type_of(ids[i]);
        const json_t *item = json_object_get(goldens, type->name);
        if (!item) fail_msg("no golden for %s", type->name);
        check_type(type, item);
    }
}

static void every_name_is_found(void **state) {
    for (int i = 0; i < QUANT_COUNT; i++) {
        assert_ptr_equal(quant_find(quant_type_of((quant_id)i)->name), quant_type_of((quant_id)i));
        assert_int_equal(quant_type_of((quant_id)i)->id, i);
    }
    assert_null(quant_find("q4_k_m"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_the_reference),
        cmocka_unit_test(every_name_is_found),
    };
    return cmocka_run_group_tests(tests, read_goldens, drop_goldens);
}
