/* cuda_program.c — finds the layers of a decode step among its launches and makes a program of them.
 *
 * Called by launch.c; what the program does is kernels/program.cuh's. A layer is: a norm and the products that read it;
 * rotation, attention and its merging; a product added to the residual; a norm, products, a gate, a product that is
 * added. Layers that are not exactly that, rows that are too many, and formats without an instance stay launches: the
 * step runs either way, with the same bits.
 *
 * Results that the program's own stages read are told, word by word, in an area of its own (kernels/program_tell.cuh);
 * where the area is full, stages meet and results go where launches would write them.
 *
 * The tricky thing is what the program leaves out: it never writes the normed rows, nor what is told but for the last
 * residual. So everything that reads them must be in the program, which is why layers are taken whole, one behind the
 * other, or not at all. */
#include "cuda_program.h"
#include "cuda.h"
#include "program_kargs.h"
#include "base/mem.h"
#include <string.h>

enum {
    MOST_STAGES = 1024,
    MOST_STREAMS = PROGRAM_MOST_STREAMS,
    MOST_TILES = 1 << 20, /* of a product: times blocks they are dealt out in 32 bits */
    STREAMS_AT = MOST_STAGES * (int)sizeof(program_stage),
    STARTS_AT = STREAMS_AT + MOST_STREAMS * (int)sizeof(program_stream),
    MOST_STAGED = PROGRAM_MOST_PIECES * PROGRAM_THREADS * 8, /* inputs of a row that threads keep */
    NARROWEST = 512,       /* inputs: shorter rows are normed by fewer threads (cuda_rows.c) */
    AREA_BYTES = 64 << 20, /* of words that are told: of 32 layers of 4,096 with four rows they are 18 MiB */
    PAGES_PART = 2,        /* so far what is found in pages is told, too: of 8,192 tokens and one row 17 MiB */
    MOST_TOLD = 8,
    ASKS = 1,                /* units between two looks at a product's inputs, */
    ASKS_SOON = 2,           /* and where these come soon */
    MOST_SCRATCH = 96 << 10, /* of more than two quads: what is beyond that costs the rings a slot */
};

_Static_assert(sizeof(program_stage) % 16 == 0 && PROGRAM_STAGES % 16 == 0 && PROGRAM_SHARES % 16 == 0,
               "copied in words of 16 bytes, to where they may lie");
_Static_assert(sizeof(packed_slice_units) % 16 == 0 && offsetof(program_state, slices) % 16 == 0, "likewise");
_Static_assert(offsetof(program_state, warps) % 16 == 0 && sizeof(program_start) % 16 == 0 && STARTS_AT % 16 == 0,
               "likewise");
_Static_assert(sizeof(program_stage) <= 32 * 16, "a warp copies one at once");

/* Results that are told, and where launches would write and read them. */
typedef struct told_rows {
    const float *of;
    float *at;
    bool is_placed; /* in the order of the weights that read it */
    int64_t stride; /* from row to row */
} told_rows;

typedef struct maker {
    const cuda_device *c;
    const uint8_t *at, *end; /* of the launches that are not read yet */
    program_stage *stages;
    program_stream *streams;
    int n_stages, n_streams;
    int n_rows;       /* 0: not known yet */
    kernel_id kernel; /* by the layers' caches, once there is a layer */
    int scratch, squares, unit_bytes;
    bool has_slices;           /* some stream's units differ */
    bool waits;                /* the next stage reads what others wrote */
    told_rows told[MOST_TOLD]; /* the newest ones */
    int n_told;
    size_t told_bytes;
} maker;

/* ---- reading launches ---- */

static const launch_head *peek(const maker *m) {
    return m->at < m->end ? (const launch_head *)(const void *)m->at : NULL;
}

/* The arguments of the next launch if it is of this kernel; goes on behind it. */
static const void *take(maker *m, kernel_id kernel) {
    const launch_head *head = peek(m);
    if (!head || head->kernel != (uint32_t)kernel) return NULL;
    m->at += launch_bytes(head);
    return head + 1;
}

/* ---- kinds of units ---- */

typedef struct unit_kind {
    kernel_id matvec;
    int kind, sum;
} unit_kind;

