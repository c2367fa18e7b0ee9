/* shape_test.c — configs become shapes as the reference reads them; absurd ones are refused by name; the rows of
 * architectures describe exactly the tensors of real checkpoints. */
#include "shape.h"
#include "harness.h"
#include "arch.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tensors.h"
#include <math.h>

#define SIZES                                                                                                          \
    "\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":4,\"intermediate_size\":80,\"vocab_size\":100"
#define LLAMA "{\"architectures\":[\"LlamaForCausalLM\"]," SIZES
#define MISTRAL "{\"architectures\":[\"MistralForCausalLM\"]," SIZES
#define QWEN2 "{\"architectures\":[\"Qwen2ForCausalLM\"],\"num_key_value_heads\":2," SIZES
#define QWEN3 "{\"architectures\":[\"Qwen3ForCausalLM\"],\"num_key_value_heads\":2," SIZES

static model_shape shape; /* large: not on the stack of every test */

static qp_status read_text(const char *text, qp_error *err) {
    hfconfig *c;
    const arch_row *row;
    ERR_TRY(hfconfig_new(&c, text, strlen(text), "c", err));
    const qp_status status = shape_read(&shape, &row, c, err);
    hfconfig_close(c);
    return status;
}

static void need_shape(const char *text) {
    qp_error err;
    if (read_text(text, &err) != QP_OK) fail_msg("%s: %s", text, err.text);
}

/* ---- defaults and derived numbers ---- */

static void test_llama_defaults(void **state) {
    need_shape(LLAMA "}");
    assert_string_equal(shape.architecture, "LlamaForCausalLM");
    assert_true(shape.n_layers == 4 && shape.hidden == 64 && shape.ffn == 80 && shape.vocabulary == 100);
    assert_true(shape.n_heads == 4 && shape.n_kv_heads == 4 && shape.head_dim == 16 && shape.rot_dims == 16);
    assert_true(shape.trained_context == 2048 && shape.norm_eps == 1e-6f && shape.act == ACT_SILU);
    assert_true(shape.attention_scale == 0.25f);
    assert_false(shape.qkv_bias || shape.o_bias || shape.mlp_bias || shape.qk_norm || shape.tied);
    assert_true(shape.n_ropes == 1 && shape.ropes[0].kind == HF_ROPE_DEFAULT && shape.ropes[0].theta == 10000);
    assert_int_equal(shape.ropes[0].max_positions, 2048);
    for (int i = 0; i < 4; i++) assert_true(shape.layers[i].window == 0 && shape.layers[i].mixer == MIXER_GQA);
}

static void test_llama_keys(void **state) {
    need_shape(LLAMA ",\"num_key_value_heads\":2,\"head_dim\":24,\"rms_norm_eps\":1e-5,\"attention_bias\":true,"
                     "\"mlp_bias\":true,\"tie_word_embeddings\":true,\"max_position_embeddings\":64,"
                     "\"hidden_act\":\"gelu_pytorch_tanh\",\"sliding_window\":7}");
    assert_true(shape.n_kv_heads == 2 && shape.head_dim == 24 && shape.norm_eps == 1e-5f && shape.tied);
    assert_true(shape.qkv_bias && shape.o_bias && shape.mlp_bias && shape.act == ACT_GELU_TANH);
    assert_true(fabsf(shape.attention_scale - 0.20412415f) < 1e-8f && shape.layers[0].window == 0);
    need_shape(LLAMA ",\"num_key_value_heads\":null,\"head_dim\":null}");
    assert_true(shape.n_kv_heads == 4 && shape.head_dim == 16);
    need_shape(LLAMA ",\"text_config\":{\"vocab_size\":120},\"tie_word_embeddings\":true}");
    assert_true(shape.vocabulary == 120 && shape.tied);
}

