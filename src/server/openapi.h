/* openapi.h — the description of the API at GET /openapi.json, made of the tables that read requests. */
#ifndef SERVER_OPENAPI_H
#define SERVER_OPENAPI_H

#include <jansson.h>

/* A new document; NULL when memory is short. */
json_t *openapi_describe(const char *version);

#endif
