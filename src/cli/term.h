/* term.h — what stdout and stderr are, colours for them, and a progress bar.
 *
 * --color decides; "auto" colours a terminal unless NO_COLOR is set or TERM is "dumb". Progress is drawn on a terminal
 * only, so files and pipes never get it. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdbool.h>
#include <stdio.h>

typedef struct term {
    bool colour_out, colour_err; /* may style stdout, stderr */
    bool live_out, live_err;     /* a person is looking at stdout, stderr */
    bool quiet, verbose;
    double bar_start; /* clock when the bar was asked for first; 0: not yet */
    double bar_drawn; /* clock of the last drawing; 0: nothing on the screen */
} term;

typedef enum term_style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_YELLOW, STYLE_CYAN } term_style;

/* `color` is "auto", "always" or "never". */
void term_init(term *t, const char *color, bool quiet, bool verbose);
/* The bytes that switch to a style, "" where colours are off. */
const char *term_set(bool coloured, term_style style);
/* Writes a text that others made: control characters that could command a terminal become '?', lines and tabs stay. */
void term_text(FILE *out, const char *text, size_t bytes);
/* Draws or updates "what [#####     ] 42 %" on stderr; the first 0.2 s show nothing. */
void term_bar(term *t, const char *what, double done, double total);
/* The same with something behind it, like speed. */
void term_bar_note(term *t, const char *what, const char *note, double done, double total);
/* Wipes the bar, if there is one. */
void term_bar_end(term *t);

#endif
