/* budget.h — a limit of the tokens that a model may think: when it is spent, the end of the thoughts is forced. */
#ifndef SERVER_BUDGET_H
#define SERVER_BUDGET_H

#include "ask.h"
#include "speech.h"

typedef struct budget budget;

/* The limit that the request names, in either of its places; -1: none. */
int64_t budget_limit(const ask *a);
/* Prepares what will be forced: reasoning_budget_message and the tag that ends thoughts. *out stays NULL where the
 * model has no thoughts; false where its notation cannot be cut short. */
bool budget_make(budget **out, const speech_setup *reader, const qp_tokenizer *tokenizer, const ask *a, refusal *why);
void budget_free(budget *b);
/* One for each job; keeps what it needs of the budget. */
qp_status budget_filter(qp_filter *out, budget *b, qp_error *err);

#endif
