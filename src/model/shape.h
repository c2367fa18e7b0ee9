/* shape.h — the numbers of a model: what config.json says, checked, as one flat value.
 *
 * shape_read() is called once by opening and by `inspect`; plan.c, bind.c and the cache read the result. Which key
 * fills which field is data (the architecture's row, arch.h); this module walks that table and then checks what no
 * single key can tell. The struct owns nothing and may be copied. */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H

#include "dev/dev.h"
#include "format/hf_quant.h"

/* What the engine takes; everything sized by a shape stays far from overflow. */
enum {
    SHAPE_MAX_LAYERS = 512,
    SHAPE_MAX_HIDDEN = 1 << 18,
    SHAPE_MAX_HEADS = 1 << 10,
    SHAPE_MAX_HEAD_DIM = 1 << 10,
    SHAPE_MAX_FFN = 1 << 20,
    SHAPE_MAX_VOCABULARY = 1 << 24,
    SHAPE_MAX_POSITIONS = 1 << 30,
    SHAPE_MAX_EXPERTS = 1 << 12,
    SHAPE_MAX_RANK = 1 << 14,
    SHAPE_MAX_ROPES = 2,
    SHAPE_NO_ROPE = -1,
};

/* How a layer mixes positions. A new kind of attention is a new entry here and a new branch in plan.c. */
typedef enum mixer {
    MIXER_GQA,    /* keys and values per KV head (Ainslie et al. 2023) */
    MIXER_LATENT, /* one latent for all heads (DeepSeek-V2, 2024) */
    MIXER_COUNT
} mixer;

typedef enum ffn_kind {
    FFN_GATED,   /* down(act(gate(x)) * up(x)) */
    FFN_PLAIN,   /* down(act(up(x))) */
    FFN_EXPERTS, /* chosen ones of many gated blocks, and perhaps a shared one */
    FFN_KIND_COUNT
} ffn_kind;

typedef struct layer_kind {
    mixer mixer;
    int window; /* positions a query sees including its own; 0: all before it */
    int rope;   /* which of model_shape.ropes turns q and k here, or SHAPE_NO_ROPE */
    int chunk;  /* a query sees from the last multiple of this on; 0: all */
    ffn_kind ffn;
    bool has_qk_norm;
    bool has_q_tuning;     /* q is scaled by its position */
    float attention_scale; /* multiplies q . k */
} layer_kind;

/* What happens to q and k between their products and attention. */
typedef enum qk_norm {
    QK_NORM_NONE,
    QK_NORM_HEADS,      /* RMS norm of each head, before the rotation */
    QK_NORM_HEADS_LAST, /* behind it */
    QK_NORM_UNIT_LAST,  /* behind it, without weights */
    QK_NORM_WIDE,       /* RMS norm of all heads together */
    QK_NORM_OWN,        /* LayerNorm of each head with weights of its own */
    QK_NORM_LAYER,      /* LayerNorm of each head, weights and bias shared */
} qk_norm;

/* Activations that need more than a name. */
typedef enum ffn_act { FFN_ACT_NAMED, FFN_ACT_CLAMPED, FFN_ACT_XIELU } ffn_act;

typedef struct model_shape {
    char architecture[64]; /* as config.json names it */
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, ffn, vocabulary;
    int trained_context; /* tokens: max_position_embeddings */
    int rot_dims;        /* elements of a head that are turned: even, <= head_dim; 0: none */
    bool rope_pairs;     /* neighbours turn together, not halves of a head */
    float norm_eps;
    norm_kind norm;
    float attention_scale; /* of layers that do not say otherwise */
    activation act;
    ffn_act act_kind;
    float act_alpha, act_limit; /* FFN_ACT_CLAMPED */
    bool qkv_bias, o_bias, mlp_bias, norm_bias, head_bias;
    qk_norm qk_norm;
    bool tied; /* the head is the embedding table */

    /* Where the norms of a layer stand. */
    bool norm_before, norm_after; /* of attention and of the feed-forward block */
    bool is_parallel;             /* both blocks read the layer's input ... */
    bool has_one_norm;            /* ... through the same norm */

    /* Multipliers and limits. */
    float embed_scale, residual_scale, logit_scale; /* 1: none */
    float logit_cap, attention_cap, qkv_limit;      /* 0: none */
    bool has_sinks;
    float tune_scale, tune_floor, tune_offset; /* q *= 1 + scale * log(1 + floor((position + offset) / floor)) */
    int learned_positions;                     /* rows of a table that is added to the embedding; 0: none */

    /* Latent attention. head_dim is nope_dim + rope_dim. */
    int q_rank; /* 0: q is made in one step */
    int kv_rank, nope_dim, rope_dim, v_dim;
    float rank_eps; /* of the norms inside */

    /* Experts. */
    int expert_ffn, shared_ffn; /* shared_ffn 0: no shared expert */
    bool has_shared_switch;     /* a sigmoid scales the shared expert */
    bool has_route_bias;        /* for choosing */
    bool has_router_bias, has_expert_bias;
    bool weighs_input; /* the weight multiplies an expert's input */
    route_rule route;  /* n_experts 0: none */

    hf_quant quant; /* how the weights are stored */
    int n_ropes;
    hf_rope ropes[SHAPE_MAX_ROPES];
    layer_kind layers[SHAPE_MAX_LAYERS];
} model_shape;

typedef struct arch_row arch_row;

/* Finds the architecture's row and fills the shape from the config. `as` names the row to use whatever the config says;
 * NULL: as it says. */
qp_status shape_read_as(model_shape *out, const arch_row **row, const hfconfig *c, const char *as, qp_error *err);
qp_status shape_read(model_shape *out, const arch_row **row, const hfconfig *c, qp_error *err);
/* By this row. */
qp_status shape_read_row(model_shape *out, const arch_row *row, const hfconfig *c, qp_error *err);
/* What holds where no key says otherwise: no multipliers, norms before the blocks, gated feed-forward. */
void shape_defaults(model_shape *s);
/* Checks what shape_read and makers of synthetic shapes must both keep: divisibility, ranges, rope. `where` begins the
 * errors. */
qp_status shape_check(const model_shape *s, const char *where, qp_error *err);

bool shape_has_experts(const model_shape *s);
/* The window that every layer has at least, in tokens: what is older than the widest is seen by nobody. 0: none. */
int shape_common_window(const model_shape *s);

/* The activation that config.json calls `name`; false if this engine has none such. */
bool shape_find_activation(activation *out, const char *name);
const char *shape_activation_name(activation act);

#endif
