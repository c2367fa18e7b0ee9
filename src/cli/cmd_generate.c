/* cmd_generate.c — quipu generate: a prompt becomes ids, jobs continue them, the text streams to stdout.
 *
 * The prompt is tokenised here, not in the job, so that the cache can be made just as large as the work needs. Several
 * choices run at the same time and are read one after the other: the library keeps what nobody has read yet. Ctrl-C
 * cancels the jobs from the interrupt's thread; their end events then come as any other. */
#include "answer.h"
#include "batch.h"
#include "constraint.h"
#include "load.h"
#include "prompt.h"
#include "settings.h"
#include "base/mem.h"

/* What a run gathers while it streams. */
typedef struct generation {
    session *s;
    const qp_model *model;
    qp_model_info info;
    input_ids prompt;
    uint64_t seed;
    size_t n_choices;
    qp_job **jobs;   /* [n_choices] */
    answer *answers; /* [n_choices] */
    qp_job_stats total;
    bool was_cancelled;
} generation;

/* ---- the prompt ---- */

/* The text as one message of a user, in the model's own template. */
static qp_status render_chat(strbuf *text, session *s, qp_error *err) {
    strbuf message = {0};
    qp_template *chat;
    ERR_TRY(prompt_template(&chat, s, err));
    prompt_add_message(&message, text->at ? text->at : "", text->bytes);
    qp_status status = strbuf_status(&message, err, "the message");
    if (status == QP_OK) status = prompt_render(text, chat, message.at, message.bytes, err);
    strbuf_free(&message);
    qp_template_free(chat);
    return status;
}

static unsigned tokenize_flags(const options *o) {
    return (o->no_special || o->chat ? QP_TOKENIZE_NO_SPECIAL : 0) |
           (o->no_parse_special ? QP_TOKENIZE_PLAIN_SPECIAL : 0);
}

/* Fills g->prompt from --ids, or from a text that is read before the model is loaded. */
static qp_status load_prompt(generation *g, const strbuf *text, qp_error *err) {
    const options *o = g->s->o;
    if (!o->ids)
        return prompt_tokenize(&g->prompt, g->model, text->at ? text->at : "", text->bytes, tokenize_flags(o), err);
    ERR_TRY(input_load_ids(&g->prompt, g->s, o->ids, g->info.vocabulary, err));
    if (g->prompt.count) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "--ids: no ids in it, at least one is needed");
}

static uint64_t cache_tokens(const generation *g) {
    const options *o = g->s->o;
    const uint64_t need = g->prompt.count + (uint64_t)o->new_tokens;
    return settings_cache_tokens(o, g->model, o->new_tokens ? need : 0, g->n_choices);
}

/* ---- the stream ---- */

static void cancel(void *user) {
    const generation *g = user;
    for (size_t i = 0; i < g->n_choices; i++) qp_job_cancel(g->jobs[i]);
}

/* With --json all is kept for the end, else it is shown as it comes. */
static qp_status take_events(generation *g, size_t choice, qp_error *err) {
    answer *a = &g->answers[choice];
    const qp_tokenizer *tokenizer = qp_model_peek_tokenizer(g->model);
    do {
        qp_event event;
        ERR_TRY(qp_job_next(g->jobs[choice], &event, err));
        if (g->s->o->json)
            ERR_TRY(answer_take(a, &event, tokenizer, err));
        else if (event.text_bytes) {
            fwrite(event.text, 1, event.text_bytes, stdout);
            fflush(stdout);
        }
        if (ferror(stdout)) return err_set(err, QP_IO, 0, "standard output cannot be written");
        a->end = event;
    } while (a->end.kind != QP_EVENT_END);
    g->was_cancelled |= a->end.finish == QP_FINISH_CANCELLED;
    return QP_OK;
}

static void print_title(const generation *g, size_t choice) {
    if (g->s->o->json || g->n_choices == 1) return;
    const bool coloured = g->s->term.colour_out;
    printf("%s--- choice %zu of %zu ---%s\n", term_set(coloured, STYLE_CYAN), choice + 1, g->n_choices,
           term_set(coloured, STYLE_PLAIN));
}

