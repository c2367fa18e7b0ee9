/* log.c — one line to the callback of a handle. */
#include "log.h"
#include <stdarg.h>
#include <stdio.h>

void log_line(const qp_log *log, qp_log_level level, const char *format, ...) {
    if (!log || !log->line) return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log->line(log->user, level, text);
}
