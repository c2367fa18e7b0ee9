/* dev.h — what a device offers to the model: memory, weights, and the fused steps of a transformer.
 *
 * Called by model/ (which walks its plan through `ops`) and cache/ (which takes memory for pages). A device is one
 * folder below and one row of dev.c. Ops are steps of a transformer, not tensor algebra; all activations are float32
 * [n_rows][stride] in device memory.
 *
 * The rule every device keeps: the bits of an output row depend on that row's input, its own sequence and whether that
 * calls it a row of its prompt alone, never on how many rows the step has, on its neighbours, on how a prompt was cut
 * into chunks, or on the number of threads. That makes answers independent of the batch. */
#ifndef DEV_DEV_H
#define DEV_DEV_H

#include "base/digest.h"
#include "base/err.h"
#include "quant/quant.h"
#include <stdatomic.h>

enum { DEV_PAGE_TOKENS = 256, DEV_KEY_GROUP = 16, DEV_MATMUL_PARTS = 4, DEV_MOST_ROWS = 2048 };

typedef struct device device;

typedef struct dev_options {
    const char *kind;      /* NULL or "auto": the best found; "cpu"; "cuda", "cuda:1" ... */
    const char *cpu_level; /* NULL: best; else one of dev_cpu_level */
    int threads;           /* 0: usable physical cores */
    bool pin_threads;
    bool exact; /* float32 activations everywhere */
    /* The file in which a device that re-lays weights keeps them; NULL: none. Its source: of what it is made. */
    const char *pack_path;
    uint64_t pack_source;
    qp_log log;
} dev_options;

/* ---- weights ---- */

/* What a matrix is for: those of a device that lie best for products may lack what else is done. Set between
 * weight_open and weight_pack, as is its key. */
typedef enum dev_use {
    DEV_USE_PRODUCT,
    DEV_USE_EXACT,  /* the same, of matmul_args that are exact */
    DEV_USE_TABLE,  /* products, and rows are looked up */
    DEV_USE_EXPERT, /* takes turns with others in products */
    DEV_USE_LOOKUP, /* rows are looked up, nothing else */
} dev_use;

/* A matrix as the device wants it: y = W x, W [n_out, n_in]. Plain formats stay in the mapping they came from, or may
 * be rounded as products would round them; others may be re-laid (weight_pack). */
typedef struct dev_weight {
    const quant_type *type;
    int64_t n_out, n_in;
    const void *data; /* part 0 of `stored`, or what that was rounded to */
    dev_use use;
    uint64_t key;        /* tells it from the model's others, if it may be kept in a file; 0: it may not */
    quant_matrix stored; /* as it came */
    void *packed;        /* the device's description of what it owns, or NULL: it reads what is stored */
    void *owned;         /* device memory, or NULL */
    size_t owned_bytes;
    bool is_woven; /* data is in an order of the device's own */
} dev_weight;

/* ---- arguments of the ops ---- */

typedef struct embed_args {
    const int32_t *ids; /* host [n_rows], each < table->n_out */
    int n_rows;
    const dev_weight *table; /* [vocabulary, hidden] */
    float *out;              /* [n_rows][hidden] */
    float scale;             /* 1: none */
    bool add;                /* to what out holds: learned positions */
} embed_args;

typedef enum norm_kind {
    NORM_RMS,   /* x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019) */
    NORM_LAYER, /* (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias (Ba et al. 2016) */
} norm_kind;

typedef struct norm_args {
    norm_kind kind;
    const float *x;
    const int32_t *rows; /* host: which rows of x, or NULL for 0 .. n_rows-1 */
    int n_rows, dim;
    int heads;           /* vectors of `dim` side by side in a row, each normalised for itself; 0: 1 */
    const float *weight; /* [dim], NULL: ones; with own_weights [heads][dim] */
    const float *bias;   /* [dim] or NULL; NORM_LAYER only */
    bool own_weights;
    float eps;
    float *out; /* [n_rows][heads * dim]; may be x when rows is NULL */
    /* The weights that the result is multiplied by in the next product of the device, if nothing else reads it: see
     * matmul_args. n_next 0: others read it. */
    const dev_weight *next[DEV_MATMUL_PARTS];
    int n_next;
    int n_prompt; /* as of matmul_args */
} norm_args;

