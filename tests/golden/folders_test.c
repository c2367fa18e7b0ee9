/* folders_test.c — model folders with something wrong: each is refused with one error that names the tensor, what was
 * found and what was expected, by opening and by `inspect` alike; what is too much is listed by `inspect`. */
#include "goldens.h"

/* A folder with the config of `name` and its tensors, each passed through `change` (false: left out). */
typedef bool change_fn(safetensors_item *item, void *data);

static void write_changed(const char *folder, const char *name, change_fn *change) {
    char path[600], to[128], command[1400];
    safetensors file;
    snprintf(path, sizeof path, "%s/models/%s/model.safetensors", QUIPU_FIXTURES, name);
    assert_int_equal(safetensors_open(&file, path, NULL), QP_OK);
    safetensors_item *items = mem_zarray(file.n_tensors + 1, sizeof *items);
    int64_t(*shapes)[8] = mem_zarray(file.n_tensors + 1, sizeof *shapes);
    size_t n = 0;
    for (size_t i = 0; i < file.n_tensors; i++) {
        const ckpt_tensor *t = &file.tensors[i];
        memcpy(shapes[n], t->shape, sizeof *shapes);
        items[n] = (safetensors_item){t->name, t->type, t->rank, shapes[n], t->data};
        n += change(&items[n], shapes[n]);
    }
    static const int64_t four[] = {4};
    static const float zeros[4];
    items[n++] = (safetensors_item){"model.extra.weight", DTYPE_F32, 1, four, zeros};
    snprintf(to, sizeof to, "%s/model.safetensors", folder);
    assert_int_equal(safetensors_write(to, items, n, NULL, NULL), QP_OK);
    snprintf(command, sizeof command, "cp '%s/models/%s/config.json' '%s'", QUIPU_FIXTURES, name, folder);
    assert_int_equal(system(command), 0);
    mem_free(items);
    mem_free(shapes);
    safetensors_close(&file);
}

static bool keep(safetensors_item *item, void *shape) { return true; }
static bool drop_down(safetensors_item *item, void *shape) {
    return strcmp(item->name, "model.layers.1.mlp.down_proj.weight") != 0;
}
static bool drop_expert(safetensors_item *item, void *shape) {
    return strcmp(item->name, "model.layers.1.mlp.experts.6.up_proj.weight") != 0;
}

static void exchange(int64_t *shape) {
    const int64_t first = shape[0];
    shape[0] = shape[1];
    shape[1] = first;
}

static bool transpose_k(safetensors_item *item, void *shape) {
    if (!strcmp(item->name, "model.layers.0.self_attn.k_proj.weight")) exchange(shape);
    return true;
}
static bool transpose_c_fc(safetensors_item *item, void *shape) {
    if (!strcmp(item->name, "transformer.h.1.mlp.c_fc.weight")) exchange(shape);
    return true;
}
static bool cut_norm(safetensors_item *item, void *shape) {
    if (!strcmp(item->name, "model.norm.weight")) ((int64_t *)shape)[0]--;
    return true;
}
static bool cut_qkv(safetensors_item *item, void *shape) {
    if (!strcmp(item->name, "model.layers.0.self_attn.qkv_proj.weight")) ((int64_t *)shape)[0]--;
    return true;
}
static bool cut_experts(safetensors_item *item, void *shape) {
    if (!strcmp(item->name, "model.layers.0.mlp.experts.gate_up_proj")) ((int64_t *)shape)[0]--;
    return true;
}

static const struct {
    const char *model;
    change_fn *change;
    const char *says; /* NULL: it opens */
} cases[] = {
    {"llama-mha", keep, NULL},
    {"llama-mha", drop_down, "model.layers.1.mlp.down_proj.weight: the checkpoint has no such tensor; 64 x 80"},
    {"llama-rope-linear", transpose_k,
     "model.layers.0.self_attn.k_proj.weight: its shape is [64, 32], expected [32, 64]: it is transposed"},
    {"llama-mha", cut_norm, "model.norm.weight: its shape is [63], expected [64]"},
    {"gpt2", transpose_c_fc, "transformer.h.1.mlp.c_fc.weight: its shape is [96, 64], expected [64, 96]: it is"},
    {"phi3", cut_qkv, "model.layers.0.self_attn.qkv_proj.weight: its shape is [127, 64], expected [128, 64]"},
    {"gpt-oss", cut_experts, "experts.gate_up_proj: its shape is [3, 64, 96], expected [4, 64, 96]"},
    {"deepseek-v3", drop_expert, "model.layers.1.mlp.experts.6.up_proj.weight: the checkpoint has no such tensor"},
};

