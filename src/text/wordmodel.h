/* wordmodel.h — the two models that look words up: WordPiece (longest pieces first) and WordLevel (whole words). */
#ifndef TEXT_WORDMODEL_H
#define TEXT_WORDMODEL_H

#include "idvec.h"
#include "vocab.h"

typedef struct wordmodel {
    const vocab *words;
    bool is_whole; /* WordLevel */
    int32_t unk;   /* -1: not in the vocabulary */
    char *prefix;  /* WordPiece: of all pieces of a word but the first */
    size_t prefix_bytes;
    size_t max_characters; /* longer words are unknown */
} wordmodel;

qp_status wordmodel_encode(const wordmodel *m, strbuf *scratch, span word, idvec *out, qp_error *err);

#endif
