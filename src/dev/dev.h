/* dev.h — what a device offers to the model: memory, weights, and the fused steps of a transformer.
 *
 * Called by model/ (which walks its plan through `ops`) and cache/ (which takes memory for pages). A device is one
 * folder below and one row of dev.c. Ops are steps of a transformer, not tensor algebra; all activations are float32
 * [n_rows][stride] in device memory.
 *
 * The rule every device keeps: the bits of an output row depend on that row's input and its own sequence alone, never
 * on how many rows the step has, on its neighbours, on how a prompt was cut into chunks, or on the number of threads.
 * That makes answers independent of the batch. */
#ifndef DEV_DEV_H
#define DEV_DEV_H

#include "base/err.h"
#include "quant/quant.h"

enum { DEV_PAGE_TOKENS = 256, DEV_KEY_GROUP = 16 };

typedef struct device device;

typedef struct dev_options {
    const char *kind;      /* NULL or "auto": the best found; "cpu" */
    const char *cpu_level; /* NULL: best; else one of dev_cpu_level */
    int threads;           /* 0: usable physical cores */
    bool pin_threads;
    bool exact; /* float32 activations everywhere */
    qp_log log;
} dev_options;

/* ---- weights ---- */

/* A matrix as the device wants it: y = W x, W [n_out, n_in]. Plain formats stay in the mapping they came from, others
 * may be re-laid (weight_pack). */
typedef struct dev_weight {
    const quant_type *type;
    int64_t n_out, n_in;
    const void *data;    /* part 0 of `stored` */
    quant_matrix stored; /* as it came */
    void *packed;        /* the device's description of what it owns, or NULL: it reads what is stored */
    void *owned;         /* device memory, or NULL */
    size_t owned_bytes;
} dev_weight;

/* ---- arguments of the ops ---- */

typedef struct embed_args {
    const int32_t *ids; /* host [n_rows], each < table->n_out */
    int n_rows;
    const dev_weight *table; /* [vocabulary, hidden] */
    float *out;              /* [n_rows][hidden] */
    float scale;             /* 1: none */
} embed_args;

/* RMS norm (Zhang and Sennrich 2019): out = x / sqrt(mean(x^2) + eps) * weight. */
typedef struct norm_args {
    const float *x;
    const int32_t *rows; /* host: which rows of x, or NULL for 0 .. n_rows-1 */
    int n_rows, dim;
    const float *weight; /* [dim] */
    float eps;
    float *out; /* [n_rows][dim]; may be x when rows is NULL */
} norm_args;

enum { DEV_MATMUL_PARTS = 4 };

/* out[row][0 .. w->n_out) (+)= W x[row] + bias. */
typedef struct matmul_part {
    const dev_weight *w;
    const float *bias; /* [n_out] or NULL */
    float *out;
    int64_t out_stride; /* floats from a row to the next */
    bool add;           /* add to what out holds: the residual */
} matmul_part;

/* Several matrices that read the same input (q, k, v; gate, up) in one step. */
typedef struct matmul_args {
    const float *x; /* [n_rows][x_stride], n_in floats used of each */
    int64_t x_stride;
    int n_rows, n_parts;
    matmul_part parts[DEV_MATMUL_PARTS];
} matmul_args;

typedef enum kv_type { KV_F16, KV_F32 } kv_type;

/* One layer's keys and values, lent by cache/store.c, keys and values apart. Inside a page values are
 * [n_kv_heads][DEV_PAGE_TOKENS][head_dim]; keys are [n_kv_heads][DEV_PAGE_TOKENS / DEV_KEY_GROUP][head_dim]
 * [DEV_KEY_GROUP], so that the scores of a group's tokens come out side by side. Whole groups can be copied from page
 * to page; what is in the slots behind a sequence's last token never matters. */
typedef struct kv_view {
    kv_type type;
    int n_kv_heads, head_dim;
    uint8_t *k, *v;     /* of page 0 */
    size_t page_stride; /* bytes from a page to the next, for k and for v */
} kv_view;

/* Where element d of a slot's key lies, counted in elements from the first of its head. */
static inline size_t dev_key_at(int slot, int d, int head_dim) {
    const size_t row = (size_t)(slot / DEV_KEY_GROUP) * (size_t)head_dim + (size_t)d;
    return row * DEV_KEY_GROUP + (size_t)(slot % DEV_KEY_GROUP);
}

/* The rows of a step that belong to one sequence: n_rows consecutive rows beginning at `row`, the first of which has
 * position `past`. Position p lives in page pages[p / 256], slot p % 256. */
typedef struct row_span {
    int row, n_rows;
    int64_t past;
    const int32_t *pages; /* host */
} row_span;

