/* chat_complete.c — what the tab key adds: the rest of a slash command's name, or of a setting's behind /set.
 *
 * Called by the line editor. Where several names fit, only what they have in common is added. */
#include "chat_state.h"

typedef struct completing {
    span typed;
    const char *common; /* the first name that fits; NULL: none does */
    size_t bytes, n;    /* of it that all have that fit; how many do */
} completing;

static void try_name(completing *w, const char *name) {
    if (strncmp(name, w->typed.at, w->typed.bytes) != 0) return;
    if (!w->n++) {
        w->common = name;
        w->bytes = strlen(name);
    }
    size_t same = 0;
    while (same < w->bytes && name[same] == w->common[same]) same++;
    w->bytes = same;
}

static void try_settings(completing *w, const chat_state *c) {
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (option_find_own(c->s->command, row->name) == row) try_name(w, row->name);
}

static void try_commands(completing *w) {
    const char *name;
    for (int i = 0; (name = chat_command_name(i)); i++) try_name(w, name);
}

void chat_complete(void *user, span line, strbuf *rest) {
    static const span set = {"/set ", 5};
    const bool is_setting = span_starts(line, set);
    const size_t before = is_setting ? set.bytes : 1;
    if (!line.bytes || *line.at != '/') return;
    completing w = {.typed = {line.at + before, line.bytes - before}};
    if (memchr(w.typed.at, ' ', w.typed.bytes)) return;
    if (is_setting)
        try_settings(&w, user);
    else
        try_commands(&w);
    if (!w.n) return;
    strbuf_add(rest, w.common + w.typed.bytes, w.bytes - w.typed.bytes);
    if (w.n == 1) strbuf_char(rest, ' ');
}
