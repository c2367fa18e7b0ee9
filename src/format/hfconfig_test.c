/* hfconfig_test.c — keys in both styles, nesting, rotary settings, ids; and everything absurd refused by name. */
#include "hfconfig.h"
#include "harness.h"
#include "base/file.h"
#include "base/mem.h"

static hfconfig *config_of(const char *text) {
    hfconfig *c;
    qp_error err;
    if (hfconfig_new(&c, text, strlen(text), "c", &err) != QP_OK) fail_msg("%s", err.text);
    return c;
}

/* ---- documents and keys ---- */

static const struct {
    const char *text, *says;
} bad_documents[] = {
    {"", "c: not valid JSON at line 1"},
    {"[1]", "c: is an array, expected an object"},
    {"{\"a\":1e999}", "c: not valid JSON at line 1"},
    {"{\"a\":NaN}", "c: not valid JSON at line 1"},
    {"{\"a\":1,}", "c: not valid JSON at line 1"},
    {"{\"text_config\":[]}", "c: \"text_config\" is an array, expected an object"},
};

static void test_bad_documents(void **state) {
    for (size_t i = 0; i < sizeof bad_documents / sizeof *bad_documents; i++) {
        hfconfig *c;
        qp_error err;
        const char *text = bad_documents[i].text;
        assert_int_equal(hfconfig_new(&c, text, strlen(text), "c", &err), QP_BAD_FORMAT);
        assert_null(c);
        if (!strstr(err.text, bad_documents[i].says)) fail_msg("%s: says \"%s\"", text, err.text);
    }
}

static void test_typed_keys(void **state) {
    hfconfig *c = config_of("{\"n\":7,\"r\":2.5,\"t\":\"x\",\"b\":true,\"z\":null,\"l\":[1],\"big\":1e300}");
    int64_t n = 1;
    double r = 1;
    bool b = false;
    const char *t = NULL;
    json_t *list;
    qp_error err;
    assert_int_equal(hfconfig_int(c, "n", 0, 9, &n, &err), QP_OK);
    assert_int_equal(hfconfig_real(c, "r", 0, 9, &r, &err), QP_OK);
    assert_int_equal(hfconfig_bool(c, "b", &b, &err), QP_OK);
    assert_int_equal(hfconfig_text(c, "t", &t, &err), QP_OK);
    assert_int_equal(hfconfig_array(c, "l", &list, &err), QP_OK);
    assert_true(n == 7 && r == 2.5 && b && !strcmp(t, "x") && json_array_size(list) == 1);
    assert_int_equal(hfconfig_int(c, "z", 0, 9, &n, &err), QP_OK);
    assert_int_equal(hfconfig_int(c, "absent", 0, 9, &n, &err), QP_OK);
    assert_int_equal(n, 7);
    assert_true(json_is_null(hfconfig_value(c, "z")));
    assert_null(hfconfig_value(c, "absent"));
    assert_int_equal(hfconfig_need(c, "z", &err), QP_BAD_FORMAT);
    assert_string_equal(err.text, "c: \"z\" is missing");
    assert_int_equal(hfconfig_int(c, "n", 8, 9, &n, &err), QP_BAD_FORMAT);
    assert_string_equal(err.text, "c: \"n\" is 7, allowed are 8 to 9");
    assert_int_equal(hfconfig_int(c, "r", 0, 9, &n, &err), QP_BAD_FORMAT);
    assert_int_equal(hfconfig_real(c, "big", 0, 9, &r, &err), QP_BAD_FORMAT);
    assert_string_equal(err.text, "c: \"big\" is 1e+300, allowed are 0 to 9");
    assert_int_equal(hfconfig_real(c, "t", 0, 9, &r, &err), QP_BAD_FORMAT);
    assert_string_equal(err.text, "c: \"t\" is a string, expected a number");
    hfconfig_close(c);
    hfconfig_close(NULL);
}

static void test_text_config_wins(void **state) {
    hfconfig *c = config_of("{\"architectures\":[\"Outer\"],\"n\":1,\"m\":2,\"z\":3,\"dtype\":\"bfloat16\","
                            "\"text_config\":{\"n\":10,\"z\":null,\"architectures\":[\"Inner\"]}}");
    int64_t n = 0, m = 0, z = 0;
    const char *name, *type;
    assert_int_equal(hfconfig_int(c, "n", 0, 99, &n, NULL), QP_OK);
    assert_int_equal(hfconfig_int(c, "m", 0, 99, &m, NULL), QP_OK);
    assert_int_equal(hfconfig_int(c, "z", 0, 99, &z, NULL), QP_OK);
    assert_true(n == 10 && m == 2 && z == 0); /* null inside hides the 3 outside */
    assert_int_equal(hfconfig_architecture(c, &name, NULL), QP_OK);
    assert_string_equal(name, "Outer");
    assert_int_equal(hfconfig_dtype(c, &type, NULL), QP_OK);
    assert_string_equal(type, "bfloat16");
    hfconfig_close(c);
}

static void test_architecture(void **state) {
    static const struct {
        const char *text, *name, *says;
    } cases[] = {
        {"{\"architectures\":[\"A\",\"B\"]}", "A", NULL},
        {"{\"text_config\":{\"architectures\":[\"T\"]}}", "T", NULL},
        {"{}", NULL, "c: \"architectures\" is missing"},
        {"{\"architectures\":[]}", NULL, "c: \"architectures\" begins with nothing, expected a string"},
        {"{\"architectures\":[3]}", NULL, "c: \"architectures\" begins with an integer, expected a string"},
        {"{\"architectures\":\"A\"}", NULL, "c: \"architectures\" is a string, expected an array"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hfconfig *c = config_of(cases[i].text);
        const char *name = NULL;
        qp_error err;
        assert_int_equal(hfconfig_architecture(c, &name, &err), cases[i].says ? QP_BAD_FORMAT : QP_OK);
        if (cases[i].says)
            assert_string_equal(err.text, cases[i].says);
        else
            assert_string_equal(name, cases[i].name);
        hfconfig_close(c);
    }
}

static void test_dtype(void **state) {
    static const char *const cases[][2] = {
        {"{\"torch_dtype\":\"float16\"}", "float16"},
        {"{\"dtype\":\"float32\",\"torch_dtype\":\"float16\"}", "float32"},
        {"{\"dtype\":null,\"torch_dtype\":\"float16\"}", "float16"},
    };
    const char *name = "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hfconfig *c = config_of(cases[i][0]);
        assert_int_equal(hfconfig_dtype(c, &name, NULL), QP_OK);
        assert_string_equal(name, cases[i][1]);
        hfconfig_close(c);
    }
    hfconfig *c = config_of("{}");
    assert_int_equal(hfconfig_dtype(c, &name, NULL), QP_OK);
    assert_null(name);
    hfconfig_close(c);
}

/* ---- rotary settings ---- */

#define LINEAR_MAP                                                                                                     \
    "{\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":2,\"rope_theta\":500000},"          \
    "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":10000}}}"

static void test_rope_spellings_agree(void **state) {
    static const char *const same[] = {
        "{\"rope_theta\":5e5,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}}",
        "{\"rope_theta\":5e5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
        "{\"rope_theta\":5e5,\"rope_scaling\":{\"type\":\"yarn\",\"rope_type\":\"linear\",\"factor\":2}}",
        "{\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2.0,\"rope_theta\":500000}}",
        "{\"rope_theta\":3,\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2.0,\"rope_theta\":500000}}",
        "{\"rope_scaling\":null,\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2,\"rope_theta\":500000}}",
        LINEAR_MAP,
        "{\"rope_theta\":1e4,\"text_config\":{\"rope_theta\":5e5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}}",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        hfconfig *c = config_of(same[i]);
        hf_rope r;
        qp_error err;
        if (hfconfig_rope(c, NULL, 10000, 2048, &r, &err) != QP_OK) fail_msg("%s: %s", same[i], err.text);
        assert_true(r.kind == HF_ROPE_LINEAR && r.factor == 2 && r.theta == 500000 && r.partial == 0);
        assert_int_equal(r.max_positions, 2048);
        hfconfig_close(c);
    }
}

static void test_rope_by_layer_type(void **state) {
    hfconfig *c = config_of("{\"rope_theta\":777,\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"llama3\","
                            "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4},"
                            "\"sliding_attention\":{\"rope_theta\":10000},\"odd_attention\":null}}");
    hf_rope r;
    qp_error err;
    assert_true(hfconfig_rope_is_map(c));
    assert_int_equal(hfconfig_rope(c, "full_attention", 10000, 512, &r, &err), QP_OK);
    assert_true(r.kind == HF_ROPE_LLAMA3 && r.theta == 777 && r.original_max == 512);
    assert_int_equal(hfconfig_rope(c, "sliding_attention", 10000, 512, &r, &err), QP_OK);
    assert_true(r.kind == HF_ROPE_DEFAULT && r.theta == 10000);
    assert_int_equal(hfconfig_rope(c, "odd_attention", 10000, 512, &r, &err), QP_BAD_FORMAT);
    assert_string_equal(err.text, "c: the rope settings are a map, but have null for \"odd_attention\"");
    assert_int_equal(hfconfig_rope(c, "none", 10000, 512, &r, &err), QP_BAD_FORMAT);
    hfconfig_close(c);
    c = config_of("{\"rope_parameters\":{\"rope_type\":\"default\"}}");
    assert_false(hfconfig_rope_is_map(c));
    assert_int_equal(hfconfig_rope(c, "sliding_attention", 10000, 512, &r, &err), QP_OK);
    hfconfig_close(c);
}

