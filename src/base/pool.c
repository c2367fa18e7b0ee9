/* pool.c — a run of tasks handed to spinning or sleeping workers.
 *
 * Called by dev/cpu for every op, some hundred times per token, so a run must cost about a microsecond. All that the
 * threads agree on is one 32-bit word, the gate: which run this is, whether it is open, and how many workers are in
 * it. The caller opens the gate, works like everyone else, closes it and waits until nobody is left inside. A worker
 * that wakes too late finds the gate closed and has missed nothing: so a run never waits for a core that somebody
 * else is using, only for workers that hold a task.
 *
 * A worker that does hold one when its core goes to somebody else keeps all others waiting for a slice of time, some
 * hundred tasks long. It cannot know before, but afterwards: the caller leaves word from when on it thinks a worker
 * late. And where somebody keeps a core busy, the kernel likes to run caller and worker in turns on another. A worker
 * that came back late, or found itself on the caller's core, sits out the runs of the next moments; longer and longer
 * if it is soon of no use again, so that all such waiting together is a small part of the time.
 *
 * Tasks that follow each other read bytes that follow each other. So workers begin in ranges of their own, where what
 * is fetched ahead of one task is what the next one reads, and help with others' when theirs is done.
 *
 * The tricky thing is going to sleep: a worker counts itself among the sleepers *before* it looks at the gate for the
 * last time, the caller looks for sleepers *after* it has opened the gate. In the one order that all threads see
 * (seq_cst) at least one of the two notices the other. The caller waits at the end in the same way. */
#include "pool.h"
#include "clock.h"
#include "cpuid.h"
#include "mem.h"
#include "signals.h"
#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_THREADS = 1024,
    INSIDE = 0x7FF, /* gate: how many workers are in the run */
    OPEN = 0x800,   /* gate: whether more may enter */
    RUN = 0x1000,   /* gate: one more run; a worker that sleeps through 2^19 runs misses one, which does no harm */
    CACHE_LINE = 64,
    MOST_RANGES = 8, /* all are written before each run */
};
static const uint32_t RUNS = 0xFFFFF000u, ENDING = 0x80000000u; /* gate: the last run has the highest bit alone */

/* How long to look before sleeping. Between the ops of a model lie a few microseconds; waking a thread costs more
 * than that. With fewer cores than threads, looking only keeps the others from working. */
static const double PATIENT = 50e-6, IMPATIENT = 1e-6;

/* A worker is late when the caller waits for it so long, and as long as the caller's own part took. A slice of time is
 * some milliseconds. */
static const double LATE = 1e-3;

/* The first rest, the longest, and how long a worker must have computed since one for the next to be a first again. */
static const double FIRST_REST = 2e-3, MOST_REST = 0.25, ON_TRIAL = 50e-3;

typedef struct worker {
    pool *owner;
    pthread_t thread;
    int index, cpu;      /* cpu -1: not bound */
    long lost;           /* how often its core had gone to somebody else when it last looked */
    double rest, worked; /* the last rest, and how long it had computed by then */
} worker;

/* Tasks that some workers begin with. */
typedef struct range {
    _Alignas(CACHE_LINE) _Atomic uint64_t next; /* unsigned: claims beyond the end must not wrap round */
    uint64_t end;
} range;

struct pool {
    int n_threads, n_started;
    double patience;
    worker **workers; /* 1 .. n_threads-1; 0 is the caller and stays NULL */
    pool_fn *fn;      /* of the present run, as the next three; written only while the gate is shut and nobody inside */
    void *context;
    int n_ranges;
    int caller_cpu;
    _Alignas(CACHE_LINE) _Atomic uint32_t gate;
    range ranges[MOST_RANGES];
    _Alignas(CACHE_LINE) _Atomic uint32_t sleepers;
    _Atomic uint32_t caller_sleeps, left_bell, ended;
    _Atomic double late; /* from when on a worker inside is; 0: the caller does not sleep */
};

/* ---- waiting ---- */

