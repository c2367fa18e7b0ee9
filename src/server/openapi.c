/* openapi.c — the description of the API, made of the tables: routes out of route_table.c, members of bodies out of
 * ask_rows.c and gen_rows.c, so that it cannot say anything else than what is read.
 *
 * Called by oai_routes.c. Bodies that no table describes are told as objects with the members that they need. */
#include "openapi.h"
#include "ask.h"
#include "embedding_fields.h"
#include "route.h"
#include <stdio.h>

/* ---- members ---- */

static json_t *number_schema(const field_row *row) {
    json_t *s = json_pack("{s:s}", "type", row->kind == FIELD_INT ? "integer" : "number");
    const bool is_int = row->kind == FIELD_INT;
    if (row->lowest > -1e18)
        json_object_set_new(s, "minimum", is_int ? json_integer((json_int_t)row->lowest) : json_real(row->lowest));
    if (row->flags & FIELD_OPEN) json_object_set_new(s, "exclusiveMinimum", json_true()); /* as OpenAPI 3.0 has it */
    if (row->highest < 1e18)
        json_object_set_new(s, "maximum", is_int ? json_integer((json_int_t)row->highest) : json_real(row->highest));
    return s;
}

static json_t *kind_schema(const field_row *row) {
    switch (row->kind) {
    case FIELD_REAL:
    case FIELD_INT:
        return number_schema(row);
    case FIELD_BOOL:
    case FIELD_MAYBE:
        return json_pack("{s:s}", "type", "boolean");
    case FIELD_TEXT:
        return json_pack("{s:s}", "type", "string");
    case FIELD_TEXTS:
        return json_pack("{s:s,s:{s:s}}", "type", "array", "items", "type", "string");
    case FIELD_IDS:
        return json_pack("{s:s,s:{s:s}}", "type", "array", "items", "type", "integer");
    case FIELD_JSON:
    case FIELD_NONE:
        return json_object();
    }
    return NULL;
}

static bool has_standard(const field_row *row) {
    return (row->kind == FIELD_REAL || row->kind == FIELD_INT) && row->standard >= row->lowest && row->standard > -1e18;
}

/* One property for each name of the row. */
static void add_row(json_t *properties, const field_row *row) {
    for (const char *at = row->names; *at;) {
        const size_t bytes = strcspn(at, "|");
        json_t *schema = kind_schema(row);
        json_object_set_new(schema, "description", json_string(row->about));
        json_object_set_new(schema, "nullable", json_true());
        if (at != row->names) json_object_set_new(schema, "deprecated", json_true());
        if (row->flags & FIELD_UNBUILT) json_object_set_new(schema, "x-unsupported", json_true());
        if (has_standard(row))
            json_object_set_new(schema, "default",
                                row->kind == FIELD_INT ? json_integer((json_int_t)row->standard)
                                                       : json_real(row->standard));
        json_object_setn_new(properties, at, bytes, schema);
        at += bytes + (at[bytes] == '|');
    }
}

static json_t *table_schema(const field_row *const tables[], const size_t counts[], int n, const char *needed) {
    json_t *properties = json_object();
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < counts[i]; k++) add_row(properties, &tables[i][k]);
    return json_pack("{s:s,s:o,s:[s]}", "type", "object", "properties", properties, "required", needed);
}

static json_t *chat_schema(void) {
    const field_row *const tables[] = {ask_common_rows, ask_chat_rows, gen_rows};
    const size_t counts[] = {ask_common_count, ask_chat_count, gen_row_count};
    json_t *schema = table_schema(tables, counts, 3, "messages");
    json_t *message =
        json_pack("{s:s,s:{s:{s:s,s:[s,s,s,s,s]},s:{}},s:[s]}", "type", "object", "properties", "role", "type",
                  "string", "enum", "system", "developer", "user", "assistant", "tool", "content", "required", "role");
    json_object_set_new(json_object_get(schema, "properties"), "messages",
                        json_pack("{s:s,s:i,s:o}", "type", "array", "minItems", 1, "items", message));
    return schema;
}

static json_t *embedding_schema(void) {
    const field_row *const tables[] = {embedding_rows};
    return table_schema(tables, &embedding_row_count, 1, "input");
}

static json_t *text_schema(void) {
    const field_row *const tables[] = {ask_common_rows, ask_text_rows, gen_rows};
    const size_t counts[] = {ask_common_count, ask_text_count, gen_row_count};
    return table_schema(tables, counts, 3, "prompt");
}

/* ---- bodies without a table ---- */

typedef struct body_row {
    const char *path, *needed, *type; /* the one member that must be there, and its type ("": any) */
} body_row;

