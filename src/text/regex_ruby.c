/* regex_ruby.c — rewrites Oniguruma's Ruby syntax for PCRE2, where the two differ.
 *
 *     \s \S \w \h         other sets of characters
 *     [a[bc]] [a&&[^b]]   unions and intersections: alternatives and lookaheads
 *     (?m:.)              the dot takes newlines: (?s:.)
 *     x{1,3}+ x{,3}       a repetition of the repetition; a missing lower bound
 *
 * The rest is copied; what PCRE2 does not know, it refuses by itself. */
#include "regex.h"
#include "uni.h"

enum { MAX_DEPTH = 50 };

#define SPACES                                                                                                         \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define WORDS                                                                                                          \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"    \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

/* Escapes that stand for sets, as members of a bracketed class; `young`: see add_young. */
static const struct {
    char letter;
    bool is_negated;
    const char *members;
    uint64_t young;
} sets[] = {
    {'s', false, SPACES, 0},
    {'S', true, SPACES, 0},
    {'w', false, WORDS, UNI_WORD_RE},
    {'W', true, WORDS, UNI_WORD_RE},
    {'h', false, "0-9A-Fa-f", 0},
    {'H', true, "0-9A-Fa-f", 0},
    {'d', false, "\\p{Nd}", UNI_BIT(Nd)},
    {'D', true, "\\p{Nd}", UNI_BIT(Nd)},
};

static const struct {
    const char *ruby, *pcre;
} names[] = {
    {"Alpha", "Alphabetic"},  {"alpha", "Alphabetic"}, {"Digit", "Nd"}, {"digit", "Nd"},        {"Punct", "P"},
    {"punct", "P"},           {"Letter", "L"},         {"Number", "N"}, {"Upper", "Uppercase"}, {"Lower", "Lowercase"},
    {"Space", "White_Space"}, {"Cntrl", "Cc"},         {"Mark", "M"},   {"Symbol", "S"},        {"Separator", "Z"},
};

typedef struct writer {
    strbuf *out;
    const char *at, *end;
    size_t atom; /* where the last atom begins in `out` */
    int depth;
    qp_status status;
    qp_error *err;
    span pattern;
} writer;

static bool fail(writer *w, const char *what) {
    if (w->status == QP_OK)
        w->status = err_set(w->err, QP_BAD_FORMAT, (uint64_t)(w->at - w->pattern.at),
                            "regular expression \"%.*s\": at byte %zu: %s",
                            (int)(w->pattern.bytes < 200 ? w->pattern.bytes : 200), w->pattern.at,
                            (size_t)(w->at - w->pattern.at), what);
    w->at = w->end;
    return false;
}

static bool ahead(const writer *w, const char *text) {
    const size_t n = strlen(text);
    return (size_t)(w->end - w->at) >= n && !memcmp(w->at, text, n);
}

static void copy(writer *w, size_t n) {
    strbuf_add(w->out, w->at, n);
    w->at += n;
}

/* Characters of the property that PCRE2's Unicode may be too old for. */
static void add_young(strbuf *out, uint64_t mask) {
    for (int i = 0; i < uni_n_young; i++)
        for (uint32_t c = uni_young[2 * i], last = uni_young[2 * i + 1], end; c <= last; c = end + 1) {
            end = c;
            if (!uni_is(c, mask)) continue;
            while (end < last && uni_is(end + 1, mask)) end++;
            strbuf_format(out, end > c ? "\\x{%X}-\\x{%X}" : "\\x{%X}", c, end);
        }
}

/* At "\p{" or "\P{": the members of the class that it names, with Ruby's names for some properties. */
static void add_property(writer *w, strbuf *out, bool *is_negated) {
    const char *end = memchr(w->at, '}', (size_t)(w->end - w->at));
    *is_negated = w->at[1] == 'P';
    w->at += 3;
    if (ahead(w, "^")) *is_negated = !*is_negated, w->at++;
    if (!end) {
        fail(w, "a property's name does not end");
        return;
    }
    const span name = {w->at, (size_t)(end - w->at)};
    const char *pcre = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !pcre; i++)
        if (span_is(name, names[i].ruby)) pcre = names[i].pcre;
    const span known = pcre ? span_of(pcre) : name;
    strbuf_format(out, "\\p{%.*s}", (int)known.bytes, known.at);
    if (uni_property(known)) add_young(out, uni_property(known));
    w->at = end + 1;
}

/* The same as an atom of its own. */
static void write_property(writer *w) {
    strbuf members = {0};
    bool is_negated;
    add_property(w, &members, &is_negated);
    strbuf_format(w->out, is_negated ? "[^%s]" : "[%s]", members.at ? members.at : "");
    if (members.failed) w->out->failed = true;
    strbuf_free(&members);
}

static bool at_property(const writer *w) {
    return w->end - w->at > 2 && w->at[0] == '\\' && (w->at[1] == 'p' || w->at[1] == 'P') && w->at[2] == '{';
}

/* At a backslash. */
static bool write_escape(writer *w, bool in_class) {
    bool is_negated;
    if (w->end - w->at < 2) return fail(w, "a backslash at the end");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (sets[i].letter != w->at[1]) continue;
        if (!in_class) strbuf_text(w->out, sets[i].is_negated ? "[^" : "[");
        strbuf_text(w->out, sets[i].members);
        if (sets[i].young) add_young(w->out, sets[i].young);
        if (!in_class) strbuf_char(w->out, ']');
        w->at += 2;
        return true;
    }
    if (!at_property(w))
        copy(w, 2);
    else if (in_class)
        add_property(w, w->out, &is_negated);
    else
        write_property(w);
    return true;
}

/* ---- bracketed classes ---- */

static bool write_class(writer *w);

