/* tmpl_tables.h — filters, tests and methods are rows of const tables; the parser looks them up by name once. */
#ifndef TEXT_TMPL_TABLES_H
#define TEXT_TMPL_TABLES_H

#include "tmpl_run.h"

/* `args` has been put in the order of `names` by tmpl_bind; rows without names get the call as it is. */
typedef bool filter_fn(tmpl_run *r, value on, const value *args, const call_args *call, value *out);
typedef struct filter_row {
    const char *name;
    const char *names; /* see tmpl_bind; NULL: takes the call */
    filter_fn *run;
} filter_row;

typedef bool test_fn(tmpl_run *r, value on, const value *args, bool *out);
typedef struct test_row {
    const char *name;
    int n_args;
    test_fn *run;
} test_row;

/* NULL: unknown. */
const filter_row *tmpl_filter_find(span name);
const test_row *tmpl_test_find(span name);

extern const filter_row tmpl_filters_text[], tmpl_filters_seq[], tmpl_filters_lazy[],
    tmpl_filters_misc[]; /* end: name NULL */

typedef bool method_fn(tmpl_run *r, value on, const value *args, const call_args *call, value *out);
typedef struct method_row {
    const char *name;
    unsigned kinds;    /* of the object: 1 << V_STR ... */
    const char *names; /* as of filters */
    bool takes_names;  /* whether arguments may be given by name */
    method_fn *run;
} method_row;
extern const method_row tmpl_methods_cut[], tmpl_methods_text[], tmpl_methods_data[]; /* end: name NULL */

enum { MAX_ARGS = 8 };

#endif
