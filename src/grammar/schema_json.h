/* schema_json.h — a JSON document as a tree that keeps what a schema's meaning hangs on: the order of members, the
 * digits of numbers, and where each value stands.
 *
 * base/json.h is for configuration: it rounds numbers to doubles and lets the last of two equal keys win. Here
 * 0.1 stays 0.1, 10^30 stays an integer, and a key that comes twice is an error. Values live in the caller's arena;
 * strings are unescaped, and may hold zero bytes. */
#ifndef GRAMMAR_SCHEMA_JSON_H
#define GRAMMAR_SCHEMA_JSON_H

#include "base/mem.h"
#include "base/str.h"

typedef enum sj_kind { SJ_NULL, SJ_FALSE, SJ_TRUE, SJ_NUMBER, SJ_STRING, SJ_ARRAY, SJ_OBJECT } sj_kind;

typedef struct sj_value sj_value;
struct sj_value {
    sj_kind kind;
    uint32_t n;        /* members or items */
    uint32_t mask;     /* of `table`, 0: none */
    uint32_t node;     /* schema_set.c: number of the schema made from it, 0: none yet */
    uint32_t resource; /* schema_ref.c: number of the resource that begins here, 0: none */
    span text;         /* a string unescaped, a number as written */
    span key;          /* in the object around it */
    const sj_value *parent;
    sj_value *first, *next;
    sj_value **table; /* large objects: members by the hash of their keys */
};

/* The limit on nesting: what reads and walks these trees may recurse. */
enum { SJ_MAX_DEPTH = 256 };

/* *out lives as long as the arena. The error's offset is a byte of the text. */
qp_status sj_parse(sj_value **out, arena *memory, span text, const char *where, qp_error *err);
/* The member of that name; NULL where there is none or `object` is no object. */
sj_value *sj_member(const sj_value *object, span key);
/* Appends the JSON Pointer of a value (without the '#'). */
void sj_pointer(strbuf *out, const sj_value *value);

#endif