/* 'w' for a layer with the window 8, '.' for one without. */
static const struct {
    const char *text, *windows;
} window_cases[] = {
    {MISTRAL ",\"num_key_value_heads\":2,\"sliding_window\":8}", "wwww"},
    {MISTRAL ",\"num_key_value_heads\":2,\"sliding_window\":null}", "...."},
    {QWEN2 ",\"sliding_window\":8,\"max_window_layers\":2}", "...."},
    {QWEN2 ",\"sliding_window\":8,\"max_window_layers\":2,\"use_sliding_window\":true}", "..ww"},
    {QWEN2 ",\"sliding_window\":8,\"max_window_layers\":0,\"use_sliding_window\":true}", "wwww"},
    {QWEN2 ",\"sliding_window\":8,\"use_sliding_window\":true}", "...."},
    {QWEN2 ",\"sliding_window\":null,\"max_window_layers\":0,\"use_sliding_window\":true}", "...."},
    {QWEN2 ",\"sliding_window\":0,\"max_window_layers\":0,\"use_sliding_window\":false}", "...."},
    {QWEN3 ",\"sliding_window\":8,\"max_window_layers\":0,\"use_sliding_window\":true,\"layer_types\":"
           "[\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}",
     ".w.w"},
    {QWEN3 ",\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\"]}", "...."},
};

static void test_windows(void **state) {
    for (size_t i = 0; i < sizeof window_cases / sizeof *window_cases; i++) {
        need_shape(window_cases[i].text);
        for (int j = 0; j < 4; j++)
            if (shape.layers[j].window != (window_cases[i].windows[j] == 'w' ? 8 : 0))
                fail_msg("%s: layer %d has window %d", window_cases[i].text, j, shape.layers[j].window);
    }
    need_shape(MISTRAL ",\"num_key_value_heads\":2}");
    assert_int_equal(shape.layers[3].window, 4096);
    assert_int_equal(shape.trained_context, 131072);
}

static void test_qwen(void **state) {
    need_shape(QWEN2 "}");
    assert_true(shape.qkv_bias && !shape.o_bias && !shape.qk_norm && shape.head_dim == 16);
    assert_int_equal(shape.trained_context, 32768);
    need_shape(QWEN3 "}");
    assert_true(!shape.qkv_bias && !shape.o_bias && shape.qk_norm && shape.head_dim == 128);
    need_shape(QWEN3 ",\"attention_bias\":true}");
    assert_true(shape.qkv_bias && shape.o_bias);
}

static void test_ropes_by_layer_type(void **state) {
    need_shape(QWEN3 ",\"sliding_window\":8,\"max_window_layers\":2,\"use_sliding_window\":true,\"rope_parameters\":{"
                     "\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":1e6},"
                     "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}}");
    assert_int_equal(shape.n_ropes, 2);
    assert_true(shape.layers[1].rope == 0 && shape.layers[2].rope == 1);
    assert_true(shape.ropes[0].kind == HF_ROPE_LINEAR && shape.ropes[1].theta == 1e4);
}

static void test_partial_rotation_of_a_family_without(void **state) {
    need_shape(LLAMA ",\"partial_rotary_factor\":0.5}");
    assert_int_equal(shape.rot_dims, 16);
}

/* ---- refusals ---- */

#define ARCH(name) "{\"architectures\":[\"" name "\"]," SIZES "}"
#define WITH(head, key, value) head ",\"" key "\":" value "}"
/* Duplicate keys: the last wins. */

