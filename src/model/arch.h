/* arch.h — what an architecture is: a row of data.
 *
 * A family is one file in arch/ that fills const rows and one line in arch_table.c; there is no forward code per
 * architecture. A row says which config key fills which field of the shape (config_key), under which name and with
 * which dimensions each weight lies in a checkpoint (slot_row), and, as its only code, how layers differ from one
 * another. Called by shape.c (keys), bind.c (slots) and `inspect` (unexpected tensors). */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "shape.h"
#include "format/checkpoint.h"

/* ---- config keys ---- */

typedef enum key_kind { KEY_INT, KEY_REAL, KEY_BOOL, KEY_ACTIVATION } key_kind;

enum {
    KEY_NEEDED = 1,       /* a config without it is refused */
    KEY_NULL_IS_ZERO = 2, /* null is not the fallback but 0: "derive it", "none" */
    KEY_KEEP = 4,         /* absent: the field stays as it is; for another spelling of an earlier row */
};

/* Rows are applied in order; absent or null keys give `fallback`. Two rows may read the same key. */
typedef struct config_key {
    const char *key; /* NULL ends a table */
    key_kind kind;
    size_t field; /* offset in model_shape: int, float, bool or activation */
    unsigned flags;
    double lowest, highest, fallback;
} config_key;

/* ---- weights ---- */

/* How many of a slot there are. */
typedef enum slot_many { SLOT_ONCE, SLOT_PER_LAYER, SLOT_PER_EXPERT, SLOT_PER_HEAD } slot_many;

/* X(name, how many). B: biases. The norms of sub-blocks: ATTN_NORM and FFN_NORM before, _POST behind. */
#define SLOTS(X)                                                                                                       \
    X(EMBED, ONCE)                                                                                                     \
    X(POSITIONS, ONCE)                                                                                                 \
    X(FINAL_NORM, ONCE)                                                                                                \
    X(FINAL_NORM_B, ONCE)                                                                                              \
    X(HEAD, ONCE)                                                                                                      \
    X(HEAD_B, ONCE)                                                                                                    \
    X(ATTN_NORM, PER_LAYER)                                                                                            \
    X(ATTN_NORM_B, PER_LAYER)                                                                                          \
    X(WQ, PER_LAYER)                                                                                                   \
    X(WK, PER_LAYER)                                                                                                   \
    X(WV, PER_LAYER)                                                                                                   \
    X(WO, PER_LAYER)                                                                                                   \
    X(BQ, PER_LAYER)                                                                                                   \
    X(BK, PER_LAYER)                                                                                                   \
    X(BV, PER_LAYER)                                                                                                   \
    X(BO, PER_LAYER)                                                                                                   \
    X(Q_NORM, PER_LAYER)                                                                                               \
    X(K_NORM, PER_LAYER)                                                                                               \
    X(Q_NORM_B, PER_LAYER)                                                                                             \
    X(K_NORM_B, PER_LAYER)                                                                                             \
    X(SINKS, PER_LAYER)                                                                                                \
    X(ATTN_POST, PER_LAYER)                                                                                            \
    X(WQ_DOWN, PER_LAYER) /* latent attention: q and keys/values through a low rank */                                 \
    X(BQ_DOWN, PER_LAYER)                                                                                              \
    X(Q_DOWN_NORM, PER_LAYER)                                                                                          \
    X(WKV_DOWN, PER_LAYER)                                                                                             \
    X(BKV_DOWN, PER_LAYER)                                                                                             \
    X(KV_DOWN_NORM, PER_LAYER)                                                                                         \
    X(WK_UP, PER_HEAD)                                                                                                 \
    X(WV_UP, PER_HEAD)                                                                                                 \
    X(FFN_NORM, PER_LAYER)                                                                                             \
    X(FFN_NORM_B, PER_LAYER)                                                                                           \
    X(W_GATE, PER_LAYER)                                                                                               \
    X(W_UP, PER_LAYER)                                                                                                 \
    X(W_DOWN, PER_LAYER)                                                                                               \
    X(B_GATE, PER_LAYER)                                                                                               \
    X(B_UP, PER_LAYER)                                                                                                 \
    X(B_DOWN, PER_LAYER)                                                                                               \
    X(ACT_ALPHA_P, PER_LAYER)                                                                                          \
    X(ACT_ALPHA_N, PER_LAYER)                                                                                          \
    X(ACT_BETA, PER_LAYER)                                                                                             \
    X(ACT_EPS, PER_LAYER)                                                                                              \
    X(FFN_POST, PER_LAYER)                                                                                             \
    X(ROUTER, PER_LAYER)                                                                                               \
    X(ROUTER_B, PER_LAYER)                                                                                             \
    X(ROUTE_BIAS, PER_LAYER)                                                                                           \
    X(EXPERT_GATE, PER_EXPERT)                                                                                         \
    X(EXPERT_UP, PER_EXPERT)                                                                                           \
    X(EXPERT_DOWN, PER_EXPERT)                                                                                         \
    X(EXPERT_GATE_B, PER_EXPERT)                                                                                       \
    X(EXPERT_UP_B, PER_EXPERT)                                                                                         \
    X(EXPERT_DOWN_B, PER_EXPERT)                                                                                       \
    X(SHARED_GATE, PER_LAYER)                                                                                          \
    X(SHARED_UP, PER_LAYER)                                                                                            \
    X(SHARED_DOWN, PER_LAYER)                                                                                          \
    X(SHARED_SWITCH, PER_LAYER)

