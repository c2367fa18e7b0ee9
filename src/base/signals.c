/* signals.c — threads of the library leave the program's signals to the program's own threads. */
#include "signals.h"
#include <pthread.h>
#include <stddef.h>

void signals_block(sigset_t *before) {
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t sent;
    sigfillset(&sent);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&sent, faults[i]);
    pthread_sigmask(SIG_SETMASK, &sent, before);
}

void signals_restore(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }
