/* add_architecture_test.c — the worked example of docs/architectures.md, executed, and the document against the table.
 *
 * The example adds a family that nobody has: a Llama fixture whose keys and tensors go by other names, with q, k and v
 * in one matrix and a stronger embedding. If the row is right, its logits are those of the fixture. */
#include "goldens.h"
#include "base/file.h"
#include "cache/store.h"
#include "gen/seq.h"
#include "model/arch/families.h"
#include "model/tensors.h"

extern const arch_row arch_lumen;

/* [example] */
static const config_key lumen_keys[] = {
    ARCH_NEEDED("depth", n_layers, SHAPE_MAX_LAYERS),
    ARCH_NEEDED("width", hidden, SHAPE_MAX_HIDDEN),
    ARCH_NEEDED("heads", n_heads, SHAPE_MAX_HEADS),
    ARCH_NEEDED("inner", ffn, SHAPE_MAX_FFN),
    ARCH_NEEDED("vocab_size", vocabulary, SHAPE_MAX_VOCABULARY),
    ARCH_EPS("norm_epsilon", 1e-5),
    ARCH_ACT("activation", ACT_SILU),
    ARCH_TIED(true),
    ARCH_CONTEXT(2048),
    {.key = NULL},
};

#define LUMEN(name) "lumen.blocks.%d." name

static const slot_row lumen_slots[] = {
    {SLOT_EMBED, "lumen.tokens", DIM_VOCAB, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_HEAD, "lumen.head", DIM_VOCAB, DIM_HIDDEN, NEED_UNTIED, PART_ALL, 0},
    ARCH_VECTOR(SLOT_FINAL_NORM, "lumen.norm", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM, LUMEN("norm1"), NEED_ALWAYS),
    {SLOT_WQ, LUMEN("qkv"), DIM_Q, DIM_HIDDEN, NEED_ALWAYS, PART_STACK_Q, 0},
    {SLOT_WK, LUMEN("qkv"), DIM_KV, DIM_HIDDEN, NEED_ALWAYS, PART_STACK_K, 0},
    {SLOT_WV, LUMEN("qkv"), DIM_KV, DIM_HIDDEN, NEED_ALWAYS, PART_STACK_V, 0},
    {SLOT_WO, LUMEN("out"), DIM_HIDDEN, DIM_Q, NEED_ALWAYS, PART_ALL, 0},
    ARCH_VECTOR(SLOT_FFN_NORM, LUMEN("norm2"), NEED_ALWAYS),
    {SLOT_W_GATE, LUMEN("gate"), DIM_FFN, DIM_HIDDEN, NEED_DENSE, PART_ALL, 0},
    {SLOT_W_UP, LUMEN("up"), DIM_FFN, DIM_HIDDEN, NEED_DENSE, PART_ALL, 0},
    {SLOT_W_DOWN, LUMEN("down"), DIM_HIDDEN, DIM_FFN, NEED_DENSE, PART_ALL, 0},
    {.pattern = NULL},
};

/* The embedding is stored for a stream twice as strong. */
static qp_status lumen_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    double strength = 1;
    ERR_TRY(hfconfig_real(c, "stream_strength", 1e-3, 1e3, &strength, err));
    s->embed_scale = (float)(1 / strength);
    return QP_OK;
}

const arch_row arch_lumen = {
    .hf_name = "LumenForCausalLM",
    .keys = lumen_keys,
    .slots = lumen_slots,
    .rope_theta = 10000,
    .adjust = lumen_adjust,
    .about = "an invented family",
};
/* [end of the example] */

/* ---- a folder of that family ---- */

static const char *const renamed[][2] = {
    {"model.embed_tokens.weight", "lumen.tokens"},
    {"lm_head.weight", "lumen.head"},
    {"model.norm.weight", "lumen.norm"},
};
static const char *const renamed_in_layers[][2] = {
    {"input_layernorm.weight", "norm1"},
    {"self_attn.o_proj.weight", "out"},
    {"post_attention_layernorm.weight", "norm2"},
    {"mlp.gate_proj.weight", "gate"},
    {"mlp.up_proj.weight", "up"},
    {"mlp.down_proj.weight", "down"},
};

typedef struct folder {
    safetensors file;
    safetensors_item items[64];
    char names[64][64];
    int64_t shapes[64][2];
    void *made[8];
    size_t n, n_made;
} folder;

