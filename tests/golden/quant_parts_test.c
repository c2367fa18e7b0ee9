/* quant_parts_test.c — NF4, FP4, NVFP4 and EXL3: values as the formats' own libraries compute them
 * (make_quant_parts.py), folders in each spelling against plain ones, and files with something wrong. */
#include "goldens.h"
#include "base/file.h"
#include "base/str.h"
#include "model/quantised.h"
#include "quant/exl3.h"
#include "tile_check.h"
#include <sys/stat.h>

static json_t *goldens;

static int read_goldens(void **state) {
    return json_load_path(&goldens, QUIPU_SOURCE "/tests/golden/quant_parts.json", 1 << 20, NULL) != QP_OK;
}

static int drop_goldens(void **state) {
    json_decref(goldens);
    return 0;
}

/* ---- parts ---- */

enum { PARTS = 8 };

typedef struct parts {
    uint8_t *at[PARTS];
    size_t bytes[PARTS];
} parts;

static unsigned nibble(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }

static void take_hex(parts *p, int i, const json_t *from, const char *name) {
    const char *hex = json_string_value(json_object_get(from, name));
    if (!hex) fail_msg("no part %s", name);
    p->bytes[i] = strlen(hex) / 2;
    p->at[i] = mem_array(p->bytes[i] + 1, 1);
    assert_non_null(p->at[i]);
    for (size_t k = 0; k < p->bytes[i]; k++) p->at[i][k] = (uint8_t)(nibble(hex[2 * k]) << 4 | nibble(hex[2 * k + 1]));
}

static void drop_parts(parts *p) {
    for (int i = 0; i < PARTS; i++) mem_free(p->at[i]);
    *p = (parts){0};
}

static int64_t number(const json_t *item, const char *key) { return json_integer_value(json_object_get(item, key)); }

/* ---- values ---- */

static void same_rows(const quant_matrix *m, const json_t *values, double within) {
    float *row = mem_array((size_t)m->n_in, sizeof *row);
    assert_int_equal(json_array_size(values), m->n_out * m->n_in);
    for (int64_t n = 0; n < m->n_out; n++) {
        m->type->unpack_row(row, m, n);
        for (int64_t k = 0; k < m->n_in; k++) {
            const double expected = json_number_value(json_array_get(values, (size_t)(n * m->n_in + k)));
            if (!(fabs((double)row[k] - expected) <= within * fabs(expected)))
                fail_msg("%s: value %lld of row %lld is %.9g, expected %.9g", m->type->name, (long long)k, (long long)n,
                         (double)row[k], expected);
        }
    }
    mem_free(row);
}

static quant_matrix make_nf4(parts *p, const json_t *item) {
    static const char *const names[] = {"weight", "absmax", "quant_map", "nested_absmax", "nested_quant_map"};
    const json_t *from = json_object_get(item, "parts");
    const bool is_nested = json_object_get(from, "nested_absmax") != NULL;
    quant_matrix m = {.type = quant_type_of(QUANT_NF4),
                      .n_out = number(item, "rows"),
                      .n_in = number(item, "cols"),
                      .group = 64,
                      .row_group = is_nested ? 256 : 0};
    for (int i = 0; i < (is_nested ? 5 : 3); i++) {
        take_hex(p, i, from, names[i]);
        m.parts[i] = p->at[i];
        m.part_bytes[i] = p->bytes[i];
    }
    if (!is_nested) return m;
    const char *state = json_object_get(from, "quant_state.bitsandbytes__nf4") ? "quant_state.bitsandbytes__nf4"
                                                                               : "quant_state.bitsandbytes__fp4";
    take_hex(p, 5, from, state);
    json_t *said;
    assert_int_equal(json_parse(&said, (const char *)p->at[5], p->bytes[5], state, NULL), QP_OK);
    m.offset = (float)json_number_value(json_object_get(said, "nested_offset"));
    json_decref(said);
    return m;
}

