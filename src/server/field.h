/* field.h — reads the members of a request's body by tables: one row per member, its aliases, its type, its range,
 * and where in a struct it goes.
 *
 * The same rows make the OpenAPI description. A member that is absent or null takes the row's standard value; unknown
 * members are nobody's business. Every refusal names the member as the client spelled it. Texts and documents are
 * borrowed from the body, lists live in the arena. */
#ifndef SERVER_FIELD_H
#define SERVER_FIELD_H

#include "refusal.h"
#include "base/mem.h"
#include "base/str.h"
#include <jansson.h>

typedef enum field_kind {
    FIELD_REAL,  /* double */
    FIELD_INT,   /* int64_t; 3.0 is one too */
    FIELD_BOOL,  /* bool */
    FIELD_MAYBE, /* int: 1 or 0, and -1 where it is absent */
    FIELD_TEXT,  /* span; at == NULL: absent */
    FIELD_TEXTS, /* field_texts: an array of strings, or one string */
    FIELD_IDS,   /* field_ids: an array of integers */
    FIELD_JSON,  /* const json_t *: read by its own code; NULL: absent */
    FIELD_NONE,  /* accepted and ignored; nothing is written */
} field_kind;

enum {
    FIELD_LOOSE = 1,   /* a number or true/false may come as a string; ids as "1,2,3"; texts as a JSON array in one */
    FIELD_OPEN = 2,    /* the lowest value is not allowed itself */
    FIELD_UNBUILT = 4, /* known but not implemented: any other value than the standard one is reported */
    FIELD_NEEDED = 8,  /* must be there */
    FIELD_LISTED = 16, /* part of a list that many routes share: left out of their own descriptions */
};

typedef struct field_texts {
    const char **at;
    size_t count;
} field_texts;

typedef struct field_ids {
    int32_t *at;
    size_t count;
} field_ids;

typedef struct field_row {
    const char *names; /* "min_temp|dynatemp_low": the first one present wins */
    field_kind kind;
    double lowest, highest; /* of numbers, of each id, of the length of lists of texts */
    double standard;
    size_t offset;
    unsigned flags;
    const char *about; /* for the OpenAPI description */
} field_row;

/* Names of members that are known, not implemented, and asked for: "name, name". */
typedef struct field_report {
    char unbuilt[160];
} field_report;

/* Writes all rows into *out. `body` is an object. `report` may be NULL. */
bool field_read(void *out, const field_row *rows, size_t n_rows, const json_t *body, arena *memory,
                field_report *report, refusal *why);

/* The member under the first of the row's names that is there and not null; *name is its spelling (64 bytes). NULL if
 * none is. */
const json_t *field_find(const field_row *row, const json_t *body, char name[64]);
/* A list of ids: an array of integers lowest .. highest. */
bool field_take_ids(field_ids *out, const json_t *list, const char *name, double lowest, double highest, arena *memory,
                    refusal *why);
/* A list of non-empty strings without zero bytes, or one such string. */
bool field_take_texts(field_texts *out, const json_t *value, const char *name, size_t most, arena *memory,
                      refusal *why);
/* Adds a name; `report` may be NULL. */
void field_note(field_report *report, const char *name);
/* Refuses: "name: found KIND, expected WANTED". */
bool field_wrong_kind(refusal *why, const char *name, const json_t *found, const char *wanted);

#endif