typedef enum activation {
    ACT_SILU,
    ACT_GELU,
    ACT_GELU_TANH,
    ACT_RELU,
    ACT_RELU2,      /* max(x, 0)^2 (So et al. 2021) */
    ACT_QUICK_GELU, /* x sigmoid(1.702 x) */
    ACT_SIGMOID,
    ACT_COUNT
} activation;

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
    /* So many of the rows, the last ones, are of prompts: a device that is not exact may have products for these whose
     * bits are others than those of answers. */
    int n_prompt;
    matmul_part parts[DEV_MATMUL_PARTS];
    /* Two parts alike, contiguous, that add to nothing: the first's output becomes act(its product) * the second's
     * product. What the second's output holds afterwards is not said. */
    bool is_gated;
    activation act;
    bool is_exact; /* nothing is rounded, whatever the device's precision; such weights have DEV_USE_EXACT */
    /* Gated: the weight that the result is multiplied by in the next product of the device, if nothing else reads it.
     * The device may leave it where `out` points in an order of its own, and finds it there. NULL: others read it. */
    const dev_weight *next;
} matmul_args;

/* The numbers stand in files (cache/prefix_file.c). */
typedef enum kv_type { KV_F16, KV_F32, KV_Q8, KV_Q6, KV_Q4, KV_TYPES } kv_type;

/* One layer's keys and values, lent by cache/store.c, keys and values apart. Inside a page values are
 * [n_kv_heads][DEV_PAGE_TOKENS][v_dim]; keys are [n_kv_heads][DEV_PAGE_TOKENS / DEV_KEY_GROUP][head_dim]
 * [DEV_KEY_GROUP], so that the scores of a group's tokens come out side by side. Whole groups can be copied from page
 * to page; what is in the slots behind a sequence's last token never matters. In the quantised types dev/kv_quant.h
 * tells what stands in place of the elements. */
typedef struct kv_view {
    kv_type type;
    int n_kv_heads, head_dim, v_dim; /* elements of a key, of a value */
    uint8_t *k, *v;                  /* of page 0; v NULL: a value is the first v_dim elements of its key */
    size_t page_stride;              /* bytes from a page to the next, for k and for v */
} kv_view;

/* Where element d of a slot's key lies, counted in elements from the first of its head. */
static inline size_t dev_key_at(int slot, int d, int head_dim) {
    const size_t row = (size_t)(slot / DEV_KEY_GROUP) * (size_t)head_dim + (size_t)d;
    return row * DEV_KEY_GROUP + (size_t)(slot % DEV_KEY_GROUP);
}

enum { DEV_KV_BLOCK = 32 }; /* elements with one scale in the quantised types */

/* What the keys of a cache are kept as. Mistakes in a score reach all that a token reads, those in a value are averaged
 * away: beside values of 4 bits keys have 6. (On the model of the tests 4 bits for both diverge 0.020 per token, this
 * 0.008, and half of that is the values'.) */
static inline kv_type dev_key_type(kv_type type) { return type == KV_Q4 ? KV_Q6 : type; }

/* Bytes of DEV_KEY_GROUP tokens' keys, kept as dev_key_type says, or values, of `dim` elements in one head. */
static inline size_t dev_kv_group_bytes(kv_type type, int dim) {
    static const uint8_t bits[KV_TYPES] = {[KV_F16] = 16, [KV_F32] = 32, [KV_Q8] = 8, [KV_Q6] = 6, [KV_Q4] = 4};
    const size_t elements = (size_t)dim, blocks = (elements + DEV_KV_BLOCK - 1) / DEV_KV_BLOCK;
    if (type <= KV_F32) return elements * DEV_KEY_GROUP * bits[type] / 8;
    return blocks * DEV_KEY_GROUP * (sizeof(uint16_t) + (size_t)(DEV_KV_BLOCK * bits[type] / 8));
}

/* The rows of a step that belong to one sequence: n_rows consecutive rows beginning at `row`, the first of which has
 * position `past`. Position p lives in page pages[p / 256], slot p % 256. */
typedef struct row_span {
    int row, n_rows;
    int64_t past;
    const int32_t *pages; /* host */
} row_span;

/* Pages that hold a span's sequence up to its last row. */
static inline size_t dev_page_count(const row_span *s) {
    return (size_t)(s->past + s->n_rows - 1) / DEV_PAGE_TOKENS + 1;
}

typedef enum head_norm {
    HEAD_NORM_NONE,
    HEAD_NORM_FIRST, /* RMS norm of each head of q and k before the rotation */
    HEAD_NORM_LAST,  /* behind it */
} head_norm;

