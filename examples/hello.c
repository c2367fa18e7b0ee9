/* hello.c — the shortest useful program: a prompt goes on.  usage: hello [MODEL] */
#include <quipu.h>
#include <stdio.h>

int main(int argc, char **argv) {
    qp_model *model;
    qp_generator *gen;
    qp_job *job;
    qp_event event;
    qp_error err;
    const qp_job_options options = {.size = sizeof options, .prompt = "Once upon a time", .max_new_tokens = 30};
    if (qp_model_open(&model, argc > 1 ? argv[1] : "models/demo", NULL, &err)) return puts(err.text), 1;
    if (qp_generator_new(&gen, model, NULL, &err)) return puts(err.text), 1;
    if (qp_job_new(&job, gen, &options, &err)) return puts(err.text), 1;
    while (qp_job_next(job, &event, &err) == QP_OK && event.kind != QP_EVENT_END) fputs(event.text, stdout);
    qp_job_free(job);
    qp_generator_free(gen);
    qp_model_close(model);
}
