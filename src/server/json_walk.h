/* json_walk.h — finds the end of a JSON value that comes in pieces, without reading what it means. */
#ifndef SERVER_JSON_WALK_H
#define SERVER_JSON_WALK_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised stands before the value. */
typedef struct json_walk {
    int depth;
    bool has_begun, in_text, is_escaped;
    bool is_done;
} json_walk;

/* How many of the bytes belong to the value (blanks before it too); is_done when it ends there. Brackets and quotes are
 * balanced, nothing else is checked. */
size_t json_walk_feed(json_walk *w, const char *at, size_t bytes);

#endif
