/* launch.h — the kernels by name, and the queue of what a step launches.
 *
 * Ops append launches and the small tables they need (ids, pages) to the queue. launch_flush sends all tables at once
 * and then submits the launches in order: the first time one by one; a list of launches that comes again and again, as
 * a decode step's does, as one CUDA graph, or what a program (cuda_program.c) has left of it. Nothing here is allocated
 * while steps run. */
#ifndef DEV_CUDA_LAUNCH_H
#define DEV_CUDA_LAUNCH_H

#include "drv.h"
#include "fast_kargs.h"
#include "kargs.h"

/* By the cache's type, in the order of kv_type. */
#define KV_KERNELS(X, start, end)                                                                                      \
    X(start##_f16##end) X(start##_f32##end) X(start##_q8##end) X(start##_q6##end) X(start##_q4##end)
#define ATTEND_KERNELS(X, n) KV_KERNELS(X, k_attend, _##n) KV_KERNELS(X, k_attend_page, _##n) X(k_attend_merge_##n)

#define CUDA_KERNELS(X)                                                                                                \
    X(k_embed_f32)                                                                                                     \
    X(k_embed_f16)                                                                                                     \
    X(k_embed_bf16)                                                                                                    \
    X(k_norm)                                                                                                          \
    X(k_gate)                                                                                                          \
    X(k_clamped_gate)                                                                                                  \
    X(k_xielu)                                                                                                         \
    X(k_limit)                                                                                                         \
    X(k_add)                                                                                                           \
    X(k_copy_wide)                                                                                                     \
    X(k_copy_bytes)                                                                                                    \
    X(k_fetch)                                                                                                         \
    X(k_exact_f32_1)                                                                                                   \
    X(k_exact_f16_1)                                                                                                   \
    X(k_exact_bf16_1)                                                                                                  \
    X(k_exact_f32_8)                                                                                                   \
    X(k_exact_f16_8)                                                                                                   \
    X(k_exact_bf16_8)                                                                                                  \
    X(k_narrow_f16)                                                                                                    \
    X(k_narrow_bf16)                                                                                                   \
    X(k_tile)                                                                                                          \
    X(k_tiled_f16_1)                                                                                                   \
    X(k_tiled_bf16_1)                                                                                                  \
    X(k_tiled_f16_4)                                                                                                   \
    X(k_tiled_bf16_4)                                                                                                  \
    X(k_tiled_f16_8)                                                                                                   \
    X(k_tiled_bf16_8)                                                                                                  \
    KV_KERNELS(X, k_rope_store, )                                                                                      \
    KV_KERNELS(X, k_latent_store, )                                                                                    \
    X(k_hadamard)                                                                                                      \
    ATTEND_KERNELS(X, 1)                                                                                               \
    ATTEND_KERNELS(X, 4)                                                                                               \
    ATTEND_KERNELS(X, 8)                                                                                               \
    X(k_route)                                                                                                         \
    X(k_group)                                                                                                         \
    X(k_weigh)                                                                                                         \
    X(k_mix)                                                                                                           \
    X(k_digest_copy)                                                                                                   \
    X(k_digest_change)                                                                                                 \
    X(k_digest_peaks)                                                                                                  \
    X(k_digest_masses)                                                                                                 \
    X(k_digest_list)

/* Kernels that need what not every GPU has; a device may lack them. X is defined where this stands. */
#define FAST_SKINNY(name) X(k_skinny_##name##_32) X(k_skinny_##name##_64) X(k_skinny_##name##_128)
#define FAST_EXPERTS(name)                                                                                             \
    X(k_experts_few_##name) X(k_experts_many_##name##_8) X(k_experts_many_##name##_32) X(k_experts_many_##name##_64)
#define FAST_SAME(bits, group, scales)                                                                                 \
    X(k_matvec_##bits##_##group##_##scales)                                                                            \
    FAST_EXPERTS(bits##_##group##_##scales)                                                                            \
    X(k_wide_##bits##_##group##_##scales) FAST_SKINNY(bits##_##group##_##scales)
#define FAST_GATE(bits, group, scales) X(k_wide_gated_##bits##_##group##_##scales)
#define FAST_KERNELS                                                                                                   \
    X(k_blocks)                                                                                                        \
    X(k_blocks_norm)                                                                                                   \
    X(k_blocks_gate_0)                                                                                                 \
    X(k_blocks_gate_1)                                                                                                 \
    X(k_blocks_gate_2)                                                                                                 \
    X(k_blocks_gate_3)                                                                                                 \
    X(k_blocks_gate_4)                                                                                                 \
    X(k_blocks_gate_5)                                                                                                 \
    X(k_blocks_gate_6)                                                                                                 \
    X(k_decode_64)                                                                                                     \
    X(k_decode_128)                                                                                                    \
    X(k_decode_64_q8)                                                                                                  \
    X(k_decode_64_q6)                                                                                                  \
    X(k_decode_64_q4)                                                                                                  \
    X(k_decode_128_q8)                                                                                                 \
    X(k_decode_128_q6)                                                                                                 \
    X(k_decode_128_q4)                                                                                                 \
    X(k_decode_coded_merge)                                                                                            \
    X(k_decode_merge)                                                                                                  \
    X(k_batch_64)                                                                                                      \
    X(k_batch_128)                                                                                                     \
    X(k_batch_merge)                                                                                                   \
    X(k_program_plain)                                                                                                 \
    X(k_program_plain_coded)                                                                                           \
    X(k_prefill_64)                                                                                                    \
    X(k_prefill_128)                                                                                                   \
    X(k_flash_64)                                                                                                      \
    X(k_flash_128)                                                                                                     \
    X(k_turn_64)                                                                                                       \
    X(k_turn_64_one)                                                                                                   \
    X(k_turn_128)                                                                                                      \
    X(k_turn_128_one)                                                                                                  \
    X(k_expert_rows)                                                                                                   \
    X(k_matvec_mixed)                                                                                                  \
    FAST_EXPERTS(mixed) X(k_wide_mixed) FAST_SKINNY(mixed) PACKED_SAMES(FAST_SAME) PACKED_GATES(FAST_GATE)

typedef enum kernel_id {
#define X(name) KERNEL_##name,
    CUDA_KERNELS(X) FAST_KERNELS
#undef X
        KERNEL_COUNT,
    KERNEL_FIRST_FAST = KERNEL_k_blocks
} kernel_id;

struct cuda_device;

const char *launch_kernel_name(kernel_id kernel);
/* How many clusters of `share` blocks, with all the shared memory there is, run at once. */
qp_status launch_most_clusters(struct cuda_device *c, int *n, kernel_id kernel, unsigned threads, unsigned share,
                               qp_error *err);

enum {
    LAUNCH_TABLE_BYTES = 4 << 20, /* of tables on their way at once */
    LAUNCH_BYTES = 4 << 20,       /* of launches */
    LAUNCH_OP_BYTES = 64 << 10,   /* of one op's */
    LAUNCH_RECENT = 8,            /* tables that may be used again */
    LAUNCH_GRAPHS = 16,
    LAUNCH_HELD_BYTES = 256,  /* of arguments */
    LAUNCH_ARGS_BYTES = 1024, /* likewise, at most: so much is in reach behind each list, for the tests' driver */
};

/* A launch; its arguments lie behind it. */
typedef struct launch_head {
    uint32_t kernel, arg_bytes, shared_bytes, threads;
    uint32_t grid[3];
    uint16_t cluster; /* blocks of a cluster; 0 or 1: none */
    uint8_t early;    /* may start before the one in front has ended, for it waits itself */
    uint8_t together; /* all blocks are there at once, or none */
} launch_head;

/* Of one in a list, with its arguments. */
static inline size_t launch_bytes(const launch_head *head) { return sizeof *head + (head->arg_bytes + 15u) / 16 * 16; }

/* A list of launches that has been made a graph, or may become one when it comes again. */
typedef struct launch_graph {
    uint8_t *list;
    size_t bytes;
    uint64_t last_used;
    drv_graph_exec exec;
    uint8_t *few; /* instead: what a program has left of the list. Neither: seen once */
    size_t few_bytes;
} launch_graph;

static inline bool launch_is_made(const launch_graph *g) { return g->exec || g->few; }

typedef struct launch_shape {
    int64_t x, y, z; /* blocks; 0 counts as 1 */
    int threads;
    size_t shared_bytes;
    int cluster;
    bool early;
} launch_shape;

/* A step that is expected; see cuda_ahead.c. */
typedef struct launch_ahead {
    bool is_open, is_there, is_too_much; /* is_open: what is appended belongs to it; is_there: it can be submitted */
    bool is_led;                         /* it has been, with the best ids of the digest in front of it */
    size_t used, table_used;
    size_t ids_at, ids_bytes; /* where the ids lie among its tables */
    int filled_before, place;
    uint64_t name;
    launch_graph *graph;
} launch_ahead;

/* The last two of the places for tables are for steps that are expected, in turns. */
enum { LAUNCH_PLACES = 4, LAUNCH_AHEAD = LAUNCH_PLACES - 2 };

typedef struct launch_queue {
    uint8_t *list; /* [LAUNCH_BYTES + LAUNCH_ARGS_BYTES] */
    size_t used;
    uint8_t *tables;                   /* device memory, [LAUNCH_TABLE_BYTES] */
    uint8_t *host[LAUNCH_PLACES];      /* pinned; one is filled while another travels */
    drv_event gone[LAUNCH_PLACES];     /* recorded behind the launches that read each */
    bool is_travelling[LAUNCH_PLACES]; /* it was recorded */
    int filling;
    size_t table_used;
    struct {
        size_t at, bytes;
    } recent[LAUNCH_RECENT];
    int n_recent;
    struct {
        bool is;
        kernel_id kernel;
        launch_shape shape;
        size_t arg_bytes;
        _Alignas(16) uint8_t args[LAUNCH_HELD_BYTES];
    } held;
    launch_graph graphs[LAUNCH_GRAPHS];
    int newest; /* the graph of the last step that had one */
    uint64_t n_flushes;
    int n_programs;      /* made so far */
    uint8_t *other_list; /* likewise: of a step that is expected */
    launch_ahead ahead;
    int n_proceeded; /* steps that were expected and came, */
    int n_led;       /* and had begun by then */
} launch_queue;

qp_status launch_open(struct cuda_device *c, qp_error *err);
void launch_close(struct cuda_device *c);

/* Appends a launch with the struct that the kernel takes. All of these need the device's lock. */
void launch_push(struct cuda_device *c, kernel_id kernel, launch_shape shape, const void *args, size_t arg_bytes);
/* A launch that the next op may do itself: it is appended before whatever comes next, unless that takes it back. The
 * arguments, or NULL where none is held. */
void launch_hold(struct cuda_device *c, kernel_id kernel, launch_shape shape, const void *args, size_t arg_bytes);
const void *launch_held(const struct cuda_device *c);
void launch_take_back(struct cuda_device *c);
/* Memory of `bytes` that the caller fills and hands to launch_table_done, whose result is the table's place in device
 * memory for the launches of this op. NULL: the step has failed. An op may have one table, made before its first
 * launch: either may have to flush. */
void *launch_table(struct cuda_device *c, size_t bytes);
const void *launch_table_done(struct cuda_device *c, void *host, size_t bytes);
/* Both, of what lies in one piece. */
const void *launch_table_of(struct cuda_device *c, const void *from, size_t bytes);
/* Submits all that is queued; while a step is written down that is expected, this is too much to be. */
void launch_flush(struct cuda_device *c);
/* Forgets the list and its tables. */
void launch_clear(launch_queue *q);
/* What is held is appended. */
void launch_settle(struct cuda_device *c);
/* The graph of the list as it is; NULL: it has none. */
launch_graph *launch_find_graph(launch_queue *q);
/* Submits the list, of which `known` is the graph; NULL: that is to be found. */
void launch_submit(struct cuda_device *c, launch_graph *known);
/* What was written down, or begun, for a step that is expected does not hold any more. */
void launch_forget_ahead(launch_queue *q);
/* Waits until the place that is to be filled has been read; false: that failed. */
bool launch_make_ready(struct cuda_device *c);

#endif
