/* added.h — added tokens: texts that become one id wherever they stand, found before the model sees anything.
 *
 * Two tries, one over the text as it is, one over the normalised text; the leftmost match wins, of those the longest.
 * A trie walk from each position costs no more for thousands of tokens than for one. */
#ifndef TEXT_ADDED_H
#define TEXT_ADDED_H

#include "base/mem.h"
#include "base/str.h"

typedef struct added_token {
    span content; /* in the set's arena */
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    /* Set by added_finish: what decoders see (the normalised content, if it is matched so), and whether skip_special
     * hides it: only if a special token has this very text, as in the reference. */
    span shown;
    bool is_hidden;
} added_token;

typedef struct added_node {
    int32_t token;           /* index, -1: none ends here */
    uint32_t child, sibling; /* 0: none */
    uint8_t byte;
} added_node;

typedef struct added_trie {
    added_node *nodes;
    uint32_t n, capacity;
    uint32_t roots[256];
} added_trie;

typedef struct added {
    added_token *tokens;
    int n, capacity;
    added_trie raw, normalized;
    arena texts;
    int32_t highest; /* id, -1: no token */
    uint32_t *slots; /* id -> token + 1 */
    uint32_t n_slots;
    uint32_t *text_slots; /* content -> token + 1 */
} added;

/* Adds a token or changes the one with the same content. */
qp_status added_put(added *a, const added_token *token, qp_error *err);
/* Builds the tries; `normalize` gives the normalised content of a token. */
typedef qp_status added_normalize(void *context, span content, span *out, qp_error *err);
qp_status added_finish(added *a, added_normalize *normalize, void *context, qp_error *err);
void added_free(added *a);
/* NULL: none. */
const added_token *added_by_id(const added *a, int32_t id);
const added_token *added_by_text(const added *a, span content);

/* Length of the longest text of a trie that `text` begins with, 0 if there is none; and adding one. */
size_t added_longest(const added_trie *t, span text);
bool added_insert(added_trie *t, span text, int token);

/* A token found in a text: [start, end) includes the spaces that lstrip and rstrip take. */
typedef struct added_match {
    size_t start, end;
    const added_token *token;
} added_match;

/* The next token from *from on, which moves behind it; `done` is where the last match ended. */
bool added_next(const added *a, bool in_normalized, bool skip_special, span text, size_t *from, size_t done,
                added_match *match);

#endif
