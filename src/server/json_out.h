/* json_out.h — numbers and documents as the answers write them. */
#ifndef SERVER_JSON_OUT_H
#define SERVER_JSON_OUT_H

#include "base/str.h"
#include <jansson.h>

/* The shortest decimals that read back as the same double; always with a point or an exponent. null: not finite. */
void json_out_real(strbuf *b, double value);
/* A whole number, without the cost of a format: it stands in every chunk. */
void json_out_count(strbuf *b, uint64_t value);
/* The same for a float; -infinity is -9999.0, as OpenAI writes it. */
void json_out_logprob(strbuf *b, float value);
/* null, or a string. */
void json_out_text(strbuf *b, const char *text);
/* A document, compact, UTF-8 as it is; "null" for NULL. */
void json_out_value(strbuf *b, const json_t *value);

#endif
