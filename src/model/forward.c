/* forward.c — walks the plan: one call through the device's op table per step of each layer.
 *
 * Called by gen/ for each step. Nothing here knows an architecture: plan.c has decided. The logits of many rows are
 * computed in blocks, so that a vocabulary of 256k costs no gigabyte of scratch. */
#include "forward.h"
#include "rope.h"
#include "base/mem.h"
#include <math.h>

/* ---- scratch ---- */

/* Nothing for a width of 0. */
static qp_status take_floats(forward *f, float **out, size_t rows, size_t width, qp_error *err) {
    size_t bytes;
    if (!width) return QP_OK;
    if (!mem_mul(rows, width, &bytes) || !mem_mul(bytes, sizeof(float), &bytes))
        return err_set(err, QP_TOO_LARGE, 0, "scratch of %zu x %zu floats: its size overflows", rows, width);
    void *memory = NULL;
    ERR_TRY(f->dev->ops->take(f->dev, &memory, bytes, err));
    *out = memory;
    return QP_OK;
}

static void give_floats(forward *f, float **memory, size_t rows, size_t width) {
    if (*memory) f->dev->ops->give(f->dev, *memory, rows * width * sizeof(float));
    *memory = NULL;
}

static bool tunes(const model_shape *s) { return s->tune_scale != 0; }

static qp_status take_host(forward *f, size_t rows, size_t half, qp_error *err) {
    f->host_cos = mem_array(rows, (half + 1) * sizeof(float));
    f->host_sin = mem_array(rows, (half + 1) * sizeof(float));
    f->inv_freq = mem_array(half + 1, sizeof(float));
    f->positions = mem_array(rows, sizeof(int64_t));
    f->position_ids = mem_array(rows, sizeof(int32_t));
    f->host_tuning = mem_array(rows, sizeof(float));
    if (f->host_cos && f->host_sin && f->inv_freq && f->positions && f->position_ids && f->host_tuning) return QP_OK;
    return err_no_memory(err, rows * half * sizeof(float), "the rotation tables of a step");
}

static qp_status take_all(forward *f, qp_error *err) {
    const size_t rows = (size_t)f->max_rows, half = (size_t)f->shape->rot_dims / 2;
    for (int i = 0; i < BUF_COUNT; i++) ERR_TRY(take_floats(f, &f->buffers[i], rows, (size_t)f->plan->width[i], err));
    if (f->has_head) {
        ERR_TRY(take_floats(f, &f->picked, (size_t)f->dev->logit_rows, (size_t)f->shape->hidden, err));
        if (!f->dev->is_host)
            ERR_TRY(take_floats(f, &f->logits, (size_t)f->dev->logit_rows, (size_t)f->shape->vocabulary, err));
    }
    ERR_TRY(take_floats(f, &f->low, rows, LORA_MAX_RANK, err));
    ERR_TRY(take_floats(f, &f->tuning, rows, tunes(f->shape), err));
    for (int i = 0; i < f->shape->n_ropes; i++) {
        ERR_TRY(take_floats(f, &f->cos[i], rows, half, err));
        ERR_TRY(take_floats(f, &f->sin[i], rows, half, err));
    }
    ERR_TRY(take_host(f, rows, half, err));
    return f->dev->ops->reserve(f->dev, f->max_rows, forward_widest(f->plan->width), err);
}

/* The plan's first op of a layer or of one behind it. */
static int op_of_layer(const plan *p, int layer) {
    int i = 0;
    while (i < p->n_ops && p->ops[i].layer < layer) i++;
    return i;
}

static qp_status open_share(forward *f, int share, qp_error *err) {
    const dev_split *split = &f->weights->split;
    f->dev = split->dev[share];
    f->has_head = share + 1 == split->n;
    f->first_op = op_of_layer(f->plan, split->first[share]);
    f->end_op = op_of_layer(f->plan, split->first[share + 1]);
    ERR_TRY(take_all(f, err));
    if (f->has_head && !share && f->dev->ops->expect && !(f->expected = MEM_NEW(next_step)))
        return err_no_memory(err, sizeof *f->expected, "the step that is expected");
    if (f->has_head) return QP_OK;
    f->next = MEM_NEW(forward);
    if (!f->next) return err_no_memory(err, sizeof *f, "the steps of a device");
    *f->next = (forward){.shape = f->shape, .weights = f->weights, .plan = f->plan, .max_rows = f->max_rows};
    return open_share(f->next, share + 1, err);
}

