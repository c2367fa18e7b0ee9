/* uni.h — what the tokenizers' reference knows about characters: categories, white space, case, decompositions.
 *
 * The tables are asked from the reference itself (tools/make_unicode_table.py), because it mixes Unicode versions;
 * an engine that used its own library's facts would give other ids for young characters. */
#ifndef TEXT_UNI_H
#define TEXT_UNI_H

#include "base/str.h"
#include "uni_table.h"
#include <stdbool.h>
#include <stddef.h>

/* One bit per general category, in the order of their names, then what the reference's parts call space, word ... */
enum {
    UNI_Cc,
    UNI_Cf,
    UNI_Cn,
    UNI_Co,
    UNI_Ll,
    UNI_Lm,
    UNI_Lo,
    UNI_Lt,
    UNI_Lu,
    UNI_Mc,
    UNI_Me,
    UNI_Mn,
    UNI_Nd,
    UNI_Nl,
    UNI_No,
    UNI_Pc,
    UNI_Pd,
    UNI_Pe,
    UNI_Pf,
    UNI_Pi,
    UNI_Po,
    UNI_Ps,
    UNI_Sc,
    UNI_Sk,
    UNI_Sm,
    UNI_So,
    UNI_Zl,
    UNI_Zp,
    UNI_Zs
};
#define UNI_BIT(category) (1ull << UNI_##category)
#define UNI_UPPER UNI_BIT(Lu)
#define UNI_LOWER UNI_BIT(Ll)
#define UNI_LETTER (UNI_BIT(Lu) | UNI_BIT(Ll) | UNI_BIT(Lt) | UNI_BIT(Lm) | UNI_BIT(Lo))
#define UNI_COMBINING (UNI_BIT(Mn) | UNI_BIT(Mc) | UNI_BIT(Me))
#define UNI_NUMBER (UNI_BIT(Nd) | UNI_BIT(Nl) | UNI_BIT(No))
#define UNI_P (UNI_BIT(Pc) | UNI_BIT(Pd) | UNI_BIT(Pe) | UNI_BIT(Pf) | UNI_BIT(Pi) | UNI_BIT(Po) | UNI_BIT(Ps))
#define UNI_S (UNI_BIT(Sc) | UNI_BIT(Sk) | UNI_BIT(Sm) | UNI_BIT(So))
#define UNI_SPACE (1ull << 32)      /* White_Space */
#define UNI_WORD (1ull << 33)       /* \w of single_word and of Whitespace */
#define UNI_WORD_RE (1ull << 34)    /* \w of Split's regular expressions */
#define UNI_PUNCT (1ull << 35)      /* Punctuation, BertPreTokenizer */
#define UNI_CONTROL (1ull << 36)    /* what BertNormalizer cleans away */
#define UNI_ACCENT (1ull << 37)     /* what BertNormalizer's strip_accents removes */
#define UNI_MARK (1ull << 38)       /* what StripAccents removes */
#define UNI_ALPHABETIC (1ull << 39) /* \p{Alphabetic} of Split's regular expressions */
#define UNI_NFC_SAFE (1ull << 40)   /* NFC leaves it alone, whatever stands beside it */
#define UNI_NF_SAFE (1ull << 41)    /* so do all four normal forms */

static inline uint64_t uni_bits(uint32_t c) {
    return c < 0x110000 ? uni_records[uni_stage2[uni_stage1[c >> 8] * 256u + (c & 255)]] : 0;
}
static inline bool uni_is(uint32_t c, uint64_t mask) { return (uni_bits(c) & mask) != 0; }

/* Decodes text that is known to be well-formed; returns the length. */
static inline int uni_next(const char *s, uint32_t *c) {
    const unsigned char *b = (const unsigned char *)s;
    if (b[0] < 0x80) return *c = b[0], 1;
    if (b[0] < 0xE0) return *c = (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu), 2;
    if (b[0] < 0xF0) return *c = (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu), 3;
    return *c = (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu), 4;
}
/* The last character of well-formed, non-empty text. */
static inline int uni_last(const char *s, size_t bytes, uint32_t *c) {
    size_t back = 1;
    while (back < bytes && ((unsigned char)s[bytes - back] & 0xC0) == 0x80) back++;
    return uni_next(s + bytes - back, c);
}

/* The mask of a property's name in regular expressions ("L", "Nd", "Alphabetic"), 0: not known here. */
uint64_t uni_property(span name);
/* The script's number; 0 joins every other (spaces and what is unknown). */
int uni_script_of(uint32_t c);
/* Lower case: writes 1 to 3 characters, returns how many. */
int uni_lower_of(uint32_t c, uint32_t out[3]);
/* Full decomposition (Hangul included): up to 18 characters; `compatible` for the K forms. */
int uni_decompose(uint32_t c, bool compatible, uint32_t out[18]);
/* The composed character of a pair, 0 if there is none. */
uint32_t uni_composed(uint32_t first, uint32_t second);
/* Canonical combining class. */
int uni_class_of(uint32_t c);
#endif