static void wrong_tensors_are_named(void **state) {
    struct stat is_there;
    if (stat(QUIPU_FIXTURES "/models", &is_there)) HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        char folder[64], *json;
        qp_model *m = NULL;
        qp_error err = {0};
        harness_folder(folder);
        write_changed(folder, cases[i].model, cases[i].change);
        const qp_status status = qp_model_open(&m, folder, NULL, &err);
        if (!cases[i].says != (status == QP_OK)) fail_msg("%s: %s", cases[i].model, err.text);
        if (cases[i].says && !strstr(err.text, cases[i].says))
            fail_msg("%s: says \"%s\", expected \"%s\"", cases[i].model, err.text, cases[i].says);
        assert_int_equal(qp_inspect_json(&json, folder, false, &err), QP_OK);
        assert_non_null(strstr(json, "model.extra.weight"));
        assert_non_null(strstr(json, cases[i].says ? "\"supported\": false" : "\"supported\": true"));
        if (cases[i].says && !strstr(json, cases[i].says)) fail_msg("inspect says %s", json);
        qp_free(json);
        qp_model_close(m);
        harness_remove(folder);
    }
}

/* ---- text parts, and families that store the same weights under other names ---- */

/* A name of its own for a tensor; lives as long as a folder is written. */
static char *new_name(void) {
    static char names[256][CKPT_MAX_NAME];
    static int n;
    return names[n++ % 256];
}

static bool with_prefix(safetensors_item *item, const char *instead, const char *prefix) {
    const size_t cut = strlen(instead);
    char *name = new_name();
    if (strncmp(item->name, instead, cut) != 0) return true;
    snprintf(name, CKPT_MAX_NAME, "%s%s", prefix, item->name + cut);
    item->name = name;
    return true;
}

static bool behind_model(safetensors_item *item, void *shape) { return with_prefix(item, "", "language_model."); }
static bool inside_model(safetensors_item *item, void *shape) {
    return with_prefix(item, "model.", "model.language_model.");
}
static bool text_model(safetensors_item *item, void *shape) { return with_prefix(item, "model.", "model.text_model."); }

static const struct {
    const char *model, *whole, *model_type;
    change_fn *change;
    const char *rope; /* the settings of the whole, or NULL */
} text_parts[] = {
    {"gemma3-text", "Gemma3ForConditionalGeneration", "gemma3_text", behind_model, NULL},
    {"llama-mha", "LlavaForConditionalGeneration", "llama", behind_model, NULL},
    {"llama-mha", "SmolVLMForConditionalGeneration", "llama", text_model, NULL},
    {"mistral-swa", "Mistral3ForConditionalGeneration", "mistral", inside_model, NULL},
    {"qwen2", "LlavaOnevisionForConditionalGeneration", "qwen2", inside_model, NULL},
    {"qwen2", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", inside_model,
     "{\"type\": \"mrope\", \"mrope_section\": [2, 3, 3]}"},
    {"qwen3", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", inside_model,
     "{\"rope_type\": \"default\", \"mrope_interleaved\": true, \"mrope_section\": [2, 3, 3]}"},
};

/* The fixture's config as the "text_config" of a model that also sees. */
static json_t *nested_config(json_t *config, size_t i) {
    json_object_del(config, "architectures");
    json_object_set_new(config, "model_type", json_string(text_parts[i].model_type));
    if (text_parts[i].rope) {
        const json_t *old = json_object_get(config, "rope_parameters");
        if (old) json_object_set(config, "rope_theta", json_object_get(old, "rope_theta"));
        json_object_del(config, "rope_parameters");
        json_object_set_new(config, "rope_scaling", json_loads(text_parts[i].rope, 0, NULL));
    }
    return json_pack("{s:[s],s:o,s:{}}", "architectures", text_parts[i].whole, "text_config", config, "vision_config");
}

