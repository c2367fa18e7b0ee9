/* responses.h — the body of /v1/responses as one of chat. */
#ifndef SERVER_RESPONSES_H
#define SERVER_RESPONSES_H

#include "refusal.h"

bool responses_translate(json_t **out, const json_t *body, refusal *why);

#endif
