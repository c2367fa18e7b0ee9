/* many.c — many prompts at once: all are submitted, run side by side, and are read in their order.
 *
 * What comes while another job is read waits for its reader, so reading one after the other slows nobody. The prompts
 * begin alike, and their common pages are computed once.  usage: many [MODEL] */
#include <quipu.h>
#include <stdio.h>

enum { JOBS = 12 };

static int fail(const qp_error *err) {
    fprintf(stderr, "many: %s\n", err->text);
    return 1;
}

/* Reads to the end, as one line. */
static int print_job(qp_job *job, int number) {
    qp_event event;
    qp_error err;
    printf("%2d:", number);
    for (;;) {
        if (qp_job_next(job, &event, &err)) return fail(&err);
        if (event.kind == QP_EVENT_END) break;
        for (const char *c = event.text; *c; c++) putchar(*c == '\n' ? ' ' : *c);
    }
    printf(" [%s, %zu]\n", qp_finish_text(event.finish), event.stats.new_tokens);
    return 0;
}

int main(int argc, char **argv) {
    static const char *const animals[] = {"fox", "hen", "bear", "mouse"};
    qp_model *model;
    qp_generator *gen;
    qp_job *jobs[JOBS];
    qp_generator_stats stats;
    qp_error err;
    int failed = 0;
    if (qp_model_open(&model, argc > 1 ? argv[1] : "models/demo", NULL, &err)) return fail(&err);
    if (qp_generator_new(&gen, model, NULL, &err)) return fail(&err);
    for (int i = 0; i < JOBS; i++) {
        char prompt[64]; /* options are copied: this may go at once */
        snprintf(prompt, sizeof prompt, "Once upon a time there was a little %s", animals[i % 4]);
        const qp_job_options options = {.size = sizeof options,
                                        .prompt = prompt,
                                        .max_new_tokens = 16,
                                        .sampling = {.temperature = 0.7F, .seed = (uint64_t)i}};
        if (qp_job_new(&jobs[i], gen, &options, &err)) return fail(&err);
    }
    for (int i = 0; i < JOBS; i++) {
        failed |= print_job(jobs[i], i);
        qp_job_free(jobs[i]);
    }
    qp_generator_get_stats(gen, &stats);
    fprintf(stderr, "%llu steps for %llu tokens\n", (unsigned long long)stats.steps,
            (unsigned long long)stats.new_tokens);
    qp_generator_free(gen);
    qp_model_close(model);
    return failed;
}
