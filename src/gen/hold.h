/* hold.h — what a job has written and not shown yet: text that may still become a stop text or a banned one, and the
 * tokens that it came from. */
#ifndef GEN_HOLD_H
#define GEN_HOLD_H

#include "mailbox.h"
#include "match.h"

typedef struct held_token {
    mailbox_item item; /* top and logits point into the hold */
    uint64_t end;      /* bytes of the answer up to and with its text */
    bool is_open;      /* its text is not settled yet: half a character */
} held_token;

typedef struct hold {
    match_set stops, bans;
    strbuf text, folded;          /* not shown yet; folded only where there are bans */
    size_t stops_done, bans_done; /* bytes of text known to end no match */
    uint64_t shown;               /* bytes of the answer before text */
    held_token *tokens;           /* [n_tokens] */
    qp_candidate *top;            /* [capacity][n_top] */
    float *logits;                /* [capacity][n_logits] */
    size_t n_tokens, capacity, n_logits;
    int n_top;
} hold;

typedef struct hold_setup {
    const char *const *stops, *const *bans;
    size_t n_stops, n_bans;
    int n_top;
    size_t n_logits;
} hold_setup;

qp_status hold_open(hold *h, const hold_setup *setup, qp_error *err);
void hold_close(hold *h);
/* One token more. `settled`: text is all that it and the open tokens before it say; else it is empty and more is to
 * come. Copies all. */
qp_status hold_add(hold *h, const mailbox_item *item, span text, bool settled, qp_error *err);
/* Text without a token: what was held back at the end of everything. */
qp_status hold_add_rest(hold *h, span text, qp_error *err);

/* Which token (0: the first held) the beginning of a complete banned text belongs to; -1: none is complete. */
int64_t hold_find_banned(hold *h);
/* A complete stop text: its number and where in the text it begins; -1: none. */
int hold_find_stop(hold *h, size_t *at);
/* Takes back the tokens from `token` on, and their text. */
void hold_cut(hold *h, size_t token);
/* How much may be shown now: bytes of text, and the tokens whose text lies wholly in them. `all`: nothing more can
 * change. */
void hold_ready(const hold *h, bool all, size_t *bytes, size_t *n_tokens);
/* As hold_ready, for the first `bytes` of the text. */
size_t hold_tokens_within(const hold *h, size_t bytes);
/* Forgets what was shown. */
void hold_drop(hold *h, size_t bytes, size_t n_tokens);

#endif
