/* tmpl_wrap.c — the wordwrap filter by the rules of Python's textwrap, and the striptags filter.
 *
 * A line is cut into chunks first: white space, words, parts of words that end in a hyphen between letters, dashes of
 * two and more. Then chunks fill lines; white space at their ends is dropped, a chunk longer than a line is broken. */
#include "tmpl_wrap.h"
#include "tmpl_cut.h"
#include "tmpl_unicode.h"
#include "base/utf8.h"

typedef struct wrapper {
    tmpl_run *r;
    const wrap_rules *rules;
    uint32_t *c; /* code points of the line */
    size_t n;
} wrapper;

static bool is_blank(uint32_t c) { return (c >= 9 && c <= 13) || c == ' '; }
static bool is_word(uint32_t c) { return c == '_' || (tmpl_char_kinds(c) & (CHAR_ALPHA | CHAR_NUMERIC | CHAR_DIGIT)); }
static bool is_letter(uint32_t c) { return is_word(c) && !(tmpl_char_kinds(c) & CHAR_DECIMAL); }

static bool letter_at(const wrapper *w, size_t at) { return at < w->n && is_letter(w->c[at]); }

/* Two or more dashes at `at`, between a word (or its punctuation) and a word: their end, or 0. */
static size_t dash_end(const wrapper *w, size_t at) {
    size_t end = at;
    if (!at || !(is_word(w->c[at - 1]) || (w->c[at - 1] < 0x80 && strchr("!\"'&.,?", (int)w->c[at - 1])))) return 0;
    while (end < w->n && w->c[end] == '-') end++;
    return end >= at + 2 && end < w->n && is_word(w->c[end]) ? end : 0;
}

/* A hyphen inside of a word: letters on both sides, two of them, or one beside another hyphen. */
static bool is_hyphen(const wrapper *w, size_t at) {
    if (w->c[at] != '-' || at < 2 || !letter_at(w, at - 1)) return false;
    const bool before = letter_at(w, at - 2) || (at >= 3 && w->c[at - 2] == '-' && letter_at(w, at - 3));
    if (!before || !letter_at(w, at + 1)) return false;
    return letter_at(w, at + 2) || (at + 2 < w->n && w->c[at + 2] == '-' && letter_at(w, at + 3));
}

static size_t chunk_end(const wrapper *w, size_t at) {
    size_t end = at;
    if (is_blank(w->c[at])) {
        while (end < w->n && is_blank(w->c[end])) end++;
        return end;
    }
    const size_t dashes = w->rules->break_hyphens ? dash_end(w, at) : 0;
    if (dashes) return dashes;
    for (end = at + 1; end < w->n && !is_blank(w->c[end]); end++) {
        if (!w->rules->break_hyphens) continue;
        if (is_hyphen(w, end)) return end + 1;
        if (dash_end(w, end)) return end;
    }
    return end;
}

/* A chunk may be looked at again for every line that is cut from it, so that what is looked at pays. */
static bool all_space(const wrapper *w, size_t from, size_t to) {
    size_t at = from;
    while (at < to && (tmpl_char_kinds(w->c[at]) & CHAR_SPACE)) at++;
    tmpl_spend(w->r, (at - from) / STEP_READS);
    return at == to;
}

/* Where a chunk that is too long for any line is broken. */
static size_t break_long(const wrapper *w, size_t from, size_t to, size_t space) {
    size_t end = from + space;
    if (!w->rules->break_hyphens || to - from <= space) return end < to ? end : to;
    for (size_t hyphen = end; hyphen-- > from + 1;) {
        if (w->c[hyphen] != '-') continue;
        for (size_t i = from; i < hyphen; i++)
            if (w->c[i] != '-') return hyphen + 1;
        break;
    }
    return end;
}

static void add_line(const wrapper *w, strbuf *out, size_t from, size_t to, span newline, bool is_first) {
    if (!is_first) strbuf_add(out, newline.at, newline.bytes);
    for (size_t i = from; i < to; i++) strbuf_utf8(out, w->c[i]);
}

/* One paragraph. A line is always a run of the text, so it is kept as [from, to). */
static bool wrap_line(wrapper *w, strbuf *out, span newline) {
    const size_t width = (size_t)w->rules->width;
    bool is_first = true;
    size_t at = 0, end = w->n ? chunk_end(w, 0) : 0; /* the chunk to come */
    while (at < w->n) {
        if (!tmpl_spend(w->r, 1 + newline.bytes / STEP_MOVES) || !tmpl_buffer_ok(w->r, out)) return false;
        if (!is_first && all_space(w, at, end)) {
            at = end;
            if (at < w->n) end = chunk_end(w, at);
        }
        const size_t from = at;
        size_t last = at; /* where the line's last chunk begins */
        while (at < w->n && end - from <= width) {
            last = at;
            at = end;
            if (at < w->n) end = chunk_end(w, at);
        }
        if (at < w->n && end - at > width) {
            if (w->rules->break_long) {
                const size_t cut = break_long(w, at, end, width - (at - from));
                last = at;
                at = cut;
                if (at == end && at < w->n) end = chunk_end(w, at);
            } else if (at == from) {
                last = at;
                at = end;
                if (at < w->n) end = chunk_end(w, at);
            }
        }
        const size_t to = at > from && all_space(w, last, at) ? last : at;
        if (to > from)
            add_line(w, out, from, to, newline, is_first), is_first = false;
        else if (at == from && at < w->n && end - at > width && !w->rules->break_long)
            return false;
    }
    return true;
}

