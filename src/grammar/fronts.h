/* fronts.h — the front ends besides JSON Schema: each lowers one kind of source to the intermediate form. */
#ifndef GRAMMAR_FRONTS_H
#define GRAMMAR_FRONTS_H

#include "grammar/ir.h"

ir_front regex_lower;     /* front_small.c: the whole text matches */
ir_front choices_lower;   /* a JSON array of strings: the text is one of them */
ir_front prefix_lower;    /* the text begins so, then it is free */
ir_front gbnf_lower;      /* gbnf.c */
ir_front lark_lower;      /* lark.c */
ir_front structure_lower; /* structure.c: parts of all these kinds, free text and special tokens put together */

#endif
