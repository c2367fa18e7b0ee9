/* pool_test.c — each task exactly once, results visible after the run, no wake-up lost, and everything undone when a
 * thread cannot be made. Run under the thread sanitizer too. */
#include "pool.h"
#include "clock.h"
#include "cpuid.h"
#include "mem.h"
#include "harness.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { MOST_TASKS = 5000 };

typedef struct tally {
    uint32_t times[MOST_TASKS]; /* plain memory: the barrier itself must make it visible */
    int n_threads;
    atomic_int wrong_workers;
    int spin;
} tally;

static void count_task(void *context, int64_t task, int worker) {
    tally *t = context;
    t->times[task]++;
    if (worker < 0 || worker >= t->n_threads) atomic_fetch_add(&t->wrong_workers, 1);
    for (volatile int i = 0; i < t->spin; i++) {
    }
}

static void each_task_runs_once(void **state) {
    static const int64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 64, 1000, MOST_TASKS};
    tally *t = mem_zarray(1, sizeof *t);
    for (int n_threads = 1; n_threads <= 8; n_threads++) {
        pool *p;
        assert_int_equal(pool_new(&p, n_threads, n_threads % 2, NULL), QP_OK);
        assert_int_equal(pool_threads(p), n_threads);
        *t = (tally){.n_threads = n_threads};
        uint32_t expected[MOST_TASKS] = {0};
        for (int round = 0; round < 200; round++) {
            const int64_t n_tasks = counts[round % HARNESS_COUNT(counts)];
            t->spin = round % 3 * 50;
            pool_run(p, count_task, t, n_tasks);
            for (int64_t i = 0; i < n_tasks; i++) expected[i]++;
            assert_memory_equal(t->times, expected, sizeof expected);
        }
        assert_int_equal(atomic_load(&t->wrong_workers), 0);
        pool_free(p);
    }
    mem_free(t);
}

/* Pauses of every length around the workers' patience: runs meet workers that spin, fall asleep and sleep. */
static void no_wake_up_is_lost(void **state) {
    tally *t = mem_zarray(1, sizeof *t);
    for (int n_threads = 2; n_threads <= 8; n_threads += 3) {
        pool *p;
        assert_int_equal(pool_new(&p, n_threads, false, NULL), QP_OK);
        *t = (tally){.n_threads = n_threads};
        const int rounds = 3000;
        for (int round = 0; round < rounds; round++) {
            pool_run(p, count_task, t, 16);
            const double until = clock_now() + 1e-6 * (round % 120);
            while (clock_now() < until) {
            }
            if (round % 500 == 499) usleep(2000);
        }
        for (int i = 0; i < 16; i++) assert_int_equal(t->times[i], rounds);
        pool_free(p);
    }
    mem_free(t);
}

/* Workers do take part: two tasks that wait for each other end only if two threads run them at once. */
typedef struct meeting {
    atomic_int present;
} meeting;

static void meet(void *context, int64_t task, int worker) {
    meeting *m = context;
    atomic_fetch_add(&m->present, 1);
    const double end = clock_now() + 20;
    while (atomic_load(&m->present) < 2 && clock_now() < end) sched_yield();
}

static void tasks_run_at_the_same_time(void **state) {
    pool *p;
    assert_int_equal(pool_new(&p, 2, false, NULL), QP_OK);
    for (int round = 0; round < 50; round++) {
        meeting m = {0};
        const double start = clock_now();
        pool_run(p, meet, &m, 2);
        assert_true(clock_now() - start < 20);
        if (round % 10 == 0) usleep(1000);
    }
    pool_free(p);
}

/* ---- workers that rest ---- */

static const double LEAST_REST = 2e-3;

typedef struct trial {
    atomic_int present;   /* whether the worker takes part */
    atomic_int busy, end; /* what the neighbour is to do */
    double begun, left;   /* when the run began, and when the worker ended its task */
    _Atomic double alone; /* since when the caller waits for the worker; 0: not yet */
    int tries, rests;
} trial;

static void *be_neighbour(void *context) {
    trial *t = context;
    while (!atomic_load(&t->end))
        if (!atomic_load(&t->busy)) usleep(100);
    return NULL;
}

