/* lark_common.h — what `%import common.NAME` brings into a Lark grammar. */
#ifndef GRAMMAR_LARK_COMMON_H
#define GRAMMAR_LARK_COMMON_H

#include "base/str.h"

/* The regular expression of a terminal; NULL: there is none of this name. */
const char *lark_common(span name);

#endif
