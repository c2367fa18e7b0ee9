/* norm.h — normalisers: text to text, before it is split. Made from the "normalizer" of tokenizer.json. */
#ifndef TEXT_NORM_H
#define TEXT_NORM_H

#include "base/json.h"
#include "charsmap.h"
#include "nform.h"
#include "regex.h"

enum { NORM_MAX_STEPS = 32 };

typedef enum norm_kind {
    NORM_FORM,
    NORM_LOWERCASE,
    NORM_STRIP,
    NORM_STRIP_ACCENTS,
    NORM_REPLACE,
    NORM_PREPEND,
    NORM_APPEND,
    NORM_CHARSMAP,
    NORM_BERT,
    NORM_NMT,
    NORM_BYTE_LEVEL
} norm_kind;

typedef struct norm_step {
    norm_kind kind;
    nform form;
    bool left, right;                                         /* NORM_STRIP */
    bool cleans, handles_chinese, strips_accents, lowercases; /* NORM_BERT */
    regex *regex;                                             /* NORM_REPLACE by expression, else by `from` */
    char *from, *text;                                        /* NORM_REPLACE; text: NORM_PREPEND, NORM_APPEND too */
    size_t from_bytes, text_bytes;
    charsmap map;
} norm_step;

typedef struct norm {
    norm_step steps[NORM_MAX_STEPS];
    int n;
} norm;

/* Memory that a call lends. Zero-initialised is ready. */
typedef struct norm_scratch {
    strbuf text[2];
    regex_scratch regex;
} norm_scratch;

/* `json` may be NULL: nothing changes. */
qp_status norm_parse(norm *n, const json_t *json, qp_error *err);
void norm_free(norm *n);
void norm_scratch_free(norm_scratch *s);
/* *out is `text` itself or lies in the scratch until the next call. *front_moved: the first character that is left
 * does not stem from the first one of the text. */
qp_status norm_run(const norm *n, norm_scratch *s, span text, span *out, bool *front_moved, qp_error *err);

#endif
