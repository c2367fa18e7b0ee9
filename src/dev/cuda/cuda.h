/* cuda.h — the CUDA device from the inside: its struct and who does what.
 *
 * An op of dev.h arrives at a wrapper (cuda_rows.c, cuda_matmul.c, cuda_attend.c, cuda_experts.c), which fills a struct
 * of kargs.h and gives it to launch.c: that collects what a step launches and submits it when somebody wants to see a
 * result. Kernels live in kernels/ and are known by the table in launch.h. */
#ifndef DEV_CUDA_CUDA_H
#define DEV_CUDA_CUDA_H

#include "cuda_open.h"
#include "drv.h"
#include "launch.h"
#include "base/pool.h"
#include <pthread.h>

enum { CUDA_MOST_MODULES = 32, CUDA_ARRIVALS = 8, CUDA_MOST_HEADS = 128 };

/* What dev_weight.packed points to. */
typedef struct cuda_weight {
    quant_id type; /* F32, F16 or BF16 */
    bool is_tiled; /* as kargs.h tells; else row by row */
    void *data;    /* device memory; NULL where it is packed, or not loaded yet */
    size_t bytes;
    struct cuda_packed *packed; /* small numbers and scales instead, or NULL */
} cuda_weight;

/* See cuda_window.c. Two halves: one is filled while the other travels. */
typedef struct cuda_window {
    pthread_mutex_t lock; /* one matrix at a time; taken before the device's */
    uint8_t *host[2];     /* pinned, [bytes] each */
    void *rows[2];        /* device memory, [rows_bytes] each: rows that become tiles there */
    size_t bytes, rows_bytes;
    drv_event gone[2];     /* recorded behind what travels out of each */
    bool is_travelling[2]; /* it was recorded */
    int filling;
} cuda_window;

/* See cuda_mixture.c. */
typedef struct cuda_mixtures {
    struct cuda_mixture **list;
    int n, n_packed; /* n_packed: experts of all matrices that are open */
    void *pool;      /* device memory */
    size_t pool_bytes, pool_used;
} cuda_mixtures;

/* What ops remember from one to the next, beside the queue: rows that wait among blocks already, NULL: none; among
 * which; whether it is known how great they are, too. */
typedef struct cuda_waiting {
    const float *of;
    int in;
    bool has_sizes;
} cuda_waiting;

/* A digest of one row that asks for nothing but the best of its first n; n = 0: there is none. */
typedef struct cuda_greedy {
    int32_t n;
    const float *logits;
    digest_head *heads;
} cuda_greedy;

typedef struct cuda_device {
    device head; /* first: a device * is a cuda_device * */
    qp_log log;
    pool *pool; /* unpacks weights */
    drv drv;
    drv_gpu gpu;
    drv_context context;
    drv_stream stream;
    drv_module modules[CUDA_MOST_MODULES];
    int n_modules;
    drv_function kernels[KERNEL_COUNT];
    pthread_mutex_t lock; /* around everything that touches the stream: memory is taken while steps run */
    pthread_t last;       /* who had it */
    bool is_idle;         /* all that was asked for has been waited for, */
    bool was_idle;        /* and so it was when the lock was taken: then it is for its holder to say again */
    launch_queue queue;
    cuda_window window;
    qp_error failure; /* the first since finish last told; code QP_OK: none */
    bool is_lost;     /* the context is unusable: every step fails from now on */
    /* Room for steps, made by reserve. */
    int max_rows;
    int64_t max_in;
    uint16_t *narrow; /* activations as 16 bits */
    float *scales;    /* of their rows */
    float *parts;     /* attention's results page by page */
    int32_t *lists;   /* of experts' rows */
    size_t narrow_bytes, scales_bytes, parts_bytes, lists_bytes;
    /* Activations for skinny90.cu and wide90.cu; the second: those that such a product makes for the next. */
    void *blocks[2];
    size_t blocks_bytes[2];
    int clusters[9]; /* of so many blocks of skinny90.cu that run at once; 0: none */
    cuda_waiting waiting;
    void *pinned;                     /* host memory for what is downloaded */
    drv_event arrived[CUDA_ARRIVALS]; /* recorded behind each part of it */
    /* See cuda_digest.c. */
    digest_head *heads; /* host memory [2][CUDA_MOST_HEADS], written there by the GPU: of the last digest */
    int heads_at;       /* in these, and of what follows it in the others */
    int32_t *best;      /* device memory, likewise: ids for a step that is led */
    drv_event digested; /* recorded behind it, */
    bool has_digested;  /* if so */
    /* The last digest, if all that it asked was the best of one row; what the last list's program finds by itself. */
    cuda_greedy greedy, made;
    uint8_t *programs;        /* of graphs (cuda_program.c); NULL: there are none */
    uint8_t *program_told;    /* what their blocks tell each other: two areas */
    size_t program_area;      /* bytes of each that may be used */
    uint32_t *program_met;    /* where their blocks meet */
    unsigned program_cluster; /* blocks of a cluster, */
    unsigned program_blocks;  /* and of all clusters that are there at once */
    cuda_mixtures mixtures;
    cuda_waiting waiting_before, waiting_behind; /* the step that is expected; see cuda_ahead.c */
    /* See cuda_peer.c. */
    drv_event handed;               /* recorded behind what another GPU fetches from here */
    const struct cuda_device *peer; /* whose memory this one has asked to read, the last it was */
} cuda_device;

