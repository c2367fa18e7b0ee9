/* quant_samples.h — random matrices of every quantised format, for tests of kernels and of loading.
 *
 * Blocks of GGUF's types are drawn from tests/golden/gguf_blocks.json; the parts of the other formats are random bits
 * with scales of a sensible size. Each part is exactly as long as it must be and begins at an odd address. */
#ifndef QUANT_SAMPLES_H
#define QUANT_SAMPLES_H

#include "harness.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "quant/quant.h"

/* ---- the formats, and the blocks that GGUF's are drawn from ---- */

typedef struct sample_format {
    quant_id id;
    int variant; /* as of sample_open */
} sample_format;

static const sample_format sample_formats[] = {
    {QUANT_EXL2, 0},  {QUANT_GPTQ, 2},     {QUANT_GPTQ, 3},    {QUANT_GPTQ, 4},   {QUANT_GPTQ, 8},  {QUANT_GPTQ, 20},
    {QUANT_AWQ, 0},   {QUANT_AWQ_GEMV, 0}, {QUANT_Q4_0, 0},    {QUANT_Q4_1, 0},   {QUANT_Q5_0, 0},  {QUANT_Q5_1, 0},
    {QUANT_Q8_0, 0},  {QUANT_Q2_K, 0},     {QUANT_Q3_K, 0},    {QUANT_Q4_K, 0},   {QUANT_Q5_K, 0},  {QUANT_Q6_K, 0},
    {QUANT_IQ1_S, 0}, {QUANT_IQ1_M, 0},    {QUANT_IQ2_XXS, 0}, {QUANT_IQ2_XS, 0}, {QUANT_IQ2_S, 0}, {QUANT_IQ3_XXS, 0},
    {QUANT_IQ3_S, 0}, {QUANT_IQ4_NL, 0},   {QUANT_IQ4_XS, 0},  {QUANT_TQ1_0, 0},  {QUANT_TQ2_0, 0}, {QUANT_GPTQ, 36},
    {QUANT_GPTQ, 40}, {QUANT_MXFP4, 0},
};

/* Floats of 8 bits, by the weights that share a scale: a matrix, a row, 128 x 128, which GPUs alone keep; and MXFP4 in
 * two tensors, whose scales are sensible. */
enum { SAMPLE_TENSOR, SAMPLE_CHANNEL, SAMPLE_BLOCK };
static const sample_format sample_floats[] = {{QUANT_FP8_E4M3, SAMPLE_TENSOR},
                                              {QUANT_FP8_E4M3, SAMPLE_CHANNEL},
                                              {QUANT_FP8_E4M3, SAMPLE_BLOCK},
                                              {QUANT_MXFP4_ROWS, 0}};

/* What GPUs keep as they are: whole numbers, all but the last, whose scales are any powers of two; and floats. */
enum {
    SAMPLE_FORMATS = HARNESS_COUNT(sample_formats),
    SAMPLE_WHOLE = SAMPLE_FORMATS - 1,
    SAMPLE_PACKED = SAMPLE_WHOLE + HARNESS_COUNT(sample_floats)
};
static inline const sample_format *sample_packed(size_t i) {
    return i < SAMPLE_WHOLE ? &sample_formats[i] : &sample_floats[i - SAMPLE_WHOLE];
}

static json_t *sample_goldens;

static inline int sample_read_goldens(void **state) {
    return json_load_path(&sample_goldens, QUIPU_SOURCE "/tests/golden/gguf_blocks.json", 4 << 20, NULL) != QP_OK;
}
static inline int sample_drop_goldens(void **state) {
    json_decref(sample_goldens);
    return 0;
}

/* ---- a matrix ---- */

typedef struct sample {
    quant_matrix m;
    uint8_t *memory[QUANT_PARTS];
} sample;

/* Another one makes other matrices. */
static uint64_t sample_salt;

static inline uint32_t sample_bits(uint64_t seed, uint64_t i) {
    uint32_t out[4];
    rng_philox(seed, 77 + sample_salt, i, out);
    return out[0];
}