static const ckpt_tensor *find(const folder *f, const char *name) {
    for (size_t i = 0; i < f->file.n_tensors; i++)
        if (!strcmp(f->file.tensors[i].name, name)) return &f->file.tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void add(folder *f, const char *name, const ckpt_tensor *like, int64_t rows, const void *data) {
    snprintf(f->names[f->n], sizeof f->names[f->n], "%s", name);
    f->shapes[f->n][0] = rows;
    f->shapes[f->n][1] = like->shape[1];
    f->items[f->n] = (safetensors_item){f->names[f->n], like->type, like->rank, f->shapes[f->n], data};
    f->n++;
}

static void *make(folder *f, size_t bytes) { return f->made[f->n_made++] = mem_array(bytes, 1); }

static void add_layer(folder *f, int layer) {
    char from[96], to[64];
    for (size_t i = 0; i < HARNESS_COUNT(renamed_in_layers); i++) {
        snprintf(from, sizeof from, "model.layers.%d.%s", layer, renamed_in_layers[i][0]);
        snprintf(to, sizeof to, "lumen.blocks.%d.%s", layer, renamed_in_layers[i][1]);
        const ckpt_tensor *t = find(f, from);
        add(f, to, t, t->shape[0], t->data);
    }
    const ckpt_tensor *parts[3];
    for (int i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "model.layers.%d.self_attn.%c_proj.weight", layer, "qkv"[i]);
        parts[i] = find(f, from);
    }
    uint8_t *all = make(f, parts[0]->bytes + parts[1]->bytes + parts[2]->bytes), *at = all;
    int64_t rows = 0;
    for (int i = 0; i < 3; at += parts[i]->bytes, rows += parts[i]->shape[0], i++)
        memcpy(at, parts[i]->data, parts[i]->bytes);
    snprintf(to, sizeof to, "lumen.blocks.%d.qkv", layer);
    add(f, to, parts[0], rows, all);
}

static void write_lumen(const char *path) {
    folder f = {.n = 0};
    char name[128];
    assert_int_equal(safetensors_open(&f.file, QUIPU_SOURCE "/tests/golden/models/llama-mha/model.safetensors", NULL),
                     QP_OK);
    for (size_t i = 0; i < HARNESS_COUNT(renamed); i++) {
        const ckpt_tensor *t = find(&f, renamed[i][0]);
        const void *data = t->data;
        if (!i) { /* stored twice as strong */
            float *strong = make(&f, t->bytes);
            for (size_t k = 0; k < t->bytes / sizeof *strong; k++) strong[k] = 2 * ((const float *)data)[k];
            data = strong;
        }
        add(&f, renamed[i][1], t, t->shape[0], data);
    }
    for (int layer = 0; layer < 2; layer++) add_layer(&f, layer);
    snprintf(name, sizeof name, "%s/model.safetensors", path);
    assert_int_equal(safetensors_write(name, f.items, f.n, NULL, NULL), QP_OK);
    harness_write(
        path, "config.json",
        "{\"architectures\": [\"LumenForCausalLM\"], \"depth\": 2, \"width\": 64, \"heads\": 4, \"inner\": 80, "
        "\"vocab_size\": 144, \"norm_epsilon\": 1e-6, \"activation\": \"silu\", \"stream_strength\": 2, "
        "\"tie_word_embeddings\": false, \"max_position_embeddings\": 512}");
    for (size_t i = 0; i < f.n_made; i++) mem_free(f.made[i]);
    safetensors_close(&f.file);
}

/* ---- opening and running it as model.c does ---- */

typedef struct opened {
    model_shape shape;
    checkpoint *files;
    tensor_source tensors;
    device *dev;
    weights weights;
    plan plan;
    forward forward;
    kv_store store;
} opened;

static qp_status fetch(void *user, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                       quant_matrix *out, qp_error *err) {
    return tensors_fetch(user, row, layer, member, out, err);
}

static qp_status open_lumen(opened *o, const char *path, qp_error *err) {
    hfconfig *config;
    ERR_TRY(hfconfig_open(&config, path, err));
    const qp_status status = shape_read_row(&o->shape, &arch_lumen, config, err);
    hfconfig_close(config);
    if (status != QP_OK) return status;
    ERR_TRY(checkpoint_open(&o->files, path, err));
    tensors_open(&o->tensors, o->files, &arch_lumen, &o->shape);
    const weight_source source = {.fetch = fetch, .user = &o->tensors};
    const store_shape cache = seq_store_shape(&o->shape, KV_F32);
    ERR_TRY(dev_open(&o->dev, &(dev_options){.threads = 2, .exact = true}, err));
    const dev_split whole = dev_whole(o->dev, o->shape.n_layers);
    ERR_TRY(weights_bind(&o->weights, &whole, &arch_lumen, &o->shape, &source, err));
    ERR_TRY(plan_make(&o->plan, &o->shape, &o->weights, err));
    ERR_TRY(forward_open(&o->forward, &o->shape, &o->weights, &o->plan, MODEL_MAX_ROWS, err));
    return store_open(&o->store, &whole, &cache, 1, err);
}