/* Normalises q and k per head where asked, rotates them, scales q, in place; writes k and v into the pages. */
typedef struct rope_store_args {
    float *q;       /* [n_rows][n_heads * head_dim], contiguous rows */
    float *k;       /* [n_rows][n_kv_heads * head_dim]; scratch afterwards */
    const float *v; /* as k */
    int n_heads;
    head_norm norm;
    const float *q_norm, *k_norm; /* [head_dim] weights, NULL: ones */
    float norm_eps;
    int rot_dims;           /* even, <= head_dim; 0: no rotation */
    bool pairs;             /* element 2i turns with 2i + 1; else i with i + rot_dims / 2 */
    const float *cos, *sin; /* [n_rows][rot_dims / 2] */
    const float *q_scale;   /* [n_rows]: what q is multiplied by, or NULL */
    kv_view kv;
    const row_span *spans;
    int n_spans;
} rope_store_args;

/* Multi-head latent attention (DeepSeek-V2, 2024): one latent per token stands for the keys and values of all heads.
 * Normalises the first kv.v_dim elements of each row of `latent` (the rank), rotates the rot_dims behind them and
 * writes both as the one key of the token; rotates the last rot_dims of each head of `heads` and writes them behind
 * the rank elements of that head of q, which a matrix product fills. */
typedef struct latent_store_args {
    const float *heads; /* [n_rows][n_heads * heads_dim] */
    int n_heads, heads_dim;
    float *q;      /* [n_rows][n_heads * kv.head_dim] */
    float *latent; /* [n_rows][kv.head_dim]; scratch afterwards */
    const float *norm;
    float norm_eps;
    int rot_dims;
    bool pairs;
    const float *cos, *sin;
    kv_view kv; /* one KV head of rank + rot_dims, values inside the keys */
    const row_span *spans;
    int n_spans;
} latent_store_args;

/* out[row] = softmax(scale * q . K, over the positions that p sees) V, per head; kv head = head / (n_heads
 * / n_kv_heads). A query at p sees all up to p, the last `window` of those, or those of its own chunk. Never
 * materialises the score matrix: each page alone, against its own maximum, then merged in ascending order (after
 * Milakov and Gimelshein 2018). */
typedef struct attend_args {
    float *q;   /* [n_rows][n_heads * head_dim]; scratch afterwards */
    float *out; /* [n_rows][n_heads * v_dim] */
    int n_heads;
    float scale;
    int window;         /* positions a query sees including itself; 0: all */
    int chunk;          /* a query sees from the last multiple of this on; 0: all */
    float cap;          /* scores become cap * tanh(score / cap); 0: they stay */
    const float *sinks; /* [n_heads]: a score beside the others that has no value; NULL: none */
    kv_view kv;
    const row_span *spans;
    int n_spans;
    /* The weight that the result is multiplied by in the next product of the device, if nothing else reads it: see
     * matmul_args. NULL: others read it. */
    const dev_weight *next;
    int n_prompt; /* as of matmul_args */
} attend_args;

/* gate[i] = act(gate[i]) * up[i], without the factor where `up` is NULL. */
typedef struct gate_args {
    activation act;
    float *gate;     /* [n_rows][dim], in place */
    const float *up; /* [n_rows][dim] or NULL */
    int n_rows, dim;
} gate_args;

/* gate[i] = g sigmoid(alpha g) (u + 1) with g = min(gate[i], limit) and u = up[i] held within +-limit. */
typedef struct clamped_gate_args {
    float *gate;
    const float *up;
    int n_rows, dim;
    float alpha, limit;
} clamped_gate_args;

/* xIELU (Huang and Schlag 2025): x > 0: alpha_p x^2 + beta x; else alpha_n (expm1(min(x, eps)) - x) + beta x. */
typedef struct xielu_args {
    float *x; /* [n_rows][dim], in place */
    int n_rows, dim;
    float alpha_p, alpha_n, beta, eps;
} xielu_args;

/* to[row] += scale * s * from[row], where s is sigmoid(row_gate[row]), or 1 without row_gate. */
typedef struct add_args {
    float *to;
    const float *from, *row_gate;
    int n_rows, dim;
    float scale;
} add_args;

/* x = scale * x, then cap * tanh(x / cap) where cap is not 0, then within +-limit where limit is not 0. */
typedef struct limit_args {
    float *x;
    int n_rows, dim;
    float scale, cap, limit;
} limit_args;

/* ---- mixtures of experts ---- */

/* How a row's experts are chosen out of its router logits, and how much each counts. */
typedef struct route_rule {
    int n_experts, top_k;
    bool sigmoid;         /* scores are sigmoids of the logits; else their softmax */
    int n_groups, groups; /* only experts of the `groups` best of n_groups groups; n_groups 0: no groups */
    int group_best;       /* a group counts as much as its so many best scores together: 1 or 2 */
    bool normalize;       /* weights of a row are divided by their sum ... */
    float floor;          /* ... plus this */
    float scale;          /* multiplies the weights */
} route_rule;