/* As floats by code: the same weights, to the bit. */
static void check_coded(const quant_matrix *m) {
    quant_coded coded;
    float *row = mem_array((size_t)m->n_in, sizeof *row);
    assert_true(m->type->coded(&coded, m));
    assert_int_equal(coded.codes, QUANT_CODES_TABLE);
    assert_true(coded.group == m->group && coded.row_group == 1);
    for (int64_t n = 0; n < m->n_out; n++) {
        const uint8_t *codes = (const uint8_t *)m->parts[0] + n * m->n_in / 2;
        m->type->unpack_row(row, m, n);
        for (int64_t k = 0; k < m->n_in; k++)
            assert_true(row[k] == coded.values[codes[k / 2] >> (k % 2 ? 0 : 4) & 15] * m->type->scale(m, n, k));
    }
    mem_free(row);
    quant_matrix half = *m; /* rows that begin inside a block */
    half.n_out *= 2;
    half.n_in /= 2;
    if (half.n_in % half.group) assert_false(half.type->coded(&coded, &half));
}

static void four_bits_of_bitsandbytes(void **state) {
    const json_t *list = json_object_get(goldens, "nf4");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        parts p = {{0}, {0}};
        quant_matrix m = make_nf4(&p, item);
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        same_rows(&m, json_object_get(item, "values"), 1e-6);
        check_coded(&m);
        for (int part = 0; part < 5; part++) { /* each part a byte too short, or too long */
            if (!m.parts[part]) continue;
            for (int off = -1; off <= 1; off += 2) {
                quant_matrix bad = m;
                qp_error err;
                bad.part_bytes[part] += (size_t)off;
                assert_int_equal(quant_open(&bad, "w", &err), QP_BAD_FORMAT);
                assert_non_null(strstr(err.text, "expected"));
            }
        }
        drop_parts(&p);
    }
}

static quant_matrix make_nvfp4(parts *p, const json_t *item, bool is_divided) {
    static const char *const names[] = {"weight", "weight_scale", "whole"};
    quant_matrix m = {.type = quant_type_of(QUANT_NVFP4),
                      .n_out = number(item, "rows"),
                      .n_in = number(item, "cols"),
                      .is_divided = is_divided};
    for (int i = 0; i < 3; i++) {
        take_hex(p, i, json_object_get(item, "parts"), names[i]);
        m.parts[i] = p->at[i];
        m.part_bytes[i] = p->bytes[i];
    }
    return m;
}

static void nvfp4_both_ways(void **state) {
    const json_t *item = json_object_get(goldens, "nvfp4");
    for (int divided = 0; divided < 2; divided++) {
        parts p = {{0}, {0}};
        quant_matrix m = make_nvfp4(&p, item, divided);
        qp_error err;
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        same_rows(&m, json_object_get(item, divided ? "divided" : "multiplied"), 0);
        assert_true(tile_check(&m));
        for (int part = 0; part < 3; part++) {
            quant_matrix bad = m;
            bad.part_bytes[part]--;
            assert_int_equal(quant_open(&bad, "w", &err), QP_BAD_FORMAT);
            assert_non_null(strstr(err.text, "bytes of codes"));
        }
        static const float wholes[] = {0, -1, INFINITY, NAN};
        for (size_t i = 0; i < HARNESS_COUNT(wholes); i++) {
            memcpy(p.at[2], &wholes[i], 4);
            assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
            assert_non_null(strstr(err.text, "scale of the whole matrix"));
        }
        drop_parts(&p);
    }
}

/* ---- EXL3 ---- */

static uint8_t byte_of(uint64_t i, unsigned bits) { return (uint8_t)((i * 2654435761u + bits * 40503u) >> 13); }

