/* command.h — one row for each command, and what every command is handed when it runs. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "interrupt.h"
#include "option.h"
#include "term.h"

/* Bits of option_row.commands. */
enum {
    FOR_GENERATE = 1 << 0,
    FOR_LOGITS = 1 << 1,
    FOR_TOKENIZE = 1 << 2,
    FOR_DETOKENIZE = 1 << 3,
    FOR_TEMPLATE = 1 << 4,
    FOR_INSPECT = 1 << 5,
    FOR_BENCH = 1 << 6,
    FOR_DEVICES = 1 << 7,
    FOR_VERSION = 1 << 8,
    FOR_HELP = 1 << 9,
    FOR_CHAT = 1 << 10,
    FOR_SERVE = 1 << 11,
    FOR_CONSTRAIN = 1 << 12,
};

enum { STATUS_DONE = 0, STATUS_FAILED = 1, STATUS_USAGE = 2, STATUS_INTERRUPTED = 130 };

/* One run of one command. */
typedef struct session {
    const struct command_row *command;
    const options *o;
    term term;
    interrupt *interrupt;
    bool is_wrong_usage;  /* the failure is the user's: exit status 2 */
    bool has_named_model; /* stderr has said which model is the default */
} session;

/* `run` returns QP_CANCELLED when it was interrupted; main.c makes exit statuses of it. */
typedef struct command_row {
    const char *name;
    unsigned bit;
    const char *words;   /* "a|b" that may follow the name, or a word in capitals for anything; NULL: nothing */
    const char *summary; /* one line */
    const char *about;   /* a paragraph for its help and the man page; lines end in \n */
    const char *examples[2];
    qp_status (*run)(session *s, qp_error *err);
} command_row;

extern const command_row command_rows[];
extern const size_t command_count;

/* NULL if there is none. */
const command_row *command_find(const char *name);
/* The command whose name is nearest to what was typed. */
const char *command_nearest(const char *typed);
/* Fills err and marks the session: what the user asked for cannot be asked. */
qp_status session_usage(session *s, qp_error *err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Did the user set this field of s->o? */
bool session_given(const session *s, const void *field);

qp_status cmd_generate(session *s, qp_error *err);
qp_status cmd_chat(session *s, qp_error *err);
qp_status cmd_logits(session *s, qp_error *err);
qp_status cmd_tokenize(session *s, qp_error *err);
qp_status cmd_detokenize(session *s, qp_error *err);
qp_status cmd_template(session *s, qp_error *err);
qp_status cmd_constrain(session *s, qp_error *err);
qp_status cmd_inspect(session *s, qp_error *err);
qp_status cmd_bench(session *s, qp_error *err);
qp_status cmd_serve(session *s, qp_error *err);
qp_status cmd_devices(session *s, qp_error *err);
qp_status cmd_version(session *s, qp_error *err);
qp_status cmd_help(session *s, qp_error *err);

#endif
