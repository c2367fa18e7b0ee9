/* cmd_table.c — every command: its name, what help says about it, two examples that work as typed, its function. */
#include "command.h"
#include "nearest.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const command_row command_rows[] = {
    {"generate",
     FOR_GENERATE,
     NULL,
     "continue a prompt, streaming to standard output",
     "The text appears as it is made; standard error ends with one line about speed. With --json the whole answer is\n"
     "one document: text, ids, finish reason, usage and unrounded times. Ctrl-C stops the text and keeps what is "
     "there.\n",
     {"quipu generate --chat -p \"Tell me about the sea.\" -n 60 --temperature 0.7",
      "echo '{\"id\": 1, \"prompt\": \"Once\", \"n\": 9}' | quipu generate --batch - --greedy"},
     cmd_generate},
    {"chat",
     FOR_CHAT,
     NULL,
     "talk with a model",
     "Answers stream as they are made; the next turn reuses what the cache holds of the ones before. Ctrl-C stops an\n"
     "answer, Ctrl-D ends. A line that ends in a backslash goes on, so does all between two lines of three quotes.\n"
     "Lines that begin with a slash are commands, /help lists them. What is typed is kept for the arrow keys in\n"
     "~/.local/state/quipu. When the context is full the oldest turns drop out, whole, and it says so. Out of a pipe\n"
     "each line is a message and only answers go to standard output, with --json a line of JSON for each.\n",
     {"echo \"Tell me about the sea.\" | quipu chat --greedy --stats",
      "printf 'Hello!\\nTell me more.\\n' | quipu chat --system \"Be brief.\" --json -n 20"},
     cmd_chat},
    {"logits",
     FOR_LOGITS,
     NULL,
     "write the logits of given token ids to a file",
     "For comparing engines: the file holds the tensor 'logits', F32 [positions, vocabulary]. All ids go through the\n"
     "model in one forward pass.\n",
     {"echo '[1, 2, 3, 4]' | quipu logits --precision exact -o logits.safetensors",
      "echo 1 2 3 4 | quipu logits --ids - --last 1 -o last.safetensors --json"},
     cmd_logits},
    {"tokenize",
     FOR_TOKENIZE,
     NULL,
     "text to token ids",
     "Prints the ids in one line, with --pieces one token in a line, with --jsonl an array for each input line.\n",
     {"quipu tokenize -p \"Hello, little world\" --pieces",
      "echo '\"Hello, little world\"' | quipu tokenize --jsonl --no-special"},
     cmd_tokenize},
    {"constrain",
     FOR_CONSTRAIN,
     NULL,
     "check texts against a constraint",
     "Each line of standard input is a text as a JSON string; each line of output is an object: \"valid\", the byte\n"
     "\"at\" which the text is refused (or its end, where it is not complete) and what was \"expected\" there. "
     "Nothing\n"
     "but the tokenizer of the model is read.\n",
     {"echo '\"2026-11-21\"' | quipu constrain --regex '\\d{4}-\\d\\d-\\d\\d'",
      "quipu constrain --schema person.json -p '{\"name\": 1}' --explain --masks"},
     cmd_constrain},
    {"detokenize",
     FOR_DETOKENIZE,
     NULL,
     "token ids to text",
     "Prints the text and a newline, with --jsonl a JSON string for each input line.\n",
     {"quipu tokenize -p \"Hello, little world\" | quipu detokenize --skip-special",
      "echo '[1, 2, 3]' | quipu detokenize --stream"},
     cmd_detokenize},
    {"template",
     FOR_TEMPLATE,
     NULL,
     "render a chat template",
     "Each line of standard input is a JSON object: \"messages\", and where wanted \"tools\", "
     "\"add_generation_prompt\",\n"
     "\"continue_final_message\", \"now\" (seconds or ISO time), \"tokens\" (\"bos_token\" ...), any other key is a\n"
     "variable. Each output line is {\"text\"} or {\"error\": {\"kind\": \"raise_exception\" or \"engine\", "
     "\"message\"}}.\n",
     {"echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": true}' | quipu "
      "template",
      "echo '{\"messages\": []}' | quipu template --json"},
     cmd_template},
    {"inspect",
     FOR_INSPECT,
     NULL,
     "what a model is, before loading it",
     "Architecture, shape, formats, memory for the weights and for each type of cache, what fits into this machine, "
     "what\n"
     "is not supported and why. Reads headers only.\n",
     {"quipu inspect", "quipu inspect --tensors --json"},
     cmd_inspect},
    {"bench",
     FOR_BENCH,
     "bandwidth|compute",
     "measure speed, and the machine's limits beside it",
     "Prompts and new tokens are timed apart; clocks stop when the work is done. Prompts are random and differ each\n"
     "time. The limits of the machine are measured before and after in the same run, and each result says what share "
     "of\n"
     "them it reaches: new tokens of the reading speed of memory (weights and cache that a step reads), prompts of "
     "the\n"
     "arithmetic of the best instruction (2 operations for each weight and token, attention not counted). 'bench\n"
     "bandwidth' and 'bench compute' measure the limits alone.\n",
     {"quipu bench -p 64 -n 16 --repeat 3", "quipu bench bandwidth"},
     cmd_bench},
    {"serve",
     FOR_SERVE,
     NULL,
     "answer over HTTP: the APIs of OpenAI and Anthropic",
     "Listens until it is told to end (SIGTERM, Ctrl-C): then running answers are finished, at most drain_timeout "
     "long.\n"
     "Settings come from --config, from the environment (QUIPU_PORT, or QUIPU_NETWORK_PORT as block and key) and from\n"
     "options, the last winning. Keys are in api_tokens.yml, which is made at the first start.\n",
     {"quipu serve --check-config --port 8080", "quipu serve --print-config"},
     cmd_serve},
    {"devices",
     FOR_DEVICES,
     NULL,
     "what this machine has, and what will be used",
     "CPU features, cores and memory; what quipu uses of them, and why something is left out.\n",
     {"quipu devices", "quipu devices --json"},
     cmd_devices},
    {"version",
     FOR_VERSION,
     NULL,
     "version, build and libraries",
     "",
     {"quipu version", "quipu version --licences"},
     cmd_version},
    {"help",
     FOR_HELP,
     "COMMAND",
     "this list, or all about one command",
     "The man page and the completions of shells come out of the same table of options.\n",
     {"quipu help generate", "quipu help --completion bash"},
     cmd_help},
};
const size_t command_count = sizeof command_rows / sizeof *command_rows;

const command_row *command_find(const char *name) {
    for (const command_row *c = command_rows; c < command_rows + command_count; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

const char *command_nearest(const char *typed) {
    const char *best = command_rows[0].name;
    int best_cost = INT_MAX;
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) {
        const int cost = nearest_cost(typed, c->name);
        if (cost < best_cost) best = c->name, best_cost = cost;
    }
    return best;
}

qp_status session_usage(session *s, qp_error *err, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->is_wrong_usage = true;
    return err_set(err, QP_BAD_ARGUMENT, 0, "%s", text);
}

bool session_given(const session *s, const void *field) { return option_given(s->o, s->command, field); }