/* Signs for the inputs, float16 for the outputs; outputs first as everywhere here. */
static quant_matrix make_exl3(parts *p, int bits, int codebook, int64_t rows, int64_t cols) {
    p->bytes[0] = (size_t)(rows * cols / 8 * bits);
    p->bytes[1] = (size_t)cols / 8;
    p->bytes[2] = (size_t)rows * 2;
    for (int i = 0; i < 3; i++) assert_non_null(p->at[i] = mem_zarray(p->bytes[i], 1));
    for (size_t i = 0; i < p->bytes[0]; i++) p->at[0][i] = byte_of(i, (unsigned)bits);
    for (int64_t k = 0; k < cols; k++)
        if (k % 3 == 1) p->at[1][k / 8] |= (uint8_t)(1 << k % 8);
    for (int64_t n = 0; n < rows; n++) {
        const uint16_t half = (uint16_t)(0x2400 + n * 5);
        memcpy(p->at[2] + 2 * n, &half, 2);
    }
    return (quant_matrix){.type = &quant_exl3,
                          .n_out = rows,
                          .n_in = cols,
                          .bits = bits,
                          .codebook = codebook,
                          .parts = {p->at[0], p->at[1], p->at[2]},
                          .part_bytes = {p->bytes[0], p->bytes[1], p->bytes[2]}};
}

static void check_exl3_row(const float *row, const json_t *expected, int bits) {
    for (size_t k = 0; k < json_array_size(expected); k++)
        if (!(fabs((double)row[k] - json_number_value(json_array_get(expected, k))) <= 1e-6))
            fail_msg("%d bits: value %zu is %.9g, expected %.9g", bits, k, (double)row[k],
                     json_number_value(json_array_get(expected, k)));
}

static void exl3_is_what_its_description_says(void **state) {
    static const struct {
        int codebook;
        float values[3];
    } samples[] = {{0, {0.76807f, -0.91943f, 0.93164f}}, {1, {1.84375f, 0.13452f, -0.75928f}}};
    for (size_t i = 0; i < HARNESS_COUNT(samples); i++)
        for (uint32_t s = 0; s < 3; s++)
            assert_true(fabsf(exl3_value(samples[i].codebook, s) - samples[i].values[s]) < 1e-5f);
    const json_t *list = json_object_get(goldens, "exl3");
    assert_int_equal(json_array_size(list), 8);
    for (size_t i = 0; i < 8; i++) {
        const json_t *item = json_array_get(list, i);
        const int bits = (int)number(item, "bits");
        parts p = {{0}, {0}};
        quant_matrix m = make_exl3(&p, bits, (int)number(item, "codebook"), number(item, "rows"), number(item, "cols"));
        assert_int_equal(quant_open(&m, "w", NULL), QP_OK);
        float *rows = mem_array((size_t)(QUANT_BLOCK_ROWS * m.n_in), sizeof *rows), *one = mem_array((size_t)m.n_in, 4);
        const char *row;
        const json_t *values;
        json_object_foreach(json_object_get(item, "values"), row, values) {
            const int64_t n = atoi(row), first = n / QUANT_BLOCK_ROWS * QUANT_BLOCK_ROWS;
            m.type->unpack_rows(rows, &m, first);
            m.type->unpack_row(one, &m, n);
            check_exl3_row(rows + (n - first) * m.n_in, values, bits);
            assert_memory_equal(one, rows + (n - first) * m.n_in, (size_t)m.n_in * sizeof *one);
        }
        mem_free(rows);
        mem_free(one);
        drop_parts(&p);
    }
}

static void exl3_refuses(void **state) {
    parts p = {{0}, {0}};
    qp_error err;
    const quant_matrix good = make_exl3(&p, 3, 0, 128, 128);
    for (int part = 0; part < 3; part++)
        for (int off = -1; off <= 1; off += 2) {
            quant_matrix m = good;
            m.part_bytes[part] += (size_t)off;
            assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
            assert_non_null(strstr(err.text, "bytes of trellis"));
        }
    static const struct {
        int bits, codebook;
        int64_t rows, cols;
        const char *says;
    } cases[] = {{0, 0, 128, 128, "0 bits"},
                 {9, 0, 128, 128, "9 bits"},
                 {3, 3, 128, 128, "codebook 3"},
                 {3, 0, 64, 128, "multiples of 128"},
                 {3, 0, 128, 144, "multiples of 128"}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        quant_matrix m = good;
        m.bits = cases[i].bits;
        m.codebook = cases[i].codebook;
        m.n_out = cases[i].rows;
        m.n_in = cases[i].cols;
        assert_int_equal(quant_open(&m, "w", &err), QP_BAD_FORMAT);
        if (!strstr(err.text, cases[i].says)) fail_msg("said '%s', expected '%s'", err.text, cases[i].says);
    }
    drop_parts(&p);
}

