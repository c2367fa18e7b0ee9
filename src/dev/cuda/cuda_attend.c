/* cuda_attend.c — rotation, storing and attention on the GPU: spans become a table, sizes a grid.
 *
 * Called through the device's ops; calls launch.c. A step's spans are cut into pieces of as many rows as a block takes;
 * the table of pieces with all page numbers behind it is the same for every layer, so it travels once. */
#include "cuda_packed.h"
#include <string.h>

enum {
    ROPE_WARPS = 4,
    ATTEND_THREADS = 128,
    FILL = 4,       /* blocks for a multiprocessor, before pages are put together */
    UNCUT = 1 << 20 /* more rows than a step has */
};

static int least(int a, int b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- the table of spans ---- */

typedef struct table {
    const k_span *spans;
    const int32_t *pages;
    int n_spans;
} table;

/* How spans are cut: into pieces of so many rows, which do not cross a multiple of that position where `aligned`. */
typedef struct cut {
    int rows;
    bool aligned;
} cut;

static int piece_rows(const row_span *s, int r, cut by) {
    return least(by.aligned ? by.rows - (int)((s->past + r) % by.rows) : by.rows, s->n_rows - r);
}

static void write_spans(k_span *out, int32_t *pages, const row_span *spans, int n_spans, cut by) {
    int32_t n_pages = 0;
    for (int i = 0; i < n_spans; i++) {
        const row_span *s = &spans[i];
        if (s->n_rows < 1) continue;
        for (int r = 0, n; r < s->n_rows; r += n) {
            n = piece_rows(s, r, by);
            *out++ = (k_span){s->row + r, n, (int32_t)(s->past + r), n_pages};
        }
        memcpy(pages + n_pages, s->pages, dev_page_count(s) * sizeof *pages);
        n_pages += (int32_t)dev_page_count(s);
    }
}

/* n_spans 0: nothing to do, or the step has failed. */
static table make_table(cuda_device *c, const row_span *spans, int n_spans, cut by) {
    size_t n_pieces = 0, n_pages = 0;
    for (int i = 0; i < n_spans; i++) {
        if (spans[i].n_rows < 1) continue;
        for (int r = 0; r < spans[i].n_rows; r += piece_rows(&spans[i], r, by)) n_pieces++;
        n_pages += dev_page_count(&spans[i]);
    }
    const size_t bytes = n_pieces * sizeof(k_span) + n_pages * sizeof(int32_t);
    k_span *host = n_pieces ? launch_table(c, bytes) : NULL;
    if (!host) return (table){0};
    write_spans(host, (int32_t *)(void *)(host + n_pieces), spans, n_spans, by);
    const k_span *there = launch_table_done(c, host, bytes);
    return (table){there, (const int32_t *)(const void *)(there + n_pieces), (int)n_pieces};
}

static k_kv view(const kv_view *kv) {
    return (k_kv){.k = kv->k,
                  .v = kv->v,
                  .page_stride = (int64_t)kv->page_stride,
                  .n_kv_heads = kv->n_kv_heads,
                  .head_dim = kv->head_dim,
                  .v_dim = kv->v_dim};
}

/* The kernel for a type of cache, beside that for float16. */
static kernel_id of_type(kernel_id f16, kv_type type) { return (kernel_id)((int)f16 + (int)type); }

_Static_assert(KV_F16 == 0 && KERNEL_k_rope_store_f16 + KV_Q4 == KERNEL_k_rope_store_q4 &&
                   KERNEL_k_rope_store_f16 + KV_F32 == KERNEL_k_rope_store_f32 &&
                   KERNEL_k_attend_f16_1 + KV_Q6 == KERNEL_k_attend_q6_1,
               "kernels in the order of the types");

/* ---- rotation ---- */

/* A warp's heads of all rows of a piece wait in shared memory. */
static int rope_stride(const rope_store_args *a) {
    return 1 + (a->kv.head_dim > a->kv.v_dim ? a->kv.head_dim : a->kv.v_dim);
}

static size_t rope_bytes(const rope_store_args *a, int rows) {
    return (size_t)rope_stride(a) * (size_t)rows * ROPE_WARPS * sizeof(float);
}

/* The tokens of a group of keys together: their elements are neighbours. */
static int rope_rows(const cuda_device *c, const rope_store_args *a) {
    int longest = 1;
    for (int i = 0; i < a->n_spans; i++) longest = a->spans[i].n_rows > longest ? a->spans[i].n_rows : longest;
    return longest > 1 && rope_bytes(a, DEV_KEY_GROUP) <= (size_t)c->gpu.most_shared ? DEV_KEY_GROUP : 1;
}

/* The kernel that keeps all in registers, or the general one; rows: of a piece. */
static kernel_id rope_kernel(const cuda_device *c, const rope_store_args *a, int rows) {
    const kernel_id fast = (kernel_id)((a->kv.head_dim == 64 ? KERNEL_k_turn_64 : KERNEL_k_turn_128) + (rows == 1));
    const bool fits = (a->kv.head_dim == 64 || a->kv.head_dim == 128) && a->kv.v && a->kv.v_dim == a->kv.head_dim &&
                      a->rot_dims == a->kv.head_dim && a->norm == HEAD_NORM_NONE && a->kv.type == KV_F16;
    return fits && c->kernels[fast] ? fast : of_type(KERNEL_k_rope_store_f16, a->kv.type);
}

void cuda_rope_store(device *d, const rope_store_args *a) {
    cuda_device *c = cuda_of(d);
    const cut by = {.rows = rope_rows(c, a), .aligned = true};
    cuda_lock(c);
    const table t = make_table(c, a->spans, a->n_spans, by);
    const k_rope_args args = {.q = a->q,
                              .k = a->k,
                              .v = a->v,
                              .q_norm = a->q_norm,
                              .k_norm = a->k_norm,
                              .cos = a->cos,
                              .sin = a->sin,
                              .q_scale = a->q_scale,
                              .kv = view(&a->kv),
                              .spans = t.spans,
                              .pages = t.pages,
                              .n_heads = a->n_heads,
                              .norm = a->norm,
                              .rot_dims = a->rot_dims,
                              .pairs = a->pairs,
                              .eps = a->norm_eps,
                              .piece_rows = by.rows,
                              .stride = rope_stride(a)};
    const int heads = a->n_heads + 2 * a->kv.n_kv_heads;
    const kernel_id kernel = rope_kernel(c, a, by.rows);
    const bool is_fast = kernel >= KERNEL_k_turn_64 && kernel <= KERNEL_k_turn_128_one;
    const launch_shape shape = {.x = (heads + ROPE_WARPS - 1) / ROPE_WARPS,
                                .y = t.n_spans,
                                .threads = 32 * ROPE_WARPS,
                                .shared_bytes = is_fast ? 0 : rope_bytes(a, by.rows),
                                .early = true};
    if (t.n_spans && is_fast && by.rows == 1) /* attention may do it on its way */
        launch_hold(c, kernel, shape, &args, sizeof args);
    else if (t.n_spans)
        launch_push(c, kernel, shape, &args, sizeof args);
    cuda_unlock(c);
}

void cuda_latent_store(device *d, const latent_store_args *a) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    const table t = make_table(c, a->spans, a->n_spans, (cut){.rows = 1});
    const k_latent_args args = {.heads = a->heads,
                                .q = a->q,
                                .latent = a->latent,
                                .norm = a->norm,
                                .cos = a->cos,
                                .sin = a->sin,
                                .kv = view(&a->kv),
                                .spans = t.spans,
                                .pages = t.pages,
                                .n_heads = a->n_heads,
                                .heads_dim = a->heads_dim,
                                .rot_dims = a->rot_dims,
                                .pairs = a->pairs,
                                .eps = a->norm_eps};
    const launch_shape shape = {.x = (a->n_heads + ROPE_WARPS) / ROPE_WARPS,
                                .y = t.n_spans,
                                .threads = 32 * ROPE_WARPS,
                                .shared_bytes = (size_t)a->kv.head_dim * ROPE_WARPS * sizeof(float),
                                .early = true};
    if (t.n_spans) launch_push(c, of_type(KERNEL_k_latent_store_f16, a->kv.type), shape, &args, sizeof args);
    cuda_unlock(c);
}

