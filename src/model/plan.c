/* plan.c — turns shape and weights into the flat list of steps that forward.c walks.
 *
 * Called once by model.c. All decisions about a layer's kind fall here; a new mixer or block is a new function here
 * and, if it computes something new, a new op of the device. */
#include "plan.h"
#include "base/mem.h"

enum { OPS_PER_LAYER = 9 };

static plan_op *next(plan *p, plan_kind kind, int layer) {
    plan_op *op = &p->ops[p->n_ops++];
    *op = (plan_op){.kind = kind, .layer = layer};
    return op;
}

static void add_norm(plan *p, const weights *w, slot s, int layer) {
    plan_op *op = next(p, PLAN_NORM, layer);
    op->in = BUF_STREAM;
    op->out = BUF_NORMED;
    op->weight = weights_vector(w, s, layer);
}

static plan_op *add_matmul(plan *p, int layer, plan_buffer in) {
    plan_op *op = next(p, PLAN_MATMUL, layer);
    op->in = in;
    return op;
}

static void add_part(plan_op *op, const weights *w, slot matrix, slot bias, plan_buffer out, bool add) {
    op->parts[op->n_parts++] =
        (plan_part){weights_matrix(w, matrix, op->layer), weights_vector(w, bias, op->layer), out, add};
}

/* Grouped-query attention (Ainslie et al. 2023): pre-norm, q k v, rotation, attention, output into the stream. */
static void plan_attention(plan *p, const weights *w, int layer) {
    add_norm(p, w, SLOT_ATTN_NORM, layer);
    plan_op *qkv = add_matmul(p, layer, BUF_NORMED);
    add_part(qkv, w, SLOT_WQ, SLOT_BQ, BUF_Q, false);
    add_part(qkv, w, SLOT_WK, SLOT_BK, BUF_K, false);
    add_part(qkv, w, SLOT_WV, SLOT_BV, BUF_V, false);
    plan_op *rope = next(p, PLAN_ROPE_STORE, layer);
    rope->weight = weights_vector(w, SLOT_Q_NORM, layer);
    rope->weight2 = weights_vector(w, SLOT_K_NORM, layer);
    next(p, PLAN_ATTEND, layer);
    add_part(add_matmul(p, layer, BUF_MIXED), w, SLOT_WO, SLOT_BO, BUF_STREAM, true);
}

/* Gated feed-forward block (Shazeer 2020): down(act(gate(x)) * up(x)) into the stream. */
static void plan_ffn(plan *p, const weights *w, int layer) {
    add_norm(p, w, SLOT_FFN_NORM, layer);
    plan_op *in = add_matmul(p, layer, BUF_NORMED);
    add_part(in, w, SLOT_W_GATE, SLOT_B_GATE, BUF_GATE, false);
    add_part(in, w, SLOT_W_UP, SLOT_B_UP, BUF_UP, false);
    next(p, PLAN_GATE, layer);
    add_part(add_matmul(p, layer, BUF_GATE), w, SLOT_W_DOWN, SLOT_B_DOWN, BUF_STREAM, true);
}

qp_status plan_make(plan *out, const model_shape *shape, const weights *w, qp_error *err) {
    const int q = shape->n_heads * shape->head_dim, kv = shape->n_kv_heads * shape->head_dim;
    *out = (plan){.width = {[BUF_STREAM] = shape->hidden,
                            [BUF_NORMED] = shape->hidden,
                            [BUF_Q] = q,
                            [BUF_K] = kv,
                            [BUF_V] = kv,
                            [BUF_MIXED] = q,
                            [BUF_GATE] = shape->ffn,
                            [BUF_UP] = shape->ffn}};
    out->ops = mem_array((size_t)shape->n_layers * OPS_PER_LAYER, sizeof *out->ops);
    if (!out->ops) return err_no_memory(err, 0, "the plan");
    for (int i = 0; i < shape->n_layers; i++) {
        plan_attention(out, w, i);
        plan_ffn(out, w, i);
    }
    return QP_OK;
}

void plan_free(plan *p) {
    mem_free(p->ops);
    *p = (plan){0};
}