typedef enum slot {
#define X(name, many) SLOT_##name,
    SLOTS(X)
#undef X
        SLOT_COUNT
} slot;

/* A length out of the shape. DIM_NONE: the tensor has no such dimension. */
typedef enum dim {
    DIM_NONE,
    DIM_ONE,
    DIM_HIDDEN,
    DIM_Q,
    DIM_KV,
    DIM_HEAD,
    DIM_HEADS,
    DIM_O, /* what the output projection reads */
    DIM_FFN,
    DIM_VOCAB,
    DIM_POSITIONS,
    DIM_EXPERTS,
    DIM_EXPERT_FFN,
    DIM_SHARED_FFN,
    DIM_Q_RANK,
    DIM_KV_RANK,
    DIM_LATENT, /* kv_rank and what is rotated */
    DIM_NOPE,
    DIM_V_HEAD,
    DIM_COUNT
} dim;

/* When a layer of a model has the weight. */
typedef enum slot_need {
    NEED_ALWAYS,
    NEED_UNTIED,
    NEED_HEAD_BIAS,
    NEED_NORM_BIAS,
    NEED_QKV_BIAS,
    NEED_O_BIAS,
    NEED_QK_NORM,
    NEED_Q_RANK,
    NEED_NO_Q_RANK,
    NEED_Q_RANK_BIAS,
    NEED_TWO_NORMS, /* parallel blocks may share one */
    NEED_TWO_NORM_BIASES,
    NEED_ONE_INPUT,  /* not: two norms of the layer's input */
    NEED_TWO_INPUTS, /* parallel blocks with a norm each */
    NEED_SEQUENTIAL, /* not parallel */
    NEED_POST_NORM,
    NEED_DENSE, /* a layer whose feed-forward block is one */
    NEED_MLP_BIAS,
    NEED_EXPERTS,
    NEED_EXPERT_BIAS,
    NEED_ROUTER_BIAS,
    NEED_ROUTE_BIAS,
    NEED_SHARED,
    NEED_SHARED_SWITCH,
    NEED_COUNT
} slot_need;

/* Which rows of the stored matrix are the weight's. */
typedef enum slot_part {
    PART_ALL,
    PART_STACK_Q, /* all heads of q, then of k, then of v */
    PART_STACK_K,
    PART_STACK_V,
    PART_GROUP_Q, /* for each KV head its heads of q, then k, then v */
    PART_GROUP_K,
    PART_GROUP_V,
    PART_FIRST_HALF, /* gate above up */
    PART_SECOND_HALF,
    PART_EVEN, /* gate and up row by row */
    PART_ODD,
    PART_HEAD_K, /* for each head the rows that make its key, then those of its value */
    PART_HEAD_V,
    PART_COUNT
} slot_part;

enum {
    SLOT_TRANSPOSED = 1, /* stored with rows and columns exchanged */
    SLOT_PLUS_ONE = 2,   /* a norm's weights are stored less one */
    SLOT_BY_HEAD = 4,    /* a vector stored as [heads, head size] */
};

