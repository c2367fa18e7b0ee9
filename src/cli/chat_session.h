/* chat_session.h — the turns of a conversation, and what becomes of them: undone, saved, fitted into the context.
 *
 * Knows neither terminal nor model: what a prompt costs is asked through a callback. */
#ifndef CLI_CHAT_SESSION_H
#define CLI_CHAT_SESSION_H

#include "base/json.h"
#include "base/str.h"

/* Messages are whole turns, a user's and an assistant's, but for a last user's that waits for its answer. */
typedef struct chat_session {
    json_t *messages;
    json_t *system;    /* a JSON string; NULL: none */
    size_t first;      /* messages before it stay out of the prompt: they no longer fit */
    bool has_amnesia;  /* each message begins anew */
    bool folds_system; /* the template has no place for a system message: it begins the first user's */
} chat_session;

qp_status chat_session_open(chat_session *c, const char *system, bool has_amnesia, qp_error *err);
void chat_session_close(chat_session *c);
/* Empty text: no system prompt. */
qp_status chat_session_set_system(chat_session *c, const char *text, size_t bytes, qp_error *err);

/* A message that waits for its answer; with amnesia all turns before it are forgotten. */
qp_status chat_session_ask(chat_session *c, const char *text, size_t bytes, qp_error *err);
/* The answer; `reasoning` may be empty. */
qp_status chat_session_answer(chat_session *c, span text, span reasoning, qp_error *err);
/* Takes back the last turn, or the message that waits. Its message is handed out (json_decref it), NULL: there is none.
 */
json_t *chat_session_undo(chat_session *c);
/* Takes back the last answer only, so that its message waits again; false if there is none. */
bool chat_session_reopen(chat_session *c);
void chat_session_clear(chat_session *c);
size_t chat_session_turns(const chat_session *c);

/* What is left of the context once the messages are in the prompt. */
typedef struct chat_room {
    size_t context; /* tokens */
    size_t least;   /* with less than this for the answer, a single message is refused */
    size_t wanted;  /* with less than this, turns are dropped until there is twice as much */
    void *user;
    /* Tokens of the prompt that these messages (a JSON array as text) make. */
    qp_status (*measure)(void *user, const char *messages, size_t bytes, size_t *tokens, qp_error *err);
} chat_room;

/* Moves c->first so that the prompt fits: oldest turns go, system prompt and last message stay. *n_dropped: turns that
 * went now. Where the last message alone does not fit all stays as it is: QP_TOO_LARGE. */
qp_status chat_session_fit(chat_session *c, const chat_room *room, size_t *n_dropped, qp_error *err);
/* Drops one more turn; false if only the last message is left. */
bool chat_session_drop(chat_session *c);
/* System prompt and messages from c->first on, a JSON array. */
qp_status chat_session_text(const chat_session *c, strbuf *out, qp_error *err);

/* `settings` is an object that is kept beside the messages. A file that is there and no conversation is not touched. */
qp_status chat_session_save(const chat_session *c, const json_t *settings, const char *path, qp_error *err);
/* *settings: the object in the file (json_decref it), NULL if it has none. On failure *c stays as it is. */
qp_status chat_session_load(chat_session *c, json_t **settings, const char *path, qp_error *err);

#endif