/* All choices together: counts add up, times are those of the longest. */
static void add_stats(qp_job_stats *total, const qp_job_stats *one, bool is_first) {
    if (is_first) {
        *total = *one;
        return;
    }
    total->prompt_tokens += one->prompt_tokens;
    total->cached_tokens += one->cached_tokens;
    total->new_tokens += one->new_tokens;
    if (one->first_token_s < total->first_token_s) total->first_token_s = one->first_token_s;
    if (one->decode_s > total->decode_s) total->decode_s = one->decode_s;
    if (one->total_s > total->total_s) total->total_s = one->total_s;
}

static qp_status take_choices(generation *g, qp_error *err) {
    for (size_t i = 0; i < g->n_choices; i++) {
        print_title(g, i);
        ERR_TRY(take_events(g, i, err));
        if (!g->s->o->json) putchar('\n');
        add_stats(&g->total, &g->answers[i].end.stats, i == 0);
    }
    return QP_OK;
}

static void print_closing(const generation *g) {
    const qp_job_stats *st = &g->total;
    const bool coloured = g->s->term.colour_err;
    fprintf(stderr, "%sprompt %zu tokens, %.1f tok/s, %zu cached; new %zu tokens", term_set(coloured, STYLE_DIM),
            st->prompt_tokens, answer_prefill_rate(&g->answers[0].end.stats), st->cached_tokens, st->new_tokens);
    if (st->new_tokens > 1) fprintf(stderr, ", %.1f tok/s", answer_decode_rate(st));
    fprintf(stderr, "; first token after %.3f s", st->first_token_s);
    if (g->s->term.verbose)
        fprintf(stderr, "; seed %llu; logits %016llx", (unsigned long long)g->seed,
                (unsigned long long)g->answers[0].end.stats.logits_hash);
    fprintf(stderr, "%s\n", term_set(coloured, STYLE_PLAIN));
}

/* ---- the document ---- */

static void add_choices(strbuf *b, const generation *g, bool with_logprobs) {
    strbuf_text(b, "\"choices\": [");
    for (size_t i = 0; i < g->n_choices; i++) {
        strbuf_format(b, "%s{\"index\": %zu, ", i ? ", " : "", i);
        answer_add_content(b, &g->answers[i], with_logprobs);
        strbuf_text(b, ", ");
        answer_add_figures(b, &g->answers[i].end.stats);
        strbuf_char(b, '}');
    }
    strbuf_char(b, ']');
}

static qp_status print_document(const generation *g, qp_error *err) {
    const session *s = g->s;
    const bool with_logprobs = session_given(s, &s->o->logprobs);
    strbuf b = {0};
    strbuf_char(&b, '{');
    if (session_given(s, &s->o->num_choices))
        add_choices(&b, g, with_logprobs);
    else
        answer_add_content(&b, &g->answers[0], with_logprobs);
    strbuf_text(&b, ", ");
    answer_add_ids(&b, "prompt_ids", &g->prompt);
    strbuf_text(&b, ", ");
    answer_add_figures(&b, &g->total);
    strbuf_text(&b, "}\n");
    const qp_status status = strbuf_status(&b, err, "the answer");
    if (status == QP_OK) fwrite(b.at, 1, b.bytes, stdout);
    strbuf_free(&b);
    return status;
}

/* ---- the run ---- */

static qp_status submit(generation *g, qp_generator *generator, qp_error *err) {
    const session *s = g->s;
    qp_job_options wanted;
    g->seed = settings_seed(s);
    settings_fill(&wanted, s->o, s->command, &g->info, g->seed);
    wanted.ids = g->prompt.at;
    wanted.n_ids = g->prompt.count;
    adapter_list adapters;
    ERR_TRY(load_adapters(&adapters, g->model, s->o, err));
    wanted.adapters = adapters.uses;
    wanted.n_adapters = adapters.count;
    constraint_list constraints = {.n = 0};
    qp_status status =
        constraint_open(&constraints, s->o, qp_model_peek_tokenizer(g->model), s->o->lenient ? stderr : NULL, err);
    if (status == QP_OK) status = constraint_filters(&constraints, &wanted, err);
    if (status == QP_OK && g->n_choices == 1)
        status = qp_job_new(g->jobs, generator, &wanted, err);
    else if (status == QP_OK)
        status = qp_jobs_new(g->jobs, (int)g->n_choices, generator, &wanted, err);
    constraint_close(&constraints);
    load_close_adapters(&adapters); /* the jobs keep them */
    return status;
}