typedef struct route_args {
    const route_rule *rule;
    const float *logits; /* [n_rows][n_experts] */
    const float *bias;   /* [n_experts]: added to the scores for choosing only, or NULL */
    int n_rows;
    int32_t *experts; /* [n_rows][top_k], ascending */
    float *weights;   /* [n_rows][top_k] */
} route_args;

/* One projection of all experts. */
typedef struct expert_weights {
    const dev_weight *w;      /* [n_experts] */
    const float *const *bias; /* [n_experts], or NULL */
} expert_weights;

typedef enum expert_act { EXPERT_GATE, EXPERT_CLAMPED_GATE } expert_act;

/* out[row] = sum over the row's experts of weight * down(act(gate(x)) * up(x)). Rows are grouped by expert: each
 * expert's weights are read once. */
typedef struct experts_args {
    const float *x; /* [n_rows][dim] */
    int n_rows, dim, ffn, n_experts, top_k;
    const int32_t *experts; /* as of route_args */
    const float *weights;
    bool weigh_input; /* the weight multiplies x instead of the result */
    expert_weights gate, up, down;
    expert_act kind;
    activation act;
    float alpha, limit;                          /* EXPERT_CLAMPED_GATE */
    float *rows_in, *rows_gate, *rows_up, *rows; /* scratch: [n_rows] of dim, ffn, ffn, dim; device.keeps_pairs */
    float *out;                                  /* [n_rows][dim] */
} experts_args;

/* n_blocks blocks of `bytes`, each `stride` behind the last, from one place of device memory to another that does not
 * overlap it. */
typedef struct copy_args {
    void *to;
    const void *from;
    size_t bytes, stride;
    int n_blocks;
} copy_args;

/* Digests of rows of logits, see base/digest.h. All but `orders` in device memory. */
typedef struct digest_args {
    const float *logits; /* [n_rows][width] */
    int n_rows, width;
    float *changed;             /* scratch, [n_rows][width] */
    const digest_order *orders; /* host [n_rows], each with a group of at most DIGEST_MOST_LISTED ids, and behind them
                                   what they point to: `bytes` in all */
    size_t bytes;
    digest_head *heads;  /* [n_rows] */
    digest_body *bodies; /* [n_rows] */
} digest_args;

/* ---- the device ---- */

typedef struct dev_ops {
    const char *kind; /* "cpu" */
    void (*close)(device *d);
    /* Zero-filled, 64-byte aligned device memory. */
    qp_status (*take)(device *d, void **out, size_t bytes, qp_error *err);
    void (*give)(device *d, void *memory, size_t bytes);
    /* `from` is free again, and what is downloaded is there, when they return; in order with the ops. Memory of the
     * device is never read or written otherwise. */
    void (*upload)(device *d, void *to, const void *from, size_t bytes);
    void (*download)(device *d, void *to, const void *from, size_t bytes);
    /* Makes a weight of a stored matrix; the matrix' parts must outlive it. QP_UNSUPPORTED for a format without kernel.
     */
    qp_status (*weight_open)(device *d, dev_weight *out, const quant_matrix *m, qp_error *err);
    /* Lays a weight as its `use` wants it: loads it, or re-lays it where that makes products faster; what is stored
     * must stay. A weight that was only opened is read as it came, if more slowly. */
    qp_status (*weight_pack)(device *d, dev_weight *w, qp_error *err);
    /* All weights of a model have been packed; NULL: a device that keeps none in a file. */
    void (*weights_end)(device *d);
    void (*weight_close)(device *d, dev_weight *w);
    /* Makes room for steps of up to max_rows rows and inputs of up to max_in floats; before the first op. */
    qp_status (*reserve)(device *d, int max_rows, int64_t max_in, qp_error *err);

    /* Of a device with memory of its own, so that a plan can be made before anything is loaded; NULL where the host's
     * is used. Bytes that a weight will take (0 for one that cannot be opened; *as: its own format, or the one that it
     * is unpacked to), that `reserve` will, and what is left of all when the driver has what it needs beside. */
    size_t (*weight_bytes)(device *d, const quant_matrix *m, dev_use use, quant_id *as);
    size_t (*reserve_bytes)(device *d, int max_rows, int64_t max_in);
    void (*room)(device *d, uint64_t *left, uint64_t *all);

    void (*embed)(device *d, const embed_args *a);
    void (*norm)(device *d, const norm_args *a);
    void (*matmul)(device *d, const matmul_args *a);
    void (*rope_store)(device *d, const rope_store_args *a);
    void (*latent_store)(device *d, const latent_store_args *a);
    void (*attend)(device *d, const attend_args *a);
    void (*gate)(device *d, const gate_args *a);
    void (*clamped_gate)(device *d, const clamped_gate_args *a);
    void (*xielu)(device *d, const xielu_args *a);
    void (*add)(device *d, const add_args *a);
    void (*limit)(device *d, const limit_args *a);
    void (*route)(device *d, const route_args *a);
    void (*experts)(device *d, const experts_args *a);
    void (*copy)(device *d, const copy_args *a);
    /* NULL: rows of logits cost a sampler nothing where they are. */
    void (*digest)(device *d, const digest_args *a);
    /* Bytes of another device of this kind to memory of this one, behind the ops of both. NULL: there is only one. */
    void (*hand_over)(device *d, void *to, device *from_device, const void *from, size_t bytes);
    /* Ops between the two are not done but written down, for a step that is expected and not known yet: an embed's ids,
     * all of them -1. The first starts what was asked for before it and returns what the list is called; 0: nothing can
     * be written down now. What is asked for behind the second, but downloads, drops it. NULL: a device that gains
     * nothing. */
    uint64_t (*expect)(device *d);
    void (*expected)(device *d);
    /* Does what was written down by that name, with these ids. False: it is there no more, or has others; nothing was
     * done. */
    bool (*proceed)(device *d, uint64_t name, const int32_t *ids, int n);
    /* Does what was written down by that name without waiting for ids: each is the best of its row in the digest in
     * front of it. Then proceed says whether those were the ids; if not, the step may be done again as it is. */
    void (*lead)(device *d, uint64_t name);
    /* The heads of the digest asked for last, of its n rows; waits for nothing that was led. */
    void (*digest_heads)(device *d, digest_head *out, int n);
    /* Returns when all ops before it are done, with what went wrong in any of them. */
    qp_status (*finish)(device *d, qp_error *err);
} dev_ops;