/* Logits of the same ids, bit for bit. */
static void same_logits(const char *folder, const char *model, const char *what) {
    char path[600];
    size_t n, m;
    snprintf(path, sizeof path, "%s/models/%s", QUIPU_FIXTURES, model);
    float *expected = folder_logits(path, NULL, QP_PRECISION_EXACT, &n),
          *found = folder_logits(folder, NULL, QP_PRECISION_EXACT, &m);
    assert_int_equal(n, m);
    if (memcmp(expected, found, FOLDER_ROWS * n * sizeof *found)) fail_msg("%s: other logits than %s", what, model);
    mem_free(expected);
    mem_free(found);
}

static void text_parts_run_as_their_family(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(text_parts); i++) {
        char folder[64], path[600];
        json_t *config;
        snprintf(path, sizeof path, "%s/models/%s/config.json", QUIPU_FIXTURES, text_parts[i].model);
        if (json_load_path(&config, path, 1 << 20, NULL) != QP_OK) HARNESS_SKIP("no models in " QUIPU_FIXTURES);
        harness_folder(folder);
        write_changed(folder, text_parts[i].model, text_parts[i].change);
        json_t *outer = nested_config(config, i);
        char *text = json_dumps(outer, 0);
        harness_write(folder, "config.json", text);
        same_logits(folder, text_parts[i].model, text_parts[i].whole);
        free(text);
        json_decref(outer);
        harness_remove(folder);
    }
}

/* An unknown whole is refused with what is known, unless the user names the family. */
static void unknown_ones_are_refused(void **state) {
    char folder[64], path[600];
    json_t *config;
    qp_model *m;
    qp_error err;
    snprintf(path, sizeof path, "%s/models/gemma3-text/config.json", QUIPU_FIXTURES);
    if (json_load_path(&config, path, 1 << 20, NULL) != QP_OK) HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    harness_folder(folder);
    write_changed(folder, "gemma3-text", behind_model);
    json_t *outer =
        json_pack("{s:[s],s:o,s:{}}", "architectures", "SomethingElse", "text_config", config, "vision_config");
    char *text = json_dumps(outer, 0);
    harness_write(folder, "config.json", text);
    assert_int_equal(qp_model_open(&m, folder, NULL, &err), QP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "\"SomethingElse\" is not supported, known are Llama, Mistral"));
    const qp_model_options as = {.size = sizeof as, .architecture = "Gemma3ForCausalLM"};
    assert_int_equal(qp_model_open(&m, folder, &as, &err), QP_OK);
    qp_model_close(m);
    free(text);
    json_decref(outer);
    harness_remove(folder);
}

/* InternLM 2 stores Llama's weights under other names, q, k and v woven by group. */
static const struct {
    const char *llama, *internlm;
} internlm_names[] = {
    {"embed_tokens", "tok_embeddings"},       {"input_layernorm", "attention_norm"},
    {"post_attention_layernorm", "ffn_norm"}, {"self_attn.o_proj", "attention.wo"},
    {"mlp.gate_proj", "feed_forward.w1"},     {"mlp.up_proj", "feed_forward.w3"},
    {"mlp.down_proj", "feed_forward.w2"},     {"lm_head", "output"},
};

static bool as_internlm(safetensors_item *item, void *shape) {
    for (size_t i = 0; i < HARNESS_COUNT(internlm_names); i++) {
        const char *at = strstr(item->name, internlm_names[i].llama);
        char *name = new_name();
        if (!at) continue;
        snprintf(name, CKPT_MAX_NAME, "%.*s%s%s", (int)(at - item->name), item->name, internlm_names[i].internlm,
                 at + strlen(internlm_names[i].llama));
        item->name = name;
        return true;
    }
    return true;
}

