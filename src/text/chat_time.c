/* chat_time.c — reading the clock of a rendering: seconds, or an ISO time. */
#include "chat_time.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Z, +hh:mm, +hhmm or +hh: seconds east; false if it is none of these. */
static bool read_zone(const char *at, int *seconds) {
    int hours = 0, minutes = 0, used = 0;
    if (!strcmp(at, "Z")) return *seconds = 0, true;
    if ((*at != '+' && *at != '-') || strlen(at) < 3) return false;
    const char *format = strchr(at, ':') ? "%2d:%2d%n" : "%2d%2d%n";
    if (sscanf(at + 1, format, &hours, &minutes, &used) != 2) {
        minutes = 0;
        if (sscanf(at + 1, "%2d%n", &hours, &used) != 1) return false;
    }
    if (at[1 + used] || hours > 23 || minutes > 59) return false;
    *seconds = (hours * 60 + minutes) * 60 * (*at == '-' ? -1 : 1);
    return true;
}

static bool read_iso(const char *text, double *out) {
    struct tm when = {.tm_isdst = -1};
    int used = 0, zone;
    double fraction = 0;
    if (sscanf(text, "%4d-%2d-%2d%n", &when.tm_year, &when.tm_mon, &when.tm_mday, &used) != 3 || used != 10)
        return false;
    const char *at = text + used;
    if (*at == 'T' || *at == ' ') {
        if (sscanf(at + 1, "%2d:%2d%n", &when.tm_hour, &when.tm_min, &used) != 2 || used != 5) return false;
        at += 6;
        if (*at == ':') {
            if (sscanf(at + 1, "%2d%n", &when.tm_sec, &used) != 1 || used != 2) return false;
            at += 3;
        }
        if (*at == '.' || *at == ',') {
            char *end;
            char digits[32];
            snprintf(digits, sizeof digits, "0.%.20s", at + 1);
            fraction = strtod(digits, &end);
            at += end - digits - 1;
        }
    }
    when.tm_year -= 1900;
    when.tm_mon -= 1;
    if (when.tm_mon < 0 || when.tm_mon > 11 || when.tm_mday < 1 || when.tm_mday > 31 || when.tm_hour > 23 ||
        when.tm_min > 59 || when.tm_sec > 60)
        return false;
    if (!*at) return *out = (double)mktime(&when) + fraction, true;
    if (!read_zone(at, &zone)) return false;
    *out = (double)(timegm(&when) - zone) + fraction;
    return true;
}

qp_status chat_time_read(const json_t *given, double *out, qp_error *err) {
    if (!given || json_is_null(given)) return QP_OK;
    if (json_is_number(given)) return *out = json_number_value(given), QP_OK;
    if (json_is_string(given) && read_iso(json_string_value(given), out)) return QP_OK;
    if (json_is_string(given))
        return err_set(
            err, QP_BAD_ARGUMENT, 0,
            "chat input: \"now\" is \"%.60s\", expected seconds since 1970 or a time like 2024-07-26T12:34:56",
            json_string_value(given));
    return err_set(err, QP_BAD_ARGUMENT, 0, "chat input: \"now\" is %s, expected a number or an ISO time",
                   json_kind(given));
}
