/* schema_number.h — sets of numbers as JSON Schema makes them: exact ranges, whole or not, multiples of something.
 *
 * A set is a list of parts whose union it is. Intersection and difference are done on the values, never on their
 * spellings, so that 1, 1.0 and 1e0 stay one number until number_write chooses the spellings that are produced. */
#ifndef GRAMMAR_SCHEMA_NUMBER_H
#define GRAMMAR_SCHEMA_NUMBER_H

#include "grammar/rx.h"
#include "schema_decimal.h"
#include "schema_room.h"

typedef enum wholeness { NUMBER_ANY, NUMBER_WHOLE, NUMBER_BROKEN } wholeness;

enum { NUMBER_MAX_DIVISORS = 4 };

typedef struct number_part number_part;
struct number_part {
    number_part *next;
    decimal low, high;
    bool has_low, has_high, low_open, high_open;
    wholeness whole;
    int n_divisors;
    decimal divisors[NUMBER_MAX_DIVISORS]; /* positive */
    bool not_multiple[NUMBER_MAX_DIVISORS];
};

/* NULL is the empty set. */
typedef struct number_set {
    const number_part *parts;
} number_set;

/* What the set operations need and what went wrong in them. */
typedef struct number_work {
    schema_room *room;
    size_t products_left; /* of parts: a limit on the work */
    const char *refused;  /* why the result is wrong; NULL: it is right */
} number_work;

typedef struct number_style {
    int fraction_digits, exponent_digits; /* < 0: no limit */
} number_style;

number_set number_all(number_work *r);
number_set number_part_set(number_work *r, const number_part *part);
number_set number_value(number_work *r, decimal value);
number_set number_and(number_work *r, number_set a, number_set b);
number_set number_or(number_work *r, number_set a, number_set b);
number_set number_minus(number_work *r, number_set a, number_set b);
bool number_is_all(number_set s);
/* Exactly these values, each a part; false if the set is not written as values. */
bool number_is_values(number_set s);
/* The spellings that are produced. */
rx number_write(rx_pool *pool, number_work *r, number_set s, number_style style);

#endif
