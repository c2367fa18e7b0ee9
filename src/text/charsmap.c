/* charsmap.c — SentencePiece's precompiled character map.
 *
 * A unit of the trie packs label, offset and leaf flag into 32 bits (Darts-clone's layout). The blob is hostile: each
 * step checks its index. The tricky thing: `tokenizers` asks for each grapheme below six bytes first, takes the
 * shortest key that begins it and replaces the whole grapheme by it; only where no key begins it, it asks for each
 * character. */
#include "charsmap.h"
#include "base/mem.h"
#include "uni.h"
#include <utf8proc.h>

enum { MAX_GRAPHEME = 6 };

static qp_status bad(qp_error *err, const char *where, const char *what) {
    return err_set(err, QP_BAD_FORMAT, 0, "%s: precompiled_charsmap: %s", where, what);
}

qp_status charsmap_open(charsmap *m, const void *blob, size_t bytes, const char *where, qp_error *err) {
    const uint8_t *at = blob;
    *m = (charsmap){0};
    if (!bytes) return QP_OK;
    if (bytes < 4) return bad(err, where, "shorter than its header");
    const size_t trie = (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
    if (trie > bytes - 4 || trie % 4) return bad(err, where, "the trie is larger than the blob or no row of units");
    m->n_units = trie / 4;
    m->units = mem_array(m->n_units, 4);
    m->text_bytes = bytes - 4 - trie;
    m->texts = mem_copy_text((const char *)at + 4 + trie, m->text_bytes);
    if (!m->units || !m->texts) return charsmap_free(m), err_no_memory(err, bytes, "precompiled_charsmap");
    for (size_t i = 0; i < m->n_units; i++) {
        const uint8_t *u = at + 4 + i * 4;
        m->units[i] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    for (uint32_t c = 1; c < 128; c++) { /* whether the root has an edge for it */
        const size_t root = m->n_units ? m->units[0] >> 10 << ((m->units[0] & 512) >> 6) : 0;
        const size_t child = root ^ c;
        m->has_ascii[c] = child < m->n_units && (m->units[child] & 0x800000FF) == c;
    }
    return QP_OK;
}

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

qp_status charsmap_open_base64(charsmap *m, const char *text, const char *where, qp_error *err) {
    strbuf blob = {0};
    uint32_t bits = 0;
    int n = 0;
    for (; *text && *text != '='; text++) {
        const int digit = digit_of(*text);
        if (digit < 0) return strbuf_free(&blob), bad(err, where, "not base64");
        bits = bits << 6 | (uint32_t)digit;
        if ((n += 6) >= 8) strbuf_char(&blob, (char)(bits >> (n -= 8)));
    }
    qp_status status = strbuf_status(&blob, err, where);
    if (status == QP_OK) status = charsmap_open(m, blob.at, blob.bytes, where, err);
    strbuf_free(&blob);
    return status;
}

void charsmap_free(charsmap *m) {
    mem_free(m->units);
    mem_free(m->texts);
    *m = (charsmap){0};
}

static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 512) >> 6); }

size_t charsmap_find(const charsmap *m, span text, bool longest, span *replacement) {
    if (!m->n_units) return 0;
    size_t node = offset_of(m->units[0]), found = 0;
    for (size_t i = 0; i < text.bytes && text.at[i]; i++) {
        const uint32_t c = (unsigned char)text.at[i];
        node ^= c;
        if (node >= m->n_units) break;
        const uint32_t unit = m->units[node];
        if ((unit & 0x800000FF) != c) break;
        node ^= offset_of(unit);
        if (node >= m->n_units) break;
        if (!(unit >> 8 & 1)) continue;
        const size_t at = m->units[node] & 0x7FFFFFFF;
        if (at >= m->text_bytes) break;
        *replacement = span_of(m->texts + at);
        found = i + 1;
        if (!longest) break;
    }
    return found;
}

/* The end of the grapheme that begins at `at`. */
static size_t grapheme_end(span text, size_t at) {
    uint32_t last, c;
    utf8proc_int32_t state = 0;
    size_t end = at + (size_t)uni_next(text.at + at, &last);
    while (end < text.bytes) {
        const size_t length = (size_t)uni_next(text.at + end, &c);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)last, (utf8proc_int32_t)c, &state)) break;
        end += length;
        last = c;
    }
    return end;
}

static void map_characters(const charsmap *m, span text, strbuf *out) {
    for (size_t i = 0; i < text.bytes;) {
        uint32_t c;
        span to;
        const span character = {text.at + i, (size_t)uni_next(text.at + i, &c)};
        if (charsmap_find(m, character, false, &to))
            strbuf_add(out, to.at, to.bytes);
        else
            strbuf_add(out, character.at, character.bytes);
        i += character.bytes;
    }
}

/* Plain ASCII characters that no key begins with and that stand alone: they are their own graphemes. */
static size_t plain_run(const charsmap *m, span text, size_t at) {
    while (at < text.bytes && (unsigned char)text.at[at] < 0x80 && !m->has_ascii[(unsigned char)text.at[at]] &&
           (at + 1 == text.bytes || (unsigned char)text.at[at + 1] < 0x80) && text.at[at] != '\r')
        at++;
    return at;
}

void charsmap_apply(const charsmap *m, span text, strbuf *out) {
    for (size_t at = 0; at < text.bytes;) {
        const size_t plain = plain_run(m, text, at);
        strbuf_add(out, text.at + at, plain - at);
        if (plain == text.bytes) break;
        const size_t end = grapheme_end(text, plain);
        const span grapheme = {text.at + plain, end - plain};
        span to;
        if (grapheme.bytes < MAX_GRAPHEME && charsmap_find(m, grapheme, false, &to))
            strbuf_add(out, to.at, to.bytes);
        else
            map_characters(m, grapheme, out);
        at = end;
    }
}
