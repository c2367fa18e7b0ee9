/* chat.c — messages, tools and flags -> text, by the rules of transformers' apply_chat_template.
 *
 * Called by the API and the server; calls the template engine, chat_file.c for what lies in a model folder and
 * chat_builtin.c for formats of our own. The tricky thing is continue_final_message: a mark is put behind the final
 * message's content, and the rendering is cut where the mark comes out, which works whatever the template writes
 * around it. */
#include "chat.h"
#include "chat_file.h"
#include "chat_time.h"
#include "tmpl.h"
#include "tmpl_unicode.h"
#include "base/clock.h"
#include "base/mem.h"

struct chat {
    chat_file file;
    tmpl *main;       /* the template asked for, or "default" */
    tmpl *with_tools; /* "tool_use" where no name was asked for; NULL: the same as main */
    bool wants_flat;
};

static const char MARK[] = "CONTINUE_FINAL_MESSAGE_TAG ";
static const char *const reasoning_names[] = {"reasoning_content", "thinking", "reasoning"};

/* ---- opening ---- */

/* A rendering of one user message with this content; whether `text` comes out of it and no list does. */
static bool probe_shows(const tmpl *t, json_t *content, bool *is_rendered) {
    strbuf out = {0};
    qp_error err;
    static const char text[] = "quipuprobe";
    json_t *context = json_pack("{s:[{s:s,s:o}],s:b,s:n,s:s,s:s}", "messages", "role", "user", "content", content,
                                "add_generation_prompt", 1, "tools", "bos_token", "", "eos_token", "");
    const tmpl_limits limits = {.steps = 1000000, .memory_bytes = 16 << 20};
    *is_rendered = context && tmpl_render(t, context, 0, &limits, &out, NULL, &err) == QP_OK;
    const span got = {out.at, out.bytes};
    const char *found = *is_rendered && got.bytes ? memmem(got.at, got.bytes, text, sizeof text - 1) : NULL;
    const bool is_listed =
        found && (memmem(got.at, got.bytes, "'type'", 6) || memmem(got.at, got.bytes, "\"type\"", 6));
    strbuf_free(&out);
    json_decref(context);
    return found && !is_listed;
}

/* Flat: a text works as content and a list of one text part does not. */
static bool find_flat(const tmpl *t) {
    bool is_rendered;
    if (!probe_shows(t, json_string("quipuprobe"), &is_rendered)) return false;
    return !probe_shows(t, json_pack("[{s:s,s:s}]", "type", "text", "text", "quipuprobe"), &is_rendered);
}

static qp_status parse(chat *c, qp_error *err) {
    qp_status status = tmpl_new(&c->main, (span){c->file.source, c->file.source_bytes}, err);
    if (status == QP_OK && c->file.tool_source)
        status = tmpl_new(&c->with_tools, (span){c->file.tool_source, c->file.tool_source_bytes}, err);
    if (status == QP_OK) c->wants_flat = find_flat(c->main);
    return status;
}

static qp_status finish(chat **out, chat *c, qp_status status, qp_error *err) {
    if (status == QP_OK) status = parse(c, err);
    if (status == QP_OK)
        *out = c;
    else
        chat_free(c);
    return status;
}

qp_status chat_open(chat **out, const char *folder, const char *name, qp_error *err) {
    chat *c = MEM_NEW(chat);
    *out = NULL;
    if (!c) return err_no_memory(err, sizeof *c, "chat template");
    return finish(out, c, chat_file_read(&c->file, folder, name, err), err);
}

qp_status chat_new_config(chat **out, const char *config, size_t bytes, const char *where, const char *name,
                          qp_error *err) {
    chat *c = MEM_NEW(chat);
    *out = NULL;
    if (!c) return err_no_memory(err, sizeof *c, "chat template");
    return finish(out, c, chat_file_parse(&c->file, config, bytes, where, name, err), err);
}

qp_status chat_new(chat **out, span source, qp_error *err) {
    chat *c = MEM_NEW(chat);
    *out = NULL;
    if (!c || !(c->file.source = mem_copy_text(source.at, source.bytes))) {
        chat_free(c);
        return err_no_memory(err, source.bytes, "chat template");
    }
    c->file.source_bytes = source.bytes;
    return finish(out, c, QP_OK, err);
}

void chat_free(chat *c) {
    if (!c) return;
    tmpl_free(c->main);
    tmpl_free(c->with_tools);
    chat_file_free(&c->file);
    mem_free(c);
}

