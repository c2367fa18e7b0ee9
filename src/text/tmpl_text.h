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

bool tmpl_text_equal(const vstr *a, const vstr *b);
/* Order by code points (which is the order of UTF-8's bytes): < 0, 0, > 0. */
int tmpl_text_compare(const vstr *a, const vstr *b);
uint64_t tmpl_text_hash(vstr *s);
size_t tmpl_text_points(vstr *s);
/* Byte offset of a code point, 0 <= point <= length. */
size_t tmpl_text_offset(vstr *s, size_t point);
/* Code point number of a byte offset. */
size_t tmpl_text_point_at(vstr *s, size_t offset);
size_t tmpl_points_in(span text);
/* First (last) place of `part` in s at or behind `from`, or UNKNOWN; linear in time. */
size_t tmpl_find(span s, span part, size_t from);
size_t tmpl_rfind(span s, span part);

#endif
