/* utf8.c — reading and writing UTF-8 (RFC 3629), one code point at a time. */
#include "utf8.h"
#include <string.h>
#include <stdbool.h>

static bool is_tail(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

int utf8_decode(const char *s, size_t bytes, uint32_t *code_point) {
    if (!bytes) return 0;
    const uint32_t a = (unsigned char)s[0];
    if (a < 0x80) return *code_point = a, 1;
    if (a < 0xC2 || a > 0xF4) return 0;
    if (bytes < 2 || !is_tail(s[1])) return 0;
    const uint32_t b = (unsigned char)s[1] & 0x3F;
    if (a < 0xE0) return *code_point = (a & 0x1F) << 6 | b, 2;
    if (bytes < 3 || !is_tail(s[2])) return 0;
    const uint32_t c = (unsigned char)s[2] & 0x3F;
    if (a < 0xF0) {
        const uint32_t u = (a & 0x0F) << 12 | b << 6 | c;
        if (u < 0x800 || (u >= 0xD800 && u < 0xE000)) return 0;
        return *code_point = u, 3;
    }
    if (bytes < 4 || !is_tail(s[3])) return 0;
    const uint32_t u = (a & 0x07) << 18 | b << 12 | c << 6 | ((unsigned char)s[3] & 0x3F);
    if (u < 0x10000 || u > 0x10FFFF) return 0;
    return *code_point = u, 4;
}

int utf8_write(uint32_t u, char out[4]) {
    if (u < 0x80) return out[0] = (char)u, 1;
    if (u < 0x800) return out[0] = (char)(0xC0 | u >> 6), out[1] = (char)(0x80 | (u & 0x3F)), 2;
    if (u >= 0xD800 && u < 0xE000) return 0;
    if (u < 0x10000) {
        out[0] = (char)(0xE0 | u >> 12);
        out[1] = (char)(0x80 | (u >> 6 & 0x3F));
        out[2] = (char)(0x80 | (u & 0x3F));
        return 3;
    }
    if (u > 0x10FFFF) return 0;
    out[0] = (char)(0xF0 | u >> 18);
    out[1] = (char)(0x80 | (u >> 12 & 0x3F));
    out[2] = (char)(0x80 | (u >> 6 & 0x3F));
    out[3] = (char)(0x80 | (u & 0x3F));
    return 4;
}

size_t utf8_valid_prefix(const char *s, size_t bytes) {
    size_t at = 0;
    uint32_t unused;
    for (int n; at < bytes; at += (size_t)n) { /* short characters need no decoding */
        const unsigned char first = (unsigned char)s[at];
        if (first < 0x80)
            n = 1;
        else if (first >= 0xC2 && first < 0xE0 && bytes - at > 1 && ((unsigned char)s[at + 1] & 0xC0) == 0x80)
            n = 2;
        else if (!(n = utf8_decode(s + at, bytes - at, &unused)))
            break;
    }
    return at;
}

/* Whether the first `have` bytes of a character of `need` bytes can still become well-formed. */
static bool may_complete(const char *s, size_t have) {
    const unsigned char a = (unsigned char)s[0], b = have > 1 ? (unsigned char)s[1] : 0;
    if (have < 2) return true;
    if (a == 0xE0) return b >= 0xA0;
    if (a == 0xED) return b < 0xA0;
    if (a == 0xF0) return b >= 0x90;
    if (a == 0xF4) return b < 0x90;
    return true;
}

size_t utf8_incomplete_tail(const char *s, size_t bytes) {
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        const unsigned char lead = (unsigned char)s[bytes - back];
        if ((lead & 0xC0) == 0x80) continue;
        const size_t need = lead >= 0xF0 && lead <= 0xF4 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
        return lead <= 0xF4 && need > back && may_complete(s + bytes - back, back) ? back : 0;
    }
    return 0;
}

char *utf8_shown(char *out, size_t capacity, const char *text) {
    const size_t room = capacity - 4; /* for "..." and the zero */
    size_t n = 0;
    for (; text[n] && n < room; n++) out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
    n -= utf8_incomplete_tail(out, n);
    memcpy(out + n, text[n] ? "..." : "", text[n] ? 4 : 1);
    return out;
}
