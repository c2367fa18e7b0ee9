/* schema_format.c — the values of `format` that are asserted: RFC 3339 dates with the length of months and leap years,
 * addresses, names, URIs, as the patterns of schema_pattern.h.
 *
 * The tricky thing: a leap second (:60) is one only at 23:59 in UTC, so its hour and minute hang on the offset behind
 * it. That is a finite rule: an intersection of "the hours fit" and "the minutes fit". */
#include "schema_format.h"
#include "schema_pattern.h"

#define YEAR "[0-9]{4}"
#define LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                                           \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"               \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define HOUR "(?:[01][0-9]|2[0-3])"
#define MINUTE "[0-5][0-9]"
#define SECONDS(which) which "(?:\\.[0-9]+)?"
#define OFFSET "(?:[Zz]|[+-]" HOUR ":" MINUTE ")"
#define TIME HOUR ":" MINUTE ":" SECONDS("[0-5][0-9]") OFFSET
#define DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION_DATE "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
#define OCTET "(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
#define IPV4 OCTET "(?:\\." OCTET "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define BEFORE(n) "(?:(?:" H16 ":){0," #n "}" H16 ")?::"
#define IPV6                                                                                                           \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32                          \
    "|" BEFORE(1) "(?:" H16 ":){3}" LS32 "|" BEFORE(2) "(?:" H16 ":){2}" LS32 "|" BEFORE(3) H16 ":" LS32 "|" BEFORE(4) \
        LS32 "|" BEFORE(5) H16 "|" BEFORE(6) ")"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOSTNAME LABEL "(?:\\." LABEL ")*"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define QUOTED "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\""
#define EMAIL "(?:" ATOM "(?:\\." ATOM ")*|" QUOTED ")@(?:" HOSTNAME "|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])"
#define PERCENT "%[0-9A-Fa-f]{2}"
#define PLAIN "A-Za-z0-9._~!$&'()*+,;=\\-"
#define PCHAR "(?:[" PLAIN ":@]|" PERCENT ")"
#define SEGMENTS "(?:/" PCHAR "*)*"
#define HOST "(?:\\[(?:" IPV6 "|[vV][0-9A-Fa-f]+\\.[" PLAIN ":]+)\\]|(?:[" PLAIN "]|" PERCENT ")*)"
#define AUTHORITY "(?:(?:[" PLAIN ":]|" PERCENT ")*@)?" HOST "(?::[0-9]*)?"
#define ABSOLUTE_PATH "/(?:" PCHAR "+" SEGMENTS ")?"
#define TAIL "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define URI "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTHORITY SEGMENTS "|" ABSOLUTE_PATH "|(?:" PCHAR "+" SEGMENTS ")?)" TAIL
#define RELATIVE "(?://" AUTHORITY SEGMENTS "|" ABSOLUTE_PATH "|(?:(?:[" PLAIN "@]|" PERCENT ")+" SEGMENTS ")?)" TAIL
#define POINTER "(?:/(?:[^~/]|~[01])*)*"
#define HEX(n) "[0-9A-Fa-f]{" #n "}"

typedef struct format_row {
    const char *name;
    const char *pattern;
    bool has_time; /* a time follows the pattern */
} format_row;

static const format_row rows[] = {
    {"date", DATE, false},
    {"time", "", true},
    {"date-time", DATE "[Tt]", true},
    {"duration", "P(?:[0-9]+W|" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME ")", false},
    {"email", EMAIL, false},
    {"hostname", "(?=.{1,253}$)" HOSTNAME, false},
    {"ipv4", IPV4, false},
    {"ipv6", IPV6, false},
    {"uuid", HEX(8) "-" HEX(4) "-" HEX(4) "-" HEX(4) "-" HEX(12), false},
    {"uri", URI, false},
    {"uri-reference", "(?:" URI "|" RELATIVE ")", false},
    {"json-pointer", POINTER, false},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" POINTER ")", false},
    {"regex", "[^]*", false},
};

const char *format_name_at(size_t index) { return index < sizeof rows / sizeof *rows ? rows[index].name : NULL; }

static rx compile(const spelling *s, const char *pattern) {
    pattern_error error;
    return pattern_language(s, span_of(pattern), true, &error);
}

/* Pairs of a number of the time and one of its offset, in all of these ways; `rest` is what stands between. */
typedef struct leap_pair {
    const char *before, *between, *after; /* patterns around the two numbers */
    int n, first;                         /* offset's number from first .. n - 1 */
    int shift, sign;                      /* the time's: (shift + sign * the offset's) mod n */
} leap_pair;

static rx two_digits(const spelling *s, int number) {
    const char text[2] = {(char)('0' + number / 10), (char)('0' + number % 10)};
    return rx_text(s->pool, (span){text, 2});
}

static rx paired(const spelling *s, const leap_pair *p) {
    const rx before = compile(s, p->before), between = compile(s, p->between), after = compile(s, p->after);
    rx ways[60];
    size_t n = 0;
    for (int there = p->first; there < p->n; there++) {
        const int here = (p->shift + p->sign * there + p->n) % p->n;
        const rx parts[5] = {before, two_digits(s, here), between, two_digits(s, there), after};
        ways[n++] = rx_concat_n(s->pool, parts, 5);
    }
    return rx_or_n(s->pool, ways, n);
}

#define TWO "[0-9]{2}"
#define LEAP ":" SECONDS("60")

/* 23:59:60 in UTC, in every offset. A positive offset of whole hours: the hour before the offset's; with minutes: the
 * offset's own hour, one minute less. A negative one: what is left of 23:59. */
static rx leap_seconds(const spelling *s) {
    static const leap_pair whole_hours = {"", ":59" LEAP "\\+", ":00", 24, 0, 23, 1};
    static const leap_pair hours = {"", ":" TWO LEAP "\\+", ":" TWO, 24, 0, 0, 1};
    static const leap_pair minutes = {TWO ":", LEAP "\\+" TWO ":", "", 60, 1, 59, 1};
    static const leap_pair hours_west = {"", ":" TWO LEAP "-", ":" TWO, 24, 0, 23, -1};
    static const leap_pair minutes_west = {TWO ":", LEAP "-" TWO ":", "", 60, 0, 59, -1};
    const rx ways[4] = {compile(s, "23:59" LEAP "[Zz]"), paired(s, &whole_hours),
                        rx_and(s->pool, paired(s, &hours), paired(s, &minutes)),
                        rx_and(s->pool, paired(s, &hours_west), paired(s, &minutes_west))};
    return rx_or_n(s->pool, ways, 4);
}

bool format_language(const spelling *s, span name, rx *out) {
    for (const format_row *row = rows; row < rows + sizeof rows / sizeof *rows; row++) {
        if (!span_is(name, row->name)) continue;
        *out = compile(s, row->pattern);
        if (row->has_time) *out = rx_concat(s->pool, *out, rx_or(s->pool, compile(s, TIME), leap_seconds(s)));
        return true;
    }
    return false;
}
