/* chat_history.h — what was typed into `quipu chat`, kept for the next time.
 *
 * A line of the file is one message as a JSON string. Lines are only appended, so that several conversations at the
 * same time lose nothing; reading shortens a file that has become long. */
#ifndef CLI_CHAT_HISTORY_H
#define CLI_CHAT_HISTORY_H

#include "base/err.h"

enum { CHAT_HISTORY_KEPT = 1000 }; /* messages, the newest */

/* $XDG_STATE_HOME/quipu/chat_history, else the same under ~/.local/state; false: there is no place for it. */
bool chat_history_path(char *out, size_t capacity);
/* Calls visit for the newest messages, the oldest of them first. A file that is not there has none; what is no message
 * is passed over. */
qp_status chat_history_load(const char *path, void *user, void (*visit)(void *user, const char *text), qp_error *err);
/* Makes the folders where they are missing, readable by their owner only. */
qp_status chat_history_add(const char *path, const char *text, size_t bytes, qp_error *err);

#endif
