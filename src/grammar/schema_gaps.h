/* schema_gaps.h — what may stand between the tokens of JSON: the white space policies. */
#ifndef GRAMMAR_SCHEMA_GAPS_H
#define GRAMMAR_SCHEMA_GAPS_H

#include "schema_chars.h"

typedef struct gaps {
    rx gap; /* compact, flexible: everywhere; single: after ':' and ',' */
    bool everywhere;
    int indent; /* pretty: spaces a level; -1: not pretty */
} gaps;

/* Deepest nesting of what is indented. */
enum { GAPS_MAX_DEPTH = 24 };

/* `policy` as in ir_options; NULL: "single". */
qp_status gaps_read(gaps *out, const spelling *plain, const char *policy, qp_error *err);
/* After an opening bracket or a comma, before a closing one (there with the depth outside); `depth` is that of what
 * follows. */
rx gaps_line(const gaps *g, rx_pool *pool, int depth, bool after_comma);
rx gaps_before_colon(const gaps *g);
rx gaps_after_colon(const gaps *g, rx_pool *pool);
rx gaps_before_comma(const gaps *g);

#endif
