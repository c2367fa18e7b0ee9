/* cpu_tune.c — what a processor likes that only a clock can tell, asked when a device opens.
 *
 * Products in pairs (quant_pairs.inc) trade products for additions. Whether that is faster hangs on which units of a
 * processor do what: on AMD's Zen 4 they take 0.83 of the time, where one unit does both they would take 1.5. Both ways
 * give the same bits, so a choice that a busy machine got wrong costs time and nothing else. A small product runs in
 * both, in turns, a few times, a third of a millisecond in all; the least time of each counts. */
#include "cpu.h"
#include "pack.h"
#include "base/clock.h"
#include "base/mem.h"
#include <string.h>

enum { N_IN = 256, N_OUT = 96, N_ROWS = 64, ROUNDS = 9, BLOCK = 32, BLOCK_BYTES = 2 + BLOCK / 2, ONE_F16 = 0x3C00 };

typedef struct trial {
    uint8_t weights[N_OUT * N_IN / BLOCK * BLOCK_BYTES]; /* Q4_0 */
    float x[N_ROWS * N_IN], out[2][N_ROWS * N_OUT];      /* out: without and with pairs */
    double least[2];                                     /* seconds */
    dev_weight w;
    void *packed, *scratch;
} trial;

static void fill(trial *t) {
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof t->weights; i++) {
        const size_t at = i % BLOCK_BYTES;
        state = state * 1664525u + 1013904223u;
        t->weights[i] = (uint8_t)(at == 0 ? ONE_F16 & 0xFF : at == 1 ? ONE_F16 >> 8 : state >> 24);
    }
    for (int i = 0; i < N_ROWS * N_IN; i++) {
        state = state * 1664525u + 1013904223u;
        t->x[i] = (float)((int)(state >> 16 & 1023) - 512);
    }
    t->least[0] = t->least[1] = 1e9;
}

static void run_once(trial *t, const cpu_matmul_kernel *kernel, bool pairs) {
    const cpu_matmul_block b = {.w = &t->w,
                                .x = t->packed,
                                .n_packed = N_ROWS,
                                .n_rows = N_ROWS,
                                .n_columns = N_OUT,
                                .out = t->out[pairs],
                                .out_stride = N_OUT,
                                .ways = {.pairs = pairs},
                                .scratch = t->scratch};
    const double begin = clock_now();
    kernel->run(&b);
    const double seconds = clock_now() - begin;
    if (seconds < t->least[pairs]) t->least[pairs] = seconds;
}

/* A way whose result is another is not trusted. */
static bool prefers_pairs(trial *t, const cpu_matmul_kernel *kernel) {
    kernel->pack(t->packed, t->x, N_IN, N_ROWS, N_IN, 0, N_ROWS);
    for (int i = 0; i < 2 * ROUNDS; i++) run_once(t, kernel, i % 2);
    return t->least[1] < t->least[0] && !memcmp(t->out[0], t->out[1], sizeof t->out[0]);
}

static qp_status compare(bool *pairs, trial *t, const cpu_matmul_kernel *kernel, pool *p, qp_error *err) {
    const quant_type *type = quant_type_of(QUANT_Q4_0);
    const size_t packed_bytes = kernel->packed_bytes(N_ROWS, N_IN), scratch_bytes = kernel->scratch_bytes(N_IN);
    t->w = (dev_weight){.type = type, .n_out = N_OUT, .n_in = N_IN};
    t->w.stored = (quant_matrix){.type = type, .n_out = N_OUT, .n_in = N_IN, .parts = {t->weights}};
    t->w.stored.part_bytes[0] = sizeof t->weights;
    ERR_TRY(pack_weight(&t->w, p, NULL, err));
    t->packed = mem_big(packed_bytes);
    t->scratch = mem_big(scratch_bytes);
    const bool ready = t->packed && t->scratch;
    if (ready) *pairs = prefers_pairs(t, kernel);
    mem_big_free(t->packed, packed_bytes);
    mem_big_free(t->scratch, scratch_bytes);
    pack_free(&t->w);
    return ready ? QP_OK : err_no_memory(err, packed_bytes + scratch_bytes, "a trial of the matrix products");
}

qp_status cpu_matmul_tune(cpu_ways *ways, const cpu_matmul_ops *ops, qp_error *err) {
    ways->pairs = false;
    if (!ops->grouped || !ops->grouped->has_pairs) return QP_OK;
    pool *p = NULL;
    trial *t = MEM_NEW(trial);
    if (!t) return err_no_memory(err, sizeof *t, "a trial of the matrix products");
    fill(t);
    qp_status status = pool_new(&p, 1, false, err);
    if (status == QP_OK) status = compare(&ways->pairs, t, ops->grouped, p, err);
    pool_free(p);
    mem_free(t);
    return status;
}