bool chat_mentions(const chat *c, const char *name) {
    return tmpl_mentions(c->main, name) || (c->with_tools && tmpl_mentions(c->with_tools, name));
}

span chat_source(const chat *c) { return (span){c->file.source, c->file.source_bytes}; }
bool chat_wants_flat_content(const chat *c) { return c->wants_flat; }

/* ---- what the template sees ---- */

static qp_status no_memory(qp_error *err) { return err_no_memory(err, 0, "chat messages"); }

/* The first of a message's names for its reasoning that is there. */
static json_t *find_reasoning(const json_t *message) {
    for (size_t i = 0; i < sizeof reasoning_names / sizeof *reasoning_names; i++) {
        json_t *found = json_object_get(message, reasoning_names[i]);
        if (found && !json_is_null(found)) return found;
    }
    return NULL;
}

/* A message with its reasoning under `thinking`, which then comes first, and `reasoning_content`. */
static json_t *alias_message(const json_t *message) {
    json_t *reasoning = find_reasoning(message), *copy = json_object();
    if (!copy) return NULL;
    bool is_right = !reasoning || json_object_set(copy, "thinking", reasoning) == 0;
    is_right = is_right && json_object_update(copy, (json_t *)(uintptr_t)message) == 0;
    is_right = is_right && (!reasoning || json_object_set(copy, "reasoning_content", reasoning) == 0);
    if (is_right) return copy;
    json_decref(copy);
    return NULL;
}

/* The messages as the template sees them: a new list of new objects, whose values are shared. */
static qp_status copy_messages(json_t **out, const json_t *messages, qp_error *err) {
    size_t i;
    json_t *message;
    *out = json_array();
    if (!*out) return no_memory(err);
    json_array_foreach(messages, i, message) {
        if (!json_is_object(message))
            return err_set(err, QP_BAD_ARGUMENT, 0, "messages: element %zu is %s, expected an object", i,
                           json_kind(message));
        if (json_array_append_new(*out, alias_message(message)) != 0) return no_memory(err);
    }
    return QP_OK;
}

/* ---- continue_final_message ---- */

typedef struct continuation {
    const char *field; /* NULL: nothing is continued */
    span text;         /* what is continued, without the mark */
} continuation;

static bool is_reasoning(const char *field) {
    for (size_t i = 0; i < sizeof reasoning_names / sizeof *reasoning_names; i++)
        if (!strcmp(field, reasoning_names[i])) return true;
    return false;
}

static bool source_has(const chat *c, const char *field) {
    return memmem(c->file.source, c->file.source_bytes, field, strlen(field)) != NULL;
}

static json_t *marked(span text) {
    strbuf b = {0};
    strbuf_add(&b, text.at, text.bytes);
    strbuf_text(&b, MARK);
    json_t *made = b.failed ? NULL : json_stringn(b.at, b.bytes);
    strbuf_free(&b);
    return made;
}

/* Marks the last part with a text; the list and the part are copies. */
static qp_status mark_parts(json_t *message, const char *field, const json_t *parts, continuation *out, qp_error *err) {
    json_t *copy = json_copy((json_t *)(uintptr_t)parts);
    if (!copy || json_object_set_new(message, field, copy) != 0) return no_memory(err);
    for (size_t i = json_array_size(copy); i-- > 0;) {
        json_t *text = json_object_get(json_array_get(copy, i), "text");
        if (!text) continue;
        if (!json_is_string(text))
            return err_set(err, QP_BAD_ARGUMENT, 0, "continue_final_message: the part's text is %s, expected a string",
                           json_kind(text));
        out->text = (span){json_string_value(text), json_string_length(text)};
        json_t *part = json_copy(json_array_get(copy, i));
        if (!part || json_array_set_new(copy, i, part) != 0 ||
            json_object_set_new(part, "text", marked(out->text)) != 0)
            return no_memory(err);
        return QP_OK;
    }
    return err_set(err, QP_BAD_ARGUMENT, 0, "continue_final_message: found no text to continue in the final message");
}