/* Normalises q and k per head where asked, rotates them (halves style: element i with i + rot_dims/2), rotates q in
 * place, writes k and v into the pages. */
typedef struct rope_store_args {
    float *q;       /* [n_rows][n_heads * head_dim], contiguous rows */
    float *k;       /* [n_rows][n_kv_heads * head_dim]; scratch afterwards */
    const float *v; /* as k */
    int n_heads;
    const float *q_norm, *k_norm; /* [head_dim] RMS norm weights, or NULL */
    float norm_eps;
    int rot_dims;           /* even, <= head_dim */
    const float *cos, *sin; /* [n_rows][rot_dims / 2] */
    kv_view kv;
    const row_span *spans;
    int n_spans;
} rope_store_args;

/* out[row] = softmax(scale * q . K, over positions max(0, p - window + 1) .. p) V, per head; kv head = head / (n_heads
 * / n_kv_heads). Never materialises the score matrix: each page alone, against its own maximum, then merged in
 * ascending order (after Milakov and Gimelshein 2018). */
typedef struct attend_args {
    const float *q; /* [n_rows][n_heads * head_dim] */
    float *out;     /* same shape */
    int n_heads;
    float scale;
    int window; /* positions a query sees including itself; 0: all */
    kv_view kv;
    const row_span *spans;
    int n_spans;
} attend_args;

typedef enum activation { ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_RELU, ACT_COUNT } activation;

/* gate[i] = act(gate[i]) * up[i] */
typedef struct gate_args {
    activation act;
    float *gate;     /* [n_rows][dim], in place */
    const float *up; /* [n_rows][dim] */
    int n_rows, dim;
} gate_args;

/* n_blocks blocks of `bytes`, each `stride` behind the last, from one place of device memory to another that does not
 * overlap it. */
typedef struct copy_args {
    void *to;
    const void *from;
    size_t bytes, stride;
    int n_blocks;
} copy_args;

/* ---- the device ---- */

typedef struct dev_ops {
    const char *kind; /* "cpu" */
    void (*close)(device *d);
    /* Zero-filled, 64-byte aligned device memory. */
    qp_status (*take)(device *d, void **out, size_t bytes, qp_error *err);
    void (*give)(device *d, void *memory, size_t bytes);
    void (*upload)(device *d, void *to, const void *from, size_t bytes);
    void (*download)(device *d, void *to, const void *from, size_t bytes);
    /* Makes a weight of a stored matrix; the matrix' parts must outlive it. QP_UNSUPPORTED for a format without kernel.
     */
    qp_status (*weight_open)(device *d, dev_weight *out, const quant_matrix *m, qp_error *err);
    /* Re-lays a weight that products will read, where that makes them faster; what is stored must stay. */
    qp_status (*weight_pack)(device *d, dev_weight *w, qp_error *err);
    void (*weight_close)(device *d, dev_weight *w);
    /* Makes room for steps of up to max_rows rows and inputs of up to max_in floats; before the first op. */
    qp_status (*reserve)(device *d, int max_rows, int64_t max_in, qp_error *err);

    void (*embed)(device *d, const embed_args *a);
    void (*norm)(device *d, const norm_args *a);
    void (*matmul)(device *d, const matmul_args *a);
    void (*rope_store)(device *d, const rope_store_args *a);
    void (*attend)(device *d, const attend_args *a);
    void (*gate)(device *d, const gate_args *a);
    void (*copy)(device *d, const copy_args *a);
    /* Returns when all ops before it are done. */
    qp_status (*finish)(device *d, qp_error *err);
} dev_ops;

/* The head of every device's own struct. */
struct device {
    const dev_ops *ops;
    char name[32];  /* "cpu" */
    char level[16]; /* "avx512" ... */
    int threads;
    bool exact;
};

/* Opens the device that `options` names. One thread uses it at a time. */
qp_status dev_open(device **out, const dev_options *options, qp_error *err);
void dev_close(device *d);

/* Instruction levels of the CPU device, slowest first, until NULL; and whether this machine has one. */
const char *dev_cpu_level(int index);
bool dev_cpu_level_available(const char *level);

/* ---- measuring the machine ---- */

typedef struct dev_measure_options {
    const char *cpu_level;
    int threads;
    double seconds;
} dev_measure_options;

/* See qp_measure_bandwidth and qp_measure_compute. */
qp_status dev_measure_bandwidth(qp_measure *out, const dev_measure_options *options, qp_error *err);
qp_status dev_measure_compute(qp_measure *out, int capacity, int *count, const dev_measure_options *options,
                              qp_error *err);

#endif
