/* help.c — help for people: the list of commands, and all about one of them. */
#include "help.h"
#include <string.h>

enum { NAME_WIDTH = 28, LINE_WIDTH = 110 };

int help_option_name(char *out, size_t capacity, const option_row *row) {
    char letter[8] = "    ";
    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    return snprintf(out, capacity, "%s--%s%s%s", letter, row->name, row->value ? " " : "",
                    row->value ? row->value : "");
}

void help_option_facts(char *out, size_t capacity, const option_row *row) {
    *out = 0;
    if (row->standard && !strstr(row->help, "default")) snprintf(out, capacity, " (default: %s)", row->standard);
}

/* Writes text in lines of LINE_WIDTH, all but the first indented. */
static void wrapped(FILE *out, const char *text, size_t indent) {
    size_t column = indent;
    while (*text) {
        const size_t bytes = strcspn(text, " ");
        if (column > indent && column + 1 + bytes > LINE_WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, bytes, out);
        column += bytes;
        text += bytes;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_option(FILE *out, const option_row *row, bool coloured) {
    char name[160], facts[80], text[400];
    const int width = help_option_name(name, sizeof name, row);
    help_option_facts(facts, sizeof facts, row);
    snprintf(text, sizeof text, "%s%s", row->help, facts);
    fprintf(out, "  %s%s%s", term_set(coloured, STYLE_CYAN), name, term_set(coloured, STYLE_PLAIN));
    if (width > NAME_WIDTH)
        fprintf(out, "\n%*s", NAME_WIDTH + 4, "");
    else
        fprintf(out, "%*s", NAME_WIDTH + 2 - width, "");
    wrapped(out, text, NAME_WIDTH + 4);
}

static void print_group(FILE *out, const command_row *c, option_group group, bool coloured) {
    bool has_title = false;
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        if (row->group != group || !(row->commands & c->bit)) continue;
        if (!has_title)
            fprintf(out, "\n%s%s%s\n", term_set(coloured, STYLE_BOLD), option_group_title(group),
                    term_set(coloured, STYLE_PLAIN));
        has_title = true;
        print_option(out, row, coloured);
    }
}

int help_commands(FILE *out, bool coloured) {
    fprintf(out, "%squipu%s runs large language models on this machine.\n\nusage: quipu COMMAND [options]\n\n",
            term_set(coloured, STYLE_BOLD), term_set(coloured, STYLE_PLAIN));
    for (const command_row *c = command_rows; c < command_rows + command_count; c++)
        fprintf(out, "  %s%-12s%s %s\n", term_set(coloured, STYLE_CYAN), c->name, term_set(coloured, STYLE_PLAIN),
                c->summary);
    fputs("\n'quipu help COMMAND' shows the options of a command, with examples. Try:\n\n"
          "  quipu generate -p \"Once upon a time\" -n 100\n",
          out);
    return STATUS_DONE;
}

int help_command(FILE *out, const command_row *c, bool coloured) {
    fprintf(out, "%squipu %s%s: %s\n\nusage: quipu %s", term_set(coloured, STYLE_BOLD), c->name,
            term_set(coloured, STYLE_PLAIN), c->summary, c->name);
    if (c->words) fprintf(out, " [%s]", c->words);
    fputs(" [options]\n", out);
    if (*c->about) fprintf(out, "\n%s", c->about);
    for (int group = 0; group < GROUP_COUNT; group++) print_group(out, c, (option_group)group, coloured);
    fprintf(out, "\n%sExamples%s\n", term_set(coloured, STYLE_BOLD), term_set(coloured, STYLE_PLAIN));
    for (size_t i = 0; i < 2; i++) fprintf(out, "  %s\n", c->examples[i]);
    fputs("\nOptions may also come from the environment: --top-k is QUIPU_TOP_K.\n", out);
    return STATUS_DONE;
}
