/* schema_format.h — the values of `format` that are asserted, as regular expressions. */
#ifndef GRAMMAR_SCHEMA_FORMAT_H
#define GRAMMAR_SCHEMA_FORMAT_H

#include "schema_chars.h"

/* NULL past the last. */
const char *format_name_at(size_t index);
/* The format's language; false: not one that is asserted. */
bool format_language(const spelling *s, span name, rx *out);

#endif
