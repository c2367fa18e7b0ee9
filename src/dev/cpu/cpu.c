/* cpu.c — opening and closing the CPU device: its level, its threads, its memory and weights.
 *
 * Called through dev.c. Device memory is plain memory and ops run to their end, so upload and download are copies
 * and finish has nothing to wait for. Plain weights stay in the mapping that they came from. */
#include "coded.h"
#include "cpu.h"
#include "pack.h"
#include "rounded.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

/* ---- memory and weights ---- */

enum { STEP_ROWS = 512, LOGIT_ROWS = 32 }; /* a vocabulary of 256k must not cost a gigabyte of scratch */

static qp_status take(device *d, void **out, size_t bytes, qp_error *err) {
    *out = mem_big(bytes);
    return *out ? QP_OK : err_no_memory(err, bytes, "device memory");
}

static void give(device *d, void *memory, size_t bytes) { mem_big_free(memory, bytes); }

static void copy(device *d, void *to, const void *from, size_t bytes) {
    if (bytes) memcpy(to, from, bytes);
}

static void copy_blocks(device *d, const copy_args *a) {
    for (int i = 0; i < a->n_blocks; i++)
        copy(d, (uint8_t *)a->to + (size_t)i * a->stride, (const uint8_t *)a->from + (size_t)i * a->stride, a->bytes);
}

static qp_status weight_open(device *d, dev_weight *out, const quant_matrix *m, qp_error *err) {
    *out = (dev_weight){0};
    size_t bytes = 0;
    const bool by_rows = m->type->bytes != NULL; /* others have been checked by quant_open */
    if (m->n_out < 1 || m->n_in < 1 || m->n_in > INT32_MAX || (by_rows && !m->type->bytes(&bytes, m->n_out, m->n_in)))
        return err_set(err, QP_BAD_ARGUMENT, 0, "weights: a matrix of %lld x %lld, allowed are 1 and more",
                       (long long)m->n_out, (long long)m->n_in);
    if (m->part_bytes[0] < bytes)
        return err_set(err, QP_BAD_FORMAT, 0, "weights: %zu bytes for %lld x %lld of %s, which takes %zu",
                       m->part_bytes[0], (long long)m->n_out, (long long)m->n_in, m->type->name, bytes);
    *out = (dev_weight){.type = m->type, .n_out = m->n_out, .n_in = m->n_in, .data = m->parts[0], .stored = *m};
    return QP_OK;
}

/* Kernels for whole numbers round activations, so `exact` does without; those for floats by code do not. */
static qp_status weight_pack(device *d, dev_weight *w, qp_error *err) {
    const cpu_device *c = cpu_of(d);
    if (w->owned || w->use == DEV_USE_LOOKUP) return QP_OK;
    if (!d->exact && c->matmul.grouped) ERR_TRY(pack_weight(w, c->pool, c->cache, err));
    if (!d->exact && w->use != DEV_USE_EXACT && c->matmul.round_f16)
        ERR_TRY(rounded_open(w, &c->matmul, c->pool, c->cache, err));
    return w->packed ? QP_OK : coded_open(w, c->matmul.coded, c->pool, err);
}

static void weights_end(device *d) { pack_cache_settle(cpu_of(d)->cache); }

static void weight_close(device *d, dev_weight *w) {
    if (w->packed)
        pack_free(w);
    else if (rounded_is(w))
        rounded_close(w);
    else
        coded_close(w);
    *w = (dev_weight){0};
}

static qp_status reserve(device *d, int max_rows, int64_t max_in, qp_error *err) {
    if (max_rows < 1 || max_in < 1)
        return err_set(err, QP_BAD_ARGUMENT, 0, "device: room for %d rows of %lld, allowed are 1 and more", max_rows,
                       (long long)max_in);
    return cpu_matmul_reserve(cpu_of(d), max_rows, max_in, err);
}

static qp_status finish(device *d, qp_error *err) { return QP_OK; }

static void shut(device *d) {
    cpu_device *c = cpu_of(d);
    mem_big_free(c->scratch, c->scratch_bytes * (size_t)d->threads);
    mem_big_free(c->packed, c->packed_bytes);
    mem_big_free(c->parts, CPU_PARTS_BYTES);
    pack_cache_close(c->cache);
    pool_free(c->pool);
    mem_free(c);
}

