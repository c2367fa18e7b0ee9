/* pattern.c — reads a regular expression by recursive descent, straight into regex nodes.
 *
 * Groups may nest 200 deep, which bounds the recursion; counts are bounded by the pool's limits. Flags hold to the end
 * of the group in which they stand. */
#include "pattern.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { MOST_DEPTH = 200, MOST_COUNT = 100000 };

typedef struct flags {
    bool ignore_case, dot_all, extended, unicode;
} flags;

typedef struct parser {
    rx_pool *pool;
    span text;
    size_t at;
    int depth;
    flags now;
    qp_error *err;
    qp_status failed;
} parser;

static rx refuse(parser *p, qp_status status, size_t at, const char *what) {
    if (p->failed == QP_OK) p->failed = err_set(p->err, status, at, "regex, offset %zu: %s", at, what);
    return RX_NONE;
}

static bool more(const parser *p) { return p->at < p->text.bytes && p->failed == QP_OK; }
static char peek(const parser *p) { return more(p) ? p->text.at[p->at] : 0; }
static bool looks_at(const parser *p, const char *what) {
    return span_starts((span){p->text.at + p->at, p->text.bytes - p->at}, span_of(what));
}
static bool take(parser *p, const char *what) {
    if (p->failed != QP_OK || !looks_at(p, what)) return false;
    p->at += strlen(what);
    return true;
}

/* ---- single characters ---- */

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

static uint32_t take_hex(parser *p, int least, int most) {
    const size_t start = p->at;
    uint32_t value = 0;
    int n = 0;
    for (; n < most && more(p) && hex_value(peek(p)) >= 0; n++)
        value = value * 16 + (uint32_t)hex_value(p->text.at[p->at++]);
    if (n < least) refuse(p, QP_BAD_FORMAT, start, "hexadecimal digits are missing");
    return value;
}

static uint32_t take_braced_hex(parser *p) {
    const size_t start = p->at;
    const uint32_t c = take_hex(p, 1, 8);
    if (!take(p, "}")) refuse(p, QP_BAD_FORMAT, start, "} is missing");
    if (c > 0x10FFFF) refuse(p, QP_BAD_FORMAT, start, "no such code point, allowed up to 10FFFF");
    return c;
}

