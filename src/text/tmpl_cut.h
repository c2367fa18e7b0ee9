/* tmpl_cut.h — cutting texts and replacing in them: shared by string methods and filters. */
#ifndef TEXT_TMPL_CUT_H
#define TEXT_TMPL_CUT_H

#include "tmpl_run.h"

enum { CUT_LEFT = 1, CUT_RIGHT = 2 };
/* `chars`: V_MISSING or None for white space, else a text of characters. */
bool tmpl_strip(tmpl_run *r, value text, value chars, unsigned sides, value *out);
/* At most `limit` times; -1: all. */
bool tmpl_replace(tmpl_run *r, value text, span from, span to, int64_t limit, value *out);
bool tmpl_split_lines(tmpl_run *r, value text, bool keep_ends, value *out);
/* A part of `text` as a value of the same type. */
bool tmpl_part(tmpl_run *r, value text, span part, value *out);

#endif
