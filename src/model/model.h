/* model.h — a model opened on its devices: shape, weights, plan and the scratch of its steps. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "forward.h"
#include "memory.h"
#include "split.h"
#include "synth.h"
#include "tensors.h"
#include <pthread.h>

enum { MODEL_MAX_ROWS = DEV_MOST_ROWS }; /* rows of one step of any device; forward.max_rows: of this model's */

typedef struct model {
    model_shape shape;
    const arch_row *arch;
    dev_split split;
    device *dev;            /* the first of them */
    checkpoint *checkpoint; /* NULL: synthetic */
    tensor_source tensors;
    synth synth;
    weights weights;
    plan plan;
    memory_plan memory[DEV_MOST_SHARES];   /* of each device */
    memory_unpacked unpacked[QUANT_COUNT]; /* on devices with memory of their own */
    forward forward;
    pthread_mutex_t step_lock; /* one step at a time */
    hf_ids ids;
    hf_sampling sampling;
} model;

typedef struct model_options {
    dev_options device;
    const char *split; /* as split_read knows it */
    double rope_scale, rope_alpha, rope_yarn;
    const char *pack_cache;   /* NULL: none; see pack_place.h */
    const char *architecture; /* to use whatever the config says; NULL: as it says */
    void (*progress)(void *user, double done, double total);
    void *progress_user;
    bool plan_only; /* the model knows its shape, device and memory plan, and nothing is loaded */
} model_options;

qp_status model_open(model **out, const char *folder, const model_options *options, qp_error *err);
qp_status model_synthesize(model **out, const char *shape, const char *format, uint64_t seed,
                           const model_options *options, qp_error *err);
void model_close(model *m);
/* A number that tells models apart whose keys and values differ: shape, rotation, precision, a sample of the weights.
 */
uint64_t model_identity(const model *m);
/* forward_step under the lock. */
qp_status model_step(model *m, const step_input *in, float *logits, qp_error *err);

#endif
