/* bell.c — a lock and a condition with deadlines, and a descriptor that event loops can wait for.
 *
 * Called by gen/ wherever the engine's thread and its clients meet. The condition runs on the monotonic clock, so that
 * setting the calendar moves no deadline. */
#include "bell.h"
#include "clock.h"
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static const double FAR = 1e9; /* seconds: farther deadlines are none */

qp_status bell_open(bell *b, qp_error *err) {
    pthread_condattr_t monotonic;
    int failed = pthread_condattr_init(&monotonic);
    if (!failed) {
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        failed = pthread_cond_init(&b->rung, &monotonic);
        pthread_condattr_destroy(&monotonic);
    }
    if (!failed && (failed = pthread_mutex_init(&b->lock, NULL))) pthread_cond_destroy(&b->rung);
    return failed ? err_no_memory(err, sizeof *b, "a lock") : QP_OK;
}

void bell_close(bell *b) {
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->rung);
}

void bell_lock(bell *b) { pthread_mutex_lock(&b->lock); }
void bell_unlock(bell *b) { pthread_mutex_unlock(&b->lock); }
void bell_ring(bell *b) { pthread_cond_broadcast(&b->rung); }
void bell_give_way(void) { sched_yield(); }

bool bell_wait(bell *b, double deadline) {
    const double left = deadline - clock_now();
    if (!(left < FAR)) return pthread_cond_wait(&b->rung, &b->lock), true;
    if (left <= 0) return false;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const double whole = floor(left);
    at.tv_sec += (time_t)whole;
    at.tv_nsec += (long)((left - whole) * 1e9);
    if (at.tv_nsec >= 1000000000) at.tv_nsec -= 1000000000, at.tv_sec++;
    return pthread_cond_timedwait(&b->rung, &b->lock, &at) != ETIMEDOUT;
}

qp_status wake_open(int *descriptor, qp_error *err) {
    *descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    char text[128];
    if (*descriptor >= 0) return QP_OK;
    return err_set(err, QP_IO, 0, "no descriptor for waking an event loop: %s", strerror_r(errno, text, sizeof text));
}

void wake_close(int descriptor) { close(descriptor); }

void wake_set(int descriptor) {
    const uint64_t one = 1;
    ssize_t ignored = write(descriptor, &one, sizeof one); /* full means set already */
    (void)ignored;
}

void wake_clear(int descriptor) {
    uint64_t count;
    ssize_t ignored = read(descriptor, &count, sizeof count); /* empty means clear already */
    (void)ignored;
}
