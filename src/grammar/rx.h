/* rx.h — regular languages over bytes as hash-consed expressions, worked with by derivatives (Brzozowski 1964).
 *
 * Front ends build expressions, the lexer (lexer.h) derives them. An `rx` is a node's number in its pool: equal
 * expressions have equal numbers, after the simplifications that rx_build.c makes on the way (flat and sorted unions
 * and intersections, merged byte sets, neutral and absorbing elements), which keep the number of derivatives small.
 *
 * Errors are sticky: when memory is short or a limit is passed every call answers RX_NONE, and rx_status says so once
 * at the end. A pool is used by one thread at a time.
 *
 * The tricky thing: rx_not is the complement over all byte strings, broken UTF-8 included. Cut it with rx_utf8 (or
 * with the language it is meant in) where it reaches a text. */
#ifndef GRAMMAR_RX_H
#define GRAMMAR_RX_H

#include "base/str.h"

typedef uint32_t rx;

enum {
    RX_NONE = 0,  /* no word at all */
    RX_EMPTY = 1, /* the empty word */
    RX_ANY = 2,   /* each single byte */
    RX_ALL = 3,   /* every byte string */
};
enum { RX_INFINITE = UINT32_MAX };

typedef struct rx_pool rx_pool;

/* Asked every few thousand steps: true gives up with QP_CANCELLED. */
typedef struct rx_stop {
    bool (*asked)(void *user); /* NULL: nobody asks */
    void *user;
} rx_stop;

typedef struct rx_limits {
    size_t nodes; /* most nodes; 0: 1 000 000 */
    size_t bytes; /* most memory; 0: 256 MiB */
    size_t steps; /* most derivatives and node visits since rx_pool_new or rx_pool_refuel; 0: 20 000 000 */
    rx_stop stop;
} rx_limits;

/* 256 bits: the bytes of a set. */
typedef struct rx_set {
    uint64_t bits[4];
} rx_set;

static inline bool rx_set_has(const rx_set *s, uint8_t byte) { return s->bits[byte >> 6] >> (byte & 63) & 1; }
static inline void rx_set_add(rx_set *s, uint8_t byte) { s->bits[byte >> 6] |= (uint64_t)1 << (byte & 63); }

/* Code points first .. last. */
typedef struct rx_range {
    uint32_t first, last;
} rx_range;

qp_status rx_pool_new(rx_pool **out, const rx_limits *limits, qp_error *err);
void rx_pool_free(rx_pool *p);
/* QP_OK, QP_NO_MEMORY, QP_CANCELLED, or QP_TOO_LARGE with the limit and what was reached. */
qp_status rx_status(const rx_pool *p, qp_error *err);
/* Starts counting steps anew, forgets the failure and asks nobody any more. */
void rx_pool_refuel(rx_pool *p, size_t steps);
/* Counts work, also that of those who build with the pool; false once the budget is spent or somebody cancelled. */
bool rx_step(rx_pool *p, size_t n);
size_t rx_pool_bytes(const rx_pool *p);

/* ---- building ---- */
rx rx_bytes(rx_pool *p, const rx_set *set);
rx rx_byte_range(rx_pool *p, uint8_t first, uint8_t last);
rx rx_text(rx_pool *p, span text);
/* One code point of these, as UTF-8. Any order, overlaps allowed; surrogates and what is over U+10FFFF are left out. */
rx rx_chars(rx_pool *p, const rx_range *ranges, size_t n);
/* One code point of none of these. */
rx rx_chars_except(rx_pool *p, const rx_range *ranges, size_t n);
/* One of the words, as a trie: thousands are fine. */
rx rx_words(rx_pool *p, const span *words, size_t n);
rx rx_concat(rx_pool *p, rx a, rx b);
rx rx_concat_n(rx_pool *p, const rx *parts, size_t n);
rx rx_or(rx_pool *p, rx a, rx b);
rx rx_or_n(rx_pool *p, const rx *parts, size_t n);
rx rx_and(rx_pool *p, rx a, rx b);
rx rx_and_n(rx_pool *p, const rx *parts, size_t n);
rx rx_not(rx_pool *p, rx a);
rx rx_minus(rx_pool *p, rx a, rx b);
/* From `min` to `max` times (RX_INFINITE: no end). */
rx rx_repeat(rx_pool *p, rx a, uint32_t min, uint32_t max);
static inline rx rx_optional(rx_pool *p, rx a) { return rx_or(p, a, RX_EMPTY); }
static inline rx rx_star(rx_pool *p, rx a) { return rx_repeat(p, a, 0, RX_INFINITE); }
/* Decimal digits of a multiple of `modulus` (> 0; the empty word is 0). Points among them do not count, so 12.5 is the
 * multiple of 5 that 125 is: a front end cuts it down to the spellings that it means. */
rx rx_multiple(rx_pool *p, uint32_t modulus);
/* Words of `a` of which no shorter beginning is one: where a lazy terminal ends. */
rx rx_lazy(rx_pool *p, rx a);
/* Any string of whole UTF-8 characters. */
rx rx_utf8(rx_pool *p);
/* Every byte c of every word of `a` replaced by a word of image[c] (RX_NONE: words with c are left out). The images of
 * different bytes must be disjoint and none the beginning of another (a prefix code, as the escapes of JSON are): then
 * intersections and complements (taken within image-of-any-byte*) stay exact. */
rx rx_substitute(rx_pool *p, rx a, const rx image[256]);

/* `a` with bounds of counts that no text of `most` bytes can reach taken away: two expressions that blur to the same
 * have the same beginnings of up to `most` bytes. */
rx rx_blur(rx_pool *p, rx a, uint32_t most);

/* ---- asking ---- */
bool rx_nullable(const rx_pool *p, rx a);
/* Whether an intersection or a complement is inside. */
bool rx_is_hard(const rx_pool *p, rx a);
/* What may follow `byte`: the words w with byte·w in `a`. */
rx rx_derive(rx_pool *p, rx a, uint8_t byte);
/* The same, and *same is cut down to bytes that have this derivative too. */
rx rx_derive_class(rx_pool *p, rx a, uint8_t byte, rx_set *same);
/* Whether there is a word in it: exact, by searching the derivatives where intersections or complements hide it. */
bool rx_has_word(rx_pool *p, rx a);
static inline bool rx_disjoint(rx_pool *p, rx a, rx b) { return !rx_has_word(p, rx_and(p, a, b)); }
static inline bool rx_within(rx_pool *p, rx a, rx b) { return !rx_has_word(p, rx_minus(p, a, b)); }
bool rx_matches(rx_pool *p, rx a, span text);
/* Up to which length, at most `most`, every text of characters that stand for themselves in a JSON string (no quote,
 * backslash or control character) begins a word; RX_INFINITE: any length. May say less than is true. */
uint32_t rx_plain_reach(rx_pool *p, rx a, uint32_t most);
/* Bytes that can begin a word (a superset where intersections or complements are inside: see rx_has_word). */
void rx_first(rx_pool *p, rx a, rx_set *out);
/* A shortest word into `out`; false if there is none. For messages and tests. */
bool rx_shortest(rx_pool *p, rx a, strbuf *out);

#endif