qp_status forward_open(forward *out, const model_shape *shape, const weights *w, const plan *p, int max_rows,
                       qp_error *err) {
    *out = (forward){.shape = shape, .weights = w, .plan = p, .max_rows = max_rows};
    const qp_status status = open_share(out, 0, err);
    if (status != QP_OK) forward_close(out);
    return status;
}

void forward_close(forward *f) {
    if (!f->dev) return;
    if (f->next) forward_close(f->next);
    mem_free(f->next);
    const size_t rows = (size_t)f->max_rows, half = (size_t)f->shape->rot_dims / 2;
    for (int i = 0; i < BUF_COUNT; i++) give_floats(f, &f->buffers[i], rows, (size_t)f->plan->width[i]);
    give_floats(f, &f->picked, (size_t)f->dev->logit_rows, (size_t)f->shape->hidden);
    give_floats(f, &f->logits, (size_t)f->dev->logit_rows, (size_t)f->shape->vocabulary);
    give_floats(f, &f->low, rows, LORA_MAX_RANK);
    give_floats(f, &f->tuning, rows, tunes(f->shape));
    for (int i = 0; i < f->shape->n_ropes; i++) {
        give_floats(f, &f->cos[i], rows, half);
        give_floats(f, &f->sin[i], rows, half);
    }
    mem_free(f->host_cos);
    mem_free(f->host_sin);
    mem_free(f->inv_freq);
    mem_free(f->positions);
    mem_free(f->position_ids);
    mem_free(f->host_tuning);
    mem_free(f->expected);
    *f = (forward){0};
}

size_t forward_bytes(const model_shape *shape, const int *width, int max_rows, int logit_rows) {
    size_t row = LORA_MAX_RANK + tunes(shape) + (size_t)shape->rot_dims / 2 * 2 * (size_t)shape->n_ropes;
    for (int i = 0; i < BUF_COUNT; i++) row += (size_t)width[i];
    const size_t wide = (size_t)shape->hidden + (size_t)shape->vocabulary;
    return ((size_t)max_rows * row + (size_t)logit_rows * wide) * sizeof(float);
}

int64_t forward_widest(const int *width) {
    int64_t widest = LORA_MAX_RANK;
    for (int i = 0; i < BUF_COUNT; i++) widest = width[i] > widest ? width[i] : widest;
    return widest;
}

/* ---- rotation tables ---- */

/* Rows of all spans by one set of rotary settings. The frequencies hang on the length of each sequence. */
static void fill_rope(forward *f, const step_input *in, int which) {
    const hf_rope *rope = &f->shape->ropes[which];
    const int rot = f->shape->rot_dims, half = rot / 2;
    float factor = 1;
    for (int i = 0; i < in->n_spans; i++) {
        const row_span *span = &in->spans[i];
        const size_t at = (size_t)span->row * (size_t)half;
        if (i == 0 || !rope_same(rope, in->rope_lengths[i], in->rope_lengths[i - 1]))
            rope_frequencies(rope, rot, in->rope_lengths[i], f->inv_freq, &factor);
        rope_fill(f->host_cos + at, f->host_sin + at, f->positions + span->row, span->n_rows, rot, f->inv_freq, factor);
    }
    const size_t bytes = (size_t)in->n_rows * (size_t)half * sizeof(float);
    f->dev->ops->upload(f->dev, f->cos[which], f->host_cos, bytes);
    f->dev->ops->upload(f->dev, f->sin[which], f->host_sin, bytes);
}

static void fill_positions(forward *f, const step_input *in) {
    for (int i = 0; i < in->n_spans; i++)
        for (int r = 0; r < in->spans[i].n_rows; r++) f->positions[in->spans[i].row + r] = in->spans[i].past + r;
}

/* Llama 4 and Ministral let q grow with the logarithm of its position. */
static void fill_tuning(forward *f, const step_input *in) {
    const model_shape *s = f->shape;
    if (!tunes(s)) return;
    for (int i = 0; i < in->n_rows; i++) {
        const float steps = floorf(((float)f->positions[i] + s->tune_offset) / s->tune_floor);
        f->host_tuning[i] = log1pf(steps) * s->tune_scale + 1;
    }
    f->dev->ops->upload(f->dev, f->tuning, f->host_tuning, (size_t)in->n_rows * sizeof(float));
}

/* ---- the steps ---- */

