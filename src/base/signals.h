/* signals.h — threads of the library leave the program's signals to the program's own threads. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>

/* Blocks what is sent to the process, so that threads made now are never chosen to handle it. Faults of a thread's own
 * (a mapped file that became shorter) stay: blocked, they would kill the program without asking its handler. */
void signals_block(sigset_t *before);
void signals_restore(const sigset_t *before);

#endif