#define LONG_HEAD "{\"max_position_embeddings\":64,\"rope_scaling\":{\"rope_type\":\"longrope\","
#define YARN_HEAD "{\"max_position_embeddings\":64,\"rope_scaling\":{\"rope_type\":\"yarn\","

static const struct {
    qp_status code;
    const char *text, *says;
} bad_ropes[] = {
    {QP_BAD_FORMAT, "{\"rope_theta\":0}", "\"rope_theta\" is 0, allowed are 1.0001 to 1e+15"},
    {QP_BAD_FORMAT, "{\"rope_theta\":-10000}", "\"rope_theta\" is -10000, allowed"},
    {QP_BAD_FORMAT, "{\"rope_theta\":1e300}", "\"rope_theta\" is 1e+300, allowed"},
    {QP_BAD_FORMAT, "{\"rope_theta\":\"1e4\"}", "\"rope_theta\" is a string, expected a number"},
    {QP_BAD_FORMAT, "{\"partial_rotary_factor\":0}", "\"partial_rotary_factor\" is 0, allowed are 0.001 to 1"},
    {QP_BAD_FORMAT, "{\"partial_rotary_factor\":1.5}", "\"partial_rotary_factor\" is 1.5, allowed"},
    {QP_BAD_FORMAT, "{\"max_position_embeddings\":0}", "\"max_position_embeddings\" is 0, allowed"},
    {QP_BAD_FORMAT, "{\"rope_scaling\":\"linear\"}", "\"rope_scaling\" is a string, expected an object"},
    {QP_UNSUPPORTED, "{\"rope_scaling\":{\"rope_type\":\"magic\"}}",
     "\"rope_type\" is \"magic\", allowed are default, "},
    {QP_BAD_FORMAT, "{\"rope_scaling\":{\"rope_type\":3}}", "\"rope_type\" is an integer, expected a string"},
    {QP_BAD_FORMAT, "{\"rope_scaling\":{\"rope_type\":\"linear\"}}", "\"factor\" is missing"},
    {QP_BAD_FORMAT, "{\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":0}}", "\"factor\" is 0, allowed are"},
    {QP_BAD_FORMAT, "{\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":-2}}", "\"factor\" is -2, allowed are"},
    {QP_BAD_FORMAT, "{\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":null}}", "\"factor\" is missing"},
    {QP_BAD_FORMAT, YARN_HEAD "\"factor\":4,\"original_max_position_embeddings\":0}}",
     "\"original_max_position_embeddings\" is 0, allowed are 2 to"},
    {QP_BAD_FORMAT, YARN_HEAD "\"factor\":4,\"beta_fast\":-1}}", "\"beta_fast\" is -1, allowed"},
    {QP_BAD_FORMAT, YARN_HEAD "\"factor\":4,\"attention_factor\":0}}", "\"attention_factor\" is 0, allowed"},
    {QP_BAD_FORMAT, YARN_HEAD "\"factor\":4,\"truncate\":1}}", "\"truncate\" is an integer, expected true or false"},
    {QP_BAD_FORMAT, "{\"max_position_embeddings\":1,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}",
     "\"max_position_embeddings\" is 1, rope of kind yarn needs at least 2"},
    {QP_BAD_FORMAT, "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"high_freq_factor\":4}}",
     "\"low_freq_factor\" is missing"},
    {QP_BAD_FORMAT,
     "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4}}",
     "\"high_freq_factor\" is 4, allowed is more than \"low_freq_factor\" (4)"},
    {QP_BAD_FORMAT, LONG_HEAD "\"long_factor\":[1]}}", "\"short_factor\" is missing"},
    {QP_BAD_FORMAT, LONG_HEAD "\"short_factor\":[],\"long_factor\":[1]}}", "\"short_factor\" has 0 numbers, allowed"},
    {QP_BAD_FORMAT, LONG_HEAD "\"short_factor\":[1],\"long_factor\":[1,2]}}",
     "\"long_factor\" has 2 numbers, \"short_factor\" 1"},
    {QP_BAD_FORMAT, LONG_HEAD "\"short_factor\":[1,0],\"long_factor\":[1,2]}}",
     "\"short_factor\"[1] is an integer (0), allowed are numbers from 1e-6 to 1e+06"},
    {QP_BAD_FORMAT, LONG_HEAD "\"short_factor\":[\"1\"],\"long_factor\":[1]}}", "\"short_factor\"[0] is a string"},
    {QP_BAD_FORMAT, LONG_HEAD "\"short_factor\":1,\"long_factor\":[1]}}", "\"short_factor\" is an integer, expected"},
};

