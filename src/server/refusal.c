/* refusal.c — why a request is not served. */
#include "refusal.h"
#include "base/utf8.h"
#include <stdio.h>

/* Texts are cut by snprintf; a character cut in half would not be JSON. */
static void trim(char *text) { text[utf8_valid_prefix(text, strlen(text))] = 0; }

bool refuse(refusal *why, reply_fault fault, const char *param, const char *format, ...) {
    va_list args;
    *why = (refusal){.fault = fault};
    snprintf(why->param, sizeof why->param, "%s", param ? param : "");
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    trim(why->param);
    trim(why->text);
    return false;
}

bool refuse_memory(refusal *why, const char *what) {
    return refuse(why, FAULT_INTERNAL, NULL, "out of memory for %s", what);
}

bool refuse_status(refusal *why, qp_status status, const char *param, const qp_error *err) {
    return refuse(why, reply_fault_of(status), param, "%s", err->text);
}
