/* bytealpha.h — the printable alphabet of 256 characters by which byte-level tokenizers write bytes (GPT-2, 2019). */
#ifndef TEXT_BYTEALPHA_H
#define TEXT_BYTEALPHA_H

#include "base/str.h"

/* The character of a byte. */
uint32_t bytealpha_char(uint8_t byte);
/* The byte of a character, -1 if it is not of the alphabet. */
int bytealpha_byte(uint32_t c);
/* Appends the text written in the alphabet. */
void bytealpha_encode(strbuf *out, span bytes);
/* Appends the bytes that a text stands for; false (nothing appended) if a character is not of the alphabet. */
bool bytealpha_decode(strbuf *out, span text);

#endif
