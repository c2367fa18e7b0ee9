/* utf8.h — reading and writing UTF-8, one code point at a time. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the code point at s[0..bytes); returns its length 1-4, or 0 if the bytes are not well-formed UTF-8
 * (overlong forms, surrogates, over U+10FFFF and cut sequences included). */
int utf8_decode(const char *s, size_t bytes, uint32_t *code_point);
/* Writes 1-4 bytes; returns how many, 0 for surrogates and values over U+10FFFF. (Not utf8_encode: the static archive
 * of jansson has one.) */
int utf8_write(uint32_t code_point, char out[4]);
/* Length of the longest well-formed beginning of s. */
size_t utf8_valid_prefix(const char *s, size_t bytes);
/* How many bytes at the end of s are the beginning of a character that is not complete: 0-3. */
size_t utf8_incomplete_tail(const char *s, size_t bytes);
/* Copies text from a file for people to read: cut to fit (with "..." at the end), control characters masked, so that a
 * file cannot write to a terminal through an error. Returns `out`. */
char *utf8_shown(char *out, size_t capacity, const char *text);

#endif
