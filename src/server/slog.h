/* slog.h — the server's log: one line for each event, as text or JSON, on stderr.
 *
 * Any thread may write. What comes from clients is escaped; keys and, unless asked for, prompts never get here. */
#ifndef SERVER_SLOG_H
#define SERVER_SLOG_H

#include "base/str.h"

typedef struct slog slog;

typedef enum slog_format { SLOG_TEXT, SLOG_JSON } slog_format;

/* Writes to the descriptor, which stays the caller's. */
qp_status slog_new(slog **out, int descriptor, slog_format format, qp_log_level level, qp_error *err);
void slog_free(slog *log);
void slog_set_level(slog *log, qp_log_level level);
qp_log_level slog_get_level(const slog *log);
/* False where the word is none of error, warn, info, debug. */
bool slog_read_level(const char *word, qp_log_level *level);

/* One event in words. */
void slog_say(slog *log, qp_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One event in fields. A NULL text, a NAN and a negative count are left out. */
typedef enum slog_kind { SLOG_WORD, SLOG_NUMBER, SLOG_COUNT, SLOG_FLAG } slog_kind;
typedef struct slog_field {
    const char *name;
    slog_kind kind;
    const char *text;
    double number;
    int64_t count;
} slog_field;
#define SLOG_W(name, value) ((slog_field){name, SLOG_WORD, value, 0, 0})
#define SLOG_N(name, value) ((slog_field){name, SLOG_NUMBER, NULL, value, 0})
#define SLOG_C(name, value) ((slog_field){name, SLOG_COUNT, NULL, 0, (int64_t)(value)})
#define SLOG_B(name, value) ((slog_field){name, SLOG_FLAG, NULL, 0, value})

void slog_event(slog *log, qp_log_level level, const char *event, const slog_field *fields, size_t count);

/* For qp_model_options.log and its like: user is the slog. */
void slog_line(void *user, qp_log_level level, const char *line);

#endif
