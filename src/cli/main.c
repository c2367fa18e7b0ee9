/* main.c — finds the command, reads its options, runs it, and turns what came of it into an exit status.
 *
 * 0 done, 1 the work failed, 2 wrong usage, 130 interrupted. An answer that could not be written (a full disk) is a
 * failure too; a closed pipe ends the program silently, as the shell expects. */
#include "busfault.h"
#include "command.h"
#include "help.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int complain(const term *t, const qp_error *err, int status) {
    fflush(stdout);
    fprintf(stderr, "%squipu:%s %s\n", term_set(t->colour_err, STYLE_RED), term_set(t->colour_err, STYLE_PLAIN),
            err->text[0] ? err->text : qp_status_text(err->code));
    return status;
}

static int wrong_usage(const term *t, const qp_error *err, const command_row *c) {
    complain(t, err, STATUS_USAGE);
    fprintf(stderr, "'quipu help%s%s' shows what there is\n", c ? " " : "", c ? c->name : "");
    return STATUS_USAGE;
}

static int flush_answer(const term *t, int status) {
    if (!fflush(stdout) && !ferror(stdout)) return status;
    qp_error err = {.code = QP_IO};
    snprintf(err.text, sizeof err.text, "standard output cannot be written: %s", strerror(errno));
    return complain(t, &err, STATUS_FAILED);
}

static int run(const command_row *c, const options *o, term t) {
    interrupt in;
    interrupt_start(&in);
    session s = {.command = c, .o = o, .term = t, .interrupt = &in};
    qp_error err = {.code = QP_OK};
    const qp_status status = c->run(&s, &err);
    term_bar_end(&s.term);
    if (status == QP_OK) return flush_answer(&t, STATUS_DONE);
    if (status == QP_CANCELLED && interrupt_asked(&in)) return flush_answer(&t, STATUS_INTERRUPTED);
    return s.is_wrong_usage ? wrong_usage(&t, &err, c) : complain(&t, &err, STATUS_FAILED);
}

static int run_command(const command_row *c, int argc, char **argv) {
    options o;
    qp_error err;
    term t;
    const qp_status status = option_parse(&o, c, argc, argv, &err);
    term_init(&t, o.color && *o.color ? o.color : "auto", o.quiet, o.verbose);
    int result;
    if (status != QP_OK)
        result = wrong_usage(&t, &err, c);
    else if (o.help)
        result = flush_answer(&t, help_command(stdout, c, t.colour_out));
    else
        result = run(c, &o, t);
    options_free(&o);
    return result;
}

/* `quipu --help` and `quipu --version` are commands too. */
static const char *command_name(const char *typed) {
    if (!strcmp(typed, "--help") || !strcmp(typed, "-h")) return "help";
    return strcmp(typed, "--version") ? typed : "version";
}

int main(int argc, char **argv) {
    term t;
    busfault_watch();
    term_init(&t, "auto", false, false);
    if (argc < 2) {
        help_commands(stderr, t.colour_err);
        return STATUS_USAGE;
    }
    const command_row *c = command_find(command_name(argv[1]));
    if (c) return run_command(c, argc - 2, argv + 2);
    qp_error err;
    err_set(&err, QP_BAD_ARGUMENT, 0, "unknown command '%.80s'; did you mean '%s'?", argv[1], command_nearest(argv[1]));
    return wrong_usage(&t, &err, NULL);
}