static const body_row bodies[] = {
    {"/v1/responses", "input", ""},
    {"/v1/responses/input_tokens", "input", ""},
    {"/v1/messages", "messages", "array"},
    {"/v1/messages/count_tokens", "messages", "array"},
    {"/embedding", "content", ""},
    {"/api/extra/embeddings", "input", ""},
    {"/v1/token/encode", "text", ""},
    {"/v1/token/decode", "tokens", "array"},
    {"/detokenize", "tokens", "array"},
    {"/apply-template", "messages", "array"},
    {"/v1/model/load", "model_name", "string"},
    {"/v1/lora/load", "loras", "array"},
    {"/v1/template/switch", "prompt_template_name", "string"},
};

static json_t *body_schema(const char *path) {
    if (!strcmp(path, "/v1/chat/completions")) return json_pack("{s:s}", "$ref", "#/components/schemas/ChatRequest");
    if (!strcmp(path, "/v1/completions")) return json_pack("{s:s}", "$ref", "#/components/schemas/CompletionRequest");
    if (!strcmp(path, "/v1/embeddings")) return json_pack("{s:s}", "$ref", "#/components/schemas/EmbeddingRequest");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        if (strcmp(bodies[i].path, path)) continue;
        json_t *member = *bodies[i].type ? json_pack("{s:s}", "type", bodies[i].type) : json_object();
        return json_pack("{s:s,s:{s:o},s:[s]}", "type", "object", "properties", bodies[i].needed, member, "required",
                         bodies[i].needed);
    }
    return json_pack("{s:s}", "type", "object");
}

/* ---- routes ---- */

static json_t *answers(const route_row *row) {
    const char *error =
        row->flags & ROUTE_ANTHROPIC ? "#/components/schemas/MessagesError" : "#/components/schemas/Error";
    json_t *content = json_pack("{s:{s:{s:s}}}", "application/json", "schema", "$ref", error);
    return json_pack("{s:{s:s},s:{s:s,s:o}}", "200", "description", "The answer, whole or as a stream of events.",
                     "default", "description", "An error.", "content", content);
}

static json_t *operation(const route_row *row) {
    json_t *op = json_pack("{s:o}", "responses", answers(row));
    static const char *const levels[] = {"none", "api", "admin"};
    json_object_set_new(op, "x-access", json_string(levels[row->access]));
    if (row->access == ACCESS_NONE) json_object_set_new(op, "security", json_array());
    if (row->method == HTTP_POST)
        json_object_set_new(
            op, "requestBody",
            json_pack("{s:{s:{s:o}}}", "content", "application/json", "schema", body_schema(row->path)));
    if (strstr(row->path, "{id}"))
        json_object_set_new(op, "parameters",
                            json_pack("[{s:s,s:s,s:b,s:{s:s}}]", "name", "id", "in", "path", "required", 1, "schema",
                                      "type", "string"));
    return op;
}

static json_t *paths(void) {
    static const char *const methods[] = {[HTTP_GET] = "get", [HTTP_POST] = "post", [HTTP_DELETE] = "delete"};
    json_t *all = json_object();
    for (size_t i = 0; i < route_count; i++) {
        const route_row *row = &route_rows[i];
        if (row->method > HTTP_DELETE) continue;
        json_t *path = json_object_get(all, row->path);
        if (!path) json_object_set_new(all, row->path, path = json_object());
        json_object_set_new(path, methods[row->method], operation(row));
    }
    return all;
}

static json_t *error_schema(void) {
    json_t *inner =
        json_pack("{s:s,s:[s,s,s,s],s:{s:{s:s},s:{s:s},s:{s:s,s:b},s:{s:s,s:b}}}", "type", "object", "required",
                  "message", "type", "param", "code", "properties", "message", "type", "string", "type", "type",
                  "string", "param", "type", "string", "nullable", 1, "code", "type", "string", "nullable", 1);
    return json_pack("{s:s,s:[s],s:{s:o}}", "type", "object", "required", "error", "properties", "error", inner);
}

static json_t *messages_error_schema(void) {
    return json_pack("{s:s,s:[s,s,s],s:{s:{s:s},s:{s:s},s:{s:s}}}", "type", "object", "required", "type", "error",
                     "request_id", "properties", "type", "type", "string", "error", "type", "object", "request_id",
                     "type", "string");
}

json_t *openapi_describe(const char *version) {
    json_t *schemas = json_pack("{s:o,s:o,s:o,s:o,s:o}", "ChatRequest", chat_schema(), "CompletionRequest",
                                text_schema(), "EmbeddingRequest", embedding_schema(), "Error", error_schema(),
                                "MessagesError", messages_error_schema());
    json_t *schemes = json_pack("{s:{s:s,s:s}}", "key", "type", "http", "scheme", "bearer");
    return json_pack("{s:s,s:{s:s,s:s},s:[{s:[]}],s:o,s:{s:o,s:o}}", "openapi", "3.0.3", "info", "title", "quipu",
                     "version", version, "security", "key", "paths", paths(), "components", "schemas", schemas,
                     "securitySchemes", schemes);
}