static void run_norm(forward *f, const plan_op *op, const step_input *in) {
    norm_args a = {.kind = op->norm,
                   .x = f->buffers[op->in],
                   .n_rows = in->n_rows,
                   .dim = op->width,
                   .heads = op->heads,
                   .weight = op->weight,
                   .bias = op->weight2,
                   .own_weights = op->own_weights,
                   .eps = op->eps,
                   .out = f->buffers[op->out],
                   .n_prompt = in->n_prompt_rows};
    const plan_op *product = op + 1;
    for (; op->is_read_once && !product->is_exact && !step_has_adapters(in) && a.n_next < product->n_parts; a.n_next++)
        a.next[a.n_next] = product->parts[a.n_next].w;
    f->dev->ops->norm(f->dev, &a);
}

/* One adapter's share of one part, for rows [row, row + n) of the step. */
static void add_low_rank(forward *f, const plan_op *op, const plan_part *part, const lora_pair *pair, float scale,
                         int row, int n) {
    const int rank = (int)pair->a.n_out;
    const matmul_args down = {.x = f->buffers[op->in] + (size_t)row * (size_t)op->width,
                              .x_stride = op->width,
                              .n_rows = n,
                              .n_parts = 1,
                              .parts = {{.w = &pair->a, .out = f->low, .out_stride = rank}}};
    const matmul_part result = {.w = &pair->b,
                                .out = f->buffers[part->out] + (size_t)row * (size_t)part->width,
                                .out_stride = part->width,
                                .add = true};
    const matmul_args up = {.x = f->low, .x_stride = rank, .n_rows = n, .n_parts = 1, .parts = {result}};
    const limit_args scaled = {f->low, n, rank, scale, 0, 0};
    f->dev->ops->matmul(f->dev, &down);
    if (scale != 1) f->dev->ops->limit(f->dev, &scaled);
    f->dev->ops->matmul(f->dev, &up);
}

/* Neighbouring spans with the same adapters go together. */
static void run_adapters(forward *f, const plan_op *op, const step_input *in) {
    for (int i = 0, end; in->adapters && i < in->n_spans; i = end) {
        const lora_set *set = in->adapters[i];
        int n = in->spans[i].n_rows;
        for (end = i + 1; end < in->n_spans && in->adapters[end] == set; end++) n += in->spans[end].n_rows;
        for (int k = 0; set && k < set->n; k++)
            for (int p = 0; p < op->n_parts; p++) {
                const lora_pair *pair = lora_find(set->adapters[k], op->layer, op->parts[p].slot);
                if (pair) add_low_rank(f, op, &op->parts[p], pair, set->scales[k], in->spans[i].row, n);
            }
    }
}

/* Adapters come before the gate: with them, it is a step of its own, and they read its result. */
static void run_matmul(forward *f, const plan_op *op, const step_input *in) {
    const bool adapted = step_has_adapters(in), gates_later = op->is_gated && adapted;
    matmul_args a = {.x = f->buffers[op->in],
                     .x_stride = op->width,
                     .n_rows = in->n_rows,
                     .n_prompt = in->n_prompt_rows,
                     .is_gated = op->is_gated && !gates_later,
                     .is_exact = op->is_exact,
                     .next = adapted ? NULL : op->next,
                     .act = f->shape->act};
    for (; a.n_parts < op->n_parts; a.n_parts++) {
        const plan_part *p = &op->parts[a.n_parts];
        a.parts[a.n_parts] = (matmul_part){p->w, p->bias, f->buffers[p->out], p->width, p->add};
    }
    f->dev->ops->matmul(f->dev, &a);
    run_adapters(f, op, in);
    if (!gates_later) return;
    const plan_part *gate = &op->parts[0], *up = &op->parts[1];
    const gate_args g = {f->shape->act, f->buffers[gate->out], f->buffers[up->out], in->n_rows, gate->width};
    f->dev->ops->gate(f->dev, &g);
}

static void run_heads(forward *f, const plan_op *op, const step_input *in) {
    const int n = f->shape->n_heads, to = op->heads;
    for (int h = 0; h < n; h++) {
        const matmul_part part = {
            .w = &op->matrices[h], .out = f->buffers[op->out] + (size_t)h * (size_t)to, .out_stride = (int64_t)n * to};
        const matmul_args a = {.x = f->buffers[op->in] + (size_t)h * (size_t)op->width,
                               .x_stride = (int64_t)n * op->width,
                               .n_rows = in->n_rows,
                               .n_prompt = in->n_prompt_rows,
                               .n_parts = 1,
                               .parts = {part}};
        f->dev->ops->matmul(f->dev, &a);
    }
}