static void close_lumen(opened *o) {
    store_close(&o->store);
    forward_close(&o->forward);
    plan_free(&o->plan);
    weights_close(&o->weights);
    dev_close(o->dev);
    tensors_close(&o->tensors);
    checkpoint_close(o->files);
    mem_free(o);
}

static void the_example_runs(void **state) {
    char path[64];
    json_t *cases;
    golden g = {0};
    qp_error err;
    assert_int_equal(json_load_path(&cases, QUIPU_SOURCE "/tests/golden/models/cases.json", 1 << 20, NULL), QP_OK);
    const json_t *list = json_object_get(cases, "cases");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(list, i), "name")), "llama-mha"))
            read_golden(&g, QUIPU_SOURCE "/tests/golden/models", json_array_get(list, i));
    assert_true(g.n_long == 150 && g.vocabulary == 144);
    harness_folder(path);
    write_lumen(path);
    opened *o = MEM_NEW(opened);
    if (open_lumen(o, path, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(arch_unexpected(&arch_lumen, &o->shape, o->files, NULL, 0), 0);
    float logits[144];
    const int32_t pages[] = {0}, last = 149;
    const row_span span = {0, 150, 0, pages};
    const uint64_t length = 150;
    const step_input in = {.n_rows = 150,
                           .ids = g.long_ids,
                           .n_spans = 1,
                           .spans = &span,
                           .rope_lengths = &length,
                           .n_logit_rows = 1,
                           .logit_rows = &last,
                           .kv = o->store.views};
    assert_int_equal(forward_step(&o->forward, &in, logits, &err), QP_OK);
    const double off = max_difference(logits, g.long_last, 144);
    if (!(off <= g.exact_bound)) fail_msg("off by %g, allowed %g", off, g.exact_bound);
    close_lumen(o);
    harness_remove(path);
    safetensors_close(&g.file);
    json_decref(cases);
}

/* ---- the document ---- */

typedef struct document {
    char *text; /* ends with a zero byte */
    size_t bytes;
} document;

static void read_document(document *d, const char *path) {
    assert_int_equal(file_read(&d->text, &d->bytes, path, 1 << 20, NULL), QP_OK);
}

/* What stands between two marks of a text: where it begins and how long it is. */
static void find_between(const document *d, const char *from, const char *to, size_t *begin, size_t *length) {
    const char *mark = strstr(d->text, from);
    assert_non_null(mark);
    *begin = (size_t)(mark - d->text) + strlen(from);
    const char *end = strstr(d->text + *begin, to);
    assert_non_null(end);
    *length = (size_t)(end - d->text) - *begin;
}

static void the_document_shows_the_example(void **state) {
    document shown, run;
    size_t shown_at, shown_bytes, run_at, run_bytes;
    read_document(&shown, QUIPU_SOURCE "/docs/architectures.md");
    read_document(&run, QUIPU_SOURCE "/tests/golden/add_architecture_test.c");
    find_between(&shown, "```c\n", "```\n", &shown_at, &shown_bytes);
    find_between(&run, "/* [example] */\n", "/* [end of the example] */", &run_at, &run_bytes);
    if (shown_bytes != run_bytes || memcmp(shown.text + shown_at, run.text + run_at, run_bytes))
        fail_msg("the example of docs/architectures.md is not the one that this test runs");
    mem_free(shown.text);
    mem_free(run.text);
}

static void write_table(char *out, size_t capacity) {
    size_t used = 0;
    const arch_row *row;
    for (int i = 0; (row = arch_at(i)); i++) {
        used += (size_t)snprintf(out + used, capacity - used, "| `%s` |", row->hf_name);
        for (const char *const *alias = row->aliases; alias && *alias; alias++)
            used += (size_t)snprintf(out + used, capacity - used, " `%s`", *alias);
        used += (size_t)snprintf(out + used, capacity - used, " | %s |\n", row->about);
        assert_true(used < capacity);
    }
}

static void the_document_lists_the_table(void **state) {
    static char expected[1 << 16];
    document d;
    size_t at, bytes;
    read_document(&d, QUIPU_SOURCE "/docs/architectures.md");
    find_between(&d, "|---|---|---|\n", "\n\n", &at, &bytes);
    write_table(expected, sizeof expected);
    if (strlen(expected) != bytes + 1 || memcmp(expected, d.text + at, bytes + 1))
        fail_msg("docs/architectures.md should list:\n%s", expected);
    mem_free(d.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_runs),
        cmocka_unit_test(the_document_shows_the_example),
        cmocka_unit_test(the_document_lists_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
