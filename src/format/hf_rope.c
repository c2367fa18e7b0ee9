/* hf_rope.c — the rotary settings of a config, in the spellings of transformers 4.x and 5.x.
 *
 * 4.x: "rope_theta" and "rope_scaling" {"rope_type" or "type", ...}; 5.x: "rope_parameters" with everything inside, or
 * a map of such objects by layer type. What wins follows transformers 5: a non-empty rope_scaling before
 * rope_parameters; inside that object before outside, except original_max_position_embeddings, which wins outside. */
#include "base/json.h"
#include "base/utf8.h"
#include "hfconfig.h"
#include <string.h>

static const char *const kind_names[HF_ROPE_KIND_COUNT] = {
#define X(name, text) text,
    HF_ROPE_KINDS(X)
#undef X
};

/* Other names. M-RoPE turns an image's places by three positions; those of text are equal, which is no M-RoPE. */
static const struct {
    const char *name;
    hf_rope_kind kind;
} aliases[] = {{"mrope", HF_ROPE_DEFAULT}, {"su", HF_ROPE_LONGROPE}};

const char *hf_rope_kind_name(hf_rope_kind kind) {
    return (unsigned)kind < HF_ROPE_KIND_COUNT ? kind_names[kind] : "?";
}

static qp_status settings_of(const hfconfig *c, const char *key, const json_t **out, qp_error *err) {
    const json_t *value = hfconfig_value(c, key);
    *out = NULL;
    if (!value || json_is_null(value)) return QP_OK;
    if (!json_is_object(value))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\" is %s, expected an object", hfconfig_where(c), key,
                       json_kind(value));
    if (json_object_size(value)) *out = value;
    return QP_OK;
}

/* NULL where the config has none. */
static qp_status find_settings(const hfconfig *c, const json_t **out, qp_error *err) {
    ERR_TRY(settings_of(c, "rope_scaling", out, err));
    return *out ? QP_OK : settings_of(c, "rope_parameters", out, err);
}

/* All settings are numbers, texts or lists: an object inside means a map by layer type. */
static bool is_map(const json_t *settings) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)settings, key, value) if (json_is_object(value)) return true;
    return false;
}

bool hfconfig_rope_is_map(const hfconfig *c) {
    const json_t *settings;
    return find_settings(c, &settings, NULL) == QP_OK && settings && is_map(settings);
}

bool hfconfig_rope_is_given(const hfconfig *c) {
    const json_t *settings;
    return find_settings(c, &settings, NULL) != QP_OK || settings;
}

static qp_status pick_layer_type(const hfconfig *c, const char *layer_type, const json_t **settings, qp_error *err) {
    if (!*settings || !is_map(*settings)) return QP_OK;
    const char *type = layer_type ? layer_type : "full_attention";
    *settings = json_object_get(*settings, type);
    if (json_is_object(*settings)) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: the rope settings are a map, but have %s for \"%s\"", hfconfig_where(c),
                   json_kind(*settings), type);
}

static qp_status read_kind(const json_t *settings, hf_rope_kind *out, const char *where, qp_error *err) {
    const char *name = "default";
    ERR_TRY(json_get_text(settings, "type", &name, where, err));
    ERR_TRY(json_get_text(settings, "rope_type", &name, where, err));
    for (int i = 0; i < HF_ROPE_KIND_COUNT; i++)
        if (!strcmp(kind_names[i], name)) return *out = (hf_rope_kind)i, QP_OK;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(aliases[i].name, name)) return *out = aliases[i].kind, QP_OK;
    char shown[48];
    return err_set(err, QP_UNSUPPORTED, 0,
                   "%s: \"rope_type\" is \"%s\", allowed are default, linear, dynamic, yarn, llama3, longrope", where,
                   utf8_shown(shown, sizeof shown, name));
}

/* ---- the numbers of each kind ---- */

enum { MAX_POSITIONS = 1 << 30 };
static const double max_factor = 1e6;

static qp_status read_list(const json_t *settings, const char *key, float *out, int *n, const char *where,
                           qp_error *err) {
    json_t *list;
    ERR_TRY(json_need(settings, key, where, err));
    ERR_TRY(json_get_array(settings, key, &list, where, err));
    if (!json_array_size(list) || json_array_size(list) > HF_ROPE_MAX_FACTORS)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\" has %zu numbers, allowed are 1 to %d", where, key,
                       json_array_size(list), HF_ROPE_MAX_FACTORS);
    *n = (int)json_array_size(list);
    for (int i = 0; i < *n; i++) {
        const json_t *item = json_array_get(list, (size_t)i);
        const double value = json_number_value(item);
        if (!(value >= 1e-6 && value <= max_factor))
            return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\"[%d] is %s (%g), allowed are numbers from 1e-6 to %g",
                           where, key, i, json_kind(item), value, max_factor);
        out[i] = (float)value;
    }
    return QP_OK;
}

static qp_status read_longrope(const json_t *settings, hf_rope *r, const char *where, qp_error *err) {
    int n_long = 0;
    ERR_TRY(read_list(settings, "short_factor", r->short_factor, &r->n_factors, where, err));
    ERR_TRY(read_list(settings, "long_factor", r->long_factor, &n_long, where, err));
    if (n_long == r->n_factors) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: \"long_factor\" has %d numbers, \"short_factor\" %d", where, n_long,
                   r->n_factors);
}

