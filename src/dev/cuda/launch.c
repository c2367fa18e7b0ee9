/* launch.c — collects a step's launches and submits them, as a graph where the same list comes again.
 *
 * Called by the ops' wrappers. Launches are compared byte by byte, arguments included: tables lie at the same place in
 * every step, so that what changes from token to token (ids, positions, pages) changes tables and not launches. A list
 * that is seen for the second time becomes a graph; the least recently used one makes room.
 *
 * The tricky thing is when memory may be written again: the tables' device memory is written in the same stream as the
 * kernels that read it, so it is always free; their pinned copy on the host waits for an event. */
#include "cuda.h"
#include "cuda_program.h"
#include "base/log.h"
#include "base/mem.h"
#include <string.h>

static const char *const names[KERNEL_COUNT] = {
#define X(name) #name,
    CUDA_KERNELS(X) FAST_KERNELS
#undef X
};

const char *launch_kernel_name(kernel_id kernel) { return names[kernel]; }

enum {
    ALIGN = 16,
    GRAPH_LAUNCHES = 16,    /* fewer launches are no graph */
    FEW_LAUNCHES = 8,       /* that a program has left are no graph: each may begin while the one in front ends */
    SMALL_TABLES = 8 << 10, /* fetched by a kernel: between two of them a copy costs 10 us, whatever it copies */
    TABLE_THREADS = SMALL_TABLES / 16,
};

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* ---- life ---- */

qp_status launch_open(cuda_device *c, qp_error *err) {
    launch_queue *q = &c->queue;
    void *tables;
    q->list = mem_array(1, LAUNCH_BYTES + LAUNCH_ARGS_BYTES);
    q->other_list = mem_array(1, LAUNCH_BYTES + LAUNCH_ARGS_BYTES);
    if (!q->list || !q->other_list) return err_no_memory(err, LAUNCH_BYTES, "the list of a step's launches");
    ERR_TRY(cuda_take(c, &tables, LAUNCH_TABLE_BYTES, err));
    q->tables = tables;
    for (int i = 0; i < LAUNCH_PLACES; i++) {
        void *host;
        drv_result result = c->drv.host_take(&host, LAUNCH_TABLE_BYTES, 0);
        if (result) return drv_failed(&c->drv, result, "cuda: pinned memory", err);
        q->host[i] = host;
        result = c->drv.event_create(&q->gone[i], DRV_EVENT_PLAIN);
        if (result) return drv_failed(&c->drv, result, "cuda: an event", err);
    }
    return cuda_program_open(c, LAUNCH_GRAPHS, err);
}

static void forget(cuda_device *c, launch_graph *g) {
    if (g->exec) c->drv.graph_exec_free(g->exec);
    mem_free(g->few);
    mem_free(g->list);
    *g = (launch_graph){0};
}

void launch_close(cuda_device *c) {
    launch_queue *q = &c->queue;
    for (int i = 0; i < LAUNCH_GRAPHS; i++) forget(c, &q->graphs[i]);
    for (int i = 0; i < LAUNCH_PLACES; i++) {
        if (q->gone[i]) c->drv.event_destroy(q->gone[i]);
        if (q->host[i]) c->drv.host_give(q->host[i]);
    }
    cuda_program_close(c);
    if (q->tables) cuda_give(c, q->tables);
    mem_free(q->list);
    mem_free(q->other_list);
    *q = (launch_queue){0};
}

qp_status launch_most_clusters(cuda_device *c, int *n, kernel_id kernel, unsigned threads, unsigned share,
                               qp_error *err) {
    drv_attribute cluster = {.id = DRV_LAUNCH_CLUSTER, .value = {share, 1, 1}};
    int taken = 0;
    drv_result result = c->drv.function_get(&taken, DRV_FUNCTION_STATIC, c->kernels[kernel]);
    const drv_launch how = {.grid = {(unsigned)c->gpu.multiprocessors / share * share, 1, 1},
                            .block = {threads, 1, 1},
                            .shared_bytes = (unsigned)(c->gpu.most_shared - taken),
                            .attributes = &cluster,
                            .n_attributes = 1};
    if (!result) result = c->drv.most_clusters(n, c->kernels[kernel], &how);
    return result ? drv_failed(&c->drv, result, "cuda: how many clusters run at once", err) : QP_OK;
}