static void test_bad_ropes(void **state) {
    for (size_t i = 0; i < sizeof bad_ropes / sizeof *bad_ropes; i++) {
        hfconfig *c = config_of(bad_ropes[i].text);
        hf_rope r;
        qp_error err = {0};
        const qp_status status = hfconfig_rope(c, NULL, 10000, 2048, &r, &err);
        if (!strstr(err.text, bad_ropes[i].says)) fail_msg("%s: says \"%s\"", bad_ropes[i].text, err.text);
        assert_int_equal(status, bad_ropes[i].code);
        hfconfig_close(c);
    }
}

static void test_longrope_too_long(void **state) {
    char text[8192] = "{\"rope_scaling\":{\"rope_type\":\"longrope\",\"long_factor\":[1],\"short_factor\":[1";
    for (int i = 0; i < HF_ROPE_MAX_FACTORS; i++) strcat(text, ",1");
    strcat(text, "]}}");
    hfconfig *c = config_of(text);
    hf_rope r;
    qp_error err;
    assert_int_equal(hfconfig_rope(c, NULL, 10000, 2048, &r, &err), QP_BAD_FORMAT);
    assert_string_equal(err.text, "c: \"short_factor\" has 513 numbers, allowed are 1 to 512");
    hfconfig_close(c);
}

/* ---- ids and sampling defaults ---- */

static char folder[64], generation_path[96];

static int make_folder(void **state) {
    harness_folder(folder);
    snprintf(generation_path, sizeof generation_path, "%s/generation_config.json", folder);
    return 0;
}

static int remove_folder(void **state) {
    unlink(generation_path);
    return rmdir(folder);
}

static const struct {
    const char *config, *generation; /* NULL: no such file */
    int bos, pad, n_eos, eos[3];
} id_cases[] = {
    {"{}", NULL, -1, -1, 0, {0}},
    {"{\"bos_token_id\":1,\"eos_token_id\":2,\"pad_token_id\":-1}", NULL, 1, -1, 1, {2}},
    {"{\"bos_token_id\":1,\"eos_token_id\":2}", "{\"eos_token_id\":[5,6.0,7]}", 1, -1, 3, {5, 6, 7}},
    {"{\"bos_token_id\":1,\"eos_token_id\":[2,3]}", "{\"bos_token_id\":9,\"pad_token_id\":0}", 9, 0, 2, {2, 3}},
    {"{\"eos_token_id\":2}", "{\"eos_token_id\":null}", -1, -1, 1, {2}},
    {"{\"eos_token_id\":2}", "{\"eos_token_id\":[]}", -1, -1, 0, {0}},
    {"{\"eos_token_id\":2,\"text_config\":{\"eos_token_id\":4,\"bos_token_id\":8}}", NULL, 8, -1, 1, {4}},
};

static void test_ids(void **state) {
    for (size_t i = 0; i < sizeof id_cases / sizeof *id_cases; i++) {
        hfconfig *c = config_of(id_cases[i].config);
        hf_ids ids;
        hf_sampling sampling;
        qp_error err;
        const char *text = id_cases[i].generation;
        unlink(generation_path);
        if (text) assert_int_equal(file_write(generation_path, text, strlen(text), NULL), QP_OK);
        if (hfconfig_generation(c, folder, &ids, &sampling, &err) != QP_OK) fail_msg("%s", err.text);
        assert_int_equal(ids.bos, id_cases[i].bos);
        assert_int_equal(ids.pad, id_cases[i].pad);
        assert_int_equal(ids.n_eos, id_cases[i].n_eos);
        for (int j = 0; j < ids.n_eos; j++) assert_int_equal(ids.eos[j], id_cases[i].eos[j]);
        assert_true(!sampling.do_sample && sampling.temperature == -1 && sampling.top_k == -1);
        hfconfig_close(c);
    }
}

