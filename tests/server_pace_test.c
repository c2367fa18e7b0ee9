/* server_pace_test.c — how fast the server passes on what an engine says, with an engine that costs nothing: acceptance
 * test T22 of the server's specification.
 *
 * The server is the real one, with sockets and threads; the linker puts the functions below in the place of the jobs
 * and the watch of quipu.h (--wrap in CMakeLists.txt). The made-up engine tells all its jobs at once every 20 ms, as a
 * real one does after a step, which is harder than to tell them one by one. The text of a token is the time at which it
 * was told, so the client knows how old what it reads is. */
#include "server_here.h"
#include "quipu.h"
#include "base/bell.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/resource.h>

enum { STREAMS = 256, TOKENS = 100, TRIES = 15, STAMP_DIGITS = 16 };
static const double STEP = 0.02, MOST_DELIVERY = 0.015; /* seconds */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_timed = false; /* every access costs several times as much: only losses are looked for */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
static const bool is_timed = false;
#else
static const bool is_timed = true;
#endif
#else
static const bool is_timed = true;
#endif

/* ---- the engine ---- */

typedef struct fake_job {
    struct fake_job *next, *next_listed;
    void *user;
    strbuf text, shown;
    size_t n_untold, n_told;
    int32_t ids[TOKENS];
    bool is_listed, is_over;
} fake_job;

static struct fake_engine {
    bell bell;
    int wake;
    fake_job *jobs, *first, *last;
    size_t n_jobs, n_wanted;
    bool is_ending;
} engine;

qp_status __wrap_qp_watch_new(qp_watch **out, qp_error *err);
void __wrap_qp_watch_free(qp_watch *watch);
int __wrap_qp_watch_descriptor(const qp_watch *watch);
qp_job *__wrap_qp_watch_next(qp_watch *watch, double timeout_s, void **user);
qp_status __wrap_qp_job_new(qp_job **out, qp_generator *generator, const qp_job_options *options, qp_error *err);
void __wrap_qp_job_free(qp_job *job);
void __wrap_qp_job_cancel(qp_job *job);
qp_status __wrap_qp_job_poll(qp_job *job, double timeout_s, qp_event *event, qp_error *err);
void __wrap_qp_job_get_progress(const qp_job *job, qp_job_progress *progress);

qp_status __wrap_qp_watch_new(qp_watch **out, qp_error *err) {
    *out = (qp_watch *)&engine;
    return wake_open(&engine.wake, err);
}

void __wrap_qp_watch_free(qp_watch *watch) {
    if (watch) wake_close(engine.wake);
}

int __wrap_qp_watch_descriptor(const qp_watch *watch) { return engine.wake; }

qp_job *__wrap_qp_watch_next(qp_watch *watch, double timeout_s, void **user) {
    bell_lock(&engine.bell);
    fake_job *j = engine.first;
    if (j) {
        engine.first = j->next_listed;
        j->is_listed = false;
        *user = j->user;
    }
    if (!engine.first) wake_clear(engine.wake);
    bell_unlock(&engine.bell);
    return (qp_job *)j;
}

qp_status __wrap_qp_job_new(qp_job **out, qp_generator *generator, const qp_job_options *options, qp_error *err) {
    fake_job *j = MEM_NEW(fake_job);
    if (!j) return err_no_memory(err, sizeof *j, "a made-up job");
    j->user = options->user;
    bell_lock(&engine.bell);
    j->next = engine.jobs;
    engine.jobs = j;
    engine.n_jobs++;
    bell_unlock(&engine.bell);
    *out = (qp_job *)j;
    return QP_OK;
}

/* Whoever frees a job may have heard its end before the watch told of it. With the lock. */
static void unlist(const fake_job *j) {
    fake_job *before = NULL;
    for (fake_job *at = engine.first; at && at != j; at = at->next_listed) before = at;
    *(before ? &before->next_listed : &engine.first) = j->next_listed;
    if (engine.last == j) engine.last = before;
    if (!engine.first) wake_clear(engine.wake);
}

void __wrap_qp_job_free(qp_job *job) {
    fake_job *j = (fake_job *)job;
    if (!j) return;
    bell_lock(&engine.bell);
    if (j->is_listed) unlist(j);
    fake_job **at = &engine.jobs;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    engine.n_jobs--;
    bell_unlock(&engine.bell);
    strbuf_free(&j->text);
    strbuf_free(&j->shown);
    mem_free(j);
}

