/* speech_state.h — what the readers of the kinds of bodies share; included by speech*.c alone. */
#ifndef SERVER_SPEECH_STATE_H
#define SERVER_SPEECH_STATE_H

#include "speech.h"
#include "json_walk.h"

enum { SPEECH_NAME_MAX = 256 };

typedef enum speech_mode {
    MODE_START, /* nothing but blanks so far: a thought or a bare call may begin */
    MODE_TEXT,
    MODE_THOUGHT,
    MODE_SECTION, /* between calls, inside what is around all of them */
    MODE_CALL,    /* inside one; `step` is the body's own */
    MODE_HEADER,  /* harmony: before a message */
    MODE_MESSAGE, /* harmony: in one */
    MODE_OVER,
} speech_mode;

struct speech {
    speech_setup setup;
    speech_mode mode;
    strbuf held;   /* fed, not told yet */
    uint64_t base; /* raw offset of held.at[0] */
    bool is_last, failed;
    bool trims;    /* blanks at the beginning of the coming text are dropped */
    bool has_text; /* something was told as text */
    int stop, n_calls, n_complete;
    uint64_t thought_end;
    /* the call being read */
    int step;                         /* of the body's reader */
    int level;                        /* objects around the members, BODY_JSON */
    bool is_named, is_open, is_first; /* SAY_CALL was told; in a call at all; no argument so far */
    bool is_text_value;
    strbuf raw;       /* what was consumed since the call's tag, until its name is known */
    strbuf arguments; /* all of them so far */
    size_t n_told;    /* of `arguments` */
    json_walk walk;
    char name[SPEECH_NAME_MAX], key[SPEECH_NAME_MAX];
    speech_kind channel; /* harmony: what the message is */
};

/* Drops n held bytes; they go to `raw` while the call has no name. */
void speech_take(speech *s, size_t n);
/* Tells the first n held bytes as text or thought, and drops them. */
void speech_tell(speech *s, speech_kind kind, size_t n);
/* Is `tag` what is held begins with? 1: yes; 0: it may become so; -1: no. */
int speech_begins(const speech *s, const char *tag);
/* Drops blanks at the beginning; false: nothing is left. */
bool speech_skip_blanks(speech *s, const char *also);
/* Where `tag` stands in what is held, SIZE_MAX: nowhere. *safe: bytes before anything that may become it. */
size_t speech_find(const speech *s, const char *tag, size_t *safe);

/* A call's life. A name or none; then arguments; then its end. */
/* What kind of JSON value this is; false: none. Numbers too large for the machine's are numbers. */
bool speech_is_json(const char *at, size_t bytes, json_type *kind);
void speech_open_call(speech *s);
void speech_name_call(speech *s, const char *name, size_t bytes);
void speech_add_arguments(speech *s, const char *text, size_t bytes);
void speech_end_call(speech *s);
/* It is no call: what was taken is text. */
void speech_fail_call(speech *s);
/* What comes after a call: text, the next call, the end of the section. */
void speech_after_call(speech *s);

/* Readers of the bodies: true where something was taken or the mode changed. */
bool speech_read_json(speech *s);
bool speech_read_named(speech *s);
bool speech_read_params(speech *s);
bool speech_read_python(speech *s);
bool speech_read_harmony(speech *s);
bool speech_read_gemma(speech *s);

/* 1: what is held is a bare call; 0: it may become one; -1: no. */
int speech_probe_bare(const speech *s);
/* The declared type of a parameter of the call's function, "" where it is not declared. */
const char *speech_parameter_type(const speech *s, const char *key);
/* Is there a tool of this name? */
bool speech_knows(const speech *s, const char *name, size_t bytes);

#endif
