/* turn.h — one request's answer while it is made: its choices, what they have said so far, and the dialect that writes
 * it down.
 *
 * Fed with the events of jobs by generate.c on the pump's thread; nothing here knows HTTP or threads, so that tests
 * feed it by hand. Streams and whole answers go the same way: a dialect is told every part, and either sends it or
 * writes the document from what the choices have gathered. */
#ifndef SERVER_TURN_H
#define SERVER_TURN_H

#include "loop_window.h"
#include "speech.h"

enum { TURN_ID_BYTES = 160 };

typedef struct turn turn;
typedef struct turn_choice turn_choice;

/* A token with what was asked for about it. */
typedef struct turn_token {
    int32_t id;
    float logprob;
    bool has_logprob; /* the first token of a prompt has none */
    unsigned cut;     /* bytes at its beginning that the text does not show */
    uint64_t from;    /* raw offset of its text */
    qp_candidate *top;
    int n_top;
} turn_token;

typedef struct turn_call {
    char id[40];
    char *name;
    strbuf arguments;
    bool is_complete;
} turn_call;

typedef struct turn_part {
    speech_kind kind;
    span text;
    turn_call *call; /* of the call's kinds */
    int call_index;
    const turn_token *tokens; /* whose text is in this part, where they were asked for */
    size_t n_tokens;
} turn_part;

/* Why a choice ended, in OpenAI's words and TabbyAPI's. */
typedef struct turn_end {
    const char *finish;     /* "stop", "length", "tool_calls"; NULL: not yet */
    const char *eos_reason; /* "stop_token", "stop_string" ... */
    const char *stop_text;  /* the stop text, or NULL ... */
    int32_t stop_id;        /* ... or the token that the client named; -1 */
    bool is_context_full;   /* "length" for want of room, not by the client's limit */
} turn_end;

struct turn_choice {
    int index;
    strbuf text, thought;
    turn_call *calls;
    int n_calls;
    strbuf logprobs;  /* written by the dialect: entries so far */
    strbuf arrays[4]; /* the same for OpenAI's old shape */
    turn_end end;
    qp_job_stats stats;
    size_t n_tokens, n_thought_tokens; /* sampled, the end token included; of them in thoughts */
    int32_t *ids;                      /* [n_ids] where they were asked for */
    size_t n_ids, ids_capacity;
    bool has_ended, is_loop;
    /* inner */
    char *stop_name; /* what end.stop_text points to */
    turn *turn;
    speech *speech;
    loop_window loop;
    uint64_t raw, shown; /* raw bytes so far; characters shown, for text_offset */
    turn_token *tokens;  /* [n_held]: not told yet */
    size_t n_held, held_capacity;
    uint64_t *starts; /* [n_starts]: raw offsets of tokens, to count those of thoughts */
    size_t n_starts, starts_capacity;
};

/* Figures of all choices together. */
typedef struct turn_usage {
    size_t prompt_tokens, cached_tokens, completion_tokens, thought_tokens;
    double prompt_s, completion_s, total_s;
    double prompt_rate, completion_rate; /* < 0: not to be told */
} turn_usage;

/* How an answer is written down. Any function may be NULL. */
typedef struct dialect {
    void (*begin)(turn *t);                                       /* of a stream */
    void (*part)(turn *t, turn_choice *c, const turn_part *part); /* also when nothing is streamed */
    void (*progress)(turn *t, turn_choice *c, size_t done, size_t all, double seconds); /* of the prompt */
    void (*close)(turn *t, turn_choice *c);                                             /* the choice has ended */
    void (*end)(turn *t);                                                               /* of a stream */
    void (*document)(turn *t, strbuf *out);
    const char *ping; /* NULL: a comment */
} dialect;

typedef struct turn_setup {
    const dialect *dialect;
    const char *id, *model, *fingerprint; /* copied */
    int64_t created, loop_tokens;         /* loop_tokens: of repetition that end a choice; 0: none do */
    double started;                       /* clock of the events */
    int n_prompts, n;                     /* choices = n_prompts * n */
    bool is_stream, include_usage, continuous_usage, timings, return_ids, include_stop;
    const int32_t *stop_ids; /* [n_stop_ids] that the client named; borrowed */
    size_t n_stop_ids;
    bool is_limited; /* the client gave a limit of tokens */
    bool wants_logprobs;
    int n_top;                   /* alternatives of each token */
    bool shows_sampled;          /* logprobs are those after all stages */
    const char *reasoning_field; /* "reasoning_content", "reasoning" or "both" */
    bool null_role;              /* llama.cpp's first chunk */
    const json_t *request;       /* what dialects echo; held */
    size_t prompt_tokens;        /* of all prompts, known before anything is computed */
    size_t cached_tokens;        /* of them found in the cache, as far as it is known when a stream begins */
    speech_setup speech;         /* but say and user */
    /* The bytes of a token, at most `capacity` of them; returns how many. */
    int (*token_bytes)(void *user, int32_t id, char *out, size_t capacity);
    /* prefix and random digits: "call_0123..." */
    void (*make_id)(void *user, char *out, size_t capacity, const char *prefix, int digits);
    void (*send)(void *user, const char *event, size_t bytes); /* of a stream */
    void *user;
} turn_setup;

struct turn {
    turn_setup setup;
    char id[TURN_ID_BYTES], model[256], fingerprint[32];
    turn_choice *choices;
    int n_choices, n_ended;
    bool has_begun, failed; /* memory was short */
    strbuf event;           /* being written */
    strbuf chunk_head;      /* what all chunks of the answer begin with, once it is known */
    /* of dialects with items: */
    int sequence, n_items, open_kind, n_parts;
    char item_id[48];
    strbuf items, item_text;
    size_t start_input, start_cached; /* what the stream's beginning said */
};

/* NULL when memory is short. */
turn *turn_new(const turn_setup *setup);
void turn_free(turn *t);
/* The opening events of a stream; a second call does nothing. */
void turn_begin(turn *t);
/* Text of a choice, or progress of its prompt. */
void turn_feed(turn *t, int choice, const qp_event *event);
/* A prompt that is echoed with the probabilities of its tokens, before its choices are fed. */
void turn_echo(turn *t, int choice, const char *text, size_t bytes, const turn_token *tokens, size_t n_tokens);
/* The choice needs no more text: its job should be cancelled. */
bool turn_is_over(const turn *t, int choice);
/* The choice's last event. eos_reason: "timeout", "shutdown" ... where the server ended it, or NULL. */
void turn_end_choice(turn *t, int choice, const qp_event *event, const char *eos_reason);
/* All choices have ended: the last events of a stream. */
void turn_finish(turn *t);
/* The whole answer. */
void turn_document(turn *t, strbuf *out);

turn_usage turn_count(const turn *t);
/* Sends t->event and clears it. */
void turn_send(turn *t);
/* t->event begins: "event: name\n" (name NULL: none) and "data: ". turn_send adds the blank line. */
void turn_start_event(turn *t, const char *name);
/* Appends the text of a token as a JSON string, and its bytes as [72,105]. */
void turn_write_token(turn *t, strbuf *out, int32_t id, unsigned cut, bool with_bytes);

extern const dialect dialect_chat, dialect_text, dialect_responses, dialect_messages;

#endif