typedef struct slot_row {
    slot slot;
    /* With a %d for the layer where the slot is per layer, and one for the expert where experts have tensors of their
     * own; without that, they are stacked in one. NULL ends a table. */
    const char *pattern;
    dim rows, cols; /* matrix [rows, cols]: y = W x; vector [rows], cols DIM_NONE */
    slot_need need;
    slot_part part;
    unsigned flags;
} slot_row;

const char *slot_name(slot s);
slot_many slot_count(slot s);
bool slot_is_per_layer(slot s);
/* Experts or heads that have the slot each, or 1. */
int slot_members(slot s, const model_shape *shape);
/* Whether each expert has a tensor of its own. */
bool slot_row_is_split(const slot_row *row);
/* The length that `d` stands for; 0 for DIM_NONE. */
int64_t shape_dim(const model_shape *s, dim d);
/* Whether this layer (any, for what is not per layer) has the weight of this row. */
bool shape_needs(const model_shape *s, slot_need need, int layer);
/* The tensor's name in layer `layer`, of expert `member`; QP_TOO_LARGE if it does not fit. */
qp_status slot_tensor_name(char *out, size_t capacity, const slot_row *row, int layer, int member, qp_error *err);

/* ---- the row ---- */

/* What turns the layers with a window, where the settings are not a map by layer type. */
typedef enum window_rope {
    WINDOW_ROPE_SAME,
    WINDOW_ROPE_PLAIN, /* as the others, but without scaling */
    WINDOW_ROPE_LOCAL, /* another base, under the key "rope_local_base_freq", without scaling */
} window_rope;

struct arch_row {
    const char *hf_name;        /* as in "architectures" */
    const char *const *aliases; /* other names that mean the same, until NULL; may be NULL */
    const config_key *keys;
    const slot_row *slots;
    bool has_no_rope;          /* positions are learned */
    double rope_theta;         /* where config.json gives none */
    const hf_rope *rope;       /* kind and numbers where config.json has no settings; NULL: plain */
    bool has_partial_rotation; /* whether the family heeds partial_rotary_factor */
    double partial_rotation;   /* where config.json gives none; 0: 1 */
    bool has_rope_pairs;       /* neighbours turn together */
    window_rope window_rope;   /* of layers with a window */
    double local_theta;        /* WINDOW_ROPE_LOCAL: where config.json gives none */
    bool has_qkv_bias;         /* always, whatever config.json says */
    norm_kind norm;
    bool has_norm_bias;
    qk_norm qk_norm; /* always, unless adjust says otherwise */
    /* Fills s->layers where layers differ (windows); NULL: all alike, seeing everything. */
    qp_status (*layers)(model_shape *s, const hfconfig *c, qp_error *err);
    /* The odd thing that no key says; between the keys and the layers. NULL: none. */
    qp_status (*adjust)(model_shape *s, const hfconfig *c, qp_error *err);
    const char *about; /* what the family has that others have not: a line of docs/architectures.md */
};

/* By name; NULL if unknown. */
const arch_row *arch_find(const char *hf_name);
/* 0, 1, ... until NULL. */
const arch_row *arch_at(int index);
/* Names of all rows, separated by commas; what does not fit is left out. */
void arch_list(char *out, size_t capacity);

/* The slot that a tensor's name stands for in this model; false if none (unexpected, or not needed by the shape). The
 * first of several that share a tensor. */
bool arch_match(const arch_row *row, const model_shape *s, const char *name, slot *out, int *layer);
/* Tensors of the checkpoint that the model does not use: their number; the first `capacity` of them in `out`. They are
 * no error (the reference warns), `inspect` shows them. */
size_t arch_unexpected(const arch_row *row, const model_shape *s, const checkpoint *c, const ckpt_tensor **out,
                       size_t capacity);

/* ---- how layers differ: for the families' layers() ---- */

void arch_layers_alike(model_shape *s, int window);
/* By "layer_types" of the config where it has them, else layers from `first` on slide. `window` 0: none. */
qp_status arch_layers_by_type(model_shape *s, const hfconfig *c, int window, int first, qp_error *err);
/* The same, else every `pattern`-th layer sees everything. */
qp_status arch_layers_by_pattern(model_shape *s, const hfconfig *c, int window, int pattern, qp_error *err);
/* "sliding_window" of the config: `fallback` where it is absent, 0 where it is null. */
qp_status arch_window(int *out, const hfconfig *c, int fallback, qp_error *err);

#endif