static const unit_kind kinds[] = {{KERNEL_k_matvec_mixed, 0, 32},
#define X(bits, group, scales)                                                                                         \
    {KERNEL_k_matvec_##bits##_##group##_##scales, PROGRAM_KIND(bits, group, PACKED_##scales), group},
                                  PROGRAM_PLAIN(X) PROGRAM_FLOATS(X)
#undef X
};

static const unit_kind *find_kind(uint32_t kernel) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((uint32_t)kinds[i].matvec == kernel) return &kinds[i];
    return NULL;
}

/* ---- stages ---- */

static program_stage *add_stage(maker *m, int what) {
    if (m->n_stages == MOST_STAGES) return NULL;
    program_stage *s = &m->stages[m->n_stages++];
    memset(s, 0, sizeof *s);
    s->what = what;
    s->way = program_way(what, 0, 0);
    s->waits = m->waits;
    m->waits = true;
    return s;
}

/* Where rows of `of` were told, and their place; NULL: they were not. */
static told_rows *find_rows(maker *m, const float *of) {
    for (int i = 0; i < m->n_told; i++)
        if (m->told[i].of == of) return &m->told[i];
    return NULL;
}
static float *find_told(maker *m, const float *of) {
    const told_rows *rows = find_rows(m, of);
    return rows ? rows->at : NULL;
}

/* The stage need not wait for others: it looks for what they tell. */
static void hear(program_stage *s) {
    s->hears = true;
    s->waits = false;
}

/* A place for n words within the first `most` bytes of the area; NULL: there is no room. */
static float *take_words(maker *m, size_t n, size_t most) {
    const size_t bytes = (n * sizeof(float) + 127) / 128 * 128;
    if (most < m->told_bytes || bytes > most - m->told_bytes) return NULL;
    float *at = (float *)(void *)(m->c->program_told + m->told_bytes);
    m->told_bytes += bytes;
    return at;
}

/* A place where n results of `of` are told from now on, `stride` from row to row; NULL: there is no room. */
static float *tell(maker *m, const float *of, int64_t n, int64_t stride, bool is_placed) {
    told_rows *rows = find_rows(m, of);
    if (!rows && m->n_told == MOST_TOLD) return NULL;
    float *at = take_words(m, (size_t)n, m->c->program_area);
    if (!at) {
        if (rows) *rows = m->told[--m->n_told]; /* what was told before is old */
        return NULL;
    }
    if (!rows) rows = &m->told[m->n_told++];
    *rows = (told_rows){.of = of, .at = at, .is_placed = is_placed, .stride = stride};
    return at;
}

/* The next launch if it is a product of `x`; NULL: it is none. */
static const packed_args *peek_product(const maker *m, const float *x) {
    const launch_head *head = peek(m);
    if (!head || !find_kind(head->kernel)) return NULL;
    const packed_args *p = (const packed_args *)(const void *)(head + 1);
    return p->x == x ? p : NULL;
}

/* Whether a product's only row is heard as it comes and put in the order of the weights by those who hear it. norm: of
 * that row, or NULL. */
static bool scatters(const packed_args *p, const k_norm_args *norm) {
    const int n = p->n_units * PACKED_UNIT;
    if (p->n_rows != 1 || !p->places) return false;
    return norm ? program_keeps(n) && !norm->rows : n <= MOST_STAGED;
}

/* Rows of n results of `of`, which nothing but the next launch reads: told in the order of its weights, if that is one
 * of their own and those who hear them do not put them there. */
static void tell_reader(maker *m, program_stage *s, int part, const float *of, int64_t n) {
    const packed_args *reader = peek_product(m, of);
    s->places = reader && !scatters(reader, NULL) ? reader->places : NULL;
    s->told_stride = s->places ? (int64_t)reader->n_units * PACKED_UNIT : n;
    s->told[part] = tell(m, of, m->n_rows * s->told_stride, s->told_stride, s->places != NULL);
}

static void tell_part(maker *m, program_stage *s, int part) {
    const packed_args *p = &s->is.product;
    const packed_part *to = &p->parts[part];
    s->told[part] = tell(m, to->out, (p->n_rows - 1) * to->out_stride + to->n_out, to->out_stride, false);
}

/* All parts of the products from stage `first` on. */
static void tell_products(maker *m, int first) {
    for (int i = first; i < m->n_stages; i++)
        for (int part = 0; part < m->stages[i].is.product.n_parts; part++) tell_part(m, &m->stages[i], part);
}

static void need(int *bytes, int wanted) { *bytes = wanted > *bytes ? wanted : *bytes; }

