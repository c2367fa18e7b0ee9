/* cmd_generate.c — quipu generate: a prompt becomes ids, a job continues them, the text streams to stdout.
 *
 * The prompt is tokenised here, not in the job, so that the cache can be made just as large as the work needs. Ctrl-C
 * cancels the job from the interrupt's thread; its end event then comes as any other. */
#include "input.h"
#include "load.h"
#include "base/clock.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include <limits.h>

/* What a run gathers while it streams. */
typedef struct generation {
    session *s;
    const qp_model *model;
    qp_model_info info;
    input_ids prompt, ids;
    strbuf text;
    uint64_t seed;
    qp_event end;
} generation;

/* ---- the prompt ---- */

static qp_status tokenize(generation *g, const strbuf *text, unsigned flags, qp_error *err) {
    const qp_tokenizer *tokenizer = qp_model_peek_tokenizer(g->model);
    if (!tokenizer) return err_set(err, QP_UNSUPPORTED, 0, "the model has no tokenizer: give its prompt as --ids");
    int32_t *ids;
    size_t count;
    ERR_TRY(qp_tokenize(tokenizer, text->at ? text->at : "", text->bytes, flags, &ids, &count, err));
    g->prompt = (input_ids){mem_copy(ids, count ? count : 1, sizeof *ids), count, count};
    qp_free(ids);
    return g->prompt.at ? QP_OK : err_no_memory(err, count * sizeof *ids, "the prompt");
}

/* The text as one message of a user, in the model's own template. */
static qp_status render_chat(strbuf *text, session *s, qp_error *err) {
    char path[PATH_MAX];
    strbuf input = {0};
    qp_template *chat;
    char *rendered = NULL;
    size_t bytes = 0;
    ERR_TRY(load_path(path, sizeof path, s, err));
    ERR_TRY(qp_template_open(&chat, path, NULL, err));
    strbuf_text(&input, "{\"messages\": [{\"role\": \"user\", \"content\": ");
    strbuf_json(&input, text->at ? text->at : "", text->bytes);
    strbuf_text(&input, "}], \"add_generation_prompt\": true}");
    qp_status status = strbuf_status(&input, err, "the message");
    if (status == QP_OK) status = qp_template_render(chat, input.at, input.bytes, &rendered, &bytes, NULL, err);
    if (status == QP_OK) {
        strbuf_clear(text);
        strbuf_add(text, rendered, bytes);
        status = strbuf_status(text, err, "the rendered message");
    }
    qp_free(rendered);
    strbuf_free(&input);
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
    if (!o->ids) return tokenize(g, text, tokenize_flags(o), err);
    ERR_TRY(input_load_ids(&g->prompt, g->s, o->ids, g->info.vocabulary, err));
    if (g->prompt.count) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "--ids: no ids in it, at least one is needed");
}

/* ---- settings ---- */

/* Where the user says nothing: what the model's maker recommends, else settings that suit most models. */
static qp_sampling default_sampling(const generation *g) {
    const session *s = g->s;
    if (g->info.has_sampling) return g->info.sampling;
    const bool has_truncation = session_given(s, &s->o->top_k) || session_given(s, &s->o->top_p);
    return (qp_sampling){.temperature = 0.8f, .min_p = has_truncation ? 0 : 0.05f};
}

static qp_sampling sampling_of(const generation *g) {
    const session *s = g->s;
    const options *o = s->o;
    qp_sampling out = default_sampling(g);
    if (session_given(s, &o->temperature)) out.temperature = (float)o->temperature;
    if (session_given(s, &o->top_k)) out.top_k = (int)o->top_k;
    if (session_given(s, &o->top_p)) out.top_p = (float)o->top_p;
    if (session_given(s, &o->min_p)) out.min_p = (float)o->min_p;
    if (session_given(s, &o->repetition_penalty)) out.repetition_penalty = (float)o->repetition_penalty;
    if (o->greedy && !session_given(s, &o->repetition_penalty)) out.repetition_penalty = 0;
    if (o->greedy) out.temperature = 0;
    out.temperature_last = o->temperature_last;
    out.seed = g->seed;
    return out;
}

/* Tokens of cache: what was asked for, else what prompt and -n need, else the trained context as far as half of the
 * memory reaches. */
static uint64_t cache_tokens(const generation *g) {
    enum { LEAST = 512 };
    const options *o = g->s->o;
    if (o->context) return (uint64_t)o->context;
    const uint64_t trained = (uint64_t)g->info.trained_context, need = g->prompt.count + (uint64_t)o->new_tokens;
    if (o->new_tokens && need < trained) return need;
    uint64_t tokens = trained;
    const uint64_t memory = cpu_memory_bytes();
    while (memory && tokens > LEAST && tokens > g->prompt.count &&
           qp_model_cache_bytes(g->model, load_cache_type(o), tokens) > memory / 2)
        tokens /= 2;
    return tokens > g->prompt.count ? tokens : trained;
}

