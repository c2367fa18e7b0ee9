/* plan.c — turns shape and weights into the flat list of steps that forward.c walks.
 *
 * Called once by model.c. All decisions about a layer's kind fall here; a new mixer or block is a new function here
 * and, if it computes something new, a new op of the device.
 *
 * A block (attention or feed-forward) reads the residual stream through a norm, or as it is, and its result goes back
 * into the stream. Where nothing happens to it on the way, the last product adds it directly; a norm behind the block,
 * a multiplier, or experts need a buffer of its own (BLOCK). */
#include "plan.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { OPS_PER_LAYER = 32 };

/* What the functions below have in common. */
typedef struct maker {
    plan *plan;
    const model_shape *shape;
    const weights *w;
    int layer;
    const layer_kind *kind;
} maker;

static plan_op *next(maker *m, plan_kind kind, plan_buffer in, plan_buffer out, int width) {
    plan_op *op = &m->plan->ops[m->plan->n_ops++];
    *op = (plan_op){.kind = kind, .layer = m->layer, .in = in, .out = out, .width = width, .row_gate = BUF_COUNT};
    op->eps = m->shape->norm_eps;
    op->scale = 1;
    return op;
}

/* SLOT_COUNT: none. */
static const float *vector_of(const maker *m, slot s) {
    return s == SLOT_COUNT ? NULL : weights_vector(m->w, s, m->layer);
}

static void add_norm(maker *m, plan_buffer in, plan_buffer out, slot weight, slot bias) {
    plan_op *op = next(m, PLAN_NORM, in, out, m->shape->hidden);
    op->norm = m->shape->norm;
    op->weight = vector_of(m, weight);
    op->weight2 = vector_of(m, bias);
}

static plan_op *add_matmul(maker *m, plan_buffer in, int width) { return next(m, PLAN_MATMUL, in, in, width); }

static void add_part(maker *m, plan_op *op, slot matrix, slot bias, plan_buffer out, bool add) {
    const dev_weight *w = weights_matrix(m->w, matrix, m->layer);
    op->parts[op->n_parts++] =
        (plan_part){.slot = matrix, .w = w, .bias = vector_of(m, bias), .out = out, .width = (int)w->n_out, .add = add};
}

/* ---- where a block's result goes ---- */

static bool needs_block(const maker *m, bool is_sum) {
    return m->shape->norm_after || m->shape->residual_scale != 1 || is_sum;
}

static void add_last(maker *m, plan_buffer in, int width, slot matrix, slot bias, bool is_sum) {
    const bool apart = needs_block(m, is_sum);
    add_part(m, add_matmul(m, in, width), matrix, bias, apart ? BUF_BLOCK : BUF_STREAM, !apart);
}

/* From BLOCK into the stream. */
static void finish_block(maker *m, slot post_norm, bool is_sum) {
    if (!needs_block(m, is_sum)) return;
    if (m->shape->norm_after) add_norm(m, BUF_BLOCK, BUF_BLOCK, post_norm, SLOT_COUNT);
    next(m, PLAN_ADD, BUF_BLOCK, BUF_STREAM, m->shape->hidden)->scale = m->shape->residual_scale;
}

/* ---- attention ---- */

/* Norms of q and k that are not part of the rotation's step. */
static void add_qk_norm(maker *m, plan_buffer buffer, slot weight, slot bias, int heads) {
    const model_shape *s = m->shape;
    if (!m->kind->has_qk_norm || s->qk_norm < QK_NORM_WIDE) return;
    const bool wide = s->qk_norm == QK_NORM_WIDE;
    plan_op *op = next(m, PLAN_NORM, buffer, buffer, wide ? heads * s->head_dim : s->head_dim);
    op->norm = wide ? NORM_RMS : NORM_LAYER;
    op->heads = wide ? 1 : heads;
    op->own_weights = s->qk_norm == QK_NORM_OWN;
    op->weight = weights_vector(m->w, weight, m->layer);
    op->weight2 = weights_vector(m->w, bias, m->layer);
}

static void add_limits(maker *m, int q, int kv) {
    if (m->shape->qkv_limit == 0) return;
    next(m, PLAN_LIMIT, BUF_Q, BUF_Q, q);
    next(m, PLAN_LIMIT, BUF_K, BUF_K, kv);
    next(m, PLAN_LIMIT, BUF_V, BUF_V, kv);
}

