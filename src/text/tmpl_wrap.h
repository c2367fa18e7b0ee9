/* tmpl_wrap.h — text broken into lines, and HTML with its tags taken out. */
#ifndef TEXT_TMPL_WRAP_H
#define TEXT_TMPL_WRAP_H

#include "tmpl_run.h"

typedef struct wrap_rules {
    int64_t width;
    bool break_long, break_hyphens;
} wrap_rules;

bool tmpl_wrap(tmpl_run *r, value text, const wrap_rules *rules, span newline, value *out);
bool tmpl_strip_tags(tmpl_run *r, value text, value *out);

#endif