static qp_status read_llama3(const json_t *settings, hf_rope *r, const char *where, qp_error *err) {
    ERR_TRY(json_need(settings, "low_freq_factor", where, err));
    ERR_TRY(json_need(settings, "high_freq_factor", where, err));
    ERR_TRY(hf_get_real(settings, "low_freq_factor", 1e-6, max_factor, &r->low_freq_factor, where, err));
    ERR_TRY(hf_get_real(settings, "high_freq_factor", 1e-6, max_factor, &r->high_freq_factor, where, err));
    if (r->high_freq_factor > r->low_freq_factor) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0,
                   "%s: \"high_freq_factor\" is %g, allowed is more than \"low_freq_factor\" (%g)", where,
                   r->high_freq_factor, r->low_freq_factor);
}

/* Zeros mean "by the rule" to the reference too. */
static qp_status read_yarn(const json_t *settings, hf_rope *r, const char *where, qp_error *err) {
    double fast = 0, slow = 0;
    ERR_TRY(hf_get_real(settings, "beta_fast", 0, max_factor, &fast, where, err));
    ERR_TRY(hf_get_real(settings, "beta_slow", 0, max_factor, &slow, where, err));
    if (fast != 0) r->beta_fast = fast;
    if (slow != 0) r->beta_slow = slow;
    ERR_TRY(hf_get_real(settings, "mscale", 0, max_factor, &r->mscale, where, err));
    ERR_TRY(hf_get_real(settings, "mscale_all_dim", 0, max_factor, &r->mscale_all_dim, where, err));
    return json_get_bool(settings, "truncate", &r->truncate, where, err);
}

static qp_status read_original_max(const hfconfig *c, const json_t *settings, hf_rope *r, qp_error *err) {
    static const char key[] = "original_max_position_embeddings";
    const char *where = hfconfig_where(c);
    r->original_max = r->max_positions;
    ERR_TRY(json_get_int(settings, key, 2, MAX_POSITIONS, &r->original_max, where, err));
    ERR_TRY(hfconfig_int(c, key, 2, MAX_POSITIONS, &r->original_max, err));
    if (r->original_max >= 2) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: \"max_position_embeddings\" is %lld, rope of kind %s needs at least 2",
                   where, (long long)r->original_max, hf_rope_kind_name(r->kind));
}

static qp_status read_kind_numbers(const hfconfig *c, const json_t *settings, hf_rope *r, qp_error *err) {
    const char *where = hfconfig_where(c);
    if (r->kind == HF_ROPE_DEFAULT) return QP_OK;
    if (r->kind != HF_ROPE_YARN && r->kind != HF_ROPE_LONGROPE) ERR_TRY(json_need(settings, "factor", where, err));
    ERR_TRY(hf_get_real(settings, "factor", 1e-3, max_factor, &r->factor, where, err));
    if (r->kind == HF_ROPE_DYNAMIC) return hf_get_real(settings, "alpha", 0, max_factor, &r->alpha, where, err);
    if (r->kind == HF_ROPE_LINEAR) return QP_OK;
    ERR_TRY(read_original_max(c, settings, r, err));
    if (r->kind == HF_ROPE_LLAMA3) return read_llama3(settings, r, where, err);
    ERR_TRY(hf_get_real(settings, "attention_factor", 1e-6, max_factor, &r->attention_factor, where, err));
    return r->kind == HF_ROPE_YARN ? read_yarn(settings, r, where, err) : read_longrope(settings, r, where, err);
}

/* Inside the settings before outside. */
static qp_status read_common(const hfconfig *c, const json_t *settings, hf_rope *r, qp_error *err) {
    static const double lowest_theta = 1.0001, highest_theta = 1e15;
    const char *where = hfconfig_where(c);
    ERR_TRY(hfconfig_int(c, "max_position_embeddings", 1, MAX_POSITIONS, &r->max_positions, err));
    ERR_TRY(hfconfig_real(c, "rotary_emb_base", lowest_theta, highest_theta, &r->theta, err));
    ERR_TRY(hfconfig_real(c, "rope_theta", lowest_theta, highest_theta, &r->theta, err));
    ERR_TRY(hfconfig_real(c, "rotary_pct", 1e-3, 1, &r->partial, err));
    ERR_TRY(hfconfig_real(c, "partial_rotary_factor", 1e-3, 1, &r->partial, err));
    if (!settings) return QP_OK;
    ERR_TRY(hf_get_real(settings, "rope_theta", lowest_theta, highest_theta, &r->theta, where, err));
    ERR_TRY(hf_get_real(settings, "partial_rotary_factor", 1e-3, 1, &r->partial, where, err));
    return read_kind(settings, &r->kind, where, err);
}

qp_status hfconfig_rope(const hfconfig *c, const char *layer_type, double default_theta, int64_t default_positions,
                        hf_rope *out, qp_error *err) {
    *out = (hf_rope){
        .theta = default_theta, .max_positions = default_positions, .beta_fast = 32, .beta_slow = 1, .truncate = true};
    const json_t *settings = NULL;
    ERR_TRY(find_settings(c, &settings, err));
    ERR_TRY(pick_layer_type(c, layer_type, &settings, err));
    ERR_TRY(read_common(c, settings, out, err));
    return read_kind_numbers(c, settings, out, err);
}
