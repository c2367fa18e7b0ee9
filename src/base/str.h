/* str.h — a growing byte buffer, and borrowed pieces of text. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "err.h"
#include <stdarg.h>
#include <string.h>

/* Borrowed bytes; not zero-terminated. */
typedef struct span {
    const char *at;
    size_t bytes;
} span;

#define SPAN(literal) ((span){(literal), sizeof(literal) - 1})
static inline span span_of(const char *text) { return (span){text, text ? strlen(text) : 0}; }
static inline bool span_equal(span a, span b) {
    return a.bytes == b.bytes && (!a.bytes || !memcmp(a.at, b.at, a.bytes));
}
static inline bool span_is(span a, const char *text) { return span_equal(a, span_of(text)); }
static inline bool span_starts(span a, span head) {
    return a.bytes >= head.bytes && (!head.bytes || !memcmp(a.at, head.at, head.bytes));
}

/* Zero-initialised is empty and ready. After an allocation failure `failed` stays true, further appends do nothing:
 * a chain of appends needs one check at its end. `at` always ends with a zero byte once anything was appended. */
typedef struct strbuf {
    char *at;
    size_t bytes, capacity;
    size_t limit; /* 0: none; appends beyond it set failed */
    bool failed;
    bool over_limit; /* why it failed */
} strbuf;

void strbuf_add(strbuf *b, const void *bytes, size_t count);
void strbuf_text(strbuf *b, const char *text);
void strbuf_char(strbuf *b, char c);
void strbuf_utf8(strbuf *b, uint32_t code_point);
void strbuf_format(strbuf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string literal with its quotes; bytes that are not UTF-8 become U+FFFD. */
void strbuf_json(strbuf *b, const char *text, size_t bytes);
void strbuf_clear(strbuf *b);
void strbuf_free(strbuf *b);
/* Hands the bytes to the caller (mem_free, or qp_free through the API) and empties the buffer; never NULL unless
 * failed: an empty buffer gives "". */
char *strbuf_move(strbuf *b, size_t *bytes);
qp_status strbuf_status(const strbuf *b, qp_error *err, const char *what);

#endif
