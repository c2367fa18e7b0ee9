/* schema_keyword.h — every keyword of JSON Schema that is known, and what becomes of it: the table that the reader
 * (schema_read.c), the search for references (schema_ref.c) and docs/constraints.md share. */
#ifndef GRAMMAR_SCHEMA_KEYWORD_H
#define GRAMMAR_SCHEMA_KEYWORD_H

#include "base/str.h"

typedef enum keyword_status {
    KEYWORD_EXACT,      /* as the specification says */
    KEYWORD_NARROWED,   /* some valid texts are not produced: `note` says which */
    KEYWORD_PARTLY,     /* exact in the cases of `note`, refused in others */
    KEYWORD_ANNOTATION, /* says nothing about validity */
    KEYWORD_STRUCTURE,  /* names and places of schemas */
} keyword_status;

/* Where schemas are inside a keyword's value: the search for $id and $anchor goes there and nowhere else. */
typedef enum keyword_holds {
    HOLDS_NOTHING,
    HOLDS_SCHEMA,
    HOLDS_SCHEMAS,         /* an array of them */
    HOLDS_SCHEMA_MAP,      /* an object of them */
    HOLDS_SCHEMA_OR_LIST,  /* items */
    HOLDS_SCHEMA_OR_NAMES, /* dependencies: an object of schemas and lists of names */
} keyword_holds;

typedef struct keyword_row {
    const char *name;
    keyword_status status;
    keyword_holds holds;
    const char *note; /* for the documentation; "" where the status says it all */
} keyword_row;

/* NULL: not known. */
const keyword_row *keyword_find(span name);
/* In the order of the documentation; NULL past the last. */
const keyword_row *keyword_at(size_t index);
const char *keyword_status_name(keyword_status status);
/* The table of docs/constraints.md, Markdown. Appends. */
void keyword_write_table(strbuf *out);

#endif
