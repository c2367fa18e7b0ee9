/* schema_writer.h — what the writers of rules share: schema_write.c gives each goal its symbol, schema_write_object.c
 * and schema_write_array.c write one shape each. */
#ifndef GRAMMAR_SCHEMA_WRITER_H
#define GRAMMAR_SCHEMA_WRITER_H

#include "schema_gaps.h"
#include "schema_set.h"

typedef struct written_goal {
    goal value;
    int depth;
    ir_sym symbol;
} written_goal;

typedef struct schema_writer {
    schema *s;
    ir *rules;
    rx_pool *pool;
    gaps gaps;
    number_style numbers;
    written_goal *goals; /* in the order in which they were met: those from `next` on want their rules */
    uint32_t n_goals, goal_room, next;
    uint32_t *table; /* goal + 1 by (value, depth) */
    uint32_t table_size;
    size_t states_left; /* a limit on the states of all shapes */
} schema_writer;

/* The symbol of a value `depth` brackets deep; IR_NOTHING where there is none. */
ir_sym write_value(schema_writer *w, goal value, int depth);
/* The symbol of all objects (arrays) of the shape; its members are one level deeper than `depth`. */
ir_sym write_object(schema_writer *w, const object_shape *o, int depth);
ir_sym write_array(schema_writer *w, const array_shape *a, int depth);
/* Brackets and commas with their gaps, as languages. */
rx write_open(schema_writer *w, const char *bracket, int depth);
rx write_close(schema_writer *w, const char *bracket, int depth);
rx write_comma(schema_writer *w, int depth);
/* Whether there may be members or items at this depth (pretty printing ends somewhere). */
bool write_may_nest(const schema_writer *w, int depth);
/* Takes one of the states; false with the problem reported. */
bool write_spend(schema_writer *w);

#endif
