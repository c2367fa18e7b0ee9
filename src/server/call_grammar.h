/* call_grammar.h — calls of tools as parts of a constraint: what a model must write so that its notation of calls, and
 * the schema of each tool, are kept.
 *
 * Parts are nodes of the kind "structure" (docs/constraints.md). speech.c must be able to read all that they allow. */
#ifndef SERVER_CALL_GRAMMAR_H
#define SERVER_CALL_GRAMMAR_H

#include "ask.h"
#include "tool_format.h"

/* Nodes in a row; a failure sticks. */
typedef struct node_list {
    json_t *list;
    bool failed;
} node_list;
/* Takes the node, NULL makes the list fail. */
void node_add(node_list *l, json_t *node);
/* The list as one node that has it under `member` ("sequence", "any", "fields"); NULL when memory was short. The list
 * is empty afterwards. */
json_t *node_join(node_list *l, const char *member);
/* {"member": "text"} */
json_t *node_of(const char *member, const char *text);
/* Any text without these tags ("" is skipped). */
json_t *node_free(const char *const *tags, size_t n, const char *not_first);
/* `node` min to max times (max 0: no limit) with `between` (may be NULL) between two; takes both. */
json_t *node_repeat(json_t *node, int min, int max, json_t *between);
/* A part of another kind. */
json_t *node_kind(const char *kind, const char *source);

typedef struct call_setup {
    const tool_format *format;
    ask *ask;         /* tools, choice, chosen; its arena */
    bool is_single;   /* one call at most */
    bool is_untagged; /* the calls are the whole answer, without tags around them */
} call_setup;

/* One call or more. NULL: *why tells. */
json_t *call_grammar(const call_setup *c, refusal *why);

/* ---- call_fields.c: notations with a place for each argument ---- */

/* One tool while its nodes are made. */
typedef struct call_tool {
    const call_setup *setup;
    const json_t *parameters; /* an object */
    const char *name;
    bool is_strict;
    char place[120]; /* for errors: "tools: the parameters of \"f\"" */
} call_tool;

/* The arguments of one call. */
json_t *call_fields(const call_tool *t, refusal *why);
/* The schema of a value of its own, a property of the tool's parameters. */
json_t *call_schema(const call_tool *t, const json_t *schema, const char *key, refusal *why);

#endif