static const struct {
    qp_status code;
    const char *text, *says;
} refusals[] = {
    {QP_UNSUPPORTED, ARCH("FooForCausalLM"),
     "c: the architecture \"FooForCausalLM\" is not supported, known are Llama, Mistral"},
    {QP_BAD_FORMAT, "{}", "c: \"architectures\" is missing"},
    {QP_BAD_FORMAT, "{\"architectures\":[\"LlamaForCausalLM\"]}", "c: \"num_hidden_layers\" is missing"},
    {QP_BAD_FORMAT, WITH(LLAMA, "hidden_size", "0"), "c: \"hidden_size\" is 0, allowed are 1 to 262144"},
    {QP_BAD_FORMAT, WITH(LLAMA, "hidden_size", "null"), "c: \"hidden_size\" is missing"},
    {QP_BAD_FORMAT, WITH(LLAMA, "hidden_size", "-64"), "c: \"hidden_size\" is -64, allowed"},
    {QP_BAD_FORMAT, WITH(LLAMA, "hidden_size", "64.5"), "c: \"hidden_size\" is 64.5, expected an integer"},
    {QP_BAD_FORMAT, WITH(LLAMA, "hidden_size", "\"64\""), "c: \"hidden_size\" is a string, expected an integer"},
    {QP_BAD_FORMAT, WITH(LLAMA, "hidden_size", "65"),
     "c: \"hidden_size\" is 65, expected a multiple of \"num_attention_heads\" (4)"},
    {QP_BAD_FORMAT, WITH(LLAMA, "num_hidden_layers", "1000000000"),
     "c: \"num_hidden_layers\" is 1000000000, allowed are 1 to 512"},
    {QP_BAD_FORMAT, WITH(LLAMA, "num_hidden_layers", "0"), "c: \"num_hidden_layers\" is 0, allowed"},
    {QP_BAD_FORMAT, WITH(LLAMA, "vocab_size", "1e12"), "c: \"vocab_size\" is 1000000000000, allowed are 1 to 16777216"},
    {QP_BAD_FORMAT, WITH(LLAMA, "vocab_size", "1e999"), "c: not valid JSON"},
    {QP_BAD_FORMAT, WITH(LLAMA, "vocab_size", "99999999999999999999999999"), "\"vocab_size\" is 1e+26, expected an"},
    {QP_BAD_FORMAT, WITH(LLAMA, "num_attention_heads", "0"), "c: \"num_attention_heads\" is 0, allowed"},
    {QP_BAD_FORMAT, WITH(LLAMA, "num_key_value_heads", "0"), "c: \"num_key_value_heads\" is 0, allowed"},
    {QP_BAD_FORMAT, WITH(LLAMA, "num_key_value_heads", "3"), "c: 4 heads cannot share 3 key/value heads evenly"},
    {QP_BAD_FORMAT, WITH(LLAMA, "num_key_value_heads", "8"),
     "c: the number of key/value heads is 8, allowed are 1 to 4"},
    {QP_BAD_FORMAT, WITH(LLAMA, "head_dim", "0"), "c: \"head_dim\" is 0, allowed are 1 to 1024"},
    {QP_BAD_FORMAT, WITH(LLAMA, "head_dim", "15"), "c: 15 elements of a head turn, allowed are even numbers"},
    {QP_BAD_FORMAT, WITH(LLAMA, "intermediate_size", "0"), "c: \"intermediate_size\" is 0, allowed"},
    {QP_BAD_FORMAT, WITH(LLAMA, "rms_norm_eps", "0"), "c: \"rms_norm_eps\" is 0, allowed are 1e-30 to 0.5"},
    {QP_BAD_FORMAT, WITH(LLAMA, "rms_norm_eps", "-1e-6"), "c: \"rms_norm_eps\" is -1e-06, allowed"},
    {QP_BAD_FORMAT, WITH(LLAMA, "max_position_embeddings", "0"), "c: \"max_position_embeddings\" is 0, allowed"},
    {QP_BAD_FORMAT, WITH(LLAMA, "max_position_embeddings", "1e15"),
     "c: \"max_position_embeddings\" is 1000000000000000"},
    {QP_BAD_FORMAT, WITH(LLAMA, "tie_word_embeddings", "1"), "c: \"tie_word_embeddings\" is an integer, expected true"},
    {QP_UNSUPPORTED, WITH(LLAMA, "hidden_act", "\"mish\""), "c: \"hidden_act\" is \"mish\", allowed are silu, gelu,"},
    {QP_BAD_FORMAT, WITH(LLAMA, "hidden_act", "1"), "c: \"hidden_act\" is an integer, expected a string"},
    {QP_UNSUPPORTED, WITH(LLAMA, "quantization_config", "{\"quant_method\":\"hqq\"}"),
     "c: quantized weights with \"quant_method\" \"hqq\", allowed are exl2, exl3, gptq, awq"},
    {QP_UNSUPPORTED, LLAMA ",\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
     "c: \"partial_rotary_factor\" is 0.5, LlamaForCausalLM with rope of kind linear allows 1"},
    {QP_BAD_FORMAT, LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1],\"long_factor\":[2]}}",
     "c: \"short_factor\" and \"long_factor\" have 1 numbers, expected 8, half of what turns"},
    {QP_BAD_FORMAT, LLAMA ",\"head_dim\":2,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}",
     "c: rope of kind dynamic needs at least 4 turned elements, found 2"},
    {QP_BAD_FORMAT, WITH(MISTRAL, "sliding_window", "0"), "c: \"sliding_window\" is 0, allowed are 1 to 1073741824"},
    {QP_BAD_FORMAT, WITH(MISTRAL, "sliding_window", "\"8\""), "c: \"sliding_window\" is a string, expected an integer"},
    {QP_BAD_FORMAT, WITH(MISTRAL, "sliding_window", "8"), "c: the number of key/value heads is 8, allowed are 1 to 4"},
    {QP_BAD_FORMAT, WITH(QWEN2, "max_window_layers", "-1"), "c: \"max_window_layers\" is -1, allowed"},
    {QP_BAD_FORMAT, WITH(QWEN2, "layer_types", "[\"full_attention\"]"),
     "c: \"layer_types\" has 1 entries, expected one for each of 4 layers"},
    {QP_UNSUPPORTED, WITH(QWEN2, "layer_types", "[\"linear_attention\",\"\",\"\",\"\"]"),
     "c: \"layer_types\"[0] is \"linear_attention\", allowed are full_attention, sliding_attention, "
     "chunked_attention"},
    {QP_BAD_FORMAT, WITH(QWEN2, "layer_types", "[1,2,3,4]"), "c: \"layer_types\"[0] is an integer, expected a string"},
    {QP_BAD_FORMAT, WITH(QWEN2, "layer_types", "[\"full_attention\",\"sliding_attention\",\"\",\"\"]"),
     "c: \"layer_types\"[1] is sliding_attention, but no window is set"},
};

