/* schema_room.h — the memory of one schema's compile: an arena that remembers that it once had nothing to give.
 *
 * Sets of values are computed by many small functions; none of them can return a wrong set unnoticed if the one flag
 * is looked at before the result is used. */
#ifndef GRAMMAR_SCHEMA_ROOM_H
#define GRAMMAR_SCHEMA_ROOM_H

#include "base/mem.h"

typedef struct schema_room {
    arena memory;
    bool failed;
} schema_room;

static inline void *room_get(schema_room *r, size_t count, size_t size) {
    void *got = arena_zget(&r->memory, count ? count : 1, size);
    if (!got) r->failed = true;
    return got;
}

#endif