/* Grouped-query attention (Ainslie et al. 2023): q k v, rotation, attention, output. */
static void plan_grouped(maker *m, plan_buffer in) {
    const model_shape *s = m->shape;
    const int q = s->n_heads * s->head_dim, kv = s->n_kv_heads * s->head_dim;
    plan_op *qkv = add_matmul(m, in, s->hidden);
    add_part(m, qkv, SLOT_WQ, SLOT_BQ, BUF_Q, false);
    add_part(m, qkv, SLOT_WK, SLOT_BK, BUF_K, false);
    add_part(m, qkv, SLOT_WV, SLOT_BV, BUF_V, false);
    add_qk_norm(m, BUF_Q, SLOT_Q_NORM, SLOT_Q_NORM_B, s->n_heads);
    add_qk_norm(m, BUF_K, SLOT_K_NORM, SLOT_K_NORM_B, s->n_kv_heads);
    add_limits(m, q, kv);
    plan_op *rope = next(m, PLAN_ROPE_STORE, BUF_Q, BUF_Q, q);
    rope->weight = weights_vector(m->w, SLOT_Q_NORM, m->layer);
    rope->weight2 = weights_vector(m->w, SLOT_K_NORM, m->layer);
    next(m, PLAN_ATTEND, BUF_Q, BUF_MIXED, q);
    add_last(m, BUF_MIXED, q, SLOT_WO, SLOT_BO, false);
}

static void add_heads(maker *m, plan_buffer in, int in_dim, plan_buffer out, int out_stride, slot matrices) {
    plan_op *op = next(m, PLAN_HEADS, in, out, in_dim);
    op->matrices = weights_matrices(m->w, matrices, m->layer);
    op->heads = out_stride;
}

static void add_rank_norm(maker *m, plan_buffer buffer, slot weight, int width) {
    plan_op *op = next(m, PLAN_NORM, buffer, buffer, width);
    op->weight = weights_vector(m->w, weight, m->layer);
    op->eps = m->shape->rank_eps;
}

/* Latent attention: the cache holds one latent per token. The matrix that makes a head's keys out of latents is
 * multiplied into its query instead, and the one that makes its values is applied to what attention has mixed. */
static void plan_latent(maker *m, plan_buffer in) {
    const model_shape *s = m->shape;
    const int latent = s->kv_rank + s->rope_dim;
    plan_op *down = add_matmul(m, in, s->hidden);
    if (s->q_rank) {
        add_part(m, down, SLOT_WQ_DOWN, SLOT_BQ_DOWN, BUF_Q_LOW, false);
        add_part(m, down, SLOT_WKV_DOWN, SLOT_BKV_DOWN, BUF_LATENT, false);
        add_rank_norm(m, BUF_Q_LOW, SLOT_Q_DOWN_NORM, s->q_rank);
        add_part(m, add_matmul(m, BUF_Q_LOW, s->q_rank), SLOT_WQ, SLOT_COUNT, BUF_HEADS, false);
    } else {
        add_part(m, down, SLOT_WQ, SLOT_COUNT, BUF_HEADS, false);
        add_part(m, down, SLOT_WKV_DOWN, SLOT_BKV_DOWN, BUF_LATENT, false);
    }
    add_heads(m, BUF_HEADS, s->head_dim, BUF_Q, latent, SLOT_WK_UP);
    plan_op *store = next(m, PLAN_LATENT_STORE, BUF_HEADS, BUF_Q, s->head_dim);
    store->weight = weights_vector(m->w, SLOT_KV_DOWN_NORM, m->layer);
    store->eps = s->rank_eps;
    next(m, PLAN_ATTEND, BUF_Q, BUF_MIXED_LATENT, s->n_heads * latent);
    add_heads(m, BUF_MIXED_LATENT, s->kv_rank, BUF_MIXED, s->v_dim, SLOT_WV_UP);
    add_last(m, BUF_MIXED, s->n_heads * s->v_dim, SLOT_WO, SLOT_BO, false);
}

static void (*const plan_mixer[MIXER_COUNT])(maker *m, plan_buffer in) = {
    [MIXER_GQA] = plan_grouped,
    [MIXER_LATENT] = plan_latent,
};

/* ---- feed-forward ---- */

static float number_of(const maker *m, slot s) {
    float number = 0;
    device *dev = m->w->split.dev[dev_share_of(&m->w->split, m->layer)];
    dev->ops->download(dev, &number, weights_vector(m->w, s, m->layer), sizeof number);
    return number;
}

static float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

