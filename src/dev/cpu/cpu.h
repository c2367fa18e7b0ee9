/* cpu.h — the CPU device from the inside: its struct, the tables of plain kernels, and who fills them.
 *
 * An op of dev.h arrives at a cpu_* wrapper (cpu_matmul.c, cpu_rows.c, cpu_attend.c), which splits its arguments into
 * tasks for the pool; a task calls kernels out of the device's three tables. The kernels live in <isa>_*.c, one const
 * table per file and nothing else exported. Opening lays the tables over each other, ref <- avx2 <- avx512 <-
 * avx512bf16 <- amx <- amxint8, on 64-bit ARM ref <- neon <- dotprod <- i8mm: where a level has no kernel of its own,
 * the one below stays. Intrinsics only in <isa>_*.c. */
#ifndef DEV_CPU_CPU_H
#define DEV_CPU_CPU_H

#include "base/cpuid.h"
#include "base/pool.h"
#include "cpu_open.h"

/* ---- matrix products ---- */

/* What this processor likes, of ways that give the same bits. Packed weights of a single row are read several tiles
 * side by side, or one after the other; float weights of few rows are fetched each column by itself, or as they lie. */
typedef struct cpu_ways {
    bool one_stream;
    size_t ahead; /* of one stream: bytes that it is told about in advance; 0: the processor fetches better by itself */
    bool pairs;   /* many rows multiply sums of two inputs (quant_pairs.inc) */
    size_t first_cache, second_cache; /* bytes of a core's; 0: as many as every processor has */
} cpu_ways;

/* What one task computes: out[row][column] (+)= W[column] . x[row] + bias[column] for all rows and columns below. */
typedef struct cpu_matmul_block {
    const dev_weight *w;
    const void *x; /* all n_rows_packed rows, as the kernel's pack left them */
    int n_packed;  /* how many rows were packed */
    int row, n_rows;
    int64_t column, n_columns;
    const float *bias; /* of column 0, or NULL */
    float *out;        /* of row 0, column 0 */
    int64_t out_stride;
    bool add;
    cpu_ways ways; /* the device's */
    void *scratch; /* of this worker, scratch_bytes of it */
    /* Gated products: `gate` gets n values of this one's and of up's, and what it makes of them goes to `out`. */
    const dev_weight *up; /* NULL: not gated */
    const float *up_bias;
    void (*gate)(float *gate, const float *up, int n);
    void *packed_out; /* gated: the result goes here, of row 0, as the kernel's pack would leave it; NULL: to `out` */
} cpu_matmul_block;

enum { CPU_PACK_ROWS = 16, CPU_FEW_ROWS = 4 };

/* Rows [begin, end) of activations, their inputs [from, to). What begins or ends inside the matrix is a multiple of
 * CPU_PACK_ROWS, of packs_ahead. */
typedef struct cpu_pack_part {
    const float *x; /* the first of them */
    int64_t stride;
    int begin, end;
    int64_t from, to;
} cpu_pack_part;

/* How one level multiplies by one weight format. The order of the additions that make an output depends on n_in
 * alone: `run` gives the same bits for one row as for many and for any cut into blocks. */