/* ---- folders ---- */

enum { SIDE = 128, HEADS = 2, LAYERS = 2, MOST_ITEMS = 160, PROMPT = 24 };

typedef enum spelling { AS_NF4, AS_COMPRESSED, AS_MODELOPT, AS_EXL3, SPELLINGS } spelling;

static const char *const settings[SPELLINGS] = {
    [AS_NF4] = "{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\"}",
    [AS_COMPRESSED] = "{\"quant_method\":\"compressed-tensors\",\"format\":\"nvfp4-pack-quantized\"}",
    [AS_MODELOPT] = "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}",
    [AS_EXL3] = "{\"quant_method\":\"exl3\",\"bits\":4.0}",
};

typedef struct writing {
    safetensors_item items[MOST_ITEMS];
    size_t n;
    arena memory;
} writing;

static void add(writing *w, const char *base, const char *part, dtype type, int rank, int64_t a, int64_t b, int64_t c,
                const void *data, size_t bytes) {
    char name[256];
    const int64_t shape[3] = {a, b, c};
    snprintf(name, sizeof name, "%s%s%s", base, *part ? "." : "", part);
    void *kept = arena_get(&w->memory, bytes ? bytes : 1, 1);
    int64_t *sides = arena_get(&w->memory, 3, sizeof *sides);
    assert_true(w->n < MOST_ITEMS && kept && sides);
    memcpy(kept, data, bytes);
    memcpy(sides, shape, sizeof shape);
    w->items[w->n++] = (safetensors_item){arena_text(&w->memory, name, strlen(name)), type, rank, sides, kept};
}

static float spread(size_t i) { return ((float)(i * 2654435761u >> 20 & 4095) / 2048 - 1) * 0.08f; }

static void add_nf4(writing *w, const char *base, quant_matrix *m, parts *p, size_t seed) {
    enum { N = SIDE * SIDE };
    static const float map[16] = {-1,   -0.7f, -0.5f, -0.4f, -0.3f, -0.2f, -0.1f, 0,
                                  0.1f, 0.15f, 0.25f, 0.35f, 0.45f, 0.55f, 0.7f,  1};
    char weight[256], state[128];
    float values[256], most[1] = {0.05f};
    p->at[0] = mem_array(N / 2, 1);
    p->at[1] = mem_array(N / 64, 1);
    for (size_t i = 0; i < N / 2; i++) p->at[0][i] = byte_of(i + seed, 4);
    for (size_t i = 0; i < N / 64; i++) p->at[1][i] = byte_of(i + seed, 5);
    for (int i = 0; i < 256; i++) values[i] = (float)i / 255;
    *m = (quant_matrix){.type = quant_type_of(QUANT_NF4), .n_out = SIDE, .n_in = SIDE, .group = 64, .row_group = 256};
    m->offset = 0.02f;
    const void *const at[] = {p->at[0], p->at[1], map, most, values};
    const size_t bytes[] = {N / 2, N / 64, sizeof map, sizeof most, sizeof values};
    for (int i = 0; i < 5; i++) m->part_bytes[i] = bytes[i];
    snprintf(weight, sizeof weight, "%s.weight", base);
    snprintf(state, sizeof state,
             "{\"blocksize\":64,\"shape\":[128,128],\"nested_blocksize\":256,\"nested_offset\":%.9g}",
             (double)m->offset);
    static const char *const names[] = {"", "absmax", "quant_map", "nested_absmax", "nested_quant_map"};
    static const dtype types[] = {DTYPE_U8, DTYPE_U8, DTYPE_F32, DTYPE_F32, DTYPE_F32};
    const int64_t counts[] = {N / 2, N / 64, 16, 1, 256};
    for (int i = 0; i < 5; i++) {
        add(w, weight, names[i], types[i], i ? 1 : 2, counts[i], 1, 0, at[i], bytes[i]);
        m->parts[i] = w->items[w->n - 1].data;
    }
    add(w, weight, "quant_state.bitsandbytes__nf4", DTYPE_U8, 1, (int64_t)strlen(state), 0, 0, state, strlen(state));
}