static program_stream *add_stream(maker *m, const packed_args *p) {
    if (m->n_streams == MOST_STREAMS) return NULL;
    program_stream *s = &m->streams[m->n_streams++];
    memset(s, 0, sizeof *s);
    for (int i = 0; i < p->n_parts; i++) {
        s->tiles[i] = p->parts[i].tiles;
        s->n_tiles[i] = p->parts[i].n_tiles;
    }
    s->slices = packed_slices(p->units, p->n_units);
    m->has_slices |= s->slices != NULL;
    s->tile_bytes = (uint32_t)p->tile_bytes;
    s->unit_bytes = p->most_unit_bytes;
    s->n_units = p->n_units;
    s->all_tiles = p->n_tiles;
    if (p->most_unit_bytes > m->unit_bytes) m->unit_bytes = p->most_unit_bytes;
    return s;
}

/* Blocks of a cluster: one row is done by blocks by themselves. */
static unsigned cluster_of(const maker *m) { return m->n_rows > 1 ? m->c->program_cluster : 1; }

/* Blocks by themselves have all of the row's inputs. lies: these lie in the scratch to be normed; is_put: scatters. */
static int staging_of(const packed_args *p, bool is_normed, bool lies, bool is_put) {
    if (p->n_rows != 1 || lies) return PROGRAM_ANY;
    const bool is_short = program_keeps(p->n_units * PACKED_UNIT);
    if (is_put) return is_normed ? PROGRAM_SCATTERED_KEPT : is_short ? PROGRAM_SCATTERED_ONLY : PROGRAM_SCATTERED;
    if (p->order) return PROGRAM_ANY;
    if (is_normed) return PROGRAM_KEPT;
    if (p->n_in != p->n_units * PACKED_UNIT || p->n_in > MOST_STAGED) return PROGRAM_ANY;
    return is_short ? PROGRAM_ONLY : PROGRAM_WHOLE;
}

/* The next launch as a stage, if it is a product of `x`; NULL: it is none, or cannot be one. */
static program_stage *take_product(maker *m, const float *x, const k_norm_args *norm) {
    const packed_args *p = peek_product(m, x);
    if (!p || p->n_rows != m->n_rows || (norm && norm->dim != p->n_in) ||
        (p->units && !packed_slices(p->units, p->n_units)) || p->n_tiles > MOST_TILES)
        return NULL;
    const launch_head *head = peek(m);
    const unit_kind *kind = find_kind(head->kernel);
    program_stage *s = add_stage(m, PROGRAM_PRODUCT);
    if (!s || !add_stream(m, p)) return NULL;
    s->way = program_way(PROGRAM_PRODUCT, kind->kind, p->n_rows);
    s->stream = m->n_streams - 1;
    s->asks = ASKS;
    s->is.product = *p;
    if (norm) {
        s->is_normed = true;
        s->norm_weight = norm->weight;
        s->norm_rows = norm->rows;
        s->eps = norm->eps;
        s->is.product.x = norm->x;
    }
    const told_rows *told = find_rows(m, s->is.product.x);
    if (told) {
        s->is.product.x = told->at;
        s->is.product.x_stride = told->stride;
        s->is_placed = told->is_placed;
        hear(s);
    }
    const int n_units = program_units(p->n_units, (int)cluster_of(m));
    const bool is_put = scatters(p, norm);
    const bool lies = norm && !is_put && (p->order || norm->rows || !program_keeps(p->n_rows * n_units * PACKED_UNIT));
    s->staging = staging_of(p, norm != NULL, lies, is_put);
    need(&m->scratch, program_lay_room(&s->room, p->n_rows, n_units, kind->sum, p->n_in, lies));
    if (is_put) need(&m->scratch, n_units * PACKED_UNIT * (int)sizeof(float));
    need(&m->squares, p->n_rows * program_squares(p->n_units) * (int)sizeof(float));
    m->at += launch_bytes(head);
    return s;
}

/* A product whose only part is added to the residual. */
static bool take_added(maker *m, const float *x, const float *residual) {
    program_stage *s = take_product(m, x, NULL);
    if (!s || s->is.product.n_parts != 1 || !s->is.product.parts[0].add || s->is.product.parts[0].out != residual)
        return false;
    const float *told = find_told(m, residual);
    s->before = told ? told : residual;
    s->hears_before = !!told;
    tell_part(m, s, 0);
    return true;
}