/* Puts the rows of q, k and v where InternLM 2 has them; `from` holds the three in this order. */
static void weave(uint8_t *to, const uint8_t *const from[3], const size_t heads[3], size_t groups, size_t head_bytes) {
    for (size_t g = 0; g < groups; g++)
        for (size_t part = 0; part < 3; part++) {
            const size_t bytes = heads[part] / groups * head_bytes;
            memcpy(to, from[part] + g * bytes, bytes);
            to += bytes;
        }
}

enum { WOVEN_LAYERS = 8 };

static const ckpt_tensor *find(const safetensors *file, const char *name) {
    for (size_t i = 0; i < file->n_tensors; i++)
        if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void write_internlm(const char *folder, const char *source, const json_t *config) {
    char path[600], to[128];
    safetensors file;
    uint8_t *woven[WOVEN_LAYERS];
    int64_t shapes[WOVEN_LAYERS][2];
    const size_t heads = (size_t)json_integer_value(json_object_get(config, "num_attention_heads")),
                 groups = (size_t)json_integer_value(json_object_get(config, "num_key_value_heads"));
    const int n_layers = (int)json_integer_value(json_object_get(config, "num_hidden_layers"));
    snprintf(path, sizeof path, "%s/model.safetensors", source);
    assert_int_equal(safetensors_open(&file, path, NULL), QP_OK);
    assert_true(n_layers <= WOVEN_LAYERS && heads > groups);
    safetensors_item *items = mem_zarray(file.n_tensors + WOVEN_LAYERS, sizeof *items);
    size_t n = 0;
    for (size_t i = 0; i < file.n_tensors; i++) {
        const ckpt_tensor *t = &file.tensors[i];
        if (strstr(t->name, "q_proj") || strstr(t->name, "k_proj") || strstr(t->name, "v_proj")) continue;
        items[n] = (safetensors_item){t->name, t->type, t->rank, t->shape, t->data};
        as_internlm(&items[n++], NULL);
    }
    for (int l = 0; l < n_layers; l++) {
        const uint8_t *parts[3];
        const ckpt_tensor *t = NULL;
        size_t bytes = 0;
        for (int part = 0; part < 3; part++) {
            char name[CKPT_MAX_NAME];
            snprintf(name, sizeof name, "model.layers.%d.self_attn.%c_proj.weight", l, "qkv"[part]);
            t = find(&file, name);
            parts[part] = t->data;
            bytes += t->bytes;
        }
        woven[l] = mem_array(bytes, 1);
        weave(woven[l], parts, (size_t[3]){heads, groups, groups}, groups, t->bytes / groups);
        shapes[l][0] = t->shape[0] * (int64_t)(heads / groups + 2);
        shapes[l][1] = t->shape[1];
        char *name = new_name();
        snprintf(name, CKPT_MAX_NAME, "model.layers.%d.attention.wqkv.weight", l);
        items[n++] = (safetensors_item){name, t->type, 2, shapes[l], woven[l]};
    }
    snprintf(to, sizeof to, "%s/model.safetensors", folder);
    assert_int_equal(safetensors_write(to, items, n, NULL, NULL), QP_OK);
    for (int l = 0; l < n_layers; l++) mem_free(woven[l]);
    mem_free(items);
    safetensors_close(&file);
}

static void internlm2_is_llama_woven(void **state) {
    const char *const model = "llama-rope-linear";
    char folder[64], path[600];
    json_t *config;
    snprintf(path, sizeof path, "%s/models/%s/config.json", QUIPU_FIXTURES, model);
    if (json_load_path(&config, path, 1 << 20, NULL) != QP_OK) HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    snprintf(path, sizeof path, "%s/models/%s", QUIPU_FIXTURES, model);
    harness_folder(folder);
    write_internlm(folder, path, config);
    json_object_set_new(config, "architectures", json_pack("[s]", "InternLM2ForCausalLM"));
    json_object_set_new(config, "bias", json_false());
    char *text = json_dumps(config, 0);
    harness_write(folder, "config.json", text);
    same_logits(folder, model, "InternLM 2");
    free(text);
    json_decref(config);
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_tensors_are_named),
        cmocka_unit_test(text_parts_run_as_their_family),
        cmocka_unit_test(unknown_ones_are_refused),
        cmocka_unit_test(internlm2_is_llama_woven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