static void add_nvfp4(writing *w, const char *base, quant_matrix *m, parts *p, size_t seed, bool is_divided) {
    const float whole = is_divided ? 2000.0f : 0.0005f;
    p->at[0] = mem_array(SIDE * SIDE / 2, 1);
    p->at[1] = mem_array(SIDE * SIDE / 16, 1);
    for (size_t i = 0; i < SIDE * SIDE / 2; i++) p->at[0][i] = byte_of(i + seed, 4);
    for (size_t i = 0; i < SIDE * SIDE / 16; i++) p->at[1][i] = (uint8_t)(0x50 + byte_of(i + seed, 5) % 24);
    *m = (quant_matrix){.type = quant_type_of(QUANT_NVFP4), .n_out = SIDE, .n_in = SIDE, .is_divided = is_divided};
    add(w, base, is_divided ? "weight_packed" : "weight", DTYPE_U8, 2, SIDE, SIDE / 2, 0, p->at[0], SIDE * SIDE / 2);
    m->parts[0] = w->items[w->n - 1].data;
    add(w, base, "weight_scale", DTYPE_F8_E4M3, 2, SIDE, SIDE / 16, 0, p->at[1], SIDE * SIDE / 16);
    m->parts[1] = w->items[w->n - 1].data;
    add(w, base, is_divided ? "weight_global_scale" : "weight_scale_2", DTYPE_F32, is_divided, 1, 0, 0, &whole, 4);
    m->parts[2] = w->items[w->n - 1].data;
    add(w, base, is_divided ? "input_global_scale" : "input_scale", DTYPE_F32, is_divided, 1, 0, 0, &whole, 4);
    m->part_bytes[0] = SIDE * SIDE / 2;
    m->part_bytes[1] = SIDE * SIDE / 16;
    m->part_bytes[2] = 4;
}

static void add_exl3(writing *w, const char *base, quant_matrix *m, parts *p, size_t seed) {
    const int bits = 2 + (int)(seed % 5), codebook = (int)(seed % 3);
    const int32_t mark = 0;
    *m = make_exl3(p, bits, codebook, SIDE, SIDE);
    add(w, base, "trellis", DTYPE_I16, 3, SIDE / 16, SIDE / 16, 16 * bits, p->at[0], p->bytes[0]);
    m->parts[0] = w->items[w->n - 1].data;
    add(w, base, "su", DTYPE_I16, 1, SIDE / 16, 0, 0, p->at[1], p->bytes[1]);
    m->parts[1] = w->items[w->n - 1].data;
    add(w, base, "svh", DTYPE_F16, 1, SIDE, 0, 0, p->at[2], p->bytes[2]);
    m->parts[2] = w->items[w->n - 1].data;
    if (codebook) add(w, base, codebook == 1 ? "mcg" : "mul1", DTYPE_I32, 0, 0, 0, 0, &mark, 4);
}

/* The same matrix in the format, and as plain numbers. */
static void add_projection(writing *w, writing *plain, const char *base, spelling how, size_t seed) {
    float rows[SIDE * SIDE];
    uint16_t halves[SIDE * SIDE];
    parts p = {{0}, {0}};
    quant_matrix m;
    if (how == AS_NF4)
        add_nf4(w, base, &m, &p, seed);
    else if (how == AS_EXL3)
        add_exl3(w, base, &m, &p, seed);
    else
        add_nvfp4(w, base, &m, &p, seed, how == AS_COMPRESSED);
    assert_int_equal(quant_open(&m, base, NULL), QP_OK);
    for (int64_t n = 0; n < SIDE; n++) m.type->unpack_row(rows + n * SIDE, &m, n);
    for (size_t i = 0; i < SIDE * SIDE; i++) halves[i] = quant_f32_to_f16(rows[i]);
    const bool is_half = how == AS_EXL3; /* becomes float16 while it is loaded */
    add(plain, base, "weight", is_half ? DTYPE_F16 : DTYPE_F32, 2, SIDE, SIDE, 0, is_half ? (const void *)halves : rows,
        SIDE * SIDE * (is_half ? 2 : 4));
    drop_parts(&p);
}