/* A norm that products can do; m->n_rows is its number of rows then. */
static const k_norm_args *take_norm(maker *m) {
    const launch_head *head = peek(m);
    const k_norm_args *norm = take(m, KERNEL_k_norm);
    if (!norm || norm->bias || norm->is_layer || norm->heads != 1 || norm->dim < NARROWEST || norm->dim % 4 ||
        head->grid[1] > PROGRAM_ROWS || (head->grid[1] > 1 && m->c->program_cluster < 2))
        return NULL;
    m->n_rows = (int)head->grid[1];
    return norm;
}

/* A norm and all products that read it; they need not wait for each other. *last: the last of them. */
static const k_norm_args *take_normed(maker *m, program_stage **last) {
    const int n_rows = m->n_rows;
    const k_norm_args *norm = take_norm(m);
    if (!norm || norm->rows || (n_rows && n_rows != m->n_rows)) return NULL;
    *last = NULL;
    while (peek_product(m, norm->out)) {
        *last = take_product(m, norm->out, norm);
        if (!*last || (*last)->is.product.x_stride != norm->dim) return NULL;
        m->waits = false;
    }
    m->waits = true;
    return *last ? norm : NULL;
}

/* A cache that attention can read, and the launches that a step makes for it. */
typedef struct cache_kind {
    kernel_id decode, merge, store, turn; /* turn: instead of store where it fits; KERNEL_COUNT: never */
    int dim, key_bits, value_bits;
    bool is_coded; /* there is a merge even of one page */
} cache_kind;

#define CODED(dim, type, key_bits, value_bits)                                                                         \
    {                                                                                                                  \
        KERNEL_k_decode_##dim##_##type, KERNEL_k_decode_coded_merge, KERNEL_k_rope_store_##type, KERNEL_COUNT, dim,    \
            key_bits, value_bits, true                                                                                 \
    }
static const cache_kind caches[] = {
    {KERNEL_k_decode_64, KERNEL_k_decode_merge, KERNEL_k_rope_store_f16, KERNEL_k_turn_64_one, 64, 16, 16, false},
    {KERNEL_k_decode_128, KERNEL_k_decode_merge, KERNEL_k_rope_store_f16, KERNEL_k_turn_128_one, 128, 16, 16, false},
    CODED(64, q8, 8, 8),
    CODED(64, q6, 6, 6),
    CODED(64, q4, 6, 4),
    CODED(128, q8, 8, 8),
    CODED(128, q6, 6, 6),
    CODED(128, q4, 6, 4),
};
#undef CODED

/* The next launch if it turns queries and keys, and stores these. */
static const k_rope_args *take_rotation(maker *m, kernel_id *kernel) {
    const launch_head *head = peek(m);
    for (size_t i = 0; head && i < sizeof caches / sizeof *caches; i++) {
        const uint32_t is = *kernel = (kernel_id)head->kernel;
        if (is == (uint32_t)caches[i].store || is == (uint32_t)caches[i].turn) return take(m, *kernel);
    }
    return NULL;
}

/* The cache of the next launch if that is attention behind this rotation. */
static const cache_kind *peek_cache(const maker *m, kernel_id rotation) {
    const launch_head *head = peek(m);
    for (size_t i = 0; head && i < sizeof caches / sizeof *caches; i++)
        if (head->kernel == (uint32_t)caches[i].decode)
            return rotation == caches[i].store || rotation == caches[i].turn ? &caches[i] : NULL;
    return NULL;
}

/* Queries, keys and values are heard together or not at all. */
static void hear_heads(program_stage *s, maker *m) {
    k_rope_args *rope = &s->is.heads.rope;
    float *q = find_told(m, rope->q), *k = find_told(m, rope->k), *v = find_told(m, rope->v);
    if (!q || !k || !v) return;
    rope->q = q, rope->k = k, rope->v = v;
    hear(s);
}

/* Whether blocks do the same pages of the same rows, turned by the same angles, as in the stage before. */
static bool has_same_plan(const program_stage *s, const program_stage *before) {
    const k_decode_args *a = &s->is.heads.attend, *b = &before->is.heads.attend;
    const k_rope_args *turn = &s->is.heads.rope, *turn_before = &before->is.heads.rope;
    return a->spans == b->spans && a->pages == b->pages && a->n_splits == b->n_splits &&
           a->split_shift == b->split_shift && a->n_kv_heads == b->n_kv_heads && a->window == b->window &&
           a->chunk == b->chunk && s->n_spans == before->n_spans && turn->cos == turn_before->cos &&
           turn->sin == turn_before->sin && turn->rot_dims == turn_before->rot_dims;
}

