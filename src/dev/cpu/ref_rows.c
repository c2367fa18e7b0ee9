/* ref_rows.c — embedding, norm, rotation and gates in plain C and double precision: the truth for every other level.
 *
 * Each result is computed in double and rounded once. Called through the table that cpu.c lays out. */
#include "cpu.h"
#include <math.h>
#include <string.h>

static void embed(float *out, const dev_weight *table, int32_t id, float scale) {
    table->stored.type->unpack_row(out, &table->stored, id);
    for (int64_t i = 0; i < table->n_in; i++) out[i] *= scale;
}

static void norm(float *out, const float *x, const float *weight, float eps, int dim) {
    double sum = 0;
    for (int i = 0; i < dim; i++) sum += (double)x[i] * x[i];
    const double scale = 1 / sqrt(sum / dim + eps);
    for (int i = 0; i < dim; i++) out[i] = (float)(x[i] * scale * (weight ? weight[i] : 1));
}

static void layer_norm(float *out, const float *x, const float *weight, const float *bias, float eps, int dim) {
    double sum = 0, squares = 0;
    for (int i = 0; i < dim; i++) sum += x[i];
    const double mean = sum / dim;
    for (int i = 0; i < dim; i++) squares += (x[i] - mean) * (x[i] - mean);
    const double scale = 1 / sqrt(squares / dim + eps);
    for (int i = 0; i < dim; i++)
        out[i] = (float)((x[i] - mean) * scale * (weight ? weight[i] : 1) + (bias ? bias[i] : 0));
}

static void turn(float *x, float *y, double c, double s) {
    const double a = *x, b = *y;
    *x = (float)(a * c - b * s);
    *y = (float)(b * c + a * s);
}

static void rope(float *head, const float *cosines, const float *sines, int rot_dims) {
    for (int i = 0; i < rot_dims / 2; i++) turn(head + i, head + rot_dims / 2 + i, cosines[i], sines[i]);
}

static void rope_pairs(float *head, const float *cosines, const float *sines, int rot_dims) {
    for (int i = 0; i < rot_dims / 2; i++) turn(head + 2 * i, head + 2 * i + 1, cosines[i], sines[i]);
}

/* ---- gates ---- */

static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return x * 0.5 * erfc(-x * M_SQRT1_2); }

/* Hendrycks and Gimpel 2016; x/2 (1 + tanh u) is x / (1 + exp(-2u)). */
static double gelu_tanh(double x) {
    const double u = M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u));
}

static double relu(double x) { return x < 0 ? 0 : x; } /* NaN stays NaN */
static double relu2(double x) { return relu(x) * relu(x); }
static double quick_gelu(double x) { return x / (1 + exp(-1.702 * x)); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void gate_all(float *gate, const float *up, int dim, double (*act)(double)) {
    for (int i = 0; i < dim; i++) gate[i] = (float)(act(gate[i]) * (up ? up[i] : 1));
}

static void gate_silu(float *gate, const float *up, int dim) { gate_all(gate, up, dim, silu); }
static void gate_gelu(float *gate, const float *up, int dim) { gate_all(gate, up, dim, gelu); }
static void gate_gelu_tanh(float *gate, const float *up, int dim) { gate_all(gate, up, dim, gelu_tanh); }
static void gate_relu(float *gate, const float *up, int dim) { gate_all(gate, up, dim, relu); }
static void gate_relu2(float *gate, const float *up, int dim) { gate_all(gate, up, dim, relu2); }
static void gate_quick_gelu(float *gate, const float *up, int dim) { gate_all(gate, up, dim, quick_gelu); }
static void gate_sigmoid(float *gate, const float *up, int dim) { gate_all(gate, up, dim, sigmoid); }

static double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static void clamped_gate(float *gate, const float *up, int dim, float alpha, float limit) {
    for (int i = 0; i < dim; i++) {
        const double g = clamp(gate[i], -INFINITY, limit), u = clamp(up[i], -limit, limit);
        gate[i] = (float)(g * sigmoid(alpha * g) * (u + 1));
    }
}

static void xielu(float *values, int dim, const xielu_args *a) {
    for (int i = 0; i < dim; i++) {
        const double x = values[i], below = a->alpha_n * (expm1(fmin(x, a->eps)) - x), above = a->alpha_p * x * x;
        values[i] = (float)((x > 0 ? above : below) + a->beta * x);
    }
}

static void add(float *to, const float *from, float scale, int dim) {
    for (int i = 0; i < dim; i++) to[i] = (float)(to[i] + (double)scale * from[i]);
}

static void limit_values(float *values, int dim, float scale, float cap, float limit) {
    for (int i = 0; i < dim; i++) {
        double x = (double)values[i] * scale;
        if (cap != 0) x = cap * tanh(x / cap);
        values[i] = (float)(limit != 0 ? clamp(x, -limit, limit) : x);
    }
}

static void store_f16(uint16_t *out, const float *x, int n) {
    for (int i = 0; i < n; i++) out[i] = quant_f32_to_f16(x[i]);
}

const cpu_row_ops cpu_row_ref = {
    .embed = embed,
    .norm = norm,
    .layer_norm = layer_norm,
    .rope = rope,
    .rope_pairs = rope_pairs,
    .gate = {[ACT_SILU] = gate_silu,
             [ACT_GELU] = gate_gelu,
             [ACT_GELU_TANH] = gate_gelu_tanh,
             [ACT_RELU] = gate_relu,
             [ACT_RELU2] = gate_relu2,
             [ACT_QUICK_GELU] = gate_quick_gelu,
             [ACT_SIGMOID] = gate_sigmoid},
    .clamped_gate = clamped_gate,
    .xielu = xielu,
    .add = add,
    .limit = limit_values,
    .store_f16 = store_f16,
};