void __wrap_qp_job_cancel(qp_job *job) {}

qp_status __wrap_qp_job_poll(qp_job *job, double timeout_s, qp_event *event, qp_error *err) {
    fake_job *j = (fake_job *)job;
    bell_lock(&engine.bell);
    const strbuf shown = j->shown;
    j->shown = j->text;
    j->text = shown;
    strbuf_clear(&j->text);
    const size_t n = j->n_untold;
    j->n_untold = 0;
    j->n_told += n;
    const bool is_over = !n && j->n_told == TOKENS;
    bell_unlock(&engine.bell);
    *event = (qp_event){.kind = n ? QP_EVENT_TEXT : QP_EVENT_END,
                        .text = n ? j->shown.at : "",
                        .text_bytes = n ? j->shown.bytes : 0,
                        .ids = j->ids,
                        .n_ids = n,
                        .finish = QP_FINISH_LENGTH,
                        .stop_id = -1,
                        .held_text = "",
                        .sampled_at = clock_now(),
                        .stats = {.prompt_tokens = 4, .new_tokens = j->n_told}};
    return n || is_over ? QP_OK : QP_BUSY;
}

void __wrap_qp_job_get_progress(const qp_job *job, qp_job_progress *progress) {
    *progress = (qp_job_progress){.state = QP_JOB_RUNNING, .prompt_tokens = 4, .prompt_done = 4};
}

/* With the lock. */
static void tell(fake_job *j) {
    if (j->n_told + j->n_untold < TOKENS) {
        strbuf_format(&j->text, "%0*.0f", STAMP_DIGITS, clock_now() * 1e6);
        j->n_untold++;
    } else if (j->is_over) {
        return;
    } else {
        j->is_over = true;
    }
    if (j->is_listed) return;
    j->is_listed = true;
    j->next_listed = NULL;
    if (!engine.first) wake_set(engine.wake);
    *(engine.first ? &engine.last->next_listed : &engine.first) = j;
    engine.last = j;
}

static void *make_steps(void *user) {
    double next = clock_now();
    bell_lock(&engine.bell);
    while (!engine.is_ending) {
        const bool is_full = engine.n_jobs == engine.n_wanted;
        if (is_full) engine.n_wanted = 0; /* from here on whoever is there goes on */
        for (fake_job *j = engine.n_wanted ? NULL : engine.jobs; j; j = j->next) tell(j);
        for (next += STEP; next < clock_now(); next += STEP) continue;
        while (bell_wait(&engine.bell, next)) continue;
    }
    bell_unlock(&engine.bell);
    return NULL;
}

/* ---- the clients: one thread for all ---- */

typedef struct reading {
    double ages[STREAMS * TOKENS];
    size_t n_ages, n_done;
    struct {
        int descriptor;
        strbuf tail;
    } clients[STREAMS];
} reading;

static void ask(int fd) {
    static const char body[] = "{\"prompt\":\"Once upon a time\",\"max_tokens\":100,\"stream\":true,"
                               "\"loop_detect_window\":0}";
    char request[512];
    const int n = snprintf(request, sizeof request,
                           "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                           sizeof body - 1, body);
    assert_int_equal(send(fd, request, (size_t)n, 0), n);
}

/* All stamps of the events that are there as a whole. */
static void read_events(reading *r, strbuf *tail) {
    static const char mark[] = "\"text\":\"";
    const double now = clock_now();
    char *from = tail->at, *end;
    while ((end = strstr(from, "\n\n"))) {
        const char *text = strstr(from, mark);
        for (text = text && text < end ? text + sizeof mark - 1 : "\""; *text != '"'; text += STAMP_DIGITS) {
            char digits[STAMP_DIGITS + 1] = {0};
            memcpy(digits, text, STAMP_DIGITS);
            assert_true(r->n_ages < STREAMS * TOKENS);
            r->ages[r->n_ages++] = now - atof(digits) * 1e-6;
        }
        from = end + 2;
    }
    const size_t used = (size_t)(from - tail->at);
    memmove(tail->at, from, tail->bytes - used + 1);
    tail->bytes -= used;
}

static void read_one(reading *r, int i) {
    char part[65536];
    const ssize_t n = recv(r->clients[i].descriptor, part, sizeof part, 0);
    assert_true(n > 0);
    strbuf_add(&r->clients[i].tail, part, (size_t)n);
    r->n_done += n >= 5 && !memcmp(part + n - 5, "0\r\n\r\n", 5);
    read_events(r, &r->clients[i].tail);
}

static void read_all(reading *r, const server_here *h) {
    const int set = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < STREAMS; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        r->clients[i].descriptor = server_here_connect(h);
        ask(r->clients[i].descriptor);
        assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, r->clients[i].descriptor, &e), 0);
    }
    while (r->n_done < STREAMS) {
        struct epoll_event found[64];
        const int n = epoll_wait(set, found, 64, 60000);
        assert_true(n > 0); /* else a stream does not go on */
        for (int i = 0; i < n; i++) read_one(r, (int)found[i].data.u32);
    }
    for (int i = 0; i < STREAMS; i++) {
        close(r->clients[i].descriptor);
        strbuf_free(&r->clients[i].tail);
    }
    close(set);
}

