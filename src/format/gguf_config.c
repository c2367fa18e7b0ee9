/* gguf_config.c — metadata of a GGUF file -> config.json, and names of tensors -> those of the Hugging Face layout.
 *
 * Called by hfconfig.c and checkpoint.c. Each architecture is a row; keys are "ARCHITECTURE.key". The tricky thing:
 * converters re-order the rows of q and k of the Llama family so that neighbours turn together; the config says so
 * ("rope_pairs"), and the weights stay as they are. The stretched frequencies of Llama 3 are a tensor of factors here,
 * which "longrope" without a factor for attention expresses exactly. */
#include "gguf_meta.h"
#include <math.h>
#include <stdio.h>

static const struct family {
    const char *name, *hf_name;
    bool rope_pairs;
} families[] = {
    {"llama", "LlamaForCausalLM", true},
    {"qwen2", "Qwen2ForCausalLM", false},
    {"qwen3", "Qwen3ForCausalLM", false},
};

enum { N_FAMILIES = sizeof families / sizeof *families, MAX_FACTORS = 512 };

/* "" for the key as it is; else "ARCHITECTURE." is put before it. */
static const gguf_value *find_key(const gguf *g, const struct family *f, const char *key) {
    char full[160];
    snprintf(full, sizeof full, "%s.%s", f->name, key);
    return gguf_find(g, full);
}

static const struct {
    const char *key, *hf_key;
    bool is_real;
} keys[] = {
    {"block_count", "num_hidden_layers", false},
    {"embedding_length", "hidden_size", false},
    {"feed_forward_length", "intermediate_size", false},
    {"attention.head_count", "num_attention_heads", false},
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"attention.key_length", "head_dim", false},
    {"attention.sliding_window", "sliding_window", false},
    {"context_length", "max_position_embeddings", false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"rope.freq_base", "rope_theta", true},
};

static void add_key(strbuf *out, const char *key) {
    if (out->bytes > 1) strbuf_text(out, ",\n ");
    strbuf_json(out, key, strlen(key));
    strbuf_text(out, ": ");
}

static void add_int(strbuf *out, const char *key, int64_t value) {
    add_key(out, key);
    strbuf_format(out, "%lld", (long long)value);
}

static void add_real(strbuf *out, const char *key, double value) {
    add_key(out, key);
    strbuf_format(out, "%.17g", value);
}

static void add_bool(strbuf *out, const char *key, bool value) {
    add_key(out, key);
    strbuf_text(out, value ? "true" : "false");
}

/* A float32 as people wrote it: its shortest text that reads back the same, so that 1e-5 stays 1e-5. */
static double as_written(double value) {
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = 0;
        if (sscanf(text, "%lf", &back) == 1 && (float)back == (float)value) return back;
    }
    return value;
}

static qp_status add_keys(strbuf *out, const gguf *g, const struct family *f, const char *where, qp_error *err) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const gguf_value *v = find_key(g, f, keys[i].key);
        int64_t whole;
        double real;
        if (!v) continue;
        if (v->is_array)
            return err_set(err, QP_UNSUPPORTED, 0, "%s: \"%s.%s\" is a list: layers of unlike sizes", where, f->name,
                           keys[i].key);
        if (!keys[i].is_real && gguf_int(v, 0, &whole))
            add_int(out, keys[i].hf_key, whole);
        else if (keys[i].is_real && gguf_real(v, 0, &real) && isfinite(real))
            add_real(out, keys[i].hf_key, as_written(real));
        else
            return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s.%s\" is no number", where, f->name, keys[i].key);
    }
    return QP_OK;
}

/* ---- tensors that say something about the config ---- */

static const ckpt_tensor *find_tensor(const gguf *g, const char *name) {
    for (size_t i = 0; i < g->n_tensors; i++)
        if (!strcmp(g->tensors[i].name, name)) return &g->tensors[i];
    return NULL;
}

/* ---- rope ---- */

