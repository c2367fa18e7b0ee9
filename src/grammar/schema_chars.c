/* schema_chars.c — classes of characters, and the spellings of characters inside a JSON string. */
#include "schema_chars.h"
#include "base/utf8.h"
#include "text/uni.h"
#include <stdlib.h>

void chars_add(chars *c, schema_room *room, uint32_t first, uint32_t last) {
    if (first > last) return;
    if (c->n == c->size) {
        const size_t size = c->size ? c->size * 2 : 8;
        rx_range *grown = room_get(room, size, sizeof *grown);
        if (!grown) return;
        if (c->n) memcpy(grown, c->ranges, c->n * sizeof *grown);
        c->ranges = grown;
        c->size = size;
    }
    c->ranges[c->n++] = (rx_range){first, last > CHARS_LAST ? CHARS_LAST : last};
}

static int by_first(const void *a, const void *b) {
    const rx_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

void chars_sort(chars *c) {
    if (c->n > 1) qsort(c->ranges, c->n, sizeof *c->ranges, by_first);
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        rx_range *last = n ? &c->ranges[n - 1] : NULL;
        if (last && c->ranges[i].first <= last->last + 1) {
            if (c->ranges[i].last > last->last) last->last = c->ranges[i].last;
        } else {
            c->ranges[n++] = c->ranges[i];
        }
    }
    c->n = n;
}

void chars_invert(chars *c, schema_room *room) {
    chars out = {0};
    uint32_t next = 0;
    chars_sort(c);
    for (size_t i = 0; i < c->n; i++) {
        if (c->ranges[i].first > next) chars_add(&out, room, next, c->ranges[i].first - 1);
        next = c->ranges[i].last + 1;
    }
    if (next <= CHARS_LAST) chars_add(&out, room, next, CHARS_LAST);
    *c = out;
}

void chars_add_all(chars *c, schema_room *room, const chars *other) {
    for (size_t i = 0; i < other->n; i++) chars_add(c, room, other->ranges[i].first, other->ranges[i].last);
}

void chars_add_property(chars *c, schema_room *room, uint64_t mask) {
    uint32_t start = 0;
    bool inside = false;
    for (uint32_t at = 0; at <= CHARS_LAST; at++) {
        const bool is = uni_is(at, mask);
        if (is && !inside) start = at;
        if (!is && inside) chars_add(c, room, start, at - 1);
        inside = is;
    }
    if (inside) chars_add(c, room, start, CHARS_LAST);
}

/* ---- spellings ---- */

/* Characters that cannot stand for themselves inside a JSON string, or do not by choice (DEL). */
static bool needs_escape(uint32_t c) { return c < 0x20 || c == '"' || c == '\\' || c == 0x7F; }

static const char SHORT_ESCAPES[] = "\bb\ff\nn\rr\tt\"\"\\\\";

static char short_escape(uint32_t c) {
    for (size_t i = 0; SHORT_ESCAPES[i]; i += 2)
        if ((uint32_t)(unsigned char)SHORT_ESCAPES[i] == c) return SHORT_ESCAPES[i + 1];
    return 0;
}

static rx hex_digit(rx_pool *p, uint32_t first, uint32_t last) {
    rx_set set = {{0}};
    for (uint32_t d = first; d <= last; d++) {
        rx_set_add(&set, (uint8_t)(d < 10 ? '0' + d : 'a' + d - 10));
        rx_set_add(&set, (uint8_t)(d < 10 ? '0' + d : 'A' + d - 10));
    }
    return rx_bytes(p, &set);
}

/* `width` hexadecimal digits of a number from first to last. */
static rx hex_between(rx_pool *p, uint32_t first, uint32_t last, int width) {
    if (!width) return RX_EMPTY;
    const int shift = 4 * (width - 1);
    const uint32_t rest = (1u << shift) - 1, low = first >> shift, high = last >> shift;
    if (low == high) return rx_concat(p, hex_digit(p, low, low), hex_between(p, first & rest, last & rest, width - 1));
    rx out = rx_concat(p, hex_digit(p, low, low), hex_between(p, first & rest, rest, width - 1));
    out = rx_or(p, out, rx_concat(p, hex_digit(p, high, high), hex_between(p, 0, last & rest, width - 1)));
    if (high - low < 2) return out;
    return rx_or(p, out, rx_concat(p, hex_digit(p, low + 1, high - 1), hex_between(p, 0, rest, width - 1)));
}

static rx unicode_escape(rx_pool *p, uint32_t first, uint32_t last) {
    return rx_concat(p, rx_text(p, SPAN("\\u")), hex_between(p, first, last, 4));
}

/* \uD83D\uDC32: characters over U+FFFF, low surrogates by high ones. */
static rx surrogate_escapes(rx_pool *p, uint32_t first, uint32_t last) {
    rx out = RX_NONE;
    first -= 0x10000, last -= 0x10000;
    while (first <= last) {
        const uint32_t high = first >> 10, full = (last + 1) >> 10;
        const bool whole = !(first & 0x3FF) && full > high;
        const uint32_t high_last = whole ? full - 1 : high;
        const uint32_t end = whole ? (full << 10) - 1 : last >> 10 == high ? last : high << 10 | 0x3FF;
        const rx pair = rx_concat(p, unicode_escape(p, 0xD800 + high, 0xD800 + high_last),
                                  unicode_escape(p, 0xDC00 + (first & 0x3FF), 0xDC00 + (end & 0x3FF)));
        out = rx_or(p, out, pair);
        first = end + 1;
    }
    return out;
}