/* Which norm the rotation's step does itself. */
static head_norm norm_of(const model_shape *s, const layer_kind *l) {
    if (!l->has_qk_norm) return HEAD_NORM_NONE;
    if (s->qk_norm == QK_NORM_HEADS) return HEAD_NORM_FIRST;
    return s->qk_norm == QK_NORM_HEADS_LAST || s->qk_norm == QK_NORM_UNIT_LAST ? HEAD_NORM_LAST : HEAD_NORM_NONE;
}

static void run_rope_store(forward *f, const plan_op *op, const step_input *in) {
    const model_shape *s = f->shape;
    const layer_kind *l = &s->layers[op->layer];
    const bool turns = l->rope != SHAPE_NO_ROPE;
    const rope_store_args a = {.q = f->buffers[BUF_Q],
                               .k = f->buffers[BUF_K],
                               .v = f->buffers[BUF_V],
                               .n_heads = s->n_heads,
                               .norm = norm_of(s, l),
                               .q_norm = op->weight,
                               .k_norm = op->weight2,
                               .norm_eps = op->eps,
                               .rot_dims = turns ? s->rot_dims : 0,
                               .pairs = s->rope_pairs,
                               .cos = turns ? f->cos[l->rope] : NULL,
                               .sin = turns ? f->sin[l->rope] : NULL,
                               .q_scale = l->has_q_tuning ? f->tuning : NULL,
                               .kv = in->kv[op->layer],
                               .spans = in->spans,
                               .n_spans = in->n_spans};
    f->dev->ops->rope_store(f->dev, &a);
}

static void run_latent_store(forward *f, const plan_op *op, const step_input *in) {
    const model_shape *s = f->shape;
    const int which = s->layers[op->layer].rope;
    const latent_store_args a = {.heads = f->buffers[op->in],
                                 .n_heads = s->n_heads,
                                 .heads_dim = op->width,
                                 .q = f->buffers[op->out],
                                 .latent = f->buffers[BUF_LATENT],
                                 .norm = op->weight,
                                 .norm_eps = op->eps,
                                 .rot_dims = s->rot_dims,
                                 .pairs = s->rope_pairs,
                                 .cos = f->cos[which],
                                 .sin = f->sin[which],
                                 .kv = in->kv[op->layer],
                                 .spans = in->spans,
                                 .n_spans = in->n_spans};
    f->dev->ops->latent_store(f->dev, &a);
}

static void run_attend(forward *f, const plan_op *op, const step_input *in) {
    const layer_kind *l = &f->shape->layers[op->layer];
    const plan_op *product = op + 1;
    const bool leaves = op->is_read_once && product->n_parts == 1 && !product->is_exact && !step_has_adapters(in);
    const attend_args a = {.q = f->buffers[op->in],
                           .out = f->buffers[op->out],
                           .n_heads = f->shape->n_heads,
                           .scale = l->attention_scale,
                           .window = l->window,
                           .chunk = l->chunk,
                           .cap = f->shape->attention_cap,
                           .sinks = weights_vector(f->weights, SLOT_SINKS, op->layer),
                           .kv = in->kv[op->layer],
                           .spans = in->spans,
                           .n_spans = in->n_spans,
                           .next = leaves ? product->parts[0].w : NULL,
                           .n_prompt = in->n_prompt_rows};
    f->dev->ops->attend(f->dev, &a);
}

static void run_gate(forward *f, const plan_op *op, const step_input *in) {
    const float *up = op->out == BUF_COUNT ? NULL : f->buffers[op->out];
    const gate_args a = {f->shape->act, f->buffers[op->in], up, in->n_rows, op->width};
    f->dev->ops->gate(f->dev, &a);
}

static void run_xielu(forward *f, const plan_op *op, const step_input *in) {
    const float *n = op->xielu;
    const xielu_args a = {f->buffers[op->in], in->n_rows, op->width, n[0], n[1], n[2], n[3]};
    f->dev->ops->xielu(f->dev, &a);
}

static void run_limit(forward *f, const plan_op *op, const step_input *in) {
    const limit_args a = {
        .x = f->buffers[op->in], .n_rows = in->n_rows, .dim = op->width, .scale = 1, .limit = f->shape->qkv_limit};
    f->dev->ops->limit(f->dev, &a);
}

