/* option_table.c — every option of every command: name, letter, kind, range, default, help.
 *
 * A name may occur twice for different commands (`--threads` of bench takes a list), never twice for one. What the
 * engine cannot do yet has no row, so it is refused like any other unknown name. */
#include "command.h"
#include <stddef.h>

#define FLAG(name, letter, field, group, commands, help)                                                               \
    { name, letter, OPTION_FLAG, group, commands, offsetof(options, field), NULL, NULL, NULL, 0, 0, help }
#define TEXT(name, letter, field, group, commands, value, help)                                                        \
    { name, letter, OPTION_TEXT, group, commands, offsetof(options, field), value, NULL, NULL, 0, 0, help }
#define CHOICE(name, field, group, commands, choices, standard, help)                                                  \
    { name, 0, OPTION_CHOICE, group, commands, offsetof(options, field), choices, choices, standard, 0, 0, help }
#define NUMBER(kind, name, letter, field, group, commands, lowest, highest, standard, help)                            \
    { name, letter, kind, group, commands, offsetof(options, field), "N", NULL, standard, lowest, highest, help }
#define INTS(name, letter, field, group, commands, lowest, highest, standard, help)                                    \
    {                                                                                                                  \
        name, letter, OPTION_INTS, group, commands, offsetof(options, field), "N,N..", NULL, standard, lowest,         \
            highest, help                                                                                              \
    }

enum {
    TALKING = FOR_GENERATE | FOR_CHAT, /* what gives answers has their settings */
    RUNNING = TALKING | FOR_LOGITS | FOR_BENCH,
    WITH_MODEL = RUNNING | FOR_TOKENIZE | FOR_DETOKENIZE | FOR_TEMPLATE | FOR_INSPECT | FOR_CONSTRAIN,
    CONSTRAINED = FOR_GENERATE | FOR_CHAT | FOR_CONSTRAIN,
    ANSWERING = WITH_MODEL | FOR_DEVICES | FOR_VERSION,
    ALL = ANSWERING | FOR_HELP | FOR_SERVE,
};
#define LIST(kind, name, field, group, commands, value, highest, help)                                                 \
    { name, 0, kind, group, commands, offsetof(options, field), value, NULL, NULL, 0, highest, help }
#define SAMPLER(name, field, lowest, highest, help)                                                                    \
    NUMBER(OPTION_REAL, name, 0, field, GROUP_SAMPLING, TALKING, lowest, highest, NULL, help)
#define SAMPLER_INT(name, field, help) NUMBER(OPTION_INT, name, 0, field, GROUP_SAMPLING, TALKING, 0, MANY, NULL, help)
#define MANY 1073741824.0           /* tokens */
#define SEEDS 9223372036854774784.0 /* the last double before 2^63 */

/* The server's settings: only their texts are taken here, config_set reads them. */
#define SERVE_KIND_BOOL OPTION_FLAG
#define SERVE_KIND_INT OPTION_TEXT
#define SERVE_KIND_REAL OPTION_TEXT
#define SERVE_KIND_TEXT OPTION_TEXT
#define SERVE_KIND_CHOICE OPTION_TEXT
#define SERVE_KIND_LIST OPTION_TEXT
#define SERVE(block, key, option, letter, kind, lowest, highest, choices, standard, value, help)                       \
    {option, letter, SERVE_KIND_##kind, GROUP_SERVER, FOR_SERVE, offsetof(options, serve.key), value, NULL, NULL, 0,   \
     0,      help},

