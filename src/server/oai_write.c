/* oai_write.c — pieces that the writers of OpenAI's dialects share. */
#include "oai_write.h"

static void write_candidate(turn *t, strbuf *out, int32_t id, float logprob, unsigned cut) {
    strbuf_text(out, "{\"token\":");
    turn_write_token(t, out, id, cut, false);
    strbuf_format(out, ",\"token_id\":%d,\"logprob\":", id);
    json_out_logprob(out, logprob);
    strbuf_text(out, ",\"bytes\":");
    turn_write_token(t, out, id, cut, true);
}

void oai_write_logprobs(turn *t, strbuf *out, const turn_token *tokens, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const turn_token *token = &tokens[i];
        if (i) strbuf_char(out, ',');
        write_candidate(t, out, token->id, token->logprob, token->cut);
        strbuf_text(out, ",\"top_logprobs\":[");
        for (int k = 0; k < token->n_top; k++) {
            if (k) strbuf_char(out, ',');
            const bool is_same = token->top[k].id == token->id;
            write_candidate(t, out, token->top[k].id, token->top[k].logprob, is_same ? token->cut : 0);
            strbuf_char(out, '}');
        }
        strbuf_text(out, "]}");
    }
}

static void write_rate(strbuf *out, double rate) { rate < 0 ? strbuf_text(out, "null") : json_out_real(out, rate); }

void oai_write_usage(const turn *t, strbuf *out) {
    const turn_usage u = turn_count(t);
    strbuf_format(out, "{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,", u.prompt_tokens,
                  u.completion_tokens, u.prompt_tokens + u.completion_tokens);
    strbuf_format(out, "\"prompt_tokens_details\":{\"cached_tokens\":%zu},", u.cached_tokens);
    strbuf_format(out, "\"completion_tokens_details\":{\"reasoning_tokens\":%zu,", u.thought_tokens);
    strbuf_text(out, "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0},\"prompt_time\":");
    json_out_real(out, u.prompt_s);
    strbuf_text(out, ",\"prompt_tokens_per_sec\":");
    write_rate(out, u.prompt_rate);
    strbuf_text(out, ",\"completion_time\":");
    json_out_real(out, u.completion_s);
    strbuf_text(out, ",\"completion_tokens_per_sec\":");
    write_rate(out, u.completion_rate);
    strbuf_text(out, ",\"total_time\":");
    json_out_real(out, u.total_s);
    strbuf_char(out, '}');
}

void oai_write_reasons(const turn *t, const turn_choice *c, strbuf *out) {
    const turn_end *end = &c->end;
    if (t->setup.is_stream && !strcmp(end->eos_reason, "stop_token")) return;
    strbuf_text(out, ",\"stop_reason\":");
    if (!end->stop_text && end->stop_id >= 0)
        strbuf_format(out, "%d", end->stop_id);
    else
        json_out_text(out, end->stop_text);
    strbuf_format(out, ",\"eos_reason\":\"%s\"", end->eos_reason);
}

static void write_timing(strbuf *out, const char *kind, size_t n, double seconds) {
    strbuf_format(out, "\"%s_n\":%zu,\"%s_ms\":", kind, n, kind);
    json_out_real(out, seconds * 1e3);
    strbuf_format(out, ",\"%s_per_token_ms\":", kind);
    json_out_real(out, n ? seconds * 1e3 / (double)n : 0);
    strbuf_format(out, ",\"%s_per_second\":", kind);
    json_out_real(out, seconds > 0 ? (double)n / seconds : 0);
}

void oai_write_timings(const turn_choice *c, strbuf *out) {
    const qp_job_stats *s = &c->stats;
    strbuf_format(out, ",\"timings\":{\"cache_n\":%zu,", s->cached_tokens);
    write_timing(out, "prompt", s->prompt_tokens - s->cached_tokens, s->prefill_s);
    strbuf_char(out, ',');
    write_timing(out, "predicted", c->n_tokens, s->decode_s);
    strbuf_char(out, '}');
}

void oai_write_ids(const turn_choice *c, strbuf *out) {
    if (!c->turn->setup.return_ids) return;
    strbuf_text(out, ",\"token_ids\":[");
    for (size_t i = 0; i < c->n_ids; i++) strbuf_format(out, "%s%d", i ? "," : "", c->ids[i]);
    strbuf_char(out, ']');
}

void oai_write_head(const turn *t, strbuf *out, const char *object) {
    strbuf_text(out, "\"id\":");
    json_out_text(out, t->id);
    strbuf_format(out, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object, (long long)t->setup.created);
    json_out_text(out, t->model);
    strbuf_text(out, ",\"system_fingerprint\":");
    json_out_text(out, t->fingerprint);
}

void oai_start_chunk(turn *t, const char *object) {
    if (!t->chunk_head.bytes) {
        turn_start_event(t, NULL);
        strbuf_char(&t->event, '{');
        oai_write_head(t, &t->event, object);
        strbuf_text(&t->event, ",\"choices\":[");
        strbuf_add(&t->chunk_head, t->event.at, t->event.bytes);
        if (t->event.failed || t->chunk_head.failed) t->failed = true;
    }
    strbuf_clear(&t->event);
    strbuf_add(&t->event, t->chunk_head.at, t->chunk_head.bytes);
}

void oai_end_stream(turn *t, const char *object) {
    if (t->setup.include_usage) {
        oai_start_chunk(t, object);
        strbuf_text(&t->event, "],\"usage\":");
        oai_write_usage(t, &t->event);
        strbuf_char(&t->event, '}');
        turn_send(t);
    }
    turn_start_event(t, NULL);
    strbuf_text(&t->event, "[DONE]");
    turn_send(t);
}
