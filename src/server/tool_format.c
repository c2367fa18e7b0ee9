/* tool_format.c — how models write calls of tools and thoughts.
 *
 * Called by chat_model.c once for each template, and by speech.c. A new notation is one row here; only a new kind of
 * body is code. More particular rows stand before those whose clues they contain. */
#include "tool_format.h"

static const tool_format formats[] = {
    {.name = "harmony",
     .body = BODY_HARMONY,
     .flags = TOOLS_SPECIAL,
     .clues = {"<|channel|>", "<|message|>", "functions."}},
    {.name = "kimi",
     .body = BODY_NAMED,
     .flags = TOOLS_SPECIAL | TOOLS_COUNTED,
     .section = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
     .call = {"<|tool_call_begin|>", "<|tool_call_end|>"},
     .after_name = "<|tool_call_argument_begin|>",
     .spell = {"functions.", "<|tool_call_argument_begin|>", ""},
     .clues = {"<|tool_call_argument_begin|>"}},
    {.name = "deepseek-dsml",
     .body = BODY_PARAMS,
     .flags = TOOLS_SPECIAL | TOOLS_MARKED,
     .section = {"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"},
     .call = {"<｜DSML｜invoke name=\"", "</｜DSML｜invoke>"},
     .after_name = "\">",
     .key = {"<｜DSML｜parameter name=\"", "\""},
     .value = {">", "</｜DSML｜parameter>"},
     .clues = {"｜DSML｜", "function_calls"}},
    {.name = "deepseek-r1",
     .body = BODY_NAMED,
     .flags = TOOLS_SPECIAL,
     .section = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     .call = {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"},
     .before_name = "<｜tool▁sep｜>",
     .after_name = "\n",
     .spell = {"function<｜tool▁sep｜>", "\n```json\n", "\n```"},
     .clues = {"<｜tool▁call▁begin｜>", "```json"}},
    {.name = "deepseek-v3",
     .body = BODY_NAMED,
     .flags = TOOLS_SPECIAL,
     .section = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     .call = {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"},
     .after_name = "<｜tool▁sep｜>",
     .clues = {"<｜tool▁call▁begin｜>"}},
    {.name = "seed",
     .body = BODY_PARAMS,
     .flags = TOOLS_TRIM | TOOLS_SPECIAL,
     .section = {"<seed:tool_call>", "</seed:tool_call>"},
     .call = {"<function=", "</function>"},
     .after_name = ">",
     .key = {"<parameter=", ">"},
     .value = {"", "</parameter>"},
     .clues = {"<seed:tool_call>"}},
    {.name = "qwen-coder",
     .body = BODY_PARAMS,
     .flags = TOOLS_TRIM,
     .section = {"<tool_call>", "</tool_call>"},
     .call = {"<function=", "</function>"},
     .after_name = ">",
     .key = {"<parameter=", ">"},
     .value = {"", "</parameter>"},
     .clues = {"<tool_call>", "<function=", "<parameter="}},
    {.name = "glm",
     .body = BODY_PARAMS,
     .flags = TOOLS_LINE,
     .call = {"<tool_call>", "</tool_call>"},
     .after_name = "<arg_key>",
     .key = {"<arg_key>", "</arg_key>"},
     .value = {"<arg_value>", "</arg_value>"},
     .clues = {"<tool_call>", "<arg_key>"}},
    {.name = "atem",
     .body = BODY_PARAMS,
     .section = {"<atem:function_calls>", "</atem:function_calls>"},
     .call = {"<atem:invoke name=\"", "</atem:invoke>"},
     .after_name = "\">",
     .key = {"<atem:parameter name=\"", "\""},
     .value = {">", "</atem:parameter>"},
     .clues = {"<atem:invoke"}},
    {.name = "minimax",
     .body = BODY_PARAMS,
     .flags = TOOLS_SPECIAL,
     .section = {"<minimax:tool_call>", "</minimax:tool_call>"},
     .call = {"<invoke name=\"", "</invoke>"},
     .after_name = "\">",
     .key = {"<parameter name=\"", "\""},
     .value = {">", "</parameter>"},
     .clues = {"<minimax:tool_call>"}},
    {.name = "functionary",
     .body = BODY_NAMED,
     .flags = TOOLS_SPECIAL,
     .call = {"<function=", "</function>"},
     .after_name = ">",
     .clues = {"<function=", "</function>"}},
    {.name = "nemotron",
     .body = BODY_JSON,
     .flags = TOOLS_SPECIAL,
     .call = {"<TOOLCALL>", "</TOOLCALL>"},
     .list = {"[", ", ", "]"},
     .clues = {"<TOOLCALL>"}},
    {.name = "apriel",
     .body = BODY_JSON,
     .call = {"<tool_calls>", "</tool_calls>"},
     .list = {"[", ", ", "]"},
     .clues = {"<tool_calls>["}},
    {.name = "gemma4",
     .body = BODY_GEMMA,
     .flags = TOOLS_SPECIAL,
     .call = {"<|tool_call>call:", "<tool_call|>"},
     .after_name = "{",
     .clues = {"<|tool_call>", "<|\"|>"}},
    {.name = "hermes", .body = BODY_JSON, .call = {"<tool_call>", "</tool_call>"}, .clues = {"<tool_call>"}},
    {.name = "mistral-args",
     .body = BODY_NAMED,
     .flags = TOOLS_SPECIAL,
     .call = {"[TOOL_CALLS]", ""},
     .after_name = "[ARGS]",
     .clues = {"[TOOL_CALLS]", "[ARGS]"}},
    {.name = "mistral",
     .body = BODY_JSON,
     .flags = TOOLS_SPECIAL,
     .call = {"[TOOL_CALLS]", ""},
     .list = {"[", ", ", "]"},
     .clues = {"[TOOL_CALLS]"}},
    {.name = "apertus",
     .body = BODY_KEYED,
     .flags = TOOLS_SPECIAL,
     .call = {"<|tools_prefix|>", "<|tools_suffix|>"},
     .clues = {"<|tools_prefix|>"}},
    {.name = "command-r",
     .body = BODY_JSON,
     .call = {"Action:\n```json", "```"},
     .spell = {"{\"tool_name\": \"", "\", \"parameters\": ", "}"},
     .list = {"\n[", ", ", "]\n"},
     .clues = {"Action:", "tool_name"}},
    {.name = "command-a",
     .body = BODY_JSON,
     .flags = TOOLS_SPECIAL,
     .call = {"<|START_ACTION|>", "<|END_ACTION|>"},
     .spell = {"{\"tool_call_id\": \"0\", \"tool_name\": \"", "\", \"parameters\": ", "}"},
     .list = {"[", ", ", "]"},
     .clues = {"<|START_ACTION|>"}},
    {.name = "lfm2",
     .body = BODY_PYTHON,
     .flags = TOOLS_SPECIAL,
     .call = {"<|tool_call_start|>", "<|tool_call_end|>"},
     .clues = {"<|tool_list_start|>"}},
    {.name = "llama4",
     .body = BODY_PYTHON,
     .flags = TOOLS_BARE | TOOLS_SPECIAL | TOOLS_UNTAGGED,
     .call = {"<|python_start|>", "<|python_end|>"},
     .clues = {"<|python_start|>"}},
    {.name = "granite",
     .body = BODY_JSON,
     .flags = TOOLS_SPECIAL,
     .call = {"<|tool_call|>", ""},
     .list = {"[", ", ", "]"},
     .clues = {"<|tool_call|>"}},
    {.name = "gigachat",
     .body = BODY_JSON,
     .flags = TOOLS_SPECIAL,
     .call = {"function call<|role_sep|>\n", ""},
     .clues = {"<|role_sep|>", "function call"}},
    {.name = "llama3",
     .body = BODY_JSON,
     .flags = TOOLS_BARE | TOOLS_SPECIAL | TOOLS_UNTAGGED,
     .call = {"<|python_tag|>", ""},
     .spell = {"{\"name\": \"", "\", \"parameters\": ", "}"},
     .list = {"", "; ", ""},
     .clues = {"\"parameters\"", "<|start_header_id|>"}},
    {.name = "generic",
     .body = BODY_JSON,
     .flags = TOOLS_BARE,
     .call = {"<tool_call>", "</tool_call>"},
     .clues = {"@\nno token is called like this"}},
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

static bool ends_with(span text, const char *end) {
    while (text.bytes && strchr(" \t\r\n", text.at[text.bytes - 1])) text.bytes--;
    const size_t bytes = strlen(end);
    return text.bytes >= bytes && !memcmp(text.at + text.bytes - bytes, end, bytes);
}

bool thought_is_open(const thought_format *f, span prompt) { return ends_with(prompt, f->open); }
bool thought_is_closed(const thought_format *f, span prompt) { return ends_with(prompt, f->close); }

bool tool_format_is_shown(span source) { return has(source, "tools"); }

void tool_format_teach(strbuf *out, span tools) {
    strbuf_text(out, "You can call functions. These are described by a JSON array:\n");
    strbuf_add(out, tools.at, tools.bytes);
    strbuf_text(out, "\nTo call one, write a JSON object with its name and arguments between <tool_call> and "
                     "</tool_call>, like this:\n<tool_call>{\"name\": \"...\", \"arguments\": {...}}</tool_call>\n"
                     "Results come back as messages of the role tool.");
}