/* The head of every device's own struct. */
struct device {
    const dev_ops *ops;
    atomic_int more_owners; /* beside the first */
    char name[32];          /* "cpu" */
    char level[16];         /* "avx512" ... */
    int threads;
    bool exact;
    bool is_host;      /* its memory is the host's: results may be written where the host wants them */
    bool has_packs;    /* its file of packed weights is of use: what is stored will hardly be read */
    bool keeps_pairs;  /* experts' scratch has a row for each row and each of its experts: [n_rows * top_k] */
    unsigned kv_types; /* 1 << kv_type for each that it reads and writes */
    int most_rows;     /* of a step: more make it no faster; at most DEV_MOST_ROWS */
    int logit_rows;    /* whose logits are computed together */
};

/* Opens the device that `options` names. One thread at a time runs ops; memory may be taken, given, copied, uploaded
 * and downloaded by others meanwhile. */
qp_status dev_open(device **out, const dev_options *options, qp_error *err);
/* One owner more, for what keeps memory of the device; each closes it, the last one does. NULL is fine. */
void dev_hold(device *d);
void dev_close(device *d);

/* ---- several devices ---- */

enum { DEV_MOST_SHARES = 16 };

/* The devices that the layers of a model lie on, in the order of the layers. */
typedef struct dev_split {
    int n;
    device *dev[DEV_MOST_SHARES];
    int first[DEV_MOST_SHARES + 1]; /* dev[i] has the layers from first[i] up to first[i + 1] */
} dev_split;

static inline dev_split dev_whole(device *d, int n_layers) {
    return (dev_split){.n = 1, .dev = {d}, .first = {0, n_layers}};
}

/* Of bytes that all layers take alike, those on device i. */
static inline uint64_t dev_split_bytes(const dev_split *s, int i, uint64_t all) {
    return all / (uint64_t)s->first[s->n] * (uint64_t)(s->first[i + 1] - s->first[i]);
}

/* Which of them has the layer. */
static inline int dev_share_of(const dev_split *s, int layer) {
    int i = 0;
    while (i + 1 < s->n && layer >= s->first[i + 1]) i++;
    return i;
}

/* A GPU that the machine has. */
typedef struct dev_gpu {
    int index; /* "cuda:index" */
    char name[96];
    int major, minor; /* compute capability */
    int multiprocessors;
    size_t memory_bytes;
    bool has_kernels;      /* this build has some */
    const char *built_for; /* their architectures; constant */
} dev_gpu;

/* GPU number `index`; QP_NO_FILE behind the last, QP_UNSUPPORTED with the reason where there can be none. */
qp_status dev_gpu_at(dev_gpu *out, int index, qp_error *err);

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
