/* event_loop.c — several jobs in a program that has an event loop of its own (epoll), without a thread for each.
 *
 * One watch tells which jobs have something to read; its descriptor sits in the loop beside sockets and timers. A job
 * that was told of is polled until it has nothing more, and is told of again when something comes.
 * usage: event_loop [MODEL] */
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { JOBS = 4, MOST_TEXT = 400 };

typedef struct answer {
    char text[MOST_TEXT];
    size_t bytes;
    int has_ended;
} answer;

static void need(qp_status status, const qp_error *err) {
    if (status == QP_OK) return;
    fprintf(stderr, "event_loop: %s\n", err->text);
    exit(1);
}

/* Takes what has come without waiting; the number of jobs that ended: 0 or 1. */
static int read_job(qp_job *job, answer *a) {
    qp_event event;
    qp_error err;
    for (;;) {
        const qp_status status = qp_job_poll(job, 0, &event, &err);
        if (status == QP_BUSY) return 0;
        need(status, &err);
        if (event.kind == QP_EVENT_END) break;
        if (a->bytes + event.text_bytes < MOST_TEXT)
            a->bytes += (size_t)snprintf(a->text + a->bytes, MOST_TEXT - a->bytes, "%s", event.text);
    }
    qp_job_free(job);
    return 1;
}

static void run_loop(qp_watch *watch) {
    struct epoll_event news = {.events = EPOLLIN};
    const int loop = epoll_create1(EPOLL_CLOEXEC);
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, qp_watch_descriptor(watch), &news)) exit(1);
    for (int n_ended = 0; n_ended < JOBS;) {
        if (epoll_wait(loop, &news, 1, -1) < 1) continue; /* other descriptors would be looked at here */
        void *user;
        for (qp_job *job; (job = qp_watch_next(watch, 0, &user));) n_ended += read_job(job, user);
    }
    close(loop);
}

int main(int argc, char **argv) {
    static const char *const prompts[JOBS] = {"The king said", "In the morning", "The old house",
                                              "She opened the door"};
    answer answers[JOBS] = {0};
    qp_model *model;
    qp_generator *gen;
    qp_watch *watch;
    qp_error err;
    need(qp_model_open(&model, argc > 1 ? argv[1] : "models/demo", NULL, &err), &err);
    need(qp_generator_new(&gen, model, NULL, &err), &err);
    need(qp_watch_new(&watch, &err), &err);
    for (int i = 0; i < JOBS; i++) {
        qp_job *job;
        const qp_job_options options = {
            .size = sizeof options, .prompt = prompts[i], .max_new_tokens = 12, .watch = watch, .user = &answers[i]};
        need(qp_job_new(&job, gen, &options, &err), &err);
    }
    run_loop(watch);
    for (int i = 0; i < JOBS; i++) printf("%s%s\n", prompts[i], answers[i].text);
    qp_watch_free(watch);
    qp_generator_free(gen);
    qp_model_close(model);
    return 0;
}