/* Escapes for complements, which cannot be written as members. */
static bool is_negated_escape(const writer *w) {
    if (at_property(w)) return (w->at[1] == 'P') != (w->end - w->at > 3 && w->at[3] == '^');
    return w->end - w->at > 1 && *w->at == '\\' && strchr("SWHD", w->at[1]) && w->at[1];
}

/* One operand of an intersection: plain members collect in a class of their own, nested classes stand beside it. */
static bool write_union(writer *w) {
    strbuf nested = {0}, *const out = w->out;
    strbuf members = {0};
    bool ok = true;
    while (ok && w->at < w->end && *w->at != ']' && !ahead(w, "&&")) {
        if ((*w->at == '[' && !ahead(w, "[:")) || is_negated_escape(w)) {
            w->out = &nested;
            if (nested.bytes) strbuf_char(&nested, '|');
            ok = *w->at == '[' ? write_class(w) : write_escape(w, false);
        } else if (*w->at == '[') {
            w->out = &members;
            while (w->at < w->end && !ahead(w, ":]")) copy(w, 1);
            if (w->at < w->end) copy(w, 2);
        } else {
            w->out = &members;
            if (*w->at == '\\')
                ok = write_escape(w, true);
            else
                copy(w, 1);
        }
    }
    w->out = out;
    if (nested.bytes && members.bytes)
        strbuf_format(out, "(?:[%s]|%s)", members.at, nested.at);
    else if (nested.bytes)
        strbuf_format(out, "(?:%s)", nested.at);
    else if (members.bytes)
        strbuf_format(out, "[%s]", members.at);
    else
        ok = ok && (nested.failed || members.failed || fail(w, "an empty class"));
    if (nested.failed || members.failed) out->failed = true;
    strbuf_free(&nested);
    strbuf_free(&members);
    return ok;
}

/* At '['. */
static bool write_class(writer *w) {
    strbuf body = {0}, *const out = w->out;
    if (++w->depth > MAX_DEPTH) return fail(w, "nested too deep");
    w->at++;
    const bool is_negated = ahead(w, "^");
    if (is_negated) w->at++;
    bool ok = true;
    w->out = &body;
    while (ok && w->at < w->end && *w->at != ']') {
        const size_t start = body.bytes;
        strbuf_text(&body, "(?=");
        ok = write_union(w);
        if (ok && ahead(w, "&&")) {
            strbuf_char(&body, ')');
            w->at += 2;
        } else if (ok && !body.failed) { /* the last operand is the one that is taken */
            memmove(body.at + start, body.at + start + 3, body.bytes - start - 3);
            body.bytes -= 3;
        }
    }
    w->out = out;
    w->depth--;
    if (ok && (w->at >= w->end || (!body.bytes && !body.failed))) ok = fail(w, "a class does not end");
    if (ok) w->at++;
    if (ok && !body.failed) {
        body.at[body.bytes] = 0;
        if (is_negated && body.at[0] == '[' && body.at[1] != '^')
            strbuf_format(out, "[^%s", body.at + 1);
        else
            strbuf_format(out, is_negated ? "(?:(?!%s)[\\x{0}-\\x{10FFFF}])" : "(?:%s)", body.at);
    }
    if (body.failed) out->failed = true;
    strbuf_free(&body);
    return ok;
}

/* ---- groups and counts ---- */

/* At "(?" with options up to ':' or ')': Ruby's m is PCRE2's s. */
static void write_group(writer *w) {
    copy(w, 1);
    if (!ahead(w, "?")) return;
    copy(w, 1);
    for (; w->at < w->end && (strchr("imx-", *w->at)); w->at++) strbuf_char(w->out, *w->at == 'm' ? 's' : *w->at);
}

/* At '{': a count, or a literal brace where it is none. */
static void write_braces(writer *w) {
    const char *p = w->at + 1;
    while (p < w->end && ((*p >= '0' && *p <= '9') || *p == ',')) p++;
    if (p >= w->end || *p != '}' || p == w->at + 1) {
        copy(w, 1);
        return;
    }
    if (w->at[1] == ',') {
        strbuf_text(w->out, "{0");
        w->at++;
    }
    copy(w, (size_t)(p + 1 - w->at));
    if (!ahead(w, "+") || w->out->failed) return;
    strbuf again = {0};
    strbuf_add(&again, w->out->at + w->atom, w->out->bytes - w->atom);
    w->out->bytes = w->atom;
    strbuf_format(w->out, "(?:%s)", again.at ? again.at : "");
    if (again.failed) w->out->failed = true;
    strbuf_free(&again);
}

static void write_atom(writer *w, size_t *groups, int *n_groups) {
    const size_t start = w->out->bytes;
    switch (*w->at) {
    case '\\':
        write_escape(w, false);
        break;
    case '[':
        write_class(w);
        break;
    case '(':
        if (*n_groups == MAX_DEPTH) {
            fail(w, "nested too deep");
            return;
        }
        groups[(*n_groups)++] = start;
        write_group(w);
        return;
    case ')':
        copy(w, 1);
        if (*n_groups) w->atom = groups[--*n_groups];
        return;
    case '{':
        write_braces(w);
        return;
    case '?':
    case '*':
    case '+':
        copy(w, 1);
        return;
    default:
        copy(w, 1);
        while (w->at < w->end && ((unsigned char)*w->at & 0xC0) == 0x80) copy(w, 1);
        break;
    }
    w->atom = start;
}

qp_status regex_from_ruby(strbuf *out, span pattern, qp_error *err) {
    writer w = {.out = out, .at = pattern.at, .end = pattern.at + pattern.bytes, .err = err, .pattern = pattern};
    size_t groups[MAX_DEPTH];
    int n_groups = 0;
    while (w.at < w.end) write_atom(&w, groups, &n_groups);
    return w.status;
}