static void run_add(forward *f, const plan_op *op, const step_input *in) {
    const add_args a = {.to = f->buffers[op->out],
                        .from = f->buffers[op->in],
                        .row_gate = op->row_gate == BUF_COUNT ? NULL : f->buffers[op->row_gate],
                        .n_rows = in->n_rows,
                        .dim = op->width,
                        .scale = op->scale};
    f->dev->ops->add(f->dev, &a);
}

static void run_route(forward *f, const plan_op *op, const step_input *in) {
    const route_args a = {.rule = &f->shape->route,
                          .logits = f->buffers[op->in],
                          .bias = op->weight,
                          .n_rows = in->n_rows,
                          .experts = (int32_t *)f->buffers[BUF_CHOSEN],
                          .weights = f->buffers[BUF_WEIGHTS]};
    f->dev->ops->route(f->dev, &a);
}

static expert_weights experts_of(const forward *f, slot matrix, slot bias, int layer) {
    return (expert_weights){weights_matrices(f->weights, matrix, layer), weights_vectors(f->weights, bias, layer)};
}

static void run_experts(forward *f, const plan_op *op, const step_input *in) {
    const model_shape *s = f->shape;
    const experts_args a = {.x = f->buffers[op->in],
                            .n_rows = in->n_rows,
                            .dim = s->hidden,
                            .ffn = s->expert_ffn,
                            .n_experts = s->route.n_experts,
                            .top_k = s->route.top_k,
                            .experts = (const int32_t *)f->buffers[BUF_CHOSEN],
                            .weights = f->buffers[BUF_WEIGHTS],
                            .weigh_input = s->weighs_input,
                            .gate = experts_of(f, SLOT_EXPERT_GATE, SLOT_EXPERT_GATE_B, op->layer),
                            .up = experts_of(f, SLOT_EXPERT_UP, SLOT_EXPERT_UP_B, op->layer),
                            .down = experts_of(f, SLOT_EXPERT_DOWN, SLOT_EXPERT_DOWN_B, op->layer),
                            .kind = s->act_kind == FFN_ACT_CLAMPED ? EXPERT_CLAMPED_GATE : EXPERT_GATE,
                            .act = s->act,
                            .alpha = s->act_alpha,
                            .limit = s->act_limit,
                            .rows_in = f->buffers[BUF_EXPERT_IN],
                            .rows_gate = f->buffers[BUF_GATE],
                            .rows_up = f->buffers[BUF_UP],
                            .rows = f->buffers[BUF_EXPERT_OUT],
                            .out = f->buffers[op->out]};
    f->dev->ops->experts(f->dev, &a);
}

static void (*const run_op[PLAN_KIND_COUNT])(forward *f, const plan_op *op, const step_input *in) = {
    [PLAN_NORM] = run_norm,
    [PLAN_MATMUL] = run_matmul,
    [PLAN_HEADS] = run_heads,
    [PLAN_ROPE_STORE] = run_rope_store,
    [PLAN_LATENT_STORE] = run_latent_store,
    [PLAN_ATTEND] = run_attend,
    [PLAN_GATE] = run_gate,
    [PLAN_XIELU] = run_xielu,
    [PLAN_LIMIT] = run_limit,
    [PLAN_ADD] = run_add,
    [PLAN_ROUTE] = run_route,
    [PLAN_EXPERTS] = run_experts,
};

/* ---- the ends of the step ---- */

static void run_embed(forward *f, const step_input *in) {
    const embed_args ids = {.ids = in->ids,
                            .n_rows = in->n_rows,
                            .table = weights_matrix(f->weights, SLOT_EMBED, 0),
                            .out = f->buffers[BUF_STREAM],
                            .scale = f->shape->embed_scale};
    f->dev->ops->embed(f->dev, &ids);
    if (!f->shape->learned_positions) return;
    for (int i = 0; i < in->n_rows; i++) f->position_ids[i] = (int32_t)f->positions[i];
    const embed_args positions = {.ids = f->position_ids,
                                  .n_rows = in->n_rows,
                                  .table = weights_matrix(f->weights, SLOT_POSITIONS, 0),
                                  .out = f->buffers[BUF_STREAM],
                                  .scale = 1,
                                  .add = true};
    f->dev->ops->embed(f->dev, &positions);
}