/* ---- attention ---- */

/* The kernels of one number of queries a block. */
typedef struct attend_row {
    int queries;
    kernel_id f16, page_f16, merge; /* the first two: of_type */
} attend_row;

#define ROW(n)                                                                                                         \
    { n, KERNEL_k_attend_f16_##n, KERNEL_k_attend_page_f16_##n, KERNEL_k_attend_merge_##n }
static const attend_row rows_of_kernels[] = {ROW(1), ROW(4), ROW(8)}; /* ascending */
#undef ROW
enum { N_ROWS = sizeof rows_of_kernels / sizeof *rows_of_kernels };

/* What make_room of attend.cu lays out. */
static size_t shared_bytes(const attend_args *a, int queries) {
    const size_t q = ((size_t)queries * (size_t)a->kv.head_dim + 3) / 4 * 4;
    const size_t floats = (size_t)a->kv.v_dim + DEV_PAGE_TOKENS + ATTEND_THREADS + 8;
    return (q + floats * (size_t)queries) * sizeof(float);
}

/* The fewest queries that hold all there are together, or the most that fit the shared memory. */
static const attend_row *choose(const cuda_device *c, const attend_args *a, int group, int longest) {
    const attend_row *row = &rows_of_kernels[0];
    for (int i = 1; i < N_ROWS && row->queries < group * longest; i++)
        if (shared_bytes(a, rows_of_kernels[i].queries) <= (size_t)c->gpu.most_shared) row = &rows_of_kernels[i];
    return row;
}

static int64_t first_seen(const attend_args *a, int64_t position) {
    const int64_t in_window = a->window > 0 && position >= a->window ? position - a->window + 1 : 0;
    return a->chunk > 0 ? greater(in_window, position / a->chunk * a->chunk) : in_window;
}

/* Pages that any piece of the spans sees at most. */
static int64_t most_pages(const attend_args *a, int rows) {
    int64_t most = 0;
    for (int i = 0; i < a->n_spans; i++) {
        const row_span *s = &a->spans[i];
        for (int r = 0; r < s->n_rows; r += rows) {
            const int64_t last = s->past + least(r + rows, s->n_rows) - 1;
            most = greater(most, last / DEV_PAGE_TOKENS + 1 - first_seen(a, s->past + r) / DEV_PAGE_TOKENS);
        }
    }
    return most;
}

static void push_attend(cuda_device *c, const attend_args *a, const attend_row *row, k_attend_args *args, int tiles,
                        int n_spans) {
    launch_shape shape = {
        .x = tiles, .y = n_spans, .threads = ATTEND_THREADS, .shared_bytes = shared_bytes(a, row->queries)};
    const int64_t blocks = (int64_t)tiles * n_spans;
    const size_t part_bytes = (size_t)row->queries * (size_t)(2 + a->kv.v_dim) * sizeof(float);
    const bool fits = (size_t)blocks * (size_t)args->most_pages <= c->parts_bytes / part_bytes;
    if (args->most_pages < 2 || blocks >= FILL * c->gpu.multiprocessors || !fits || args->most_pages > 65535) {
        launch_push(c, of_type(row->f16, a->kv.type), shape, args, sizeof *args);
        return;
    }
    shape.z = args->most_pages;
    launch_push(c, of_type(row->page_f16, a->kv.type), shape, args, sizeof *args);
    shape.z = 1;
    shape.shared_bytes = 0;
    launch_push(c, row->merge, shape, args, sizeof *args);
}

/* ---- float16 caches on the tensor cores ---- */

typedef struct fast_row {
    int dim;
    kv_type type;
    kernel_id decode, merge, batch, prefill, flash; /* the last three: of float16 only; flash: of Hopper */
    int key_bits, value_bits;
} fast_row;

static const fast_row fast_rows[] = {
    {64, KV_F16, KERNEL_k_decode_64, KERNEL_k_decode_merge, KERNEL_k_batch_64, KERNEL_k_prefill_64, KERNEL_k_flash_64,
     16, 16},
    {128, KV_F16, KERNEL_k_decode_128, KERNEL_k_decode_merge, KERNEL_k_batch_128, KERNEL_k_prefill_128,
     KERNEL_k_flash_128, 16, 16},
    {64, KV_Q8, KERNEL_k_decode_64_q8, KERNEL_k_decode_coded_merge, KERNEL_COUNT, KERNEL_COUNT, KERNEL_COUNT, 8, 8},
    {64, KV_Q6, KERNEL_k_decode_64_q6, KERNEL_k_decode_coded_merge, KERNEL_COUNT, KERNEL_COUNT, KERNEL_COUNT, 6, 6},
    {64, KV_Q4, KERNEL_k_decode_64_q4, KERNEL_k_decode_coded_merge, KERNEL_COUNT, KERNEL_COUNT, KERNEL_COUNT, 6, 4},
    {128, KV_Q8, KERNEL_k_decode_128_q8, KERNEL_k_decode_coded_merge, KERNEL_COUNT, KERNEL_COUNT, KERNEL_COUNT, 8, 8},
    {128, KV_Q6, KERNEL_k_decode_128_q6, KERNEL_k_decode_coded_merge, KERNEL_COUNT, KERNEL_COUNT, KERNEL_COUNT, 6, 6},
    {128, KV_Q4, KERNEL_k_decode_128_q4, KERNEL_k_decode_coded_merge, KERNEL_COUNT, KERNEL_COUNT, KERNEL_COUNT, 6, 4},
};

/* NULL: the general kernels must do. */
static const fast_row *find_fast(const cuda_device *c, const attend_args *a) {
    if (c->head.exact || !a->kv.v || a->kv.head_dim != a->kv.v_dim) return NULL;
    for (size_t i = 0; i < sizeof fast_rows / sizeof *fast_rows; i++)
        if (fast_rows[i].dim == a->kv.head_dim && fast_rows[i].type == a->kv.type && c->kernels[fast_rows[i].decode])
            return &fast_rows[i];
    return NULL;
}

static size_t decode_shared(const fast_row *row, int ring) {
    return (size_t)(row->type == KV_F16 ? attend_decode_shared(row->dim, ring)
                                        : attend_coded_shared(row->dim, row->key_bits, row->value_bits));
}

static bool has_flash(const cuda_device *c, const fast_row *row) {
    return row->flash != KERNEL_COUNT && c->gpu.major == 9 && c->kernels[row->flash] &&
           flash_shared(row->dim) <= c->gpu.most_shared;
}

/* Rows of a piece of a span. */
static int fast_piece(const cuda_device *c, const fast_row *row) {
    return has_flash(c, row) ? FLASH_ROWS : ATTEND_ROWS;
}

static bool has_singles(const attend_args *a, int piece) {
    bool has = false;
    for (int i = 0; i < a->n_spans; i++) has = has || a->spans[i].n_rows % piece == 1;
    return has;
}

/* Pieces of more than one row. */
static void push_prefill(cuda_device *c, const fast_row *row, const k_decode_args *args, int n_spans) {
    const bool is_flash = has_flash(c, row);
    const launch_shape shape = {.x = args->n_heads,
                                .y = n_spans,
                                .threads = is_flash ? FLASH_THREADS : ATTEND_WARPS * 32,
                                .shared_bytes =
                                    is_flash ? (size_t)flash_shared(row->dim) : decode_shared(row, ATTEND_RING),
                                .early = true};
    launch_push(c, is_flash ? row->flash : row->prefill, shape, args, sizeof *args);
}

/* Where no warp gets a second group of tokens, none needs room for it, and more blocks are at work at once. */
static int ring_of(const attend_args *a) {
    for (int i = 0; i < a->n_spans; i++)
        if (a->spans[i].past + a->spans[i].n_rows > ATTEND_WARPS * ATTEND_GROUP) return ATTEND_RING;
    return 1;
}

static int rows_of(const attend_args *a) {
    int n = 0;
    for (int i = 0; i < a->n_spans; i++) n += a->spans[i].n_rows;
    return n;
}

/* What pieces of one row are cut into. */
typedef struct splitting {
    int shift, count; /* of the most that a row has; of the row that has most */
    int turns;        /* for each so many there is one at most */
    size_t results;   /* of all pieces: each is v_dim numbers, a maximum and a sum */
} splitting;

static bool is_batch(const attend_args *a, const fast_row *row) {
    return row->type == KV_F16 && rows_of(a) > CUDA_ALIKE_ROWS;
}

/* As row_splits has them, of the span's last row. */
static int splits_of(const attend_args *a, const row_span *s, const splitting *by) {
    const int64_t pos = s->past + s->n_rows - 1, seen = first_seen(a, pos);
    if (pos / DEV_PAGE_TOKENS == seen / DEV_PAGE_TOKENS) return 1;
    return attend_splits((int)(pos / ATTEND_TURN - seen / ATTEND_TURN + 1), by->shift, by->turns);
}

/* As many as keep a GPU busy with all KV heads of one row: to merge more would take longer than attending gains. Codes,
 * which cost instructions, are read by twice as many warps (cuda_program.c). Many rows keep it busy anyway: then
 * there are as many as a page's turns go into the row's, and each page is one in a batch. The GPU itself has no part in
 * it: a row's bits are the same on all. */
static splitting split_rows(const attend_args *a, const fast_row *row, int n_spans) {
    const int all = row->type == KV_F16 ? 256 : 512, page = DEV_PAGE_TOKENS / ATTEND_TURN;
    const bool is_paged = is_batch(a, row);
    splitting s = {.count = is_paged ? (int)most_pages(a, 1) : 1, .turns = rows_of(a) > CUDA_ALIKE_ROWS ? page : 1};
    while (a->kv.n_kv_heads << s.shift < all) s.shift++;
    for (int i = 0; i < a->n_spans && !is_paged; i++) s.count = (int)greater(s.count, splits_of(a, &a->spans[i], &s));
    s.results = (size_t)n_spans * (size_t)a->n_heads * (size_t)s.count;
    return s;
}

static bool has_room_for(const cuda_device *c, const attend_args *a, const splitting *s, int n_spans) {
    return s->results <= c->parts_bytes / ((size_t)(a->kv.v_dim + 2) * sizeof(float)) && n_spans <= 65535;
}

/* Rows of one KV head and page: a warp has them, or a block. */
static int64_t head_blocks(const attend_args *a) {
    const int shares = a->n_heads / a->kv.n_kv_heads;
    return (int64_t)a->kv.n_kv_heads * ((shares + ATTEND_HEADS - 1) / ATTEND_HEADS);
}

/* Rows that rope_store has been asked for and nobody has turned are turned on the way, if these are they. */
static void push_batch(cuda_device *c, const attend_args *a, const fast_row *row, const k_decode_args *args,
                       int n_spans) {
    const k_rope_args *held = launch_held(c);
    k_batch_args b = {.attend = *args};
    const bool is_it = held && held->q == a->q && held->spans == args->spans && held->kv.k == a->kv.k &&
                       a->n_heads / a->kv.n_kv_heads <= ATTEND_HEADS;
    if (is_it) {
        b.turn = *held;
        launch_take_back(c);
    }
    launch_shape shape = {.x = args->n_splits,
                          .y = (head_blocks(a) + ATTEND_WARPS - 1) / ATTEND_WARPS,
                          .z = n_spans,
                          .threads = ATTEND_WARPS * 32,
                          .shared_bytes = (size_t)attend_batch_shared(row->dim),
                          .early = true};
    launch_push(c, row->batch, shape, &b, sizeof b);
    shape = (launch_shape){.x = a->n_heads, .y = n_spans, .threads = row->dim / 2, .early = true};
    if (args->n_splits > 1) launch_push(c, KERNEL_k_batch_merge, shape, args, sizeof *args);
}

static void push_decode(cuda_device *c, const attend_args *a, const fast_row *row, const k_decode_args *args,
                        int n_spans) {
    launch_shape shape = {.x = args->n_splits,
                          .y = head_blocks(a),
                          .z = n_spans,
                          .threads = ATTEND_WARPS * 32,
                          .shared_bytes = decode_shared(row, args->ring),
                          .early = true};
    launch_push(c, row->decode, shape, args, sizeof *args);
    if (args->n_splits == 1 && row->type == KV_F16) return; /* nothing to merge */
    shape = (launch_shape){.x = a->n_heads, .y = n_spans, .threads = row->dim, .early = true};
    launch_push(c, row->merge, shape, args, sizeof *args);
}

/* Pieces of one row are cut into splits, as long as there is room for their results; longer ones are not. */
static void push_fast(cuda_device *c, const attend_args *a, const fast_row *row, const table *t, int longest) {
    const splitting splits = split_rows(a, row, t->n_spans);
    const bool has_room = has_room_for(c, a, &splits, t->n_spans), is_many = is_batch(a, row);
    const bool is_f16 = row->type == KV_F16;
    k_decode_args args = {.q = a->q,
                          .out = a->out,
                          .k = a->kv.k,
                          .v = a->kv.v,
                          .page_stride = a->kv.page_stride,
                          .spans = t->spans,
                          .pages = t->pages,
                          .sinks = a->sinks,
                          .part = c->parts,
                          .part_sums = c->parts + splits.results * (size_t)row->dim,
                          .n_heads = a->n_heads,
                          .n_kv_heads = a->kv.n_kv_heads,
                          .n_splits = splits.count,
                          .window = a->window,
                          .chunk = a->chunk,
                          .scale = a->scale,
                          .cap = a->cap,
                          .singles = has_room,
                          .split_shift = (int16_t)splits.shift,
                          .split_turns = (int16_t)splits.turns,
                          .ring = ring_of(a)};
    if (is_many && has_flash(c, row)) cuda_packed_leave(c, &args, a->next, rows_of(a), a->n_heads * row->dim);
    if (is_f16 && (longest > 1 || !has_room)) push_prefill(c, row, &args, t->n_spans);
    if (!has_room || !has_singles(a, fast_piece(c, row))) return;
    if (is_many)
        push_batch(c, a, row, &args, t->n_spans);
    else
        push_decode(c, a, row, &args, t->n_spans);
}

/* What is coded was rotated (kv_quant.h): queries are too, and results are rotated back. The lock is held. */
static void rotate(cuda_device *c, const attend_args *a, float *x, int dim, int first) {
    const row_span *last = &a->spans[a->n_spans - 1];
    const int64_t begin = a->spans[0].row, n_rows = last->row + last->n_rows - begin;
    const k_hadamard_args args = {
        .x = x + begin * a->n_heads * dim, .n_vectors = n_rows * a->n_heads, .dim = dim, .first = first};
    const launch_shape shape = {.x = (args.n_vectors + ROPE_WARPS - 1) / ROPE_WARPS,
                                .threads = 32 * ROPE_WARPS,
                                .shared_bytes = (size_t)dim * ROPE_WARPS * sizeof(float),
                                .early = true};
    launch_push(c, KERNEL_k_hadamard, shape, &args, sizeof args);
}

static int longest_of(const attend_args *a) {
    int longest = 1;
    for (int i = 0; i < a->n_spans; i++) longest = a->spans[i].n_rows > longest ? a->spans[i].n_rows : longest;
    return longest;
}

static void attend_general(cuda_device *c, const attend_args *a) {
    const int group = a->n_heads / a->kv.n_kv_heads, longest = longest_of(a);
    const attend_row *row = choose(c, a, group, longest);
    const int heads = least(group, row->queries), rows = row->queries / heads;
    const int tiles = (group + heads - 1) / heads * a->kv.n_kv_heads;
    const table t = make_table(c, a->spans, a->n_spans, (cut){.rows = least(rows, longest)});
    k_attend_args args = {.q = a->q,
                          .sinks = a->sinks,
                          .out = a->out,
                          .parts = c->parts,
                          .kv = view(&a->kv),
                          .spans = t.spans,
                          .pages = t.pages,
                          .n_heads = a->n_heads,
                          .group = group,
                          .tile_heads = heads,
                          .most_pages = (int32_t)most_pages(a, rows),
                          .window = a->window,
                          .chunk = a->chunk,
                          .scale = a->scale,
                          .cap = a->cap};
    const bool is_coded = a->kv.type > KV_F32;
    if (!t.n_spans) return;
    if (is_coded) rotate(c, a, a->q, a->kv.head_dim, a->kv.v ? a->kv.head_dim : a->kv.v_dim);
    push_attend(c, a, row, &args, tiles, t.n_spans);
    if (is_coded) rotate(c, a, a->out, a->kv.v_dim, a->kv.v_dim);
}

/* Single rows of a coded cache have a kernel of their own; prompts go the general way, a sequence at a time. */
static void attend_coded(cuda_device *c, const attend_args *a, const fast_row *fast) {
    const splitting splits = split_rows(a, fast, a->n_spans);
    if (!has_room_for(c, a, &splits, a->n_spans)) return attend_general(c, a);
    for (int i = 0; i < a->n_spans; i++) {
        attend_args one = *a;
        one.spans = &a->spans[i];
        one.n_spans = 1;
        if (a->spans[i].n_rows > 1) attend_general(c, &one);
    }
    const table whole = make_table(c, a->spans, a->n_spans, (cut){.rows = UNCUT});
    if (whole.n_spans) push_fast(c, a, fast, &whole, 1);
}

void cuda_attend(device *d, const attend_args *a) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    const fast_row *fast = find_fast(c, a);
    if (!fast) {
        attend_general(c, a);
    } else if (a->kv.type == KV_F16) {
        const table pieces = make_table(c, a->spans, a->n_spans, (cut){.rows = fast_piece(c, fast)});
        if (pieces.n_spans) push_fast(c, a, fast, &pieces, longest_of(a));
    } else {
        attend_coded(c, a, fast);
    }
    cuda_unlock(c);
}
