/* form.h — the constraints of one request's answers, compiled: the form that was demanded of the text, forced or strict
 * calls of tools, the end of reasoning before them, and the budget of that reasoning. */
#ifndef SERVER_FORM_H
#define SERVER_FORM_H

#include "demand.h"
#include "speech.h"

typedef struct answer_form {
    qp_grammar *grammar; /* NULL: none */
    char *report;        /* of the compiler */
    double compile_s;
    const char *kind; /* for logs; NULL: no constraint */
    struct budget *budget;
} answer_form;

enum { FORM_FILTERS = 2 };

/* What the answer's reader knows already: see speech.h. */
typedef struct form_setup {
    ask *ask;
    const demand *demand;
    const qp_tokenizer *tokenizer;
    speech_setup *speech;          /* is told how far it may rely on the form */
    bool may_think;                /* the prompt does not forbid it */
    bool (*cancelled)(void *user); /* asked while compiling: true gives up */
    void *cancel_user;
} form_setup;

/* Compiles what is to be enforced; takes as long as a compilation may. form_free is owed in any case. */
bool form_make(answer_form *out, const form_setup *setup, refusal *why);
void form_free(answer_form *f);
/* Filters for the job or jobs of one prompt; `room` lives until they are submitted. */
qp_status form_filters(const answer_form *f, qp_filter room[FORM_FILTERS], qp_job_options *o, qp_error *err);
/* Frees the filters of options that will not be submitted. */
void form_drop(qp_job_options *o);
/* What could not be enforced, for a header; false: nothing. */
bool form_warnings(const answer_form *f, strbuf *out);

#endif