static void await_worker(trial *t) {
    const double end = clock_now() + 20;
    while (!atomic_load(&t->present) && clock_now() < end) sched_yield();
}

/* Whether the caller has waited by far longer than its own part took. */
static bool has_waited(const trial *t) {
    const double alone = atomic_load(&t->alone);
    return alone > 0 && clock_now() > alone + 2 * (alone - t->begun) + 10e-3;
}

/* The worker stays until the neighbour has had its core and the caller has waited long. */
static void stay_late(void *context, int64_t task, int worker) {
    trial *t = context;
    if (!worker) {
        await_worker(t);
        atomic_store(&t->alone, clock_now());
        return;
    }
    atomic_store(&t->present, 1);
    struct rusage before, now;
    getrusage(RUSAGE_THREAD, &before);
    const double most = clock_now() + 20;
    do getrusage(RUSAGE_THREAD, &now);
    while ((!has_waited(t) || now.ru_nivcsw == before.ru_nivcsw) && clock_now() < most);
    t->left = clock_now();
}

/* Both share a core: the worker comes as soon as the caller lets it. */
static void let_in(void *context, int64_t task, int worker) {
    trial *t = context;
    if (worker) {
        atomic_store(&t->present, 1);
        t->left = clock_now();
    } else {
        await_worker(t);
    }
}

/* Time enough for a worker that waits. */
static void look_around(void *context, int64_t task, int worker) {
    trial *t = context;
    if (worker) atomic_store(&t->present, 1);
    const double end = clock_now() + 10e-6;
    while (clock_now() < end) sched_yield();
}

static void be_of_no_use(pool *p, pool_fn *fn, trial *t) {
    atomic_store(&t->present, 0);
    atomic_store(&t->alone, 0);
    atomic_store(&t->busy, 1);
    t->begun = clock_now();
    pool_run(p, fn, t, 2);
    atomic_store(&t->busy, 0);
    assert_int_equal(atomic_load(&t->present), 1);
}

/* Does the worker sit out the next run? It tells nothing if that took so long that the rest may have ended. */
static void try_rest(pool *p, pool_fn *fn, trial *t) {
    be_of_no_use(p, fn, t);
    atomic_store(&t->present, 0);
    pool_run(p, look_around, t, 32);
    if (clock_now() - t->left < LEAST_REST) {
        t->tries++;
        t->rests += !atomic_load(&t->present);
    }
    const double end = clock_now() + 20;
    while (!atomic_load(&t->present) && clock_now() < end) pool_run(p, look_around, t, 32);
    assert_int_equal(atomic_load(&t->present), 1); /* it is back */
}

static void bind_to(int cpu) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET((size_t)cpu, &only);
    assert_int_equal(sched_setaffinity(0, sizeof only, &only), 0);
}

/* What the machine does besides may keep a worker out of a run as well, or the caller from being done before it: so
 * some of the tries must go as they should, where the machine lets there be as many. */
static void check_rests(int caller, int worker, pool_fn *fn) {
    enum { TRIES = 9 };
    trial t = {0};
    pool *p;
    pthread_t neighbour;
    bind_to(worker); /* what is made now inherits it */
    assert_int_equal(pool_new(&p, 2, false, NULL), QP_OK);
    assert_int_equal(pthread_create(&neighbour, NULL, be_neighbour, &t), 0);
    bind_to(caller);
    const double end = clock_now() + 20;
    while (t.tries < TRIES && clock_now() < end) try_rest(p, fn, &t);
    be_of_no_use(p, fn, &t);
    pool_free(p); /* wakes a worker that rests */
    atomic_store(&t.end, 1);
    pthread_join(neighbour, NULL);
    assert_true(t.tries < TRIES || t.rests > TRIES / 4);
}

static void a_worker_of_no_use_rests(void **state) {
    cpu_set_t before;
    int cores[2], n = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET((size_t)i, &before)) cores[n++] = i;
    check_rests(cores[0], cores[0], let_in);
    if (n == 2) check_rests(cores[0], cores[1], stay_late);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void stop_early(void *context, int64_t task, int worker) {
    if (task < 0 || task >= 1 << 20) atomic_fetch_add((atomic_int *)context, 1);
}

