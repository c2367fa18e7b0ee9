/* seq_best.c — a greedy step of sequences that the caller drives: ids in, the ids that follow out.
 *
 * Called by api/. What a generator's jobs do without temperature, without jobs: a device that makes digests is asked
 * for the best of each row and may begin the next step with it; of others the rows come and the sampler looks. */
#include "digests.h"
#include "seq.h"
#include "base/mem.h"
#include <string.h>

typedef struct seq_best {
    digests digests;
    int n_rows, width; /* rows that there is room for */
    sampler *sampler;
    sampler_room *room;
    seq_feed *feeds; /* [n_rows] */
    int32_t *chosen; /* likewise */
    float *logits;   /* [n_rows][width]; NULL where the device makes digests */
} seq_best;

void seq_best_close(seq_best *b) {
    if (!b) return;
    digests_close(&b->digests);
    sampler_free(b->sampler);
    sampler_room_free(b->room);
    mem_free(b->feeds);
    mem_free(b->chosen);
    mem_free(b->logits);
    mem_free(b);
}

static qp_status fill(seq_best *b, const model *m, qp_error *err) {
    device *dev = m->split.dev[m->split.n - 1];
    const sampler_setup greedy = {.n_vocabulary = b->width};
    const size_t rows = (size_t)b->n_rows, bytes = (size_t)b->width * sizeof *b->logits;
    ERR_TRY(sampler_new(&b->sampler, &greedy, err));
    ERR_TRY(sampler_room_new(&b->room, b->width, err));
    if (b->n_rows <= dev->logit_rows && b->width <= DIGEST_MOST_GROUPS * DIGEST_MOST_LISTED)
        ERR_TRY(digests_open(&b->digests, dev, b->n_rows, b->width, err));
    b->feeds = mem_zarray(rows, sizeof *b->feeds);
    b->chosen = mem_array(rows, sizeof *b->chosen);
    if (!b->digests.dev) b->logits = mem_array(rows, bytes);
    if (b->feeds && b->chosen && (b->digests.dev || b->logits)) return QP_OK;
    return err_no_memory(err, rows * bytes, "the logits of a step");
}

/* What the room has for steps of n rows, made anew where there were fewer. */
static qp_status find(seq_best **out, seq_room *room, int n, qp_error *err) {
    *out = room->best;
    if (*out && (*out)->n_rows >= n) return QP_OK;
    seq_best_close(room->best);
    room->best = NULL;
    seq_best *b = MEM_NEW(seq_best);
    if (!b) return err_no_memory(err, sizeof *b, "a greedy step");
    b->n_rows = n;
    b->width = room->model->shape.vocabulary;
    const qp_status status = fill(b, room->model, err);
    if (status != QP_OK) return seq_best_close(b), status;
    *out = room->best = b;
    return QP_OK;
}

/* ---- one step ---- */

typedef struct asked {
    seq_best *b;
    int n;
} asked;

/* Called while the device computes: the best of each row. */
static void prepare(void *context) {
    const asked *a = context;
    digests *d = &a->b->digests;
    const sampler_step step = {0};
    digests_begin(d, a->n);
    d->step.may_lead = true;
    for (int i = 0; i < a->n; i++)
        d->step.may_lead = digests_ask(d, i, a->b->sampler, a->b->room, &step) && d->step.may_lead;
}

static qp_status run(seq_best *b, int n, qp_error *err) {
    asked a = {b, n};
    if (!b->digests.dev) return seq_run(b->feeds, n, b->logits, err);
    digests_turn(&b->digests, n);
    b->digests.step.prepare = prepare;
    b->digests.step.context = &a;
    return seq_run_digested(b->feeds, n, &b->digests.step, NULL, err);
}

/* -1: no logit of the row is a number, or one is infinite. */
static int32_t choose(seq_best *b, int row) {
    const sampler_step step = {.logits = b->logits ? b->logits + (size_t)row * (size_t)b->width : NULL};
    sampler_choice choice = {.id = -1};
    if (b->digests.dev)
        digests_choose(&b->digests, row, b->sampler, b->room, &step, &choice);
    else
        sampler_choose(b->sampler, b->room, &step, &choice);
    return choice.id;
}

static qp_status choose_all(seq_best *b, int n, qp_error *err) {
    for (int i = 0; i < n; i++) {
        b->chosen[i] = choose(b, i);
        if (b->chosen[i] < 0)
            return err_set(err, QP_INTERNAL, (size_t)i, "sequence %d: the model's logits are no numbers", i + 1);
    }
    return QP_OK;
}

qp_status seq_run_best(seq *const *sequences, int32_t *ids, int n, qp_error *err) {
    seq_best *b;
    ERR_TRY(find(&b, sequences[0]->room, n, err));
    for (int i = 0; i < n; i++) b->feeds[i] = (seq_feed){.seq = sequences[i], .ids = &ids[i], .count = 1, .last = 1};
    ERR_TRY(run(b, n, err));
    const qp_status status = choose_all(b, n, err);
    if (status == QP_OK)
        memcpy(ids, b->chosen, (size_t)n * sizeof *ids);
    else
        for (int i = 0; i < n; i++) seq_rewind(sequences[i], sequences[i]->chain.length - 1);
    return status;
}
