/* pattern.h — regular expressions of the dialect that ECMA and RE2 share, matched against the whole text.
 *
 * For the regex filter and for the terminals of Lark grammars (JSON Schema's `pattern` searches and has its own reader,
 * schema_pattern.h). Works on code points. Lazy quantifiers mean the same as greedy ones here. What has no regular
 * language, or none that a constraint can keep (look-around, back-references, word boundaries), is refused with its
 * offset. */
#ifndef GRAMMAR_PATTERN_H
#define GRAMMAR_PATTERN_H

#include "grammar/ir.h"

/* QP_BAD_FORMAT for what is no regular expression, QP_UNSUPPORTED for one that cannot be kept; err->offset is the
 * place. `flags`: letters of "imsxu" that hold from the beginning; NULL: none. */
qp_status pattern_parse(rx_pool *p, rx *out, span text, const char *flags, qp_error *err);

/* Ranges of code points that grow as needed. */
typedef struct range_list {
    rx_range *at;
    size_t n, room;
    bool failed;
} range_list;
void range_add(range_list *l, uint32_t first, uint32_t last);
void range_free(range_list *l);
/* Everything else. */
void range_invert(range_list *l);
/* The other cases of all letters in it. */
void range_add_cases(range_list *l);
/* A general category ("L", "Nd", ...), "Any", "ASCII", "Alphabetic", or a script, also as "Script=Greek"; false: no
 * such name. */
bool range_add_property(range_list *l, span name);

#endif
