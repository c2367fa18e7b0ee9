/* match.h — a handful of texts to look for at the end of a growing one: stop texts and banned texts. */
#ifndef GEN_MATCH_H
#define GEN_MATCH_H

#include "base/str.h"

/* Zero-initialised has no texts and finds nothing. */
typedef struct match_set {
    char **texts;  /* [n]; owned; folded if any_case */
    size_t *bytes; /* [n] */
    size_t n;
    bool any_case;
} match_set;

typedef struct match {
    int index; /* of the text */
    size_t at, bytes;
} match;

/* Copies the texts; refuses empty ones. `what` names one of them in errors. */
qp_status match_open(match_set *out, const char *const *texts, size_t n, bool any_case, const char *what,
                     qp_error *err);
void match_close(match_set *m);
/* Letters that have a small form of the same length become it: for texts that are compared in any case. In place. */
void match_fold(char *text, size_t bytes);
/* The match that is complete first; of those that end together the longest. Matches that end within the first `done`
 * bytes were looked for before. False: none. `text` is folded where the set is. */
bool match_find(const match_set *m, span text, size_t done, match *out);
/* Length of the longest end of the text with which some text begins. */
size_t match_tail(const match_set *m, span text);

#endif
