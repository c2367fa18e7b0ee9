/* step.h — what one step of the model is asked to compute: filled by gen/, read by forward.c. */
#ifndef MODEL_STEP_H
#define MODEL_STEP_H

#include "lora.h"

/* Digests of the rows of logits (base/digest.h) instead of the rows. */
typedef struct step_digest {
    float *rows, *changed; /* device memory [n_logit_rows][vocabulary]: where the rows stay, and scratch */
    float *next_rows;      /* where those of the next step will, if it goes on with the same sequences */
    digest_head *heads;    /* device memory [n_logit_rows] */
    digest_body *bodies;   /* likewise, right behind them */
    /* Called while the device works on the layers: fills what follows. */
    void (*prepare)(void *context);
    void *context;
    const digest_order *orders; /* [n_logit_rows]; n 0: nothing is asked; behind them what they point to */
    size_t bytes;
    bool *wants_row;          /* [n_logit_rows]: comes as a whole, too */
    bool wants_bodies;        /* some order wants more than the best */
    bool may_lead;            /* all that is asked is the best of each row, with which the next step will go on */
    digest_head *heads_here;  /* [n_logit_rows]: what came */
    digest_body *bodies_here; /* likewise, right behind them, if wanted */
} step_digest;

enum {
    STEP_ANSWER_BYTES = sizeof(digest_head) + sizeof(digest_body), /* of a row */
    STEP_MOST_LED = 4 /* rows of a step that may begin before its ids are here: then a wrong one costs little */
};

/* Rows that digests of up to n_rows have room for: of few rows those of two steps. */
static inline size_t step_digest_rows(int n_rows) {
    return (size_t)n_rows + (size_t)(n_rows < STEP_MOST_LED ? n_rows : STEP_MOST_LED);
}

/* Device memory of digests of up to n_rows rows: the rows, scratch, heads and bodies. */
static inline uint64_t step_digest_bytes(int n_rows, int vocabulary) {
    const uint64_t row = (uint64_t)vocabulary * sizeof(float), n = (uint64_t)n_rows;
    return step_digest_rows(n_rows) * row + n * (row + STEP_ANSWER_BYTES);
}

typedef struct step_input {
    int n_rows;
    int n_prompt_rows;  /* the last of them: of prompts, whenever these are computed; all others are of answers */
    const int32_t *ids; /* [n_rows] */
    int n_spans;
    const row_span *spans;        /* [n_spans]: cover rows 0 .. n_rows-1 in order */
    const uint64_t *rope_lengths; /* [n_spans]: tokens of the whole sequence (dynamic NTK and longrope look at it): all
                                     of a prompt, however it is cut into steps */
    const lora_set *const *adapters; /* [n_spans]: of each sequence, NULL for none; NULL: none at all */
    int n_logit_rows;
    const int32_t *logit_rows; /* [n_logit_rows], ascending: rows whose logits are wanted */
    const step_digest *digest; /* of a device that makes them; NULL: all rows come */
    int n_state_rows;
    const int32_t *state_rows; /* [n_state_rows], ascending: rows whose hidden state behind the final norm is wanted */
    float *states;             /* [n_state_rows][hidden], host memory: where they go */
    const kv_view *kv;         /* [n_layers] */
} step_input;

static inline bool step_has_adapters(const step_input *in) {
    for (int i = 0; in->adapters && i < in->n_spans; i++)
        if (in->adapters[i]) return true;
    return false;
}

#endif
