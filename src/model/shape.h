/* shape.h — the numbers of a model: what config.json says, checked, as one flat value.
 *
 * shape_read() is called once by opening and by `inspect`; plan.c, bind.c and the cache read the result. Which key
 * fills which field is data (the architecture's row, arch.h); this module walks that table and then checks what no
 * single key can tell. The struct owns nothing and may be copied. */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H

#include "dev/dev.h"
#include "format/hfconfig.h"

/* What the engine takes; everything sized by a shape stays far from overflow. */
enum {
    SHAPE_MAX_LAYERS = 512,
    SHAPE_MAX_HIDDEN = 1 << 18,
    SHAPE_MAX_HEADS = 1 << 10,
    SHAPE_MAX_HEAD_DIM = 1 << 10,
    SHAPE_MAX_FFN = 1 << 20,
    SHAPE_MAX_VOCABULARY = 1 << 24,
    SHAPE_MAX_POSITIONS = 1 << 30,
    SHAPE_MAX_ROPES = 2,
};

/* How a layer mixes positions. A new kind of attention is a new entry here and a new branch in plan.c. */
typedef enum mixer { MIXER_GQA, MIXER_COUNT } mixer;

typedef struct layer_kind {
    mixer mixer;
    int window; /* positions a query sees including its own; 0: all before it */
    int rope;   /* which of model_shape.ropes turns q and k here */
} layer_kind;

typedef struct model_shape {
    char architecture[64]; /* as config.json names it */
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, ffn, vocabulary;
    int trained_context; /* tokens: max_position_embeddings */
    int rot_dims;        /* elements of a head that are turned: even, <= head_dim */
    float norm_eps;
    float attention_scale; /* multiplies q . k */
    activation act;
    bool qkv_bias, o_bias, mlp_bias, qk_norm;
    bool tied; /* the head is the embedding table */
    int n_ropes;
    hf_rope ropes[SHAPE_MAX_ROPES];
    layer_kind layers[SHAPE_MAX_LAYERS];
} model_shape;

typedef struct arch_row arch_row;

/* Finds the architecture's row and fills the shape from the config. */
qp_status shape_read(model_shape *out, const arch_row **row, const hfconfig *c, qp_error *err);
/* Checks what shape_read and makers of synthetic shapes must both keep: divisibility, ranges, rope. `where` begins the
 * errors. */
qp_status shape_check(const model_shape *s, const char *where, qp_error *err);

/* The activation that config.json calls `name`; false if this engine has none such. */
bool shape_find_activation(activation *out, const char *name);
const char *shape_activation_name(activation act);

#endif
