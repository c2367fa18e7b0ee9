/* term.c — colours, and the one bar on stderr. */
#include "term.h"
#include "base/clock.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_CELLS = 30 };
static const double BAR_DELAY = 0.2, BAR_EVERY = 0.05; /* seconds */

static bool wants_colour(const char *color, bool is_live) {
    if (!strcmp(color, "always")) return true;
    if (!strcmp(color, "never") || !is_live) return false;
    const char *no_color = getenv("NO_COLOR"), *kind = getenv("TERM");
    return !(no_color && *no_color) && !(kind && !strcmp(kind, "dumb"));
}

void term_init(term *t, const char *color, bool quiet, bool verbose) {
    memset(t, 0, sizeof *t);
    t->live_out = isatty(STDOUT_FILENO);
    t->live_err = isatty(STDERR_FILENO);
    t->colour_out = wants_colour(color, t->live_out);
    t->colour_err = wants_colour(color, t->live_err);
    t->quiet = quiet;
    t->verbose = verbose;
}

const char *term_set(bool coloured, term_style style) {
    static const char *const codes[] = {
        [STYLE_PLAIN] = "\033[0m", [STYLE_BOLD] = "\033[1m",    [STYLE_DIM] = "\033[2m",
        [STYLE_RED] = "\033[31m",  [STYLE_YELLOW] = "\033[33m", [STYLE_CYAN] = "\033[36m",
    };
    return coloured ? codes[style] : "";
}

void term_text(FILE *out, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i], next = i + 1 < bytes ? (unsigned char)text[i + 1] : 0;
        const bool is_c1 = c == 0xC2 && next >= 0x80 && next < 0xA0; /* the other set of them, in UTF-8 */
        const bool is_control = (c < 32 && c != '\n' && c != '\t') || c == 127 || is_c1;
        fputc(is_control ? '?' : c, out);
        i += is_c1;
    }
}

void term_bar_note(term *t, const char *what, const char *note, double done, double total) {
    if (!t->live_err || t->quiet || !(total > 0)) return;
    const double now = clock_now();
    if (!t->bar_start) t->bar_start = now;
    if (now - t->bar_start < BAR_DELAY || (t->bar_drawn && now - t->bar_drawn < BAR_EVERY)) return;
    t->bar_drawn = now;
    const double share = done < total ? done / total : 1;
    const int cells = (int)(share * BAR_CELLS);
    char bar[BAR_CELLS + 1];
    memset(bar, '#', (size_t)cells);
    memset(bar + cells, ' ', (size_t)(BAR_CELLS - cells));
    bar[BAR_CELLS] = 0;
    fprintf(stderr, "\r%s [%s] %3.0f %%%s\033[K", what, bar, 100 * share, note);
    fflush(stderr);
}

void term_bar(term *t, const char *what, double done, double total) { term_bar_note(t, what, "", done, total); }

void term_bar_end(term *t) {
    if (t->bar_drawn) fputs("\r\033[K", stderr);
    t->bar_start = t->bar_drawn = 0;
}