/* Of up to dev->logit_rows rows, into f->picked. */
static void run_final_norm(forward *f, const int32_t *rows, int n_rows) {
    const model_shape *s = f->shape;
    const norm_args norm = {.kind = s->norm,
                            .x = f->buffers[BUF_STREAM],
                            .rows = rows,
                            .n_rows = n_rows,
                            .dim = s->hidden,
                            .weight = weights_vector(f->weights, SLOT_FINAL_NORM, 0),
                            .bias = weights_vector(f->weights, SLOT_FINAL_NORM_B, 0),
                            .eps = s->norm_eps,
                            .out = f->picked};
    f->dev->ops->norm(f->dev, &norm);
}

/* Logits of the rows in f->picked. */
static void run_head(forward *f, int n_rows, float *out) {
    const model_shape *s = f->shape;
    const dev_weight *head = weights_matrix(f->weights, s->tied ? SLOT_EMBED : SLOT_HEAD, 0);
    const matmul_part part = {
        .w = head, .bias = weights_vector(f->weights, SLOT_HEAD_B, 0), .out = out, .out_stride = s->vocabulary};
    const matmul_args matmul = {.x = f->picked, .x_stride = s->hidden, .n_rows = n_rows, .n_parts = 1, .parts = {part}};
    const limit_args limit = {out, n_rows, s->vocabulary, s->logit_scale, s->logit_cap, 0};
    f->dev->ops->matmul(f->dev, &matmul);
    if (s->logit_scale != 1 || s->logit_cap != 0) f->dev->ops->limit(f->dev, &limit);
}

/* `rows` rows from the first on. */
static void fetch_logits(forward *f, const float *from, float *to, int first, int rows) {
    const size_t width = (size_t)f->shape->vocabulary, at = (size_t)first * width;
    f->dev->ops->download(f->dev, to + at, from + at, (size_t)rows * width * sizeof(float));
}

/* A table of positions ends somewhere; rotation does not. */
static qp_status check_positions(const forward *f, const step_input *in, qp_error *err) {
    const int most = f->shape->learned_positions;
    for (int i = 0; i < in->n_spans && most; i++)
        if (in->spans[i].past + in->spans[i].n_rows > most)
            return err_set(err, QP_TOO_LARGE, 0, "token %lld of a sequence, this model has positions for %d",
                           (long long)in->spans[i].past + in->spans[i].n_rows, most);
    return QP_OK;
}

static void fill_tables(forward *f, const step_input *in) {
    fill_positions(f, in);
    fill_tuning(f, in);
    for (int i = 0; i < f->shape->n_ropes; i++) fill_rope(f, in, i);
}

static void run_ops(forward *f, const step_input *in) {
    for (int i = f->first_op; i < f->end_op; i++) run_op[f->plan->ops[i].kind](f, &f->plan->ops[i], in);
}

/* The stream of all rows, from one device to another. */
static void hand_over(forward *to, const forward *from, const step_input *in) {
    const size_t bytes = (size_t)in->n_rows * (size_t)to->shape->hidden * sizeof(float);
    to->dev->ops->hand_over(to->dev, to->buffers[BUF_STREAM], from->dev, from->buffers[BUF_STREAM], bytes);
}

/* All layers, on one device after the other; returns the last. */
static forward *run_layers(forward *f, const step_input *in) {
    forward *last = f;
    while (last->next) last = last->next;
    forward *embeds = f->shape->tied ? last : f; /* where the table lies */
    fill_tables(embeds, in);
    run_embed(embeds, in);
    if (embeds != f) hand_over(f, embeds, in);
    for (; f; f = f->next) {
        if (f != embeds) fill_tables(f, in);
        run_ops(f, in);
        if (f->next) hand_over(f->next, f, in);
    }
    return last;
}

/* Logits of a block of rows, from the `done`th on: to where they are wanted, or on a device with memory of its own to
 * where they are fetched. */
static void run_block(forward *f, const step_input *in, int done, float *logits) {
    const int left = in->n_logit_rows - done, n = left < f->dev->logit_rows ? left : f->dev->logit_rows;
    const size_t at = (size_t)done * (size_t)f->shape->vocabulary;
    run_final_norm(f, in->logit_rows + done, n);
    run_head(f, n, in->digest ? in->digest->rows + at : f->dev->is_host ? logits + at : f->logits);
}

/* ---- the step behind this one ---- */

