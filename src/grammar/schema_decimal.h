/* schema_decimal.h — exact decimal numbers, as JSON writes them: compared and computed with as digits, never as
 * binary fractions. */
#ifndef GRAMMAR_SCHEMA_DECIMAL_H
#define GRAMMAR_SCHEMA_DECIMAL_H

#include "base/mem.h"
#include "base/str.h"

/* ±0.d1d2d3… × 10^point; the first and the last digit are not 0; zero has no digits (and is never negative). */
typedef struct decimal {
    const char *digits;
    int n;
    int point;
    bool negative;
} decimal;

/* Longest number that is handled: digits before and after the point, written out. */
enum { DECIMAL_MAX = 400 };

/* Whether the text is a number of JSON, of any length. */
bool decimal_is_json(span text);
/* false: `text` is no JSON number, or longer than DECIMAL_MAX when written out (*too_long), or memory is short. */
bool decimal_read(decimal *out, arena *memory, span text, bool *too_long);
int decimal_compare(decimal a, decimal b);
bool decimal_is_integer(decimal a);
/* The plain spelling without exponent: "-12.5". Appends. */
void decimal_write(strbuf *out, decimal a);
/* How many digits it has before and after the point. */
static inline int decimal_n_whole(decimal a) { return a.point > 0 ? a.point : 0; }
static inline int decimal_n_fraction(decimal a) { return a.n > a.point ? a.n - a.point : 0; }
/* The digit worth 10^place, 0 where none is written. */
static inline int decimal_digit(decimal a, int place) {
    const int i = a.point - 1 - place;
    return i >= 0 && i < a.n ? a.digits[i] - '0' : 0;
}
/* A whole number from 0 to `most`; false for others. */
bool decimal_to_count(decimal a, uint64_t most, uint64_t *out);

#endif
