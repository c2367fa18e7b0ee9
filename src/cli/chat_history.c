/* chat_history.c — one file of lines, appended to and now and then shortened.
 *
 * Called by cmd_chat.c. Messages may be secrets: the file is 0600 and its folder 0700. */
#include "chat_history.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/outfile.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_LIMIT = 64 << 20, MESSAGE_LIMIT = 32 << 10 };

bool chat_history_path(char *out, size_t capacity) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/') return snprintf(out, capacity, "%s/quipu/chat_history", state) < (int)capacity;
    if (!home || *home != '/') return false;
    return snprintf(out, capacity, "%s/.local/state/quipu/chat_history", home) < (int)capacity;
}

/* ---- reading ---- */

static size_t count_lines(span text) {
    size_t n = 0;
    for (const char *at = text.at, *end; (end = memchr(at, '\n', text.bytes - (size_t)(at - text.at))); at = end + 1)
        n++;
    return n;
}

/* The end of `text` that has at most so many lines, of `n`. */
static span last_lines(span text, size_t n, size_t wanted) {
    for (; n > wanted; n--) {
        const size_t bytes = (size_t)((const char *)memchr(text.at, '\n', text.bytes) - text.at) + 1;
        text = (span){text.at + bytes, text.bytes - bytes};
    }
    return text;
}

static void visit_line(span line, void *user, void (*visit)(void *user, const char *text)) {
    json_t *message;
    if (json_parse(&message, line.at, line.bytes, "", NULL) != QP_OK) return;
    const char *text = json_string_value(message);
    if (text && *text && strlen(text) == json_string_length(message)) visit(user, text);
    json_decref(message);
}

static qp_status shorten(const char *path, span kept, qp_error *err) {
    outfile *file;
    ERR_TRY(outfile_open(&file, path, err));
    outfile_add(file, kept.at, kept.bytes);
    ERR_TRY(outfile_commit(file, err));
    return chmod(path, 0600) ? err_set(err, QP_IO, 0, "%.300s: %s", path, strerror(errno)) : QP_OK;
}

qp_status chat_history_load(const char *path, void *user, void (*visit)(void *user, const char *text), qp_error *err) {
    char *all;
    size_t bytes;
    if (!file_exists(path)) return QP_OK;
    ERR_TRY(file_read(&all, &bytes, path, FILE_LIMIT, err));
    const span text = {all, bytes};
    const size_t n = count_lines(text);
    const span kept = last_lines(text, n, CHAT_HISTORY_KEPT);
    for (span left = kept; left.bytes;) {
        const char *end = memchr(left.at, '\n', left.bytes);
        const size_t length = end ? (size_t)(end - left.at) : left.bytes;
        visit_line((span){left.at, length}, user, visit);
        left = (span){left.at + length + (end != NULL), left.bytes - length - (end != NULL)};
    }
    const qp_status status = n > 2 * CHAT_HISTORY_KEPT ? shorten(path, kept, err) : QP_OK;
    mem_free(all);
    return status;
}

/* ---- writing ---- */

/* Makes the folder of `path` and what is missing above it. */
static void make_folders(const char *path) {
    char folder[4096];
    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) return;
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(folder, 0700);
        *slash = '/';
    }
}

static qp_status append(const char *path, const strbuf *line, qp_error *err) {
    make_folders(path);
    const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0) return err_set(err, QP_IO, 0, "%.300s: %s", path, strerror(errno));
    const bool is_written = write(fd, line->at, line->bytes) == (ssize_t)line->bytes;
    const int why = errno;
    close(fd);
    return is_written ? QP_OK : err_set(err, QP_IO, 0, "%.300s: %s", path, strerror(why));
}

qp_status chat_history_add(const char *path, const char *text, size_t bytes, qp_error *err) {
    strbuf line = {0};
    if (bytes > MESSAGE_LIMIT) return QP_OK;
    strbuf_json(&line, text, bytes);
    strbuf_char(&line, '\n');
    qp_status status = strbuf_status(&line, err, "the history");
    if (status == QP_OK) status = append(path, &line, err);
    strbuf_free(&line);
    return status;
}