static void futex_sleep(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* The same for at most `seconds`, less than one. */
static void futex_nap(_Atomic uint32_t *word, uint32_t seen, double seconds) {
    const struct timespec most = {.tv_nsec = (long)(1e9 * seconds)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* "yield" does nothing on most cores */
#endif
}

/* Looks at the gate until ((gate & mask) == value) is `wanted` or patience ends; gives the gate as last seen. */
static uint32_t spin(const pool *p, uint32_t mask, uint32_t value, bool wanted) {
    uint32_t gate = atomic_load_explicit(&p->gate, memory_order_acquire);
    if (((gate & mask) == value) == wanted) return gate;
    const double end = clock_now() + p->patience;
    do {
        for (int i = 0; i < 16; i++) {
            relax();
            gate = atomic_load_explicit(&p->gate, memory_order_acquire);
            if (((gate & mask) == value) == wanted) return gate;
        }
    } while (clock_now() < end);
    return gate;
}

/* Returns once the gate shows another run than `seen`. */
static uint32_t await_run(pool *p, uint32_t seen) {
    uint32_t gate = spin(p, RUNS, seen, false);
    if ((gate & RUNS) != seen) return gate;
    atomic_fetch_add(&p->sleepers, 1);
    while (((gate = atomic_load(&p->gate)) & RUNS) == seen) futex_sleep(&p->gate, gate);
    atomic_fetch_sub(&p->sleepers, 1);
    return gate;
}

/* Returns once nobody is inside. The caller has done its part since `begun`. */
static void await_empty(pool *p, double begun) {
    const double done = clock_now();
    if (!(spin(p, INSIDE, 0, true) & INSIDE)) return;
    atomic_store(&p->late, done + fmax(LATE, done - begun));
    for (;;) {
        const uint32_t bell = atomic_load(&p->left_bell);
        atomic_store(&p->caller_sleeps, 1);
        if (!(atomic_load(&p->gate) & INSIDE)) break;
        futex_sleep(&p->left_bell, bell);
    }
    atomic_store(&p->caller_sleeps, 0);
    atomic_store(&p->late, 0);
}

/* ---- a run ---- */

/* A worker's own range to its end, then what is left of the others'. */
static void do_tasks(pool *p, int index) {
    pool_fn *const fn = p->fn;
    void *const context = p->context;
    const int n_ranges = p->n_ranges, home = index * n_ranges / p->n_threads;
    for (int i = 0; i < n_ranges; i++) {
        range *r = &p->ranges[(home + i) % n_ranges];
        for (;;) {
            const uint64_t task = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
            if (task >= r->end) break;
            fn(context, (int64_t)task, index);
        }
    }
}

/* Cuts tasks into ranges, one for each worker as long as there are few. */
static void share_out(pool *p, uint64_t n_tasks) {
    p->n_ranges = p->n_threads < MOST_RANGES ? p->n_threads : MOST_RANGES;
    const uint64_t n = (uint64_t)p->n_ranges;
    for (uint64_t i = 0; i < n; i++) {
        atomic_store_explicit(&p->ranges[i].next, n_tasks * i / n, memory_order_relaxed);
        p->ranges[i].end = n_tasks * (i + 1) / n;
    }
}

/* Goes through the gate unless it is shut. */
static bool enter(pool *p, uint32_t gate) {
    while (gate & OPEN)
        if (atomic_compare_exchange_weak(&p->gate, &gate, gate + 1)) return true;
    return false;
}

static void leave(pool *p) {
    const uint32_t before = atomic_fetch_sub(&p->gate, 1);
    if ((before & (OPEN | INSIDE)) != 1 || !atomic_load(&p->caller_sleeps)) return;
    atomic_fetch_add(&p->left_bell, 1);
    futex_wake(&p->left_bell, 1);
}

static bool is_late(const pool *p) {
    const double late = atomic_load(&p->late);
    return late > 0 && clock_now() > late;
}

static bool shares_core(const pool *p) {
    const int cpu = sched_getcpu();
    return cpu >= 0 && cpu == p->caller_cpu;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

/* How long a worker that is about to leave should rest. Late it may also be with a long task, on a core of its own. */
static double choose_rest(worker *w, bool shares) {
    struct rusage usage;
    if ((!shares && !is_late(w->owner)) || getrusage(RUSAGE_THREAD, &usage)) return 0;
    const bool lost_core = usage.ru_nivcsw != w->lost;
    w->lost = usage.ru_nivcsw;
    if (!shares && !lost_core) return 0;
    const double worked = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    w->rest = worked - w->worked < ON_TRIAL ? fmin(fmax(2 * w->rest, FIRST_REST), MOST_REST) : FIRST_REST;
    w->worked = worked;
    return w->rest;
}

/* Moves this thread to another core if it may use others; where it goes from there is the kernel's to say. */
static void change_core(void) {
    machine_set all, others;
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= MACHINE_CPUS) return;
    cpu_affinity(&all);
    others = all;
    machine_drop(&others, cpu);
    if (cpu_keep_to(&others)) cpu_keep_to(&all);
}

static void bind_thread(int cpu) {
    machine_set only = {0};
    machine_add(&only, cpu);
    cpu_keep_to(&only); /* a wish: refused, the thread just roams */
}

static void *work(void *argument) {
    worker *self = argument;
    pool *p = self->owner;
    char name[16];
    snprintf(name, sizeof name, "quipu-%d", self->index);
    pthread_setname_np(pthread_self(), name);
    if (self->cpu >= 0) bind_thread(self->cpu);
    for (uint32_t seen = 0;;) {
        const uint32_t gate = await_run(p, seen);
        if (gate & ENDING) return NULL;
        seen = gate & RUNS;
        if (!enter(p, gate)) continue;
        do_tasks(p, self->index);
        const bool shared = shares_core(p);
        const double rest = choose_rest(self, shared);
        leave(p);
        if (shared) change_core();
        if (rest > 0) futex_nap(&p->ended, 0, rest);
    }
}

/* Shows all workers another gate and wakes up to `wanted` of those that sleep. */
static void set_gate(pool *p, uint32_t gate, uint64_t wanted) {
    atomic_store(&p->gate, gate);
    if (atomic_load(&p->sleepers)) futex_wake(&p->gate, wanted < INT_MAX ? (int)wanted : INT_MAX);
}

void pool_run(pool *p, pool_fn *fn, void *context, int64_t n_tasks) {
    if (p->n_threads == 1 || n_tasks <= 1) {
        for (int64_t task = 0; task < n_tasks; task++) fn(context, task, 0);
        return;
    }
    const uint32_t shut = atomic_load_explicit(&p->gate, memory_order_relaxed);
    assert(!(shut & (OPEN | INSIDE))); /* a task must not start a run of its own pool */
    p->fn = fn;
    p->context = context;
    p->caller_cpu = sched_getcpu();
    share_out(p, (uint64_t)n_tasks);
    const double begun = clock_now();
    set_gate(p, ((shut + RUN) & RUNS & ~ENDING) | OPEN, (uint64_t)n_tasks - 1);
    do_tasks(p, 0);
    atomic_fetch_and(&p->gate, ~(uint32_t)OPEN);
    await_empty(p, begun);
}

int pool_threads(const pool *p) { return p->n_threads; }

/* ---- making and ending ---- */

static qp_status start_worker(pool *p, int index, int cpu, qp_error *err) {
    worker *w = p->workers[index] = MEM_NEW(worker);
    if (!w) return err_no_memory(err, sizeof *w, "a worker thread");
    *w = (worker){.owner = p, .index = index, .cpu = cpu};
    const int failed = pthread_create(&w->thread, NULL, work, w);
    if (failed) {
        char text[128];
        return err_set(err, QP_NO_MEMORY, (uint64_t)index, "threads: %d of %d could be started, then: %s", index,
                       p->n_threads, strerror_r(failed, text, sizeof text));
    }
    p->n_started = index + 1;
    return QP_OK;
}

/* Worker i goes to core i; the caller's own thread is not ours to bind, the kernel finds it core 0 free. */
static qp_status start_workers(pool *p, bool pin, qp_error *err) {
    int cores[MOST_THREADS];
    const int found = pin ? cpu_core_list(cores, MOST_THREADS) : 0;
    const int n_cores = found < MOST_THREADS ? found : MOST_THREADS;
    sigset_t before;
    signals_block(&before); /* workers inherit it */
    qp_status status = QP_OK;
    for (int i = 1; i < p->n_threads && status == QP_OK; i++)
        status = start_worker(p, i, n_cores ? cores[i % n_cores] : -1, err);
    signals_restore(&before);
    return status;
}

qp_status pool_new(pool **out, int n_threads, bool pin, qp_error *err) {
    *out = NULL;
    if (!n_threads) n_threads = cpu_usable_cores() < MOST_THREADS ? cpu_usable_cores() : MOST_THREADS;
    if (n_threads < 0 || n_threads > MOST_THREADS)
        return err_set(err, QP_BAD_ARGUMENT, 0, "threads: %d, allowed are 1 to %d (0: all cores)", n_threads,
                       MOST_THREADS);
    pool *p = mem_big(sizeof *p); /* not the heap: the cache lines must not be shared with neighbours */
    if (!p) return err_no_memory(err, sizeof *p, "a thread pool");
    p->n_threads = n_threads;
    p->n_started = 1;
    p->patience = n_threads <= cpu_usable() ? PATIENT : IMPATIENT;
    p->workers = mem_zarray((size_t)n_threads, sizeof *p->workers);
    const qp_status status = p->workers ? start_workers(p, pin, err) : err_no_memory(err, 0, "a thread pool");
    if (status == QP_OK)
        *out = p;
    else
        pool_free(p);
    return status;
}

void pool_free(pool *p) {
    if (!p) return;
    atomic_store(&p->ended, 1);
    futex_wake(&p->ended, INT_MAX);
    set_gate(p, ENDING, INT_MAX);
    for (int i = 1; i < p->n_started; i++) pthread_join(p->workers[i]->thread, NULL);
    for (int i = 1; p->workers && i < p->n_threads; i++) mem_free(p->workers[i]);
    mem_free(p->workers);
    mem_big_free(p, sizeof *p);
}