/* Puts the mark behind the final message's field, and behind its other names if it is the reasoning. */
static qp_status mark_final(const chat *c, json_t *messages, const char *field, continuation *out, qp_error *err) {
    json_t *message = json_array_get(messages, json_array_size(messages) - 1);
    json_t *content = json_object_get(message, field);
    bool is_read = source_has(c, field);
    if (!message) return err_set(err, QP_BAD_ARGUMENT, 0, "continue_final_message: the conversation is empty");
    if (!content || json_is_null(content))
        return err_set(err, QP_BAD_ARGUMENT, 0,
                       "continue_final_message: the final message has no \"%.60s\" to continue", field);
    out->field = field;
    for (size_t i = 0; is_reasoning(field) && i < 3; i++)
        is_read |=
            json_equal(json_object_get(message, reasoning_names[i]), content) && source_has(c, reasoning_names[i]);
    if (!is_read)
        return err_set(err, QP_BAD_ARGUMENT, 0, "continue_final_message: the template does not read \"%.60s\"", field);
    if (json_is_array(content)) return mark_parts(message, field, content, out, err);
    if (!json_is_string(content))
        return err_set(err, QP_BAD_ARGUMENT, 0, "continue_final_message: \"%.60s\" is %s, expected a string", field,
                       json_kind(content));
    json_t *before = json_incref(content), *with_mark = NULL;
    out->text = (span){json_string_value(content), json_string_length(content)};
    qp_status status = (with_mark = marked(out->text)) ? QP_OK : no_memory(err);
    if (status == QP_OK && json_object_set(message, field, with_mark) != 0) status = no_memory(err);
    for (size_t i = 0; status == QP_OK && is_reasoning(field) && i < 3; i++)
        if (json_equal(json_object_get(message, reasoning_names[i]), before) &&
            json_object_set(message, reasoning_names[i], with_mark) != 0)
            status = no_memory(err);
    json_decref(with_mark);
    json_decref(before); /* the caller's message still holds the text */
    return status;
}

/* Cuts the rendering, which begins at `from`, where the mark came out. */
static qp_status cut_at_mark(strbuf *out, size_t from, const continuation *what, qp_error *err) {
    const span mark = {MARK, sizeof MARK - 2}, text = tmpl_lstrip(tmpl_rstrip(what->text));
    const char *begin = out->at ? out->at + from : "";
    const size_t bytes = out->bytes - from;
    const char *last = NULL;
    for (const char *at = begin; (at = memmem(at, bytes - (size_t)(at - begin), mark.at, mark.bytes)); at++) last = at;
    if (!last || (text.bytes && !memmem(begin, bytes, text.at, text.bytes)))
        return err_set(err, QP_BAD_ARGUMENT, 0,
                       "continue_final_message: the final message does not appear in the rendered "
                       "text; the template changes or drops it");
    span kept = {begin, (size_t)(last - begin)};
    const bool keeps_space = (size_t)(begin + bytes - last) > mark.bytes && last[mark.bytes] == ' ';
    if (!keeps_space) kept = tmpl_rstrip(kept);
    out->bytes = from + kept.bytes;
    out->at[out->bytes] = 0;
    return QP_OK;
}

/* ---- rendering ---- */

static const char *const reserved[] = {
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "now", "tokens"};

static bool is_reserved(const char *key) {
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (!strcmp(key, reserved[i])) return true;
    return false;
}

static bool set_or(json_t *context, const char *key, json_t *given, json_t *fallback) {
    if (given) json_decref(fallback);
    return (given ? json_object_set(context, key, given) : json_object_set_new(context, key, fallback)) == 0;
}

/* tools and documents: a list of objects, or none. */
static qp_status check_objects(const json_t *input, const char *key, qp_error *err) {
    size_t i;
    json_t *list, *one;
    ERR_TRY(json_get_array(input, key, &list, "chat input", err));
    json_array_foreach(list, i, one) if (!json_is_object(one)) return err_set(
        err, QP_BAD_ARGUMENT, 0, "%s: element %zu is %s, expected an object", key, i, json_kind(one));
    return QP_OK;
}

/* All variables but the messages. */
static qp_status fill_context(const chat *c, const json_t *input, json_t *context, qp_error *err) {
    json_t *tokens, *value;
    const char *key;
    ERR_TRY(json_get_object(input, "tokens", &tokens, "chat input", err));
    ERR_TRY(check_objects(input, "tools", err));
    ERR_TRY(check_objects(input, "documents", err));
    if (!tokens) tokens = c->file.tokens;
    if (tokens && json_object_update(context, tokens) != 0) return no_memory(err);
    json_object_foreach((json_t *)(uintptr_t)input, key,
                        value) if (!is_reserved(key) &&
                                   json_object_set(context, key, value) != 0) return no_memory(err);
    const bool is_right =
        set_or(context, "tools", json_object_get(input, "tools"), json_null()) &&
        set_or(context, "documents", json_object_get(input, "documents"), json_null()) &&
        set_or(context, "add_generation_prompt", json_object_get(input, "add_generation_prompt"), json_false());
    return is_right ? QP_OK : no_memory(err);
}

