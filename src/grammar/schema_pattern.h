/* schema_pattern.h — the regular expressions of JSON Schema (ECMA-262 with Unicode on) as languages of spelled text.
 *
 * A pattern is searched for, so `a` means "has an a somewhere"; ^, $ and look-ahead are exact because each piece is
 * compiled together with all that follows it. What has no regular language here (back-references, look-behind, word
 * boundaries, anchors under a repetition) is refused with the place. */
#ifndef GRAMMAR_SCHEMA_PATTERN_H
#define GRAMMAR_SCHEMA_PATTERN_H

#include "schema_chars.h"

typedef struct pattern_error {
    size_t offset;    /* byte of the pattern */
    const char *what; /* one sentence */
    bool is_syntax;   /* no regular expression at all; false: one that is not supported */
} pattern_error;

/* RX_NONE with *error filled (error->what set), or the language. `whole`: the pattern must match all of the text. */
rx pattern_language(const spelling *s, span pattern, bool whole, pattern_error *error);

#endif