static rx escapes_of_range(rx_pool *p, uint32_t first, uint32_t last) {
    rx out = RX_NONE;
    if (first < 0xD800) out = unicode_escape(p, first, last < 0xD800 ? last : 0xD7FF);
    const uint32_t low = first < 0xE000 ? 0xE000 : first;
    if (low < 0x10000 && last >= low) out = rx_or(p, out, unicode_escape(p, low, last < 0x10000 ? last : 0xFFFF));
    if (last > 0xFFFF) out = rx_or(p, out, surrogate_escapes(p, first > 0xFFFF ? first : 0x10000, last));
    return out;
}

/* The escaped spellings of a character that must be escaped. */
static rx special_char(rx_pool *p, uint32_t c, bool unicode_escapes) {
    const char text[2] = {'\\', short_escape(c)};
    const rx shorter = text[1] ? rx_text(p, (span){text, 2}) : RX_NONE;
    if ((c == '"' || c == '\\') && !unicode_escapes) return shorter;
    return rx_or(p, shorter, unicode_escape(p, c, c));
}

static bool has_char(const chars *c, uint32_t code_point) {
    for (size_t i = 0; i < c->n; i++)
        if (code_point >= c->ranges[i].first && code_point <= c->ranges[i].last) return true;
    return false;
}

/* The characters of `c` that stand for themselves. */
static chars plain_part(const spelling *s, const chars *c) {
    static const rx_range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, CHARS_LAST}};
    chars out = {0};
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < sizeof plain / sizeof *plain; k++) {
            const uint32_t first = c->ranges[i].first > plain[k].first ? c->ranges[i].first : plain[k].first;
            const uint32_t last = c->ranges[i].last < plain[k].last ? c->ranges[i].last : plain[k].last;
            chars_add(&out, s->room, first, last);
        }
    return out;
}

/* ASCII that stands for itself is one byte set; false: it is more than that. */
static bool as_bytes(const spelling *s, const chars *c, rx_set *out) {
    *out = (rx_set){{0}};
    for (size_t i = 0; i < c->n; i++)
        for (uint32_t at = c->ranges[i].first; at <= c->ranges[i].last; at++) {
            if (at > 0x7F || s->unicode_escapes || (s->json && needs_escape(at))) return false;
            rx_set_add(out, (uint8_t)at);
        }
    return true;
}

static rx spell(const spelling *s, const chars *c) {
    if (!s->json) return rx_chars(s->pool, c->ranges, c->n);
    const chars plain = plain_part(s, c);
    rx out = rx_chars(s->pool, plain.ranges, plain.n);
    for (uint32_t code_point = 0; code_point < 0x80; code_point++)
        if (needs_escape(code_point) && has_char(c, code_point))
            out = rx_or(s->pool, out, special_char(s->pool, code_point, s->unicode_escapes));
    for (size_t i = 0; s->unicode_escapes && i < plain.n; i++)
        out = rx_or(s->pool, out, escapes_of_range(s->pool, plain.ranges[i].first, plain.ranges[i].last));
    return out;
}

rx spelling_chars(const spelling *s, const chars *c) {
    rx_set bytes;
    if (as_bytes(s, c, &bytes)) return rx_bytes(s->pool, &bytes);
    for (int i = 0; s->known && i < SPELLED_CLASSES; i++) {
        const spelled_class *old = &s->known->at[i];
        if (old->set.n == c->n && c->n && !memcmp(old->set.ranges, c->ranges, c->n * sizeof *c->ranges))
            return old->language;
    }
    const rx language = spell(s, c);
    rx_range *ranges = s->known ? room_get(s->room, c->n, sizeof *ranges) : NULL;
    if (!ranges || !c->n) return language;
    memcpy(ranges, c->ranges, c->n * sizeof *ranges);
    s->known->at[s->known->next++ % SPELLED_CLASSES] =
        (spelled_class){{.ranges = ranges, .n = c->n, .size = c->n}, language};
    return language;
}

spelling spelling_start(rx_pool *pool, schema_room *room, bool json, bool unicode_escapes) {
    spelling s = {.pool = pool, .room = room, .json = json, .unicode_escapes = unicode_escapes};
    s.known = room_get(room, 1, sizeof *s.known);
    rx_range everything = {0, CHARS_LAST};
    const chars all = {.ranges = &everything, .n = 1};
    s.any_char = spelling_chars(&s, &all);
    s.any_text = rx_star(pool, s.any_char);
    return s;
}

/* A word whose only spelling is itself. */
static bool is_plain(const spelling *s, span word) {
    if (!s->json) return true;
    for (size_t i = 0; i < word.bytes; i++)
        if (s->unicode_escapes || needs_escape((unsigned char)word.at[i])) return false;
    return true;
}

rx spelling_word(const spelling *s, span word) {
    if (is_plain(s, word)) return rx_text(s->pool, word);
    rx out = RX_EMPTY;
    size_t end = word.bytes;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && ((unsigned char)word.at[start] & 0xC0) == 0x80) start--;
        uint32_t c = 0;
        if (!utf8_decode(word.at + start, end - start, &c)) return RX_NONE;
        rx_range range = {c, c};
        const chars one = {.ranges = &range, .n = 1};
        out = rx_concat(s->pool, spelling_chars(s, &one), out);
        end = start;
    }
    return out;
}

void spelling_write(strbuf *out, span word) {
    for (size_t i = 0; i < word.bytes; i++) {
        const unsigned char c = (unsigned char)word.at[i];
        const char shorter = short_escape(c);
        if (!needs_escape(c))
            strbuf_char(out, (char)c);
        else if (shorter)
            strbuf_format(out, "\\%c", shorter);
        else
            strbuf_format(out, "\\u%04x", c);
    }
}

rx spelling_length(const spelling *s, uint32_t min, uint32_t max) {
    return min == 0 && max == RX_INFINITE ? s->any_text : rx_repeat(s->pool, s->any_char, min, max);
}