static bool load_line(wrapper *w, span line) {
    w->n = 0;
    w->c = tmpl_get(w->r, line.bytes, sizeof *w->c);
    if (!w->c || !tmpl_spend(w->r, line.bytes / STEP_READS)) return false;
    for (size_t i = 0; i < line.bytes;) {
        const int length = utf8_decode(line.at + i, line.bytes - i, &w->c[w->n++]);
        i += length ? (size_t)length : 1;
    }
    return true;
}

bool tmpl_wrap(tmpl_run *r, value text, const wrap_rules *rules, span newline, value *out) {
    wrapper w = {.r = r, .rules = rules};
    strbuf b = {.limit = r->memory.limit_bytes};
    value lines;
    bool is_right = true;
    if (!tmpl_split_lines(r, text, false, &lines)) return false;
    if (rules->width <= 0 && lines.seq->count)
        return tmpl_fail(r, "invalid width %lld (must be > 0)", (long long)rules->width);
    for (size_t i = 0; is_right && i < lines.seq->count; i++) {
        if (i) strbuf_add(&b, newline.at, newline.bytes);
        is_right = tmpl_spend(r, newline.bytes / STEP_MOVES) && load_line(&w, value_span(lines.seq->at[i])) &&
                   wrap_line(&w, &b, newline);
    }
    if (is_right) return tmpl_take_text(r, &b, out);
    strbuf_free(&b);
    return false;
}

/* ---- striptags ---- */

/* Copies text without what stands between the marks; an opening one without its end stays. */
static void remove_between(strbuf *out, span s, const char *open, const char *close) {
    size_t at = 0;
    for (;;) {
        const size_t begin = tmpl_find(s, span_of(open), at);
        const size_t end = begin == UNKNOWN ? UNKNOWN : tmpl_find(s, span_of(close), begin);
        if (end == UNKNOWN) break;
        strbuf_add(out, s.at + at, begin - at);
        at = end + strlen(close);
    }
    strbuf_add(out, s.at + at, s.bytes - at);
}

/* One space for each run of white space, none at the ends. */
static void squeeze(strbuf *out, span s) {
    s = tmpl_lstrip(tmpl_rstrip(s));
    for (size_t i = 0; i < s.bytes;) {
        const int length = tmpl_space_length(s.at + i, s.bytes - i);
        if (!length) {
            strbuf_char(out, s.at[i++]);
            continue;
        }
        strbuf_char(out, ' ');
        const span rest = tmpl_lstrip((span){s.at + i, s.bytes - i});
        i = s.bytes - rest.bytes;
    }
}

static bool add_number(strbuf *out, span s, size_t *at) {
    const bool is_hex = *at + 2 < s.bytes && (s.at[*at + 2] | 32) == 'x';
    uint32_t c = 0;
    size_t i = *at + 2 + is_hex;
    const size_t first = i;
    for (; i < s.bytes && c <= 0x10ffff; i++) {
        const char d = s.at[i];
        const int digit = d >= '0' && d <= '9'                 ? d - '0'
                          : (d | 32) >= 'a' && (d | 32) <= 'f' ? (d | 32) - 'a' + 10
                                                               : 99;
        if (digit >= (is_hex ? 16 : 10)) break;
        c = c * (is_hex ? 16 : 10) + (uint32_t)digit;
    }
    if (i == first) return false;
    strbuf_utf8(out, c && c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000) ? c : 0xfffd);
    *at = i + (i < s.bytes && s.at[i] == ';');
    return true;
}

static bool unescape(tmpl_run *r, strbuf *out, span s) {
    static const struct {
        const char *name, *text;
    } known[] = {
        {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", "\xc2\xa0"},
    };
    for (size_t i = 0; i < s.bytes;) {
        const span rest = {s.at + i, s.bytes - i};
        size_t taken = 0;
        if (s.at[i] == '&' && rest.bytes > 1 && rest.at[1] == '#' && add_number(out, s, &i)) continue;
        for (size_t k = 0; k < sizeof known / sizeof *known && !taken; k++)
            if (span_starts(rest, span_of(known[k].name)))
                strbuf_text(out, known[k].text), taken = strlen(known[k].name);
        if (!taken && s.at[i] == '&' && rest.bytes > 1 && (rest.at[1] | 32) >= 'a' && (rest.at[1] | 32) <= 'z')
            return tmpl_fail_as(
                r, QP_UNSUPPORTED,
                "filter 'striptags' knows no other entities than amp, lt, gt, quot, apos, nbsp and numbers");
        if (!taken) strbuf_char(out, s.at[i]), taken = 1;
        i += taken;
    }
    return true;
}

bool tmpl_strip_tags(tmpl_run *r, value text, value *out) {
    strbuf steps[4] = {{0}, {0}, {0}, {0}};
    value made = {.kind = V_MISSING};
    if (!tmpl_spend(r, text.str->bytes / STEP_READS)) return false;
    remove_between(&steps[0], value_span(text), "<!--", "-->");
    remove_between(&steps[1], (span){steps[0].at, steps[0].bytes}, "<", ">");
    squeeze(&steps[2], (span){steps[1].at, steps[1].bytes});
    bool is_right = unescape(r, &steps[3], (span){steps[2].at, steps[2].bytes});
    for (int i = 0; i < 3; i++) {
        is_right = is_right && tmpl_buffer_ok(r, &steps[i]);
        strbuf_free(&steps[i]);
    }
    if (!is_right) return strbuf_free(&steps[3]), false;
    if (!tmpl_take_text(r, &steps[3], &made)) return false;
    *out = made;
    return true;
}
