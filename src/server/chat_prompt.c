/* chat_prompt.c — messages, tools and variables become the ids of a prompt, and it is settled how the answer is read.
 *
 * Called by generate.c. The template decides about special tokens alone: what it writes is tokenised without adding
 * any, so that a prompt never begins with two of them. */
#include "base/mem.h"
#include <stdlib.h>
#include "generate.h"
#include "server.h"
#include "slog.h"

/* ---- variables ---- */

static bool set(json_t *input, const char *name, json_t *value, refusal *why) {
    return !json_object_set_new(input, name, value) || refuse_memory(why, name);
}

static bool set_span(json_t *input, const char *name, span text, refusal *why) {
    return !text.at || set(input, name, json_stringn(text.at, text.bytes), why);
}

static bool set_reasoning(json_t *input, const ask *a, refusal *why) {
    const json_t *reasoning = a->f.reasoning, *effort = json_object_get(reasoning, "effort");
    const json_t *enabled = json_object_get(reasoning, "enabled");
    span level = a->f.reasoning_effort;
    if (!level.at && json_is_string(effort)) level = (span){json_string_value(effort), json_string_length(effort)};
    int enable = a->f.enable_thinking;
    if (enable < 0 && json_is_boolean(enabled)) enable = json_is_true(enabled);
    if (enable < 0 && level.at && span_is(level, "none")) enable = 0;
    if (!set_span(input, "reasoning_effort", level, why) || !set_span(input, "verbosity", a->f.verbosity, why))
        return false;
    return enable < 0 || set(input, "enable_thinking", json_boolean(enable), why);
}

/* The client's own variables first: what follows wins over them. */
static bool make_input(json_t **out, const generation *g, const json_t *messages, bool continues, refusal *why) {
    const ask *a = &g->ask;
    json_t *input = json_object();
    *out = input;
    if (!input) return refuse_memory(why, "the conversation");
    if (a->f.kwargs && !json_is_object(a->f.kwargs))
        return field_wrong_kind(why, "chat_template_kwargs", a->f.kwargs, "an object");
    if (a->f.kwargs && json_object_update(input, (json_t *)a->f.kwargs)) return refuse_memory(why, "variables");
    json_object_del(input, "tools");
    json_object_del(input, "documents");
    if (!set_reasoning(input, a, why)) return false;
    if (json_object_set(input, "messages", (json_t *)messages)) return refuse_memory(why, "messages");
    if (a->tools && json_object_set(input, "tools", a->tools)) return refuse_memory(why, "tools");
    return set(input, "add_generation_prompt", json_boolean(a->f.add_generation_prompt && !continues), why) &&
           (!continues || set(input, "continue_final_message", json_true(), why));
}

/* ---- how the answer will be read ---- */

