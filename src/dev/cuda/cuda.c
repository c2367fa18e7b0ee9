/* cuda.c — opening and closing a GPU; its memory, and bytes on their way to it and back.
 *
 * Called through dev.c. Everything runs in one stream, in the order in which it was asked for, so memory can be copied,
 * cleared and given back without further care. Ops return at once; what a kernel does wrong is heard of later and kept
 * for finish. After a fault of a kernel nothing in the context can be used any more: each later step fails with the
 * same text, and closing and opening the model again starts anew.
 *
 * Two threads may be here at once, as one generator takes memory while another computes: each call holds the lock. */
#include "cuda_mixture.h"
#include "cuda_window.h"
#include "images.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UPLOAD_AS_TABLE = 256 << 10, /* so many bytes travel with a step's tables */
    MOST_SPARE = 256 << 20,      /* left to the driver */
    DOWNLOAD_AT_ONCE = 16 << 20, /* through pinned memory: the driver's own way takes 22 us for a row of logits */
    DOWNLOAD_LEAST = 1 << 20,    /* what is there is taken on while so many more come */
    DOWNLOAD_PIECE = 256 << 10,  /* a thread takes so many at a time */
    FEW_ROWS = 512,              /* of a step where scratch for more would take too much of the memory */
    FEW_LOGIT_ROWS = 32,
    LOGIT_ROWS = 128
};

static const size_t ROOMY_BYTES = (size_t)15 << 30;

/* Whose context the thread has, as far as is known. */
static _Thread_local const cuda_device *current;

/* Between the ops of a step nobody else sets a context on its thread, and there are hundreds of them: only what begins
 * a step, comes from another thread or from another device asks the driver. */
void cuda_lock(cuda_device *c) {
    const pthread_t self = pthread_self();
    pthread_mutex_lock(&c->lock);
    c->was_idle = c->is_idle;
    c->is_idle = false;
    if (current == c && c->queue.used && pthread_equal(c->last, self)) return;
    cuda_noted(c, c->drv.context_set(c->context), "cuda: the context");
    current = c;
    c->last = self;
}

void cuda_unlock(cuda_device *c) { pthread_mutex_unlock(&c->lock); }

/* Whether nothing in the context can be used any more. */
static bool is_fatal(drv_result result) {
    static const struct { drv_result first, last; } fatal[] = {{4, 4}, {201, 201}, {214, 226}, {700, 727}, {999, 999}};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (result >= fatal[i].first && result <= fatal[i].last) return true;
    return false;
}

bool cuda_noted(cuda_device *c, drv_result result, const char *what) {
    if (!result) return false;
    if (c->failure.code == QP_OK) drv_failed(&c->drv, result, what, &c->failure);
    if (is_fatal(result) && !c->is_lost) log_line(&c->log, QP_LOG_ERROR, "%s", c->failure.text);
    if (is_fatal(result)) c->is_lost = true;
    return true;
}

/* ---- memory ---- */

static qp_status no_room(const cuda_device *c, size_t bytes, qp_error *err) {
    size_t left = 0, all = 0;
    c->drv.memory_info(&left, &all);
    return err_set(err, QP_NO_MEMORY, 0, "cuda: %.1f MiB asked for, %.1f of %.1f MiB are free on GPU %s",
                   (double)bytes / (1 << 20), (double)left / (1 << 20), (double)all / (1 << 20), c->gpu.name);
}

qp_status cuda_take(cuda_device *c, void **out, size_t bytes, qp_error *err) {
    drv_ptr memory = 0;
    *out = NULL;
    const drv_result result = c->drv.memory_take(&memory, bytes ? bytes : 1);
    if (result == DRV_OUT_OF_MEMORY) return no_room(c, bytes, err);
    if (cuda_noted(c, result, "cuda: taking memory")) return drv_failed(&c->drv, result, "cuda: taking memory", err);
    *out = (void *)(uintptr_t)memory; /* an address of the GPU; never followed here */
    return QP_OK;
}

