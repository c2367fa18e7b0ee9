/* log.h — one line to the callback of a handle. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "err.h"

/* Does nothing where the callback is NULL. */
void log_line(const qp_log *log, qp_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
