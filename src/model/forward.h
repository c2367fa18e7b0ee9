/* forward.h — one step of a model: ids and pages in, logits out. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "next_step.h"
#include "plan.h"

/* Scratch of the steps of one model, and of those on the devices behind the first. One thread at a time. */
typedef struct forward {
    device *dev;
    struct forward *next; /* for the layers on the next device; NULL: there is none */
    int first_op, end_op; /* of the plan */
    bool has_head;        /* it is the last */
    const model_shape *shape;
    const weights *weights;
    const plan *plan;
    int max_rows;
    float *buffers[BUF_COUNT]; /* device memory, [max_rows][plan->width] */
    float *low;                /* device memory: rows of an adapter's low rank */
    float *picked, *logits;    /* device memory: rows of a block of logits before and after the head, if it has that; on
                                  the host they go to where they are wanted at once */
    float *cos[SHAPE_MAX_ROPES], *sin[SHAPE_MAX_ROPES]; /* device memory, [max_rows][rot_dims / 2] */
    float *host_cos, *host_sin, *inv_freq;              /* [max_rows][rot_dims / 2] twice, [rot_dims / 2] */
    int64_t *positions;                                 /* [max_rows] */
    int32_t *position_ids;                              /* [max_rows], for learned positions */
    float *tuning, *host_tuning; /* [max_rows]: what q is multiplied by, in device memory and here */
    next_step *expected;         /* NULL: of several devices, or one that gains nothing by it */
} forward;

/* On the devices that the weights lie on. */
qp_status forward_open(forward *out, const model_shape *shape, const weights *w, const plan *p, int max_rows,
                       qp_error *err);
void forward_close(forward *f);
/* Bytes of device memory that forward_open takes, for plans, and the widest input that it lets the device reserve room
 * for. `width` as plan_widths has it; logit_rows 0: of a device that has not the head. */
size_t forward_bytes(const model_shape *shape, const int *width, int max_rows, int logit_rows);
int64_t forward_widest(const int *width);
/* Writes logits [n_logit_rows][vocabulary], or of in->digest's rows those that are wanted, and in->states, to host
 * memory when the device has finished. The step's ids
 * must be in the vocabulary and its rows at most max_rows. */
qp_status forward_step(forward *f, const step_input *in, float *logits, qp_error *err);

#endif