/* What is queued may still name it. */
void cuda_give(cuda_device *c, void *memory) {
    if (!memory) return;
    launch_flush(c);
    launch_forget_ahead(&c->queue);
    cuda_noted(c, c->drv.stream_wait(c->stream), "cuda: waiting for the GPU");
    cuda_noted(c, c->drv.memory_give((drv_ptr)(uintptr_t)memory), "cuda: giving memory back");
}

qp_status cuda_widen(cuda_device *c, void **memory, size_t *has, size_t bytes, qp_error *err) {
    if (*has >= bytes) return QP_OK;
    void *more;
    ERR_TRY(cuda_take(c, &more, bytes, err));
    cuda_give(c, *memory);
    *memory = more;
    *has = bytes;
    return QP_OK;
}

/* The driver takes some for itself while steps run: graphs, and what kernels spill. */
static void room(device *d, uint64_t *left, uint64_t *all) {
    cuda_device *c = cuda_of(d);
    size_t left_now = 0, all_there = 0;
    cuda_lock(c);
    cuda_noted(c, c->drv.memory_info(&left_now, &all_there), "cuda: asking for free memory");
    cuda_unlock(c);
    const size_t spare = all_there / 32 < MOST_SPARE ? all_there / 32 : MOST_SPARE;
    *left = left_now > spare ? left_now - spare : 0;
    *all = all_there;
}

static qp_status take(device *d, void **out, size_t bytes, qp_error *err) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    qp_status status = cuda_take(c, out, bytes, err);
    if (status == QP_OK) {
        const drv_result result = c->drv.fill((drv_ptr)(uintptr_t)*out, 0, bytes, c->stream);
        if (result) {
            status = drv_failed(&c->drv, result, "cuda: clearing memory", err);
            cuda_give(c, *out);
            *out = NULL;
        }
    }
    cuda_unlock(c);
    return status;
}

static void give(device *d, void *memory, size_t bytes) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    cuda_give(c, memory);
    cuda_unlock(c);
}

/* Small pieces are a step's own and travel with its tables. */
static void upload(device *d, void *to, const void *from, size_t bytes) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    if (!bytes || c->failure.code != QP_OK) {
    } else if (bytes <= UPLOAD_AS_TABLE) {
        const void *table = launch_table_of(c, from, bytes);
        const k_copy_args a = {.to = to, .from = table, .bytes = (int64_t)bytes, .n_blocks = 1};
        const bool wide = bytes % 16 == 0 && (uintptr_t)to % 16 == 0;
        const int64_t n = (int64_t)bytes / (wide ? 16 : 1);
        if (table)
            launch_push(c, wide ? KERNEL_k_copy_wide : KERNEL_k_copy_bytes,
                        (launch_shape){.x = (n + 255) / 256, .threads = 256}, &a, sizeof a);
    } else {
        launch_flush(c);
        c->queue.ahead.is_led = false;
        if (!c->queue.ahead.is_open)
            cuda_noted(c, c->drv.copy_up((drv_ptr)(uintptr_t)to, from, bytes, c->stream), "cuda: copying to the GPU");
    }
    cuda_unlock(c);
}

/* What came into pinned memory on its way to where it is wanted: logits of a batch are many megabytes, and one thread
 * copies them more slowly than they come over the bus. */
typedef struct arrival {
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
} arrival;

static void move_piece(void *context, int64_t task, int worker) {
    const arrival *a = context;
    const size_t at = (size_t)task * DOWNLOAD_PIECE, left = a->bytes - at;
    memcpy(a->to + at, a->from + at, left < DOWNLOAD_PIECE ? left : DOWNLOAD_PIECE);
}

/* By all threads, but where they are packing weights for somebody else at this moment. */
static void move_on(cuda_device *c, arrival *a, size_t bytes) {
    if (pthread_mutex_trylock(&c->window.lock)) {
        memcpy(a->to, a->from, bytes);
        return;
    }
    pool_run(c->pool, move_piece, a, (int64_t)((bytes + DOWNLOAD_PIECE - 1) / DOWNLOAD_PIECE));
    pthread_mutex_unlock(&c->window.lock);
}

