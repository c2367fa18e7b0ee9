/* chat_session.c — messages as one JSON array, so that saving, loading and rendering need no second form.
 *
 * A turn is two messages, so the k-th turn begins at message 2k; loading refuses everything else. Fitting is a binary
 * search over turns, because a long conversation may have come out of a file and each question costs a tokenisation.
 * What no longer fits stays in the array: it can be saved, and is back in the prompt after /undo or /clear. */
#include "chat_session.h"
#include "base/file.h"
#include "base/outfile.h"
#include "base/utf8.h"

enum { SESSION_LIMIT = 64 << 20 };
static const char *const roles[] = {"user", "assistant"};

static qp_status no_memory(qp_error *err) { return err_no_memory(err, 0, "the conversation"); }

qp_status chat_session_open(chat_session *c, const char *system, bool has_amnesia, qp_error *err) {
    *c = (chat_session){.messages = json_array(), .has_amnesia = has_amnesia};
    if (!c->messages) return no_memory(err);
    return chat_session_set_system(c, system ? system : "", system ? strlen(system) : 0, err);
}

void chat_session_close(chat_session *c) {
    json_decref(c->messages);
    json_decref(c->system);
    *c = (chat_session){.messages = NULL};
}

static qp_status make_text(json_t **out, const char *text, size_t bytes, const char *what, qp_error *err) {
    *out = json_stringn(text, bytes);
    return *out ? QP_OK : err_set(err, QP_BAD_FORMAT, 0, "%s is not UTF-8 (or memory is short)", what);
}

qp_status chat_session_set_system(chat_session *c, const char *text, size_t bytes, qp_error *err) {
    json_t *made = NULL;
    if (bytes) ERR_TRY(make_text(&made, text, bytes, "the system prompt", err));
    json_decref(c->system);
    c->system = made;
    return QP_OK;
}

/* ---- turns ---- */

static size_t count(const chat_session *c) { return json_array_size(c->messages); }

size_t chat_session_turns(const chat_session *c) { return (count(c) + 1) / 2; }

void chat_session_clear(chat_session *c) {
    json_array_clear(c->messages);
    c->first = 0;
}

/* Appends {"role", "content"}; takes over `content`. */
static qp_status append(chat_session *c, const char *role, json_t *content, qp_error *err) {
    json_t *message = json_object();
    const bool is_made = message && !json_object_set_new(message, "role", json_string(role));
    if (!is_made || json_object_set(message, "content", content) || json_array_append(c->messages, message)) {
        json_decref(message);
        json_decref(content);
        return no_memory(err);
    }
    json_decref(message);
    json_decref(content);
    return QP_OK;
}

qp_status chat_session_ask(chat_session *c, const char *text, size_t bytes, qp_error *err) {
    json_t *content;
    ERR_TRY(make_text(&content, text, bytes, "the message", err));
    if (c->has_amnesia) chat_session_clear(c);
    return append(c, roles[0], content, err);
}

qp_status chat_session_answer(chat_session *c, span text, span reasoning, qp_error *err) {
    json_t *content;
    ERR_TRY(make_text(&content, text.bytes ? text.at : "", text.bytes, "the answer", err));
    ERR_TRY(append(c, roles[1], content, err));
    if (!reasoning.bytes) return QP_OK;
    ERR_TRY(make_text(&content, reasoning.at, reasoning.bytes, "the reasoning", err));
    json_t *message = json_array_get(c->messages, count(c) - 1);
    return json_object_set_new(message, "reasoning_content", content) ? no_memory(err) : QP_OK;
}

json_t *chat_session_undo(chat_session *c) {
    if (!count(c)) return NULL;
    const size_t at = (count(c) - 1) / 2 * 2;
    json_t *message = json_incref(json_array_get(c->messages, at));
    while (count(c) > at) json_array_remove(c->messages, count(c) - 1);
    c->first = 0;
    return message;
}

bool chat_session_reopen(chat_session *c) {
    if (count(c) % 2 || !count(c)) return false;
    json_array_remove(c->messages, count(c) - 1);
    return true;
}

/* ---- what the model sees ---- */

/* The message that the system prompt begins, since it has no place of its own. */
static json_t *folded(const chat_session *c, const json_t *message) {
    strbuf text = {0};
    const json_t *content = json_object_get(message, "content");
    strbuf_add(&text, json_string_value(c->system), json_string_length(c->system));
    strbuf_text(&text, "\n\n");
    strbuf_add(&text, json_string_value(content), json_string_length(content));
    json_t *made =
        text.failed ? NULL : json_pack("{s:s, s:o}", "role", roles[0], "content", json_stringn(text.at, text.bytes));
    strbuf_free(&text);
    return made;
}

