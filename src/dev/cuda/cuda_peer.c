/* cuda_peer.c — what a step leaves on one GPU goes to the next.
 *
 * Called by forward.c where a model's layers lie on several GPUs. The receiving GPU fetches: its copy waits for an
 * event behind what the other has queued, and comes behind all that this one still does with the old contents. The
 * driver goes from memory to memory where the GPUs can see each other, through pinned memory of the host elsewhere.
 *
 * The tricky thing is the order of locks: one device at a time is held, so that models cannot wait for each other. */
#include "cuda.h"

/* Returns whether there is something to wait for. */
static bool mark(cuda_device *c) {
    cuda_lock(c);
    launch_flush(c);
    if (!c->handed) cuda_noted(c, c->drv.event_create(&c->handed, DRV_EVENT_PLAIN), "cuda: an event");
    if (c->failure.code == QP_OK) cuda_noted(c, c->drv.event_record(c->handed, c->stream), "cuda: an event");
    const bool went_well = c->failure.code == QP_OK;
    cuda_unlock(c);
    return went_well;
}

/* Lets this GPU read the other's memory without the host between, if it can. */
static void open_peer(cuda_device *c, const cuda_device *peer) {
    int can = 0;
    if (c->peer == peer) return;
    c->peer = peer;
    cuda_noted(c, c->drv.peer_can(&can, c->gpu.device, peer->gpu.device), "cuda: asking for the way between two GPUs");
    if (!can) return;
    const drv_result result = c->drv.peer_open(peer->context, 0);
    if (result != DRV_PEER_IS_OPEN) cuda_noted(c, result, "cuda: the way between two GPUs");
}

void cuda_hand_over(device *d, void *to, device *from_device, const void *from, size_t bytes) {
    cuda_device *c = cuda_of(d), *other = cuda_of(from_device);
    if (!mark(other)) return; /* its finish says why, and the step fails with it */
    cuda_lock(c);
    launch_flush(c);
    if (c->failure.code == QP_OK) open_peer(c, other);
    if (c->failure.code == QP_OK)
        cuda_noted(c, c->drv.stream_after(c->stream, other->handed, 0), "cuda: waiting for another GPU");
    if (c->failure.code == QP_OK)
        cuda_noted(c,
                   c->drv.copy_peer((drv_ptr)(uintptr_t)to, c->context, (drv_ptr)(uintptr_t)from, other->context, bytes,
                                    c->stream),
                   "cuda: copying from another GPU");
    cuda_unlock(c);
}
