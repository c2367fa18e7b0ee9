/* anthropic.h — the body of /v1/messages as one of chat. */
#ifndef SERVER_ANTHROPIC_H
#define SERVER_ANTHROPIC_H

#include "refusal.h"

bool anthropic_translate(json_t **out, const json_t *body, refusal *why);

#endif
