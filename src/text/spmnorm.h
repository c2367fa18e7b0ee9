/* spmnorm.h — the normaliser of a SentencePiece tokenizer.model: character map, spaces to marks, user-defined pieces.
 */
#ifndef TEXT_SPMNORM_H
#define TEXT_SPMNORM_H

#include "added.h"
#include "charsmap.h"

typedef struct spmnorm {
    charsmap map;
    bool adds_dummy_prefix, removes_extra_spaces, escapes_spaces, is_suffix; /* is_suffix: the mark ends words */
    added_trie user;                                                         /* user-defined pieces stay as they are */
} spmnorm;

/* Appends the normalised text. */
void spmnorm_apply(const spmnorm *n, span text, strbuf *out);
void spmnorm_free(spmnorm *n);

#endif
