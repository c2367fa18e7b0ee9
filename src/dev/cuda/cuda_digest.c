/* cuda_digest.c — digests of logits on the GPU: the launches of digest.cu.
 *
 * Called through the device's op behind the head's product; calls launch.c. All that a step asks is one table, so that
 * the launches of two steps are alike and become one graph, whatever is asked of their rows. Heads are written into the
 * host's memory by the kernel, for whoever wants no more than them need not wait for what comes behind. */
#include "cuda.h"
#include "digest_kargs.h"
#include <string.h>

enum { THREADS = 256, MOST_PIECES = 64, GROUPS_OF_PIECE = 16, CHANGE_PIECES = 4 };

static int pieces_of(int width) {
    const int groups = (width + DIGEST_BLOCK - 1) / DIGEST_BLOCK, n = (groups + GROUPS_OF_PIECE - 1) / GROUPS_OF_PIECE;
    return n < MOST_PIECES ? n : MOST_PIECES;
}

qp_status cuda_digest_open(cuda_device *c, qp_error *err) {
    void *here, *best;
    drv_result result = c->drv.host_take(&here, 2 * CUDA_MOST_HEADS * sizeof *c->heads, 0);
    if (result) return drv_failed(&c->drv, result, "cuda: pinned memory", err);
    c->heads = here;
    ERR_TRY(cuda_take(c, &best, CUDA_MOST_HEADS * sizeof *c->best, err));
    c->best = best;
    result = c->drv.event_create(&c->digested, DRV_EVENT_PLAIN);
    return result ? drv_failed(&c->drv, result, "cuda: an event", err) : QP_OK;
}

void cuda_digest_close(cuda_device *c) {
    if (c->digested) c->drv.event_destroy(c->digested);
    cuda_give(c, c->best);
    if (c->heads) c->drv.host_give(c->heads);
}

void cuda_digest_done(cuda_device *c) {
    c->has_digested = !cuda_noted(c, c->drv.event_record(c->digested, c->stream), "cuda: an event");
}

void cuda_digest_heads(device *d, digest_head *out, int n) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    if (!c->has_digested) {
        launch_flush(c);
        cuda_digest_done(c);
    }
    if (c->has_digested) cuda_noted(c, c->drv.event_wait(c->digested), "cuda: the GPU has failed");
    c->has_digested = false;
    c->is_idle = c->failure.code == QP_OK;
    if (c->is_idle)
        memcpy(out, cuda_heads(c), (size_t)n * sizeof *out);
    else
        memset(out, 0, (size_t)n * sizeof *out);
    cuda_unlock(c);
}

/* Whether the program that made the row has found what is asked for, too. */
static bool is_made(const cuda_device *c) {
    const cuda_greedy *made = &c->made, *asked = &c->greedy;
    return !c->queue.used && !c->queue.held.is && asked->n && made->n == asked->n && made->logits == asked->logits &&
           made->heads == asked->heads;
}

void cuda_digest(device *d, const digest_args *a) {
    cuda_device *c = cuda_of(d);
    bool has_changes = false, has_masses = false;
    if (a->n_rows < 1) return;
    for (int i = 0; i < a->n_rows; i++) {
        has_changes = has_changes || a->orders[i].is_masked || a->orders[i].n_changes;
        has_masses = has_masses || a->orders[i].want != DIGEST_BEST;
    }
    cuda_lock(c);
    c->has_digested = false;
    c->heads_at = !c->heads_at;
    c->greedy = (cuda_greedy){.logits = a->logits, .heads = a->heads};
    if (a->n_rows == 1 && !has_changes && !has_masses) c->greedy.n = a->orders->n;
    if (is_made(c)) {
        c->made.n = 0; /* heads take turns: whoever asks once more gets others */
        cuda_unlock(c);
        return;
    }
    const k_digest_args args = {.logits = a->logits,
                                .changed = a->changed,
                                .orders = launch_table_of(c, a->orders, a->bytes),
                                .heads = a->heads,
                                .heads_here = a->n_rows <= CUDA_MOST_HEADS ? cuda_heads(c) : NULL,
                                .best = c->best,
                                .bodies = a->bodies,
                                .stride = a->width};
    const launch_shape wide = {.x = pieces_of(a->width), .y = a->n_rows, .threads = THREADS, .early = true};
    const launch_shape few = {.x = CHANGE_PIECES, .y = a->n_rows, .threads = THREADS, .early = true};
    const launch_shape one = {.x = 1, .y = a->n_rows, .threads = DIGEST_LIST_THREADS, .early = true};
    if (has_changes) {
        launch_push(c, KERNEL_k_digest_copy, wide, &args, sizeof args);
        launch_push(c, KERNEL_k_digest_change, few, &args, sizeof args);
    }
    launch_push(c, KERNEL_k_digest_peaks, wide, &args, sizeof args);
    if (has_masses) launch_push(c, KERNEL_k_digest_masses, wide, &args, sizeof args);
    launch_push(c, KERNEL_k_digest_list, one, &args, sizeof args);
    cuda_unlock(c);
}