static void add_xielu(maker *m, plan_buffer gate, int width) {
    plan_op *op = next(m, PLAN_XIELU, gate, gate, width);
    const float beta = number_of(m, SLOT_ACT_BETA);
    op->xielu[0] = softplus(number_of(m, SLOT_ACT_ALPHA_P));
    op->xielu[1] = beta + softplus(number_of(m, SLOT_ACT_ALPHA_N));
    op->xielu[2] = beta;
    op->xielu[3] = number_of(m, SLOT_ACT_EPS);
}

static void add_act(maker *m, plan_buffer gate, bool is_gated, int width) {
    if (m->shape->act_kind == FFN_ACT_XIELU)
        add_xielu(m, gate, width);
    else
        next(m, PLAN_GATE, gate, is_gated ? BUF_UP : BUF_COUNT, width);
}

/* Gated feed-forward block (Shazeer 2020). */
static void plan_gated(maker *m, plan_buffer in) {
    plan_op *op = add_matmul(m, in, m->shape->hidden);
    add_part(m, op, SLOT_W_GATE, SLOT_B_GATE, BUF_GATE, false);
    add_part(m, op, SLOT_W_UP, SLOT_B_UP, BUF_UP, false);
    op->is_gated = m->shape->act_kind != FFN_ACT_XIELU;
    if (!op->is_gated) add_act(m, BUF_GATE, true, m->shape->ffn);
    op->next = op->is_gated ? weights_matrix(m->w, SLOT_W_DOWN, m->layer) : NULL;
    add_last(m, BUF_GATE, m->shape->ffn, SLOT_W_DOWN, SLOT_B_DOWN, false);
}

static void plan_plain(maker *m, plan_buffer in) {
    add_part(m, add_matmul(m, in, m->shape->hidden), SLOT_W_UP, SLOT_B_UP, BUF_GATE, false);
    add_act(m, BUF_GATE, false, m->shape->ffn);
    add_last(m, BUF_GATE, m->shape->ffn, SLOT_W_DOWN, SLOT_B_DOWN, false);
}

/* The expert that every token passes; its result joins the others' in BLOCK, perhaps through a sigmoid. */
static void plan_shared(maker *m, plan_buffer in) {
    const model_shape *s = m->shape;
    plan_op *op = add_matmul(m, in, s->hidden);
    add_part(m, op, SLOT_SHARED_GATE, SLOT_COUNT, BUF_GATE, false);
    add_part(m, op, SLOT_SHARED_UP, SLOT_COUNT, BUF_UP, false);
    if (s->has_shared_switch) add_part(m, op, SLOT_SHARED_SWITCH, SLOT_COUNT, BUF_SWITCH, false);
    add_act(m, BUF_GATE, true, s->shared_ffn);
    plan_op *down = add_matmul(m, BUF_GATE, s->shared_ffn);
    add_part(m, down, SLOT_SHARED_DOWN, SLOT_COUNT, s->has_shared_switch ? BUF_SHARED_OUT : BUF_BLOCK,
             !s->has_shared_switch);
    if (s->has_shared_switch) next(m, PLAN_ADD, BUF_SHARED_OUT, BUF_BLOCK, s->hidden)->row_gate = BUF_SWITCH;
}

static void plan_experts(maker *m, plan_buffer in) {
    const model_shape *s = m->shape;
    plan_op *router = add_matmul(m, in, s->hidden);
    router->is_exact = true; /* a rounding that turns the order of two experts is not a small error */
    add_part(m, router, SLOT_ROUTER, SLOT_ROUTER_B, BUF_ROUTER, false);
    next(m, PLAN_ROUTE, BUF_ROUTER, BUF_WEIGHTS, s->route.n_experts)->weight =
        weights_vector(m->w, SLOT_ROUTE_BIAS, m->layer);
    next(m, PLAN_EXPERTS, in, BUF_BLOCK, s->hidden);
    if (s->shared_ffn) plan_shared(m, in);
}

static void (*const plan_ffn[FFN_KIND_COUNT])(maker *m, plan_buffer in) = {
    [FFN_GATED] = plan_gated,
    [FFN_PLAIN] = plan_plain,
    [FFN_EXPERTS] = plan_experts,
};

/* ---- a layer ---- */

static plan_buffer input_of(maker *m, plan_buffer to, slot norm, slot bias) {
    if (!m->shape->norm_before) return BUF_STREAM;
    add_norm(m, BUF_STREAM, to, norm, bias);
    return to;
}

