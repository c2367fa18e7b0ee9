/* bell.h — a lock and a condition with deadlines, and a descriptor that event loops can wait for.
 *
 * Where threads meet in gen/ they meet under one bell: lock, look, wait or change, ring, unlock. Deadlines are times
 * of clock_now(). */
#ifndef BASE_BELL_H
#define BASE_BELL_H

#include "err.h"
#include <pthread.h>

typedef struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
} bell;

qp_status bell_open(bell *b, qp_error *err);
void bell_close(bell *b);
void bell_lock(bell *b);
void bell_unlock(bell *b);
/* Wakes all who wait; with or without the lock. */
void bell_ring(bell *b);
/* Lets those who were woken run first where they share a core with the caller. A kernel may otherwise leave them
 * waiting for the rest of the caller's slice, some milliseconds. */
void bell_give_way(void);
/* With the lock held: gives it up until the bell rings or `deadline` (INFINITY: none) has passed; false if it has. May
 * also return true for no reason. */
bool bell_wait(bell *b, double deadline);

/* A descriptor that is readable from wake_set to wake_clear. -1 and an error where the system has none left. */
qp_status wake_open(int *descriptor, qp_error *err);
void wake_close(int descriptor);
void wake_set(int descriptor);
void wake_clear(int descriptor);

#endif
