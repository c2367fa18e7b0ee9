/* sensitivity_test.c — every option of the fixtures' configs is really read: with another value for one key the logits
 * move, by no less than a hundredth of what the reference's moved by its own other value, or the value is refused.
 *
 * cases.json says for each case which keys the reference was tried with and how far that moved its logits; keys that
 * move nothing there must move nothing here. */
#include "goldens.h"

typedef struct flip {
    const char *key, *value; /* NULL value: the key is left out */
} flip;

static const flip flips[] = {
    {"rope_theta", "700"},
    {"rope_scaling", "null"},
    {"rope_parameters", "null"},
    {"rope_local_base_freq", "100"},
    {"rms_norm_eps", "0.3"},
    {"layer_norm_eps", "0.3"},
    {"layer_norm_epsilon", "0.3"},
    {"norm_eps", "0.3"},
    {"logit_scale", "1.5"},
    {"hidden_act", "\"relu\""},
    {"hidden_activation", "\"relu\""},
    {"activation_function", "\"relu\""},
    {"sliding_window", "8"},
    {"sliding_window_pattern", "2"},
    {"norm_topk_prob", NULL},
    {"num_experts_per_tok", "1"},
    {"routed_scaling_factor", "0.7"},
    {"topk_group", "4"},
    {"rope_interleave", "false"},
    {"attn_logit_softcapping", "null"},
    {"final_logit_softcapping", "null"},
    {"query_pre_attn_scalar", "300"},
    {"partial_rotary_factor", "1.0"},
    {"rotary_pct", "1.0"},
    {"use_parallel_residual", "false"},
    {"swiglu_limit", "0.2"},
    {"scale_attn_by_inverse_layer_idx", "true"},
    {"embedding_multiplier", "1"},
    {"residual_multiplier", "1"},
    {"attention_multiplier", "1"},
    {"logits_scaling", "9"},
    {"attention_chunk_size", "8"},
    {"attn_temperature_tuning", "false"},
    {"scale_emb", "1"},
    {"scale_depth", "9"},
    {"dim_model_base", "8"},
    {"clip_qkv", "0.2"},
    {"max_window_layers", "0"},
    {"use_sliding_window", "true"},
    {"no_rope_layer_interval", "3"},
};

/* The other value of a key, given the one it has. */
static json_t *other_value(const char *key, const json_t *value) {
    if (!strcmp(key, "norm_topk_prob")) return json_boolean(!json_is_true(value));
    if (!strcmp(key, "num_experts_per_tok") && json_integer_value(value) == 1) return json_integer(2);
    for (size_t i = 0; i < HARNESS_COUNT(flips); i++)
        if (!strcmp(flips[i].key, key)) return json_loads(flips[i].value, JSON_DECODE_ANY, NULL);
    fail_msg("no other value for the key \"%s\" is known", key);
    return NULL;
}

/* A folder with the weights of the case and its config with one key changed. */
static void write_folder(const char *folder, const golden *g, const json_t *config, const char *key) {
    char command[2048];
    json_t *changed = json_deep_copy(config);
    json_object_set_new(changed, key, other_value(key, json_object_get(config, key)));
    char *text = json_dumps(changed, 0);
    harness_write(folder, "config.json", text);
    free(text);
    json_decref(changed);
    snprintf(command, sizeof command, "ln -sf '%s'/model*.safetensors* '%s'", g->folder, folder);
    assert_int_equal(system(command), 0);
}

static float *last_logits(const golden *g, const char *folder) {
    const qp_model_options o = {.size = sizeof o, .threads = 2, .precision = QP_PRECISION_EXACT};
    qp_model *m;
    qp_error err;
    if (qp_model_open(&m, folder, &o, &err) != QP_OK) return NULL;
    float *logits = logits_of(m, g->long_ids, g->n_long, 1, 1 << 20, g->vocabulary);
    qp_model_close(m);
    return logits;
}

static void try_key(const golden *g, const json_t *config, const char *key, double reference_moved) {
    char folder[64];
    harness_folder(folder);
    write_folder(folder, g, config, key);
    float *got = last_logits(g, folder);
    const double moved = got ? max_difference(got, g->long_last, g->vocabulary) : INFINITY;
    if (reference_moved == 0 && !(moved <= 10 * g->exact_bound))
        fail_msg("%s: \"%s\" should change nothing, but moves the logits by %g", g->name, key, moved);
    if (!(moved >= 0.01 * reference_moved))
        fail_msg("%s: \"%s\" moves the logits by %g, the reference's by %g", g->name, key, moved, reference_moved);
    mem_free(got);
    harness_remove(folder);
}

static void every_option_is_read(void **state) {
    json_t *cases, *config;
    const char *only = getenv("QUIPU_CASE");
    if (json_load_path(&cases, QUIPU_FIXTURES "/models/cases.json", 1 << 20, NULL) != QP_OK)
        HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    const json_t *list = json_object_get(cases, "cases");
    int n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        json_t *sensitive = json_object_get(entry, "sensitivity_maxabs"), *moved;
        const char *key;
        char path[1024];
        golden g = {0};
        if (!sensitive || (only && strcmp(only, json_string_value(json_object_get(entry, "name"))))) continue;
        read_golden(&g, QUIPU_FIXTURES "/models", entry);
        snprintf(path, sizeof path, "%s/config.json", g.folder);
        assert_int_equal(json_load_path(&config, path, 1 << 20, NULL), QP_OK);
        json_object_foreach(sensitive, key, moved) {
            try_key(&g, config, key, json_number_value(moved));
            n++;
        }
        json_decref(config);
        safetensors_close(&g.file);
    }
    printf("%d options of configs tried\n", n);
    json_decref(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
