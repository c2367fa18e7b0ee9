/* schema_string.h — sets of strings: a list of words where a schema lists them, else a regular language of spelled
 * text. Words are kept as a list as long as possible, because that makes "do these two overlap?" a walk over two
 * sorted lists: what discriminators ask all the time. */
#ifndef GRAMMAR_SCHEMA_STRING_H
#define GRAMMAR_SCHEMA_STRING_H

#include "schema_chars.h"

typedef struct string_word {
    span text;     /* unescaped */
    uint32_t rank; /* its place in the schema's list */
} string_word;

typedef struct string_set {
    const string_word *words; /* sorted by text, each once */
    size_t n;
    rx text; /* not words: what stands between the quotes */
    bool is_words;
} string_set;

string_set string_all(const spelling *s);
string_set string_none(void);
/* Copies, sorts and dedupes the list (not the texts). n may be 0. */
string_set string_words(const spelling *s, const span *words, size_t n);
string_set string_text(rx text);
string_set string_and(const spelling *s, string_set a, string_set b);
string_set string_or(const spelling *s, string_set a, string_set b);
string_set string_minus(const spelling *s, string_set a, string_set b);
bool string_is_all(const spelling *s, string_set a);
/* Whether `word` (unescaped) is in the set. */
bool string_has(const spelling *s, string_set a, span word);
bool string_has_any(const spelling *s, string_set a);
/* The spellings that are produced; words in one spelling each. */
rx string_write(const spelling *s, string_set a);
/* As a language of all spellings: for keys and further work. */
rx string_language(const spelling *s, string_set a);

#endif
