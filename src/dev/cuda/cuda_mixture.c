/* cuda_mixture.c — the packed experts of a layer: tables of them that stay on the GPU, and their products.
 *
 * Called by cuda_experts.c; calls cuda_packed.c and launch.c. A model has thousands of experts whose addresses never
 * change, so what kernels must know of them is not sent with each step: it is written once, when a layer's experts are
 * first seen, into memory that was reserved when the last of them had been loaded. Experts that are stored in different
 * ways are multiplied by a launch each way, whose blocks pass by the others. */
#include "cuda_mixture.h"
#include "base/mem.h"
#include <string.h>

enum { ROWS_THREADS = 256, SIZES = 3, BLOCK_BYTES = 1024 /* that a block takes beside what it asks for */ };

/* ---- tables ---- */

static const cuda_weight *weight_of(const expert_weights *w, int e) { return w->w[e].packed; }

static void fail(cuda_device *c, qp_status code, const char *text) {
    if (c->failure.code == QP_OK) err_set(&c->failure, code, 0, "cuda: %s", text);
}

/* The family of an expert, which may be a new one; negative: there are too many. */
static int family_of(cuda_projection *of, const cuda_packed *p) {
    int i = 0;
    while (i < of->n_families && of->families[i].few != p->few) i++;
    if (i == MIXTURE_FAMILIES) return -1;
    if (i == of->n_families) of->families[of->n_families++] = *p;
    cuda_packed *family = &of->families[i];
    if (p->n_units > family->n_units) family->n_units = p->n_units;
    if (p->most_unit_bytes > family->most_unit_bytes) family->most_unit_bytes = p->most_unit_bytes;
    if (p->n_units > of->n_units) of->n_units = p->n_units;
    of->has_order = of->has_order || p->order;
    return i;
}

static bool fill_projection(cuda_device *c, cuda_projection *of, k_packed_expert *table, const expert_weights *w,
                            int n) {
    for (int e = 0; e < n; e++) {
        const cuda_weight *weight = weight_of(w, e);
        const cuda_packed *p = weight->packed;
        const cuda_weight *plain = of->plain ? of->plain : weight;
        table[e] = (k_packed_expert){.family = -1};
        if (!p && (plain->type != weight->type || plain->is_tiled != weight->is_tiled))
            return fail(c, QP_UNSUPPORTED, "experts of one layer that are stored in different ways"), false;
        if (!p) {
            of->plain = plain;
            continue;
        }
        const int family = family_of(of, p);
        if (family < 0) return fail(c, QP_UNSUPPORTED, "experts of one layer that are packed in too many ways"), false;
        table[e] = (k_packed_expert){.tiles = p->tiles,
                                     .order = p->order,
                                     .units = p->units,
                                     .tile_bytes = (int64_t)p->tile_bytes,
                                     .unit = p->unit,
                                     .n_units = p->n_units,
                                     .zero = p->zero,
                                     .family = family};
    }
    return true;
}

static bool are_together(const experts_args *a) {
    for (int e = 0; e < a->n_experts; e++)
        if (!cuda_packed_alike(weight_of(&a->gate, e)->packed, weight_of(&a->up, e)->packed)) return false;
    return true;
}

/* Device memory out of the pool, or of the mixture's own where there were fewer experts when that was made. */
static void *take_table(cuda_device *c, cuda_mixture *m, size_t bytes) {
    cuda_mixtures *all = &c->mixtures;
    qp_error why;
    if (bytes <= all->pool_bytes - all->pool_used) {
        all->pool_used += bytes;
        return (uint8_t *)all->pool + (all->pool_used - bytes);
    }
    if (cuda_take(c, &m->own, bytes, &why) == QP_OK) return m->own;
    if (c->failure.code == QP_OK) c->failure = why;
    return NULL;
}

static bool make_tables(cuda_device *c, cuda_mixture *m, k_packed_expert *host, const experts_args *a) {
    const expert_weights *const weights[] = {&a->gate, &a->up, &a->down};
    const size_t n = (size_t)a->n_experts, bytes = MIXTURE_PROJECTIONS * n * sizeof *host;
    for (int i = 0; i < MIXTURE_PROJECTIONS; i++) {
        if (!fill_projection(c, &m->of[i], host + (size_t)i * n, weights[i], a->n_experts)) return false;
        m->key[i] = weight_of(weights[i], 0);
        m->has_plain = m->has_plain || m->of[i].plain;
    }
    m->n_experts = a->n_experts;
    m->together = are_together(a);
    k_packed_expert *there = take_table(c, m, bytes);
    if (!there ||
        cuda_noted(c, c->drv.copy_up((drv_ptr)(uintptr_t)there, host, bytes, c->stream), "cuda: a table of experts"))
        return false;
    for (int i = 0; i < MIXTURE_PROJECTIONS; i++) m->of[i].experts = there + (size_t)i * n;
    return true;
}