static uint64_t seed_of(const session *s) {
    if (session_given(s, &s->o->seed)) return (uint64_t)s->o->seed;
    return (uint64_t)(clock_unix() * 1e6) & 0xFFFFFFFF;
}

/* ---- the stream ---- */

static void cancel(void *job) { qp_job_cancel(job); }

static qp_status keep_ids(generation *g, const int32_t *ids, size_t n, qp_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (g->ids.count == g->ids.capacity) {
            const size_t capacity = g->ids.capacity ? 2 * g->ids.capacity : 256;
            int32_t *more = mem_resize(g->ids.at, capacity, sizeof *more);
            if (!more) return err_no_memory(err, capacity * sizeof *more, "the answer");
            g->ids.at = more;
            g->ids.capacity = capacity;
        }
        g->ids.at[g->ids.count++] = ids[i];
    }
    return QP_OK;
}

static qp_status keep(generation *g, const qp_event *event, qp_error *err) {
    ERR_TRY(keep_ids(g, event->ids, event->n_ids, err));
    ERR_TRY(keep_ids(g, event->held_ids, event->n_held_ids, err));
    strbuf_add(&g->text, event->text, event->text_bytes);
    return strbuf_status(&g->text, err, "the answer");
}

/* With --json all is kept for the end, else it is shown as it comes. */
static qp_status take_events(generation *g, qp_job *job, qp_error *err) {
    for (;;) {
        qp_event event;
        ERR_TRY(qp_job_next(job, &event, err));
        if (g->s->o->json)
            ERR_TRY(keep(g, &event, err));
        else if (event.text_bytes) {
            fwrite(event.text, 1, event.text_bytes, stdout);
            fflush(stdout);
        }
        if (ferror(stdout)) return err_set(err, QP_IO, 0, "standard output cannot be written");
        if (event.kind == QP_EVENT_END) {
            g->end = event;
            return QP_OK;
        }
    }
}

static double rate(double count, double seconds) { return count > 0 && seconds > 0 ? count / seconds : 0; }

/* The first new token comes out of the prompt's pass, so decoding made one less. */
static double decode_rate(const qp_job_stats *st) { return rate((double)st->new_tokens - 1, st->decode_s); }

static double prefill_rate(const qp_job_stats *st) {
    return rate((double)st->prompt_tokens - (double)st->cached_tokens, st->prefill_s);
}

static void print_closing(const generation *g) {
    const qp_job_stats *st = &g->end.stats;
    const bool coloured = g->s->term.colour_err;
    fprintf(stderr, "%sprompt %zu tokens, %.1f tok/s, %zu cached; new %zu tokens", term_set(coloured, STYLE_DIM),
            st->prompt_tokens, prefill_rate(st), st->cached_tokens, st->new_tokens);
    if (st->new_tokens > 1) fprintf(stderr, ", %.1f tok/s", decode_rate(st));
    fprintf(stderr, "; first token after %.3f s", st->first_token_s);
    if (g->s->term.verbose)
        fprintf(stderr, "; seed %llu; logits %016llx", (unsigned long long)g->seed,
                (unsigned long long)st->logits_hash);
    fprintf(stderr, "%s\n", term_set(coloured, STYLE_PLAIN));
}

/* ---- the document ---- */

static void add_ids(strbuf *b, const char *key, const input_ids *ids) {
    strbuf_format(b, "\"%s\": [", key);
    for (size_t i = 0; i < ids->count; i++) strbuf_format(b, "%s%d", i ? ", " : "", ids->at[i]);
    strbuf_text(b, "], ");
}

static void add_stop_reason(strbuf *b, const qp_event *end) {
    strbuf_text(b, "\"stop_reason\": ");
    if (end->finish == QP_FINISH_STOP && end->stop_text)
        strbuf_json(b, end->stop_text, strlen(end->stop_text));
    else if (end->finish == QP_FINISH_EOS && end->stop_id >= 0)
        strbuf_format(b, "%d", end->stop_id);
    else
        strbuf_text(b, "null");
    strbuf_text(b, ", ");
}