static json_t *shown_from(const chat_session *c, size_t first) {
    json_t *out = json_array();
    int failures = !out;
    const bool folds = c->system && c->folds_system;
    if (c->system && !folds)
        failures += json_array_append_new(out, json_pack("{s:s, s:O}", "role", "system", "content", c->system));
    for (size_t i = first; i < count(c); i++) {
        json_t *message = json_array_get(c->messages, i);
        failures +=
            folds && i == first ? json_array_append_new(out, folded(c, message)) : json_array_append(out, message);
    }
    if (!failures) return out;
    json_decref(out);
    return NULL;
}

static qp_status write_from(const chat_session *c, size_t first, strbuf *out, qp_error *err) {
    json_t *shown = shown_from(c, first);
    char *text = shown ? json_dumps(shown, JSON_COMPACT) : NULL;
    json_decref(shown);
    if (!text) return no_memory(err);
    strbuf_clear(out);
    strbuf_text(out, text);
    free(text);
    return strbuf_status(out, err, "the conversation");
}

qp_status chat_session_text(const chat_session *c, strbuf *out, qp_error *err) {
    return write_from(c, c->first, out, err);
}

/* ---- the context ---- */

static qp_status measure(const chat_session *c, const chat_room *room, size_t turn, size_t *tokens, qp_error *err) {
    strbuf text = {0};
    qp_status status = write_from(c, 2 * turn, &text, err);
    if (status == QP_OK) status = room->measure(room->user, text.at, text.bytes, tokens, err);
    strbuf_free(&text);
    return status;
}

/* The first turn, after `low`, from which on the prompt leaves so much room; the last one if none does. */
static qp_status search(const chat_session *c, const chat_room *room, size_t low, size_t *turn, qp_error *err) {
    const size_t most = room->context > 2 * room->wanted ? room->context - 2 * room->wanted : 0;
    size_t high = chat_session_turns(c) - 1;
    for (low++; low < high;) {
        const size_t middle = low + (high - low) / 2;
        size_t tokens;
        ERR_TRY(measure(c, room, middle, &tokens, err));
        if (tokens <= most)
            high = middle;
        else
            low = middle + 1;
    }
    *turn = high;
    return QP_OK;
}

qp_status chat_session_fit(chat_session *c, const chat_room *room, size_t *n_dropped, qp_error *err) {
    const size_t last = chat_session_turns(c) - 1;
    size_t turn = c->first / 2, tokens;
    *n_dropped = 0;
    ERR_TRY(measure(c, room, turn, &tokens, err));
    if (tokens + room->wanted > room->context && turn < last) {
        ERR_TRY(search(c, room, turn, &turn, err));
        ERR_TRY(measure(c, room, turn, &tokens, err));
    }
    if (turn == last && tokens + room->least > room->context)
        return err_set(err, QP_TOO_LARGE, 0,
                       "the message makes a prompt of %zu tokens, the context of %zu has room for %zu and an answer",
                       tokens, room->context, room->context > room->least ? room->context - room->least : 0);
    *n_dropped = turn - c->first / 2;
    c->first = 2 * turn;
    return QP_OK;
}

bool chat_session_drop(chat_session *c) {
    if (c->first + 2 >= count(c)) return false;
    c->first += 2;
    return true;
}

/* ---- files ---- */

static bool is_conversation(const char *path) {
    json_t *document;
    if (json_load_path(&document, path, SESSION_LIMIT, NULL) != QP_OK) return false;
    const bool is_one = json_is_array(json_object_get(document, "messages"));
    json_decref(document);
    return is_one;
}

static qp_status write_document(const json_t *document, const char *path, qp_error *err) {
    char *text = json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    if (!text) return no_memory(err);
    outfile *file;
    qp_status status = outfile_open(&file, path, err);
    if (status == QP_OK) {
        outfile_add(file, text, strlen(text));
        outfile_add(file, "\n", 1);
        status = outfile_commit(file, err);
    }
    free(text);
    return status;
}