const cuda_mixture *cuda_mixture_make(cuda_device *c, const experts_args *a) {
    cuda_mixtures *all = &c->mixtures;
    cuda_mixture **list = mem_resize(all->list, (size_t)all->n + 1, sizeof *list);
    if (list) all->list = list;
    cuda_mixture *m = MEM_NEW(cuda_mixture);
    k_packed_expert *host = mem_zarray(MIXTURE_PROJECTIONS * (size_t)a->n_experts, sizeof *host);
    if (!list || !m || !host) fail(c, QP_NO_MEMORY, "no memory for a table of experts");
    const bool is_made = list && m && host && make_tables(c, m, host, a);
    mem_free(host);
    if (is_made) return all->list[all->n++] = m;
    if (m) cuda_give(c, m->own);
    mem_free(m);
    return NULL;
}

const cuda_mixture *cuda_mixture_known(const cuda_device *c, const experts_args *a) {
    const void *key[] = {weight_of(&a->gate, 0), weight_of(&a->up, 0), weight_of(&a->down, 0)};
    for (int i = 0; i < c->mixtures.n; i++) {
        const cuda_mixture *m = c->mixtures.list[i];
        if (m->n_experts == a->n_experts && !memcmp(m->key, key, sizeof key)) return m;
    }
    return NULL;
}

qp_status cuda_mixture_reserve(cuda_device *c, qp_error *err) {
    cuda_mixtures *all = &c->mixtures;
    const size_t bytes = (size_t)all->n_packed * MIXTURE_EXPERT_BYTES;
    if (bytes <= all->pool_bytes) return QP_OK;
    cuda_mixture_forget(c);
    return cuda_widen(c, &all->pool, &all->pool_bytes, bytes, err);
}

void cuda_mixture_forget(cuda_device *c) {
    cuda_mixtures *all = &c->mixtures;
    for (int i = 0; i < all->n; i++) {
        cuda_give(c, all->list[i]->own);
        mem_free(all->list[i]);
    }
    all->n = 0;
    all->pool_used = 0;
}

void cuda_mixture_close(cuda_device *c) {
    cuda_mixture_forget(c);
    cuda_give(c, c->mixtures.pool);
    mem_free(c->mixtures.list);
}

/* ---- which kernels ---- */

/* Rows that the kernels of experts_many.cu take at once. */
static const int rows_of_size[SIZES] = {8, 32, 64};

static size_t stride_of(const cuda_projection *of) { return (size_t)of->n_units * PACKED_UNIT; }

/* Whether rows of that projection's inputs as float16 have room. */
static bool has_room(const cuda_device *c, const cuda_projection *of, int n_pairs) {
    return (size_t)n_pairs * stride_of(of) * 2 <= c->narrow_bytes && (size_t)n_pairs * sizeof(float) <= c->scales_bytes;
}

static int few_rows_each(cuda_device *c, const cuda_mixture *m, int n_rows) {
    int rows = n_rows;
    for (int i = 0; i < MIXTURE_PROJECTIONS; i++)
        for (int f = 0; f < m->of[i].n_families; f++) {
            matvec_fit fit;
            if (!cuda_packed_fit(c, &fit, &m->of[i].families[f], rows)) return 1;
            rows = fit.rows;
        }
    return rows;
}

/* By the rows that an expert has on average, if all of them have some, and the shared memory of two stages. */
static int many_rows_each(const cuda_device *c, const cuda_mixture *m, const experts_args *a) {
    const int each = a->n_rows * a->top_k / a->n_experts;
    int size = each <= 4 ? 0 : each <= 24 ? 1 : 2;
    for (int i = 0; i < MIXTURE_PROJECTIONS; i++)
        for (int f = 0; f < m->of[i].n_families; f++)
            while (size &&
                   experts_shared(rows_of_size[size], m->of[i].families[f].most_unit_bytes, 2) > c->gpu.most_shared)
                size--;
    return rows_of_size[size];
}

