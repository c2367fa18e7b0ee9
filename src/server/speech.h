/* speech.h — takes an answer apart while it is written: text, thoughts, calls of tools.
 *
 * Fed with the text of one choice piece by piece; calls back with what each piece means as soon as it is certain. Held
 * back is only what may still become a tag. The parts joined are the same however the text was cut.
 *
 * Raw offsets count the bytes of the fed text, so that probabilities of tokens can travel with their text. */
#ifndef SERVER_SPEECH_H
#define SERVER_SPEECH_H

#include "tool_format.h"
#include <jansson.h>

typedef enum speech_kind {
    SAY_TEXT,
    SAY_THOUGHT,
    SAY_CALL,      /* text is the name */
    SAY_ARGUMENTS, /* text is a fragment of JSON */
    SAY_CALL_END,  /* is_complete: the arguments are valid JSON */
} speech_kind;

typedef struct speech_part {
    speech_kind kind;
    span text;
    int call;          /* index of the call */
    bool is_complete;  /* SAY_CALL_END */
    uint64_t from, to; /* raw offsets: the text fed before `from` is over, this part ends at `to` */
} speech_part;

typedef struct speech speech;
typedef void speech_fn(void *user, const speech_part *part);

typedef struct speech_setup {
    const tool_format *tools;       /* NULL: calls are not looked for */
    const thought_format *thoughts; /* NULL: thoughts are not looked for */
    bool starts_in_thought;
    bool is_single;           /* the answer is over after the first complete call */
    bool is_exact;            /* calls are well formed: what looks like their end inside JSON is not it */
    bool is_either;           /* the answer is calls from its beginning, or has none */
    const json_t *tool_list;  /* [{"type", "function"}]: types of parameters, known names; borrowed */
    const char *const *stops; /* n_stops texts that end the answer where they stand in its text; borrowed */
    size_t n_stops;
    speech_fn *say;
    void *user;
} speech_setup;

/* NULL when memory is short. */
speech *speech_new(const speech_setup *setup);
void speech_free(speech *s);
/* More text; `is_last`: no more will come, all that is held is told. */
void speech_feed(speech *s, const char *text, size_t bytes, bool is_last);
/* Nothing more will be told: a stop text was found, or the only allowed call is complete. */
bool speech_is_over(const speech *s);
/* Index of the stop text that was found; -1: none. */
int speech_stop(const speech *s);
int speech_calls(const speech *s);          /* begun */
int speech_complete_calls(const speech *s); /* with valid arguments */
/* Raw bytes of thoughts so far, tags included. */
uint64_t speech_thought_end(const speech *s);
bool speech_failed(const speech *s); /* memory was short */

#endif
