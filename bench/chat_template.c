/* chat_template.c — how fast a chat template is parsed and a long conversation rendered; JSON lines on the standard
 * output.
 *
 *     bench_chat_template [TEMPLATE.jinja] [REPEATS]      without a file: two templates of our own
 *
 * 100 messages of about 400 characters; the tool template also has tool calls, results and three tools. Medians of
 * REPEATS (31) with the least and the greatest; one thread, processor time, the clock stopped when the text is whole.
 * The hash of the text shows whether two runs rendered the same. The goal is 1 ms a rendering. */
#include "figures.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/chat.h"
#include "text/tmpl.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_REPEATS = 999, N_MESSAGES = 100 };

/* In the manner of Llama 3: dates, a system prompt, tools in the first user message. */
static const char plain_template[] =
    "{{- bos_token }}{%- if not tools is defined %}{%- set tools = none %}{%- endif %}"
    "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}{%- set messages "
    "= messages[1:] %}"
    "{%- else %}{%- set system_message = '' %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}{{- 'Today: ' + strftime_now('%d %b %Y') + '\\n\\n' "
    "}}{{- system_message }}{{- '<|eot_id|>' }}"
    "{%- for message in messages %}"
    "{%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + "
    "'<|eot_id|>' }}"
    "{%- elif 'tool_calls' in message %}{%- if not message.tool_calls|length == 1 %}{{- raise_exception('one call at a "
    "time') }}{%- endif %}"
    "{%- set call = message.tool_calls[0].function %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}"
    "{{- '{\"name\": \"' + call.name + '\", \"parameters\": ' }}{{- call.arguments | tojson }}{{- '}<|eot_id|>' }}"
    "{%- else %}{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}"
    "{%- if message.content is mapping or (message.content is iterable and message.content is not string) %}{{- "
    "message.content | tojson }}"
    "{%- else %}{{- message.content }}{%- endif %}{{- '<|eot_id|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}";

/* In the manner of tool-using models: schemas as JSON, macros, a namespace, a look back for the last question. */
static const char tool_template[] =
    "{%- macro show(content) %}{%- if content is string %}{{- content }}{%- elif content is not none %}{%- for part in "
    "content %}{{- part.text }}{%- endfor %}{%- endif %}{%- endmacro %}"
    "{%- if tools %}{{- '<|im_start|>system\\n' }}{%- if messages[0].role == 'system' %}{{- show(messages[0].content) "
    "+ '\\n\\n' }}{%- endif %}"
    "{{- '# Tools\\n<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}{{- "
    "'\\n</tools><|im_end|>\\n' }}{%- endif %}"
    "{%- set ns = namespace(last=messages|length - 1, searching=true) %}"
    "{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}"
    "{%- if ns.searching and message.role == 'user' and not (show(message.content).startswith('<tool_response>')) "
    "%}{%- set ns.searching = false %}{%- set ns.last = index %}{%- endif %}{%- endfor %}"
    "{%- for message in messages %}{%- set content = show(message.content) | trim %}"
    "{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}{{- '<|im_start|>' + "
    "message.role + '\\n' + content + '<|im_end|>\\n' }}"
    "{%- elif message.role == 'assistant' %}{%- set reasoning = '' %}"
    "{%- if message.reasoning_content is string %}{%- set reasoning = message.reasoning_content %}"
    "{%- elif '</think>' in content %}{%- set reasoning = "
    "content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- set content = "
    "content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}"
    "{%- if loop.index0 > ns.last %}{{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + "
    "'\\n</think>\\n\\n' + content.lstrip('\\n') }}{%- else %}{{- '<|im_start|>assistant\\n' + content }}{%- endif %}"
    "{%- if message.tool_calls %}{%- for tool_call in message.tool_calls %}{%- if (loop.first and content) or (not "
    "loop.first) %}{{- '\\n' }}{%- endif %}"
    "{%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}{{- '<tool_call>\\n{\"name\": "
    "\"' }}{{- tool_call.name }}{{- '\", \"arguments\": ' }}"
    "{%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson "
    "}}{%- endif %}{{- '}\\n</tool_call>' }}{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}"
    "{%- elif message.role == 'tool' %}{%- if loop.first or (messages[loop.index0 - 1].role != 'tool') %}{{- "
    "'<|im_start|>user' }}{%- endif %}{{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}"
    "{%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}{{- '<|im_end|>\\n' }}{%- endif %}{%- endif "
    "%}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