/* Part of each head that turns. */
static qp_status add_partial(strbuf *out, const gguf *g, const struct family *f, const char *where, qp_error *err) {
    int64_t turned = 0, hidden = 0, heads = 0, dim = 0;
    if (!gguf_int(find_key(g, f, "rope.dimension_count"), 0, &turned)) return QP_OK;
    if (!gguf_int(find_key(g, f, "attention.key_length"), 0, &dim)) {
        if (!gguf_int(find_key(g, f, "embedding_length"), 0, &hidden)) return QP_OK;
        if (!gguf_int(find_key(g, f, "attention.head_count"), 0, &heads) || heads < 1) return QP_OK;
        dim = hidden / heads;
    }
    if (turned == dim) return QP_OK;
    if (turned < 1 || turned > dim)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"rope.dimension_count\" is %lld, allowed are 1 to %lld", where,
                       (long long)turned, (long long)dim);
    add_real(out, "partial_rotary_factor", (double)turned / (double)dim);
    return QP_OK;
}

static qp_status add_factors(strbuf *out, const ckpt_tensor *t, const char *where, qp_error *err) {
    if (t->type != DTYPE_F32 || t->rank != 1 || t->shape[0] < 1 || t->shape[0] > MAX_FACTORS)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: tensor \"%s\" is no list of up to %d F32", where, t->name,
                       MAX_FACTORS);
    static const char *const lists[] = {"short_factor", "long_factor"};
    add_key(out, "rope_scaling");
    strbuf_text(out, "{\"rope_type\": \"longrope\", \"attention_factor\": 1.0");
    for (int list = 0; list < 2; list++) {
        strbuf_format(out, ", \"%s\": [", lists[list]);
        for (int64_t i = 0; i < t->shape[0]; i++) {
            float factor;
            memcpy(&factor, t->data + 4 * i, 4);
            if (!isfinite(factor) || factor <= 0)
                return err_set(err, QP_BAD_FORMAT, (uint64_t)i, "%s: tensor \"%s\": factor %lld is %g", where, t->name,
                               (long long)i, (double)factor);
            strbuf_format(out, "%s%.9g", i ? "," : "", (double)factor);
        }
        strbuf_text(out, "]");
    }
    strbuf_text(out, "}");
    return QP_OK;
}

static qp_status add_scaling(strbuf *out, const gguf *g, const struct family *f, const char *where, qp_error *err) {
    const ckpt_tensor *factors = find_tensor(g, "rope_freqs.weight");
    if (factors) return add_factors(out, factors, where, err);
    span kind;
    double factor = 1;
    int64_t original;
    if (!gguf_text(find_key(g, f, "rope.scaling.type"), &kind) || span_is(kind, "none")) return QP_OK;
    gguf_real(find_key(g, f, "rope.scaling.factor"), 0, &factor);
    if ((!span_is(kind, "linear") && !span_is(kind, "yarn")) || !isfinite(factor))
        return err_set(err, QP_UNSUPPORTED, 0, "%s: \"rope.scaling.type\" is \"%.*s\", allowed are none, linear, yarn",
                       where, (int)(kind.bytes > 40 ? 40 : kind.bytes), kind.at);
    add_key(out, "rope_scaling");
    strbuf_format(out, "{\"rope_type\": \"%.*s\", \"factor\": %.9g", (int)kind.bytes, kind.at, factor);
    if (gguf_int(find_key(g, f, "rope.scaling.original_context_length"), 0, &original))
        strbuf_format(out, ", \"original_max_position_embeddings\": %lld", (long long)original);
    strbuf_text(out, "}");
    return QP_OK;
}

/* ---- the document ---- */

