/* tool_format.h — how models write calls of tools and thoughts: one row for each notation that templates teach.
 *
 * Which row is a model's is found out from its template's text and its tokens. speech.c reads answers by these rows. */
#ifndef SERVER_TOOL_FORMAT_H
#define SERVER_TOOL_FORMAT_H

#include "base/str.h"

typedef enum tool_body {
    BODY_JSON,    /* {"name": "f", "arguments": {...}}, also in an array, also several */
    BODY_KEYED,   /* {"f": {...}} */
    BODY_NAMED,   /* the name, then the arguments as JSON */
    BODY_PARAMS,  /* the name, then each argument between tags of its own */
    BODY_PYTHON,  /* [f(a=1, b="x")] */
    BODY_HARMONY, /* channels with recipients */
    BODY_GEMMA,   /* the name, then {key:value} with texts between quotes that are tokens */
} tool_body;

enum {
    TOOLS_BARE = 1,      /* a call may also be the whole answer, without anything around it */
    TOOLS_SPECIAL = 2,   /* the tags are special tokens, so that the text must show them */
    TOOLS_TRIM = 4,      /* one line break after the beginning and one before the end of a value are not part of it */
    TOOLS_LINE = 8,      /* the name ends with its line */
    TOOLS_UNTAGGED = 16, /* where a call is forced, it is written as the whole answer */
    TOOLS_COUNTED = 32,  /* the name has the number of the call behind it, "f:0" */
    TOOLS_MARKED = 64,   /* BODY_PARAMS: an attribute says whether the value is a text */
};
enum { TOOL_TEXT = 48 };

typedef struct tool_format {
    const char *name;
    tool_body body;
    unsigned flags;
    char section[2][TOOL_TEXT];  /* around all calls; "" or text */
    char call[2][TOOL_TEXT];     /* around one */
    char before_name[TOOL_TEXT]; /* what is skipped up to here, after call[0] */
    char after_name[TOOL_TEXT];
    char key[2][TOOL_TEXT], value[2][TOOL_TEXT]; /* BODY_PARAMS: around the key, around the value */
    /* How a call is written where it is forced, if not as the kind of body says: before the name, between name and
     * arguments, after them; around and between the calls that share a pair of tags. */
    char spell[3][TOOL_TEXT], list[3][TOOL_TEXT];
    const char *clues[3]; /* must all be in the template, those with @ among the tokens */
} tool_format;

typedef struct thought_format {
    const char *open, *close;
} thought_format;

/* The first row whose clues fit. `tokenizer` may be NULL. NULL: none fits. */
const tool_format *tool_format_detect(span source, const qp_tokenizer *tokenizer);
/* By name; NULL: unknown. "generic" is what models without a notation of their own are taught by tool_format_teach. */
const tool_format *tool_format_find(const char *name);
/* Rows 0, 1, ... until NULL. */
const tool_format *tool_format_row(int index);
/* The tags around thoughts that the template knows, or the vocabulary has; NULL: none. */
const thought_format *thought_format_detect(span source, const qp_tokenizer *tokenizer);
/* Does the prompt end inside a thought? */
bool thought_is_open(const thought_format *f, span prompt);
/* Does the prompt end behind a thought that it closed? */
bool thought_is_closed(const thought_format *f, span prompt);
/* Does the template show tools to the model? */
bool tool_format_is_shown(span source);
/* Appends what a model must be told about its tools (a JSON array) where its template does not. */
void tool_format_teach(strbuf *out, span tools);

#endif
