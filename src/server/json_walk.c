/* json_walk.c — finds the end of a JSON value that comes in pieces. */
#include "json_walk.h"
#include <string.h>

static void walk_text(json_walk *w, char c) {
    if (w->is_escaped)
        w->is_escaped = false;
    else if (c == '\\')
        w->is_escaped = true;
    else if (c == '"')
        w->in_text = false;
}

size_t json_walk_feed(json_walk *w, const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes && !w->is_done; i++) {
        const char c = at[i];
        if (w->in_text) {
            walk_text(w, c);
            if (!w->in_text && !w->depth) return w->is_done = true, i + 1;
            continue;
        }
        const bool is_blank = c && strchr(" \t\r\n", c), closes = c == '}' || c == ']';
        if (!w->has_begun && is_blank) continue;
        /* A bare number or word ends before what cannot be part of it. */
        if (!w->depth && (closes || c == ',' || (w->has_begun && is_blank))) return w->is_done = true, i;
        w->has_begun = true;
        if (c == '"') w->in_text = true;
        if (c == '{' || c == '[') w->depth++;
        if (closes && !--w->depth) return w->is_done = true, i + 1;
    }
    return bytes;
}
