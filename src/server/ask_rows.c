/* ask_rows.c — the tables of the members of /v1/chat/completions and /v1/completions, besides those of gen_rows.c.
 *
 * Read by ask.c and by openapi.c. */
#include "ask.h"
#include <stddef.h>

#define AT(member) offsetof(ask_fields, member)
#define BOOL(name, member, standard, about)                                                                            \
    { name, FIELD_BOOL, 0, 1, standard, AT(member), 0, about }
#define TEXT(name, member, about)                                                                                      \
    { name, FIELD_TEXT, 0, 0, 0, AT(member), 0, about }
#define JSON(name, member, about)                                                                                      \
    { name, FIELD_JSON, 0, 0, 0, AT(member), 0, about }
#define IGNORED(name)                                                                                                  \
    { name, FIELD_NONE, 0, 0, 0, 0, 0, "Accepted and ignored." }

const field_row ask_common_rows[] = {
    TEXT("model", model, "Name of the loaded model, or anything."),
    BOOL("stream", stream, 0, "Answer as a stream of events."),
    JSON("stream_options", stream_options, "{include_usage, continuous_usage_stats}"),
    {"n", FIELD_INT, 1, 128, 1, AT(n), 0, "Choices of each prompt."},
    JSON("logprobs", logprobs, "Probabilities of tokens: true, or how many alternatives."),
    {"top_logprobs", FIELD_INT, 0, 20, -1, AT(top_logprobs), 0, "Alternatives of each token."},
    JSON("response_format", response_format, "text, json_object or json_schema."),
    IGNORED("user"),
    IGNORED("metadata"),
    IGNORED("store"),
    IGNORED("service_tier"),
    IGNORED("safety_identifier"),
    IGNORED("prompt_cache_key"),
    IGNORED("stream_token_by_token"),
};
const size_t ask_common_count = sizeof ask_common_rows / sizeof *ask_common_rows;

const field_row ask_chat_rows[] = {
    JSON("messages", messages, "The conversation."),
    JSON("tools", tools, "Functions that the model may call."),
    JSON("tool_choice", tool_choice, "none, auto, required or one function."),
    BOOL("parallel_tool_calls", parallel_tool_calls, 1, "Whether several calls may come in one answer."),
    JSON("functions", functions, "Old form of tools."),
    JSON("function_call", function_call, "Old form of tool_choice."),
    TEXT("reasoning_effort", reasoning_effort, "none, minimal, low, medium, high: given to the template."),
    JSON("reasoning", reasoning, "{effort, enabled, max_tokens}"),
    {"enable_thinking", FIELD_MAYBE, 0, 1, 0, AT(enable_thinking), 0, "Given to the template."},
    TEXT("verbosity", verbosity, "low, medium, high: given to the template."),
    {"reasoning_budget_tokens|reasoning_budget|thinking_budget|thinking_token_budget", FIELD_INT, -1, 1 << 30, -1,
     AT(reasoning_budget), 0, "Most tokens of reasoning; -1: no limit."},
    TEXT("reasoning_budget_message", reasoning_message, "Said when the budget is spent."),
    JSON("chat_template_kwargs|template_vars", kwargs, "Variables of the template."),
    TEXT("prompt_template", prompt_template, "Another template, by name."),
    BOOL("add_generation_prompt", add_generation_prompt, 1, "The prompt ends where the assistant begins to speak."),
    BOOL("continue_final_message", continue_final_message, 0, "The last message is continued."),
    TEXT("response_prefix", response_prefix, "How the answer begins; only what follows is returned."),
    JSON("modalities", modalities, "[\"text\"]"),
    IGNORED("prediction"),
    IGNORED("web_search_options"),
    IGNORED("audio"),
};
const size_t ask_chat_count = sizeof ask_chat_rows / sizeof *ask_chat_rows;

const field_row ask_text_rows[] = {
    JSON("prompt", prompt, "A text, texts, token ids or several arrays of them."),
    BOOL("echo", echo, 0, "The prompt stands before the answer."),
    TEXT("suffix", suffix, "What comes after the answer: fill in the middle."),
    {"best_of", FIELD_INT, 1, 128, 1, AT(best_of), 0, "1, or the same as n."},
    BOOL("parse_special", parse_special, 1, "Special tokens in the prompt's text are read as such."),
    {"truncate_prompt_tokens", FIELD_INT, 0, 1 << 30, 0, AT(truncate), 0,
     "Only the last tokens of a text, so many, are the prompt (the bos token stays); 0: all."},
    {"sampler_order", FIELD_JSON, 0, 0, 0, AT(sampler_order), FIELD_UNBUILT, "KoboldAI: the order of the stages."},
    {"rep_pen_slope", FIELD_REAL, 0, 100, 1, AT(rep_pen_slope), FIELD_LOOSE | FIELD_UNBUILT,
     "KoboldAI: how the repetition penalty grows towards the end."},
};
const size_t ask_text_count = sizeof ask_text_rows / sizeof *ask_text_rows;
