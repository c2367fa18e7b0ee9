/* stream.c — text as it comes, then how the answer ended, what it cost and how sure the model was.
 * usage: stream [MODEL [PROMPT]] */
#include <quipu.h>
#include <stdio.h>

static int fail(const qp_error *err) {
    fprintf(stderr, "stream: %s\n", err->text);
    return 1;
}

int main(int argc, char **argv) {
    static const char *const stops[] = {"\n\n", "The end"};
    qp_model *model;
    qp_generator *gen;
    qp_job *job;
    qp_event event;
    qp_error err;
    double logprob = 0;
    const qp_job_options options = {.size = sizeof options,
                                    .prompt = argc > 2 ? argv[2] : "The old fisherman",
                                    .max_new_tokens = 60,
                                    .stop = stops,
                                    .n_stop = 2,
                                    .want_logprobs = true,
                                    .sampling = {.temperature = 0.8F, .top_p = 0.9F, .seed = 7}};
    if (qp_model_open(&model, argc > 1 ? argv[1] : "models/demo", NULL, &err)) return fail(&err);
    if (qp_generator_new(&gen, model, NULL, &err)) return fail(&err);
    if (qp_job_new(&job, gen, &options, &err)) return fail(&err);
    for (;;) {
        if (qp_job_next(job, &event, &err)) return fail(&err);
        if (event.kind == QP_EVENT_END) break;
        for (size_t i = 0; i < event.n_ids; i++) logprob += event.tokens[i].logprob;
        fputs(event.text, stdout);
        fflush(stdout); /* a reader at a terminal wants every word at once */
    }
    printf("\n[%s after %zu tokens, mean log probability %.2f, first token after %.0f ms]\n",
           qp_finish_text(event.finish), event.stats.new_tokens,
           event.stats.new_tokens ? logprob / (double)event.stats.new_tokens : 0, event.stats.first_token_s * 1e3);
    qp_job_free(job);
    qp_generator_free(gen);
    qp_model_close(model);
    return 0;
}
