/* job.h — one prompt and its continuation: what it wants, what it has, and who may touch which part of it.
 *
 * A job has two owners: the client's handle and the engine. Of its fields the client's threads touch only the mailbox
 * (behind its lock) and the atomics; everything else is written before the job is submitted and belongs to the
 * engine's thread from then until the job has ended. */
#ifndef GEN_JOB_H
#define GEN_JOB_H

#include "embed.h"
#include "hold.h"
#include "loop.h"
#include "score.h"
#include "cache/pages.h"
#include "model/lora.h"
#include "sample/chain.h"
#include "text/detok.h"
#include <stdatomic.h>

typedef struct inbox inbox;

/* One sequence of the job: the prompt with its answer or, for guidance, the negative prompt with the same answer. */
typedef struct lane {
    chain chain;
    int32_t *ids; /* [capacity]: the prompt, then the answer so far */
    size_t n, n_prompt, capacity;
    size_t n_cached; /* tokens found in the cache when it was last opened */
} lane;

enum { JOB_LANES = 2 };

/* A token that was tried at a place of the answer and led to a banned text. */
typedef struct blocked {
    size_t place;
    int32_t id;
} blocked;

/* What the client asked for. Arrays are borrowed until job_new returns. */
typedef struct job_setup {
    const tok *tok; /* NULL: the model has no tokenizer */
    int vocabulary;
    const int32_t *ids, *negative_ids;
    size_t n_ids, n_negative_ids;
    size_t max_new_tokens; /* at least 1: what fits is settled before */
    size_t min_new_tokens;
    bool limited; /* max_new_tokens is the client's, not the cache's */
    bool show_special, heal, score_prompt, no_reuse;
    qp_pooling pooling;
    int hidden; /* width of the model's hidden states */
    sampler_setup sampling;
    const int32_t *end_ids; /* tokens that end the job */
    size_t n_end_ids;
    const int32_t *eos_ids; /* the model's end tokens, also where they do not end the job */
    size_t n_eos_ids;
    const qp_filter *filters;
    size_t n_filters;
    hold_setup hold;
    mailbox_setup mailbox;
    int priority, loop_repeats;
    double max_queue_s, max_total_s; /* 0: none */
    lora_set adapters;
} job_setup;

typedef struct job job;
struct job {
    atomic_int owners;
    atomic_bool is_cancelled;
    inbox *inbox; /* held; the engine may be gone */
    mailbox mailbox;
    /* what qp_job_get_progress tells */
    atomic_int state; /* qp_job_state */
    atomic_size_t prompt_done, new_tokens, pages, queue_place, cached;
    score score; /* of the prompt: written by the engine, read as far as it is done */
    embed embed; /* likewise; by the reader only when the job has ended */
    size_t n_prompt;
    int32_t *prompt; /* [n_prompt], for the client */

    /* the engine's from here on */
    job *next; /* on its way through the inbox */
    uint64_t serial;
    int priority;
    lane lanes[JOB_LANES];
    int n_lanes;
    lora_set adapters;
    size_t max_new_tokens, min_new_tokens;
    int32_t *end_ids;
    size_t n_end_ids;
    sampler *sampler;
    uint32_t *sets[2]; /* the sampler's own, if it has such */
    qp_filter *filters;
    size_t n_filters;
    bool may_force; /* nothing but the only filter has a say in which tokens may come, and nobody asks how likely */
    uint32_t *mask; /* [(vocabulary + 31) / 32]: what filters and healing allow; NULL: neither */
    uint32_t *heal_mask;
    size_t heal_bytes, heal_left; /* of the first text are in the prompt already; of them not left out yet */
    detok *detok, *detok_base;    /* after all tokens; before the held ones (only with banned texts) */
    hold hold;
    loop_watch loop;
    int32_t *banned; /* scratch of a step: end tokens and blocked ones */
    blocked *blocked;
    size_t n_blocked, blocked_capacity, n_taken_back;
    qp_candidate *top; /* [n_top]: of the token being chosen */
    mailbox_setup wants;
    int n_bypassed;
    uint64_t tried_at; /* engine's n_releases when it last did not fit */
    bool is_running;   /* has a place among the running: pages and rows of steps */
    bool wants_tokens, no_reuse;
    int logit_row[JOB_LANES]; /* of this step; -1: none */
    double t_submitted, t_started, t_prefilled, t_first, queue_deadline, deadline;
    job_end end;
    bool has_ended;
};

/* Refuses settings that mean nothing. On failure the filters are not freed. */
qp_status job_new(job **out, const job_setup *setup, inbox *inbox, qp_error *err);
/* The job owns these sets of its sampler from now on; either may be NULL. */
void job_take_sets(job *j, uint32_t *dry_breakers, uint32_t *xtc_keep);
/* One owner lets go; the last frees. */
void job_let_go(job *j);
void job_cancel(job *j);

/* Must all of the prompt be computed, whatever the cache holds? */
static inline bool job_is_private(job *j) {
    return j->no_reuse || score_is_open(&j->score) || embed_needs_all(&j->embed);
}

static inline size_t job_new_tokens(const job *j) { return j->lanes[0].n - j->lanes[0].n_prompt; }
/* By the engine: an id more in all lanes. */
qp_status job_append(job *j, int32_t id, qp_error *err);
/* By the engine at the end: gives back all that is not the client's. */
void job_strip(job *j);

#endif
