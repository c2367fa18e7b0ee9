/* interrupt.c — one thread that waits for SIGINT. */
#include "interrupt.h"
#include "base/signals.h"
#include <string.h>
#include <unistd.h>

enum { INTERRUPTED = 130 };

static void *wait_for_signals(void *user) {
    interrupt *in = user;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    for (int which; !sigwait(&set, &which);) {
        pthread_mutex_lock(&in->lock);
        if (!in->ask || (in->was_asked && !in->takes_all)) _exit(INTERRUPTED);
        in->was_asked |= !in->takes_all;
        in->ask(in->user);
        pthread_mutex_unlock(&in->lock);
    }
    return NULL;
}

void interrupt_start(interrupt *in) {
    memset(in, 0, sizeof *in);
    pthread_mutex_init(&in->lock, NULL);
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) || now.sa_handler == SIG_IGN) return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigset_t before;
    signals_block(&before); /* other signals are for the thread that waits for the user */
    in->is_running = !pthread_create(&in->thread, NULL, wait_for_signals, in);
    signals_restore(&before);
    if (in->is_running)
        pthread_detach(in->thread);
    else
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void set(interrupt *in, void (*ask)(void *user), void *user, bool takes_all) {
    pthread_mutex_lock(&in->lock);
    in->ask = ask;
    in->user = user;
    in->takes_all = takes_all;
    pthread_mutex_unlock(&in->lock);
}

void interrupt_catch(interrupt *in, void (*ask)(void *user), void *user) { set(in, ask, user, false); }
void interrupt_catch_all(interrupt *in, void (*ask)(void *user), void *user) { set(in, ask, user, true); }

bool interrupt_asked(interrupt *in) {
    pthread_mutex_lock(&in->lock);
    const bool asked = in->was_asked;
    pthread_mutex_unlock(&in->lock);
    return asked;
}