/* At odd addresses. */
static inline uint8_t *sample_take(sample *s, int part, size_t bytes) {
    s->memory[part] = mem_array(bytes + 1, 1);
    assert_non_null(s->memory[part]);
    s->m.parts[part] = s->memory[part] + 1;
    s->m.part_bytes[part] = bytes;
    return s->memory[part] + 1;
}

static inline uint8_t *sample_part(sample *s, int part, size_t bytes) {
    uint8_t *to = sample_take(s, part, bytes);
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)sample_bits((uint64_t)part + 5, i);
    return to;
}

/* float16 values between 2^-8 and 2^-7. */
static inline void sample_halves(uint8_t *to, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint16_t half = (uint16_t)(0x1C00 | (sample_bits(3, i) & 0x3FF));
        memcpy(to + 2 * i, &half, 2);
    }
}

static inline unsigned sample_nibble(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }

static inline void sample_blocks(sample *s, const json_t *goldens) {
    const json_t *item = json_object_get(goldens, s->m.type->name);
    const char *hex = json_string_value(json_object_get(item, "blocks"));
    const size_t size = (size_t)json_integer_value(json_object_get(item, "bytes_of_block"));
    size_t bytes;
    assert_non_null(hex);
    const size_t n_blocks = strlen(hex) / 2 / size;
    assert_true(s->m.type->bytes(&bytes, s->m.n_out, s->m.n_in));
    uint8_t *to = sample_take(s, 0, bytes);
    for (size_t block = 0; block < bytes / size; block++) {
        const char *at = hex + 2 * (sample_bits(9, block) % n_blocks * size);
        for (size_t i = 0; i < size; i++, at += 2) *to++ = (uint8_t)(sample_nibble(at[0]) << 4 | sample_nibble(at[1]));
    }
}

/* Widths from 8 down to 2, groups of 32 and 64. */
static inline void sample_exl2(sample *s) {
    static const unsigned widths[] = {8, 6, 5, 4, 4, 3, 2};
    enum { MOST = 1024 };
    uint16_t groups[2 * MOST];
    const int64_t n_in = s->m.n_in;
    int64_t row = 0, word = 0;
    size_t n = 0;
    const size_t columns = (size_t)(s->m.stored_out = (s->m.n_out + 31) / 32 * 32);
    assert_true(n_in % 32 == 0 && n_in / 32 <= MOST);
    for (; row < n_in; n++) {
        const int64_t rows = (n + sample_salt) % 3 == 2 && n_in - row >= 64 ? 64 : 32;
        const unsigned width = widths[row * 7 / n_in];
        groups[2 * n] = (uint16_t)width;
        groups[2 * n + 1] = (uint16_t)word;
        row += rows;
        word += rows * width / 32;
    }
    sample_part(s, 0, (size_t)word * columns * 4);
    sample_part(s, 1, n * columns / 2);
    sample_halves(sample_part(s, 2, 2 * n), n);
    memcpy(sample_part(s, 3, 4 * n), groups, 4 * n);
    uint8_t *invperm = sample_part(s, 4, (size_t)n_in * 4);
    for (int64_t i = 0; i < n_in; i++) {
        const int32_t to = (int32_t)((i * 37 + 5 + (int64_t)sample_salt) % n_in); /* 37 divides no size in use */
        memcpy(invperm + 4 * i, &to, 4);
    }
}

/* GPTQ with `bits`, or AWQ; groups of 32. `ordered`: scattered g_idx; `symmetric`, of 4 or 8 bits: all zeros half of
 * the codes. */
