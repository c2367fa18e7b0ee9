/* tmpl.h — Jinja templates as chat models use them: parse once, render many times.
 *
 * The language is Jinja 3.1 in the set-up of Hugging Face's transformers: immutable sandbox, trim_blocks,
 * lstrip_blocks, loop controls, `generation` blocks, plain `tojson`, raise_exception, strftime_now. Expressions have
 * Python's precedence and meaning, and print as Python's str() and repr() do. A template is hostile input: it can
 * read only its context, every render has limits on steps, memory, output and depth, and whatever an operation does
 * pays steps in proportion; a source with too many names in too many scopes is refused.
 *
 * Called by chat.c and the API; inside, tmpl_lex.c and tmpl_parse.c make the tree, tmpl_scope.c decides where each
 * name lives, tmpl_eval.c and its neighbours run it. */
#ifndef TEXT_TMPL_H
#define TEXT_TMPL_H

#include "base/err.h"
#include "base/str.h"
#include <jansson.h>

typedef struct tmpl tmpl; /* parsed, immutable, shared by threads */

/* A syntax error has the byte offset in err->offset, and line and column in its text. */
qp_status tmpl_new(tmpl **out, span source, qp_error *err);
void tmpl_free(tmpl *t);

typedef struct tmpl_limits { /* zeros: the defaults of tmpl.c */
    uint64_t steps;          /* nodes evaluated, items visited, and texts by the byte */
    size_t memory_bytes, output_bytes;
    int depth; /* of calls, expressions and nested data */
} tmpl_limits;

/* Appends the rendering with `context`, a JSON object, to `out`. *raised tells that the template called
 * raise_exception: err->text is then its message (cut to fit) and `out` ends with the whole message instead of a
 * rendering. After any other failure `out` holds what had been rendered. raised, limits and err may be NULL. */
qp_status tmpl_render(const tmpl *t, const json_t *context, double now_unix_seconds, const tmpl_limits *limits,
                      strbuf *out, bool *raised, qp_error *err);

/* Whether the template reads a variable of this name from its context ("tools", "enable_thinking"). */
bool tmpl_mentions(const tmpl *t, const char *name);

#endif
