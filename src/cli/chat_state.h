/* chat_state.h — one conversation of `quipu chat` while it runs: what its command, its answers and its slash commands
 * share. */
#ifndef CLI_CHAT_STATE_H
#define CLI_CHAT_STATE_H

#include "answer.h"
#include "chat_format.h"
#include "chat_session.h"
#include "lineedit.h"
#include "load.h"
#include "base/mem.h"

/* Of all answers so far. */
typedef struct chat_totals {
    size_t answers, failures;
    uint64_t prompt_tokens, cached_tokens, new_tokens;
    double seconds;
} chat_totals;

typedef struct chat_state {
    session *s;
    options own;    /* the settings of answers: the command line's, as /set and /load have changed them */
    arena texts;    /* that /set has put into them */
    json_t *loaded; /* array: documents whose texts /load has put into them */
    const qp_model *model;
    qp_model_info info;
    adapter_list adapters;   /* of --lora, for all answers */
    qp_generator *generator; /* one for all answers, so that the next prompt finds the last one in the cache */
    size_t context;          /* tokens of a prompt with its answer */
    chat_format format;
    chat_session talk;
    lineedit *line;
    uint64_t seed, n_seeds; /* the next answer's seed is their sum */
    qp_job_stats last;      /* of the last answer */
    chat_totals totals;
    bool is_live;  /* a person types */
    bool is_over;  /* /quit */
    bool is_ended; /* Ctrl-C while lines come out of a pipe */
    bool shows_stats;
} chat_state;

/* Answers the message that waits at the end of the conversation, and shows it. A failure is the answer's alone, the
 * conversation goes on without it; QP_IO: standard output is gone. */
qp_status chat_answer(chat_state *c, qp_error *err);
/* One line about speed, as `quipu generate` has it. */
void chat_print_speed(const chat_state *c);

/* Runs a line that begins with a slash. A failure has changed nothing. *asks: a message waits for its answer now. */
qp_status chat_command(chat_state *c, const char *line, bool *asks, qp_error *err);
/* Names of the slash commands: 0, 1, ... until NULL. */
const char *chat_command_name(int index);
/* Appends what the tab key adds behind this line: see lineedit_set_complete. `user` is the chat_state. */
void chat_complete(void *user, span line, strbuf *rest);
/* What may be said, checked as a whole: after the command line and after each change. */
qp_status chat_check(const chat_state *c, const options *o, qp_error *err);
/* Takes the seed of the settings, else one out of the clock, for the answers from now on. */
void chat_start_seeds(chat_state *c);

/* A remark to the person, on standard error; silent with --quiet. */
void chat_say(const chat_state *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An error that does not end the conversation. */
void chat_complain(const chat_state *c, const qp_error *err);

#endif