/* ---- tables ---- */

bool launch_make_ready(cuda_device *c) {
    launch_queue *q = &c->queue;
    if (!q->is_travelling[q->filling]) return true;
    if (cuda_noted(c, c->drv.event_wait(q->gone[q->filling]), "cuda: the GPU has failed")) return false;
    q->is_travelling[q->filling] = false;
    return true;
}

void *launch_table(cuda_device *c, size_t bytes) {
    launch_queue *q = &c->queue;
    if (bytes > LAUNCH_TABLE_BYTES) {
        if (c->failure.code == QP_OK)
            err_set(&c->failure, QP_TOO_LARGE, 0, "cuda: a step's table of %zu bytes, allowed are %d", bytes,
                    LAUNCH_TABLE_BYTES);
        return NULL;
    }
    if (q->table_used + bytes > LAUNCH_TABLE_BYTES || q->used + LAUNCH_OP_BYTES > LAUNCH_BYTES) launch_flush(c);
    return launch_make_ready(c) ? q->host[q->filling] + q->table_used : NULL;
}

/* Layers ask for the same tables one after the other: what is there already is used again. */
static const void *find_recent(const launch_queue *q, const void *host, size_t bytes) {
    for (int i = 0; i < q->n_recent; i++)
        if (q->recent[i].bytes == bytes && !memcmp(q->host[q->filling] + q->recent[i].at, host, bytes))
            return q->tables + q->recent[i].at;
    return NULL;
}

const void *launch_table_done(cuda_device *c, void *host, size_t bytes) {
    launch_queue *q = &c->queue;
    const void *old = find_recent(q, host, bytes);
    if (old) return old;
    const size_t at = q->table_used;
    const int slot = q->n_recent < LAUNCH_RECENT ? q->n_recent++ : (int)(at / ALIGN % LAUNCH_RECENT);
    q->recent[slot].at = at;
    q->recent[slot].bytes = bytes;
    q->table_used = aligned(at + bytes);
    return q->tables + at;
}

const void *launch_table_of(cuda_device *c, const void *from, size_t bytes) {
    void *host = launch_table(c, bytes);
    if (!host) return NULL;
    memcpy(host, from, bytes);
    return launch_table_done(c, host, bytes);
}

/* ---- launches ---- */

static unsigned blocks(int64_t n) { return n > 0 ? (unsigned)n : 1; }

static void append(cuda_device *c, kernel_id kernel, launch_shape shape, const void *args, size_t arg_bytes) {
    launch_queue *q = &c->queue;
    const launch_head head = {.kernel = kernel,
                              .arg_bytes = (uint32_t)arg_bytes,
                              .shared_bytes = (uint32_t)shape.shared_bytes,
                              .threads = (uint32_t)shape.threads,
                              .grid = {blocks(shape.x), blocks(shape.y), blocks(shape.z)},
                              .cluster = (uint16_t)shape.cluster,
                              .early = shape.early && c->gpu.major >= 9};
    if (c->failure.code != QP_OK) return;
    if (q->used + launch_bytes(&head) > LAUNCH_BYTES) launch_flush(c);
    uint8_t *to = q->list + q->used;
    memset(to, 0, launch_bytes(&head)); /* lists are compared, with what lies between launches */
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, args, arg_bytes);
    q->used += launch_bytes(&head);
}

void launch_settle(cuda_device *c) {
    launch_queue *q = &c->queue;
    if (!q->held.is) return;
    q->held.is = false;
    append(c, q->held.kernel, q->held.shape, q->held.args, q->held.arg_bytes);
}

void launch_push(cuda_device *c, kernel_id kernel, launch_shape shape, const void *args, size_t arg_bytes) {
    launch_settle(c);
    append(c, kernel, shape, args, arg_bytes);
}