static void add_ids(strbuf *out, const gguf *g) {
    static const char *const ids[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                         {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                         {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
    int64_t id;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (gguf_int(gguf_find(g, ids[i][0]), 0, &id)) add_int(out, ids[i][1], id);
}

static void add_vocabulary(strbuf *out, const gguf *g) {
    const ckpt_tensor *table = find_tensor(g, "token_embd.weight");
    if (table && table->rank == 2) add_int(out, "vocab_size", table->shape[0]);
}

static qp_status find_family(const struct family **out, const gguf *g, const char *where, qp_error *err) {
    span name;
    if (!gguf_text(gguf_find(g, "general.architecture"), &name))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: no \"general.architecture\"", where);
    char list[128] = "";
    for (int i = 0; i < N_FAMILIES; i++) {
        *out = &families[i];
        if (span_is(name, families[i].name)) return QP_OK;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", families[i].name);
    }
    return err_set(err, QP_UNSUPPORTED, 0,
                   "%s: the architecture \"%.*s\" is not supported in GGUF files; allowed are %s", where,
                   (int)(name.bytes > 40 ? 40 : name.bytes), name.at, list);
}

qp_status gguf_config(strbuf *out, const gguf *g, const char *where, qp_error *err) {
    const struct family *f;
    ERR_TRY(find_family(&f, g, where, err));
    strbuf_text(out, "{");
    add_key(out, "architectures");
    strbuf_format(out, "[\"%s\"]", f->hf_name);
    ERR_TRY(add_keys(out, g, f, where, err));
    ERR_TRY(add_partial(out, g, f, where, err));
    ERR_TRY(add_scaling(out, g, f, where, err));
    add_vocabulary(out, g);
    add_ids(out, g);
    add_bool(out, "tie_word_embeddings", !find_tensor(g, "output.weight"));
    add_bool(out, "attention_bias", find_tensor(g, "blk.0.attn_q.bias") != NULL);
    add_bool(out, "mlp_bias", find_tensor(g, "blk.0.ffn_up.bias") != NULL);
    add_bool(out, "use_sliding_window", find_key(g, f, "attention.sliding_window") != NULL);
    add_bool(out, "rope_pairs", f->rope_pairs);
    strbuf_text(out, "}\n");
    return strbuf_status(out, err, where);
}

/* ---- names ---- */

static const struct {
    const char *gguf, *hf;
} names[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.%d.attn_norm", "model.layers.%d.input_layernorm"},
    {"blk.%d.attn_q", "model.layers.%d.self_attn.q_proj"},
    {"blk.%d.attn_k", "model.layers.%d.self_attn.k_proj"},
    {"blk.%d.attn_v", "model.layers.%d.self_attn.v_proj"},
    {"blk.%d.attn_output", "model.layers.%d.self_attn.o_proj"},
    {"blk.%d.attn_q_norm", "model.layers.%d.self_attn.q_norm"},
    {"blk.%d.attn_k_norm", "model.layers.%d.self_attn.k_norm"},
    {"blk.%d.ffn_norm", "model.layers.%d.post_attention_layernorm"},
    {"blk.%d.ffn_gate", "model.layers.%d.mlp.gate_proj"},
    {"blk.%d.ffn_up", "model.layers.%d.mlp.up_proj"},
    {"blk.%d.ffn_down", "model.layers.%d.mlp.down_proj"},
};

/* Whether `name`, which ends at `end`, is the pattern with a number for %d; *layer is that. */
static bool matches(const char *pattern, const char *name, const char *end, int *layer) {
    const char *hole = strstr(pattern, "%d");
    const size_t before = hole ? (size_t)(hole - pattern) : strlen(pattern);
    if ((size_t)(end - name) < before || strncmp(name, pattern, before)) return false;
    name += before;
    *layer = 0;
    if (!hole) return name == end;
    const char *digits = name;
    for (; name < end && *name >= '0' && *name <= '9' && *layer < 100000; name++) *layer = *layer * 10 + (*name - '0');
    if (name == digits || (*digits == '0' && name - digits > 1)) return false;
    return !strncmp(name, hole + 2, (size_t)(end - name)) && strlen(hole + 2) == (size_t)(end - name);
}

bool gguf_tensor_name(char *out, size_t capacity, const char *name) {
    const char *end = strrchr(name, '.');
    int layer = 0;
    if (!end || (strcmp(end, ".weight") && strcmp(end, ".bias"))) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!matches(names[i].gguf, name, end, &layer)) continue;
        const char *hole = strstr(names[i].hf, "%d");
        const int before = hole ? (int)(hole - names[i].hf) : (int)strlen(names[i].hf);
        const int bytes = hole ? snprintf(out, capacity, "%.*s%d%s%s", before, names[i].hf, layer, hole + 2, end)
                               : snprintf(out, capacity, "%s%s", names[i].hf, end);
        return bytes > 0 && (size_t)bytes < capacity;
    }
    return false;
}