/* In parts, of which one is on its way while the one before is moved on. */
static void fetch_parts(cuda_device *c, uint8_t *to, drv_ptr from, size_t bytes) {
    const size_t even = (bytes + CUDA_ARRIVALS - 1) / CUDA_ARRIVALS,
                 step = even > DOWNLOAD_LEAST ? even : DOWNLOAD_LEAST;
    uint8_t *pinned = c->pinned;
    for (size_t at = 0; at < bytes; at += step) {
        const size_t n = bytes - at < step ? bytes - at : step;
        cuda_noted(c, c->drv.copy_down(pinned + at, from + at, n, c->stream), "cuda: copying from the GPU");
        cuda_noted(c, c->drv.event_record(c->arrived[at / step], c->stream), "cuda: an event");
    }
    for (size_t at = 0; at < bytes && c->failure.code == QP_OK; at += step) {
        const size_t n = bytes - at < step ? bytes - at : step;
        arrival a = {to + at, pinned + at, n};
        if (cuda_noted(c, c->drv.event_wait(c->arrived[at / step]), "cuda: the GPU has failed")) return;
        move_on(c, &a, n);
    }
}

static void fetch(cuda_device *c, uint8_t *to, drv_ptr from, size_t bytes) {
    for (size_t done = 0; done < bytes && c->failure.code == QP_OK; done += DOWNLOAD_AT_ONCE) {
        const size_t left = bytes - done, n = left < DOWNLOAD_AT_ONCE ? left : DOWNLOAD_AT_ONCE;
        fetch_parts(c, to + done, from + done, n);
    }
    c->is_idle = true;
}

/* Returns when the bytes are here; zeros where the step has failed, as finish will tell. */
static void download(device *d, void *to, const void *from, size_t bytes) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    launch_flush(c);
    if (bytes && c->failure.code == QP_OK) fetch(c, to, (drv_ptr)(uintptr_t)from, bytes);
    if (bytes && c->failure.code != QP_OK) memset(to, 0, bytes);
    cuda_unlock(c);
}

/* A failure is told once, unless it is for good. */
static qp_status finish(device *d, qp_error *err) {
    cuda_device *c = cuda_of(d);
    cuda_lock(c);
    launch_flush(c);
    if (c->failure.code == QP_OK && !c->was_idle)
        cuda_noted(c, c->drv.stream_wait(c->stream), "cuda: the GPU has failed");
    const qp_status status = c->failure.code;
    if (status != QP_OK && err) *err = c->failure;
    if (!c->is_lost) c->failure = (qp_error){0};
    cuda_unlock(c);
    return status;
}

/* ---- closing ---- */

static void shut(device *d) {
    cuda_device *c = cuda_of(d);
    if (c->context) {
        window_close(c);
        cuda_lock(c);
        if (c->stream) c->drv.stream_wait(c->stream);
        launch_close(c);
        cuda_give(c, c->narrow);
        cuda_give(c, c->scales);
        cuda_give(c, c->parts);
        cuda_give(c, c->lists);
        for (int i = 0; i < 2; i++) cuda_give(c, c->blocks[i]);
        cuda_mixture_close(c);
        cuda_digest_close(c);
        if (c->pinned) c->drv.host_give(c->pinned);
        for (int i = 0; i < CUDA_ARRIVALS; i++)
            if (c->arrived[i]) c->drv.event_destroy(c->arrived[i]);
        if (c->handed) c->drv.event_destroy(c->handed);
        for (int i = 0; i < c->n_modules; i++) c->drv.module_unload(c->modules[i]);
        if (c->stream) c->drv.stream_destroy(c->stream);
        c->drv.context_set(NULL);
        c->drv.context_destroy(c->context);
        cuda_unlock(c);
    }
    pool_free(c->pool);
    drv_close(&c->drv);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->window.lock);
    mem_free(c);
}