static void test_refusals(void **state) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        qp_error err = {0};
        const qp_status status = read_text(refusals[i].text, &err);
        if (!strstr(err.text, refusals[i].says))
            fail_msg("%s: says \"%s\", expected \"%s\"", refusals[i].text, err.text, refusals[i].says);
        assert_int_equal(status, refusals[i].code);
    }
}

static void test_check_synthetic(void **state) {
    qp_error err;
    need_shape(LLAMA "}");
    assert_int_equal(shape_check(&shape, "s", &err), QP_OK);
    shape.layers[2].rope = 1;
    assert_int_equal(shape_check(&shape, "s", &err), QP_BAD_FORMAT);
    assert_string_equal(err.text, "s: layer 2 has mixer 0, window 0 and rope 1");
    need_shape(LLAMA "}");
    shape.rot_dims = 18;
    assert_int_equal(shape_check(&shape, "s", &err), QP_BAD_FORMAT);
    need_shape(LLAMA "}");
    shape.norm_eps = NAN;
    assert_int_equal(shape_check(&shape, "s", &err), QP_BAD_FORMAT);
}

static void test_activation_names(void **state) {
    activation act;
    for (int i = 0; i < ACT_COUNT; i++) {
        assert_true(shape_find_activation(&act, shape_activation_name((activation)i)));
        assert_int_equal(act, i);
    }
    assert_false(shape_find_activation(&act, "SiLU"));
    assert_string_equal(shape_activation_name(ACT_COUNT), "?");
}

/* ---- rows against checkpoints ---- */

/* How often each tensor of the checkpoint is asked for. */
static void ask_row(const tensor_source *t, const slot_row *r, int *asked, int *n_slots) {
    const int layers = slot_is_per_layer(r->slot) ? shape.n_layers : 1;
    for (int i = 0; i < layers; i++) {
        if (!shape_needs(&shape, r->need, i)) continue;
        assert_int_equal(n_slots[i * SLOT_COUNT + (int)r->slot]++, 0); /* one row for each slot of a layer */
        for (int m = 0; m < (slot_row_is_split(r) ? slot_members(r->slot, &shape) : 1); m++) {
            char name[128], stored[128];
            qp_error err;
            if (tensors_check(t, r, i, m, &err) != QP_OK) fail_msg("%s", err.text);
            assert_int_equal(slot_tensor_name(name, sizeof name, r, i, m, &err), QP_OK);
            assert_int_equal(names_stored(stored, sizeof stored, t->how, name, &err), QP_OK);
            for (size_t k = 0; k < checkpoint_count(t->files); k++)
                asked[k] += !strcmp(checkpoint_at(t->files, k)->name, stored);
        }
    }
}

