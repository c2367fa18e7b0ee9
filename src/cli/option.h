/* option.h — the settings of one run of quipu, and the table of options that fills them.
 *
 * The rows of option_table.c are the only place that knows an option: parsing, environment names, help, man page and
 * completions all read them. Later sources win: default of the row, environment (QUIPU_NAME), command line. */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include "base/err.h"
#include "server/config_table.h"

enum { OPTION_LIST_MAX = 16, OPTION_MAX = 256 };

typedef struct option_texts {
    const char **at;
    size_t count;
} option_texts;

typedef struct option_ints {
    int64_t at[OPTION_LIST_MAX];
    size_t count;
} option_ints;

typedef struct option_reals {
    double at[OPTION_LIST_MAX];
    size_t count;
} option_reals;

typedef struct option_ids {
    int32_t *at;
    size_t count;
} option_ids;

typedef struct option_biases {
    qp_bias *at;
    size_t count;
} option_biases;

/* The settings of the server as they were typed: flags, and for all other kinds the text, which config_set reads. */
#define OPTION_FIELD_BOOL bool
#define OPTION_FIELD_INT const char *
#define OPTION_FIELD_REAL const char *
#define OPTION_FIELD_TEXT const char *
#define OPTION_FIELD_CHOICE const char *
#define OPTION_FIELD_LIST const char *
typedef struct option_serve {
#define X(block, key, option, letter, kind, ...) OPTION_FIELD_##kind key;
    CONFIG_ROWS(X)
#undef X
} option_serve;

/* One field for each row; texts are borrowed from argv, the environment or the table. */
typedef struct options {
    const char *model, *shape, *format, *architecture;
    option_texts lora;
    const char *device, *split, *cpu, *precision, *cache, *pack_cache;
    int64_t threads, context;
    option_ints threads_list;
    bool pin_threads;
    double rope_scale, rope_alpha, rope_yarn;
    const char *prompt, *file, *ids, *batch, *order, *output;
    int64_t max_jobs;
    int64_t new_tokens, min_new_tokens, num_choices, logprobs, loop_repeats, last;
    const char *schema, *regex, *grammar, *choice, *json_space;
    bool lenient, explain, masks, keywords;
    option_texts stop, ban;
    const char *system, *mode;
    bool amnesia, stats;
    bool ignore_eos, chat, show_special, token_healing;
    bool greedy, temperature_last;
    double temperature, top_p, min_p, typical, tfs, top_a, smoothing_factor, skew, cfg_scale;
    double mirostat_tau, mirostat_eta, xtc_probability, xtc_threshold, dry_multiplier, dry_base;
    double repetition_penalty, frequency_penalty, presence_penalty;
    int64_t top_k, seed, dry_allowed_length, dry_range, repetition_range, repetition_decay;
    option_reals dynatemp;
    option_biases logit_bias;
    option_ids ban_token;
    const char *negative_prompt;
    bool jsonl, no_special, parse_special, no_parse_special, pieces, skip_special, stream;
    const char *name;
    bool tensors;
    option_ints prompt_list, sequences, depths;
    int64_t repeat;
    double seconds;
    const char *completion;
    bool man;
    option_serve serve;
    const char *config;
    bool check_config, print_config, example_config;
    bool licences;
    bool json, quiet, verbose, help;
    const char *color;
    const char *word; /* the argument that is no option: `bench compute`, `help generate`; NULL if there is none */
    bool typed[OPTION_MAX]; /* by place in option_rows: the command line has set it */
    bool given[OPTION_MAX]; /* the same, or the environment, or option_set */
} options;

typedef enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_INT,    /* int64_t */
    OPTION_REAL,   /* double */
    OPTION_TEXT,   /* const char * */
    OPTION_CHOICE, /* const char *, one of `choices` */
    OPTION_TEXTS,  /* option_texts: may be repeated */
    OPTION_INTS,   /* option_ints: comma-separated */
    OPTION_REALS,  /* option_reals: comma-separated */
    OPTION_IDS,    /* option_ids: one id, may be repeated */
    OPTION_BIASES, /* option_biases: ID:VALUE, may be repeated */
} option_kind;

typedef enum option_group {
    GROUP_MODEL,
    GROUP_INPUT,
    GROUP_OUTPUT,
    GROUP_ANSWER, /* this and the next: what can differ from one answer to the next */
    GROUP_SAMPLING,
    GROUP_MEASURE,
    GROUP_MACHINE,
    GROUP_SERVER,
    GROUP_GENERAL,
    GROUP_COUNT
} option_group;

typedef struct option_row {
    const char *name; /* without dashes */
    char letter;      /* 0: none */
    option_kind kind;
    option_group group;
    unsigned commands; /* FOR_... of command.h */
    size_t field;      /* offset in options */
    const char *value; /* what help calls the value; NULL for flags */
    const char *choices;
    const char *standard;   /* the default, written as a user would; NULL: zero */
    double lowest, highest; /* of numbers */
    const char *help;
} option_row;

extern const option_row option_rows[];
extern const size_t option_count;

/* Options of which only one can be meant. What is typed silences the environment's. */
typedef struct option_rivals {
    unsigned commands;
    const char *names; /* "a|b" */
} option_rivals;

extern const option_rivals option_rival_rows[];
extern const size_t option_rival_count;
const char *option_group_title(option_group group);

struct command_row;

/* Fills *out from the defaults, the environment and argv[0..argc). An error is wrong usage. With --help the
 * environment is not looked at. options_free() is owed in any case. */
qp_status option_parse(options *out, const struct command_row *command, int argc, char **argv, qp_error *err);
void options_free(options *o);
/* A second set of the same values; options_free() is owed in any case. */
qp_status options_copy(options *out, const options *from, qp_error *err);
/* The row of this name that one answer may have for itself (groups Answer and Sampling), '_' as good as '-'; NULL:
 * none.
 */
const option_row *option_find_own(const struct command_row *command, const char *name);
/* Sets one value as the command line would; `shown` is what errors call it. Of options that exclude each other, the one
 * that is set now holds. A repeatable option is added to. The text must outlive *o. */
qp_status option_set(options *o, const option_row *row, const char *shown, const char *text, qp_error *err);
/* Back to zero, and not given. */
void option_unset(options *o, const option_row *row);
/* The option whose name is nearest to what was typed. */
const char *option_nearest(const struct command_row *command, const char *typed);
/* The same among those of option_find_own. */
const char *option_nearest_own(const struct command_row *command, const char *typed);
/* Did the user set this field of *o, by the command line or the environment? */
bool option_given(const options *o, const struct command_row *command, const void *field);
/* By the command line alone? */
bool option_typed(const options *o, const struct command_row *command, const void *field);
/* "threads" -> "QUIPU_THREADS". */
void option_environment(char *out, size_t capacity, const char *name);
/* Is `word` one of "a|b|c"? */
bool option_is_choice(const char *choices, const char *word);
/* Calls visit for each of "a|b|c". */
void option_each_choice(const char *choices, void (*visit)(void *user, const char *choice), void *user);

#endif