static inline void sample_gptq(sample *s, int bits, bool ordered, bool symmetric) {
    quant_matrix *m = &s->m;
    m->bits = bits;
    m->group = 32;
    m->zero_add = m->type->id == QUANT_GPTQ && bits != 8;
    m->scale_type = QUANT_F16;
    m->stored_out = (m->n_out + 31) / 32 * 32;
    const size_t groups = (size_t)(m->n_in / 32), columns = (size_t)m->stored_out;
    const bool gemv = m->type->id == QUANT_AWQ_GEMV;
    const size_t words = gemv ? ((groups + 7) / 8 + 3) / 4 * 4 : 0;
    sample_part(s, 0, (size_t)m->n_in * columns * (size_t)bits / 8);
    const size_t zero_bytes = gemv ? columns * words * 4 : groups * columns * (size_t)bits / 8;
    uint8_t *zeros = sample_part(s, 1, zero_bytes);
    if (symmetric) memset(zeros, bits == 8 ? 0x80 : 0x77, zero_bytes);
    const size_t n_scales = gemv ? columns * words * 8 : groups * columns;
    sample_halves(sample_part(s, 2, n_scales * 2), n_scales);
    if (!ordered) return;
    uint8_t *g_idx = sample_part(s, 3, (size_t)m->n_in * 4);
    for (int64_t k = 0; k < m->n_in; k++) {
        const int32_t g = (int32_t)(k % (int64_t)groups);
        memcpy(g_idx + 4 * k, &g, 4);
    }
}

/* Every code but NaN; scales of float32, as many as there are. */
static inline void sample_fp8(sample *s, int variant) {
    quant_matrix *m = &s->m;
    m->row_group = variant == SAMPLE_TENSOR ? (int)m->n_out : variant == SAMPLE_CHANNEL ? 1 : 128;
    m->group = variant == SAMPLE_BLOCK ? 128 : (int)m->n_in;
    m->scale_type = QUANT_F32;
    const size_t n_codes = (size_t)(m->n_out * m->n_in);
    const size_t n_scales =
        (size_t)((m->n_out + m->row_group - 1) / m->row_group * ((m->n_in + m->group - 1) / m->group));
    uint8_t *codes = sample_part(s, 0, n_codes), *scales = sample_take(s, 1, n_scales * 4);
    for (size_t i = 0; i < n_codes; i++) codes[i] ^= (codes[i] & 0x7F) == 0x7F;
    for (size_t i = 0; i < n_scales; i++) {
        const float scale = (1 + (float)(sample_bits(3, i) & 0xFFFF) * 0x1p-16f) * 0x1p-9f;
        memcpy(scales + 4 * i, &scale, 4);
    }
}

/* Powers of two around those of real weights. */
static inline void sample_mxfp4(sample *s) {
    const size_t weights = (size_t)(s->m.n_out * s->m.n_in);
    s->m.row_step = 1;
    sample_part(s, 0, weights / 2);
    uint8_t *scales = sample_part(s, 1, weights / 32);
    for (size_t i = 0; i < weights / 32; i++) scales[i] = (uint8_t)(115 + scales[i] % 8);
}

/* variant: bits of GPTQ, plus 16 for a scattered order, 32 for symmetric ones; of FP8 as sample_floats has it; ignored
 * elsewhere. n_in a multiple of 256, of FP8 and MXFP4_ROWS of 32. */
static inline void sample_open(sample *s, quant_id id, int variant, int64_t n_out, int64_t n_in) {
    *s = (sample){.m = {.type = quant_type_of(id), .n_out = n_out, .n_in = n_in}};
    if (id == QUANT_EXL2)
        sample_exl2(s);
    else if (id == QUANT_GPTQ)
        sample_gptq(s, variant % 16, variant & 16, variant & 32);
    else if (id == QUANT_AWQ || id == QUANT_AWQ_GEMV)
        sample_gptq(s, 4, false, false);
    else if (id == QUANT_FP8_E4M3)
        sample_fp8(s, variant);
    else if (id == QUANT_MXFP4_ROWS)
        sample_mxfp4(s);
    else
        sample_blocks(s, sample_goldens);
    qp_error err = {0};
    if (quant_open(&s->m, "sample", &err)) fail_msg("%s: %s", s->m.type->name, err.text);
}

static inline void sample_close(sample *s) {
    quant_close(&s->m);
    for (int i = 0; i < QUANT_PARTS; i++) mem_free(s->memory[i]);
}

#endif
