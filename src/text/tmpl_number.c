/* tmpl_number.c — int("...") and float("..."): Python's grammar of numbers in texts, digits of any script included. */
#include "tmpl_run.h"
#include "tmpl_unicode.h"
#include "base/utf8.h"
#include <stdlib.h>

/* The digit at s (of any script, or a letter), -1 if there is none; *length is its bytes. */
static int digit_at(span s, size_t at, int *length) {
    uint32_t c = 0;
    *length = at < s.bytes ? utf8_decode(s.at + at, s.bytes - at, &c) : 0;
    if (!*length) return -1;
    const uint32_t lower = c | 32;
    if (c < 0x80 && lower >= 'a' && lower <= 'z') return (int)(lower - 'a') + 10;
    return tmpl_decimal_value(c);
}

static int prefix_base(span s, size_t at) {
    if (at + 1 >= s.bytes || s.at[at] != '0') return 0;
    switch (s.at[at + 1] | 32) {
    case 'b':
        return 2;
    case 'o':
        return 8;
    case 'x':
        return 16;
    default:
        return 0;
    }
}

bool value_parse_int(span text, int base, int64_t *out, bool *is_too_large) {
    const span s = tmpl_lstrip(tmpl_rstrip(text));
    size_t at = 0;
    uint64_t total = 0;
    bool any = false, may_underscore = false;
    *is_too_large = false;
    const bool is_negative = s.bytes && s.at[0] == '-';
    if (s.bytes && (s.at[0] == '-' || s.at[0] == '+')) at++;
    const int prefix = prefix_base(s, at);
    const bool is_free = base == 0;
    if (is_free) base = prefix ? prefix : 10;
    if (prefix && prefix == base) at += 2, may_underscore = true;
    const size_t first = at;
    while (at < s.bytes) {
        int length;
        const int digit = digit_at(s, at, &length);
        if (s.at[at] == '_' && may_underscore) {
            may_underscore = false;
            at++;
            continue;
        }
        if (digit < 0 || digit >= base) return false;
        if (total > (INT64_MAX - (uint64_t)digit) / (uint64_t)base) *is_too_large = true;
        total = total * (uint64_t)base + (uint64_t)digit;
        any = may_underscore = true;
        at += (size_t)length;
    }
    if (!any || !may_underscore) return false;
    if (is_free && base == 10 && s.at[first] == '0' && total) return false; /* 012 */
    *out = is_negative ? -(int64_t)(total & INT64_MAX) : (int64_t)(total & INT64_MAX);
    return true;
}

/* Copies digits as ASCII, dropping single underscores between them; how many there were. */
static size_t copy_digits(span s, size_t *at, strbuf *plain) {
    size_t count = 0;
    for (;;) {
        int length;
        const bool is_joint = count && *at < s.bytes && s.at[*at] == '_';
        const int digit = digit_at(s, *at + is_joint, &length);
        if (digit < 0 || digit > 9) return count;
        strbuf_char(plain, (char)('0' + digit));
        *at += (size_t)length + is_joint;
        count++;
    }
}

static bool is_special(span s, size_t at) {
    static const char *const names[] = {"inf", "infinity", "nan"};
    for (size_t i = 0; i < 3; i++)
        if (s.bytes - at == strlen(names[i]) && !strncasecmp(s.at + at, names[i], s.bytes - at)) return true;
    return false;
}

/* Checks Python's grammar and gives C's. */
static bool plain_real(span s, strbuf *plain) {
    size_t at = 0, digits;
    if (s.bytes && (s.at[0] == '-' || s.at[0] == '+')) strbuf_char(plain, s.at[at++]);
    if (is_special(s, at)) return strbuf_add(plain, s.at + at, s.bytes - at), true;
    digits = copy_digits(s, &at, plain);
    if (at < s.bytes && s.at[at] == '.') {
        strbuf_char(plain, s.at[at++]);
        digits += copy_digits(s, &at, plain);
    }
    if (!digits) return false;
    if (at < s.bytes && (s.at[at] | 32) == 'e') {
        strbuf_char(plain, s.at[at++]);
        if (at < s.bytes && (s.at[at] == '-' || s.at[at] == '+')) strbuf_char(plain, s.at[at++]);
        if (!copy_digits(s, &at, plain)) return false;
    }
    return at == s.bytes;
}

bool value_parse_real(tmpl_run *r, span text, double *out) {
    strbuf plain = {0};
    const bool is_number = plain_real(tmpl_lstrip(tmpl_rstrip(text)), &plain);
    if (plain.failed) tmpl_no_memory(r);
    if (is_number && plain.at) *out = strtod(plain.at, NULL);
    strbuf_free(&plain);
    return is_number;
}