static void plan_layer(maker *m) {
    const model_shape *s = m->shape;
    const bool has_experts = m->kind->ffn == FFN_EXPERTS;
    plan_buffer in = input_of(m, BUF_NORMED, SLOT_ATTN_NORM, SLOT_ATTN_NORM_B);
    if (s->is_parallel && !s->has_one_norm) input_of(m, BUF_NORMED_TOO, SLOT_FFN_NORM, SLOT_FFN_NORM_B);
    plan_mixer[m->kind->mixer](m, in);
    finish_block(m, SLOT_ATTN_POST, false);
    if (!s->is_parallel)
        in = input_of(m, BUF_NORMED, SLOT_FFN_NORM, SLOT_FFN_NORM_B);
    else if (!s->has_one_norm)
        in = BUF_NORMED_TOO;
    plan_ffn[m->kind->ffn](m, in);
    finish_block(m, SLOT_FFN_POST, has_experts);
}

/* ---- widths ---- */

static int most(int a, int b) { return a > b ? a : b; }

/* pairs: rows of the experts' scratch for each row of a step. */
static void set_expert_widths(int *w, const model_shape *s, int pairs) {
    if (!shape_has_experts(s)) return;
    w[BUF_ROUTER] = s->route.n_experts;
    w[BUF_CHOSEN] = w[BUF_WEIGHTS] = s->route.top_k;
    w[BUF_BLOCK] = s->hidden;
    w[BUF_EXPERT_IN] = w[BUF_EXPERT_OUT] = s->hidden * pairs;
    w[BUF_GATE] = w[BUF_UP] = most(s->ffn, most(s->expert_ffn * pairs, s->shared_ffn));
    w[BUF_SHARED_OUT] = s->has_shared_switch ? s->hidden : 0;
    w[BUF_SWITCH] = s->has_shared_switch;
}

void plan_widths(int *w, const model_shape *s, const device *dev) {
    memset(w, 0, BUF_COUNT * sizeof *w);
    const int q = s->n_heads * s->head_dim, latent = s->kv_rank + s->rope_dim;
    w[BUF_STREAM] = w[BUF_NORMED] = s->hidden;
    w[BUF_NORMED_TOO] = s->is_parallel && !s->has_one_norm ? s->hidden : 0;
    w[BUF_BLOCK] = s->norm_after || s->residual_scale != 1 ? s->hidden : 0;
    w[BUF_Q] = s->kv_rank ? s->n_heads * latent : q;
    w[BUF_K] = w[BUF_V] = s->kv_rank ? 0 : s->n_kv_heads * s->head_dim;
    w[BUF_MIXED] = s->n_heads * s->v_dim;
    w[BUF_GATE] = w[BUF_UP] = s->ffn;
    w[BUF_Q_LOW] = s->q_rank;
    w[BUF_HEADS] = s->kv_rank ? q : 0;
    w[BUF_LATENT] = s->kv_rank ? latent : 0;
    w[BUF_MIXED_LATENT] = s->n_heads * s->kv_rank;
    set_expert_widths(w, s, dev->keeps_pairs ? s->route.top_k : 1);
}

/* ---- what is read where ---- */

static bool writes_whole(const plan_op *op) { return op->kind == PLAN_NORM || op->kind == PLAN_ATTEND; }

/* Whether the product behind a norm or attention is all that reads its result. */
static bool reads_once(const plan *p, int writer) {
    const plan_buffer buffer = p->ops[writer].out;
    if (writer + 1 >= p->n_ops || p->ops[writer + 1].kind != PLAN_MATMUL || p->ops[writer + 1].in != buffer)
        return false;
    for (int i = writer + 2; i < p->n_ops; i++) {
        const plan_op *op = &p->ops[i];
        if (op->in == buffer || op->row_gate == buffer) return false;
        if (op->out == buffer) return writes_whole(op);
    }
    return true;
}

qp_status plan_make(plan *out, const model_shape *shape, const weights *w, qp_error *err) {
    *out = (plan){0};
    plan_widths(out->width, shape, w->split.dev[0]);
    out->ops = mem_array((size_t)shape->n_layers * OPS_PER_LAYER, sizeof *out->ops);
    if (!out->ops) return err_no_memory(err, 0, "the plan");
    for (int i = 0; i < shape->n_layers; i++)
        plan_layer(&(maker){.plan = out, .shape = shape, .w = w, .layer = i, .kind = &shape->layers[i]});
    for (int i = 0; i < out->n_ops; i++)
        if (writes_whole(&out->ops[i])) out->ops[i].is_read_once = reads_once(out, i);
    return QP_OK;
}

void plan_free(plan *p) {
    mem_free(p->ops);
    *p = (plan){0};
}
