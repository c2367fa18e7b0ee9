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
    KEY_NULL_IS_ZERO = 2, /* null is not the fallback but 0: "derive it" */
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

/* X(name, one per layer) */
#define SLOTS(X)                                                                                                       \
    X(EMBED, false)                                                                                                    \
    X(FINAL_NORM, false)                                                                                               \
    X(HEAD, false)                                                                                                     \
    X(ATTN_NORM, true)                                                                                                 \
    X(WQ, true)                                                                                                        \
    X(WK, true)                                                                                                        \
    X(WV, true)                                                                                                        \
    X(WO, true)                                                                                                        \
    X(BQ, true)                                                                                                        \
    X(BK, true)                                                                                                        \
    X(BV, true)                                                                                                        \
    X(BO, true)                                                                                                        \
    X(Q_NORM, true)                                                                                                    \
    X(K_NORM, true)                                                                                                    \
    X(FFN_NORM, true)                                                                                                  \
    X(W_GATE, true)                                                                                                    \
    X(W_UP, true)                                                                                                      \
    X(W_DOWN, true)                                                                                                    \
    X(B_GATE, true)                                                                                                    \
    X(B_UP, true)                                                                                                      \
    X(B_DOWN, true)

typedef enum slot {
#define X(name, per_layer) SLOT_##name,
    SLOTS(X)
#undef X
        SLOT_COUNT
} slot;

/* A length out of the shape. DIM_NONE: the tensor has no such dimension. */
typedef enum dim { DIM_NONE, DIM_HIDDEN, DIM_Q, DIM_KV, DIM_HEAD, DIM_FFN, DIM_VOCAB } dim;

/* When a model has the weight. */
typedef enum slot_need { NEED_ALWAYS, NEED_UNTIED, NEED_QKV_BIAS, NEED_O_BIAS, NEED_MLP_BIAS, NEED_QK_NORM } slot_need;

typedef struct slot_row {
    slot slot;
    const char *pattern; /* with one %d for the layer where the slot is per layer; NULL ends a table */
    dim rows, cols;      /* matrix [rows, cols]: y = W x; vector [rows], cols DIM_NONE */
    slot_need need;
} slot_row;

const char *slot_name(slot s);
bool slot_is_per_layer(slot s);
/* The length that `d` stands for; 0 for DIM_NONE. */
int64_t shape_dim(const model_shape *s, dim d);
/* Whether a model of this shape has the weight of this row. */
bool shape_needs(const model_shape *s, slot_need need);
/* The tensor's name in layer `layer`; QP_TOO_LARGE if it does not fit. */
qp_status slot_tensor_name(char *out, size_t capacity, const slot_row *row, int layer, qp_error *err);

/* ---- the row ---- */

struct arch_row {
    const char *hf_name; /* as in "architectures" */
    const config_key *keys;
    const slot_row *slots;
    double rope_theta;              /* where config.json gives none */
    bool has_partial_rotation;      /* whether the family heeds partial_rotary_factor */
    bool has_qk_norm, has_qkv_bias; /* always, whatever config.json says */
    /* Fills s->layers where layers differ (windows); NULL: all alike, seeing everything. */
    qp_status (*layers)(model_shape *s, const hfconfig *c, qp_error *err);
};

/* By name; NULL if unknown. */
const arch_row *arch_find(const char *hf_name);
/* 0, 1, ... until NULL. */
const arch_row *arch_at(int index);

/* The slot that a tensor's name stands for in this model; false if none (unexpected, or not needed by the shape). */
bool arch_match(const arch_row *row, const model_shape *s, const char *name, slot *out, int *layer);
/* Tensors of the checkpoint that the model does not use: their number; the first `capacity` of them in `out`. They are
 * no error (the reference warns), `inspect` shows them. */
size_t arch_unexpected(const arch_row *row, const model_shape *s, const checkpoint *c, const ckpt_tensor **out,
                       size_t capacity);

/* For the layers() of families: all layers alike / by "layer_types" of the config where it has them, else layers from
 * `first` on slide. `window` 0: none. */
void arch_layers_alike(model_shape *s, int window);
qp_status arch_layers_by_type(model_shape *s, const hfconfig *c, int window, int first, qp_error *err);

#endif