static void many_tasks(void **state) {
    pool *p;
    atomic_int wrong = 0;
    assert_int_equal(pool_new(&p, 4, false, NULL), QP_OK);
    pool_run(p, stop_early, &wrong, 1 << 20);
    assert_int_equal(atomic_load(&wrong), 0);
    pool_free(p);
}

static void pools_come_and_go(void **state) {
    for (int round = 0; round < 100; round++) {
        pool *p, *q;
        tally *t = mem_zarray(1, sizeof *t);
        t->n_threads = 3;
        assert_int_equal(pool_new(&p, 3, false, NULL), QP_OK);
        assert_int_equal(pool_new(&q, 2, true, NULL), QP_OK);
        if (round % 2) pool_run(p, count_task, t, 5), pool_run(q, count_task, t, 5);
        pool_free(q);
        pool_free(p);
        mem_free(t);
    }
    pool_free(NULL);
}

static void chooses_and_refuses_sizes(void **state) {
    static const int refused[] = {-1, -1000, 1025, INT32_MAX};
    qp_error err;
    pool *p = (pool *)&err;
    for (size_t i = 0; i < HARNESS_COUNT(refused); i++) {
        assert_int_equal(pool_new(&p, refused[i], false, &err), QP_BAD_ARGUMENT);
        assert_null(p);
    }
    assert_string_equal(err.text, "threads: 2147483647, allowed are 1 to 1024 (0: all cores)");
    assert_int_equal(pool_new(&p, 0, false, &err), QP_OK);
    assert_int_equal(pool_threads(p), cpu_usable_cores() < 1024 ? cpu_usable_cores() : 1024);
    pool_free(p);
}

static int count_threads(void) {
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks));) n += entry->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* A joined thread may linger in the list for a moment. */
static void await_threads(int n) {
    for (int i = 0; i < 2000 && count_threads() > n; i++) usleep(1000);
    assert_int_equal(count_threads(), n);
}

static void each_allocation_may_fail(void **state) {
    const int before = count_threads();
    qp_status status = QP_NO_MEMORY;
    int n = 0;
    for (; status != QP_OK; n++) {
        pool *p;
        qp_error err = {0};
        assert_in_range(n, 0, 50);
        mem_fail_after(n);
        status = pool_new(&p, 5, true, &err);
        mem_fail_after(-1);
        if (status != QP_OK) {
            assert_int_equal(status, QP_NO_MEMORY);
            assert_null(p);
            assert_true(err.text[0]);
            await_threads(before);
        }
        pool_free(p);
    }
    assert_true(n > 5); /* the pool, its list and four workers */
}

/* In a process of its own, with too little address space for another stack. */
static void failing_thread_creation_is_told(void **state) {
    if (HARNESS_SANITIZED) HARNESS_SKIP("a sanitizer needs more address space than this test leaves");
    if (HARNESS_EMULATED) HARNESS_SKIP("an emulator does not limit the address space");
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        FILE *status_file = fopen("/proc/self/statm", "r");
        unsigned long pages = 0;
        if (!status_file || fscanf(status_file, "%lu", &pages) != 1) _exit(10);
        fclose(status_file);
        const struct rlimit limit = {pages * 4096 + (40 << 20), pages * 4096 + (40 << 20)};
        if (setrlimit(RLIMIT_AS, &limit)) _exit(11);
        pool *p;
        qp_error err;
        const qp_status got = pool_new(&p, 64, false, &err);
        if (got != QP_NO_MEMORY || p || !strstr(err.text, "of 64 could be started")) _exit(12);
        if (pool_new(&p, 2, false, &err) != QP_OK) _exit(13); /* all was given back: a small one fits */
        pool_free(p);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_task_runs_once),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(tasks_run_at_the_same_time),
        cmocka_unit_test(many_tasks),
        cmocka_unit_test(a_worker_of_no_use_rests),
        cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(chooses_and_refuses_sizes),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(failing_thread_creation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
