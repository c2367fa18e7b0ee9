/* manpage.c — quipu(1) in troff: all commands with all their options. */
#include "help.h"
#include <string.h>

/* Writes text so that troff shows it as it is. */
static void escaped(FILE *out, const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            fputs("\\e", out);
        else if (*c == '-')
            fputs("\\-", out);
        else if (*c == '\'')
            fputs("\\(aq", out);
        else if (*c == '"')
            fputs("\\(dq", out);
        else if (*c == '^')
            fputs("\\(ha", out);
        else
            fputc(*c, out);
    }
}

static void print_option(FILE *out, const option_row *row) {
    char name[160], facts[80];
    help_option_name(name, sizeof name, row);
    help_option_facts(facts, sizeof facts, row);
    fputs(".TP\n.B ", out);
    escaped(out, name + strspn(name, " "));
    fputc('\n', out);
    escaped(out, row->help);
    escaped(out, facts);
    fputc('\n', out);
}

static void print_examples(FILE *out, const command_row *c) {
    fputs(".PP\nExamples:\n.PP\n.nf\n", out);
    for (size_t i = 0; i < 2; i++) {
        fputs("    ", out);
        escaped(out, c->examples[i]);
        fputc('\n', out);
    }
    fputs(".fi\n", out);
}

static void print_command(FILE *out, const command_row *c) {
    fprintf(out, ".SS %s%s%s\n", c->name, c->words ? " " : "", c->words ? c->words : "");
    escaped(out, c->summary);
    fputs("\n.PP\n", out);
    escaped(out, c->about);
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->commands & c->bit && row->group != GROUP_GENERAL) print_option(out, row);
    print_examples(out, c);
}

static void print_general(FILE *out) {
    fputs(".SH GENERAL OPTIONS\nAll commands take these, and \\-\\-json those that answer something.\n", out);
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->group == GROUP_GENERAL) print_option(out, row);
}

int help_man(FILE *out) {
    fprintf(out, ".TH QUIPU 1 \"\" \"quipu %s\" \"User commands\"\n", qp_version());
    fputs(".SH NAME\nquipu \\- run large language models on this machine\n"
          ".SH SYNOPSIS\n.B quipu\n.I COMMAND\n[options]\n"
          ".SH DESCRIPTION\nAnswers go to standard output, everything else to standard error.\n.SH COMMANDS\n",
          out);
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) print_command(out, c);
    print_general(out);
    fputs(".SH ENVIRONMENT\nEach option may also come from the environment: \\-\\-top\\-k is\n.BR QUIPU_TOP_K .\n"
          "The command line wins; an empty variable counts as none.\n.TP\n.B NO_COLOR\nno colours, if it is not empty\n"
          ".SH EXIT STATUS\n0 done, 1 the work failed, 2 wrong usage, 130 interrupted.\n",
          out);
    return STATUS_DONE;
}
