/* schema_keyword.c — the table of the keywords of JSON Schema, and its page in the documentation. */
#include "schema_keyword.h"
#include "schema_format.h"

static const keyword_row rows[] = {
    {"type", KEYWORD_NARROWED, HOLDS_NOTHING, "a string or a list; integers are written without fraction and exponent"},
    {"enum", KEYWORD_NARROWED, HOLDS_NOTHING, "each value in one spelling, objects with their keys in the order given"},
    {"const", KEYWORD_NARROWED, HOLDS_NOTHING, "in one spelling"},
    {"properties", KEYWORD_NARROWED, HOLDS_SCHEMA_MAP, "in the order of the schema's text"},
    {"required", KEYWORD_EXACT, HOLDS_NOTHING, "names without a property of their own come after the declared ones"},
    {"additionalProperties", KEYWORD_EXACT, HOLDS_SCHEMA, "after the declared ones; default true"},
    {"patternProperties", KEYWORD_PARTLY, HOLDS_SCHEMA_MAP,
     "patterns as for `pattern`; up to 32 of them, that divide keys into up to 64 kinds"},
    {"propertyNames", KEYWORD_EXACT, HOLDS_SCHEMA, ""},
    {"minProperties", KEYWORD_EXACT, HOLDS_NOTHING, "counts a repeated additional key each time"},
    {"maxProperties", KEYWORD_EXACT, HOLDS_NOTHING, "counts a repeated additional key each time"},
    {"dependentRequired", KEYWORD_EXACT, HOLDS_NOTHING, ""},
    {"dependentSchemas", KEYWORD_EXACT, HOLDS_SCHEMA_MAP, ""},
    {"dependencies", KEYWORD_EXACT, HOLDS_SCHEMA_OR_NAMES, "the older spelling of the two above"},
    {"items", KEYWORD_EXACT, HOLDS_SCHEMA_OR_LIST, "a schema, or the older list for each place"},
    {"prefixItems", KEYWORD_EXACT, HOLDS_SCHEMAS, ""},
    {"additionalItems", KEYWORD_EXACT, HOLDS_SCHEMA, "beside a list in `items`"},
    {"minItems", KEYWORD_EXACT, HOLDS_NOTHING, ""},
    {"maxItems", KEYWORD_EXACT, HOLDS_NOTHING, ""},
    {"uniqueItems", KEYWORD_PARTLY, HOLDS_NOTHING,
     "at most one item, or items out of at most 10 different scalar values (64 where any number of them may come)"},
    {"contains", KEYWORD_EXACT, HOLDS_SCHEMA, "with `maxContains`: where `not` of its schema is exact"},
    {"minContains", KEYWORD_EXACT, HOLDS_NOTHING, ""},
    {"maxContains", KEYWORD_EXACT, HOLDS_NOTHING, "where `not` of the schema in `contains` is exact"},
    {"minLength", KEYWORD_EXACT, HOLDS_NOTHING, "in characters, however they are escaped"},
    {"maxLength", KEYWORD_EXACT, HOLDS_NOTHING, "in characters, however they are escaped"},
    {"pattern", KEYWORD_PARTLY, HOLDS_NOTHING,
     "ECMA-262; not: back-references, look-behind, word boundaries, anchors or look-ahead under a repetition"},
    {"format", KEYWORD_PARTLY, HOLDS_NOTHING, "asserted for the formats below; others are errors or, if asked, notes"},
    {"minimum", KEYWORD_NARROWED, HOLDS_NOTHING, "exact decimal; such numbers are written without exponent"},
    {"maximum", KEYWORD_NARROWED, HOLDS_NOTHING, "exact decimal; such numbers are written without exponent"},
    {"exclusiveMinimum", KEYWORD_NARROWED, HOLDS_NOTHING, "a number, or the older true beside `minimum`"},
    {"exclusiveMaximum", KEYWORD_NARROWED, HOLDS_NOTHING, "a number, or the older true beside `maximum`"},
    {"multipleOf", KEYWORD_PARTLY, HOLDS_NOTHING, "divisors of up to 4096 after their factors of ten"},
    {"allOf", KEYWORD_EXACT, HOLDS_SCHEMAS, ""},
    {"anyOf", KEYWORD_EXACT, HOLDS_SCHEMAS, ""},
    {"oneOf", KEYWORD_PARTLY, HOLDS_SCHEMAS,
     "the overlap of two branches is taken out where `not` of a branch is exact"},
    {"not", KEYWORD_PARTLY, HOLDS_SCHEMA, "not of: `uniqueItems`, and of what is refused itself"},
    {"if", KEYWORD_PARTLY, HOLDS_SCHEMA, "with `then` or `else`: where `not` of it is exact"},
    {"then", KEYWORD_EXACT, HOLDS_SCHEMA, ""},
    {"else", KEYWORD_EXACT, HOLDS_SCHEMA, ""},
    {"unevaluatedProperties", KEYWORD_EXACT, HOLDS_SCHEMA, ""},
    {"unevaluatedItems", KEYWORD_EXACT, HOLDS_SCHEMA, ""},
    {"$ref", KEYWORD_PARTLY, HOLDS_NOTHING, "within the document, recursion included; its siblings apply too"},
    {"$dynamicRef", KEYWORD_PARTLY, HOLDS_NOTHING, "where one anchor of that name exists"},
    {"$recursiveRef", KEYWORD_PARTLY, HOLDS_NOTHING, "as `$ref` where no `$recursiveAnchor` moves it"},
    {"$defs", KEYWORD_STRUCTURE, HOLDS_SCHEMA_MAP, ""},
    {"definitions", KEYWORD_STRUCTURE, HOLDS_SCHEMA_MAP, "the older name of `$defs`"},
    {"$id", KEYWORD_STRUCTURE, HOLDS_NOTHING, ""},
    {"id", KEYWORD_STRUCTURE, HOLDS_NOTHING, "the older name of `$id`"},
    {"$anchor", KEYWORD_STRUCTURE, HOLDS_NOTHING, ""},
    {"$dynamicAnchor", KEYWORD_STRUCTURE, HOLDS_NOTHING, ""},
    {"$recursiveAnchor", KEYWORD_STRUCTURE, HOLDS_NOTHING, ""},
    {"$schema", KEYWORD_STRUCTURE, HOLDS_NOTHING,
     "all drafts are read alike: the older spellings are known beside the new"},
    {"$vocabulary", KEYWORD_STRUCTURE, HOLDS_NOTHING, ""},
    {"title", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"description", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"default", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"examples", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"example", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"deprecated", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"readOnly", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"writeOnly", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"$comment", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"contentEncoding", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"contentMediaType", KEYWORD_ANNOTATION, HOLDS_NOTHING, ""},
    {"contentSchema", KEYWORD_ANNOTATION, HOLDS_SCHEMA, ""},
    {"nullable", KEYWORD_ANNOTATION, HOLDS_NOTHING,
     "OpenAPI's; no keyword of JSON Schema: say `\"type\": [..., \"null\"]`"},
};

const keyword_row *keyword_find(span name) {
    for (const keyword_row *row = rows; name.bytes && row < rows + sizeof rows / sizeof *rows; row++)
        if (row->name[0] == name.at[0] && span_is(name, row->name)) return row;
    return NULL;
}

const keyword_row *keyword_at(size_t index) { return index < sizeof rows / sizeof *rows ? &rows[index] : NULL; }

const char *keyword_status_name(keyword_status status) {
    static const char *const names[] = {"exact", "narrowed", "partly", "annotation", "structure"};
    return names[status];
}

void keyword_write_table(strbuf *out) {
    strbuf_text(out, "| keyword | status | |\n|---|---|---|\n");
    for (const keyword_row *row = rows; row < rows + sizeof rows / sizeof *rows; row++)
        strbuf_format(out, "| `%s` | %s | %s |\n", row->name, keyword_status_name(row->status), row->note);
    strbuf_text(out, "\nFormats that are asserted: ");
    for (size_t i = 0; format_name_at(i); i++) strbuf_format(out, "%s`%s`", i ? ", " : "", format_name_at(i));
    strbuf_text(out, ".\n");
}