static bool is_planned(const maker *m, const program_stage *s) {
    for (const program_stage *before = s; before-- > m->stages;)
        if (before->what == PROGRAM_ATTEND) return has_same_plan(s, before);
    return false;
}

/* Codes cost instructions, so as many warps read them as leave the rings their room. */
static int count_quads(const cache_kind *kind, const k_decode_args *a) {
    int n = kind->is_coded ? PROGRAM_MOST_QUADS : PROGRAM_FEW_QUADS;
    const int heads = a->n_heads / a->n_kv_heads;
    if (n > a->n_splits) n = a->n_splits;
    while (n > PROGRAM_FEW_QUADS &&
           program_attend_bytes(kind->dim, kind->key_bits, kind->value_bits, heads, n) > MOST_SCRATCH)
        n--;
    return n;
}

/* What is found in pages is told to the stage that merges it. */
static program_stage *add_merge(maker *m, program_stage *s) {
    const k_decode_args *a = &s->is.heads.attend;
    const size_t n = (size_t)m->n_rows * (size_t)a->n_heads * (size_t)a->n_splits;
    program_stage *merge = add_stage(m, PROGRAM_MERGE);
    if (!merge) return NULL;
    need(&m->scratch, program_merge_bytes(s->dim));
    s->told[PROGRAM_PAGES] = take_words(m, n * (size_t)(s->dim + 2), m->c->program_area / PAGES_PART);
    if (s->told[PROGRAM_PAGES]) s->told[PROGRAM_PAGE_SUMS] = s->told[PROGRAM_PAGES] + n * (size_t)s->dim;
    *merge = *s;
    merge->what = PROGRAM_MERGE;
    merge->way = program_way(PROGRAM_MERGE, 0, 0);
    merge->hears = !!s->told[PROGRAM_PAGES];
    merge->waits = !merge->hears;
    return merge;
}

/* Rotation, attention and merging. Returns where the result is. */
static const float *take_attention(maker *m) {
    kernel_id rotation;
    const k_rope_args *rope = take_rotation(m, &rotation);
    const launch_head *head = peek(m);
    const cache_kind *kind = rope ? peek_cache(m, rotation) : NULL;
    if (!kind) return NULL;
    const k_decode_args *a = take(m, kind->decode);
    const kernel_id kernel = kind->is_coded ? KERNEL_k_program_plain_coded : KERNEL_k_program_plain;
    if ((m->kernel && m->kernel != kernel) || !m->c->kernels[kernel]) return NULL;
    m->kernel = kernel;
    if (((a->n_splits > 1 || kind->is_coded) && !take(m, kind->merge)) ||
        a->n_heads / a->n_kv_heads > PROGRAM_MOST_HEADS || a->q != rope->q || rope->kv.k != a->k ||
        (int)head->grid[2] != m->n_rows || rope->kv.head_dim != kind->dim || rope->kv.v_dim != kind->dim)
        return NULL;
    program_stage *s = add_stage(m, PROGRAM_ATTEND);
    if (!s) return NULL;
    s->dim = kind->dim, s->key_bits = (int16_t)kind->key_bits, s->value_bits = (int16_t)kind->value_bits;
    s->n_spans = (int)head->grid[2];
    s->is.heads.attend = *a;
    s->is.heads.rope = *rope;
    s->is_planned = is_planned(m, s);
    hear_heads(s, m);
    s->quads = count_quads(kind, a);
    need(&m->scratch, program_attend_bytes(s->dim, s->key_bits, s->value_bits, a->n_heads / a->n_kv_heads, s->quads));
    program_stage *last = a->n_splits > 1 ? add_merge(m, s) : s;
    if (!last) return NULL;
    tell_reader(m, last, PROGRAM_FOUND, a->out, (int64_t)a->n_heads * s->dim);
    return a->out;
}

