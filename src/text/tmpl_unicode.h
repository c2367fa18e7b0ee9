/* tmpl_unicode.h — Python's view of characters: white space, kinds, case, what repr() shows as it is. */
#ifndef TEXT_TMPL_UNICODE_H
#define TEXT_TMPL_UNICODE_H

#include "base/str.h"
#include <stdint.h>

typedef enum char_kind {
    CHAR_ALPHA = 1,
    CHAR_DECIMAL = 2,
    CHAR_DIGIT = 4,
    CHAR_NUMERIC = 8,
    CHAR_SPACE = 16,
    CHAR_PRINTABLE = 32,
    CHAR_UPPER = 64,
    CHAR_LOWER = 128,
    CHAR_TITLE = 256,
    CHAR_CASED = CHAR_UPPER | CHAR_LOWER | CHAR_TITLE
} char_kind;

/* All kinds of a character, as str.isalpha() and its like see it. */
unsigned tmpl_char_kinds(uint32_t c);
/* What \w matches in Jinja's names, and what str.isidentifier() allows (first or later). */
bool tmpl_is_word(uint32_t c);
bool tmpl_is_identifier(uint32_t c, bool is_first);

/* Length of the white space character at s, 0 if there is none. */
int tmpl_space_length(const char *s, size_t bytes);
span tmpl_lstrip(span s);
span tmpl_rstrip(span s);

typedef enum char_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_FOLD } char_case;
/* Appends the full mapping of one character (up to three). `before` and `after` are the text around it: a final
 * sigma looks at them. */
void tmpl_case_add(strbuf *out, uint32_t c, char_case to, span before, span after);
/* Value 0-9 of a decimal digit of any script, -1 for anything else. */
int tmpl_decimal_value(uint32_t c);

#endif
