/* completion.c — completions for bash, zsh and fish: commands, their options, the words that a choice allows. */
#include "help.h"
#include <string.h>

static bool takes_path(const option_row *row) {
    return row->value && (!strcmp(row->value, "FILE") || !strcmp(row->value, "PATH"));
}

/* "a|b" with other separators. */
static void print_words(FILE *out, const char *words, char between) {
    for (const char *c = words; *c; c++) fputc(*c == '|' ? between : *c, out);
}

static void print_commands(FILE *out) {
    for (size_t i = 0; i < command_count; i++) fprintf(out, "%s%s", i ? " " : "", command_rows[i].name);
}

/* ---- bash ---- */

static void bash_values(FILE *out, const command_row *c) {
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        if (!(row->commands & c->bit) || row->kind == OPTION_FLAG) continue;
        fprintf(out, "        %s:--%s", c->name, row->name);
        if (row->letter) fprintf(out, "|%s:-%c", c->name, row->letter);
        fputs(") ", out);
        if (row->choices) {
            fputs("COMPREPLY=($(compgen -W '", out);
            print_words(out, row->choices, ' ');
            fputs("' -- \"$word\"));", out);
        } else if (takes_path(row))
            fputs("COMPREPLY=($(compgen -f -- \"$word\"));", out);
        fputs(" return ;;\n", out);
    }
}

static void bash_options(FILE *out, const command_row *c) {
    fprintf(out, "        %s) words='", c->name);
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->commands & c->bit) fprintf(out, "--%s ", row->name);
    if (c->bit == FOR_HELP)
        print_commands(out);
    else if (c->words)
        print_words(out, c->words, ' ');
    fputs("' ;;\n", out);
}

static void print_bash(FILE *out) {
    fputs(
        "# completions of quipu for bash\n_quipu() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words=\n"
        "    COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '",
        out);
    print_commands(out);
    fputs("' -- \"$word\"))\n        return\n    fi\n    case $command:$before in\n", out);
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) bash_values(out, c);
    fputs("    esac\n    case $command in\n", out);
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) bash_options(out, c);
    fputs("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
          "complete -o filenames -F _quipu quipu\n",
          out);
}

/* ---- zsh ---- */

/* Inside '...[...]': quotes, brackets and colons are special. */
static void zsh_text(FILE *out, const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *c))
            fprintf(out, "\\%c", *c);
        else
            fputc(*c, out);
    }
}

static void zsh_option(FILE *out, const option_row *row) {
    fputs(" \\\n            ", out);
    if (row->letter)
        fprintf(out, "{-%c,--%s}", row->letter, row->name);
    else
        fprintf(out, "--%s", row->name);
    fputs("'[", out);
    zsh_text(out, row->help);
    fputc(']', out);
    if (row->kind != OPTION_FLAG) {
        fprintf(out, ":%s:", row->name);
        if (row->choices) {
            fputc('(', out);
            print_words(out, row->choices, ' ');
            fputc(')', out);
        } else if (takes_path(row))
            fputs("_files", out);
    }
    fputc('\'', out);
}

static void zsh_command(FILE *out, const command_row *c) {
    fprintf(out, "        %s) _arguments", c->name);
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->commands & c->bit) zsh_option(out, row);
    if (c->words) {
        fputs(" \\\n            '::word:(", out);
        if (c->bit == FOR_HELP)
            print_commands(out);
        else
            print_words(out, c->words, ' ');
        fputs(")'", out);
    }
    fputs(" ;;\n", out);
}

static void print_zsh(FILE *out) {
    fputs("#compdef quipu\n_quipu() {\n    local -a commands=(\n", out);
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) {
        fprintf(out, "        '%s:", c->name);
        zsh_text(out, c->summary);
        fputs("'\n", out);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
          "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n",
          out);
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) zsh_command(out, c);
    fputs("    esac\n}\n_quipu \"$@\"\n", out);
}

/* ---- fish ---- */

static void fish_text(FILE *out, const char *text) {
    fputc('\'', out);
    for (const char *c = text; *c; c++) {
        if (*c == '\'' || *c == '\\') fputc('\\', out);
        fputc(*c, out);
    }
    fputc('\'', out);
}

static void fish_option(FILE *out, const command_row *c, const option_row *row) {
    fprintf(out, "complete -c quipu -n '__fish_seen_subcommand_from %s' -l %s", c->name, row->name);
    if (row->letter) fprintf(out, " -s %c", row->letter);
    if (row->kind != OPTION_FLAG) fputs(takes_path(row) ? " -r -F" : " -x", out);
    if (row->choices) {
        fputs(" -a '", out);
        print_words(out, row->choices, ' ');
        fputc('\'', out);
    }
    fputs(" -d ", out);
    fish_text(out, row->help);
    fputc('\n', out);
}

static void fish_command(FILE *out, const command_row *c) {
    fprintf(out, "complete -c quipu -n __fish_use_subcommand -a %s -d ", c->name);
    fish_text(out, c->summary);
    fputc('\n', out);
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->commands & c->bit) fish_option(out, c, row);
    if (!c->words) return;
    fprintf(out, "complete -c quipu -n '__fish_seen_subcommand_from %s' -a '", c->name);
    if (c->bit == FOR_HELP)
        print_commands(out);
    else
        print_words(out, c->words, ' ');
    fputs("'\n", out);
}

static void print_fish(FILE *out) {
    fputs("# completions of quipu for fish\ncomplete -c quipu -f\n", out);
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) fish_command(out, c);
}

int help_completion(FILE *out, const char *shell) {
    if (!strcmp(shell, "bash"))
        print_bash(out);
    else if (!strcmp(shell, "zsh"))
        print_zsh(out);
    else
        print_fish(out);
    return STATUS_DONE;
}
