/* forward.c — walks the plan: one call through the device's op table per step of each layer.
 *
 * Called by gen/ for each step. Nothing here knows an architecture: plan.c has decided. The logits of many rows are
 * computed in blocks, so that a vocabulary of 256k costs no gigabyte of scratch. */
#include "forward.h"
#include "rope.h"
#include "base/mem.h"

enum { LOGIT_BLOCK = 32 };

/* ---- scratch ---- */

static qp_status take_floats(forward *f, float **out, size_t rows, size_t width, qp_error *err) {
    size_t bytes;
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

static qp_status take_all(forward *f, qp_error *err) {
    const size_t rows = (size_t)f->max_rows, half = (size_t)f->shape->rot_dims / 2;
    for (int i = 0; i < BUF_COUNT; i++) ERR_TRY(take_floats(f, &f->buffers[i], rows, (size_t)f->plan->width[i], err));
    ERR_TRY(take_floats(f, &f->picked, LOGIT_BLOCK, (size_t)f->shape->hidden, err));
    ERR_TRY(take_floats(f, &f->logits, LOGIT_BLOCK, (size_t)f->shape->vocabulary, err));
    for (int i = 0; i < f->shape->n_ropes; i++) {
        ERR_TRY(take_floats(f, &f->cos[i], rows, half, err));
        ERR_TRY(take_floats(f, &f->sin[i], rows, half, err));
    }
    f->host_cos = mem_array(rows, half * sizeof(float));
    f->host_sin = mem_array(rows, half * sizeof(float));
    f->inv_freq = mem_array(half, sizeof(float));
    f->positions = mem_array(rows, sizeof(int64_t));
    if (!f->host_cos || !f->host_sin || !f->inv_freq || !f->positions)
        return err_no_memory(err, rows * half * sizeof(float), "the rotation tables of a step");
    int64_t widest = 0;
    for (int i = 0; i < BUF_COUNT; i++) widest = f->plan->width[i] > widest ? f->plan->width[i] : widest;
    return f->dev->ops->reserve(f->dev, f->max_rows, widest, err);
}

qp_status forward_open(forward *out, device *dev, const model_shape *shape, const weights *w, const plan *p,
                       int max_rows, qp_error *err) {
    *out = (forward){.dev = dev, .shape = shape, .weights = w, .plan = p, .max_rows = max_rows};
    const qp_status status = take_all(out, err);
    if (status != QP_OK) forward_close(out);
    return status;
}

void forward_close(forward *f) {
    if (!f->dev) return;
    const size_t rows = (size_t)f->max_rows, half = (size_t)f->shape->rot_dims / 2;
    for (int i = 0; i < BUF_COUNT; i++) give_floats(f, &f->buffers[i], rows, (size_t)f->plan->width[i]);
    give_floats(f, &f->picked, LOGIT_BLOCK, (size_t)f->shape->hidden);
    give_floats(f, &f->logits, LOGIT_BLOCK, (size_t)f->shape->vocabulary);
    for (int i = 0; i < f->shape->n_ropes; i++) {
        give_floats(f, &f->cos[i], rows, half);
        give_floats(f, &f->sin[i], rows, half);
    }
    mem_free(f->host_cos);
    mem_free(f->host_sin);
    mem_free(f->inv_freq);
    mem_free(f->positions);
    *f = (forward){0};
}

size_t forward_row_bytes(const model_shape *shape, const plan *p) {
    size_t floats = (size_t)shape->rot_dims * (size_t)(shape->n_ropes + 1);
    for (int i = 0; i < BUF_COUNT; i++) floats += (size_t)p->width[i];
    return floats * sizeof(float) + sizeof(int64_t);
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

/* ---- the steps ---- */

static void run_norm(forward *f, const plan_op *op, const step_input *in) {
    const norm_args a = {.x = f->buffers[op->in],
                         .n_rows = in->n_rows,
                         .dim = f->plan->width[op->in],
                         .weight = op->weight,
                         .eps = f->shape->norm_eps,
                         .out = f->buffers[op->out]};
    f->dev->ops->norm(f->dev, &a);
}

static void run_matmul(forward *f, const plan_op *op, const step_input *in) {
    matmul_args a = {.x = f->buffers[op->in], .x_stride = f->plan->width[op->in], .n_rows = in->n_rows};
    for (; a.n_parts < op->n_parts; a.n_parts++) {
        const plan_part *p = &op->parts[a.n_parts];
        a.parts[a.n_parts] = (matmul_part){p->w, p->bias, f->buffers[p->out], f->plan->width[p->out], p->add};
    }
    f->dev->ops->matmul(f->dev, &a);
}

static void run_rope_store(forward *f, const plan_op *op, const step_input *in) {
    const int which = f->shape->layers[op->layer].rope;
    const rope_store_args a = {.q = f->buffers[BUF_Q],
                               .k = f->buffers[BUF_K],
                               .v = f->buffers[BUF_V],
                               .n_heads = f->shape->n_heads,
                               .q_norm = op->weight,
                               .k_norm = op->weight2,
                               .norm_eps = f->shape->norm_eps,
                               .rot_dims = f->shape->rot_dims,
                               .cos = f->cos[which],
                               .sin = f->sin[which],
                               .kv = in->kv[op->layer],
                               .spans = in->spans,
                               .n_spans = in->n_spans};
    f->dev->ops->rope_store(f->dev, &a);
}

static void run_attend(forward *f, const plan_op *op, const step_input *in) {
    const attend_args a = {.q = f->buffers[BUF_Q],
                           .out = f->buffers[BUF_MIXED],
                           .n_heads = f->shape->n_heads,
                           .scale = f->shape->attention_scale,
                           .window = f->shape->layers[op->layer].window,
                           .kv = in->kv[op->layer],
                           .spans = in->spans,
                           .n_spans = in->n_spans};
    f->dev->ops->attend(f->dev, &a);
}

static void run_gate(forward *f, const plan_op *op, const step_input *in) {
    const gate_args a = {f->shape->act, f->buffers[BUF_GATE], f->buffers[BUF_UP], in->n_rows, f->shape->ffn};
    f->dev->ops->gate(f->dev, &a);
}

static void (*const run_op[])(forward *f, const plan_op *op, const step_input *in) = {
    [PLAN_NORM] = run_norm,     [PLAN_MATMUL] = run_matmul, [PLAN_ROPE_STORE] = run_rope_store,
    [PLAN_ATTEND] = run_attend, [PLAN_GATE] = run_gate,
};

/* Final norm and head of up to LOGIT_BLOCK rows. */
static void run_head(forward *f, const int32_t *rows, int n_rows, float *host) {
    const model_shape *s = f->shape;
    const norm_args norm = {.x = f->buffers[BUF_STREAM],
                            .rows = rows,
                            .n_rows = n_rows,
                            .dim = s->hidden,
                            .weight = weights_vector(f->weights, SLOT_FINAL_NORM, 0),
                            .eps = s->norm_eps,
                            .out = f->picked};
    const dev_weight *head = weights_matrix(f->weights, s->tied ? SLOT_EMBED : SLOT_HEAD, 0);
    const matmul_args matmul = {.x = f->picked,
                                .x_stride = s->hidden,
                                .n_rows = n_rows,
                                .n_parts = 1,
                                .parts = {{.w = head, .out = f->logits, .out_stride = s->vocabulary}}};
    f->dev->ops->norm(f->dev, &norm);
    f->dev->ops->matmul(f->dev, &matmul);
    f->dev->ops->download(f->dev, host, f->logits, (size_t)n_rows * (size_t)s->vocabulary * sizeof(float));
}

qp_status forward_step(forward *f, const step_input *in, float *logits, qp_error *err) {
    fill_positions(f, in);
    for (int i = 0; i < f->shape->n_ropes; i++) fill_rope(f, in, i);
    const embed_args embed = {in->ids, in->n_rows, weights_matrix(f->weights, SLOT_EMBED, 0), f->buffers[BUF_STREAM],
                              1};
    f->dev->ops->embed(f->dev, &embed);
    for (int i = 0; i < f->plan->n_ops; i++) run_op[f->plan->ops[i].kind](f, &f->plan->ops[i], in);
    for (int done = 0; done < in->n_logit_rows; done += LOGIT_BLOCK) {
        const int left = in->n_logit_rows - done, n = left < LOGIT_BLOCK ? left : LOGIT_BLOCK;
        run_head(f, in->logit_rows + done, n, logits + (size_t)done * (size_t)f->shape->vocabulary);
    }
    return f->dev->ops->finish(f->dev, err);
}