static void add_timing(strbuf *b, const qp_job_stats *st) {
    strbuf_format(b, "\"usage\": {\"prompt_tokens\": %zu, \"cached_tokens\": %zu, \"completion_tokens\": %zu}, ",
                  st->prompt_tokens, st->cached_tokens, st->new_tokens);
    strbuf_format(b, "\"timing\": {\"queue_s\": %.9g, \"prefill_s\": %.9g, \"prefill_tok_s\": %.9g, ", st->queue_s,
                  st->prefill_s, prefill_rate(st));
    strbuf_format(b, "\"first_token_s\": %.9g, \"decode_s\": %.9g, \"decode_tok_s\": %.9g, \"total_s\": %.9g}",
                  st->first_token_s, st->decode_s, decode_rate(st), st->total_s);
}

static qp_status print_document(const generation *g, qp_error *err) {
    static const char *const reasons[] = {"none", "stop", "stop", "length", "cancelled", "error"};
    strbuf b = {0};
    strbuf_text(&b, "{\"text\": ");
    strbuf_json(&b, g->text.at ? g->text.at : "", g->text.bytes);
    strbuf_text(&b, ", ");
    add_ids(&b, "ids", &g->ids);
    strbuf_format(&b, "\"finish_reason\": \"%s\", ", reasons[g->end.finish]);
    add_stop_reason(&b, &g->end);
    add_ids(&b, "prompt_ids", &g->prompt);
    add_timing(&b, &g->end.stats);
    strbuf_text(&b, "}\n");
    const qp_status status = strbuf_status(&b, err, "the answer");
    if (status == QP_OK) fwrite(b.at, 1, b.bytes, stdout);
    strbuf_free(&b);
    return status;
}

/* ---- the run ---- */

static qp_status run_job(generation *g, qp_generator *generator, qp_error *err) {
    session *s = g->s;
    const options *o = s->o;
    g->seed = seed_of(s);
    const qp_job_options wanted = {.size = sizeof wanted,
                                   .ids = g->prompt.at,
                                   .n_ids = g->prompt.count,
                                   .max_new_tokens = (size_t)o->new_tokens,
                                   .ignore_eos = o->ignore_eos,
                                   .show_special = o->show_special,
                                   .stop = o->stop.at,
                                   .n_stop = o->stop.count,
                                   .sampling = sampling_of(g)};
    qp_job *job;
    ERR_TRY(qp_job_new(&job, generator, &wanted, err));
    interrupt_catch(s->interrupt, cancel, job);
    qp_status status = take_events(g, job, err);
    interrupt_catch(s->interrupt, NULL, NULL);
    if (status == QP_OK && o->json)
        status = print_document(g, err);
    else if (!o->json)
        putchar('\n');
    fflush(stdout);
    if (status == QP_OK && !s->term.quiet) print_closing(g);
    qp_job_free(job);
    return status == QP_OK && g->end.finish == QP_FINISH_CANCELLED ? QP_CANCELLED : status;
}

static qp_status generate(generation *g, const strbuf *text, qp_error *err) {
    qp_model_get_info(g->model, &g->info);
    ERR_TRY(load_prompt(g, text, err));
    const options *o = g->s->o;
    const qp_generator_options wanted = {
        .size = sizeof wanted, .cache_tokens = cache_tokens(g), .cache_type = load_cache_type(o)};
    qp_generator *generator;
    ERR_TRY(qp_generator_new(&generator, g->model, &wanted, err));
    const term *t = &g->s->term;
    if (t->live_out && !t->quiet && !o->json && !o->ids && !o->chat) /* a person sees what is being continued */
        printf("%s%s%s", term_set(t->colour_out, STYLE_BOLD), text->at ? text->at : "",
               term_set(t->colour_out, STYLE_PLAIN));
    const qp_status status = run_job(g, generator, err);
    qp_generator_free(generator);
    return status;
}

static qp_status check_options(session *s, qp_error *err) {
    const options *o = s->o;
    if (o->ids && (o->chat || o->no_special || o->no_parse_special || o->parse_special))
        return session_usage(s, err, "--ids are final: --chat and options about special tokens are for texts");
    for (size_t i = 0; i < o->stop.count; i++)
        if (!*o->stop.at[i]) return session_usage(s, err, "--stop: the text is empty");
    return QP_OK;
}

qp_status cmd_generate(session *s, qp_error *err) {
    ERR_TRY(check_options(s, err));
    generation g = {.s = s};
    strbuf text = {0};
    qp_model *model = NULL;
    qp_status status = s->o->ids ? QP_OK : input_prompt(&text, s, err);
    if (status == QP_OK && s->o->chat) status = render_chat(&text, s, err);
    if (status == QP_OK) status = load_model(&model, s, (int)s->o->threads, err);
    g.model = model;
    if (status == QP_OK) status = generate(&g, &text, err);
    strbuf_free(&text);
    strbuf_free(&g.text);
    input_free_ids(&g.prompt);
    input_free_ids(&g.ids);
    qp_model_close(model);
    return status;
}
