/* str.c — the growing byte buffer. */
#include "str.h"
#include "mem.h"
#include "utf8.h"
#include <stdio.h>

/* Room for `more` bytes and a final zero. */
static bool make_room(strbuf *b, size_t more) {
    size_t need;
    if (b->failed) return false;
    if (!mem_add(b->bytes, more, &need) || !mem_add(need, 1, &need)) return b->failed = true, false;
    if (b->limit && need - 1 > b->limit) return b->failed = b->over_limit = true, false;
    if (need <= b->capacity) return true;
    size_t capacity = b->capacity < 32 ? 64 : b->capacity <= SIZE_MAX / 2 ? b->capacity * 2 : need;
    if (capacity < need) capacity = need;
    char *at = mem_resize(b->at, capacity, 1);
    if (!at) return b->failed = true, false;
    b->at = at;
    b->capacity = capacity;
    return true;
}

void strbuf_add(strbuf *b, const void *bytes, size_t count) {
    if (!make_room(b, count)) return;
    if (count) memcpy(b->at + b->bytes, bytes, count);
    b->bytes += count;
    b->at[b->bytes] = 0;
}

void strbuf_text(strbuf *b, const char *text) { strbuf_add(b, text, strlen(text)); }
void strbuf_char(strbuf *b, char c) { strbuf_add(b, &c, 1); }

void strbuf_utf8(strbuf *b, uint32_t code_point) {
    char out[4];
    strbuf_add(b, out, (size_t)utf8_write(code_point, out));
}

void strbuf_format(strbuf *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int bytes = vsnprintf(NULL, 0, format, args);
    if (bytes >= 0 && make_room(b, (size_t)bytes)) {
        vsnprintf(b->at + b->bytes, (size_t)bytes + 1, format, again);
        b->bytes += (size_t)bytes;
    }
    va_end(again);
    va_end(args);
}

static void add_json_character(strbuf *b, const char *s, int length) {
    static const char escapes[][2] = {{'"', '"'},  {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
                                      {'\t', 't'}, {'\b', 'b'},  {'\f', 'f'}};
    for (size_t i = 0; length == 1 && i < sizeof escapes / sizeof *escapes; i++)
        if (*s == escapes[i][0]) {
            strbuf_char(b, '\\');
            strbuf_char(b, escapes[i][1]);
            return;
        }
    if (length == 1 && (unsigned char)*s < 0x20)
        strbuf_format(b, "\\u%04x", (unsigned)(unsigned char)*s);
    else
        strbuf_add(b, s, (size_t)length);
}

/* Most of a text stands for itself. */
static size_t plain_run(const char *s, size_t bytes) {
    size_t n = 0;
    while (n < bytes && s[n] >= ' ' && s[n] < 0x7F && s[n] != '"' && s[n] != '\\') n++;
    return n;
}

void strbuf_json(strbuf *b, const char *text, size_t bytes) {
    strbuf_char(b, '"');
    for (size_t i = 0; i < bytes;) {
        uint32_t code_point;
        const size_t plain = plain_run(text + i, bytes - i);
        strbuf_add(b, text + i, plain);
        i += plain;
        if (i == bytes) break;
        const int length = utf8_decode(text + i, bytes - i, &code_point);
        if (length)
            add_json_character(b, text + i, length);
        else
            strbuf_text(b, "\xef\xbf\xbd");
        i += length ? (size_t)length : 1;
    }
    strbuf_char(b, '"');
}

void strbuf_clear(strbuf *b) {
    b->bytes = 0;
    b->failed = b->over_limit = false;
    if (b->at) b->at[0] = 0;
}

void strbuf_free(strbuf *b) {
    mem_free(b->at);
    *b = (strbuf){.limit = b->limit};
}

char *strbuf_move(strbuf *b, size_t *bytes) {
    strbuf_add(b, "", 0);
    char *at = b->failed ? NULL : b->at;
    if (bytes) *bytes = at ? b->bytes : 0;
    if (at) b->at = NULL;
    strbuf_free(b);
    return at;
}

qp_status strbuf_status(const strbuf *b, qp_error *err, const char *what) {
    if (!b->failed) return QP_OK;
    if (b->over_limit)
        return err_set(err, QP_TOO_LARGE, b->bytes, "%s: longer than the limit of %zu bytes", what, b->limit);
    return err_no_memory(err, b->capacity, what);
}