void launch_hold(cuda_device *c, kernel_id kernel, launch_shape shape, const void *args, size_t arg_bytes) {
    launch_queue *q = &c->queue;
    launch_settle(c);
    if (arg_bytes > sizeof q->held.args) return append(c, kernel, shape, args, arg_bytes);
    q->held.is = true;
    q->held.kernel = kernel;
    q->held.shape = shape;
    q->held.arg_bytes = arg_bytes;
    memcpy(q->held.args, args, arg_bytes);
}

const void *launch_held(const cuda_device *c) { return c->queue.held.is ? c->queue.held.args : NULL; }

void launch_take_back(cuda_device *c) { c->queue.held.is = false; }

static void launch_one(cuda_device *c, const launch_head *head, void *args) {
    void *list[] = {args};
    drv_attribute attributes[3];
    unsigned n = 0;
    if (head->cluster > 1) attributes[n++] = (drv_attribute){.id = DRV_LAUNCH_CLUSTER, .value = {head->cluster, 1, 1}};
    if (head->together) attributes[n++] = (drv_attribute){.id = DRV_LAUNCH_TOGETHER, .value = {1}};
    if (head->early) attributes[n++] = (drv_attribute){.id = DRV_LAUNCH_EARLY, .value = {1}};
    const drv_launch how = {.grid = {head->grid[0], head->grid[1], head->grid[2]},
                            .block = {head->threads, 1, 1},
                            .shared_bytes = head->shared_bytes,
                            .stream = c->stream,
                            .attributes = attributes,
                            .n_attributes = n};
    const drv_result result = c->drv.launch(&how, c->kernels[head->kernel], list, NULL);
    if (cuda_noted(c, result, "cuda: a kernel does not start"))
        log_line(&c->log, QP_LOG_ERROR, "cuda: kernel %s, %u x %u x %u blocks of %u", names[head->kernel],
                 head->grid[0], head->grid[1], head->grid[2], head->threads);
}

/* Returns how many there were. */
static int launch_all(cuda_device *c, uint8_t *list, size_t bytes) {
    int n = 0;
    for (size_t at = 0; at < bytes && c->failure.code == QP_OK; n++) {
        launch_head head;
        memcpy(&head, list + at, sizeof head);
        launch_one(c, &head, list + at + sizeof head);
        at += launch_bytes(&head);
    }
    return n;
}

static int count_launches(const uint8_t *list, size_t bytes) {
    int n = 0;
    for (size_t at = 0; at < bytes; n++) {
        launch_head head;
        memcpy(&head, list + at, sizeof head);
        at += launch_bytes(&head);
    }
    return n;
}

/* ---- graphs ---- */

/* The graph of the last step is looked at first, for it is most often the one; others differ soon. */
launch_graph *launch_find_graph(launch_queue *q) {
    if (q->used <= GRAPH_LAUNCHES * sizeof(launch_head)) return NULL;
    for (int i = 0; i < LAUNCH_GRAPHS; i++) {
        launch_graph *g = &q->graphs[(q->newest + i) % LAUNCH_GRAPHS];
        if (!g->list || g->bytes != q->used || memcmp(g->list, q->list, q->used)) continue;
        q->newest = (int)(g - q->graphs);
        return g;
    }
    return NULL;
}

/* Remembers the list; without memory for that it will be launched piece by piece. */
static void remember(cuda_device *c) {
    launch_queue *q = &c->queue;
    launch_graph *oldest = &q->graphs[0];
    for (int i = 1; i < LAUNCH_GRAPHS; i++)
        if (q->graphs[i].last_used < oldest->last_used) oldest = &q->graphs[i];
    forget(c, oldest);
    *oldest = (launch_graph){.list = mem_copy(q->list, q->used, 1), .bytes = q->used};
    oldest->last_used = q->n_flushes;
}

