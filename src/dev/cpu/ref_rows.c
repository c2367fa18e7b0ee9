/* ref_rows.c — embedding, norm, rotation and gates in plain C and double precision: the truth for every other level.
 *
 * Each result is computed in double and rounded once. Called through the table that cpu.c lays out. */
#include "cpu.h"
#include <math.h>
#include <string.h>

static void embed(float *out, const dev_weight *table, int32_t id, float scale) {
    const quant_matrix plain = quant_plain(table->type, table->n_out, table->n_in, table->data, 0);
    const bool is_plain = table->type->id < QUANT_PLAIN_COUNT;
    table->type->unpack_row(out, is_plain ? &plain : &table->stored, id);
    for (int64_t i = 0; i < table->n_in; i++) out[i] *= scale;
}

static void norm(float *out, const float *x, const float *weight, float eps, int dim) {
    double sum = 0;
    for (int i = 0; i < dim; i++) sum += (double)x[i] * x[i];
    const double scale = 1 / sqrt(sum / dim + eps);
    for (int i = 0; i < dim; i++) out[i] = (float)(x[i] * scale * weight[i]);
}

static void rope(float *head, const float *cosines, const float *sines, int rot_dims) {
    float *low = head, *high = head + rot_dims / 2;
    for (int i = 0; i < rot_dims / 2; i++) {
        const double a = low[i], b = high[i], c = cosines[i], s = sines[i];
        low[i] = (float)(a * c - b * s);
        high[i] = (float)(b * c + a * s);
    }
}

static void gate_silu(float *gate, const float *up, int dim) {
    for (int i = 0; i < dim; i++) gate[i] = (float)(gate[i] / (1 + exp(-(double)gate[i])) * up[i]);
}

static void gate_gelu(float *gate, const float *up, int dim) {
    for (int i = 0; i < dim; i++) gate[i] = (float)(gate[i] * 0.5 * erfc(-gate[i] * M_SQRT1_2) * up[i]);
}

/* Hendrycks and Gimpel 2016; x/2 (1 + tanh u) is x / (1 + exp(-2u)). */
static void gate_gelu_tanh(float *gate, const float *up, int dim) {
    for (int i = 0; i < dim; i++) {
        const double x = gate[i], u = M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x);
        gate[i] = (float)(x / (1 + exp(-2 * u)) * up[i]);
    }
}

static void gate_relu(float *gate, const float *up, int dim) {
    for (int i = 0; i < dim; i++) gate[i] = gate[i] < 0 ? 0 * up[i] : gate[i] * up[i]; /* NaN stays NaN */
}

static void store_f16(uint16_t *out, const float *x, int n) {
    for (int i = 0; i < n; i++) out[i] = quant_f32_to_f16(x[i]);
}

const cpu_row_ops cpu_row_ref = {
    .embed = embed,
    .norm = norm,
    .rope = rope,
    .gate = {[ACT_SILU] = gate_silu, [ACT_GELU] = gate_gelu, [ACT_GELU_TANH] = gate_gelu_tanh, [ACT_RELU] = gate_relu},
    .store_f16 = store_f16,
};
