/* busfault.c — a file that becomes shorter while its bytes are used in place: the system sends SIGBUS to the thread
 * that reads beyond the new end. Other reasons for it (memory that failed) keep their usual end. */
#include "busfault.h"
#include "command.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Only what may be called in a signal handler. */
static void on_fault(int number, siginfo_t *info, void *context) {
    static const char line[] = "quipu: a mapped file became shorter while in use\n";
    if (info->si_code != BUS_ADRERR) {
        signal(number, SIG_DFL); /* the read is tried again and ends the program */
        return;
    }
    if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(STATUS_FAILED); /* nobody is there to read it */
    _exit(STATUS_FAILED);
}

void busfault_watch(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