/* Makes a graph of the list by launching it into a capture. */
static void capture(cuda_device *c, launch_graph *g) {
    drv_graph graph = NULL;
    if (cuda_noted(c, c->drv.capture_begin(c->stream, DRV_CAPTURE_RELAXED), "cuda: a graph")) return;
    launch_all(c, c->queue.list, c->queue.used);
    if (cuda_noted(c, c->drv.capture_end(c->stream, &graph), "cuda: a graph")) return;
    cuda_noted(c, c->drv.graph_make(&g->exec, graph, 0), "cuda: a graph");
    c->drv.graph_free(graph);
}

/* What a program leaves of the list is kept where it is little, else it is made a graph. */
static void make(cuda_device *c, launch_graph *g) {
    launch_queue *q = &c->queue;
    cuda_program_shorten(c, (int)(g - q->graphs));
    if (count_launches(q->list, q->used) <= FEW_LAUNCHES &&
        (g->few = mem_copy(q->list, q->used + LAUNCH_ARGS_BYTES, 1)))
        g->few_bytes = q->used;
    else
        capture(c, g);
}

static void submit_list(cuda_device *c, launch_graph *g) {
    launch_queue *q = &c->queue;
    if (g) {
        g->last_used = q->n_flushes;
        if (!launch_is_made(g)) make(c, g);
        if (g->few) {
            cuda_program_dress(c, g->few, g->few_bytes);
            launch_all(c, g->few, g->few_bytes);
        } else if (g->exec)
            cuda_noted(c, c->drv.graph_launch(g->exec, c->stream), "cuda: a graph does not start");
    } else if (launch_all(c, q->list, q->used) >= GRAPH_LAUNCHES) {
        remember(c);
    }
}

void launch_clear(launch_queue *q) {
    q->used = q->table_used = 0;
    q->n_recent = 0;
}

/* Tables of a few rows are fetched by a kernel, which asks for them while the one in front of it ends. */
static void fetch_tables(cuda_device *c, const uint8_t *from) {
    const k_fetch_args args = {.to = c->queue.tables, .from = from, .bytes = (int64_t)c->queue.table_used};
    const launch_head head = {
        .kernel = KERNEL_k_fetch, .threads = TABLE_THREADS, .grid = {1, 1, 1}, .early = c->gpu.major >= 9};
    memcpy(c->queue.held.args, &args, sizeof args); /* nothing is held: all has been appended */
    launch_one(c, &head, c->queue.held.args);
}

static void send_tables(cuda_device *c) {
    launch_queue *q = &c->queue;
    if (q->table_used <= SMALL_TABLES)
        fetch_tables(c, q->host[q->filling]);
    else
        cuda_noted(c, c->drv.copy_up((drv_ptr)(uintptr_t)q->tables, q->host[q->filling], q->table_used, c->stream),
                   "cuda: copying a step's tables");
}

/* The place's tables may be written again behind what has been submitted. */
static void leave_place(cuda_device *c) {
    launch_queue *q = &c->queue;
    const int place = q->filling;
    if (!cuda_noted(c, c->drv.event_record(q->gone[place], c->stream), "cuda: an event"))
        q->is_travelling[place] = true;
    q->filling = place ? 0 : 1;
}

void launch_forget_ahead(launch_queue *q) { q->ahead.is_there = q->ahead.is_led = false; }

void launch_submit(cuda_device *c, launch_graph *known) {
    launch_queue *q = &c->queue;
    q->n_flushes++;
    if (q->used) launch_forget_ahead(q), c->made.n = 0;
    if (q->table_used && c->failure.code == QP_OK) send_tables(c);
    if (q->used && c->failure.code == QP_OK) submit_list(c, known ? known : launch_find_graph(q));
    if (q->table_used && c->failure.code == QP_OK) leave_place(c);
    launch_clear(q);
}

void launch_flush(cuda_device *c) {
    launch_queue *q = &c->queue;
    launch_settle(c);
    if (!q->ahead.is_open) return launch_submit(c, NULL);
    q->ahead.is_too_much = true;
    launch_clear(q);
}
