/* config_test.c — settings from every source: what they become, who wins, what is refused in which words. */
#include "harness.h"
#include "config.h"
#include "base/mem.h"

static int n_warnings;
static char last_warning[512];
static void count_warning(void *user, qp_log_level level, const char *line) {
    n_warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", line);
}
static const qp_log warn = {count_warning, NULL};

static qp_status read_text(config *c, const char *yaml, qp_error *err) {
    return config_read_text(c, yaml, strlen(yaml), "quipu.yml", &warn, err);
}

static void test_defaults(void **state) {
    config c;
    qp_error err;
    assert_int_equal(config_new(&c, &err), QP_OK);
    assert_string_equal(c.host, "127.0.0.1");
    assert_int_equal(c.port, 5000);
    assert_int_equal(c.max_queue, 512);
    assert_true(c.drain_timeout == 30);
    assert_int_equal(c.dummy_model_names.count, 1);
    assert_null(c.model);
    assert_int_equal(config_check(&c, &err), QP_OK);
    config_free(&c);
}

static void test_file(void **state) {
    config c;
    qp_error err = {0};
    config_new(&c, NULL);
    n_warnings = 0;
    const char *yaml =
        "network:\n  port: 8080\n  cors_origins: [\"http://a\", 'http://b']\nmodel:\n  cache_mode: FP16\n"
        "  model_name: 123\n  rope_scale: 0.50\nqueue:\n  drain_timeout: 2.5\nlogging:\n"
        "sampling:\n  override_preset:\n";
    if (read_text(&c, yaml, &err)) fail_msg("%s", err.text);
    assert_int_equal(c.port, 8080);
    assert_int_equal(c.cors_origins.count, 2);
    assert_true(config_has(&c.cors_origins, "http://b"));
    assert_false(config_has(&c.cors_origins, "http://c"));
    assert_string_equal(c.model_name, "123");
    assert_true(c.rope_scale == 0.5 && c.drain_timeout == 2.5);
    assert_null(c.override_preset);
    assert_int_equal(n_warnings, 0);
    config_free(&c);
}

/* Later calls win, and the origin tells which. */
static void test_precedence(void **state) {
    config c;
    config_new(&c, NULL);
    assert_string_equal(c.origins[CONFIG_port], "default");
    assert_int_equal(read_text(&c, "network: {port: 1}", NULL), QP_OK);
    assert_string_equal(c.origins[CONFIG_port], "quipu.yml: port");
    setenv("QUIPU_NETWORK_PORT", "2", 1);
    assert_int_equal(config_read_environment(&c, NULL), QP_OK);
    unsetenv("QUIPU_NETWORK_PORT");
    assert_int_equal(c.port, 2);
    assert_string_equal(c.origins[CONFIG_port], "QUIPU_NETWORK_PORT");
    assert_int_equal(config_set(&c, &config_rows[CONFIG_port], "3", "--port", NULL), QP_OK);
    assert_int_equal(c.port, 3);
    config_free(&c);
}

/* A config.yml as TabbyAPI ships it: read, and only what asks for something is told. */
static void test_tabby(void **state) {
    static const char yaml[] =
        "network:\n  host: 127.0.0.1\n  port: 5000\n  disable_auth: false\n  disable_fetch_requests: false\n"
        "  send_tracebacks: false\n  api_servers: [\"OAI\"]\nlogging:\n  log_prompt: false\n"
        "  log_generation_params: false\n  log_requests: false\nmodel:\n  model_dir: models\n"
        "  inline_model_loading: false\n  use_dummy_models: false\n  dummy_model_names: [\"gpt-3.5-turbo\"]\n"
        "  model_name:\n  use_as_default: []\n  max_seq_len:\n  tensor_parallel: false\n  gpu_split_auto: true\n"
        "  autosplit_reserve: [96]\n  gpu_split: []\n  rope_scale:\n  rope_alpha:\n  cache_mode: FP16\n  cache_size:\n"
        "  chunk_size: 2048\n  output_chunking: true\n  max_batch_size:\n  prompt_template:\n  vision: false\n"
        "draft_model:\n  draft_model_dir: models\n  draft_model_name:\nlora:\n  lora_dir: loras\n  loras:\n"
        "embeddings:\n  embedding_model_dir: models\n  embeddings_device: cpu\n  embedding_model_name:\n"
        "sampling:\n  override_preset:\ndeveloper:\n  unsafe_launch: false\n  disable_request_streaming: false\n"
        "  realtime_process_priority: true\n";
    config c;
    qp_error err = {0};
    config_new(&c, NULL);
    n_warnings = 0;
    if (read_text(&c, yaml, &err)) fail_msg("%s", err.text);
    assert_int_equal(c.chunk_size, 2048);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last_warning, "developer.realtime_process_priority"));
    config_free(&c);
}

