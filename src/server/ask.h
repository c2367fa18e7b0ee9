/* ask.h — what a request of /v1/chat/completions or /v1/completions asks for, read and checked.
 *
 * The other dialects translate their bodies into one of these two and are read here too. Everything lives until
 * ask_free: texts are borrowed from the body, lists are in the arena. */
#ifndef SERVER_ASK_H
#define SERVER_ASK_H

#include "gen_fields.h"

/* Members of both routes, then those of one. */
typedef struct ask_fields {
    bool stream, parallel_tool_calls, add_generation_prompt, continue_final_message, echo, parse_special;
    int enable_thinking; /* -1: not given */
    int64_t n, top_logprobs, reasoning_budget, best_of, truncate;
    double rep_pen_slope;
    span model, reasoning_effort, verbosity, prompt_template, response_prefix, reasoning_message, suffix;
    const json_t *stream_options, *logprobs, *messages, *tools, *tool_choice, *functions, *function_call;
    const json_t *response_format, *reasoning, *kwargs, *modalities, *prompt, *sampler_order;
} ask_fields;

extern const field_row ask_common_rows[], ask_chat_rows[], ask_text_rows[];
extern const size_t ask_common_count, ask_chat_count, ask_text_count;

typedef enum tool_choice { CHOOSE_NONE, CHOOSE_AUTO, CHOOSE_REQUIRED, CHOOSE_NAMED } tool_choice;

typedef struct ask {
    arena memory;
    json_t *body; /* held */
    gen_fields gen;
    field_report report;
    ask_fields f;
    bool include_usage, continuous_usage, wants_logprobs;
    int n_top;
    json_t *messages; /* as oai_messages_read makes them; NULL for completions */
    json_t *tools;    /* those that the model may call, [{"type","function"}]; NULL: none */
    tool_choice choice;
    const char *chosen; /* CHOOSE_NAMED */
    bool has_strict;    /* one of the tools wants its arguments constrained */
} ask;

/* ask_free is owed in any case. most_n: configuration's limit of choices. */
bool ask_read_chat(ask *a, json_t *body, int64_t most_n, refusal *why);
bool ask_read_text(ask *a, json_t *body, int64_t most_n, refusal *why);
void ask_free(ask *a);

/* tools.c: fills tools, choice, chosen, has_strict. */
bool ask_read_tools(ask *a, refusal *why);

#endif
