/* pretok.h — pre-tokenisers: text to the words that the model encodes one by one.
 *
 * A chain of steps, each handing its pieces straight on to the next; nothing is collected, so the memory of a call does
 * not grow with the number of words. Made from the "pre_tokenizer" of tokenizer.json by pretok_parse. */
#ifndef TEXT_PRETOK_H
#define TEXT_PRETOK_H

#include "base/json.h"
#include "base/str.h"
#include "regex.h"
#include "scan.h"

enum { PRETOK_MAX_STEPS = 32 };

typedef enum pretok_kind {
    PRETOK_SPLIT,      /* Split, WhitespaceSplit, Punctuation, Digits, CharDelimiterSplit */
    PRETOK_BYTE_LEVEL, /* the prefix space and the change of alphabet; its splitting is a PRETOK_SPLIT of its own */
    PRETOK_METASPACE,
    PRETOK_BERT,
    PRETOK_WHITESPACE,
    PRETOK_SCRIPTS,
    PRETOK_FIXED,
} pretok_kind;

typedef enum pretok_behavior {
    PRETOK_REMOVED,
    PRETOK_ISOLATED,
    PRETOK_MERGED_PREVIOUS,
    PRETOK_MERGED_NEXT,
    PRETOK_CONTIGUOUS
} pretok_behavior;

typedef enum pretok_prepend { PRETOK_ALWAYS, PRETOK_FIRST, PRETOK_NEVER } pretok_prepend;

typedef struct pretok_step {
    pretok_kind kind;
    pretok_behavior behavior;
    bool is_inverted;
    scan *scan;                  /* one of these three finds the matches: a compiled scanner, */
    regex *regex;                /* PCRE2, */
    uint64_t mask;               /* or single characters of these properties (uni.h) */
    bool adds_space, maps_bytes; /* PRETOK_BYTE_LEVEL */
    char mark[5];                /* PRETOK_METASPACE: the replacement */
    pretok_prepend prepend;
    bool splits;
    size_t length; /* PRETOK_FIXED */
} pretok_step;

typedef struct pretok {
    pretok_step steps[PRETOK_MAX_STEPS];
    int n;
    /* The last step turns bytes into the byte alphabet and was left out: the model is to take raw bytes. */
    bool ends_in_bytes;
} pretok;

/* A part of the text; `is_first`: it begins where the whole text began. */
typedef struct pretok_piece {
    const char *at;
    size_t bytes;
    bool is_first;
} pretok_piece;

typedef qp_status pretok_sink(void *context, pretok_piece word, qp_error *err);

/* Memory that a call lends. Zero-initialised is ready. */
typedef struct pretok_scratch {
    strbuf text[PRETOK_MAX_STEPS];
    regex_scratch regex;
} pretok_scratch;

/* `json` may be NULL: the text is one word. */
qp_status pretok_parse(pretok *p, const json_t *json, qp_error *err);
/* Adds a Split with a regular expression (for files that name one otherwise). */
qp_status pretok_add_split(pretok *p, span pattern, pretok_behavior behavior, bool is_inverted, qp_error *err);
qp_status pretok_add_metaspace(pretok *p, const char *mark, pretok_prepend prepend, bool splits, qp_error *err);
/* Takes a final change to the byte alphabet off the chain and sets ends_in_bytes. */
void pretok_take_bytes(pretok *p);
void pretok_free(pretok *p);
void pretok_scratch_free(pretok_scratch *s);

qp_status pretok_run(const pretok *p, pretok_scratch *scratch, pretok_piece text, pretok_sink *sink, void *context,
                     qp_error *err);

#endif
