/* rope.c — inverse frequencies of every kind of rotary embedding (Su et al. 2021, "RoFormer"), and cos/sin rows.
 *
 * Kinds: linear (kaiokendev), dynamic NTK (emozilla), YaRN (Peng et al. 2023), llama3 (Llama 3.1), longrope (Ding et
 * al. 2024). The arithmetic is float32 where the reference has float32 tensors and double where it has Python numbers,
 * in the same order; powers are taken in double and rounded once, which is at most the reference's own last-place
 * error away. */
#include "rope.h"
#include <math.h>
#include <string.h>

/* theta ^ -(2i / dim), each step in float32. */
static float plain_frequency(float theta, int i, int dim) {
    const float exponent = (float)(2 * i) / (float)dim;
    return 1.0f / (float)pow(theta, exponent);
}

static void fill_plain(float *inv_freq, double theta, int dim) {
    for (int i = 0; i < dim / 2; i++) inv_freq[i] = plain_frequency((float)theta, i, dim);
}

/* ---- dynamic NTK: beyond the trained length the base grows with the sequence, or (Hunyuan) once for all ---- */

static bool is_stretched(const hf_rope *r, uint64_t length) {
    if (r->kind == HF_ROPE_DYNAMIC) return r->alpha <= 0 && length > (uint64_t)r->max_positions;
    return r->kind == HF_ROPE_LONGROPE && length > (uint64_t)r->original_max;
}

/* The reference computes this with a float32 tensor for the length. */
static double dynamic_theta(const hf_rope *r, int dim, uint64_t length) {
    if (r->alpha > 0) return r->theta * pow(r->alpha, (double)dim / (dim - 2));
    if (!is_stretched(r, length)) return r->theta;
    const float ratio = (float)r->factor * (float)length / (float)r->max_positions;
    const float growth = (float)pow((double)(ratio - (float)(r->factor - 1)), (float)((double)dim / (dim - 2)));
    return (float)r->theta * growth;
}

/* ---- YaRN: fast dimensions as trained, slow ones interpolated, a ramp between ---- */

/* The dimension that turns `rotations` times over the original length. */
static double yarn_dimension(const hf_rope *r, double rotations, int dim) {
    return dim * log((double)r->original_max / (rotations * 2 * M_PI)) / (2 * log(r->theta));
}

static double yarn_factor(const hf_rope *r) {
    return r->factor != 0 ? r->factor : (double)r->max_positions / (double)r->original_max;
}

static double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1; }

static float yarn_attention(const hf_rope *r) {
    const double factor = yarn_factor(r);
    if (r->attention_factor != 0) return (float)r->attention_factor;
    if (r->mscale != 0 && r->mscale_all_dim != 0)
        return (float)(yarn_mscale(factor, r->mscale) / yarn_mscale(factor, r->mscale_all_dim));
    return (float)yarn_mscale(factor, 1);
}

static void fill_yarn(const hf_rope *r, int dim, float *inv_freq) {
    double low = yarn_dimension(r, r->beta_fast, dim), high = yarn_dimension(r, r->beta_slow, dim);
    if (r->truncate) low = floor(low), high = ceil(high);
    low = fmax(low, 0);
    high = fmin(high, dim - 1);
    if (low == high) high += 0.001;
    const float factor = (float)yarn_factor(r), from = (float)low, width = (float)(high - low);
    for (int i = 0; i < dim / 2; i++) {
        const float period = (float)pow((float)r->theta, (float)(2 * i) / (float)dim);
        const float ramp = fminf(fmaxf(((float)i - from) / width, 0), 1), keep = 1 - ramp;
        inv_freq[i] = 1.0f / (factor * period) * (1 - keep) + 1.0f / period * keep;
    }
}

/* ---- llama3: long waves divided by the factor, short ones kept, smooth between ---- */

static void fill_llama3(const hf_rope *r, int dim, float *inv_freq) {
    const float length = (float)r->original_max, factor = (float)r->factor, two_pi = (float)(2 * M_PI);
    const float low = (float)r->low_freq_factor, spread = (float)(r->high_freq_factor - r->low_freq_factor);
    const float longest_kept = (float)((double)r->original_max / r->high_freq_factor);
    const float shortest_cut = (float)((double)r->original_max / r->low_freq_factor);
    for (int i = 0; i < dim / 2; i++) {
        const float plain = plain_frequency((float)r->theta, i, dim), wave = 1.0f / plain * two_pi;
        const float smooth = (1.0f / wave * length - low) / spread;
        if (wave > shortest_cut)
            inv_freq[i] = plain / factor;
        else if (wave < longest_kept)
            inv_freq[i] = plain;
        else
            inv_freq[i] = (1 - smooth) * plain / factor + smooth * plain;
    }
}

/* ---- longrope: one factor per dimension, another list beyond the original length ---- */

