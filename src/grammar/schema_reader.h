/* schema_reader.h — what the readers of a schema's keywords share: schema_read.c dispatches, schema_read_scalar.c,
 * schema_read_object.c and schema_read_array.c read the assertions that stand in the schema itself, schema_apply.c
 * those that bring in other schemas. */
#ifndef GRAMMAR_SCHEMA_READER_H
#define GRAMMAR_SCHEMA_READER_H

#include "schema_set.h"

/* One schema while it is read: its own assertions, apart by type. */
typedef struct schema_reader {
    schema *s;
    const sj_value *object; /* the schema */
    bool null, truth, lie, has_numbers, has_strings, has_objects, has_arrays;
    number_part number;
    string_set strings;
    object_shape *members;
    array_shape *items;
} schema_reader;

typedef void keyword_reader(schema_reader *r, const sj_value *value);
/* Brings another schema into the set so far. */
typedef void keyword_applier(schema *s, value_set *set, const sj_value *value);

/* NULL: not one of theirs. */
keyword_reader *scalar_keyword(span name);
keyword_reader *object_keyword(span name);
keyword_reader *array_keyword(span name);
keyword_applier *apply_keyword(span name);

/* schema_apply.c: what comes after all others. */
void apply_not(schema *s, value_set *set, const sj_value *value);
void apply_unevaluated(schema *s, value_set *set, const sj_value *object);

/* A number of things, from 0 up; 2.0 is one. false with the problem reported. */
bool read_count(schema *s, const sj_value *value, uint32_t *out);
/* A pattern's language; RX_NONE with the problem reported: *ok is false. */
rx read_pattern(schema *s, const sj_value *where, span pattern, bool *ok);
/* The member of the schema with that name and kind; NULL: none such. */
const sj_value *read_member(const sj_value *object, const char *name, sj_kind kind);

#endif
