/* interrupt_test.c — who is asked when Ctrl-C comes, and when the program ends. Each case is a process of its own. */
#include "interrupt.h"
#include "base/clock.h"
#include "harness.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { ALIVE = 7, ENDED = 130, WRONG = 9 };

static void count(void *user) { atomic_fetch_add((atomic_int *)user, 1); }

/* Sends a signal and waits until it has been counted. */
static void send(atomic_int *n) {
    const int before = atomic_load(n);
    const double end = clock_now() + 60;
    kill(getpid(), SIGINT);
    while (atomic_load(n) == before && clock_now() < end) usleep(1000);
}

/* Stays until the program is ended from elsewhere. */
static int send_last(void) {
    kill(getpid(), SIGINT);
    sleep(60);
    return WRONG;
}

static int first_is_asked_second_ends(interrupt *in, atomic_int *n) {
    interrupt_catch(in, count, n);
    send(n);
    if (atomic_load(n) != 1 || !interrupt_asked(in)) return WRONG;
    return send_last();
}

static int nobody_is_asked(interrupt *in, atomic_int *n) { return send_last(); }

static int nobody_any_more(interrupt *in, atomic_int *n) {
    interrupt_catch_all(in, count, n);
    send(n);
    interrupt_catch(in, NULL, NULL);
    return send_last();
}

static int all_are_taken(interrupt *in, atomic_int *n) {
    interrupt_catch_all(in, count, n);
    for (int i = 0; i < 5; i++) send(n);
    return atomic_load(n) == 5 && !interrupt_asked(in) ? ALIVE : WRONG;
}

/* What was taken by a conversation does not count against the next one who asks. */
static int counting_begins_anew(interrupt *in, atomic_int *n) {
    interrupt_catch_all(in, count, n);
    send(n);
    interrupt_catch(in, count, n);
    send(n);
    return atomic_load(n) == 2 && interrupt_asked(in) ? ALIVE : WRONG;
}

static int in_a_process(int (*what)(interrupt *in, atomic_int *n), void (*handler)(int)) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        static interrupt in;
        static atomic_int n;
        signal(SIGINT, handler);
        interrupt_start(&in);
        _exit(what(&in, &n));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int ignored(interrupt *in, atomic_int *n) {
    interrupt_catch(in, count, n);
    kill(getpid(), SIGINT);
    kill(getpid(), SIGINT);
    usleep(20000);
    return atomic_load(n) || in->is_running ? WRONG : ALIVE;
}

static void who_is_asked(void **state) {
    assert_int_equal(in_a_process(first_is_asked_second_ends, SIG_DFL), ENDED);
    assert_int_equal(in_a_process(nobody_is_asked, SIG_DFL), ENDED);
    assert_int_equal(in_a_process(nobody_any_more, SIG_DFL), ENDED);
    assert_int_equal(in_a_process(all_are_taken, SIG_DFL), ALIVE);
    assert_int_equal(in_a_process(counting_begins_anew, SIG_DFL), ALIVE);
    assert_int_equal(in_a_process(ignored, SIG_IGN), ALIVE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_is_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
