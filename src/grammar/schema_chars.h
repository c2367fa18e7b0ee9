/* schema_chars.h — classes of characters, and the spellings of characters inside a JSON string.
 *
 * All text languages of a schema (patterns, formats, lengths, keys) are made of spelled characters from the start, so
 * a count of characters is a count of characters however they are written, and a complement within spelled text is
 * exact: the spelling of each character is unique, and none begins another. */
#ifndef GRAMMAR_SCHEMA_CHARS_H
#define GRAMMAR_SCHEMA_CHARS_H

#include "grammar/rx.h"
#include "schema_room.h"

enum { CHARS_LAST = 0x10FFFF };

/* Ranges of code points. Zero-initialised is empty and ready; the ranges live in the arena. */
typedef struct chars {
    rx_range *ranges;
    size_t n, size;
} chars;

void chars_add(chars *c, schema_room *room, uint32_t first, uint32_t last);
/* Sorted, without overlaps. */
void chars_sort(chars *c);
/* Everything else. */
void chars_invert(chars *c, schema_room *room);
void chars_add_all(chars *c, schema_room *room, const chars *other);
/* Characters with one of these properties (text/uni.h). */
void chars_add_property(chars *c, schema_room *room, uint64_t mask);

/* Classes that were spelled before: patterns use few different ones, and those of many ranges cost much. */
typedef struct spelled_class {
    chars set;
    rx language;
} spelled_class;

enum { SPELLED_CLASSES = 16 };

typedef struct spelled_classes {
    spelled_class at[SPELLED_CLASSES];
    uint32_t next;
} spelled_classes;

/* How text is written. */
typedef struct spelling {
    rx_pool *pool;
    schema_room *room;
    spelled_classes *known;
    bool json;            /* inside a JSON string; false: plain UTF-8 */
    bool unicode_escapes; /* any character may also be written as \uXXXX */
    rx any_text;          /* filled by spelling_start: any text at all */
    rx any_char;
} spelling;

spelling spelling_start(rx_pool *pool, schema_room *room, bool json, bool unicode_escapes);
/* One of these characters, in each of its spellings. */
rx spelling_chars(const spelling *s, const chars *c);
/* This text, in each of its spellings. */
rx spelling_word(const spelling *s, span word);
/* The one spelling of a text that is produced for constants; without quotes. Appends. */
void spelling_write(strbuf *out, span word);
/* From `min` to `max` characters. */
rx spelling_length(const spelling *s, uint32_t min, uint32_t max);

#endif