typedef struct cpu_matmul_kernel {
    int stream_rows;     /* up to so many rows a task reads its weights once, straight from where they lie */
    int64_t stream_step; /* columns that are read together then */
    int64_t tall_step;   /* the same for more than CPU_FEW_ROWS of them; 0: no other */
    int row_step;        /* more rows are cut into multiples of this */
    int64_t panel;       /* columns of a task then */
    /* For more tasks: fewer rows while there are more than free_rows, then fewer columns down to least_panel, then
     * fewer rows again; 0: rows alone. */
    int free_rows;
    int64_t least_panel;
    bool gates; /* run takes gated blocks of more than stream_rows rows */
    /* Rows of more than stream_rows may be left packed, in the place of their floats, by the step before: a norm,
     * attention, or a gated run, where the columns are a multiple of this; 0: never. */
    int64_t packs_ahead;
    size_t (*packed_bytes)(int n_rows, int64_t n_in); /* SIZE_MAX where it overflows */
    /* Puts rows [begin, end) of x into the order and precision that `run` reads; begin is a multiple of
     * CPU_PACK_ROWS, and so is end unless it is n_rows. */
    void (*pack)(void *to, const float *x, int64_t x_stride, int n_rows, int64_t n_in, int begin, int end);
    /* As pack, of a part alone; NULL unless packs_ahead. */
    void (*pack_part)(void *to, int n_rows, int64_t n_in, const cpu_pack_part *part);
    size_t (*scratch_bytes)(int64_t n_in);
    void (*run)(const cpu_matmul_block *b);
    /* As pack, but of x[order[k]] for each k unless order is NULL; and where there is a join_rows of any rows: that
     * ends it for CPU_PACK_ROWS that are all packed. NULL: weights never have an order. */
    void (*pack_rows)(void *to, const float *x, int64_t x_stride, int n_rows, int64_t n_in, int begin, int end,
                      const int32_t *order);
    void (*join_rows)(void *to, int n_rows, int64_t n_in, int begin, int end);
    bool has_pairs;                    /* run looks at ways.pairs */
    const struct cpu_weaving *weaving; /* of weights that are made while a model loads; NULL: rows */
} cpu_matmul_kernel;

/* How float16 weights are laid out that become BF16: some columns together. */
typedef struct cpu_weaving {
    const cpu_matmul_kernel *kernel; /* of all rows, with the same `pack` as that of rows of weights */
    int columns;
    size_t (*bytes)(int64_t n_out, int64_t n_in); /* what rows take must fit in size_t; SIZE_MAX where this does not */
    /* Columns [column, end) of a float16 weight, which begin at a multiple and end at one or with the weight, to their
     * place in the matrix at `to`. */
    void (*weave)(void *to, const dev_weight *w, int64_t column, int64_t end);
} cpu_weaving;

/* n numbers of float16, at any address, as the nearest BF16. */
typedef void cpu_round_f16(uint16_t *to, const uint8_t *from, int64_t n);

typedef struct cpu_matmul_ops {
    const cpu_matmul_kernel *fast[QUANT_PLAIN_COUNT], *exact[QUANT_PLAIN_COUNT]; /* fast falls back to exact */
    const cpu_matmul_kernel *unpacked;                                           /* any format that can be unpacked */
    /* Weights that coded.c has looked at; NULL: none. Those of coded_fast are for `fast`, and there is a coded one. */
    const cpu_matmul_kernel *coded[QUANT_CODES_COUNT], *coded_fast[QUANT_CODES_COUNT];
    const cpu_matmul_kernel *grouped; /* weights that pack.c has re-laid; NULL: none */
    const cpu_matmul_kernel *prompts; /* the same for rows of prompts; NULL: as all others */
    cpu_round_f16 *round_f16;         /* for levels that multiply BF16 faster in `fast`; NULL: float16 stays */
} cpu_matmul_ops;

/* ---- row by row; pointers need no alignment beyond a float's ---- */

typedef struct cpu_row_ops {
    /* out = scale * row of the table; the table's bytes may lie at any address. */
    void (*embed)(float *out, const dev_weight *table, int32_t id, float scale);
    /* May run in place; weight and bias may be NULL. */
    void (*norm)(float *out, const float *x, const float *weight, float eps, int dim);
    void (*layer_norm)(float *out, const float *x, const float *weight, const float *bias, float eps, int dim);
    /* One head, halves style and pairs style; cos and sin have rot_dims / 2 values. */
    void (*rope)(float *head, const float *cos, const float *sin, int rot_dims);
    void (*rope_pairs)(float *head, const float *cos, const float *sin, int rot_dims);
    /* up NULL: no factor. */
    void (*gate[ACT_COUNT])(float *gate, const float *up, int dim);
    void (*clamped_gate)(float *gate, const float *up, int dim, float alpha, float limit);
    void (*xielu)(float *x, int dim, const xielu_args *a); /* a's numbers alone */
    void (*add)(float *to, const float *from, float scale, int dim);
    void (*limit)(float *x, int dim, float scale, float cap, float limit);
    void (*store_f16)(uint16_t *out, const float *x, int n);
} cpu_row_ops;

