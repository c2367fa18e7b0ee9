/* oai_write.h — pieces that the writers of OpenAI's dialects share. */
#ifndef SERVER_OAI_WRITE_H
#define SERVER_OAI_WRITE_H

#include "json_out.h"
#include "turn.h"

/* {"token","token_id","logprob","bytes","top_logprobs":[..]}, separated by commas. */
void oai_write_logprobs(turn *t, strbuf *out, const turn_token *tokens, size_t n);
/* {"prompt_tokens":..}: the usage object of chat and completions. */
void oai_write_usage(const turn *t, strbuf *out);
/* ,"stop_reason":..,"eos_reason":.. — in streams only where they say more than finish_reason. */
void oai_write_reasons(const turn *t, const turn_choice *c, strbuf *out);
/* ,"timings":{..} of llama.cpp, of one choice. */
void oai_write_timings(const turn_choice *c, strbuf *out);
/* ,"token_ids":[..] where they were asked for. */
void oai_write_ids(const turn_choice *c, strbuf *out);
/* t->event begins as every chunk of the answer does, up to and with `"choices":[`. */
void oai_start_chunk(turn *t, const char *object);
/* The usage where it was asked for, then [DONE]. */
void oai_end_stream(turn *t, const char *object);
/* "id":..,"object":..,"created":..,"model":..,"system_fingerprint":.. without braces. */
void oai_write_head(const turn *t, strbuf *out, const char *object);

#endif