/* clang-format off */
const option_row option_rows[] = {
    TEXT("model", 'm', model, GROUP_MODEL, WITH_MODEL, "PATH",
         "folder in Hugging Face layout (default: the demo model that came with quipu)"),
    TEXT("architecture", 0, architecture, GROUP_MODEL, RUNNING, "NAME",
         "read the folder as this architecture, whatever its config names"),
    LIST(OPTION_TEXTS, "lora", lora, GROUP_MODEL, TALKING | FOR_LOGITS, "PATH[:SCALE]", 0,
         "apply the adapter of this PEFT folder, times SCALE (1); may be given several times"),
    TEXT("shape", 0, shape, GROUP_MODEL, FOR_BENCH, "NAME",
         "random weights of this shape instead of a model (tinyllama-1.1b, llama2-7b and others)"),
    CHOICE("format", format, GROUP_MODEL, FOR_BENCH,
           "bf16|f16|f32|q4_0|gptq|fp8_e4m3|exl2-2.5|exl2-3.0|exl2-3.5|exl2-4.0|exl2-4.5|exl2-5.0|exl2-6.0", "bf16",
           "format of the random weights"),
    CHOICE("precision", precision, GROUP_MODEL, RUNNING, "exact|fast", "fast",
           "exact: float32 activations and sums; fast: activations may be rounded to 16 bits"),
    CHOICE("cache", cache, GROUP_MODEL, RUNNING, "fp16|fp32|q8|q6|q4", NULL,
           "format of the cache (default: fp32 with --precision exact, else fp16)"),
    TEXT("pack-cache", 0, pack_cache, GROUP_MODEL, RUNNING, "FOLDER|model",
         "keep the weights as the CPU lays them in this folder, or beside the model, and map them at the next start"),
    NUMBER(OPTION_INT, "context", 0, context, GROUP_MODEL, TALKING | FOR_LOGITS, 1, MANY, NULL,
           "tokens of cache (default: what the work needs, at most the trained context)"),
    NUMBER(OPTION_INT, "context", 0, context, GROUP_MODEL, FOR_INSPECT, 1, MANY, NULL,
           "show the memory of a cache of N tokens too"),
    NUMBER(OPTION_REAL, "rope-scale", 0, rope_scale, GROUP_MODEL, RUNNING, 1e-3, 1e6, NULL,
           "linear scaling of positions by this factor instead of the model's own"),
    NUMBER(OPTION_REAL, "rope-alpha", 0, rope_alpha, GROUP_MODEL, RUNNING, 1e-3, 1e6, NULL,
           "NTK-aware change of the rotary base: theta * N^(d / (d - 2))"),
    NUMBER(OPTION_REAL, "rope-yarn", 0, rope_yarn, GROUP_MODEL, RUNNING, 1, 1e6, NULL,
           "YaRN by this factor over the trained context"),

    TEXT("prompt", 'p', prompt, GROUP_INPUT, FOR_GENERATE | FOR_TOKENIZE | FOR_CONSTRAIN, "TEXT", "the text, as it is"),
    TEXT("file", 'f', file, GROUP_INPUT, FOR_GENERATE | FOR_TOKENIZE, "FILE",
         "read the text from a file, byte for byte (- or neither option: standard input)"),
    TEXT("file", 'f', file, GROUP_INPUT, FOR_CONSTRAIN, "FILE", "texts, each a JSON string on a line of its own"),
    TEXT("file", 'f', file, GROUP_INPUT, FOR_TEMPLATE, "FILE", "a Jinja template instead of the model's"),
    TEXT("ids", 0, ids, GROUP_INPUT, FOR_GENERATE, "FILE",
         "token ids instead of text: a JSON array, or separated by blanks (- is standard input)"),
    TEXT("ids", 0, ids, GROUP_INPUT, FOR_LOGITS | FOR_DETOKENIZE, "FILE",
         "token ids: a JSON array, or separated by blanks (- or no such option: standard input)"),
    TEXT("batch", 0, batch, GROUP_INPUT, FOR_GENERATE, "FILE",
         "many prompts at once: each line {\"id\", \"prompt\", \"messages\" or \"ids\", and options of the groups "
         "Answer and Sampling with underscores}; the results are lines of JSON (- is standard input)"),
    FLAG("chat", 0, chat, GROUP_INPUT, FOR_GENERATE, "the prompt is a user's message in the model's chat template"),
    TEXT("name", 0, name, GROUP_INPUT, FOR_TEMPLATE, "NAME", "which template, where the model has several"),
    FLAG("jsonl", 0, jsonl, GROUP_INPUT, FOR_TOKENIZE,
         "each input line is a JSON string, each output line an array of ids"),
    FLAG("jsonl", 0, jsonl, GROUP_INPUT, FOR_DETOKENIZE,
         "each input line is a JSON array of ids, each output line a string"),
    FLAG("no-special", 0, no_special, GROUP_INPUT, FOR_TOKENIZE | FOR_GENERATE,
         "leave out the tokens that the tokenizer adds around the text"),
    FLAG("parse-special", 0, parse_special, GROUP_INPUT, FOR_TOKENIZE | FOR_GENERATE,
         "special tokens written in the text are read as such (this is the default)"),
    FLAG("no-parse-special", 0, no_parse_special, GROUP_INPUT, FOR_TOKENIZE | FOR_GENERATE,
         "special tokens written in the text are plain characters"),
    TEXT("system", 0, system, GROUP_INPUT, FOR_CHAT, "TEXT", "the system prompt"),
    CHOICE("mode", mode, GROUP_INPUT, FOR_CHAT,
           "raw|script|chatml|llama2|llama3|mistral|gemma|phi3|zephyr|deepseek|command-r|vicuna|alpaca", NULL,
           "format of the prompts, for a model without a chat template or instead of its own; raw is the text alone"),
    FLAG("amnesia", 0, amnesia, GROUP_INPUT, FOR_CHAT, "each message begins anew: turns are forgotten"),

    NUMBER(OPTION_INT, "new-tokens", 'n', new_tokens, GROUP_ANSWER, TALKING, 1, MANY, NULL,
           "at most this many new tokens (default: until an end token or the end of the context)"),
    NUMBER(OPTION_INT, "min-new-tokens", 0, min_new_tokens, GROUP_ANSWER, TALKING, 0, MANY, NULL,
           "no end token before this many"),
    TEXT("schema", 0, schema, GROUP_ANSWER, CONSTRAINED, "FILE", "the answer follows this JSON Schema"),
    TEXT("regex", 0, regex, GROUP_ANSWER, CONSTRAINED, "RE", "all of the answer matches this regular expression"),
    TEXT("grammar", 0, grammar, GROUP_ANSWER, CONSTRAINED, "FILE",
         "the answer follows this grammar, in GBNF or Lark's notation"),
    TEXT("choice", 0, choice, GROUP_ANSWER, CONSTRAINED, "FILE",
         "the answer is one of these texts: one a line, or a JSON array"),
    TEXT("json-space", 0, json_space, GROUP_ANSWER, CONSTRAINED, "POLICY",
         "white space between the parts of JSON: compact, single (default), pretty:N, flexible:K, flexible:inf"),
    FLAG("lenient", 0, lenient, GROUP_ANSWER, CONSTRAINED,
         "what a schema asserts and cannot be kept is dropped with a warning, instead of refused"),
    FLAG("explain", 0, explain, GROUP_OUTPUT, FOR_CONSTRAIN,
         "tell on stderr what was narrowed, and mark where a text is refused"),
    FLAG("keywords", 0, keywords, GROUP_OUTPUT, FOR_CONSTRAIN,
         "print what becomes of each keyword of JSON Schema, and nothing else"),
    FLAG("masks", 0, masks, GROUP_OUTPUT, FOR_CONSTRAIN, "count and time the masks, token by token"),
    LIST(OPTION_TEXTS, "stop", stop, GROUP_ANSWER, TALKING, "STR", 0,
         "stop before this text; may be given several times"),
    LIST(OPTION_TEXTS, "ban", ban, GROUP_ANSWER, TALKING, "STR", 0,
         "this text must not appear, in whatever case: it is taken back and tried otherwise; may be given several "
         "times"),
    FLAG("ignore-eos", 0, ignore_eos, GROUP_ANSWER, TALKING, "end tokens do not end the text"),
    FLAG("show-special", 0, show_special, GROUP_ANSWER, TALKING, "show special tokens in the text"),
    FLAG("token-healing", 0, token_healing, GROUP_ANSWER, FOR_GENERATE,
         "the last token of the prompt may be completed by the first new one"),
    NUMBER(OPTION_INT, "logprobs", 0, logprobs, GROUP_ANSWER, TALKING, 0, 1024, NULL,
           "with --json: for each token its probability and the N most probable ones beside it"),
    NUMBER(OPTION_INT, "loop-repeats", 0, loop_repeats, GROUP_ANSWER, TALKING, 0, 1e6, NULL,
           "stop when the newest tokens, at least 64, are one piece repeated N times; 0 is off"),
    NUMBER(OPTION_INT, "num-choices", 0, num_choices, GROUP_OUTPUT, FOR_GENERATE, 1, 1024, NULL,
           "this many answers to the prompt, which is read once; their seeds are seed, seed + 1 and so on"),
    TEXT("output", 'o', output, GROUP_OUTPUT, FOR_GENERATE, "FILE",
         "with --batch: write here; of a file that is there already, the lines in it are not done again"),
    CHOICE("order", order, GROUP_OUTPUT, FOR_GENERATE, "input|as-finished", "input", "of the results of --batch"),
    NUMBER(OPTION_INT, "max-jobs", 0, max_jobs, GROUP_OUTPUT, FOR_GENERATE, 1, 256, "32",
           "lines of --batch that run at the same time"),
    NUMBER(OPTION_INT, "last", 0, last, GROUP_OUTPUT, FOR_LOGITS, 1, MANY, NULL,
           "logits of the last N positions only (default: of all)"),
    TEXT("output", 'o', output, GROUP_OUTPUT, FOR_LOGITS, "FILE", "the safetensors file to write"),
    FLAG("stats", 0, stats, GROUP_OUTPUT, FOR_CHAT, "show speed and cached tokens after each answer"),
    FLAG("pieces", 0, pieces, GROUP_OUTPUT, FOR_TOKENIZE, "show what each token is"),
    FLAG("skip-special", 0, skip_special, GROUP_OUTPUT, FOR_DETOKENIZE, "leave out special tokens"),
    FLAG("stream", 0, stream, GROUP_OUTPUT, FOR_DETOKENIZE,
         "as --jsonl, one id at a time: each output line is the array of chunks, null where nothing shows yet"),
    FLAG("tensors", 0, tensors, GROUP_OUTPUT, FOR_INSPECT, "list all tensors"),

    FLAG("greedy", 0, greedy, GROUP_SAMPLING, TALKING, "always the most probable token: temperature 0"),
    NUMBER(OPTION_REAL, "temperature", 0, temperature, GROUP_SAMPLING, TALKING, 0, 100, NULL,
           "flatter above 1, sharper below; under 0.01 greedy (default of this, --top-k, --top-p, --min-p and "
           "--repetition-penalty: what the model's generation_config.json recommends, else temperature 0.8)"),
    NUMBER(OPTION_INT, "top-k", 0, top_k, GROUP_SAMPLING, TALKING, 0, MANY, NULL,
           "keep the N most probable tokens; 0 is off"),
    NUMBER(OPTION_REAL, "top-p", 0, top_p, GROUP_SAMPLING, TALKING, 0, 1, NULL,
           "keep the fewest tokens whose probabilities reach N; 0 or 1 is off"),
    NUMBER(OPTION_REAL, "min-p", 0, min_p, GROUP_SAMPLING, TALKING, 0, 1, NULL,
           "keep tokens at least N times as probable as the best; 0 is off (where the model recommends nothing: 0.05 "
           "if neither --top-k nor --top-p is given)"),
    SAMPLER("typical", typical, 0, 1e6, "locally typical: keep this mass around the entropy; 0 or from 1 on is off"),
    SAMPLER("tfs", tfs, 0, 1e6, "tail free: keep until the second differences sum to N; 0 or from 1 on is off"),
    SAMPLER("top-a", top_a, 0, 1e6, "keep tokens of at least N times the square of the best probability; 0 is off"),
    SAMPLER("smoothing-factor", smoothing_factor, 0, 1e6, "quadratic sampling; 0 is off"),
    LIST(OPTION_REALS, "dynatemp", dynatemp, GROUP_SAMPLING, TALKING, "LOW,HIGH,EXP", 1e6,
         "temperature between LOW and HIGH by entropy to the power EXP (1 where left out)"),
    FLAG("temperature-last", 0, temperature_last, GROUP_SAMPLING, TALKING, "temperature after the truncations"),
    SAMPLER("skew", skew, -100, 100, "bends the random number, above 0 towards improbable tokens; 0 is off"),
    SAMPLER("mirostat-tau", mirostat_tau, 0, 1e6, "mirostat 2 with this target surprise in bits; 0 is off"),
    SAMPLER("mirostat-eta", mirostat_eta, 0, 1e6, "its learning rate; 0 means 0.1"),
    SAMPLER("xtc-probability", xtc_probability, 0, 1, "exclude top choices with this probability; 0 is off"),
    SAMPLER("xtc-threshold", xtc_threshold, 0, 1, "those but the last that are at least so probable; 0 means 0.1"),
    SAMPLER("dry-multiplier", dry_multiplier, 0, 1e6, "DRY: penalty on what would continue a repetition; 0 is off"),
    SAMPLER("dry-base", dry_base, 0, 1e6, "how fast it grows with the repetition's length; 0 means 1.75"),
    SAMPLER_INT("dry-allowed-length", dry_allowed_length, "repetitions up to this length are free; 0 means 2"),
    SAMPLER_INT("dry-range", dry_range, "newest tokens that DRY looks at; 0 means all"),
    SAMPLER("repetition-penalty", repetition_penalty, 0, 100,
            "makes ids that prompt or text already hold less probable, above 1; 0 or 1 is off"),
    SAMPLER_INT("repetition-range", repetition_range,
                "newest tokens that count in full for the repetition, frequency and presence penalties; 0 means all"),
    SAMPLER_INT("repetition-decay", repetition_decay, "older tokens over which these three fade to nothing"),
    SAMPLER("frequency-penalty", frequency_penalty, -1e6, 1e6, "taken from a token's logit for each time it occurs"),
    SAMPLER("presence-penalty", presence_penalty, -1e6, 1e6, "taken from it once if it occurs"),
    LIST(OPTION_BIASES, "logit-bias", logit_bias, GROUP_SAMPLING, TALKING, "ID:VALUE", INT32_MAX,
         "adds VALUE to the logit of a token, -inf forbids it; may be given several times"),
    LIST(OPTION_IDS, "ban-token", ban_token, GROUP_SAMPLING, TALKING, "ID", INT32_MAX,
         "this token must not come; may be given several times"),
    SAMPLER("cfg-scale", cfg_scale, -1e6, 1e6, "classifier-free guidance away from --negative-prompt; 1 is off"),
    TEXT("negative-prompt", 0, negative_prompt, GROUP_SAMPLING, TALKING, "TEXT",
         "what --cfg-scale leads away from, taken as it is"),
    NUMBER(OPTION_INT, "seed", 0, seed, GROUP_SAMPLING, TALKING, 0, SEEDS, NULL,
           "the same seed gives the same text (default: another one each time)"),

    INTS("prompt-tokens", 'p', prompt_list, GROUP_MEASURE, FOR_BENCH, 0, MANY, "512", "prompt lengths; 0: none"),
    NUMBER(OPTION_INT, "new-tokens", 'n', new_tokens, GROUP_MEASURE, FOR_BENCH, 0, MANY, "128", "new tokens; 0: none"),
    INTS("sequences", 'b', sequences, GROUP_MEASURE, FOR_BENCH, 1, 512, "1", "sequences at the same time"),
    INTS("depth", 'd', depths, GROUP_MEASURE, FOR_BENCH, 0, MANY, "0", "tokens that are in the cache before"),
    NUMBER(OPTION_INT, "repeat", 0, repeat, GROUP_MEASURE, FOR_BENCH, 1, 10000, "5",
           "how often each figure is measured"),
    NUMBER(OPTION_REAL, "seconds", 0, seconds, GROUP_MEASURE, FOR_BENCH, 0.01, 600, NULL,
           "time for each limit of the machine (default: 1 for bandwidth and compute alone, 0.3 beside a model)"),
    NUMBER(OPTION_INT, "seed", 0, seed, GROUP_MEASURE, FOR_BENCH, 0, SEEDS, "1", "of random weights and prompts"),

    TEXT("device", 0, device, GROUP_MACHINE, RUNNING, "auto|cpu|cuda[:N]",
         "where the model runs (default: auto, a GPU if it can be used)"),
    TEXT("device", 0, device, GROUP_MACHINE, FOR_INSPECT, "cuda[:N]",
         "tell what the model would take there and what cache would fit"),
    TEXT("split", 0, split, GROUP_MACHINE, RUNNING | FOR_INSPECT, "auto|GIB,GIB..",
         "cut the model among several GPUs: as much as fits, or so many GiB (or layers, 16L,16L) of each"),
    NUMBER(OPTION_INT, "threads", 0, threads, GROUP_MACHINE, TALKING | FOR_LOGITS, 1, 1024, NULL,
           "CPU threads (default: the physical cores that the process may use)"),
    INTS("threads", 0, threads_list, GROUP_MACHINE, FOR_BENCH, 1, 1024, NULL,
         "CPU threads, one after the other (default: the physical cores that the process may use)"),
    CHOICE("cpu", cpu, GROUP_MACHINE, RUNNING,
           "ref|avx2|avxvnni|avx512|avx512vnni|avx512bf16|amx|amxint8|neon|dotprod|i8mm", NULL,
           "instructions to use (default: the best that the machine has)"),
    FLAG("pin-threads", 0, pin_threads, GROUP_MACHINE, RUNNING, "bind each thread to a core"),

    TEXT("config", 0, config, GROUP_SERVER, FOR_SERVE, "FILE",
         "settings in YAML, ours or a config.yml of TabbyAPI (default: quipu.yml where it exists)"),
    FLAG("check-config", 0, check_config, GROUP_SERVER, FOR_SERVE, "read all settings, say what is wrong, and end"),
    FLAG("print-config", 0, print_config, GROUP_SERVER, FOR_SERVE, "print each setting and its origin, and end"),
    FLAG("example-config", 0, example_config, GROUP_SERVER, FOR_SERVE, "print a commented quipu.yml, and end"),
    CONFIG_ROWS(SERVE)

    FLAG("licences", 0, licences, GROUP_GENERAL, FOR_VERSION, "the libraries of others inside, with their terms"),
    FLAG("json", 0, json, GROUP_GENERAL, ANSWERING, "answer in JSON"),
    FLAG("quiet", 'q', quiet, GROUP_GENERAL, ALL, "only errors on standard error"),
    FLAG("verbose", 'v', verbose, GROUP_GENERAL, ALL, "say more on standard error"),
    CHOICE("color", color, GROUP_GENERAL, ALL, "auto|always|never", "auto",
           "colours (auto: on a terminal, unless NO_COLOR is set)"),
    FLAG("help", 'h', help, GROUP_GENERAL, ALL, "show this help"),
    FLAG("man", 0, man, GROUP_OUTPUT, FOR_HELP, "print the man page"),
    CHOICE("completion", completion, GROUP_OUTPUT, FOR_HELP, "bash|zsh|fish", NULL, "print the completions of a shell"),
};
/* clang-format on */

const size_t option_count = sizeof option_rows / sizeof *option_rows;
_Static_assert(sizeof option_rows / sizeof *option_rows <= OPTION_MAX, "options.given has a place for each row");

const option_rivals option_rival_rows[] = {
    {FOR_GENERATE | FOR_TOKENIZE, "prompt|file|ids|batch"},
    {FOR_GENERATE, "batch|num-choices"},
    {FOR_GENERATE | FOR_TOKENIZE, "parse-special|no-parse-special"},
    {TALKING, "greedy|temperature"},
    {FOR_TOKENIZE, "prompt|jsonl"},
    {FOR_TEMPLATE, "model|file"},
    {FOR_TEMPLATE, "name|file"},
    {FOR_BENCH, "model|shape"},
    {FOR_HELP, "man|completion"},
    {~0u, "quiet|verbose"},
};
const size_t option_rival_count = sizeof option_rival_rows / sizeof *option_rival_rows;

const char *option_group_title(option_group group) {
    static const char *const titles[GROUP_COUNT] = {"Model",   "Input",   "Output", "Answer", "Sampling",
                                                    "Measure", "Machine", "Server", "General"};
    return titles[group];
}
