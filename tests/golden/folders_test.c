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

/* The text part of a checkpoint that also sees: nested config, prefixed names; and an architecture named by the user.
 */
static bool with_prefix(safetensors_item *item, void *shape) {
    static char names[256][128];
    static int n;
    char *name = names[n++ % 256];
    snprintf(name, sizeof *names, "language_model.%s", item->name);
    item->name = name;
    return true;
}

static void text_parts_and_named_architectures(void **state) {
    char folder[64], path[600];
    json_t *config;
    qp_model *m;
    qp_model_info info;
    qp_error err;
    snprintf(path, sizeof path, "%s/models/gemma3-text/config.json", QUIPU_FIXTURES);
    if (json_load_path(&config, path, 1 << 20, NULL) != QP_OK) HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    harness_folder(folder);
    write_changed(folder, "gemma3-text", with_prefix);
    json_t *outer = json_pack("{s:[s],s:o,s:{}}", "architectures", "Gemma3ForConditionalGeneration", "text_config",
                              config, "vision_config");
    char *text = json_dumps(outer, 0);
    harness_write(folder, "config.json", text);
    if (qp_model_open(&m, folder, NULL, &err) != QP_OK) fail_msg("%s", err.text);
    qp_model_get_info(m, &info);
    assert_string_equal(info.architecture, "Gemma3ForCausalLM");
    qp_model_close(m);
    json_object_set_new(outer, "architectures", json_pack("[s]", "SomethingElse"));
    free(text);
    text = json_dumps(outer, 0);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_tensors_are_named),
        cmocka_unit_test(text_parts_and_named_architectures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
