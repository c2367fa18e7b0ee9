/* names.h — the rule names of a grammar text: each once, with where it was first used and whether it is defined. */
#ifndef GRAMMAR_NAMES_H
#define GRAMMAR_NAMES_H

#include "grammar/ir.h"

typedef struct name_entry {
    span name; /* borrowed from the source */
    ir_sym symbol;
    size_t offset; /* of the first use or the definition */
    bool is_defined;
    int extra; /* the front end's own */
} name_entry;

typedef struct names {
    name_entry *at;
    uint32_t *table;
    size_t n, room, table_room;
} names;

/* The entry of this name, new with *is_new; NULL: no memory. Pointers live until the next call. */
name_entry *names_get(names *t, span name, bool *is_new);
/* NULL: not there. */
name_entry *names_find(const names *t, span name);
void names_free(names *t);

/* "line 3, column 7" of an offset; `out` holds 48 bytes. */
char *names_place(char out[48], span source, size_t offset);

#endif
