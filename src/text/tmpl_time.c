/* tmpl_time.c — strftime_now: the rendering's clock, in local time, formatted as Python's datetime does.
 *
 * The C locale is asked for by name, since the program that uses the library may have set another one. Python deals
 * with %f, %z and %Z itself: microseconds, and nothing for a time without a zone. */
#include "tmpl_run.h"
#include <locale.h>
#include <math.h>
#include <time.h>

enum { LOCALE_STEPS = 16 }; /* what making a locale costs */

/* Replaces what Python does itself; the rest is left to strftime. */
static void prepare(strbuf *out, span format, int microseconds) {
    for (size_t i = 0; i < format.bytes; i++) {
        const char next = i + 1 < format.bytes ? format.at[i + 1] : 0;
        if (format.at[i] != '%')
            strbuf_char(out, format.at[i]);
        else if (next == 'f')
            strbuf_format(out, "%06d", microseconds), i++;
        else if (next == 'z' || next == 'Z')
            i++;
        else if (!next)
            strbuf_text(out, "%%"); /* a lone one at the end stays */
        else
            strbuf_char(out, '%'), strbuf_char(out, next), i++;
    }
}

static bool format_time(tmpl_run *r, const struct tm *when, const strbuf *format, locale_t locale, value *out) {
    /* strftime cannot tell "too long" from "empty": a final mark makes every result longer than nothing */
    for (size_t room = format->bytes * 4 + 256; room <= (size_t)1 << 20; room *= 4) {
        char *text = tmpl_get(r, room, 1);
        if (!text) return false;
        const size_t bytes = strftime_l(text, room, format->at, when, locale);
        if (bytes) return value_borrow(r, (span){text, bytes - 1}, out);
    }
    return tmpl_fail_as(r, QP_TOO_LARGE, "strftime_now: result longer than 1 MiB");
}

bool tmpl_strftime(tmpl_run *r, span format, value *out) {
    struct tm when;
    if (!tmpl_spend(r, LOCALE_STEPS + format.bytes)) return false;
    strbuf prepared = {0};
    const double whole = floor(r->now);
    const time_t seconds = (time_t)whole;
    if (!(fabs(r->now) < 1e12) || !localtime_r(&seconds, &when))
        return tmpl_fail(r, "strftime_now: the clock is out of range");
    if (memchr(format.at, 0, format.bytes)) return tmpl_fail(r, "embedded null character");
    prepare(&prepared, format, (int)((r->now - whole) * 1e6));
    strbuf_char(&prepared, '.');
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const bool is_ready = locale && !prepared.failed;
    const bool is_right = is_ready ? format_time(r, &when, &prepared, locale, out) : tmpl_no_memory(r);
    if (locale) freelocale(locale);
    strbuf_free(&prepared);
    return is_right;
}