static const struct {
    const char *yaml, *part;
} bad[] = {
    {"network: {prot: 1}", "unknown setting network.prot; did you mean network.port?"},
    {"queue: {port: 1}", "unknown setting queue.port; did you mean network.port?"},
    {"netwrk: {port: 1}", "unknown block 'netwrk'; did you mean 'network'?"},
    {"network: 5", "network: found no settings"},
    {"[1]", "found no blocks"},
    {"network: {port: 65536}", "port: found 65536, allowed are 0 to 65535"},
    {"network: {port: x}", "port: found 'x', allowed are whole numbers"},
    {"network: {port: }\nqueue: {max_stall: nan}", "max_stall: found 'nan', allowed are numbers"},
    {"queue: {drain_timeout: -1}", "drain_timeout: found -1, allowed are 0 to 86400"},
    {"network: {disable_auth: maybe}", "disable_auth: found 'maybe', allowed are true and false"},
    {"network: {half_close: no}", "half_close: found 'no', allowed are cancel|ignore"},
    {"network: {host: [a]}", "host: found a list, allowed is one value"},
    {"network: {cors_origins: {a: b}}", "cors_origins: found a mapping, allowed is a list"},
    {"network: {cors_origins: [\"a,b\"]}", "item 1 is not a text without commas"},
    {"logging: {metrics_compat: [vlm]}", "metrics_compat: found 'vlm', allowed are vllm|llamacpp"},
    {"network:\n  port: 1\n  port: 2\n", "line 3: a second time the key 'port'"},
};

static void test_refused(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(bad); i++) {
        config c;
        qp_error err = {0};
        config_new(&c, NULL);
        assert_int_not_equal(read_text(&c, bad[i].yaml, &err), QP_OK);
        if (!strstr(err.text, bad[i].part)) fail_msg("%s: %s", bad[i].yaml, err.text);
        config_free(&c);
    }
}

static const struct {
    const char *yaml, *part;
} contradictions[] = {
    {"network: {host: 0.0.0.0, disable_auth: true}", "allow_unauthenticated_network"},
    {"network: {host: 0.0.0.0, disable_auth: true, allow_unauthenticated_network: true}", NULL},
    {"network: {host: 127.0.0.5, disable_auth: true}", NULL},
    {"model: {no_model: true, model: x}", "no_model excludes"},
    {"model: {model: x, model_name: y}", "not both"},
    {"model: {max_seq_len: 1024, cache_size: 512}", "max_seq_len is 1024"},
};

static void test_contradictions(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(contradictions); i++) {
        config c;
        qp_error err = {0};
        config_new(&c, NULL);
        assert_int_equal(read_text(&c, contradictions[i].yaml, &err), QP_OK);
        const qp_status status = config_check(&c, &err);
        if (!contradictions[i].part)
            assert_int_equal(status, QP_OK);
        else if (status == QP_OK || !strstr(err.text, contradictions[i].part))
            fail_msg("%s: %s", contradictions[i].yaml, err.text);
        config_free(&c);
    }
}

/* The example is a file that changes nothing, and with every # of a setting removed it is the defaults. */
static void test_example(void **state) {
    strbuf example = {0}, bare = {0}, before = {0}, after = {0};
    config c;
    qp_error err = {0};
    config_example(&example);
    config_new(&c, NULL);
    if (read_text(&c, example.at, &err)) fail_msg("%s", err.text);
    config_print(&before, &c);
    for (char *line = strtok(example.at, "\n"); line; line = strtok(NULL, "\n")) {
        char key[64];
        bool is_setting = false;
        if (sscanf(line, "  # %63[a-z_]:", key) == 1 && line[4 + strlen(key)] == ':')
            for (int i = 0; i < CONFIG_COUNT; i++) is_setting |= !strcmp(config_rows[i].key, key);
        if (is_setting) strbuf_format(&bare, "  %s\n", line + 4);
        if (*line != ' ' && *line != '#') strbuf_format(&bare, "%s\n", line);
    }
    if (read_text(&c, bare.at, &err)) fail_msg("%s", err.text);
    config_print(&after, &c);
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "\n  %s:", row->key);
        if (!strstr(bare.at, wanted)) fail_msg("%s is not in the example", row->key);
        if (row->standard) assert_string_not_equal(c.origins[row - config_rows], "default");
    }
    config_free(&c);
    strbuf_free(&example);
    strbuf_free(&bare);
    strbuf_free(&before);
    strbuf_free(&after);
}

static void test_memory(void **state) {
    for (int64_t n = 0;; n++) {
        config c;
        mem_fail_after(n);
        const qp_status status = config_new(&c, NULL);
        mem_fail_after(-1);
        config_free(&c);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_file),    cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_tabby),    cmocka_unit_test(test_refused), cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_example),  cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
