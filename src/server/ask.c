/* ask.c — reads what a generation request asks for.
 *
 * Called by the handlers of all dialects, on a worker's thread. Three tables say most of it; here is what one member
 * says about another. */
#include "ask.h"
#include "oai_messages.h"

/* ---- members of both routes ---- */

static bool read_stream_options(ask *a, refusal *why) {
    const json_t *o = a->f.stream_options;
    if (!o) return true;
    if (!json_is_object(o)) return field_wrong_kind(why, "stream_options", o, "an object");
    a->include_usage = json_is_true(json_object_get(o, "include_usage"));
    a->continuous_usage = json_is_true(json_object_get(o, "continuous_usage_stats"));
    return true;
}

static bool set_top(ask *a, const json_t *value, refusal *why) {
    const json_int_t n = json_integer_value(value);
    if (n < 0 || n > 20)
        return refuse(why, FAULT_BAD_REQUEST, "logprobs", "logprobs: found %lld, allowed are 0 to 20", (long long)n);
    a->wants_logprobs = true;
    a->n_top = (int)n;
    return true;
}

static bool read_logprobs(ask *a, refusal *why) {
    const json_t *value = a->f.logprobs;
    if (json_is_integer(value)) return set_top(a, value, why);
    if (value && !json_is_boolean(value))
        return field_wrong_kind(why, "logprobs", value, "true, false or a number of alternatives");
    a->wants_logprobs = json_is_true(value);
    if (a->f.top_logprobs > 0 && !a->wants_logprobs)
        return refuse(why, FAULT_BAD_REQUEST, "top_logprobs", "top_logprobs: found %lld, it needs logprobs: true",
                      (long long)a->f.top_logprobs);
    if (a->wants_logprobs && a->f.top_logprobs > 0) a->n_top = (int)a->f.top_logprobs;
    return true;
}

static bool read_common(ask *a, json_t *body, int64_t most_n, const field_row *rows, size_t count, refusal *why) {
    *a = (ask){.body = json_incref(body)};
    field_report extra = {{0}};
    if (!gen_fields_read(&a->gen, body, &a->memory, &a->report, why) ||
        !field_read(&a->f, ask_common_rows, ask_common_count, body, &a->memory, NULL, why) ||
        !field_read(&a->f, rows, count, body, &a->memory, &extra, why))
        return false;
    if (*extra.unbuilt) field_note(&a->report, extra.unbuilt);
    if (a->f.n > most_n)
        return refuse(why, FAULT_BAD_REQUEST, "n", "n: found %lld, allowed are 1 to %lld", (long long)a->f.n,
                      (long long)most_n);
    return read_stream_options(a, why) && read_logprobs(a, why);
}

/* ---- one route each ---- */

static bool read_modalities(const ask *a, refusal *why) {
    size_t i;
    json_t *item;
    if (a->f.modalities && !json_is_array(a->f.modalities))
        return field_wrong_kind(why, "modalities", a->f.modalities, "an array");
    json_array_foreach(a->f.modalities, i,
                       item) if (!json_is_string(item) ||
                                 strcmp(json_string_value(item),
                                        "text")) return refuse(why, FAULT_PARAMETER, "modalities",
                                                               "modalities: this model answers with text alone");
    return true;
}

bool ask_read_chat(ask *a, json_t *body, int64_t most_n, refusal *why) {
    return read_common(a, body, most_n, ask_chat_rows, ask_chat_count, why) && read_modalities(a, why) &&
           oai_messages_read(&a->messages, a->f.messages, "messages", why) && ask_read_tools(a, why);
}

bool ask_read_text(ask *a, json_t *body, int64_t most_n, refusal *why) {
    if (!read_common(a, body, most_n, ask_text_rows, ask_text_count, why)) return false;
    if (a->f.best_of != 1 && a->f.best_of != a->f.n)
        return refuse(why, FAULT_PARAMETER, "best_of", "best_of: found %lld, allowed are 1 and n (%lld)",
                      (long long)a->f.best_of, (long long)a->f.n);
    if (a->f.echo && a->f.suffix.at)
        return refuse(why, FAULT_BAD_REQUEST, "suffix", "suffix: the answer stands before it, so echo has no meaning");
    return true;
}

void ask_free(ask *a) {
    json_decref(a->messages);
    json_decref(a->tools);
    json_decref(a->body);
    arena_free(&a->memory);
}
