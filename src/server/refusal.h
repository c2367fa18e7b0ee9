/* refusal.h — why a request is not served, before it is known in which dialect that will be told.
 *
 * Everything that reads requests ends `return refuse(why, FAULT_BAD_REQUEST, "n", "n: found 0, allowed 1 to 16")`. The
 * handlers give the struct to reply.h, which knows the status, the code and the shape. */
#ifndef SERVER_REFUSAL_H
#define SERVER_REFUSAL_H

#include "reply.h"

typedef struct refusal {
    reply_fault fault;
    char param[120]; /* the field, as the client spells its path: "messages[1].content"; "" where there is none */
    char text[496];
} refusal;

/* Fills it (cut to fit) and returns false. */
bool refuse(refusal *why, reply_fault fault, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* No memory for `what`. */
bool refuse_memory(refusal *why, const char *what);
/* The library's error. */
bool refuse_status(refusal *why, qp_status status, const char *param, const qp_error *err);

#endif
