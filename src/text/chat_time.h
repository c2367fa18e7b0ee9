/* chat_time.h — the clock of a rendering as callers give it. */
#ifndef TEXT_CHAT_TIME_H
#define TEXT_CHAT_TIME_H

#include "base/json.h"

/* Seconds since 1970, or an ISO 8601 text ("2024-07-26T12:34:56", local unless it ends in Z or +hh:mm); leaves *out
 * alone where `given` is NULL or null. */
qp_status chat_time_read(const json_t *given, double *out, qp_error *err);

#endif
