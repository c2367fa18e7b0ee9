/* generate.h — from a request that has been read to its answer: prompts, jobs, events, the turn that writes them down.
 *
 * A dialect's handler opens a generation, reads its body into `ask`, gives prompts, and starts it. From then on the
 * pump owns it. Each step that fails answers the request and frees the generation. */
#ifndef SERVER_GENERATE_H
#define SERVER_GENERATE_H

#include "adapters.h"
#include "form.h"
#include "models.h"
#include "turn.h"

enum { GENERATE_MOST_PROMPTS = 2048 };

typedef struct generate_prompt {
    int32_t *ids;
    size_t n_ids;
    span echo; /* what `echo` shows; at == NULL: nothing */
} generate_prompt;

typedef struct generation {
    http_request *request;
    model_slot *model;
    json_t *original, *body; /* as it came; as chat or completions would have it */
    ask ask;
    demand demand;
    answer_form form;
    bool may_think; /* the prompt does not end behind closed thoughts */
    chat_template *chat_template;
    adapter_choice adapters;
    generate_prompt *prompts; /* in the arena of `ask`, but ids */
    int n_prompts;
    qp_job_options options; /* of all prompts */
    turn_setup setup;
    turn *turn;
    bool has_failed, scores_only, is_text; /* an error was answered; nothing is generated; text_completion */
    bool *has_echoed;                      /* [choices] */
    uint64_t id_seed;
    unsigned n_ids;
} generation;

/* Makes the body of chat or completions out of another dialect's; NULL: it is one. */
typedef bool generate_translator(json_t **out, const json_t *body, refusal *why);

/* Reads the body, applies presets, takes the model. NULL: the request has been answered. */
generation *generate_open(http_request *r, generate_translator *translate);
/* Answers and frees. */
void generate_refuse(generation *g, const refusal *why);
void generate_free(generation *g);

/* Reads the body as a chat, renders and tokenises it. False: answered and freed. */
bool generate_read_chat(generation *g);
/* Reads the body as a completion with its prompts. False: answered and freed. */
bool generate_read_text(generation *g);
/* Submits. prefix: of the answer's id, "chatcmpl-". */
void generate_start(generation *g, const dialect *d, const char *prefix);

/* The first choice's text so far, of a running request that this dialect answers: of this id (NULL: any) and of the
 * caller's key mark (NULL: anybody's). False: there is none. */
bool generate_peek_text(strbuf *out, const http_request *r, const dialect *d, const char *id, const char *key_mark);

/* Tokens of all prompts. */
size_t generate_prompt_tokens(const generation *g);
/* Room for n prompts. */
bool generate_reserve(generation *g, size_t n, refusal *why);

/* chat_prompt.c: fills prompts, setup.speech and stops from ask and template. */
bool chat_prompt_make(generation *g, refusal *why);
/* text_prompt.c: fills prompts from `prompt`, suffix, echo. */
bool text_prompt_make(generation *g, refusal *why);

#endif
