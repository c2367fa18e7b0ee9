/* answer.c — gathers the events of a job and writes them as members of a JSON object.
 *
 * Candidates of an event live until the next one, so that "logprobs" is written as it comes. Tokens of a stop text are
 * among the ids but have no probabilities. */
#include "answer.h"
#include "base/mem.h"
#include <math.h>

static qp_status keep_ids(input_ids *to, const int32_t *ids, size_t n, qp_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (to->count == to->capacity) {
            const size_t capacity = to->capacity ? 2 * to->capacity : 256;
            int32_t *more = mem_resize(to->at, capacity, sizeof *more);
            if (!more) return err_no_memory(err, capacity * sizeof *more, "the answer");
            to->at = more;
            to->capacity = capacity;
        }
        to->at[to->count++] = ids[i];
    }
    return QP_OK;
}

/* ---- probabilities ---- */

static void add_number(strbuf *b, const char *key, float value) {
    if (isfinite(value))
        strbuf_format(b, ", \"%s\": %.9g", key, (double)value);
    else
        strbuf_format(b, ", \"%s\": null", key); /* JSON has no infinity */
}

/* {"id", "text", "logprob", "p" and no closing brace. */
static qp_status add_candidate(strbuf *b, const qp_candidate *c, const qp_tokenizer *tokenizer, qp_error *err) {
    strbuf_format(b, "{\"id\": %d, \"text\": ", c->id);
    char *text = NULL;
    size_t bytes = 0;
    if (tokenizer && c->id < qp_tokenizer_size(tokenizer))
        ERR_TRY(qp_detokenize(tokenizer, &c->id, 1, 0, &text, &bytes, err));
    strbuf_json(b, text ? text : "", bytes);
    qp_free(text);
    add_number(b, "logprob", c->logprob);
    add_number(b, "p", c->p);
    return QP_OK;
}

static qp_status add_token(strbuf *b, const qp_token *t, const qp_tokenizer *tokenizer, qp_error *err) {
    const qp_candidate chosen = {t->id, t->p, t->logprob};
    if (b->bytes) strbuf_text(b, ", ");
    ERR_TRY(add_candidate(b, &chosen, tokenizer, err));
    strbuf_text(b, ", \"top\": [");
    for (int i = 0; i < t->n_top; i++) {
        if (i) strbuf_text(b, ", ");
        ERR_TRY(add_candidate(b, &t->top[i], tokenizer, err));
        strbuf_char(b, '}');
    }
    strbuf_text(b, "]}");
    return QP_OK;
}

qp_status answer_take(answer *a, const qp_event *event, const qp_tokenizer *tokenizer, qp_error *err) {
    ERR_TRY(keep_ids(&a->ids, event->ids, event->n_ids, err));
    for (size_t i = 0; event->tokens && i < event->n_ids; i++)
        ERR_TRY(add_token(&a->tokens, &event->tokens[i], tokenizer, err));
    strbuf_add(&a->text, event->text, event->text_bytes);
    ERR_TRY(strbuf_status(&a->tokens, err, "the probabilities"));
    ERR_TRY(strbuf_status(&a->text, err, "the answer"));
    if (event->kind != QP_EVENT_END) return QP_OK;
    a->end = *event;
    return keep_ids(&a->ids, event->held_ids, event->n_held_ids, err);
}

void answer_free(answer *a) {
    strbuf_free(&a->text);
    strbuf_free(&a->tokens);
    input_free_ids(&a->ids);
}

/* ---- the document ---- */

void answer_add_ids(strbuf *b, const char *key, const input_ids *ids) {
    strbuf_format(b, "\"%s\": [", key);
    for (size_t i = 0; i < ids->count; i++) strbuf_format(b, "%s%d", i ? ", " : "", ids->at[i]);
    strbuf_char(b, ']');
}

static void add_stop_reason(strbuf *b, const qp_event *end) {
    strbuf_text(b, "\"stop_reason\": ");
    if (end->finish == QP_FINISH_STOP && end->stop_text)
        strbuf_json(b, end->stop_text, strlen(end->stop_text));
    else if (end->finish == QP_FINISH_EOS && end->stop_id >= 0)
        strbuf_format(b, "%d", end->stop_id);
    else
        strbuf_text(b, "null");
}

void answer_add_content(strbuf *b, const answer *a, bool with_logprobs) {
    strbuf_text(b, "\"text\": ");
    strbuf_json(b, a->text.at ? a->text.at : "", a->text.bytes);
    strbuf_text(b, ", ");
    answer_add_ids(b, "ids", &a->ids);
    const bool is_eos = a->end.finish == QP_FINISH_EOS;
    strbuf_format(b, ", \"finish_reason\": \"%s\", ", is_eos ? "stop" : qp_finish_text(a->end.finish));
    add_stop_reason(b, &a->end);
    if (!with_logprobs) return;
    strbuf_text(b, ", \"logprobs\": [");
    strbuf_add(b, a->tokens.at ? a->tokens.at : "", a->tokens.bytes);
    strbuf_char(b, ']');
}

static double rate(double count, double seconds) { return count > 0 && seconds > 0 ? count / seconds : 0; }

/* The first new token comes out of the prompt's pass, so decoding made one less. */
double answer_decode_rate(const qp_job_stats *st) { return rate((double)st->new_tokens - 1, st->decode_s); }

double answer_prefill_rate(const qp_job_stats *st) {
    return rate((double)st->prompt_tokens - (double)st->cached_tokens, st->prefill_s);
}

void answer_add_figures(strbuf *b, const qp_job_stats *st) {
    strbuf_format(b, "\"usage\": {\"prompt_tokens\": %zu, \"cached_tokens\": %zu, \"completion_tokens\": %zu}, ",
                  st->prompt_tokens, st->cached_tokens, st->new_tokens);
    strbuf_format(b, "\"timing\": {\"queue_s\": %.9g, \"prefill_s\": %.9g, \"prefill_tok_s\": %.9g, ", st->queue_s,
                  st->prefill_s, answer_prefill_rate(st));
    strbuf_format(b, "\"first_token_s\": %.9g, \"decode_s\": %.9g, \"decode_tok_s\": %.9g, \"total_s\": %.9g}",
                  st->first_token_s, st->decode_s, answer_decode_rate(st), st->total_s);
}