/* \uD83D\uDC22 is one character. */
static uint32_t take_u(parser *p) {
    if (take(p, "{")) return take_braced_hex(p);
    const size_t start = p->at;
    const uint32_t high = take_hex(p, 4, 4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high <= 0xDBFF && take(p, "\\u")) {
        const uint32_t low = take_hex(p, 4, 4);
        if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    refuse(p, QP_BAD_FORMAT, start, "half a surrogate pair");
    return 0;
}

static uint32_t take_char(parser *p) {
    uint32_t c = 0;
    const int length = utf8_decode(p->text.at + p->at, p->text.bytes - p->at, &c);
    if (!length) refuse(p, QP_BAD_FORMAT, p->at, "broken UTF-8");
    p->at += (size_t)length;
    return c;
}

/* After a backslash: a character that stands for one. False: it stands for something else. */
static bool take_escape(parser *p, uint32_t *c) {
    static const char names[] = "nrtfvae", values[] = "\n\r\t\f\v\a\x1b";
    const char letter = peek(p);
    const char *known = letter ? strchr(names, letter) : NULL;
    if (known) return p->at++, *c = (uint8_t)values[known - names], true;
    if (letter == '0') {
        const bool is_octal = p->at + 1 < p->text.bytes && p->text.at[p->at + 1] >= '0' && p->text.at[p->at + 1] <= '7';
        if (is_octal) refuse(p, QP_UNSUPPORTED, p->at, "octal escapes are not supported, write \\xHH");
        return p->at++, *c = 0, true;
    }
    if (letter == 'x') return p->at++, *c = take(p, "{") ? take_braced_hex(p) : take_hex(p, 2, 2), true;
    if (letter == 'u') return p->at++, *c = take_u(p), true;
    if (letter == 'c') {
        const char control = p->at + 1 < p->text.bytes ? p->text.at[p->at + 1] : 0;
        if (!((control | 0x20) >= 'a' && (control | 0x20) <= 'z'))
            refuse(p, QP_BAD_FORMAT, p->at, "\\c needs a letter");
        return p->at += 2, *c = (uint8_t)(control & 31), true;
    }
    const bool is_word = (letter >= '0' && letter <= '9') || ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z');
    if (is_word || !more(p)) return false;
    *c = take_char(p); /* escaped punctuation stands for itself */
    return true;
}

/* ---- classes ---- */

static void add_class_letter(parser *p, range_list *l, char letter) {
    range_list set = {.at = NULL};
    const bool unicode = p->now.unicode;
    const char kind = (char)(letter | 0x20);
    if (kind == 'd' && unicode)
        range_add_property(&set, SPAN("Nd"));
    else if (kind == 'd')
        range_add(&set, '0', '9');
    if (kind == 'w' && unicode) {
        static const char *const parts[] = {"Alphabetic", "M", "Nd", "Pc"};
        for (size_t i = 0; i < 4; i++) range_add_property(&set, span_of(parts[i]));
    } else if (kind == 'w') {
        range_add(&set, '0', '9');
        range_add(&set, 'A', 'Z');
        range_add(&set, '_', '_');
        range_add(&set, 'a', 'z');
    }
    if (kind == 's') {
        range_add(&set, '\t', '\r');
        range_add(&set, ' ', ' ');
        if (unicode) {
            range_add_property(&set, SPAN("Z"));
            range_add(&set, 0x85, 0x85);
            range_add(&set, 0xFEFF, 0xFEFF);
        }
    }
    if (letter != kind) range_invert(&set);
    for (size_t i = 0; i < set.n; i++) range_add(l, set.at[i].first, set.at[i].last);
    l->failed |= set.failed;
    range_free(&set);
}

static void add_property(parser *p, range_list *l, bool negated) {
    const size_t start = p->at;
    span name = {p->text.at + p->at, more(p) ? 1 : 0};
    if (take(p, "{")) {
        const char *end = memchr(p->text.at + p->at, '}', p->text.bytes - p->at);
        name = (span){p->text.at + p->at, end ? (size_t)(end - p->text.at) - p->at : 0};
        if (!end) {
            refuse(p, QP_BAD_FORMAT, start, "\\p{ has no }");
            return;
        }
        p->at += name.bytes + 1;
    } else if (more(p)) {
        p->at++;
    }
    if (name.bytes && *name.at == '^') negated = !negated, name.at++, name.bytes--;
    range_list set = {.at = NULL};
    if (!range_add_property(&set, name)) refuse(p, QP_UNSUPPORTED, start, "no Unicode category or script of this name");
    if (negated) range_invert(&set);
    for (size_t i = 0; i < set.n; i++) range_add(l, set.at[i].first, set.at[i].last);
    l->failed |= set.failed;
    range_free(&set);
}

/* After a backslash: \d, \p{..} and their like; false: none of them. */
static bool take_class_escape(parser *p, range_list *l) {
    const char letter = peek(p);
    if (!letter || !strchr("dDwWsSpP", letter)) return false;
    p->at++;
    if ((letter | 0x20) == 'p')
        add_property(p, l, letter == 'P');
    else
        add_class_letter(p, l, letter);
    return true;
}

/* One end of a range inside [ ]; false: it was a whole class. */
static bool take_class_end(parser *p, range_list *l, uint32_t *c) {
    if (!take(p, "\\")) return *c = take_char(p), true;
    const size_t start = p->at - 1;
    if (take_class_escape(p, l)) return false;
    if (take(p, "b")) return *c = 8, true;
    if (!take_escape(p, c)) refuse(p, QP_UNSUPPORTED, start, "unknown escape in a class");
    return true;
}

static void take_class_item(parser *p, range_list *l) {
    const size_t start = p->at;
    uint32_t first = 0, last = 0;
    if (looks_at(p, "[:") || looks_at(p, "&&") || looks_at(p, "--"))
        refuse(p, QP_UNSUPPORTED, start, "classes inside classes are not supported");
    const bool is_char = take_class_end(p, l, &first);
    const bool is_range = looks_at(p, "-") && p->at + 1 < p->text.bytes && p->text.at[p->at + 1] != ']';
    if (!is_range) {
        if (is_char) range_add(l, first, first);
        return;
    }
    p->at++;
    if (!is_char || !take_class_end(p, l, &last)) refuse(p, QP_BAD_FORMAT, start, "a class is no end of a range");
    if (last < first) refuse(p, QP_BAD_FORMAT, start, "the range is reversed");
    range_add(l, first, last);
}

static rx finish_class(parser *p, range_list *l, bool negated) {
    if (p->now.ignore_case) range_add_cases(l);
    if (negated) range_invert(l);
    rx result = RX_NONE;
    if (l->failed)
        refuse(p, QP_NO_MEMORY, p->at, "out of memory");
    else if (p->failed == QP_OK)
        result = rx_chars(p->pool, l->at, l->n);
    range_free(l);
    return result;
}

static rx take_class(parser *p) {
    const size_t start = p->at - 1;
    const bool negated = take(p, "^");
    range_list l = {.at = NULL};
    while (more(p) && peek(p) != ']') take_class_item(p, &l);
    if (!take(p, "]")) refuse(p, QP_BAD_FORMAT, start, "the class has no ]");
    return finish_class(p, &l, negated);
}

static rx one_char(parser *p, uint32_t c) {
    range_list l = {.at = NULL};
    range_add(&l, c, c);
    return finish_class(p, &l, false);
}

/* ---- groups ---- */

static rx take_choice(parser *p);

/* Letters up to ) or :, with "-" before those that are switched off. */
static void take_flags(parser *p) {
    bool on = true;
    for (; more(p) && !strchr("):", peek(p)); p->at++) {
        const char letter = peek(p);
        if (letter == '-')
            on = false;
        else if (letter == 'i')
            p->now.ignore_case = on;
        else if (letter == 's')
            p->now.dot_all = on;
        else if (letter == 'x')
            p->now.extended = on;
        else if (letter == 'u')
            p->now.unicode = on;
        else if (letter != 'm')
            refuse(p, QP_UNSUPPORTED, p->at, "unknown flag, allowed are i, s, m, x, u");
    }
}

static void refuse_group(parser *p, size_t start) {
    static const struct {
        const char *head, *why;
    } kinds[] = {{"?=", "look-ahead is not supported"},          {"?!", "look-ahead is not supported"},
                 {"?<=", "look-behind is not supported"},        {"?<!", "look-behind is not supported"},
                 {"?>", "atomic groups are not supported"},      {"?(", "conditionals are not supported"},
                 {"?#", "comments in groups are not supported"}, {"?P=", "back-references are not supported"},
                 {"?|", "branch resets are not supported"},      {"*", "verbs are not supported"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (looks_at(p, kinds[i].head)) refuse(p, QP_UNSUPPORTED, start, kinds[i].why);
}

static void skip_name(parser *p, size_t start) {
    const size_t first = p->at;
    while (more(p) && peek(p) != '>') p->at++;
    if (p->at == first || !take(p, ">")) refuse(p, QP_BAD_FORMAT, start, "the group's name is not complete");
}

/* After "(". *is_flags: it only set flags for what follows. */
static rx take_group(parser *p, bool *is_flags) {
    const size_t start = p->at - 1;
    const flags outer = p->now;
    *is_flags = false;
    refuse_group(p, start);
    if (take(p, "?<") || take(p, "?P<")) {
        skip_name(p, start);
    } else if (take(p, "?")) {
        take_flags(p);
        if (take(p, ")")) return *is_flags = true, RX_EMPTY;
        if (!take(p, ":")) refuse(p, QP_BAD_FORMAT, start, "the group is not complete");
    }
    if (++p->depth > MOST_DEPTH) return refuse(p, QP_TOO_LARGE, start, "groups are nested over 200 deep");
    const rx inner = take_choice(p);
    p->depth--;
    if (!take(p, ")")) return refuse(p, QP_BAD_FORMAT, start, "the group has no )");
    p->now = outer;
    return inner;
}

/* ---- atoms and repetitions ---- */

static rx take_backslash(parser *p) {
    const size_t start = p->at - 1;
    const char letter = peek(p);
    range_list l = {.at = NULL};
    uint32_t c;
    if (!letter && p->at >= p->text.bytes) return refuse(p, QP_BAD_FORMAT, start, "nothing is escaped");
    if (take_class_escape(p, &l)) return finish_class(p, &l, false);
    if (letter == 'b' || letter == 'B') return refuse(p, QP_UNSUPPORTED, start, "word boundaries are not supported");
    if (letter >= '1' && letter <= '9') return refuse(p, QP_UNSUPPORTED, start, "back-references are not supported");
    if (letter == 'k') return refuse(p, QP_UNSUPPORTED, start, "back-references are not supported");
    if (letter && strchr("AzZG", letter))
        return refuse(p, QP_UNSUPPORTED, start, "anchors other than ^ and $ are not supported");
    if (!take_escape(p, &c)) return refuse(p, QP_UNSUPPORTED, start, "unknown escape");
    return one_char(p, c);
}

static rx take_dot(parser *p) {
    const rx_range newline = {'\n', '\n'};
    return rx_chars_except(p->pool, &newline, p->now.dot_all ? 0 : 1);
}

static bool take_number(parser *p, uint32_t *out) {
    const size_t start = p->at;
    uint64_t value = 0;
    for (; more(p) && peek(p) >= '0' && peek(p) <= '9'; p->at++)
        if (value <= MOST_COUNT) value = value * 10 + (uint64_t)(peek(p) - '0');
    *out = (uint32_t)value;
    return p->at > start;
}

/* {m}, {m,} or {m,n}; anything else in braces is text. */
static bool take_braces(parser *p, uint32_t *min, uint32_t *max) {
    const size_t start = p->at;
    if (!take(p, "{")) return false;
    if (take_number(p, min)) {
        *max = *min;
        if (take(p, ",") && !take_number(p, max)) *max = RX_INFINITE;
        if (take(p, "}")) {
            if (*min > *max) refuse(p, QP_BAD_FORMAT, start, "the count is reversed");
            if (*min > MOST_COUNT || (*max != RX_INFINITE && *max > MOST_COUNT))
                refuse(p, QP_TOO_LARGE, start, "counts are allowed up to 100000");
            return true;
        }
    }
    p->at = start;
    return false;
}

static bool take_count(parser *p, uint32_t *min, uint32_t *max) {
    *min = 0, *max = RX_INFINITE;
    if (take(p, "*")) return true;
    if (take(p, "+")) return *min = 1, true;
    if (take(p, "?")) return *max = 1, true;
    return take_braces(p, min, max);
}

static rx take_repeats(parser *p, rx atom, size_t start) {
    uint32_t min, max;
    if (!take_count(p, &min, &max)) return atom;
    atom = rx_repeat(p->pool, atom, min, max);
    if (take(p, "?")) return atom; /* lazy: the same texts */
    if (looks_at(p, "+")) return refuse(p, QP_UNSUPPORTED, p->at, "possessive counts are not supported");
    if (looks_at(p, "*") || take_braces(p, &min, &max)) return refuse(p, QP_BAD_FORMAT, start, "a count of a count");
    return atom;
}

static void skip_space(parser *p) {
    while (p->now.extended && more(p)) {
        if (strchr(" \t\n\r\f\v", peek(p)))
            p->at++;
        else if (peek(p) == '#')
            while (more(p) && peek(p) != '\n') p->at++;
        else
            return;
    }
}

/* ^ and $ hold where the text begins and ends anyway. */
static bool take_anchor(parser *p, bool is_first) {
    const size_t start = p->at;
    if (take(p, "^")) {
        if (!is_first || p->depth) refuse(p, QP_UNSUPPORTED, start, "^ is supported at the beginning only");
        return true;
    }
    if (!take(p, "$")) return false;
    if (p->depth || (more(p) && peek(p) != '|')) refuse(p, QP_UNSUPPORTED, start, "$ is supported at the end only");
    return true;
}

static rx take_atom(parser *p, bool *is_flags) {
    const size_t start = p->at;
    if (take(p, "(")) return take_group(p, is_flags);
    if (take(p, "[")) return take_class(p);
    if (take(p, "\\")) return take_backslash(p);
    if (take(p, ".")) return take_dot(p);
    if (strchr("*+?", peek(p))) return refuse(p, QP_BAD_FORMAT, start, "nothing to repeat");
    return one_char(p, take_char(p));
}

typedef struct parts {
    rx *at;
    size_t n, room;
} parts;

static void parts_add(parser *p, parts *l, rx part) {
    if (l->n == l->room) {
        const size_t room = l->room ? l->room * 2 : 16;
        rx *at = mem_resize(l->at, room, sizeof *at);
        if (!at) {
            refuse(p, QP_NO_MEMORY, p->at, "out of memory");
            return;
        }
        l->at = at;
        l->room = room;
    }
    l->at[l->n++] = part;
}

static rx take_sequence(parser *p) {
    parts l = {.at = NULL};
    bool is_first = true;
    for (skip_space(p); more(p) && !strchr("|)", peek(p)); skip_space(p)) {
        const size_t start = p->at;
        bool is_flags = false;
        if (take_anchor(p, is_first)) continue;
        rx atom = take_atom(p, &is_flags);
        skip_space(p);
        if (!is_flags) atom = take_repeats(p, atom, start);
        parts_add(p, &l, atom);
        is_first &= is_flags;
    }
    const rx all = p->failed == QP_OK ? rx_concat_n(p->pool, l.at, l.n) : RX_NONE;
    mem_free(l.at);
    return all;
}

static rx take_choice(parser *p) {
    parts l = {.at = NULL};
    do parts_add(p, &l, take_sequence(p));
    while (take(p, "|"));
    const rx any = p->failed == QP_OK ? rx_or_n(p->pool, l.at, l.n) : RX_NONE;
    mem_free(l.at);
    return any;
}

qp_status pattern_parse(rx_pool *pool, rx *out, span text, const char *letters, qp_error *err) {
    parser p = {.pool = pool, .text = text, .err = err};
    for (; letters && *letters; letters++) {
        p.now.ignore_case |= *letters == 'i';
        p.now.dot_all |= *letters == 's';
        p.now.extended |= *letters == 'x';
        p.now.unicode |= *letters == 'u';
    }
    *out = take_choice(&p);
    if (more(&p)) refuse(&p, QP_BAD_FORMAT, p.at, ") without (");
    return p.failed != QP_OK ? p.failed : rx_status(pool, err);
}