static qp_status run_jobs(generation *g, qp_generator *generator, qp_error *err) {
    session *s = g->s;
    ERR_TRY(submit(g, generator, err));
    interrupt_catch(s->interrupt, cancel, g);
    qp_status status = take_choices(g, err);
    interrupt_catch(s->interrupt, NULL, NULL);
    if (status == QP_OK && s->o->json) status = print_document(g, err);
    if (status != QP_OK && !s->o->json) putchar('\n');
    fflush(stdout);
    if (status == QP_OK && !s->term.quiet) print_closing(g);
    for (size_t i = 0; i < g->n_choices; i++) qp_job_free(g->jobs[i]);
    return status == QP_OK && g->was_cancelled ? QP_CANCELLED : status;
}

static qp_status generate(generation *g, const strbuf *text, qp_error *err) {
    qp_model_get_info(g->model, &g->info);
    ERR_TRY(load_prompt(g, text, err));
    const options *o = g->s->o;
    g->n_choices = o->num_choices ? (size_t)o->num_choices : 1;
    g->jobs = mem_zarray(g->n_choices, sizeof *g->jobs);
    g->answers = mem_zarray(g->n_choices, sizeof *g->answers);
    if (!g->jobs || !g->answers) return err_no_memory(err, g->n_choices * sizeof *g->answers, "the choices");
    qp_generator_options wanted = {
        .size = sizeof wanted, .cache_tokens = cache_tokens(g), .cache_type = load_cache_type(o)};
    if (!o->context && g->info.trained_context) wanted.max_length = (uint64_t)g->info.trained_context;
    if (wanted.max_length > wanted.cache_tokens) wanted.max_length = 0;
    qp_generator *generator;
    ERR_TRY(qp_generator_new(&generator, g->model, &wanted, err));
    const term *t = &g->s->term;
    if (t->live_out && !t->quiet && !o->json && !o->ids && !o->chat && g->n_choices == 1) /* what is being continued */
        printf("%s%s%s", term_set(t->colour_out, STYLE_BOLD), text->at ? text->at : "",
               term_set(t->colour_out, STYLE_PLAIN));
    const qp_status status = run_jobs(g, generator, err);
    qp_generator_free(generator);
    return status;
}

static qp_status check_options(session *s, qp_error *err) {
    const options *o = s->o;
    if (o->ids && (o->chat || o->no_special || o->no_parse_special || o->parse_special))
        return session_usage(s, err, "--ids are final: --chat and options about special tokens are for texts");
    if (!o->batch && (session_given(s, &o->output) || session_given(s, &o->order) || session_given(s, &o->max_jobs)))
        return session_usage(s, err, "--output, --order and --max-jobs are for --batch");
    if (session_given(s, &o->logprobs) && !o->json && !o->batch)
        return session_usage(s, err, "--logprobs needs --json: a text has no place for probabilities");
    const qp_status status = settings_check(o, err);
    s->is_wrong_usage = status != QP_OK;
    return status;
}

static void free_all(generation *g) {
    for (size_t i = 0; g->answers && i < g->n_choices; i++) answer_free(&g->answers[i]);
    mem_free(g->answers);
    mem_free(g->jobs);
    input_free_ids(&g->prompt);
}

qp_status cmd_generate(session *s, qp_error *err) {
    ERR_TRY(check_options(s, err));
    if (s->o->batch) return batch_run(s, err);
    generation g = {.s = s};
    strbuf text = {0};
    qp_model *model = NULL;
    qp_status status = s->o->ids ? QP_OK : input_prompt(&text, s, err);
    if (status == QP_OK && s->o->chat) status = render_chat(&text, s, err);
    if (status == QP_OK) status = load_model(&model, s, (int)s->o->threads, err);
    g.model = model;
    if (status == QP_OK) status = generate(&g, &text, err);
    strbuf_free(&text);
    free_all(&g);
    qp_model_close(model);
    return status;
}
