/* err.c — filling the caller-owned error struct; the only place that formats error texts. */
#include "err.h"
#include "utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Cuts a half character that truncation may have left at the end. */
static void trim_half_character(char *text) {
    const size_t bytes = strlen(text);
    text[bytes - utf8_incomplete_tail(text, bytes)] = 0;
}

qp_status err_set(qp_error *err, qp_status code, uint64_t offset, const char *format, ...) {
    if (!err) return code;
    va_list args;
    va_start(args, format);
    err->code = code;
    err->offset = offset;
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    trim_half_character(err->text);
    return code;
}

qp_status err_prefix(qp_error *err, qp_status code, const char *format, ...) {
    if (!err) return code;
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    const int head = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const size_t used = head < 0 ? 0 : (size_t)head < sizeof text ? (size_t)head : sizeof text - 1;
    snprintf(text + used, sizeof text - used, ": %s", err->text);
    memcpy(err->text, text, sizeof text);
    trim_half_character(err->text);
    return err->code;
}

qp_status err_no_memory(qp_error *err, size_t bytes, const char *what) {
    if (!bytes) return err_set(err, QP_NO_MEMORY, 0, "out of memory for %s", what);
    return err_set(err, QP_NO_MEMORY, 0, "out of memory for %s (%zu bytes)", what, bytes);
}