static float longrope_attention(const hf_rope *r) {
    const double factor = r->factor != 0 ? r->factor : (double)r->max_positions / (double)r->original_max;
    if (r->attention_factor != 0) return (float)r->attention_factor;
    return factor <= 1 ? 1 : (float)sqrt(1 + log(factor) / log((double)r->original_max));
}

static void fill_longrope(const hf_rope *r, int dim, uint64_t length, float *inv_freq) {
    const float *factors = is_stretched(r, length) ? r->long_factor : r->short_factor;
    for (int i = 0; i < dim / 2; i++)
        inv_freq[i] = 1.0f / (factors[i] * (float)pow((float)r->theta, (float)(2 * i) / (float)dim));
}

/* ---- front ---- */

void rope_frequencies(const hf_rope *r, int rot_dims, uint64_t sequence_length, float *inv_freq,
                      float *attention_factor) {
    *attention_factor = 1;
    switch (r->kind) {
    case HF_ROPE_DYNAMIC:
        fill_plain(inv_freq, dynamic_theta(r, rot_dims, sequence_length), rot_dims);
        break;
    case HF_ROPE_LLAMA3:
        fill_llama3(r, rot_dims, inv_freq);
        break;
    case HF_ROPE_YARN:
        fill_yarn(r, rot_dims, inv_freq);
        *attention_factor = yarn_attention(r);
        break;
    case HF_ROPE_LONGROPE:
        fill_longrope(r, rot_dims, sequence_length, inv_freq);
        *attention_factor = longrope_attention(r);
        break;
    case HF_ROPE_LINEAR:
    case HF_ROPE_DEFAULT:
    case HF_ROPE_KIND_COUNT:
        fill_plain(inv_freq, r->theta, rot_dims);
        break;
    }
    if (r->kind == HF_ROPE_LINEAR)
        for (int i = 0; i < rot_dims / 2; i++) inv_freq[i] /= (float)r->factor;
}

uint64_t rope_class(const hf_rope *r, uint64_t length) {
    return !is_stretched(r, length) ? 0 : r->kind == HF_ROPE_LONGROPE ? 1 : length;
}

bool rope_same(const hf_rope *r, uint64_t length_a, uint64_t length_b) {
    return rope_class(r, length_a) == rope_class(r, length_b);
}

void rope_fill(float *cos, float *sin, const int64_t *positions, int n_rows, int rot_dims, const float *inv_freq,
               float attention_factor) {
    const int half = rot_dims / 2;
    for (int row = 0; row < n_rows; row++, cos += half, sin += half)
        for (int i = 0; i < half; i++) {
            const float angle = (float)positions[row] * inv_freq[i];
            cos[i] = cosf(angle) * attention_factor;
            sin[i] = sinf(angle) * attention_factor;
        }
}

/* ---- the user's changes ---- */

static qp_status check_change(const char *name, double value, double lowest, double highest, qp_error *err) {
    if (value == 0 || (value >= lowest && value <= highest)) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "%s: %g, allowed are 0 (none) and %g to %g", name, value, lowest, highest);
}

/* What another kind said about attention and ramp does not hold for this one. */
static void become_yarn(hf_rope *r, double factor) {
    if (r->kind != HF_ROPE_YARN) {
        r->original_max = r->max_positions;
        r->beta_fast = 32;
        r->beta_slow = 1;
        r->truncate = true;
        r->mscale = r->mscale_all_dim = r->attention_factor = 0;
    }
    r->kind = HF_ROPE_YARN;
    r->factor = factor;
}

qp_status rope_override(hf_rope *r, int rot_dims, double scale, double alpha, double yarn, qp_error *err) {
    ERR_TRY(check_change("rope_scale", scale, 0.01, 1e4, err));
    ERR_TRY(check_change("rope_alpha", alpha, 0.01, 1e4, err));
    ERR_TRY(check_change("rope_yarn", yarn, 1, 1e4, err));
    if (scale != 0 && yarn != 0)
        return err_set(err, QP_BAD_ARGUMENT, 0, "rope_scale %g and rope_yarn %g: allowed is one of them", scale, yarn);
    if (yarn != 0 && r->max_positions < 2)
        return err_set(err, QP_BAD_ARGUMENT, 0, "rope_yarn: the trained context is %lld tokens, at least 2 are needed",
                       (long long)r->max_positions);
    if (alpha != 0 && rot_dims < 4)
        return err_set(err, QP_BAD_ARGUMENT, 0, "rope_alpha: %d elements of a head turn, at least 4 are needed",
                       rot_dims);
    const double theta = alpha != 0 ? r->theta * pow(alpha, (double)rot_dims / (rot_dims - 2)) : r->theta;
    if (!(theta > 1))
        return err_set(err, QP_BAD_ARGUMENT, 0, "rope_alpha: %g makes the base %g, allowed is more than 1", alpha,
                       theta);
    r->theta = theta;
    if (scale != 0) r->kind = HF_ROPE_LINEAR, r->factor = scale;
    if (yarn != 0) become_yarn(r, yarn);
    return QP_OK;
}
