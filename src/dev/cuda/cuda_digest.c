/* cuda_digest.c — digests of logits on the GPU: the launches of digest.cu.
 *
 * Called through the device's op behind the head's product; calls launch.c. All that a step asks is one table, so that
 * the launches of two steps are alike and become one graph, whatever is asked of their rows. */
#include "cuda.h"
#include "digest_kargs.h"

enum { THREADS = 256, MOST_PIECES = 64, GROUPS_OF_PIECE = 16, CHANGE_PIECES = 4 };

static int pieces_of(int width) {
    const int groups = (width + DIGEST_BLOCK - 1) / DIGEST_BLOCK, n = (groups + GROUPS_OF_PIECE - 1) / GROUPS_OF_PIECE;
    return n < MOST_PIECES ? n : MOST_PIECES;
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
    const k_digest_args args = {.logits = a->logits,
                                .changed = a->changed,
                                .orders = launch_table_of(c, a->orders, a->bytes),
                                .heads = a->heads,
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
