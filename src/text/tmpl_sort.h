/* tmpl_sort.h — sorting by attributes, as sort, dictsort and groupby need it. */
#ifndef TEXT_TMPL_SORT_H
#define TEXT_TMPL_SORT_H

#include "tmpl_run.h"

typedef struct sort_rules {
    value attribute; /* a path; V_MISSING or None: the item itself */
    value fallback;  /* for an undefined attribute; V_MISSING: none */
    bool many;       /* the attribute may be several, separated by commas */
    bool ignore_case, is_reversed;
} sort_rules;

/* The key of an item; `paths` is one path (tmpl_attr_path), or with rules->many a list of them. */
bool tmpl_sort_key(tmpl_run *r, value item, const sort_rules *rules, const value *paths, value *out);
/* A new sorted list; with `keys` also the list of keys in the same order. */
bool tmpl_sort(tmpl_run *r, value on, const sort_rules *rules, value *out, value *keys);

#endif
