/* cancel.c — ends jobs early: one from another thread while it is being read, one by dropping its handle, one by a
 * time limit.  usage: cancel [MODEL] */
#include <quipu.h>
#include <pthread.h>
#include <stdio.h>

enum { ENOUGH = 10 };

static int fail(const qp_error *err) {
    fprintf(stderr, "cancel: %s\n", err->text);
    return 1;
}

/* Any thread may do this, at any time, any number of times. */
static void *cancel_it(void *job) {
    qp_job_cancel(job);
    return NULL;
}

/* Reads to the end; another thread cancels after ENOUGH tokens. */
static int read_some(const char *name, qp_job *job) {
    qp_event event;
    qp_error err;
    pthread_t other;
    size_t n = 0;
    int has_other = 0;
    for (;;) {
        if (qp_job_next(job, &event, &err)) return fail(&err);
        if (event.kind == QP_EVENT_END) break;
        n += event.n_ids;
        if (n >= ENOUGH && !has_other) has_other = !pthread_create(&other, NULL, cancel_it, job);
    }
    if (has_other) pthread_join(other, NULL);
    printf("%s: %s, every token read: %s\n", name, qp_finish_text(event.finish),
           event.stats.new_tokens == n ? "yes" : "no");
    return 0;
}

int main(int argc, char **argv) {
    qp_model *model;
    qp_generator *gen;
    qp_job *job, *dropped, *limited;
    qp_event event;
    qp_generator_stats stats;
    qp_error err;
    qp_job_options options = {
        .size = sizeof options, .prompt = "The sea was", .max_new_tokens = 1500, .ignore_eos = true};
    if (qp_model_open(&model, argc > 1 ? argv[1] : "models/demo", NULL, &err)) return fail(&err);
    const qp_generator_options room = {.size = sizeof room, .cache_tokens = 8192};
    if (qp_generator_new(&gen, model, &room, &err)) return fail(&err);
    if (qp_job_new(&job, gen, &options, &err) || qp_job_new(&dropped, gen, &options, &err)) return fail(&err);
    qp_job_free(dropped);
    if (read_some("cancelled", job)) return 1;
    options.max_total_s = 0.05;
    if (qp_job_new(&limited, gen, &options, &err)) return fail(&err);
    do {
        if (qp_job_next(limited, &event, &err)) return fail(&err);
    } while (event.kind != QP_EVENT_END);
    printf("limited: %s\n", qp_finish_text(event.finish));
    qp_job_free(limited);
    qp_job_free(job);
    do qp_generator_get_stats(gen, &stats);
    while (stats.jobs_running || stats.jobs_waiting);
    printf("pages in use: %llu\n", (unsigned long long)stats.pages_used);
    qp_generator_free(gen);
    qp_model_close(model);
    return 0;
}
