/* jsonscan.h — a forward reader of JSON text for arrays too large to become a tree.
 *
 * A vocabulary of 150,000 entries as jansson values costs ten times the file; this reader hands out one string at a
 * time, straight from the text where it has no escapes. tok_json.c walks the big arrays with it and gives the small
 * rest to base/json.h. The first error sticks: a loop needs one check at its end. */
#ifndef TEXT_JSONSCAN_H
#define TEXT_JSONSCAN_H

#include "base/str.h"

typedef struct jsonscan {
    const char *text;
    size_t bytes, at;
    const char *where; /* the document's name in errors */
    strbuf unescaped;  /* holds the last string that had escapes */
    size_t n_skipped;  /* strings that jsonscan_skip passed over */
    qp_status status;
    qp_error *err;
} jsonscan;

jsonscan jsonscan_start(const char *text, size_t bytes, const char *where, qp_error *err);
void jsonscan_end(jsonscan *s);
/* The first byte of the next value or bracket, 0 at the end or after an error. */
char jsonscan_peek(jsonscan *s);
/* Steps into '{' or '['. */
bool jsonscan_enter(jsonscan *s, char bracket);
/* In an array: whether another element follows (false: the closing bracket was taken). *n counts them from 0 on. */
bool jsonscan_element(jsonscan *s, size_t *n);
/* In an object: the same, reading the key too, which lives until the next string with escapes is read. */
bool jsonscan_member(jsonscan *s, size_t *n, span *key);
/* The next value is a string, borrowed until the next string with escapes. */
bool jsonscan_string(jsonscan *s, span *out);
bool jsonscan_integer(jsonscan *s, int64_t *out);
bool jsonscan_real(jsonscan *s, double *out);
/* Passes over a value of any kind and gives its text. */
bool jsonscan_skip(jsonscan *s, span *out);
/* Sets the error, naming the place; false. */
bool jsonscan_fail(jsonscan *s, const char *what);

#endif