static void test_sampling(void **state) {
    const char text[] = "{\"do_sample\":true,\"temperature\":0.6,\"top_p\":0.95,\"top_k\":20,\"min_p\":0.0,"
                        "\"repetition_penalty\":1.05}";
    hf_ids ids = {0};
    hf_sampling s = {0};
    assert_int_equal(hf_generation_parse(text, sizeof text - 1, "g", &ids, &s, NULL), QP_OK);
    assert_true(s.do_sample && s.temperature == 0.6 && s.top_p == 0.95 && s.top_k == 20 && s.min_p == 0);
    assert_true(s.repetition_penalty == 1.05);
}

static const struct {
    qp_status code;
    const char *text, *says;
} bad_generations[] = {
    {QP_BAD_FORMAT, "[]", "g: is an array, expected an object"},
    {QP_BAD_FORMAT, "{\"eos_token_id\":\"x\"}", "g: \"eos_token_id\" is a string, expected an integer"},
    {QP_BAD_FORMAT, "{\"eos_token_id\":[1,\"x\"]}", "g: \"eos_token_id\" is a string, expected an integer"},
    {QP_BAD_FORMAT, "{\"eos_token_id\":[1,null]}", "g: \"eos_token_id\" is missing"},
    {QP_BAD_FORMAT, "{\"eos_token_id\":-2}", "g: \"eos_token_id\" is -2, allowed are -1 to 2147483647"},
    {QP_BAD_FORMAT, "{\"bos_token_id\":1e12}", "g: \"bos_token_id\" is 1000000000000, allowed are"},
    {QP_TOO_LARGE, "{\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}",
     "g: \"eos_token_id\" lists 17 ids, allowed are 16"},
    {QP_BAD_FORMAT, "{\"temperature\":-1}", "g: \"temperature\" is -1, allowed are 0 to"},
    {QP_BAD_FORMAT, "{\"top_p\":2}", "g: \"top_p\" is 2, allowed are 0 to 1"},
    {QP_BAD_FORMAT, "{\"top_k\":0.5}", "g: \"top_k\" is 0.5, expected an integer"},
};

static void test_bad_generation(void **state) {
    for (size_t i = 0; i < sizeof bad_generations / sizeof *bad_generations; i++) {
        hf_ids ids = {0};
        hf_sampling s = {0};
        qp_error err = {0};
        const char *text = bad_generations[i].text;
        const qp_status status = hf_generation_parse(text, strlen(text), "g", &ids, &s, &err);
        if (!strstr(err.text, bad_generations[i].says)) fail_msg("%s: says \"%s\"", text, err.text);
        assert_int_equal(status, bad_generations[i].code);
    }
}

/* ---- damage ---- */

static const char whole[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"eos_token_id\":[1,2],\"rope_theta\":10000.0,"
    "\"max_position_embeddings\":64,\"rope_scaling\":{\"rope_type\":\"longrope\",\"short_factor\":[1,2],"
    "\"long_factor\":[3,4]},\"text_config\":{\"dtype\":\"bfloat16\"}}";

static qp_status read_all(const char *text, size_t bytes) {
    hfconfig *c;
    hf_rope r;
    hf_ids ids;
    hf_sampling s;
    const char *name;
    ERR_TRY(hfconfig_new(&c, text, bytes, "c", NULL));
    qp_status status = hfconfig_rope(c, NULL, 10000, 64, &r, NULL);
    if (status == QP_OK) status = hfconfig_architecture(c, &name, NULL);
    if (status == QP_OK) status = hfconfig_generation(c, "/no/such/folder", &ids, &s, NULL);
    hfconfig_close(c);
    return status;
}

static void test_every_truncation(void **state) {
    assert_int_equal(read_all(whole, sizeof whole - 1), QP_OK);
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        char *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, whole, n);
        assert_int_equal(read_all(cut, n), QP_BAD_FORMAT);
        free(cut);
    }
}

static void test_allocation_failures(void **state) {
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_int_equal(read_all(whole, sizeof whole - 1), QP_NO_MEMORY);
    }
    mem_fail_after(2);
    assert_int_equal(read_all(whole, sizeof whole - 1), QP_OK);
    mem_fail_after(-1);
}

static void test_missing_file(void **state) {
    hfconfig *c;
    qp_error err;
    assert_int_equal(hfconfig_open(&c, folder, &err), QP_NO_FILE);
    assert_null(c);
    assert_non_null(strstr(err.text, "/config.json: cannot open: "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_documents),
        cmocka_unit_test(test_typed_keys),
        cmocka_unit_test(test_text_config_wins),
        cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_dtype),
        cmocka_unit_test(test_rope_spellings_agree),
        cmocka_unit_test(test_rope_by_layer_type),
        cmocka_unit_test(test_bad_ropes),
        cmocka_unit_test(test_longrope_too_long),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_bad_generation),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