static void check(qp_status status, const qp_error *err) {
    if (status == QP_OK) return;
    fprintf(stderr, "bench_chat_template: %s\n", err->text);
    exit(1);
}

static json_t *long_text(int seed) {
    strbuf b = {0};
    for (int i = 0; i < 60; i++) strbuf_format(&b, "word%d%s", (seed * 31 + i * 7) % 97, i % 9 ? " " : ".\n");
    json_t *text = json_stringn(b.at, b.bytes);
    strbuf_free(&b);
    return text;
}

/* user, assistant, user, assistant with a call, tool, ... */
static json_t *conversation(bool with_tools) {
    json_t *messages = json_array(), *tools = json_array();
    json_array_append_new(messages, json_pack("{s:s,s:o}", "role", "system", "content", long_text(0)));
    for (int i = 1; i < N_MESSAGES; i++) {
        const int turn = with_tools ? i % 4 : i % 2;
        json_t *m = json_pack("{s:s,s:o}", "role",
                              turn == 1   ? "user"
                              : turn == 3 ? "tool"
                                          : "assistant",
                              "content", long_text(i));
        if (turn == 2)
            json_object_set_new(m, "tool_calls",
                                json_pack("[{s:s,s:{s:s,s:{s:s,s:i,s:[f,b]}}}]", "type", "function", "function", "name",
                                          "search", "arguments", "query", "what is it", "limit", i, "flags", 0.5, 1));
        json_array_append_new(messages, m);
    }
    for (int i = 0; with_tools && i < 3; i++)
        json_array_append_new(tools, json_pack("{s:s,s:{s:s,s:s,s:{s:s,s:{s:{s:s,s:s},s:{s:s}},s:[s]}}}", "type",
                                               "function", "function", "name", "search", "description",
                                               "Finds things in a large pile of other things.", "parameters", "type",
                                               "object", "properties", "query", "type", "string", "description",
                                               "what to look for", "limit", "type", "integer", "required", "query"));
    json_t *input = json_pack("{s:o,s:b,s:i,s:{s:s,s:s}}", "messages", messages, "add_generation_prompt", 1, "now",
                              1721997296, "tokens", "bos_token", "<s>", "eos_token", "</s>");
    if (with_tools) json_object_set(input, "tools", tools);
    json_decref(tools);
    return input;
}

static void report(const char *what, double *seconds, int n) {
    figures_sort(seconds, (size_t)n);
    printf("\"%s_ms\": {\"median\": %.4f, \"least\": %.4f, \"greatest\": %.4f}", what, seconds[n / 2] * 1e3,
           seconds[0] * 1e3, seconds[n - 1] * 1e3);
}

static void measure(const char *name, span source, bool with_tools, int repeats) {
    double parsing[MAX_REPEATS], rendering[MAX_REPEATS];
    qp_error err = {0};
    chat *c;
    tmpl *t;
    json_t *input = conversation(with_tools);
    strbuf out = {0};
    check(chat_new(&c, source, &err), &err);
    for (int i = 0; i < repeats; i++) {
        double begin = figures_thread_seconds();
        check(tmpl_new(&t, source, &err), &err);
        parsing[i] = figures_thread_seconds() - begin;
        tmpl_free(t);
        strbuf_clear(&out);
        begin = figures_thread_seconds();
        check(chat_render(c, input, &out, NULL, &err), &err);
        rendering[i] = figures_thread_seconds() - begin;
    }
    printf("{\"template\": \"%s\", \"source_bytes\": %zu, \"messages\": %d, \"text_bytes\": %zu, ", name, source.bytes,
           N_MESSAGES, out.bytes);
    report("parse", parsing, repeats);
    printf(", ");
    report("render", rendering, repeats);
    printf(", \"hash\": \"%016llx\"}\n", (unsigned long long)hash_bytes(out.at, out.bytes, 0));
    strbuf_free(&out);
    json_decref(input);
    chat_free(c);
}

int main(int argc, char **argv) {
    int repeats = argc > 2 ? atoi(argv[2]) : 31;
    char *source;
    size_t bytes;
    qp_error err;
    if (repeats < 1 || repeats > MAX_REPEATS) repeats = 31;
    if (argc > 1) {
        check(file_read(&source, &bytes, argv[1], 8 << 20, &err), &err);
        measure(argv[1], (span){source, bytes}, true, repeats);
        mem_free(source);
        return 0;
    }
    measure("plain", SPAN(plain_template), false, repeats);
    measure("tools", SPAN(tool_template), true, repeats);
    return 0;
}
