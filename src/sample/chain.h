/* chain.h — a row of logits, settings and what was said so far -> the id of the next token.
 *
 * gen/ has one sampler for each job (its settings and the state that outlives a step) and one sampler_room for each
 * thread that samples (the scratch of a step). A choice is a function of the sampler's setup, the step and the earlier
 * steps of the same answer alone: not of the room, the thread, the machine's instruction set or other jobs. */
#ifndef SAMPLE_CHAIN_H
#define SAMPLE_CHAIN_H

#include "base/digest.h"
#include "base/err.h"

/* QP_BAD_ARGUMENT by name for values that mean nothing (NaN, negative counts). */
qp_status sampling_check(const qp_sampling *settings, qp_error *err);

enum { SAMPLER_MOST_TOKENS = 1 << 26 };

/* Room for one step's work: one per thread that samples. */
typedef struct sampler_room sampler_room;
qp_status sampler_room_new(sampler_room **out, int n_vocabulary, qp_error *err);
void sampler_room_free(sampler_room *r);

/* What one job's sampling is; copied, but for the two that say otherwise. */
typedef struct sampler_setup {
    qp_sampling settings;
    int n_vocabulary; /* of the logits */
    int n_tokens;     /* ids from here on have no token: never chosen; 0: n_vocabulary */
    const qp_bias *bias;
    size_t n_bias;
    const int32_t *allow; /* none: all */
    size_t n_allow;
    const int32_t *ban;
    size_t n_ban;
    const uint32_t *dry_breakers; /* bit per id [(n_vocabulary + 31) / 32], lives as long as the sampler; NULL: none */
    const uint32_t *xtc_keep;     /* likewise: what XTC never removes */
    bool wants_p;                 /* sampler_choice.p and .logprob are filled */
    int n_top;
} sampler_setup;

/* One job's state. */
typedef struct sampler sampler;
/* Checks everything; what is wrong is named. */
qp_status sampler_new(sampler **out, const sampler_setup *setup, qp_error *err);
void sampler_free(sampler *s);

typedef struct sampler_step {
    const float *logits;          /* [n_vocabulary], untouched */
    const float *negative_logits; /* guidance: of the negative prompt; NULL: none */
    const int32_t *history;       /* prompt and answer so far */
    size_t n_history, n_prompt;
    uint64_t position;  /* of the token in its answer: the random number is a function of seed and this alone */
    const int32_t *ban; /* in this step only (taken-back texts, end tokens before min_new_tokens) */
    size_t n_ban;
    const uint32_t *allow_mask; /* filters: bit per id [(n_vocabulary + 31) / 32]; NULL: all */
} sampler_step;

typedef enum sampler_reason {
    SAMPLER_OK,
    SAMPLER_BROKEN_LOGITS, /* no logit is a number, or one that is allowed is infinite */
    SAMPLER_ALL_FORBIDDEN
} sampler_reason;

typedef struct sampler_choice {
    int32_t id; /* -1: nothing can be chosen */
    sampler_reason reason;
    float p, logprob;  /* after all stages; the model's own before any. 0 unless asked for */
    qp_candidate *top; /* the caller's array [n_top of the setup], filled by falling logprob; NULL: not wanted */
    int n_top;         /* filled */
} sampler_choice;

/* Chooses, and notes what the state needs (mirostat). The room is of the same vocabulary. */
void sampler_choose(sampler *s, sampler_room *room, const sampler_step *step, sampler_choice *out);

/* ---- of a row that is not here ---- */

/* Where an order writes what it wants changed and allowed. */
typedef struct sampler_space {
    digest_change *changes;
    size_t n_changes; /* that there is room for; then: that there are */
    uint32_t *mask;   /* [(n_vocabulary + 31) / 32] */
} sampler_space;

/* What must be known of the row of this step, whose logits nobody has seen yet; all but the places of changes and mask
 * is filled. False: nothing but the row itself will do. */
bool sampler_order(sampler *s, sampler_room *room, const sampler_step *step, digest_order *out, sampler_space *space);
/* The choice that sampler_choose would make, out of the digest. False: it does not tell; nothing has changed. */
bool sampler_choose_from(sampler *s, sampler_room *room, const sampler_step *step, const digest_order *order,
                         const digest_head *head, const digest_body *body, sampler_choice *out);
/* Makes the state what it was when the answer had n_new tokens (banned texts are taken back). */
void sampler_rewind(sampler *s, size_t n_new);

#endif