/* ---- attention ---- */

/* What attention over some of the positions gives, query by query: exp(best) * total and exp(best) * sum. A query that
 * saw none of them has minus infinity, 0 and zeros. */
typedef struct cpu_attend_state {
    float *best, *total; /* [n_queries] */
    float *sum;          /* [n_queries][v_dim] */
} cpu_attend_state;

/* n_queries queries that read the same KV head, against slots [begin, end) of one page. */
typedef struct cpu_attend_page {
    const float *q; /* [n_queries][head_dim], scaled already */
    int n_queries, head_dim, v_dim;
    float cap; /* of scores; 0: none */
    kv_type k_type, v_type;
    const void *k, *v;      /* of this head in this page, as kv_view tells; v NULL: inside the keys */
    const void *next_k;     /* what will be read soon, or NULL */
    const int *begin, *end; /* [n_queries]: a causal or windowed query sees only part */
    cpu_attend_state to;
    void *scratch; /* CPU_ATTEND_FLOATS floats, 64-byte aligned */
} cpu_attend_page;

enum { CPU_ATTEND_QUERIES = 128, CPU_ATTEND_DIM = 1024, CPU_ATTEND_TILES_DIM = 512, CPU_ATTEND_FLOATS = 170000 };

/* The bits that a query gets depend on what it sees alone. The page kernels of ref take any head_dim, the others up to
 * CPU_ATTEND_DIM; all of them up to CPU_ATTEND_QUERIES. */
typedef struct cpu_attend_ops {
    void (*page_f16)(const cpu_attend_page *a);
    void (*page_f32)(const cpu_attend_page *a);
    void (*page_quantised)(const cpu_attend_page *a); /* queries are rotated, and so is what comes out */
    /* As page_f16, but less exact: for `fast`, elements up to CPU_ATTEND_TILES_DIM and values apart from the keys.
     * NULL: none. */
    void (*page_tiles)(const cpu_attend_page *a);
    /* `more`, of positions that follow, into `s`. */
    void (*merge)(const cpu_attend_state *s, const cpu_attend_state *more, int n_queries, int v_dim);
} cpu_attend_ops;

/* ---- the tables: one file each ---- */

extern const cpu_matmul_ops cpu_matmul_ref;
extern const cpu_row_ops cpu_row_ref;
extern const cpu_attend_ops cpu_attend_ref;
#if defined(__x86_64__)
extern const cpu_matmul_ops cpu_matmul_avx2, cpu_matmul_avx512, cpu_matmul_avx512bf16, cpu_matmul_amx;
extern const cpu_matmul_ops cpu_quant_avx2, cpu_quant_avxvnni, cpu_quant_avx512vnni, cpu_quant_amx, cpu_quant_amxint8;
extern const cpu_row_ops cpu_row_avx2, cpu_row_avx512;
extern const cpu_attend_ops cpu_attend_avx2, cpu_attend_avx512, cpu_attend_amx;
#elif defined(__aarch64__)
extern const cpu_matmul_ops cpu_matmul_neon, cpu_quant_neon, cpu_quant_dotprod, cpu_quant_i8mm;
extern const cpu_row_ops cpu_row_neon;
extern const cpu_attend_ops cpu_attend_neon;
#endif

/* ---- levels (cpu_level.c) ---- */

typedef struct cpu_level {
    const char *name;
    bool (*usable)(const cpu_features *features);    /* by the processor alone */
    bool (*preferred)(const cpu_features *features); /* taken unasked; NULL: wherever usable */
    const cpu_matmul_ops *matmul;
    const cpu_row_ops *row; /* NULL, as the others: none of its own */
    const cpu_attend_ops *attend;
    const cpu_matmul_ops *quant; /* products with weights that pack.c has re-laid */
} cpu_level;