/* A copy of the messages that tells the model about its tools. */
static json_t *teach(const json_t *messages, const json_t *tools) {
    strbuf text = {0};
    char *list = json_dumps(tools, JSON_COMPACT);
    json_t *taught = json_copy((json_t *)messages);
    const json_t *first = json_array_get(messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    const bool has_system = role && !strcmp(role, "system");
    const json_t *content = json_object_get(first, "content");
    if (has_system) strbuf_add(&text, json_string_value(content), json_string_length(content));
    if (has_system) strbuf_text(&text, "\n\n");
    if (list) tool_format_teach(&text, span_of(list));
    json_t *system = json_pack("{s:s,s:s%}", "role", "system", "content", text.at ? text.at : "", text.bytes);
    const bool is_good = list && taught && system && !text.failed &&
                         !(has_system ? json_array_set(taught, 0, system) : json_array_insert(taught, 0, system));
    json_decref(system);
    strbuf_free(&text);
    free(list);
    if (is_good) return taught;
    json_decref(taught);
    return NULL;
}

static const tool_format *find_format(const generation *g, span source) {
    const server *s = g->request->server;
    const tool_format *found = tool_format_detect(source, g->model->tokenizer);
    if (s->config->tool_format) found = tool_format_find(s->config->tool_format);
    if (found && found->body == BODY_HARMONY) return found;
    if (!g->ask.tools) return NULL;
    if (found) return found;
    slog_say(s->log, QP_LOG_WARN, "request %s: the template's notation of tool calls is unknown; taking \"generic\"",
             g->request->id);
    return tool_format_find("generic");
}

static bool is_special(const generation *g, const char *piece) {
    bool special = false;
    const int32_t id = qp_token_id(g->model->tokenizer, piece);
    if (id >= 0) qp_token_piece(g->model->tokenizer, id, NULL, 0, &special);
    return special;
}

static void settle_speech(generation *g, span source, span prompt) {
    speech_setup *s = &g->setup.speech;
    s->tools = find_format(g, source);
    const bool is_harmony = s->tools && s->tools->body == BODY_HARMONY;
    s->thoughts = is_harmony ? NULL : thought_format_detect(source, g->model->tokenizer);
    s->starts_in_thought = s->thoughts && thought_is_open(s->thoughts, prompt);
    g->may_think = s->thoughts && !thought_is_closed(s->thoughts, prompt);
    s->is_single = !g->ask.f.parallel_tool_calls;
    s->tool_list = g->ask.tools;
    if (s->tools && s->tools->flags & TOOLS_SPECIAL) g->options.show_special = true;
    if (s->thoughts && is_special(g, s->thoughts->close)) g->options.show_special = true;
    if (!s->tools && !s->thoughts) return;
    s->stops = g->options.stop; /* only the text itself is looked through, not thoughts or calls */
    s->n_stops = g->options.n_stop;
    g->options.stop = NULL;
    g->options.n_stop = 0;
}

/* Formats of ours end with texts that are no tokens of the model. */
static bool add_format_stops(generation *g, refusal *why) {
    const char *name = g->chat_template->name;
    int n = 0;
    while (qp_template_builtin_stop(name, n)) n++;
    if (!n || strcmp(name, "from_model") == 0) return true;
    const char **all = arena_get(&g->ask.memory, g->options.n_stop + (size_t)n, sizeof *all);
    if (!all) return refuse_memory(why, "stop texts");
    for (size_t i = 0; i < g->options.n_stop; i++) all[i] = g->options.stop[i];
    for (int i = 0; i < n; i++) all[g->options.n_stop + (size_t)i] = qp_template_builtin_stop(name, i);
    g->options.stop = all;
    g->options.n_stop += (size_t)n;
    return true;
}

/* ---- the prompt ---- */

static bool ends_with_assistant(const json_t *messages) {
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    return role && !strcmp(role, "assistant") && !json_object_get(last, "tool_calls");
}

static bool render(generation *g, strbuf *prompt, span source, refusal *why) {
    const ask *a = &g->ask;
    const bool prefill = g->request->server->config->prefill_assistant && ends_with_assistant(a->messages);
    const bool teaches = a->tools && !tool_format_is_shown(source);
    json_t *taught = teaches ? teach(a->messages, a->tools) : NULL, *input = NULL;
    if (teaches && !taught) return refuse_memory(why, "tools");
    bool is_good = make_input(&input, g, teaches ? taught : a->messages, prefill || a->f.continue_final_message, why);
    char *written = is_good ? json_dumps(input, JSON_COMPACT) : NULL, *text = NULL;
    size_t bytes = 0;
    if (is_good && !written) is_good = refuse_memory(why, "the conversation");
    qp_error err = {0};
    const qp_status status =
        is_good ? qp_template_render(g->chat_template->parsed, written, strlen(written), &text, &bytes, NULL, &err)
                : QP_OK;
    if (status == QP_NO_MEMORY) is_good = refuse_memory(why, "the prompt");
    if (is_good && status != QP_OK) is_good = refuse(why, FAULT_TEMPLATE, "messages", "%s", err.text);
    if (is_good) strbuf_add(prompt, text, bytes);
    if (is_good && a->f.response_prefix.at) strbuf_add(prompt, a->f.response_prefix.at, a->f.response_prefix.bytes);
    if (is_good && prompt->failed) is_good = refuse_memory(why, "the prompt");
    qp_free(text);
    free(written);
    json_decref(input);
    json_decref(taught);
    return is_good;
}

static bool tokenize(generation *g, const strbuf *prompt, refusal *why) {
    qp_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    const qp_status status =
        qp_tokenize(g->model->tokenizer, prompt->at, prompt->bytes, QP_TOKENIZE_NO_SPECIAL, &ids, &n, &err);
    if (status != QP_OK) return refuse_status(why, status, "messages", &err);
    if (!n) {
        qp_free(ids);
        return refuse(why, FAULT_TEMPLATE, "messages", "messages: the template made no prompt of them");
    }
    if (!generate_reserve(g, 1, why)) return qp_free(ids), false;
    g->prompts[0] = (generate_prompt){.ids = ids, .n_ids = n};
    g->n_prompts = 1;
    return true;
}

bool chat_prompt_make(generation *g, refusal *why) {
    const span name = g->ask.f.prompt_template;
    qp_error err = {0};
    if (models_take_template(&g->chat_template, g->model, name.at, &err) != QP_OK)
        return refuse(why, FAULT_TEMPLATE, name.at ? "prompt_template" : NULL, "%s%s",
                      name.at ? "prompt_template: " : "", err.text);
    size_t bytes;
    const char *text = qp_template_peek_source(g->chat_template->parsed, &bytes);
    const span source = {text, bytes};
    strbuf prompt = {0};
    bool is_good = render(g, &prompt, source, why) && tokenize(g, &prompt, why) && add_format_stops(g, why);
    if (is_good) settle_speech(g, source, (span){prompt.at, prompt.bytes});
    strbuf_free(&prompt);
    return is_good;
}