/* While the device computes, the step that is expected next is written down. False: it is not. */
static bool write_next(forward *f, const step_input *in) {
    if (!f->expected || in->n_logit_rows > f->dev->logit_rows || !next_step_predict(f->expected, in)) return false;
    const step_input *next = &f->expected->in;
    if (check_positions(f, next, NULL) != QP_OK || !(f->expected->name = f->dev->ops->expect(f->dev))) return false;
    run_layers(f, next);
    run_block(f, next, 0, NULL);
    f->dev->ops->expected(f->dev);
    return true;
}

/* Whether it may begin with the best of each row: what this one leaves is elsewhere, and nobody asks for more. */
static bool may_lead(const step_input *in) {
    const step_digest *g = in->digest;
    return g->may_lead && g->next_rows != g->rows && in->n_logit_rows <= STEP_MOST_LED;
}

/* Whether this step had been written down, layers and logits, and has begun. */
static bool has_begun(forward *f, const step_input *in) {
    return f->expected && next_step_fits(f->expected, in, f->shape->ropes, f->shape->n_ropes) &&
           f->dev->ops->proceed(f->dev, f->expected->name, in->ids, in->n_rows);
}

/* ---- digests ---- */

/* What was asked of the rows, in the order in which it is needed. */
static void fetch_digests(forward *f, const step_input *in, float *logits) {
    const step_digest *g = in->digest;
    const size_t n = (size_t)in->n_logit_rows;
    if (g->wants_bodies)
        f->dev->ops->download(f->dev, g->heads_here, g->heads, n * (sizeof *g->heads + sizeof *g->bodies));
    else
        f->dev->ops->digest_heads(f->dev, g->heads_here, in->n_logit_rows);
    for (int first = 0, end; first < in->n_logit_rows; first = end) {
        for (end = first; end < in->n_logit_rows && g->wants_row[end] == g->wants_row[first];) end++;
        if (g->wants_row[first]) fetch_logits(f, g->rows, logits, first, end - first);
    }
}

/* The device starts on what it has been given, and what will be asked of the logits is made out meanwhile. */
static void digest_logits(forward *f, const step_input *in, float *logits) {
    const step_digest *g = in->digest;
    f->dev->ops->download(f->dev, NULL, NULL, 0);
    g->prepare(g->context);
    const digest_args args = {.logits = g->rows,
                              .n_rows = in->n_logit_rows,
                              .width = f->shape->vocabulary,
                              .changed = g->changed,
                              .orders = g->orders,
                              .bytes = g->bytes,
                              .heads = g->heads,
                              .bodies = g->bodies};
    f->dev->ops->digest(f->dev, &args);
    if (write_next(f, in) && may_lead(in)) f->dev->ops->lead(f->dev, f->expected->name);
    fetch_digests(f, in, logits);
}

/* ---- the whole step ---- */

/* has_first: the first block has been asked for. */
static void run_logits(forward *f, const step_input *in, float *logits, bool has_first) {
    const int most = f->dev->logit_rows;
    for (int done = 0; done < in->n_logit_rows; done += most) {
        const int left = in->n_logit_rows - done, n = left < most ? left : most;
        if (done || !has_first) run_block(f, in, done, logits);
        if (in->digest || f->dev->is_host) continue;
        write_next(f, in);
        fetch_logits(f, f->logits, logits + (size_t)done * (size_t)f->shape->vocabulary, 0, n);
    }
    if (in->digest) digest_logits(f, in, logits);
}

static void run_states(forward *f, const step_input *in) {
    const int most = f->dev->logit_rows;
    for (int done = 0; done < in->n_state_rows; done += most) {
        const int left = in->n_state_rows - done, n = left < most ? left : most;
        const size_t width = (size_t)f->shape->hidden;
        run_final_norm(f, in->state_rows + done, n);
        f->dev->ops->download(f->dev, in->states + (size_t)done * width, f->picked, (size_t)n * width * sizeof(float));
    }
}

qp_status forward_step(forward *f, const step_input *in, float *logits, qp_error *err) {
    qp_status status = QP_OK;
    ERR_TRY(check_positions(f, in, err));
    const bool begun = has_begun(f, in);
    forward *last = begun ? f : run_layers(f, in);
    run_logits(last, in, logits, begun);
    run_states(last, in);
    for (; f; f = f->next) {
        const qp_status ended = f->dev->ops->finish(f->dev, status == QP_OK ? err : NULL);
        status = status == QP_OK ? ended : status;
    }
    return status;
}
