/* decoder.h — decoders: the pieces of a row of ids to text. Made from the "decoder" of tokenizer.json. */
#ifndef TEXT_DECODER_H
#define TEXT_DECODER_H

#include "base/json.h"
#include "base/mem.h"
#include "regex.h"

enum { DECODER_MAX_STEPS = 16 };

typedef enum decoder_kind {
    DECODER_BYTE_LEVEL,
    DECODER_BYTE_FALLBACK,
    DECODER_METASPACE,
    DECODER_WORDPIECE,
    DECODER_REPLACE,
    DECODER_STRIP,
    DECODER_FUSE,
    DECODER_CTC,
    DECODER_BPE
} decoder_kind;

typedef struct decoder_step {
    decoder_kind kind;
    char *from, *to; /* mark, prefix, suffix, pattern, pad token; replacement, word delimiter */
    size_t from_bytes, to_bytes;
    regex *regex; /* DECODER_REPLACE by expression */
    bool cleans, drops_first;
    size_t start, stop; /* DECODER_STRIP */
} decoder_step;

typedef struct decoder {
    decoder_step steps[DECODER_MAX_STEPS];
    int n;
    bool is_none; /* no decoder: pieces are joined by spaces */
} decoder;

/* The pieces on their way through the steps: texts in an arena. */
typedef struct pieces {
    span *at;
    size_t n, capacity;
    arena texts;
    bool failed;
} pieces;

void pieces_add(pieces *p, span text);
void pieces_free(pieces *p);

/* `json` may be NULL. */
qp_status decoder_parse(decoder *d, const json_t *json, qp_error *err);
qp_status decoder_add_replace(decoder *d, span from, span to, qp_error *err);
qp_status decoder_add_strip(decoder *d, span content, size_t start, size_t stop, qp_error *err);
qp_status decoder_add(decoder *d, decoder_step step, qp_error *err);
void decoder_free(decoder *d);
/* Appends the text of the pieces, which are used up. */
qp_status decoder_run(const decoder *d, pieces *p, strbuf *out, qp_error *err);
/* Whether the only step is ByteLevel: then texts are the pieces' bytes side by side. */
bool decoder_is_byte_level(const decoder *d);
/* Appends bytes as text: what is not UTF-8 becomes U+FFFD, one for each maximal part of a character. */
void decoder_add_lossy(strbuf *out, const char *bytes, size_t count);

#endif