/* Slowest first, until NULL. */
const cpu_level *cpu_level_at(int index);
/* The level of that name, or the best one for NULL; QP_BAD_ARGUMENT names those that this machine has. */
qp_status cpu_level_find(int *index, const char *name, const cpu_features *features, qp_error *err);
/* How the processor reads fastest. */
cpu_ways cpu_level_ways(const cpu_features *features);

/* ---- the device ---- */

enum {
    CPU_SCRATCH_BYTES = 1 << 20, /* every worker has at least so much, 64-byte aligned, for the op it is in */
    CPU_PARTS_BYTES = 4 << 20,
};

typedef struct cpu_device {
    device head; /* first: a device * is a cpu_device * */
    qp_log log;
    pool *pool;
    struct pack_cache *cache; /* of packed weights, or NULL */
    cpu_matmul_ops matmul;
    cpu_row_ops row;
    cpu_attend_ops attend;
    cpu_ways ways;
    uint8_t *scratch; /* [threads][scratch_bytes] */
    size_t scratch_bytes;
    uint8_t *packed; /* activations as the matrix kernels want them */
    size_t packed_bytes;
    const float *left;  /* where the op before left its result packed, for the next product; or NULL */
    float *parts;       /* what pages of long contexts give, until they are merged */
    size_t parts_bytes; /* as many as attention may use of CPU_PARTS_BYTES */
    int max_rows;       /* what reserve was asked for */
    int64_t max_in;
} cpu_device;

static inline cpu_device *cpu_of(device *d) { return (cpu_device *)d; }
static inline void *cpu_scratch(const cpu_device *c, int worker) {
    return c->scratch + (size_t)worker * c->scratch_bytes;
}

/* cpu_matmul.c */
void cpu_matmul(device *d, const matmul_args *a);
/* The kernel of all products with these weights, if a step that writes [n_rows][n] floats may leave them packed for it
 * in their place, and say so in c->left; or NULL. n_prompt: of the rows, as matmul_args has it. */
const cpu_matmul_kernel *cpu_matmul_ahead(const cpu_device *c, const dev_weight *const *next, int n_next, int n_rows,
                                          int n_prompt, int64_t n);
qp_status cpu_matmul_reserve(cpu_device *c, int max_rows, int64_t max_in, qp_error *err);
/* cpu_check.c: small products through the `fast` kernels and through ref's; *right tells whether they agree. */
qp_status cpu_matmul_check(bool *right, const cpu_matmul_ops *ops, qp_error *err);

/* cpu_tune.c: sets what of `ways` only a clock can tell. */
qp_status cpu_matmul_tune(cpu_ways *ways, const cpu_matmul_ops *ops, qp_error *err);
/* cpu_rows.c */
void cpu_embed(device *d, const embed_args *a);
void cpu_norm(device *d, const norm_args *a);
void cpu_gate(device *d, const gate_args *a);
void cpu_clamped_gate(device *d, const clamped_gate_args *a);
void cpu_xielu(device *d, const xielu_args *a);
void cpu_add(device *d, const add_args *a);
void cpu_limit(device *d, const limit_args *a);
/* cpu_rope.c */
void cpu_rope_store(device *d, const rope_store_args *a);
/* One row's keys into slot `slot` of the page at `page`; rotated already where the type is quantised. */
void cpu_store_keys(const cpu_device *c, const kv_view *kv, uint8_t *page, int slot, const float *heads);
/* Rows first .. first + count - 1 as counted through all spans; i: the row's number in its span. */
typedef void cpu_row_fn(const void *context, const row_span *span, int i);
void cpu_each_row(const row_span *spans, int n_spans, int64_t first, int64_t count, cpu_row_fn *row,
                  const void *context);
/* cpu_latent.c */
void cpu_latent_store(device *d, const latent_store_args *a);
/* cpu_experts.c */
void cpu_route(device *d, const route_args *a);
void cpu_experts(device *d, const experts_args *a);
/* cpu_attend.c */
void cpu_attend(device *d, const attend_args *a);

#endif
