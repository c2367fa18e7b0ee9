/* bytealpha.c — the printable alphabet of 256 characters by which byte-level tokenizers write bytes.
 *
 * Printable Latin-1 characters stand for themselves; the 68 others follow from U+0100 on, in order. */
#include "bytealpha.h"

static bool is_itself(uint32_t b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

/* Ranges of bytes that do not stand for themselves, and how many of those lie before. */
static const struct {
    uint8_t first, last;
    uint16_t before;
} moved[] = {{0, 0x20, 0}, {0x7F, 0xA0, 33}, {0xAD, 0xAD, 67}};

uint32_t bytealpha_char(uint8_t byte) {
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        if (byte >= moved[i].first && byte <= moved[i].last) return 0x100u + moved[i].before + (byte - moved[i].first);
    return byte;
}

int bytealpha_byte(uint32_t c) {
    if (c < 0x100) return is_itself(c) ? (int)c : -1;
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        const uint32_t first = 0x100u + moved[i].before, n = moved[i].last - moved[i].first + 1u;
        if (c >= first && c < first + n) return (int)(moved[i].first + (c - first));
    }
    return -1;
}

void bytealpha_encode(strbuf *out, span bytes) {
    for (size_t i = 0; i < bytes.bytes; i++) strbuf_utf8(out, bytealpha_char((uint8_t)bytes.at[i]));
}

/* A character below U+0800 of the alphabet at `text`, as nearly all are; 0: it is another one. */
static inline int short_char(const char *text, size_t bytes, uint32_t *c) {
    const uint8_t first = (uint8_t)text[0], second = bytes > 1 ? (uint8_t)text[1] : 0;
    *c = first < 0x80 ? first : (uint32_t)(first & 0x1F) << 6 | (second & 0x3F);
    return first < 0x80 ? 1 : (first & 0xE0) == 0xC0 && (second & 0xC0) == 0x80 ? 2 : 0;
}

bool bytealpha_decode(strbuf *out, span text) {
    char bytes[256];
    const size_t start = out->bytes;
    size_t n = 0;
    for (size_t i = 0; i < text.bytes;) {
        uint32_t c;
        const int length = short_char(text.at + i, text.bytes - i, &c);
        const int byte = !length ? -1 : c > ' ' && c < 0x7F ? (int)c : bytealpha_byte(c);
        if (byte < 0) {
            out->bytes = start;
            return false;
        }
        i += (size_t)length;
        bytes[n++] = (char)byte;
        if (n < sizeof bytes && i < text.bytes) continue;
        strbuf_add(out, bytes, n);
        n = 0;
    }
    return true;
}
