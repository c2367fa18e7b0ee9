/* cpu_trial.c — a small product by one kernel: its room, its weights, and running it.
 *
 * See cpu_trial.h. Used by cpu_check.c, which looks whether a kernel's results are right, and cpu_tune.c, which looks
 * at the clock. */
#include "cpu_trial.h"
#include "pack.h"
#include "base/mem.h"

enum { BLOCK = 32, ONE_F16 = 0x3C00 };

qp_status cpu_trial_open(cpu_trial *t, const cpu_matmul_kernel *kernel, const dev_weight *w, int n_rows,
                         qp_error *err) {
    *t = (cpu_trial){.kernel = kernel,
                     .w = w,
                     .packed_bytes = kernel->packed_bytes(n_rows, w->n_in),
                     .scratch_bytes = kernel->scratch_bytes(w->n_in)};
    t->packed = mem_big(t->packed_bytes);
    t->scratch = mem_big(t->scratch_bytes);
    if (t->packed && t->scratch) return QP_OK;
    return err_no_memory(err, t->packed_bytes + t->scratch_bytes, "a trial of the matrix products");
}

void cpu_trial_pack(const cpu_trial *t, const float *x, int n_rows) {
    t->kernel->pack(t->packed, x, t->w->n_in, n_rows, t->w->n_in, 0, n_rows);
}

void cpu_trial_run(const cpu_trial *t, int n_rows, cpu_ways ways, float *out) {
    t->kernel->run(&(cpu_matmul_block){
        .w = t->w,
        .x = t->packed,
        .n_packed = n_rows,
        .n_rows = n_rows,
        .n_columns = (int)t->w->n_out,
        .out = out,
        .out_stride = t->w->n_out,
        .ways = ways,
        .scratch = t->scratch,
    });
}

void cpu_trial_close(cpu_trial *t) {
    mem_big_free(t->packed, t->packed_bytes);
    mem_big_free(t->scratch, t->scratch_bytes);
    *t = (cpu_trial){0};
}

static void draw_blocks(uint8_t *blocks, size_t bytes, size_t block_bytes) {
    uint32_t state = 1;
    for (size_t i = 0; i < bytes; i++) {
        const size_t at = i % block_bytes;
        const uint32_t drawn = cpu_trial_draw(&state);
        blocks[i] = (uint8_t)(at == 0 ? ONE_F16 & 0xFF : at == 1 ? ONE_F16 >> 8 : drawn >> 24);
    }
}

qp_status cpu_trial_weight(dev_weight *w, quant_id format, int n_out, int n_in, uint8_t *blocks, size_t bytes,
                           qp_error *err) {
    const quant_type *type = quant_type_of(format);
    pool *p = NULL;
    draw_blocks(blocks, bytes, bytes / ((size_t)n_out * (size_t)n_in / BLOCK));
    *w = (dev_weight){.type = type, .n_out = n_out, .n_in = n_in};
    w->stored = (quant_matrix){.type = type, .n_out = n_out, .n_in = n_in, .parts = {blocks}};
    w->stored.part_bytes[0] = bytes;
    ERR_TRY(pool_new(&p, 1, false, err));
    const qp_status status = pack_weight(w, p, NULL, err);
    pool_free(p);
    return status;
}
