/* demand.h — what a request demands of the form of its answer, and whether that can be honoured. */
#ifndef SERVER_DEMAND_H
#define SERVER_DEMAND_H

#include "ask.h"

/* Decides all of it: JSON modes, schemas, regular expressions, grammars, forced tools. True: the answer may be
 * generated as `options` says, which is where filters would go. Nothing is ever generated without a form that was
 * demanded: what cannot be enforced is refused. */
bool demand_apply(qp_job_options *options, const ask *a, refusal *why);

#endif