/* The gate behind the products of gate and up: with them where both lie alike, else by itself. */
static const float *take_gate(maker *m, int first, program_stage *last) {
    const k_gate_args *gate = take(m, KERNEL_k_gate);
    if (!gate) return NULL;
    packed_args *p = &last->is.product;
    if (p->n_parts == 2 && p->parts[0].out == gate->gate && p->parts[1].out == gate->up && !p->parts[0].add &&
        !p->parts[1].add && p->parts[0].n_tiles == p->parts[1].n_tiles) {
        last->gates = m->streams[last->stream].gates = true;
        last->act = gate->act;
        tell_reader(m, last, 0, gate->gate, p->parts[0].n_out);
        return gate->gate;
    }
    tell_products(m, first);
    program_stage *s = add_stage(m, PROGRAM_GATE);
    if (!s) return NULL;
    s->is.gate = *gate;
    s->before = gate->gate;
    const float *told = find_told(m, gate->gate), *told_up = gate->up ? find_told(m, gate->up) : NULL;
    if (told && (told_up || !gate->up)) {
        s->before = told;
        s->hears_before = true;
        s->is.gate.up = told_up;
        hear(s);
    }
    s->width = (int32_t)(gate->n / m->n_rows);
    tell_reader(m, s, 0, gate->gate, s->width);
    return gate->gate;
}

/* The rows that the first layer reads, if they are embedded right before it. */
static bool take_embed(maker *m) {
    static const kernel_id kernels[] = {
        [PROGRAM_F32] = KERNEL_k_embed_f32, [PROGRAM_F16] = KERNEL_k_embed_f16, [PROGRAM_BF16] = KERNEL_k_embed_bf16};
    const launch_head *head = peek(m);
    const int n_rows = (int)head->grid[1];
    const k_embed_args *a = NULL;
    int type = 0;
    for (; type < (int)(sizeof kernels / sizeof *kernels); type++)
        if ((a = take(m, kernels[type]))) break;
    if (!a || a->add || n_rows > PROGRAM_ROWS) return false;
    program_stage *s = add_stage(m, PROGRAM_EMBED);
    if (!s) return false;
    m->n_rows = n_rows;
    s->is.embed.of = *a;
    s->is.embed.type = type;
    s->is.embed.n_rows = n_rows;
    s->told[0] = tell(m, a->out, n_rows * a->dim, a->dim, false);
    if (s->told[0]) s->is.embed.of.out = NULL; /* the layers leave their own there */
    return true;
}

/* Where each block has something to attend to, the product behind has not long to wait once it has begun. */
static void ask_soon(const maker *m) {
    program_stage *product = &m->stages[m->n_stages - 1];
    const program_stage *s = product;
    while (s->what != PROGRAM_ATTEND) s--;
    const k_decode_args *a = &s->is.heads.attend;
    if (m->n_rows == 1 && a->n_splits >= m->c->gpu.multiprocessors / a->n_kv_heads) product->asks = ASKS_SOON;
}

static bool take_layer(maker *m) {
    program_stage *last;
    int first = m->n_stages;
    const k_norm_args *norm = take_normed(m, &last);
    if (!norm) return false;
    tell_products(m, first);
    const float *residual = norm->x, *out = take_attention(m);
    if (!out || !take_added(m, out, residual)) return false;
    ask_soon(m);
    first = m->n_stages;
    norm = take_normed(m, &last);
    out = norm && norm->x == residual ? take_gate(m, first, last) : NULL;
    return out && take_added(m, out, residual);
}

/* All layers from where the maker stands; how many. What follows the last one is not read. */
static int take_layers(maker *m) {
    int n = 0;
    for (;; n++) {
        const maker before = *m;
        if (take_layer(m)) continue;
        *m = before;
        return n;
    }
}

/* Of a residual that is told again and again, only the last one goes where launches would have it. */
static void leave_last(const maker *m) {
    const program_stage *last = NULL;
    for (int i = m->n_stages; i--;) {
        program_stage *s = &m->stages[i];
        if (s->what != PROGRAM_PRODUCT || !s->is.product.parts[0].add) continue;
        if (last && s->told[0]) s->is.product.parts[0].out = NULL;
        last = s;
    }
}

/* What comes behind the layers must not read what they leave out: a norm of the residual does not, nor what reads that.
 */
static bool ends_well(const maker *m) {
    const launch_head *head = peek(m);
    return head && head->kernel == KERNEL_k_norm;
}

