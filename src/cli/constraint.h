/* constraint.h — what --schema, --regex, --grammar and --choice ask for, compiled. */
#ifndef CLI_CONSTRAINT_H
#define CLI_CONSTRAINT_H

#include "command.h"
#include "server/tool_format.h"
#include <stdio.h>

enum { CONSTRAINT_MOST = 4 };

/* What comes before the constrained text; zero: nothing. */
typedef struct constraint_before {
    const thought_format *thoughts; /* they may come ... */
    bool is_open;                   /* ... or the prompt has begun them */
} constraint_before;

/* Several constraints hold together. */
typedef struct constraint_list {
    qp_grammar *at[CONSTRAINT_MOST];
    qp_filter filters[CONSTRAINT_MOST];
    int n;
    constraint_before before;
} constraint_list;

/* Compiles what the options name; none is fine. `report` (may be NULL) gets what there is to tell, as text lines. */
qp_status constraint_open(constraint_list *out, const options *o, const qp_tokenizer *tokenizer, FILE *report,
                          qp_error *err);
/* The same for answers that may have thoughts before the text. */
qp_status constraint_open_behind(constraint_list *out, constraint_before before, const options *o,
                                 const qp_tokenizer *tokenizer, qp_error *err);
/* Filters for one job, which owns them as soon as it is submitted, whether or not that succeeds. */
qp_status constraint_filters(constraint_list *l, qp_job_options *wanted, qp_error *err);
void constraint_close(constraint_list *l);

#endif