static const dev_ops ops = {
    .kind = "cpu",
    .close = shut,
    .take = take,
    .give = give,
    .upload = copy,
    .download = copy,
    .weight_open = weight_open,
    .weight_pack = weight_pack,
    .weights_end = weights_end,
    .weight_close = weight_close,
    .reserve = reserve,
    .embed = cpu_embed,
    .norm = cpu_norm,
    .matmul = cpu_matmul,
    .rope_store = cpu_rope_store,
    .latent_store = cpu_latent_store,
    .attend = cpu_attend,
    .gate = cpu_gate,
    .clamped_gate = cpu_clamped_gate,
    .xielu = cpu_xielu,
    .add = cpu_add,
    .limit = cpu_limit,
    .route = cpu_route,
    .experts = cpu_experts,
    .copy = copy_blocks,
    .finish = finish,
};

/* ---- the level ---- */

/* Tables are nothing but pointers: those that a level has replace those of the level below. */
static void lay_over(void *to, const void *from, size_t bytes) {
    static const void *const none;
    for (size_t i = 0; from && i < bytes; i += sizeof none)
        if (memcmp((const uint8_t *)from + i, &none, sizeof none))
            memcpy((uint8_t *)to + i, (const uint8_t *)from + i, sizeof none);
}

/* Takes the tables of each level up to `index` that the processor has. */
static void set_level(cpu_device *c, int index, const cpu_features *features) {
    c->matmul = (cpu_matmul_ops){0};
    c->row = (cpu_row_ops){0};
    c->attend = (cpu_attend_ops){0};
    for (int i = 0; i <= index; i++) {
        const cpu_level *level = cpu_level_at(i);
        if (!level->usable(features)) continue;
        lay_over(&c->matmul, level->matmul, sizeof c->matmul);
        lay_over(&c->matmul, level->quant, sizeof c->matmul);
        lay_over(&c->row, level->row, sizeof c->row);
        lay_over(&c->attend, level->attend, sizeof c->attend);
    }
    snprintf(c->head.level, sizeof c->head.level, "%s", cpu_level_at(index)->name);
}

/* A level whose products are wrong on this machine (tiles that a hypervisor half supports, say) is not used. */
static qp_status choose_level(cpu_device *c, const dev_options *options, qp_error *err) {
    cpu_features features;
    cpu_detect(&features);
    int index;
    ERR_TRY(cpu_level_find(&index, options->cpu_level, &features, err));
    c->ways = cpu_level_ways(&features);
    for (;;) {
        bool right;
        set_level(c, index, &features);
        ERR_TRY(cpu_matmul_check(&right, &c->matmul, err));
        if (right) return cpu_matmul_tune(&c->ways, &c->matmul, err);
        if (options->cpu_level)
            return err_set(err, QP_UNSUPPORTED, 0, "cpu level: %s multiplies wrongly on this machine",
                           options->cpu_level);
        log_line(&c->log, QP_LOG_WARN, "cpu level %s multiplies wrongly on this machine: the one below is used",
                 c->head.level);
        do index--;
        while (!cpu_level_at(index)->usable(&features));
    }
}

/* ---- opening ---- */

static qp_status prepare(cpu_device *c, const dev_options *options, qp_error *err) {
    ERR_TRY(choose_level(c, options, err)); /* before the threads: they inherit the permission to use tiles */
    ERR_TRY(pool_new(&c->pool, options->threads, options->pin_threads, err));
    c->head.threads = pool_threads(c->pool);
    c->scratch_bytes = CPU_SCRATCH_BYTES;
    c->scratch = mem_big(c->scratch_bytes * (size_t)c->head.threads);
    if (!c->scratch) return err_no_memory(err, c->scratch_bytes, "a worker's scratch memory");
    c->parts_bytes = CPU_PARTS_BYTES;
    c->parts = mem_big(CPU_PARTS_BYTES);
    if (!c->parts) return err_no_memory(err, CPU_PARTS_BYTES, "room for attention over long contexts");
    if (!options->pack_path) return QP_OK;
    ERR_TRY(pack_cache_open(&c->cache, options->pack_path, options->pack_source, c->pool, &c->log, err));
    c->head.has_packs = pack_cache_is_full(c->cache);
    return QP_OK;
}

qp_status cpu_open(device **out, const dev_options *options, qp_error *err) {
    *out = NULL;
    cpu_device *c = MEM_NEW(cpu_device);
    if (!c) return err_no_memory(err, sizeof *c, "the CPU device");
    c->log = options->log;
    c->head = (device){.ops = &ops,
                       .name = "cpu",
                       .exact = options->exact,
                       .is_host = true,
                       .kv_types = (1 << KV_TYPES) - 1,
                       .most_rows = STEP_ROWS,
                       .logit_rows = LOGIT_ROWS};
    const qp_status status = prepare(c, options, err);
    if (status == QP_OK)
        *out = &c->head;
    else
        shut(&c->head);
    return status;
}
