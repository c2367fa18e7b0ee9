/* interrupt.h — Ctrl-C, without a signal handler and so without global state.
 *
 * SIGINT is blocked before any other thread exists, and one thread waits for it. The first signal goes to whoever has
 * asked for it, so that a job ends in good order; without such a one, or at the second signal, the program ends at once
 * with exit status 130. A conversation asks for all signals, since it must not be lost to a key pressed once more.
 * Where SIGINT is ignored from the start (nohup, a script's background job) it stays so. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <pthread.h>
#include <stdbool.h>

typedef struct interrupt {
    pthread_t thread;
    pthread_mutex_t lock;
    void (*ask)(void *user);
    void *user;
    bool is_running, was_asked;
    bool takes_all; /* the one who has asked */
} interrupt;

void interrupt_start(interrupt *in);
/* From now on the first signal calls ask(user) from another thread. NULL: nobody is asked any more. */
void interrupt_catch(interrupt *in, void (*ask)(void *user), void *user);
/* The same for every signal from now on; the program is not ended. */
void interrupt_catch_all(interrupt *in, void (*ask)(void *user), void *user);
/* Has there been a signal that could have ended the program? */
bool interrupt_asked(interrupt *in);

#endif