static const dev_ops ops = {
    .kind = "cuda",
    .close = shut,
    .take = take,
    .give = give,
    .upload = upload,
    .download = download,
    .weight_open = cuda_weight_open,
    .weight_pack = cuda_weight_pack,
    .weight_close = cuda_weight_close,
    .reserve = cuda_reserve,
    .weight_bytes = cuda_weight_bytes,
    .reserve_bytes = cuda_reserve_bytes,
    .room = room,
    .embed = cuda_embed,
    .norm = cuda_norm,
    .matmul = cuda_matmul,
    .rope_store = cuda_rope_store,
    .latent_store = cuda_latent_store,
    .attend = cuda_attend,
    .gate = cuda_gate,
    .clamped_gate = cuda_clamped_gate,
    .xielu = cuda_xielu,
    .add = cuda_add,
    .limit = cuda_limit,
    .route = cuda_route,
    .experts = cuda_experts,
    .copy = cuda_copy,
    .digest = cuda_digest,
    .hand_over = cuda_hand_over,
    .expect = cuda_expect,
    .expected = cuda_expected,
    .proceed = cuda_proceed,
    .lead = cuda_lead,
    .digest_heads = cuda_digest_heads,
    .finish = finish,
};

/* ---- opening ---- */

/* "cuda" or "cuda:N". */
static qp_status read_index(int *out, const char *kind, qp_error *err) {
    *out = 0;
    if (!kind || strncmp(kind, "cuda:", 5)) return QP_OK;
    char *end;
    const long n = strtol(kind + 5, &end, 10);
    if (kind[5] < '0' || kind[5] > '9' || *end || n > 1023)
        return err_set(err, QP_BAD_ARGUMENT, 0, "device: '%.40s', allowed are cuda and cuda:0 to cuda:1023", kind);
    *out = (int)n;
    return QP_OK;
}

static qp_status choose_gpu(cuda_device *c, const char *kind, qp_error *err) {
    int index, count = 0;
    ERR_TRY(read_index(&index, kind, err));
    c->drv.device_count(&count);
    if (index >= count)
        return err_set(err, QP_BAD_ARGUMENT, 0, "device: cuda:%d, this machine has cuda:0 to cuda:%d", index,
                       count - 1);
    ERR_TRY(drv_describe(&c->drv, index, &c->gpu, err));
    snprintf(c->head.name, sizeof c->head.name, "cuda:%d", index);
    snprintf(c->head.level, sizeof c->head.level, "sm_%d%d", c->gpu.major, c->gpu.minor);
    const bool has_room = c->gpu.memory_bytes >= ROOMY_BYTES;
    c->head.most_rows = has_room ? DEV_MOST_ROWS : FEW_ROWS;
    c->head.logit_rows = has_room ? LOGIT_ROWS : FEW_LOGIT_ROWS;
    return QP_OK;
}

/* *module: where the kernel in front of it was, in whose image it mostly is, too. */
static qp_status find_kernel(cuda_device *c, int k, int *module, qp_error *err) {
    const char *name = launch_kernel_name((kernel_id)k);
    char what[96];
    snprintf(what, sizeof what, "cuda: kernel %s", name);
    drv_result result = DRV_NOT_FOUND;
    for (int i = 0, at = *module; i < c->n_modules && result == DRV_NOT_FOUND; i++, at = (at + 1) % c->n_modules) {
        result = c->drv.module_function(&c->kernels[k], c->modules[at], name);
        if (!result) *module = at;
    }
    int taken = 0;
    if (result == DRV_NOT_FOUND && k >= KERNEL_FIRST_FAST) return QP_OK; /* done without */
    if (!result) result = c->drv.function_get(&taken, DRV_FUNCTION_STATIC, c->kernels[k]);
    if (!result) result = c->drv.function_set(c->kernels[k], DRV_FUNCTION_SHARED, c->gpu.most_shared - taken);
    /* a multiprocessor must run empty before it divides its memory in another way */
    if (!result) result = c->drv.function_set(c->kernels[k], DRV_FUNCTION_CARVEOUT, 100);
    return result ? drv_failed(&c->drv, result, what, err) : QP_OK;
}

/* What stands for the kernels where the driver has them inside. */
static const cuda_image stand_in[] = {{"kernels", (const unsigned char *)""}, {NULL, NULL}};