/* Every slot is there with its dimensions, and nothing else is. */
static void check_folder(const char *folder) {
    hfconfig *config;
    checkpoint *c;
    const arch_row *row = NULL;
    tensor_source t;
    qp_error err;
    if (hfconfig_open(&config, folder, &err) || shape_read(&shape, &row, config, &err) ||
        checkpoint_open(&c, folder, &err))
        fail_msg("%s", err.text);
    tensors_open(&t, c, row, &shape);
    int *asked = mem_zarray(checkpoint_count(c), sizeof *asked);
    int *n_slots = mem_zarray((size_t)shape.n_layers * SLOT_COUNT, sizeof *n_slots);
    for (const slot_row *r = row->slots; r->pattern; r++) ask_row(&t, r, asked, n_slots);
    for (size_t k = 0; k < checkpoint_count(c); k++)
        if (!asked[k]) fail_msg("%s: %s is not used", folder, checkpoint_at(c, k)->name);
    assert_int_equal(arch_unexpected(row, &shape, c, NULL, 0), 0);
    shape.n_layers--;
    const ckpt_tensor *extra[2] = {0};
    assert_true(arch_unexpected(row, &shape, c, extra, 2) >= 6 && extra[1]);
    mem_free(asked);
    mem_free(n_slots);
    tensors_close(&t);
    hfconfig_close(config);
    checkpoint_close(c);
}

static void test_fixtures(void **state) {
    json_t *cases;
    if (json_load_path(&cases, QUIPU_FIXTURES "/models/cases.json", 1 << 20, NULL) != QP_OK)
        HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    const json_t *list = json_object_get(cases, "cases");
    for (size_t i = 0; i < json_array_size(list); i++) {
        char folder[512];
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));
        snprintf(folder, sizeof folder, "%s/models/%s", QUIPU_FIXTURES, name);
        if (strncmp(name, "lora-", 5)) check_folder(folder);
    }
    json_decref(cases);
}

