/* cpu_tune.c — what a processor likes that only a clock can tell, asked when a device opens.
 *
 * Products in pairs (quant_pairs.inc) trade products for additions. Whether that is faster hangs on which units of a
 * processor do what: on AMD's Zen 4 they take 0.83 of the time, where one unit does both they would take 1.5. Both ways
 * give the same bits, so a choice that a busy machine got wrong costs time and nothing else. A small product runs in
 * both, in turns, a few times, a third of a millisecond in all; the least time of each counts. */
#include "cpu_trial.h"
#include "pack.h"
#include "base/clock.h"
#include "base/mem.h"
#include <string.h>

enum { N_IN = 256, N_OUT = 96, N_ROWS = 64, ROUNDS = 9, BLOCK = 32, BLOCK_BYTES = 2 + BLOCK / 2 };

typedef struct contest {
    uint8_t weights[N_OUT * N_IN / BLOCK * BLOCK_BYTES]; /* Q4_0 */
    float x[N_ROWS * N_IN], out[2][N_ROWS * N_OUT];      /* out: without and with pairs */
    double least[2];                                     /* seconds */
} contest;

static void fill(contest *c) {
    uint32_t state = 1;
    for (int i = 0; i < N_ROWS * N_IN; i++) c->x[i] = (float)((int)(cpu_trial_draw(&state) >> 16 & 1023) - 512);
    c->least[0] = c->least[1] = 1e9;
}

static void run_once(contest *c, const cpu_trial *t, bool pairs) {
    const double begin = clock_now();
    cpu_trial_run(t, N_ROWS, (cpu_ways){.pairs = pairs}, c->out[pairs]);
    const double seconds = clock_now() - begin;
    if (seconds < c->least[pairs]) c->least[pairs] = seconds;
}

/* A way whose result is another is not trusted. */
static bool prefers_pairs(contest *c, const cpu_trial *t) {
    cpu_trial_pack(t, c->x, N_ROWS);
    for (int i = 0; i < 2 * ROUNDS; i++) run_once(c, t, i % 2);
    return c->least[1] < c->least[0] && !memcmp(c->out[0], c->out[1], sizeof c->out[0]);
}

static qp_status compare(bool *pairs, contest *c, const cpu_matmul_kernel *kernel, qp_error *err) {
    dev_weight w;
    cpu_trial t;
    ERR_TRY(cpu_trial_weight(&w, QUANT_Q4_0, N_OUT, N_IN, c->weights, sizeof c->weights, err));
    const qp_status status = cpu_trial_open(&t, kernel, &w, N_ROWS, err);
    if (status == QP_OK) *pairs = prefers_pairs(c, &t);
    cpu_trial_close(&t);
    pack_free(&w);
    return status;
}

qp_status cpu_matmul_tune(cpu_ways *ways, const cpu_matmul_ops *ops, qp_error *err) {
    ways->pairs = false;
    if (!ops->grouped || !ops->grouped->has_pairs) return QP_OK;
    contest *c = MEM_NEW(contest);
    if (!c) return err_no_memory(err, sizeof *c, "a trial of the matrix products");
    fill(c);
    const qp_status status = compare(&ways->pairs, c, ops->grouped, err);
    mem_free(c);
    return status;
}
