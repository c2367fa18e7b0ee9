/* cpu_trial.h — a small product that a device tries its kernels on when it opens. */
#ifndef DEV_CPU_CPU_TRIAL_H
#define DEV_CPU_CPU_TRIAL_H

#include "cpu.h"

/* A kernel and the room that it needs. */
typedef struct cpu_trial {
    const cpu_matmul_kernel *kernel;
    const dev_weight *w; /* of few enough outputs for one block */
    void *packed, *scratch;
    size_t packed_bytes, scratch_bytes;
} cpu_trial;

/* For up to n_rows. The caller closes it, also if it fails (QP_NO_MEMORY). */
qp_status cpu_trial_open(cpu_trial *t, const cpu_matmul_kernel *kernel, const dev_weight *w, int n_rows, qp_error *err);
/* Rows [n_rows][w->n_in] as the kernel wants them. */
void cpu_trial_pack(const cpu_trial *t, const float *x, int n_rows);
/* out [n_rows][w->n_out]: of the rows that were packed. */
void cpu_trial_run(const cpu_trial *t, int n_rows, cpu_ways ways, float *out);
void cpu_trial_close(cpu_trial *t);

/* Weights of a format whose blocks are a float16 scale, 1 here, and codes, which are drawn: laid for the machine's
 * kernels. The caller gives them back by pack_free; `bytes` of `blocks` stay his. */
qp_status cpu_trial_weight(dev_weight *w, quant_id format, int n_out, int n_in, uint8_t *blocks, size_t bytes,
                           qp_error *err);

/* The next of a row of numbers that look random and are always the same; *state: 1 at first. */
static inline uint32_t cpu_trial_draw(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

#endif