/* Whether all that follows reads nothing but logits. */
static bool only_logits_follow(const maker *m) {
    for (const uint8_t *at = m->at; at < m->end;) {
        const launch_head *head = (const launch_head *)(const void *)at;
        const bool is_digest = head->kernel >= KERNEL_k_digest_copy && head->kernel <= KERNEL_k_digest_list;
        if (head->kernel != KERNEL_k_limit && !is_digest) return false;
        at += launch_bytes(head);
    }
    return true;
}

/* The norm of the picked rows and their logits. Those of one row, if that is all there is, are looked through here. */
static void take_head(maker *m, k_program_args *a) {
    const maker before = *m;
    const k_norm_args *norm = take_norm(m);
    const program_stage *s = norm ? take_product(m, norm->out, norm) : NULL;
    if (!s || !only_logits_follow(m))
        *m = before;
    else if (m->n_rows == 1 && s->is.product.n_parts == 1 && m->at == m->end)
        a->logits = s->is.product.parts[0].out;
}

/* Stages that wait know how often blocks meet until they begin. */
static void count_meetings(const maker *m) {
    for (int i = 0, n = 0; i < m->n_stages; i++)
        if (m->stages[i].waits) m->stages[i].waits = ++n;
}

/* ---- the launch ---- */

/* Slots of a ring: what fits beside the scratch. */
static bool fit(const maker *m, k_program_args *a, size_t *shared_bytes) {
    const int taken = program_ring_at(m->n_streams, m->squares, m->scratch);
    const int slots = PROGRAM_WARPS * m->unit_bytes;
    a->n_streams = m->n_streams;
    a->has_slices = m->has_slices;
    a->scratch_bytes = m->scratch;
    a->squares_bytes = m->squares;
    a->slot_bytes = m->unit_bytes;
    a->n_slots = (m->c->gpu.most_shared - taken) / slots;
    if (a->n_slots > PROGRAM_MOST_SLOTS) a->n_slots = PROGRAM_MOST_SLOTS;
    *shared_bytes = (size_t)(taken + a->n_slots * slots);
    return a->n_slots >= 2;
}

static size_t starts_bytes(const cuda_device *c) {
    return (size_t)c->gpu.multiprocessors * PROGRAM_WARPS * sizeof(program_start);
}
/* Of one program's stages and streams, and of how its rings begin. */
static size_t program_bytes(const cuda_device *c) { return (STARTS_AT + starts_bytes(c) + 255) / 256 * 256; }

static bool send(cuda_device *c, int slot, const maker *m, k_program_args *a) {
    uint8_t *to = c->programs + (size_t)slot * program_bytes(c);
    const size_t stages = (size_t)m->n_stages * sizeof *m->stages, streams = (size_t)m->n_streams * sizeof *m->streams;
    a->stages = (const program_stage *)(const void *)to;
    a->streams = (const program_stream *)(const void *)(to + STREAMS_AT);
    a->starts = (program_start *)(void *)(to + STARTS_AT);
    a->met = c->program_met;
    a->told = c->program_told;
    a->area_bytes = AREA_BYTES;
    a->told_bytes = (int64_t)m->told_bytes;
    a->n_stages = m->n_stages;
    return !cuda_noted(c, c->drv.copy_up((drv_ptr)(uintptr_t)to, m->stages, stages, c->stream), "cuda: a program") &&
           !cuda_noted(c, c->drv.copy_up((drv_ptr)(uintptr_t)to + STREAMS_AT, m->streams, streams, c->stream),
                       "cuda: a program") &&
           !cuda_noted(c, c->drv.fill((drv_ptr)(uintptr_t)a->starts, 0, starts_bytes(c), c->stream),
                       "cuda: a program") &&
           !cuda_noted(c, c->drv.stream_wait(c->stream), "cuda: waiting for the GPU");
}

/* The launches between `from` and where the maker stands become one. */
static void replace(cuda_device *c, uint8_t *from, const maker *m, const k_program_args *a, size_t shared_bytes) {
    launch_queue *q = &c->queue;
    const launch_head head = {.kernel = m->kernel,
                              .arg_bytes = sizeof *a,
                              .shared_bytes = (uint32_t)shared_bytes,
                              .threads = PROGRAM_THREADS,
                              .grid = {m->n_rows > 1 ? c->program_blocks : (uint32_t)c->gpu.multiprocessors, 1, 1},
                              .cluster = (uint16_t)cluster_of(m),
                              .together = true};
    const size_t left = q->used - (size_t)(m->at - q->list), bytes = launch_bytes(&head);
    memcpy(from, &head, sizeof head);
    memcpy(from + sizeof head, a, sizeof *a);
    memmove(from + bytes, m->at, left);
    q->used = (size_t)(from - q->list) + bytes + left;
    q->n_programs++;
}

