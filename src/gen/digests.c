/* digests.c — the engine's side of digests of logits: memory, orders, answers.
 *
 * Called by run.c and pick.c. The rows stay on the device until the next step, so that one whose digest turns out to
 * prove nothing can still be fetched. Called on the engine's thread, but for digests_choose and digests_fetch, which
 * any may call. */
#include "digests.h"
#include "base/mem.h"
#include <string.h>

enum { ALIGN = 16 };

/* ---- memory ---- */

typedef struct piece {
    void **at;
    size_t bytes;
} piece;

enum { PIECES = 3 };

static void list_there(digests *d, piece out[PIECES]) {
    const size_t rows = (size_t)d->n_rows, row = (size_t)d->width * sizeof(float);
    out[0] = (piece){(void **)&d->rows, step_digest_rows(d->n_rows) * row};
    out[1] = (piece){(void **)&d->step.changed, rows * row};
    out[2] = (piece){(void **)&d->answers, rows * STEP_ANSWER_BYTES};
}

static bool has_room(const digests *d) {
    uint64_t left, all;
    d->dev->ops->room(d->dev, &left, &all);
    return step_digest_bytes(d->n_rows, d->width) <= left;
}

static void give_there(digests *d) {
    piece pieces[PIECES];
    list_there(d, pieces);
    for (int i = 0; i < PIECES; i++) {
        if (*pieces[i].at) d->dev->ops->give(d->dev, *pieces[i].at, pieces[i].bytes);
        *pieces[i].at = NULL;
    }
}

static bool take_there(digests *d) {
    piece pieces[PIECES];
    list_there(d, pieces);
    if (!has_room(d)) return false;
    for (int i = 0; i < PIECES; i++)
        if (d->dev->ops->take(d->dev, pieces[i].at, pieces[i].bytes, NULL) != QP_OK) return give_there(d), false;
    return true;
}

qp_status digests_open(digests *d, device *dev, int n_rows, int width, qp_error *err) {
    *d = (digests){0};
    if (!dev->ops->digest || !dev->ops->room) return QP_OK;
    digests it = {.dev = dev, .n_rows = n_rows, .width = width};
    if (!take_there(&it)) return QP_OK;
    *d = it;
    const size_t rows = (size_t)n_rows;
    d->asked = mem_zarray(1, DIGESTS_ASKED_BYTES); /* behind the last order are holes, which travel */
    d->step.wants_row = mem_zarray(rows, sizeof(bool));
    d->answers_here = mem_array(rows, STEP_ANSWER_BYTES);
    if (d->asked && d->step.wants_row && d->answers_here) return QP_OK;
    digests_close(d);
    return err_no_memory(err, rows * STEP_ANSWER_BYTES, "digests of logits");
}

void digests_close(digests *d) {
    if (!d->dev) return;
    give_there(d);
    mem_free(d->asked);
    mem_free(d->step.wants_row);
    mem_free(d->answers_here);
    *d = (digests){0};
}

/* ---- asking ---- */

void digests_turn(digests *d, int n_rows) {
    float *first = d->rows, *second = d->rows + (size_t)d->n_rows * (size_t)d->width;
    const bool take_turns = n_rows <= STEP_MOST_LED;
    d->is_second = take_turns && !d->is_second;
    d->step.rows = d->is_second ? second : first;
    d->step.next_rows = take_turns && !d->is_second ? second : first;
}

static digest_order *order_of(const digests *d, int row) { return (digest_order *)(void *)d->asked + row; }

void digests_begin(digests *d, int n_rows) {
    d->used = (size_t)n_rows * sizeof(digest_order);
    memset(d->asked, 0, d->used); /* an order for nothing */
    memset(d->step.wants_row, 0, (size_t)n_rows * sizeof(bool));
    d->step.orders = order_of(d, 0);
    d->step.bytes = d->used;
    d->step.wants_bodies = d->step.may_lead = false;
    d->step.heads = d->answers;
    d->step.heads_here = d->answers_here;
    d->step.bodies = (digest_body *)(void *)(d->step.heads + n_rows); /* so that one copy brings both */
    d->step.bodies_here = (digest_body *)(void *)(d->step.heads_here + n_rows);
}

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

bool digests_ask(digests *d, int row, sampler *s, sampler_room *room, const sampler_step *step) {
    const size_t mask_bytes = aligned(((size_t)d->width + 31) / 32 * sizeof(uint32_t)), at = aligned(d->used);
    if (at + mask_bytes > DIGESTS_ASKED_BYTES) return false;
    const size_t left = (DIGESTS_ASKED_BYTES - at - mask_bytes) / sizeof(digest_change);
    sampler_space space = {.mask = (uint32_t *)(void *)(d->asked + at),
                           .changes = (digest_change *)(void *)(d->asked + at + mask_bytes),
                           .n_changes = left < DIGESTS_MOST_CHANGES ? left : DIGESTS_MOST_CHANGES};
    digest_order order;
    if (!sampler_order(s, room, step, &order, &space)) return false;
    order.mask = (int32_t)at;
    order.changes = (int32_t)(at + mask_bytes);
    if (order.n_changes)
        d->used = at + mask_bytes + space.n_changes * sizeof(digest_change);
    else if (order.is_masked)
        d->used = at + mask_bytes;
    *order_of(d, row) = order;
    d->step.bytes = aligned(d->used);
    d->step.wants_bodies = d->step.wants_bodies || order.want != DIGEST_BEST;
    return true;
}

void digests_ask_row(digests *d, int row) { d->step.wants_row[row] = true; }

/* ---- answers ---- */

bool digests_is_greedy(const digests *d, int row) { return order_of(d, row)->want == DIGEST_BEST; }

bool digests_choose(const digests *d, int row, sampler *s, sampler_room *room, const sampler_step *step,
                    sampler_choice *out) {
    return sampler_choose_from(s, room, step, order_of(d, row), &d->step.heads_here[row], &d->step.bodies_here[row],
                               out);
}

void digests_fetch(const digests *d, int row, float *out) {
    const size_t width = (size_t)d->width;
    d->dev->ops->download(d->dev, out, d->step.rows + (size_t)row * width, width * sizeof(float));
}
