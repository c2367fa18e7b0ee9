/* kinds.c — the table of front ends: one row a kind of constraint. */
#include "fronts.h"
#include "grammar.h"
#include "schema_lower.h"

static const grammar_kind kinds[] = {
    {"regex", "a regular expression that the whole text matches", regex_lower},
    {"choices", "one of several texts, as a JSON array", choices_lower},
    {"prefix", "a text that the answer begins with", prefix_lower},
    {"gbnf", "a grammar in GBNF", gbnf_lower},
    {"lark", "a grammar in a Lark-like notation", lark_lower},
    {"structure", "parts of other kinds, free text and special tokens, as nested JSON", structure_lower},
    {"json_object", "any JSON object", schema_lower_object},
    {"json_schema", "a JSON Schema that the text follows", schema_lower},
};

const grammar_kind *grammar_kind_at(size_t index) {
    return index < sizeof kinds / sizeof *kinds ? &kinds[index] : NULL;
}

const grammar_kind *grammar_kind_find(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (name && !strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}
