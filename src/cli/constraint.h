/* constraint.h — what --schema, --regex, --grammar and --choice ask for, compiled. */
#ifndef CLI_CONSTRAINT_H
#define CLI_CONSTRAINT_H

#include "command.h"
#include <stdio.h>

enum { CONSTRAINT_MOST = 4 };

/* Several constraints hold together. */
typedef struct constraint_list {
    qp_grammar *at[CONSTRAINT_MOST];
    qp_filter filters[CONSTRAINT_MOST];
    int n;
} constraint_list;

/* Compiles what the options name; none is fine. `report` (may be NULL) gets what there is to tell, as text lines. */
qp_status constraint_open(constraint_list *out, const options *o, const qp_tokenizer *tokenizer, FILE *report,
                          qp_error *err);
/* Filters for one job, which owns them as soon as it is submitted, whether or not that succeeds. */
qp_status constraint_filters(constraint_list *l, qp_job_options *wanted, qp_error *err);
void constraint_close(constraint_list *l);

#endif
