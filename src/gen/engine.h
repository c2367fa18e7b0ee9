/* engine.h — many jobs on one model: the thread that owns the model's steps, the cache and the running jobs.
 *
 * A step goes through five files: sched.c chooses, fill.c writes the rows down, run.c computes, pick.c samples, emit.c
 * shows. Everything in here belongs to the engine's thread, except the inbox and the counters behind `shared`. */
#ifndef GEN_ENGINE_H
#define GEN_ENGINE_H

#include "digests.h"
#include "inbox.h"
#include "pace.h"
#include "base/pool.h"
#include "cache/store.h"
#include "model/model.h"
#include "model/rope.h"

enum { ENGINE_MOST_FORCED = 16 };
enum { ENGINE_MOST_ROOMS = 16, ENGINE_MOST_JOBS = 512 / JOB_LANES };

typedef struct engine_options {
    uint64_t cache_tokens;
    kv_type kv_type;
    int chunk_tokens, max_jobs, max_bypass;
    size_t max_queue;
    double max_stall;
    uint64_t spill_bytes;
    bool no_reuse;
    uint64_t first_serial; /* 1; of jobs, releases, turns: tests begin near the end of the numbers */
} engine_options;

/* Some rows of one lane in this step. */
typedef struct step_part {
    job *job;
    int lane, n_rows;
} step_part;

/* What was chosen for one job: filled on any thread of pick.c, used by emit.c. */
typedef struct pick {
    job *job;
    const float *logits; /* of its first lane; NULL: they are on the device, or there are none */
    int row;             /* of logits, as the device has them; -1: not there */
    sampler_step sampling;
    bool is_prepared; /* `sampling` is filled, or what makes it needless */
    bool is_digested; /* the device was asked for a digest */
    sampler_choice choice;
    bool is_complete;                   /* a filter allows nothing more */
    int32_t forced[ENGINE_MOST_FORCED]; /* [n_forced]: the tokens to take instead of `choice` */
    size_t n_forced;
    qp_status status;
    qp_error error;
} pick;

typedef struct step {
    step_part parts[MODEL_MAX_ROWS];
    int n_parts, n_decode_rows, n_prompt_rows, n_score_rows;
    double prompt_units;
    int32_t ids[MODEL_MAX_ROWS], logit_rows[MODEL_MAX_ROWS], state_rows[MODEL_MAX_ROWS];
    row_span spans[MODEL_MAX_ROWS];
    uint64_t rope_lengths[MODEL_MAX_ROWS];
    const lora_set *adapters[MODEL_MAX_ROWS];
    step_input in;
    job **prompts; /* [max_jobs]: scratch of sched.c */
    pick *picks;   /* [max_jobs] */
    int n_picks;
    double t_begin, model_s;
} step;

typedef struct engine {
    model *model;
    engine_options options;
    kv_store store;
    page_table *pages;
    uint64_t root; /* of all chains: what model and adapter they belong to */
    int window;    /* tokens before a new one that some layer looks at, itself included; 0: all */
    inbox *inbox;
    pthread_t thread;
    bool has_thread;

    job **waiting; /* [n_waiting], in the order in which they shall start */
    size_t n_waiting, waiting_capacity;
    job **running; /* [n_running], in the same order */
    int n_running;
    job *ended;          /* in this step: let go when nothing points to them any more */
    uint64_t n_releases; /* times that pages came free: nobody who did not fit need be tried again before */
    uint64_t rotation;   /* whose turn it is among prompts */
    step step;
    pace pace;
    float *logits; /* [n_logit_rows][vocabulary] */
    size_t n_logit_rows;
    digests digests;
    float *states; /* [n_state_rows][hidden] */
    size_t n_state_rows;
    pool *pool; /* for sampling; NULL until it pays */
    bool pool_failed;
    sampler_room *rooms[ENGINE_MOST_ROOMS]; /* [n_rooms], one for each thread of the pool */
    int n_rooms;

    qp_generator_stats counts; /* the thread's own */
    double t_last_step, t_rates;
    bell shared_bell;
    qp_generator_stats shared; /* copied after each step */
    double shared_t_last_step;
} engine;

qp_status engine_new(engine **out, model *m, const engine_options *options, qp_error *err);
/* Ends all jobs and the thread. */
void engine_free(engine *e);
void engine_get_stats(engine *e, qp_generator_stats *out);
uint64_t engine_capacity(const engine *e); /* tokens */

/* ---- the five parts of a step ---- */

/* Starts jobs and decides which rows run; false: there is nothing to run. */
bool engine_choose(engine *e);
void engine_fill(engine *e);
/* Computes; on failure the jobs of the step have ended. */
bool engine_run(engine *e);
/* Within it, while the device works: what must be known of the logits. `context`: the engine. */
void engine_prepare(void *context);
void engine_list_picks(engine *e);
/* The logits behind a pick; NULL where there are none. */
const float *engine_logits(engine *e, pick *p);
void engine_sample(engine *e);
void engine_emit(engine *e);
/* Wakes the readers whom engine_emit has left for later. */
void engine_tell(engine *e);

/* ---- shared by them ---- */

/* Ends a job, wherever it is; its pages and its place are free when this returns. `logits`: behind its last token, or
 * NULL. */
void engine_end(engine *e, job *j, qp_finish finish, const float *logits);
void engine_fail(engine *e, job *j, qp_status status, const qp_error *why);
/* Takes a new or a preempted job into the queue. */
qp_status engine_enqueue(engine *e, job *j);
/* The lane has nothing in the cache, and computes it from its first token on. */
void engine_open_lane(engine *e, job *j, lane *l);
/* What the keys of a lane hang on besides its ids. */
uint64_t engine_lane_root(const engine *e, const job *j, const lane *l);
/* Length of the sequence as the rotation of the row at `position` sees it. */
uint64_t engine_rope_length(const lane *l, int64_t position);
uint64_t engine_rope_class(const engine *e, uint64_t length);

#endif
