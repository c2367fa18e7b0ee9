/* tool_format.c — how models write calls of tools and thoughts.
 *
 * Called by chat_model.c once for each template, and by speech.c. A new notation is one row here; only a new kind of
 * body is code. More particular rows stand before those whose clues they contain. */
#include "tool_format.h"

static const tool_format formats[] = {
    {"harmony",
     BODY_HARMONY,
     TOOLS_SPECIAL,
     {"", ""},
     {"", ""},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<|channel|>", "<|message|>", "functions."}},
    {"kimi",
     BODY_NAMED,
     TOOLS_SPECIAL,
     {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
     {"<|tool_call_begin|>", "<|tool_call_end|>"},
     "",
     "<|tool_call_argument_begin|>",
     {"", ""},
     {"", ""},
     {"<|tool_call_argument_begin|>"}},
    {"deepseek-dsml",
     BODY_PARAMS,
     TOOLS_SPECIAL,
     {"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"},
     {"<｜DSML｜invoke name=\"", "</｜DSML｜invoke>"},
     "",
     "\">",
     {"<｜DSML｜parameter name=\"", "\""},
     {">", "</｜DSML｜parameter>"},
     {"｜DSML｜", "function_calls"}},
    {"deepseek-r1",
     BODY_NAMED,
     TOOLS_SPECIAL,
     {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"},
     "<｜tool▁sep｜>",
     "\n",
     {"", ""},
     {"", ""},
     {"<｜tool▁call▁begin｜>", "```json"}},
    {"deepseek-v3",
     BODY_NAMED,
     TOOLS_SPECIAL,
     {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"},
     "",
     "<｜tool▁sep｜>",
     {"", ""},
     {"", ""},
     {"<｜tool▁call▁begin｜>"}},
    {"seed",
     BODY_PARAMS,
     TOOLS_TRIM | TOOLS_SPECIAL,
     {"<seed:tool_call>", "</seed:tool_call>"},
     {"<function=", "</function>"},
     "",
     ">",
     {"<parameter=", ">"},
     {"", "</parameter>"},
     {"<seed:tool_call>"}},
    {"qwen-coder",
     BODY_PARAMS,
     TOOLS_TRIM,
     {"<tool_call>", "</tool_call>"},
     {"<function=", "</function>"},
     "",
     ">",
     {"<parameter=", ">"},
     {"", "</parameter>"},
     {"<tool_call>", "<function=", "<parameter="}},
    {"glm",
     BODY_PARAMS,
     TOOLS_LINE,
     {"", ""},
     {"<tool_call>", "</tool_call>"},
     "",
     "<arg_key>",
     {"<arg_key>", "</arg_key>"},
     {"<arg_value>", "</arg_value>"},
     {"<tool_call>", "<arg_key>"}},
    {"atem",
     BODY_PARAMS,
     0,
     {"<atem:function_calls>", "</atem:function_calls>"},
     {"<atem:invoke name=\"", "</atem:invoke>"},
     "",
     "\">",
     {"<atem:parameter name=\"", "\""},
     {">", "</atem:parameter>"},
     {"<atem:invoke"}},
    {"minimax",
     BODY_PARAMS,
     TOOLS_SPECIAL,
     {"<minimax:tool_call>", "</minimax:tool_call>"},
     {"<invoke name=\"", "</invoke>"},
     "",
     "\">",
     {"<parameter name=\"", "\""},
     {">", "</parameter>"},
     {"<minimax:tool_call>"}},
    {"functionary",
     BODY_NAMED,
     TOOLS_SPECIAL,
     {"", ""},
     {"<function=", "</function>"},
     "",
     ">",
     {"", ""},
     {"", ""},
     {"<function=", "</function>"}},
    {"nemotron",
     BODY_JSON,
     TOOLS_SPECIAL,
     {"", ""},
     {"<TOOLCALL>", "</TOOLCALL>"},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<TOOLCALL>"}},
    {"apriel",
     BODY_JSON,
     0,
     {"", ""},
     {"<tool_calls>", "</tool_calls>"},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<tool_calls>["}},
    {"hermes", BODY_JSON, 0, {"", ""}, {"<tool_call>", "</tool_call>"}, "", "", {"", ""}, {"", ""}, {"<tool_call>"}},
    {"mistral-args",
     BODY_NAMED,
     TOOLS_SPECIAL,
     {"", ""},
     {"[TOOL_CALLS]", ""},
     "",
     "[ARGS]",
     {"", ""},
     {"", ""},
     {"[TOOL_CALLS]", "[ARGS]"}},
    {"mistral", BODY_JSON, TOOLS_SPECIAL, {"", ""}, {"[TOOL_CALLS]", ""}, "", "", {"", ""}, {"", ""}, {"[TOOL_CALLS]"}},
    {"apertus",
     BODY_KEYED,
     TOOLS_SPECIAL,
     {"", ""},
     {"<|tools_prefix|>", "<|tools_suffix|>"},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<|tools_prefix|>"}},
    {"command-r",
     BODY_JSON,
     0,
     {"", ""},
     {"Action:\n```json", "```"},
     "",
     "",
     {"", ""},
     {"", ""},
     {"Action:", "tool_name"}},
    {"command-a",
     BODY_JSON,
     TOOLS_SPECIAL,
     {"", ""},
     {"<|START_ACTION|>", "<|END_ACTION|>"},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<|START_ACTION|>"}},
    {"lfm2",
     BODY_PYTHON,
     TOOLS_SPECIAL,
     {"", ""},
     {"<|tool_call_start|>", "<|tool_call_end|>"},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<|tool_list_start|>"}},
    {"llama4",
     BODY_PYTHON,
     TOOLS_BARE | TOOLS_SPECIAL,
     {"", ""},
     {"<|python_start|>", "<|python_end|>"},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<|python_start|>"}},
    {"granite",
     BODY_JSON,
     TOOLS_SPECIAL,
     {"", ""},
     {"<|tool_call|>", ""},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<|tool_call|>"}},
    {"gigachat",
     BODY_JSON,
     TOOLS_SPECIAL,
     {"", ""},
     {"function call<|role_sep|>\n", ""},
     "",
     "",
     {"", ""},
     {"", ""},
     {"<|role_sep|>", "function call"}},
    {"llama3",
     BODY_JSON,
     TOOLS_BARE | TOOLS_SPECIAL,
     {"", ""},
     {"<|python_tag|>", ""},
     "",
     "",
     {"", ""},
     {"", ""},
     {"\"parameters\"", "<|start_header_id|>"}},
    {"generic",
     BODY_JSON,
     TOOLS_BARE,
     {"", ""},
     {"<tool_call>", "</tool_call>"},
     "",
     "",
     {"", ""},
     {"", ""},
     {"@\nno token is called like this"}},
};

static const thought_format thoughts[] = {
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"<thinking>", "</thinking>"},
    {"<reasoning>", "</reasoning>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought", "<channel|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<|begin_of_thought|>", "<|end_of_thought|>"},
};

enum { N_FORMATS = sizeof formats / sizeof *formats, N_THOUGHTS = sizeof thoughts / sizeof *thoughts };

static bool has(span text, const char *piece) {
    return text.bytes && memmem(text.at, text.bytes, piece, strlen(piece)) != NULL;
}

static bool fits(const tool_format *f, span source, const qp_tokenizer *tokenizer) {
    for (int i = 0; i < 3 && f->clues[i]; i++) {
        const char *clue = f->clues[i];
        if (*clue == '@' ? !tokenizer || qp_token_id(tokenizer, clue + 1) < 0 : !has(source, clue)) return false;
    }
    return true;
}

const tool_format *tool_format_detect(span source, const qp_tokenizer *tokenizer) {
    for (int i = 0; i < N_FORMATS; i++)
        if (fits(&formats[i], source, tokenizer)) return &formats[i];
    return NULL;
}

const tool_format *tool_format_find(const char *name) {
    for (int i = 0; i < N_FORMATS; i++)
        if (!strcmp(formats[i].name, name)) return &formats[i];
    return NULL;
}

const tool_format *tool_format_row(int index) { return index >= 0 && index < N_FORMATS ? &formats[index] : NULL; }

const thought_format *thought_format_detect(span source, const qp_tokenizer *tokenizer) {
    for (int i = 0; i < N_THOUGHTS; i++)
        if (has(source, thoughts[i].close)) return &thoughts[i];
    for (int i = 0; tokenizer && i < N_THOUGHTS; i++)
        if (qp_token_id(tokenizer, thoughts[i].open) >= 0 && qp_token_id(tokenizer, thoughts[i].close) >= 0)
            return &thoughts[i];
    return NULL;
}

bool thought_is_open(const thought_format *f, span prompt) {
    while (prompt.bytes && strchr(" \t\r\n", prompt.at[prompt.bytes - 1])) prompt.bytes--;
    const size_t bytes = strlen(f->open);
    return prompt.bytes >= bytes && !memcmp(prompt.at + prompt.bytes - bytes, f->open, bytes);
}

bool tool_format_is_shown(span source) { return has(source, "tools"); }

void tool_format_teach(strbuf *out, span tools) {
    strbuf_text(out, "You can call functions. These are described by a JSON array:\n");
    strbuf_add(out, tools.at, tools.bytes);
    strbuf_text(out, "\nTo call one, write a JSON object with its name and arguments between <tool_call> and "
                     "</tool_call>, like this:\n<tool_call>{\"name\": \"...\", \"arguments\": {...}}</tool_call>\n"
                     "Results come back as messages of the role tool.");
}
