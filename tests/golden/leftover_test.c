/* leftover_test.c — unused tensors that would change the answers are refused, all others are not. */
#include "goldens.h"
#include "format/checkpoint.h"
#include "format/safetensors.h"

#define SOURCE QUIPU_SOURCE "/tests/golden/models/llama-mha"

enum { MOST = 200 };

/* A folder like SOURCE with one tensor more. */
static void write_folder(const char *folder, const char *name, const void *data, int64_t n) {
    static safetensors_item items[MOST];
    char path[128], command[512];
    checkpoint *c;
    size_t count = 0;
    assert_int_equal(checkpoint_open(&c, SOURCE, NULL), QP_OK);
    for (; count < checkpoint_count(c) && count < MOST - 1; count++) {
        const ckpt_tensor *t = checkpoint_at(c, count);
        items[count] = (safetensors_item){t->name, t->type, t->rank, t->shape, t->data};
    }
    items[count++] = (safetensors_item){name, DTYPE_F16, 1, &n, data};
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(safetensors_write(path, items, count, NULL, NULL), QP_OK);
    snprintf(command, sizeof command, "ln -sf '%s/config.json' '%s'", SOURCE, folder);
    assert_int_equal(system(command), 0);
    checkpoint_close(c);
}

typedef struct trial {
    const char *name;
    uint16_t value;
    const char *error; /* NULL: it opens */
} trial;

static const trial trials[] = {
    {"model.layers.0.self_attn.q_proj.bias", 0, NULL},
    {"model.layers.0.self_attn.q_proj.bias", 0x8000, NULL}, /* -0 */
    {"model.layers.0.self_attn.q_proj.bias", 0x0080,
     "q_proj.bias: a bias that is not zero, where LlamaForCausalLM has"},
    {"model.layers.1.mlp.down_proj.bias", 0x3C00, "down_proj.bias: a bias that is not zero"},
    {"vision_tower.blocks.0.proj.bias", 0x3C00, NULL},
    {"model.layers.99.mlp.down_proj.bias", 0x3C00, NULL},
    {"bias", 0x3C00, NULL},
    {"model.layers.0.mlp.act.scales", 0x3C00, "act.scales: activations that are divided by a scale each"},
    {"model.layers.0.self_attn.rotary_emb.inv_freq", 0x3C00, NULL},
};

static void what_would_change_answers_is_refused(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(trials); i++) {
        const uint16_t values[4] = {0, 0, 0, trials[i].value};
        char folder[64];
        qp_model *m = NULL;
        qp_error err = {0};
        harness_folder(folder);
        write_folder(folder, trials[i].name, values, 4);
        const qp_status status = qp_model_open(&m, folder, NULL, &err);
        if (!trials[i].error && status) fail_msg("%s: %s", trials[i].name, err.text);
        if (trials[i].error && (status != QP_UNSUPPORTED || !strstr(err.text, trials[i].error)))
            fail_msg("%s: status %d, %s", trials[i].name, status, err.text);
        qp_model_close(m);
        harness_remove(folder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_would_change_answers_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