/* ---- what the server's own threads cost ---- */

static bool is_own(const char *folder) {
    static const char *const names[] = {"MHD-single", "quipu-pump", "quipu-worker", "quipu-conns"};
    char path[320], name[32] = "";
    snprintf(path, sizeof path, "%s/comm", folder);
    FILE *file = fopen(path, "r");
    const bool has_name = file && fgets(name, sizeof name, file);
    if (file) fclose(file);
    name[strcspn(name, "\n")] = 0;
    for (size_t i = 0; has_name && i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static double own_seconds(void) {
    double all = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *d; tasks && (d = readdir(tasks));) {
        char folder[300], path[320];
        unsigned long long ns = 0;
        snprintf(folder, sizeof folder, "/proc/self/task/%s", d->d_name);
        if (*d->d_name == '.' || !is_own(folder)) continue;
        snprintf(path, sizeof path, "%s/schedstat", folder);
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%llu", &ns) == 1) all += (double)ns * 1e-9;
        if (file) fclose(file);
    }
    if (tasks) closedir(tasks);
    return all;
}

/* ---- the test ---- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds that one in a hundred tokens was older than when it was read. */
static double try_once(const server_here *h, reading *r) {
    *r = (reading){.n_done = 0};
    bell_lock(&engine.bell);
    engine.n_wanted = STREAMS;
    bell_unlock(&engine.bell);
    const double before = own_seconds();
    read_all(r, h);
    assert_int_equal(r->n_ages, STREAMS * TOKENS); /* none is lost */
    const double cost = (own_seconds() - before) / (double)r->n_ages;
    qsort(r->ages, r->n_ages, sizeof *r->ages, by_value);
    const double p99 = r->ages[r->n_ages * 99 / 100];
    print_message(
        "256 streams at 50 tokens/s: read after %.2f ms, p99 %.2f ms, longest %.2f ms; %.2f us of CPU a token\n",
        r->ages[r->n_ages / 2] * 1e3, p99 * 1e3, r->ages[r->n_ages - 1] * 1e3, cost * 1e6);
    return p99;
}

static void test_pace(void **state) {
    server_here h;
    pthread_t steps;
    reading *r = MEM_NEW(reading);
    assert_non_null(r);
    assert_int_equal(bell_open(&engine.bell, NULL), QP_OK);
    server_here_open(&h, true);
    assert_int_equal(pthread_create(&steps, NULL, make_steps, NULL), 0);
    double best = 1;
    for (int i = 0; i < (is_timed ? TRIES : 1) && best > MOST_DELIVERY; i++) {
        const double p99 = try_once(&h, r);
        best = p99 < best ? p99 : best;
    }
    bell_lock(&engine.bell);
    engine.is_ending = true;
    bell_unlock(&engine.bell);
    pthread_join(steps, NULL);
    server_here_close(&h);
    bell_close(&engine.bell);
    mem_free(r);
    if (is_timed) assert_true(best <= MOST_DELIVERY);
}

int main(void) {
    const struct rlimit most = {4096, 4096};
    if (access(QUIPU_SOURCE "/models/demo/model.safetensors", R_OK)) return print_message("SKIP: no demo model\n"), 77;
    setrlimit(RLIMIT_NOFILE, &most);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
