/* rate.h — how many generations a key may ask for in a minute. */
#ifndef SERVER_RATE_H
#define SERVER_RATE_H

#include "base/err.h"

typedef struct rate_limit rate_limit;

/* per_minute 0: no limit; *out is NULL then, which all calls take. */
qp_status rate_new(rate_limit **out, int64_t per_minute, qp_error *err);
void rate_free(rate_limit *r);
/* One more request with this key, at clock_now(). 0: it may go on; else the whole seconds, 1 to 60, after which one
 * will. */
int rate_take(rate_limit *r, const char *key, double now);

#endif