/* Prefixes of checkpoints that hold more than a text model, and the other way round. */
static void test_prefixes(void **state) {
    static const struct {
        naming how;
        const char *plain, *stored;
    } cases[] = {
        {{"", ""}, "model.layers.0.x", "model.layers.0.x"},
        {{"language_model.", ""}, "lm_head.weight", "language_model.lm_head.weight"},
        {{"model.language_model.", "model."}, "model.layers.3.x", "model.language_model.layers.3.x"},
        {{"model.language_model.", "model."}, "lm_head.weight", "lm_head.weight"},
        {{"", "model."}, "model.layers.1.x", "layers.1.x"},
        {{"", "model."}, "lm_head.weight", "lm_head.weight"},
        {{"", "transformer."}, "transformer.h.1.x", "h.1.x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64], tiny[4];
        qp_error err;
        assert_int_equal(names_stored(name, sizeof name, cases[i].how, cases[i].plain, &err), QP_OK);
        assert_string_equal(name, cases[i].stored);
        assert_true(names_plain(name, sizeof name, cases[i].how, cases[i].stored));
        assert_string_equal(name, cases[i].plain);
        assert_int_equal(names_stored(tiny, sizeof tiny, cases[i].how, cases[i].plain, &err), QP_TOO_LARGE);
        assert_false(names_plain(tiny, sizeof tiny, cases[i].how, cases[i].stored));
    }
}

/* ---- rows by themselves ---- */

static int holes(const char *pattern) {
    int n = 0;
    for (const char *at = pattern; (at = strstr(at, "%d")); at += 2) n++;
    return n;
}

static void test_rows_are_sound(void **state) {
    const arch_row *row;
    char list[1024];
    int n = 0;
    arch_list(list, sizeof list);
    for (; (row = arch_at(n)); n++) {
        assert_ptr_equal(arch_find(row->hf_name), row);
        for (const char *const *alias = row->aliases; alias && *alias; alias++)
            assert_ptr_equal(arch_find(*alias), row);
        assert_non_null(row->about);
        for (const slot_row *r = row->slots; r->pattern; r++) {
            const slot_many many = slot_count(r->slot);
            assert_in_range(holes(r->pattern), many == SLOT_ONCE ? 0 : 1, many == SLOT_PER_EXPERT ? 2 : many > 0);
            assert_true(r->rows != DIM_NONE);
        }
        for (const config_key *k = row->keys; k->key; k++) assert_true(k->field < sizeof(model_shape));
    }
    assert_true(n >= 45);
    assert_null(arch_at(-1));
    assert_null(arch_find("llamaforcausallm"));
    assert_non_null(strstr(list, "Llama, Mistral"));
}

static void test_names_that_match(void **state) {
    static const struct {
        const char *name;
        bool is_known;
        slot slot;
        int layer;
    } cases[] = {
        {"model.norm.weight", true, SLOT_FINAL_NORM, 0},
        {"model.layers.3.self_attn.q_proj.weight", true, SLOT_WQ, 3},
        {"model.layers.4.self_attn.q_proj.weight", false, 0, 0},
        {"model.layers.03.self_attn.q_proj.weight", false, 0, 0},
        {"model.layers.-1.self_attn.q_proj.weight", false, 0, 0},
        {"model.layers..self_attn.q_proj.weight", false, 0, 0},
        {"model.layers.99999999999999999999.self_attn.q_proj.weight", false, 0, 0},
        {"model.layers.0.self_attn.q_proj.weight.extra", false, 0, 0},
        {"model.layers.0.self_attn.q_proj.bias", false, 0, 0},
        {"model.layers.0.self_attn.rotary_emb.inv_freq", false, 0, 0},
        {"", false, 0, 0},
    };
    need_shape(LLAMA "}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        slot found = 0;
        int layer = 0;
        const bool is_known = arch_match(arch_find("LlamaForCausalLM"), &shape, cases[i].name, &found, &layer);
        assert_int_equal(is_known, cases[i].is_known);
        if (is_known) assert_true(found == cases[i].slot && layer == cases[i].layer);
    }
}

static const slot_row *row_of(const slot_row *rows, slot s) {
    while (rows->pattern && rows->slot != s) rows++;
    assert_non_null(rows->pattern);
    return rows;
}

static void test_tensor_names(void **state) {
    const slot_row *rows = arch_find("LlamaForCausalLM")->slots;
    char name[80], tiny[8];
    qp_error err;
    assert_int_equal(slot_tensor_name(name, sizeof name, row_of(rows, SLOT_W_DOWN), 17, 0, &err), QP_OK);
    assert_string_equal(name, "model.layers.17.mlp.down_proj.weight");
    assert_int_equal(slot_tensor_name(name, sizeof name, row_of(rows, SLOT_HEAD), 17, 0, &err), QP_OK);
    assert_string_equal(name, "lm_head.weight");
    assert_int_equal(slot_tensor_name(tiny, sizeof tiny, row_of(rows, SLOT_HEAD), 0, 0, &err), QP_TOO_LARGE);
    const slot_row *expert = row_of(arch_find("Qwen3MoeForCausalLM")->slots, SLOT_EXPERT_UP);
    assert_int_equal(slot_tensor_name(name, sizeof name, expert, 3, 127, &err), QP_OK);
    assert_string_equal(name, "model.layers.3.mlp.experts.127.up_proj.weight");
    assert_string_equal(slot_name(SLOT_B_DOWN), "B_DOWN");
    assert_string_equal(slot_name(SLOT_COUNT), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_defaults),
        cmocka_unit_test(test_llama_keys),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_qwen),
        cmocka_unit_test(test_ropes_by_layer_type),
        cmocka_unit_test(test_partial_rotation_of_a_family_without),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_check_synthetic),
        cmocka_unit_test(test_activation_names),
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_rows_are_sound),
        cmocka_unit_test(test_names_that_match),
        cmocka_unit_test(test_tensor_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
