/* regex.h — regular expressions of tokenizer files: Oniguruma's Ruby syntax, run by PCRE2 with JIT and limits.
 *
 * The general path for patterns that scan.h does not cover. A pattern is hostile input as the text is: matching has a
 * limit on steps and memory, and reaching it is an error, not a wait. */
#ifndef TEXT_REGEX_H
#define TEXT_REGEX_H

#include "base/str.h"

typedef struct regex regex;
/* What one thread needs to match. Zero-initialised is ready. */
typedef struct regex_scratch {
    void *match_data, *context, *stack;
} regex_scratch;

qp_status regex_compile(regex **out, span pattern, qp_error *err);
void regex_free(regex *r);
void regex_scratch_free(regex_scratch *s);
/* The next match from `from` on. `text` must be well-formed UTF-8 and `from` the beginning of a character in it. */
qp_status regex_next(const regex *r, regex_scratch *s, span text, size_t from, bool *found, size_t *start, size_t *end,
                     qp_error *err);
/* Writes the pattern in PCRE2's syntax (regex_ruby.c). */
qp_status regex_from_ruby(strbuf *out, span pattern, qp_error *err);

#endif