static void shorten(cuda_device *c, int slot, maker *m) {
    uint8_t *first = c->queue.list;
    while (m->at < m->end) {
        const maker before = *m;
        first = c->queue.list + (m->at - c->queue.list); /* the same place, to be written */
        if (!take_embed(m)) *m = before;
        if (take_layers(m)) break;
        *m = before;
        m->at += launch_bytes(peek(m));
    }
    k_program_args a = {0};
    size_t shared_bytes;
    if (!m->n_stages || !ends_well(m)) return;
    take_head(m, &a);
    leave_last(m);
    count_meetings(m);
    if (fit(m, &a, &shared_bytes) && send(c, slot, m, &a)) replace(c, first, m, &a, shared_bytes);
}

void cuda_program_shorten(cuda_device *c, int slot) {
    if (!c->programs || c->head.exact) return;
    maker m = {.c = c, .at = c->queue.list, .end = c->queue.list + c->queue.used};
    m.stages = mem_array(MOST_STAGES, sizeof *m.stages);
    m.streams = mem_array(MOST_STREAMS, sizeof *m.streams);
    if (m.stages && m.streams) shorten(c, slot, &m); /* without memory it stays as it is */
    mem_free(m.stages);
    mem_free(m.streams);
}

static void dress(cuda_device *c, k_program_args *a) {
    a->n_best = a->logits ? c->greedy.n : 0;
    if (!a->n_best) return;
    c->made = c->greedy;
    c->made.logits = a->logits;
    a->heads = c->greedy.heads;
    a->heads_here = c->heads + !c->heads_at * CUDA_MOST_HEADS;
    a->best = c->best;
}

void cuda_program_dress(cuda_device *c, uint8_t *list, size_t bytes) {
    for (uint8_t *at = list; at < list + bytes;) {
        const launch_head *head = (const launch_head *)(const void *)at;
        if (head->kernel == KERNEL_k_program_plain || head->kernel == KERNEL_k_program_plain_coded)
            dress(c, (k_program_args *)(void *)(at + sizeof *head));
        at += launch_bytes(head);
    }
}

/* ---- life ---- */

/* As many blocks to a cluster as leave few multiprocessors without one, or two. */
static qp_status ask_clusters(cuda_device *c, qp_error *err) {
    const unsigned all = (unsigned)c->gpu.multiprocessors;
    for (unsigned n = PACKED_SLICES; n > 1; n /= 2) {
        int clusters = 0;
        if (all < n) continue;
        ERR_TRY(launch_most_clusters(c, &clusters, KERNEL_k_program_plain, PROGRAM_THREADS, n, err));
        c->program_cluster = clusters ? n : 0;
        c->program_blocks = (unsigned)clusters * n;
        if (c->program_blocks * 8 >= all * 7) break;
    }
    return QP_OK;
}

qp_status cuda_program_open(cuda_device *c, int programs, qp_error *err) {
    void *memory;
    if (c->gpu.major < 9 || !c->kernels[KERNEL_k_program_plain]) return QP_OK;
    const size_t areas = 2 * (size_t)AREA_BYTES, bytes = areas + (size_t)programs * program_bytes(c);
    ERR_TRY(ask_clusters(c, err));
    ERR_TRY(cuda_take(c, &memory, bytes + 64, err));
    c->program_told = memory;
    c->program_area = AREA_BYTES;
    c->programs = c->program_told + areas;
    c->program_met = (uint32_t *)(void *)(c->program_told + bytes);
    drv_result result = c->drv.fill((drv_ptr)(uintptr_t)c->program_told, 0xff, areas, c->stream);
    if (!result) result = c->drv.fill((drv_ptr)(uintptr_t)c->program_met, 0, 64, c->stream);
    return result ? drv_failed(&c->drv, result, "cuda: clearing memory", err) : QP_OK;
}

void cuda_program_close(cuda_device *c) {
    if (c->programs) cuda_give(c, c->program_told);
    c->programs = c->program_told = NULL;
}