static void add_plain(writing *w, const char *name, int64_t rows, bool is_norm) {
    float values[SIDE * SIDE];
    const size_t n = (size_t)(is_norm ? SIDE : rows * SIDE);
    for (size_t i = 0; i < n; i++) values[i] = is_norm ? 1 : spread(i * 3 + strlen(name));
    add(w, name, "weight", DTYPE_F32, is_norm ? 1 : 2, is_norm ? SIDE : rows, SIDE, 0, values, n * 4);
}

static void write_folder(const char *folder, const writing *w, const char *how) {
    char path[256];
    strbuf text = {0};
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(safetensors_write(path, w->items, w->n, NULL, NULL), QP_OK);
    strbuf_format(&text,
                  "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":%d,"
                  "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,\"vocab_size\":%d,"
                  "\"max_position_embeddings\":256,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\","
                  "\"tie_word_embeddings\":false",
                  SIDE, SIDE, LAYERS, HEADS, SIDE);
    if (how) strbuf_format(&text, ",\"quantization_config\":%s", how);
    strbuf_text(&text, "}");
    harness_write(folder, "config.json", text.at);
    strbuf_free(&text);
}

static void make_folders(const char *quantised, const char *plain, spelling how) {
    static const char *const projections[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                              "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                              "mlp.down_proj"};
    static writing both[2];
    memset(both, 0, sizeof both);
    for (int layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < HARNESS_COUNT(projections); i++) {
            char base[128];
            snprintf(base, sizeof base, "model.layers.%d.%s", layer, projections[i]);
            add_projection(&both[0], &both[1], base, how, (size_t)layer * 100 + i);
        }
    add_projection(&both[0], &both[1], "lm_head", how, 999);
    for (int i = 0; i < 2; i++) {
        add_plain(&both[i], "model.embed_tokens", SIDE, false);
        add_plain(&both[i], "model.norm", 1, true);
        for (int layer = 0; layer < LAYERS; layer++)
            for (int norm = 0; norm < 2; norm++) {
                char base[128];
                snprintf(base, sizeof base, "model.layers.%d.%s_layernorm", layer, norm ? "input" : "post_attention");
                add_plain(&both[i], base, 1, true);
            }
        write_folder(i ? plain : quantised, &both[i], i ? NULL : settings[how]);
    }
    for (int i = 0; i < 2; i++) arena_free(&both[i].memory);
}

static float *logits_in(const char *path, qp_precision precision) {
    const qp_model_options o = {.size = sizeof o, .device = "cpu", .threads = 2, .precision = precision};
    int32_t ids[PROMPT];
    qp_model *m;
    qp_error err;
    for (int i = 0; i < PROMPT; i++) ids[i] = (i * 37 + 5) % SIDE;
    if (qp_model_open(&m, path, &o, &err) != QP_OK) fail_msg("%s", err.text);
    float *out = logits_of(m, ids, PROMPT, PROMPT, 1 << 20, SIDE);
    qp_model_close(m);
    return out;
}

static void folders_equal_plain_ones(void **state) {
    enum { N = PROMPT * SIDE };
    char folder[64], quantised[128], plain[128];
    harness_folder(folder);
    for (int how = 0; how < SPELLINGS; how++) {
        snprintf(quantised, sizeof quantised, "%s/%d", folder, how);
        snprintf(plain, sizeof plain, "%s/%d-plain", folder, how);
        make_folders(quantised, plain, (spelling)how);
        float *expected = logits_in(plain, QP_PRECISION_EXACT), *exact = logits_in(quantised, QP_PRECISION_EXACT),
              *fast = logits_in(quantised, QP_PRECISION_FAST);
        double size = 0;
        for (size_t i = 0; i < N; i++) size += (double)expected[i] * (double)expected[i] / N;
        assert_true(size > 1e-6 && isfinite(size));
        assert_memory_equal(exact, expected, N * sizeof *exact);
        assert_true(relative_rmse(fast, expected, N, sqrt(size)) < 0.03);
        mem_free(expected);
        mem_free(exact);
        mem_free(fast);
        char *json = NULL;
        qp_error err;
        if (qp_inspect_json(&json, quantised, false, &err) != QP_OK) fail_msg("%s", err.text);
        static const char *const methods[SPELLINGS] = {"\"bitsandbytes\"", "\"compressed-tensors\"", "\"modelopt\"",
                                                       "\"exl3\""};
        if (!strstr(json, methods[how])) fail_msg("%s is not in %s", methods[how], json);
        qp_free(json);
    }
    harness_remove(folder);
}

/* A file cut short anywhere, or with one of its parts under another name, is refused with words. */
static void broken_folders(void **state) {
    static const struct {
        spelling how;
        const char *from, *to, *says;
    } cases[] = {
        {AS_NF4, "q_proj.weight.absmax", "q_proj.weight.absmay", "its shape is [8192, 1]"},
        {AS_NF4, "q_proj.weight.quant_map", "q_proj.weight.quant_mop", "quant_map: the checkpoint has no"},
        {AS_NF4, "q_proj.weight.quant_state", "q_proj.weight.quant_stove", "quant_state.bitsandbytes__nf4: the"},
        {AS_NF4, "\"shape\":[128,128],\"nested", "\"shape\":[128,129],\"nested", "its shape is [128, 129]"},
        {AS_NF4, "{\"blocksize\":64", "{\"blocksize\":65", "absmax for 16384 weights"},
        {AS_NF4, "{\"blocksize\":64", "[\"blocksize\":64", "quant_state"},
        {AS_COMPRESSED, "q_proj.weight_global_scale", "q_proj.weight_global_scope", "weight_global_scale: the"},
        {AS_MODELOPT, "q_proj.weight_scale_2", "q_proj.weight_scale_3", "weight_scale_2: the checkpoint has no"},
        {AS_EXL3, "q_proj.svh", "q_proj.svx", "q_proj.sv: the checkpoint has no such tensor"},
    };
    char folder[64], quantised[128], plain[128], path[256];
    harness_folder(folder);
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        char *bytes;
        size_t n, changed = 0;
        snprintf(quantised, sizeof quantised, "%s/a", folder);
        snprintf(plain, sizeof plain, "%s/b", folder);
        make_folders(quantised, plain, cases[i].how);
        snprintf(path, sizeof path, "%s/model.safetensors", quantised);
        assert_int_equal(file_read(&bytes, &n, path, 8 << 20, NULL), QP_OK);
        const size_t length = strlen(cases[i].from);
        for (size_t at = 0; at + length <= n && !changed; at++)
            if (!memcmp(bytes + at, cases[i].from, length)) memcpy(bytes + at, cases[i].to, length), changed++;
        assert_int_equal(changed, 1);
        assert_int_equal(file_write(path, bytes, n, NULL), QP_OK);
        const qp_model_options o = {.size = sizeof o, .device = "cpu", .threads = 1};
        qp_model *m = NULL;
        qp_error err = {0};
        const qp_status status = qp_model_open(&m, quantised, &o, &err);
        if ((status != QP_BAD_FORMAT && status != QP_UNSUPPORTED) || !strstr(err.text, cases[i].says))
            fail_msg("case %zu: status %d, '%s', expected '%s'", i, (int)status, err.text, cases[i].says);
        mem_free(bytes);
    }
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_bits_of_bitsandbytes),         cmocka_unit_test(nvfp4_both_ways),
        cmocka_unit_test(exl3_is_what_its_description_says), cmocka_unit_test(exl3_refuses),
        cmocka_unit_test(folders_equal_plain_ones),          cmocka_unit_test(broken_folders),
    };
    return cmocka_run_group_tests(tests, read_goldens, drop_goldens);
}