static inline cuda_device *cuda_of(device *d) { return (cuda_device *)d; }

/* Makes the context this thread's, and the device this thread's alone. */
void cuda_lock(cuda_device *c);
void cuda_unlock(cuda_device *c);
/* Remembers a failure for finish; true if `result` is one. */
bool cuda_noted(cuda_device *c, drv_result result, const char *what);
/* Device memory, its contents undefined; the lock is held. */
qp_status cuda_take(cuda_device *c, void **out, size_t bytes, qp_error *err);
void cuda_give(cuda_device *c, void *memory);
/* Takes more for what has too little; what it held is lost. */
qp_status cuda_widen(cuda_device *c, void **memory, size_t *has, size_t bytes, qp_error *err);

/* cuda_weights.c */
/* Queues nothing: bytes go straight behind what the stream has. The lock is not held. */
qp_status cuda_send(cuda_device *c, void *to, const void *from, size_t bytes, qp_error *err);
/* A weight that was opened and not packed becomes rows when an op first reads it. The lock is not held. */
void cuda_weight_here(cuda_device *c, const dev_weight *w);
qp_status cuda_weight_open(device *d, dev_weight *out, const quant_matrix *m, qp_error *err);
qp_status cuda_weight_pack(device *d, dev_weight *w, qp_error *err);
void cuda_weight_close(device *d, dev_weight *w);
size_t cuda_weight_bytes(device *d, const quant_matrix *m, dev_use use, quant_id *as);
/* cuda_matmul.c */
qp_status cuda_reserve(device *d, int max_rows, int64_t max_in, qp_error *err);
size_t cuda_reserve_bytes(device *d, int max_rows, int64_t max_in);
void cuda_matmul(device *d, const matmul_args *a);
/* One product of experts: parts[i] with weights[i], rows told by `groups`. n_rows: at most so many for an expert. */
typedef struct cuda_grouped {
    const float *x;
    int n_x, n_in; /* rows of x */
    int n_rows, n_parts, n_active;
    k_groups groups;
    k_part parts[K_PARTS];
    const cuda_weight *like; /* all weights are as this one */
} cuda_grouped;
void cuda_matmul_grouped(cuda_device *c, const cuda_grouped *g);
/* cuda_rows.c */
void cuda_embed(device *d, const embed_args *a);
void cuda_norm(device *d, const norm_args *a);
void cuda_gate(device *d, const gate_args *a);
void cuda_clamped_gate(device *d, const clamped_gate_args *a);
void cuda_xielu(device *d, const xielu_args *a);
void cuda_add(device *d, const add_args *a);
void cuda_limit(device *d, const limit_args *a);
void cuda_copy(device *d, const copy_args *a);
/* cuda_ahead.c */
uint64_t cuda_expect(device *d);
void cuda_expected(device *d);
bool cuda_proceed(device *d, uint64_t name, const int32_t *ids, int n);
void cuda_lead(device *d, uint64_t name);
/* An embed's: where their table is. The lock is held. */
void cuda_note_ids(cuda_device *c, const void *ids, size_t bytes);
/* cuda_digest.c */
static inline digest_head *cuda_heads(const cuda_device *c) { return c->heads + c->heads_at * CUDA_MOST_HEADS; }
qp_status cuda_digest_open(cuda_device *c, qp_error *err);
void cuda_digest_close(cuda_device *c);
void cuda_digest(device *d, const digest_args *a);
void cuda_digest_heads(device *d, digest_head *out, int n);
/* Its heads are there once the GPU has come this far. All of it has been submitted; the lock is held. */
void cuda_digest_done(cuda_device *c);
/* cuda_peer.c */
void cuda_hand_over(device *d, void *to, device *from_device, const void *from, size_t bytes);
/* cuda_attend.c */
void cuda_rope_store(device *d, const rope_store_args *a);
void cuda_latent_store(device *d, const latent_store_args *a);
void cuda_attend(device *d, const attend_args *a);
/* cuda_experts.c */
void cuda_route(device *d, const route_args *a);
void cuda_experts(device *d, const experts_args *a);

#endif