static qp_status load_kernels(cuda_device *c, qp_error *err) {
    for (const cuda_image *image = cuda_images[0].name ? cuda_images : stand_in; image->name; image++) {
        if (c->n_modules == CUDA_MOST_MODULES)
            return err_set(err, QP_INTERNAL, 0, "cuda: more than %d images", CUDA_MOST_MODULES);
        const drv_result result = c->drv.module_load(&c->modules[c->n_modules], image->bytes);
        if (result == DRV_NO_BINARY)
            return err_set(err, QP_UNSUPPORTED, 0, "cuda: GPU %s has compute capability %d.%d, this build has %s",
                           c->gpu.name, c->gpu.major, c->gpu.minor, cuda_architectures);
        char what[96];
        snprintf(what, sizeof what, "cuda: the kernels of %s.cu", image->name);
        if (result) return drv_failed(&c->drv, result, what, err);
        c->n_modules++;
    }
    int module = 0;
    for (int k = 0; k < KERNEL_COUNT; k++) ERR_TRY(find_kernel(c, k, &module, err));
    return QP_OK;
}

static qp_status start(cuda_device *c, const char *library, const dev_options *options, qp_error *err) {
    const qp_status found = drv_open(&c->drv, library, err);
    if (!cuda_images[0].name && !library && !c->drv.has_kernels)
        return err_set(err, QP_UNSUPPORTED, 0, "cuda: quipu was built without nvcc and has no kernels for GPUs");
    ERR_TRY(found);
    ERR_TRY(choose_gpu(c, options->kind, err));
    drv_result result = c->drv.context_create(&c->context, 0, c->gpu.device);
    if (!result) result = c->drv.stream_create(&c->stream, DRV_STREAM_ALONE);
    if (result) return drv_failed(&c->drv, result, "cuda: the GPU cannot be used", err);
    ERR_TRY(pool_new(&c->pool, options->threads, options->pin_threads, err));
    c->head.threads = pool_threads(c->pool);
    result = c->drv.host_take(&c->pinned, DOWNLOAD_AT_ONCE, 0);
    for (int i = 0; i < CUDA_ARRIVALS && !result; i++) result = c->drv.event_create(&c->arrived[i], DRV_EVENT_PLAIN);
    if (result) return drv_failed(&c->drv, result, "cuda: pinned memory", err);
    ERR_TRY(cuda_digest_open(c, err));
    ERR_TRY(load_kernels(c, err));
    ERR_TRY(cuda_packed_ask(c, err));
    return launch_open(c, err);
}

qp_status cuda_open_from(device **out, const char *library, const dev_options *options, qp_error *err) {
    *out = NULL;
    cuda_device *c = MEM_NEW(cuda_device);
    if (!c) return err_no_memory(err, sizeof *c, "the CUDA device");
    pthread_mutexattr_t again; /* who writes down a step that is expected has it all the while, and each op takes it */
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->lock, &again);
    pthread_mutexattr_destroy(&again);
    pthread_mutex_init(&c->window.lock, NULL);
    c->log = options->log;
    c->head = (device){.ops = &ops, .exact = options->exact, .keeps_pairs = true, .kv_types = (1 << KV_TYPES) - 1};
    const qp_status status = start(c, library, options, err);
    if (status == QP_OK)
        *out = &c->head;
    else
        shut(&c->head);
    return status;
}

qp_status cuda_open(device **out, const dev_options *options, qp_error *err) {
    return cuda_open_from(out, NULL, options, err);
}

/* ---- listing ---- */

qp_status cuda_list(dev_gpu *out, int index, qp_error *err) {
    drv d;
    drv_gpu gpu;
    int count = 0;
    *out = (dev_gpu){.index = index, .has_kernels = cuda_images[0].name != NULL, .built_for = cuda_architectures};
    ERR_TRY(drv_open(&d, NULL, err));
    out->has_kernels = out->has_kernels || d.has_kernels;
    d.device_count(&count);
    qp_status status =
        index < count ? drv_describe(&d, index, &gpu, err) : err_set(err, QP_NO_FILE, 0, "cuda: no GPU %d", index);
    drv_close(&d);
    if (status != QP_OK) return status;
    snprintf(out->name, sizeof out->name, "%s", gpu.name);
    out->major = gpu.major;
    out->minor = gpu.minor;
    out->multiprocessors = gpu.multiprocessors;
    out->memory_bytes = gpu.memory_bytes;
    return QP_OK;
}