/* Which field is to be continued; NULL: none. */
static qp_status find_continued(const json_t *input, const char **field, qp_error *err) {
    const json_t *flag = json_object_get(input, "continue_final_message");
    *field = json_is_true(flag) ? "content" : NULL;
    if (json_is_string(flag) && json_string_length(flag))
        *field = json_string_value(flag);
    else if (flag && !json_is_boolean(flag) && !json_is_null(flag) && !json_is_string(flag))
        return err_set(err, QP_BAD_ARGUMENT, 0,
                       "chat input: \"continue_final_message\" is %s, expected a boolean or a field's name",
                       json_kind(flag));
    if (*field && json_is_true(json_object_get(input, "add_generation_prompt")))
        return err_set(err, QP_BAD_ARGUMENT, 0, "continue_final_message and add_generation_prompt exclude each other");
    return QP_OK;
}

static qp_status render(const chat *c, const json_t *input, json_t *context, strbuf *out, bool *raised, qp_error *err) {
    json_t *given, *messages = NULL;
    double now = clock_unix();
    continuation continued = {0};
    const char *field;
    ERR_TRY(json_need(input, "messages", "chat input", err));
    ERR_TRY(json_get_array(input, "messages", &given, "chat input", err));
    ERR_TRY(chat_time_read(json_object_get(input, "now"), &now, err));
    ERR_TRY(find_continued(input, &field, err));
    ERR_TRY(fill_context(c, input, context, err));
    qp_status status = copy_messages(&messages, given, err);
    if (status == QP_OK && field) status = mark_final(c, messages, field, &continued, err);
    if (messages && json_object_set_new(context, "messages", messages) != 0 && status == QP_OK) status = no_memory(err);
    if (status != QP_OK) return status;
    const json_t *tools = json_object_get(context, "tools");
    const tmpl *t = c->with_tools && !json_is_null(tools) ? c->with_tools : c->main;
    const size_t from = out->bytes;
    ERR_TRY(tmpl_render(t, context, now, NULL, out, raised, err));
    return field ? cut_at_mark(out, from, &continued, err) : QP_OK;
}

qp_status chat_render(const chat *c, const json_t *input, strbuf *out, bool *raised, qp_error *err) {
    if (raised) *raised = false;
    if (!json_is_object(input))
        return err_set(err, QP_BAD_ARGUMENT, 0, "chat input is %s, expected an object", json_kind(input));
    json_t *context = json_object();
    if (!context) return no_memory(err);
    const qp_status status = render(c, input, context, out, raised, err);
    json_decref(context);
    return status;
}

/* ---- flattening ---- */

static qp_status flatten_parts(const json_t *parts, size_t message_i, json_t **out, qp_error *err) {
    strbuf text = {0};
    size_t i;
    json_t *part;
    json_array_foreach(parts, i, part) {
        const json_t *type = json_object_get(part, "type"), *piece = json_object_get(part, "text");
        if (!piece) piece = json_object_get(part, "refusal");
        const bool is_text = json_is_string(piece) &&
                             (!type || !strcmp(json_string_value(type) ? json_string_value(type) : "", "text") ||
                              !strcmp(json_string_value(type) ? json_string_value(type) : "", "refusal"));
        if (is_text) {
            strbuf_add(&text, json_string_value(piece), json_string_length(piece));
            continue;
        }
        strbuf_free(&text);
        return err_set(err, QP_UNSUPPORTED, 0,
                       "messages: part %zu of message %zu is not a text, and the template takes only texts", i,
                       message_i);
    }
    *out = text.failed ? NULL : json_stringn(text.at ? text.at : "", text.bytes);
    strbuf_free(&text);
    return *out ? QP_OK : no_memory(err);
}

qp_status chat_flatten(json_t **out, const json_t *messages, qp_error *err) {
    size_t i;
    json_t *message;
    qp_status status = QP_OK;
    json_t *list = json_array();
    *out = NULL;
    if (!list) return no_memory(err);
    json_array_foreach(messages, i, message) {
        json_t *copy = json_copy(message), *content = json_object_get(message, "content"), *text;
        if (!copy || json_array_append_new(list, copy) != 0)
            status = no_memory(err);
        else if (json_is_array(content) && (status = flatten_parts(content, i, &text, err)) == QP_OK &&
                 json_object_set_new(copy, "content", text) != 0)
            status = no_memory(err);
        if (status != QP_OK) break;
    }
    if (status == QP_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}
