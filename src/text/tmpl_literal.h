/* tmpl_literal.h — names, numbers and strings inside of template tags. */
#ifndef TEXT_TMPL_LITERAL_H
#define TEXT_TMPL_LITERAL_H

#include "tmpl_lex.h"

/* Reads the literal at the beginning of `rest` into *out (its `at` is set by the caller) and its length into *bytes;
 * 0 bytes: none begins here. Texts lie in `rest` or in `memory`. */
qp_status tmpl_read_literal(span rest, bool after_dot, arena *memory, token *out, size_t *bytes,
                            const tmpl_source *source, qp_error *err);

#endif
