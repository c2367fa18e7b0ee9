/* charsmap.h — SentencePiece's precompiled character map: a double-array trie of replacements in a blob. */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include "base/str.h"

typedef struct charsmap {
    uint32_t *units;
    size_t n_units;
    char *texts; /* replacements, each ending in a zero byte */
    size_t text_bytes;
    bool has_ascii[128]; /* whether any replaced text begins with the character */
} charsmap;

/* Checks and copies the blob. An empty one replaces nothing. */
qp_status charsmap_open(charsmap *m, const void *blob, size_t bytes, const char *where, qp_error *err);
/* The same from base64. */
qp_status charsmap_open_base64(charsmap *m, const char *text, const char *where, qp_error *err);
void charsmap_free(charsmap *m);
/* Looks for the shortest (or longest) beginning of `text` that is replaced; its length, 0 if there is none. */
size_t charsmap_find(const charsmap *m, span text, bool longest, span *replacement);
/* Appends the text as `tokenizers` maps it: grapheme by grapheme. */
void charsmap_apply(const charsmap *m, span text, strbuf *out);

#endif
