/* help.h — everything that quipu says about itself, made from the tables of commands and options. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "command.h"
#include <stdio.h>

/* The list of commands. All return STATUS_DONE. */
int help_commands(FILE *out, bool coloured);
/* One command: usage, options in groups, examples. */
int help_command(FILE *out, const command_row *c, bool coloured);
/* The man page, in troff. */
int help_man(FILE *out);
/* Completions of "bash", "zsh" or "fish". */
int help_completion(FILE *out, const char *shell);

/* "-n, --new-tokens N" into out; returns its width. */
int help_option_name(char *out, size_t capacity, const option_row *row);
/* " (default 0.8)" and " (range 1 to 10)" as far as the row has them; "" otherwise. */
void help_option_facts(char *out, size_t capacity, const option_row *row);

#endif
