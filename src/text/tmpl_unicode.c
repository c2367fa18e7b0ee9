/* tmpl_unicode.c — Python's view of characters, from utf8proc's categories and a small table of what those lack.
 *
 * The tricky one is the Greek sigma: str.lower() writes a final one where a cased letter stands before it and none
 * behind it, not counting marks between. */
#include "tmpl_unicode.h"
#include "tmpl_unicode_data.h"
#include "base/utf8.h"
#include <utf8proc.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool in_ranges(uint32_t c, const uint32_t (*ranges)[2], size_t count) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > ranges[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && c >= ranges[low][0];
}

static bool is_space(uint32_t c) {
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static unsigned category_kinds(utf8proc_category_t category) {
    switch (category) {
    case UTF8PROC_CATEGORY_LU:
        return CHAR_ALPHA | CHAR_UPPER | CHAR_PRINTABLE;
    case UTF8PROC_CATEGORY_LL:
        return CHAR_ALPHA | CHAR_LOWER | CHAR_PRINTABLE;
    case UTF8PROC_CATEGORY_LT:
        return CHAR_ALPHA | CHAR_TITLE | CHAR_PRINTABLE;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return CHAR_ALPHA | CHAR_PRINTABLE;
    case UTF8PROC_CATEGORY_ND:
        return CHAR_DECIMAL | CHAR_DIGIT | CHAR_NUMERIC | CHAR_PRINTABLE;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return CHAR_NUMERIC | CHAR_PRINTABLE;
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return 0;
    default:
        return CHAR_PRINTABLE;
    }
}

unsigned tmpl_char_kinds(uint32_t c) {
    unsigned kinds = category_kinds(utf8proc_category((utf8proc_int32_t)c));
    if (is_space(c)) kinds |= CHAR_SPACE;
    if (c == ' ') kinds |= CHAR_PRINTABLE;
    if (c < 0x80) return kinds;
    if (in_ranges(c, digit_ranges, COUNT(digit_ranges))) kinds |= CHAR_DIGIT;
    if (in_ranges(c, numeric_letter_ranges, COUNT(numeric_letter_ranges))) kinds |= CHAR_NUMERIC;
    if (in_ranges(c, other_upper_ranges, COUNT(other_upper_ranges))) kinds |= CHAR_UPPER;
    if (in_ranges(c, other_lower_ranges, COUNT(other_lower_ranges))) kinds |= CHAR_LOWER;
    return kinds;
}

bool tmpl_is_word(uint32_t c) {
    if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return (category_kinds(category) & (CHAR_ALPHA | CHAR_NUMERIC)) || category == UTF8PROC_CATEGORY_MN ||
           category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_PC;
}

bool tmpl_is_identifier(uint32_t c, bool is_first) {
    if (c < 0x80) return tmpl_is_word(c) && !(is_first && c <= '9');
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    if ((category_kinds(category) & CHAR_ALPHA) || category == UTF8PROC_CATEGORY_NL) return true;
    return !is_first && tmpl_is_word(c) && category != UTF8PROC_CATEGORY_NO;
}

int tmpl_space_length(const char *s, size_t bytes) {
    if (!bytes) return 0;
    if (!((unsigned char)*s & 0x80)) return is_space((unsigned char)*s);
    uint32_t c;
    const int length = utf8_decode(s, bytes, &c);
    return length && is_space(c) ? length : 0;
}

span tmpl_lstrip(span s) {
    int length;
    while ((length = tmpl_space_length(s.at, s.bytes))) s.at += length, s.bytes -= (size_t)length;
    return s;
}

/* Start of the last character of s (which is not empty). */
static size_t last_start(span s) {
    size_t at = s.bytes - 1;
    while (at && ((unsigned char)s.at[at] & 0xc0) == 0x80) at--;
    return at;
}

span tmpl_rstrip(span s) {
    while (s.bytes) {
        const size_t at = last_start(s);
        if (!tmpl_space_length(s.at + at, s.bytes - at)) break;
        s.bytes = at;
    }
    return s;
}

static bool is_ignorable(uint32_t c) { return in_ranges(c, case_ignorable_ranges, COUNT(case_ignorable_ranges)); }
static bool is_cased(uint32_t c) { return tmpl_char_kinds(c) & CHAR_CASED; }

static bool cased_before(span s) {
    while (s.bytes) {
        uint32_t c = 0;
        const size_t at = last_start(s);
        utf8_decode(s.at + at, s.bytes - at, &c);
        if (!is_ignorable(c)) return is_cased(c);
        s.bytes = at;
    }
    return false;
}

static bool cased_after(span s) {
    while (s.bytes) {
        uint32_t c;
        const int length = utf8_decode(s.at, s.bytes, &c);
        if (!length) return false;
        if (!is_ignorable(c)) return is_cased(c);
        s = (span){s.at + length, s.bytes - (size_t)length};
    }
    return false;
}

static const case_row *find_row(uint32_t c) {
    size_t low = 0, high = COUNT(case_rows);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (case_rows[middle].from < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(case_rows) && case_rows[low].from == c ? &case_rows[low] : NULL;
}

static void add_folded(strbuf *out, uint32_t c) {
    utf8proc_int32_t folded[4];
    int last_boundclass = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)c, folded, 4, UTF8PROC_CASEFOLD, &last_boundclass);
    for (utf8proc_ssize_t i = 0; i < n && i < 4; i++) strbuf_utf8(out, (uint32_t)folded[i]);
    if (n <= 0) strbuf_utf8(out, c);
}

void tmpl_case_add(strbuf *out, uint32_t c, char_case to, span before, span after) {
    const utf8proc_int32_t one = (utf8proc_int32_t)c;
    if (to == CASE_FOLD) {
        add_folded(out, c);
        return;
    }
    if (c == 0x3a3 && to == CASE_LOWER) {
        strbuf_utf8(out, cased_before(before) && !cased_after(after) ? 0x3c2 : 0x3c3);
        return;
    }
    const case_row *row = c < 0x80 ? NULL : find_row(c);
    if (row) {
        const uint32_t *mapped = to == CASE_UPPER ? row->upper : to == CASE_LOWER ? row->lower : row->title;
        for (int i = 0; i < 3 && mapped[i]; i++) strbuf_utf8(out, mapped[i]);
        return;
    }
    strbuf_utf8(out, (uint32_t)(to == CASE_UPPER   ? utf8proc_toupper(one)
                                : to == CASE_LOWER ? utf8proc_tolower(one)
                                                   : utf8proc_totitle(one)));
}

int tmpl_decimal_value(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9' ? (int)c - '0' : -1;
    for (size_t i = 0; i < COUNT(decimal_ranges); i++)
        if (c >= decimal_ranges[i][0] && c <= decimal_ranges[i][1]) return (int)((c - decimal_ranges[i][0]) % 10);
    return -1;
}
