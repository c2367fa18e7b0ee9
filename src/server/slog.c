/* slog.c — puts log lines together and writes each with one call, so that lines of threads never mix.
 *
 * Called by all of the server. Text is for people: time, level, event, name=value; JSON for machines. Values of clients
 * are quoted and escaped in both, so that nobody can forge a line. */
#include "slog.h"
#include "base/clock.h"
#include "base/mem.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct slog {
    int descriptor;
    slog_format format;
    atomic_int level;
};

static const char *const level_words[] = {"error", "warn", "info", "debug"};

qp_status slog_new(slog **out, int descriptor, slog_format format, qp_log_level level, qp_error *err) {
    *out = MEM_NEW(slog);
    if (!*out) return err_no_memory(err, sizeof **out, "the log");
    (*out)->descriptor = descriptor;
    (*out)->format = format;
    atomic_store(&(*out)->level, (int)level);
    return QP_OK;
}

void slog_free(slog *log) { mem_free(log); }
void slog_set_level(slog *log, qp_log_level level) { atomic_store(&log->level, (int)level); }
qp_log_level slog_get_level(const slog *log) { return (qp_log_level)atomic_load(&log->level); }

bool slog_read_level(const char *word, qp_log_level *level) {
    for (int i = 0; i < 4; i++)
        if (!strcmp(word, level_words[i])) return *level = (qp_log_level)i, true;
    return false;
}

static void add_time(strbuf *out) {
    char text[40];
    const double now = clock_unix();
    const time_t seconds = (time_t)now;
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    strbuf_format(out, "%s.%03dZ", text, (int)((now - floor(now)) * 1000));
}

/* Plain words stay bare in text; everything else is a JSON string. */
static void add_word(strbuf *out, slog_format format, const char *text) {
    bool is_plain = format == SLOG_TEXT && *text;
    for (const char *c = text; *c && is_plain; c++) is_plain = *c > ' ' && *c < 0x7F && !strchr("\"\\=", *c);
    if (is_plain)
        strbuf_text(out, text);
    else
        strbuf_json(out, text, strlen(text));
}

static bool is_absent(const slog_field *f) {
    return (f->kind == SLOG_WORD && !f->text) || (f->kind == SLOG_NUMBER && !isfinite(f->number)) ||
           (f->kind == SLOG_COUNT && f->count < 0);
}

static void add_field(strbuf *out, slog_format format, const slog_field *f) {
    if (is_absent(f)) return;
    if (format == SLOG_JSON)
        strbuf_format(out, ",\"%s\":", f->name);
    else
        strbuf_format(out, " %s=", f->name);
    if (f->kind == SLOG_WORD)
        add_word(out, format, f->text);
    else if (f->kind == SLOG_NUMBER)
        strbuf_format(out, "%.3f", f->number);
    else if (f->kind == SLOG_COUNT)
        strbuf_format(out, "%lld", (long long)f->count);
    else
        strbuf_text(out, f->count ? "true" : "false");
}

static void write_line(const slog *log, strbuf *line) {
    strbuf_char(line, '\n');
    size_t done = 0;
    while (!line->failed && done < line->bytes) {
        const ssize_t n = write(log->descriptor, line->at + done, line->bytes - done);
        if (n <= 0) break; /* a log that cannot be written must not stop the server */
        done += (size_t)n;
    }
    strbuf_free(line);
}

static void begin(strbuf *line, const slog *log, qp_log_level level, const char *event) {
    strbuf_text(line, log->format == SLOG_JSON ? "{\"ts\":\"" : "");
    add_time(line);
    strbuf_format(line, log->format == SLOG_JSON ? "\",\"level\":\"%s\",\"event\":\"%s\"" : " %-5s %s",
                  level_words[level], event);
}

void slog_event(slog *log, qp_log_level level, const char *event, const slog_field *fields, size_t count) {
    if (!log || (int)level > atomic_load(&log->level)) return;
    strbuf line = {0};
    begin(&line, log, level, event);
    for (size_t i = 0; i < count; i++) add_field(&line, log->format, &fields[i]);
    if (log->format == SLOG_JSON) strbuf_char(&line, '}');
    write_line(log, &line);
}

/* A message is not quoted in text, but its control characters are masked. */
static void add_message(strbuf *line, const slog *log, const char *message) {
    if (log->format == SLOG_JSON) {
        strbuf_text(line, ",\"message\":");
        strbuf_json(line, message, strlen(message));
        return strbuf_char(line, '}');
    }
    strbuf_char(line, ' ');
    for (const char *c = message; *c; c++) strbuf_char(line, (unsigned char)*c < ' ' || *c == 0x7F ? '?' : *c);
}

void slog_line(void *user, qp_log_level level, const char *text) {
    const slog *log = user;
    if (!log || (int)level > atomic_load(&log->level)) return;
    strbuf line = {0};
    begin(&line, log, level, "message");
    add_message(&line, log, text);
    write_line(log, &line);
}

void slog_say(slog *log, qp_log_level level, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    slog_line(log, level, text);
}