mixture_cut cuda_mixture_cut(cuda_device *c, const cuda_mixture *m, const experts_args *a) {
    const int n_pairs = a->n_rows * a->top_k, most_active = n_pairs < a->n_experts ? n_pairs : a->n_experts;
    mixture_cut cut = {.are_few = a->n_rows <= CUDA_ALIKE_ROWS};
    for (int i = 0; i < MIXTURE_PROJECTIONS; i++) cut.are_few = cut.are_few || !has_room(c, &m->of[i], n_pairs);
    cut.rows_each = cut.are_few ? few_rows_each(c, m, a->n_rows) : many_rows_each(c, m, a);
    cut.n_shares = most_active + (n_pairs - most_active) / cut.rows_each;
    if (cut.rows_each >= a->n_rows) cut.n_shares = most_active;
    return cut;
}

/* ---- products ---- */

static int tiles_of(const k_expert_part *part) { return (part->n_out + PACKED_ROWS - 1) / PACKED_ROWS; }

static void multiply_few(cuda_device *c, const cuda_packed *family, k_packed_experts_args *a,
                         const mixture_product *p) {
    matvec_fit fit;
    if (!cuda_packed_fit(c, &fit, family, p->cut.rows_each)) return;
    const int blocks = c->gpu.multiprocessors / p->cut.n_shares, each = blocks > 1 ? blocks : 1;
    a->depth = fit.depth;
    launch_push(c, family->few,
                (launch_shape){.x = each < a->n_tiles ? each : a->n_tiles,
                               .y = p->cut.n_shares,
                               .threads = fit.threads,
                               .shared_bytes = fit.shared_bytes,
                               .early = true},
                a, sizeof *a);
}

/* Two blocks to a multiprocessor where that leaves two stages. */
static void multiply_many(cuda_device *c, const cuda_packed *family, k_packed_experts_args *a,
                          const mixture_product *p) {
    int size = 0, most = c->gpu.most_shared / 2 - BLOCK_BYTES;
    while (rows_of_size[size] != p->cut.rows_each) size++;
    if (experts_shared(a->rows_each, a->most_unit_bytes, 2) > most) most = c->gpu.most_shared;
    a->depth = 4;
    while (a->depth > 2 && experts_shared(a->rows_each, a->most_unit_bytes, a->depth) > most) a->depth--;
    launch_push(c, (kernel_id)((int)family->many + size),
                (launch_shape){.x = (a->n_tiles + EXPERTS_WARPS - 1) / EXPERTS_WARPS,
                               .y = p->cut.n_shares,
                               .threads = 32 * EXPERTS_WARPS,
                               .shared_bytes = (size_t)experts_shared(a->rows_each, a->most_unit_bytes, a->depth),
                               .early = true},
                a, sizeof *a);
}

/* Rows as experts_many.cuh wants them: where experts have orders of their own, a row for each pair. */
static void make_rows(cuda_device *c, const cuda_projection *of, k_packed_experts_args *a, const mixture_product *p) {
    const k_expert_rows_args rows = {.x = p->x,
                                     .out = c->narrow,
                                     .scale = c->scales,
                                     .chosen = of->has_order ? p->chosen : NULL,
                                     .experts = of->experts,
                                     .gate = p->gate,
                                     .x_stride = p->n_in,
                                     .out_stride = (int64_t)stride_of(of),
                                     .n_in = p->n_in,
                                     .x_divisor = of->has_order ? p->groups.x_divisor : 1};
    if (!p->are_made)
        launch_push(c, KERNEL_k_expert_rows,
                    (launch_shape){.x = of->has_order ? p->n_pairs : p->n_x, .threads = ROWS_THREADS, .early = true},
                    &rows, sizeof rows);
    a->x = rows.out;
    a->scale = rows.scale;
    a->x_stride = rows.out_stride;
    if (of->has_order) a->groups.x_divisor = 1;
}

void cuda_mixture_multiply(cuda_device *c, const cuda_mixture *m, const mixture_product *p) {
    const cuda_projection *of = &m->of[p->first];
    k_packed_experts_args a = {.x = p->x,
                               .x_stride = p->n_in,
                               .groups = p->groups,
                               .n_in = p->n_in,
                               .n_parts = p->n_parts,
                               .rows_each = p->cut.rows_each,
                               .gate = p->gate};
    for (int i = 0; i < p->n_parts; i++) {
        a.parts[i] = p->parts[i];
        a.parts[i].experts = m->of[p->first + i].experts;
        a.n_tiles += a.parts[i].n_tiles = tiles_of(&p->parts[i]);
    }
    if (!p->cut.are_few && of->n_families) make_rows(c, of, &a, p);
    for (int f = 0; f < of->n_families; f++) {
        a.family = f;
        a.most_unit_bytes = of->families[f].most_unit_bytes;
        if (p->cut.are_few)
            multiply_few(c, &of->families[f], &a, p);
        else
            multiply_many(c, &of->families[f], &a, p);
    }
}