qp_status chat_session_save(const chat_session *c, const json_t *settings, const char *path, qp_error *err) {
    if (file_exists(path) && !is_conversation(path))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%.300s is there, and no conversation: it is left alone", path);
    json_t *document = json_pack("{s:O?, s:b, s:O, s:O}", "system", c->system, "amnesia", (int)c->has_amnesia,
                                 "settings", settings, "messages", c->messages);
    if (!document) return no_memory(err);
    const qp_status status = write_document(document, path, err);
    json_decref(document);
    return status;
}

/* Appends a message of a file to *c, with the keys that are ours. */
static qp_status take_message(chat_session *c, const json_t *message, size_t place, const char *path, qp_error *err) {
    char where[340];
    const char *role = NULL, *content = NULL, *reasoning = NULL;
    snprintf(where, sizeof where, "%.300s, message %zu", path, place + 1);
    if (!json_is_object(message))
        return err_set(err, QP_BAD_FORMAT, place, "%s: found %s, expected an object", where, json_kind(message));
    ERR_TRY(json_need(message, "role", where, err));
    ERR_TRY(json_need(message, "content", where, err));
    ERR_TRY(json_get_text(message, "role", &role, where, err));
    ERR_TRY(json_get_text(message, "content", &content, where, err));
    ERR_TRY(json_get_text(message, "reasoning_content", &reasoning, where, err));
    char shown[48];
    if (strcmp(role, roles[count(c) % 2]))
        return err_set(err, QP_BAD_FORMAT, place, "%s: \"role\" is \"%s\", expected \"%s\"", where,
                       utf8_shown(shown, sizeof shown, role), roles[count(c) % 2]);
    ERR_TRY(append(c, role, json_incref(json_object_get(message, "content")), err));
    if (!reasoning || !*reasoning || !(count(c) % 2 == 0)) return QP_OK;
    json_t *taken = json_array_get(c->messages, count(c) - 1);
    return json_object_set(taken, "reasoning_content", json_object_get(message, "reasoning_content")) ? no_memory(err)
                                                                                                      : QP_OK;
}

/* The system prompt: a member of its own, or, as other programs write it, the first message. */
static qp_status take_system(chat_session *c, const json_t *document, const json_t *messages, size_t *n,
                             const char *path, qp_error *err) {
    const char *system = NULL, *role = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    ERR_TRY(json_get_text(document, "system", &system, path, err));
    json_t *found = system ? json_object_get(document, "system") : NULL;
    *n = !system && role && !strcmp(role, "system");
    if (*n) found = json_object_get(json_array_get(messages, 0), "content");
    if (*n && !json_is_string(found))
        return err_set(err, QP_BAD_FORMAT, 0, "%.300s, message 1: \"content\" is %s, expected a string", path,
                       found ? json_kind(found) : "missing");
    if (found && json_string_length(found)) c->system = json_incref(found);
    return QP_OK;
}

static qp_status read_document(chat_session *c, json_t **settings, const json_t *document, const char *path,
                               qp_error *err) {
    json_t *messages = NULL;
    size_t at;
    if (!json_is_object(document))
        return err_set(err, QP_BAD_FORMAT, 0, "%.300s: %s, expected an object", path, json_kind(document));
    ERR_TRY(json_need(document, "messages", path, err));
    ERR_TRY(json_get_array(document, "messages", &messages, path, err));
    ERR_TRY(json_get_object(document, "settings", settings, path, err));
    ERR_TRY(json_get_bool(document, "amnesia", &c->has_amnesia, path, err));
    ERR_TRY(take_system(c, document, messages, &at, path, err));
    for (; at < json_array_size(messages); at++) ERR_TRY(take_message(c, json_array_get(messages, at), at, path, err));
    if (count(c) % 2)
        return err_set(err, QP_BAD_FORMAT, at, "%.300s: ends with message %zu of a user, which nobody answers", path,
                       at);
    return QP_OK;
}

qp_status chat_session_load(chat_session *c, json_t **settings, const char *path, qp_error *err) {
    json_t *document, *found = NULL;
    chat_session made;
    *settings = NULL;
    ERR_TRY(json_load_path(&document, path, SESSION_LIMIT, err));
    qp_status status = chat_session_open(&made, NULL, c->has_amnesia, err);
    if (status == QP_OK) status = read_document(&made, &found, document, path, err);
    if (status == QP_OK) {
        made.folds_system = c->folds_system;
        chat_session_close(c);
        *c = made;
        *settings = json_incref(found);
    } else
        chat_session_close(&made);
    json_decref(document);
    return status;
}
