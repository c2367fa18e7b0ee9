/* schema_decimal.c — exact decimal numbers, as JSON writes them. */
#include "schema_decimal.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Where each part of a number's text begins; false: it is no JSON number. */
typedef struct number_parts {
    size_t whole, fraction, exponent; /* starts; the part is empty where it equals the next */
    size_t n_whole, n_fraction;
    bool negative;
} number_parts;

static size_t digits_from(span text, size_t at) {
    while (at < text.bytes && is_digit(text.at[at])) at++;
    return at;
}

static bool split(number_parts *out, span text) {
    size_t at = 0;
    *out = (number_parts){.negative = text.bytes && text.at[0] == '-'};
    at += out->negative;
    out->whole = at;
    at = digits_from(text, at);
    out->n_whole = at - out->whole;
    if (!out->n_whole || (out->n_whole > 1 && text.at[out->whole] == '0')) return false;
    if (at < text.bytes && text.at[at] == '.') {
        out->fraction = ++at;
        at = digits_from(text, at);
        out->n_fraction = at - out->fraction;
        if (!out->n_fraction) return false;
    }
    if (at < text.bytes && (text.at[at] == 'e' || text.at[at] == 'E')) {
        out->exponent = ++at;
        if (at < text.bytes && (text.at[at] == '+' || text.at[at] == '-')) at++;
        const size_t start = at;
        at = digits_from(text, at);
        if (at == start) return false;
    }
    return at == text.bytes;
}

bool decimal_is_json(span text) {
    number_parts p;
    return split(&p, text);
}

/* The exponent's value, cut to ±2 DECIMAL_MAX beyond what its digits could bring back. */
static long exponent_of(span text, size_t at) {
    if (!at) return 0;
    const bool negative = text.at[at] == '-';
    at += text.at[at] == '-' || text.at[at] == '+';
    long value = 0;
    for (; at < text.bytes && value < 100000000; at++) value = value * 10 + (text.at[at] - '0');
    return negative ? -value : value;
}

bool decimal_read(decimal *out, arena *memory, span text, bool *too_long) {
    number_parts p;
    *too_long = false;
    *out = (decimal){.digits = ""};
    if (!split(&p, text)) return false;
    char *digits = arena_get(memory, p.n_whole + p.n_fraction + 1, 1);
    if (!digits) return false;
    memcpy(digits, text.at + p.whole, p.n_whole);
    if (p.n_fraction) memcpy(digits + p.n_whole, text.at + p.fraction, p.n_fraction);
    size_t first = 0, end = p.n_whole + p.n_fraction;
    while (end > 0 && digits[end - 1] == '0') end--;
    while (first < end && digits[first] == '0') first++;
    if (first == end) return true;
    const long point = (long)p.n_whole - (long)first + exponent_of(text, p.exponent);
    *too_long = end - first > DECIMAL_MAX || point > DECIMAL_MAX || point < -DECIMAL_MAX ||
                (long)(end - first) - point > DECIMAL_MAX;
    if (*too_long) return false;
    *out = (decimal){digits + first, (int)(end - first), (int)point, p.negative};
    return true;
}

/* Of absolute values. */
static int compare_sizes(decimal a, decimal b) {
    if (!a.n || !b.n) return (a.n > 0) - (b.n > 0);
    if (a.point != b.point) return a.point < b.point ? -1 : 1;
    const int common = a.n < b.n ? a.n : b.n;
    const int order = memcmp(a.digits, b.digits, (size_t)common);
    if (order) return order < 0 ? -1 : 1;
    return (a.n > b.n) - (a.n < b.n);
}

int decimal_compare(decimal a, decimal b) {
    if (a.negative != b.negative) return a.negative ? -1 : 1;
    return a.negative ? compare_sizes(b, a) : compare_sizes(a, b);
}

bool decimal_is_integer(decimal a) { return a.n <= a.point || !a.n; }

void decimal_write(strbuf *out, decimal a) {
    if (a.negative) strbuf_char(out, '-');
    if (!decimal_n_whole(a)) strbuf_char(out, '0');
    for (int place = decimal_n_whole(a) - 1; place >= 0; place--)
        strbuf_char(out, (char)('0' + decimal_digit(a, place)));
    if (a.n && a.n > a.point) strbuf_char(out, '.');
    for (int i = 1; a.n && i <= a.n - a.point; i++) strbuf_char(out, (char)('0' + decimal_digit(a, -i)));
}

bool decimal_to_count(decimal a, uint64_t most, uint64_t *out) {
    if (a.negative || !decimal_is_integer(a) || a.point > 18) return false;
    uint64_t value = 0;
    for (int place = decimal_n_whole(a) - 1; place >= 0; place--)
        value = value * 10 + (uint64_t)decimal_digit(a, place);
    *out = value;
    return value <= most;
}
