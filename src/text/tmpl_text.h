/* tmpl_text.h — the strings of templates: making, joining, cutting and comparing them by code points. */
#ifndef TEXT_TMPL_TEXT_H
#define TEXT_TMPL_TEXT_H

#include "tmpl_value.h"

/* For "%.*s": a text of which errors show the beginning. */
#define TEXT_ARG(s) (int)((s)->bytes < 120 ? (s)->bytes : 120), (s)->at

/* A string for the template itself: counted and hashed now, as threads will share it. `text` is borrowed. NULL when
 * memory is short. */
vstr *tmpl_text_shared(arena *memory, span text);
/* A string of a rendering; `text` is borrowed. */
vstr *tmpl_text_new(arena *memory, span text);
vstr *tmpl_text_copy(arena *memory, span text);
/* a + b, in the room behind a if that is free. */
vstr *tmpl_text_join(arena *memory, const vstr *a, span b);

/* Whether n bytes are equal; those of keys and roles are few, and need no call. */
static inline bool tmpl_same_bytes(const char *a, const char *b, size_t n) {
    uint64_t x, y;
    uint32_t u, v;
    if (n > 16) return !memcmp(a, b, n);
    if (n >= 8) {
        memcpy(&x, a, 8), memcpy(&y, b, 8);
        if (x != y) return false;
        memcpy(&x, a + n - 8, 8), memcpy(&y, b + n - 8, 8);
        return x == y;
    }
    if (n >= 4) {
        memcpy(&u, a, 4), memcpy(&v, b, 4);
        if (u != v) return false;
        memcpy(&u, a + n - 4, 4), memcpy(&v, b + n - 4, 4);
        return u == v;
    }
    return !n || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
}
static inline bool tmpl_text_equal(const vstr *a, const vstr *b) {
    return a == b || (a->bytes == b->bytes && tmpl_same_bytes(a->at, b->at, a->bytes));
}
/* Order by code points (which is the order of UTF-8's bytes): < 0, 0, > 0. */
int tmpl_text_compare(const vstr *a, const vstr *b);
uint64_t tmpl_text_hash(vstr *s);
size_t tmpl_text_points(vstr *s);
/* Byte offset of a code point, 0 <= point <= length; adds how many were walked over to *walked. */
size_t tmpl_text_offset(vstr *s, size_t point, size_t *walked);
/* Code point number of a byte offset. */
size_t tmpl_text_point_at(vstr *s, size_t offset);
size_t tmpl_points_in(span text);
/* First (last) place of `part` in s at or behind `from`, or UNKNOWN; linear in the way to it. */
size_t tmpl_find(span s, span part, size_t from);
size_t tmpl_rfind(span s, span part);

#endif
