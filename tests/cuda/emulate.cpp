/* emulate.cpp — a libcuda without a GPU: memory is the heap's, copies are copies, and a launch runs the kernel here.
 *
 * Built as a library together with the kernels, compiled as plain C++; cuda_open_from opens it. Every call can be made
 * to fail (emulate_fail; from outside the process by a file that the variable EMULATE_FAIL names), and what was taken
 * and not given back is counted (emulate_live). There are two GPUs; EMULATE_MEMORY: MiB that each has.
 *
 * A block's threads are coroutines on stacks of their own, run in turns by one thread. The tricky thing is what an
 * exchange of values between lanes may overwrite: there are two sets of slots, used alternately, and no lane can be two
 * exchanges ahead of another. */
#include "emulate.h"
#include "../../src/dev/cuda/kernels/kernel.cuh"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
extern "C" { /* quant/fp.c */
float quant_f16_to_f32(uint16_t half);
uint16_t quant_f32_to_f16(float value);
uint16_t quant_f32_to_bf16(float value);
}

enum { MOST_THREADS = 512, STACK_BYTES = 256 << 10, SHARED_BYTES = 96 << 10, ARG_BYTES = 1024 };
enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 };

/* ---- coroutines ---- */

enum waiting { RUNS, WAITS_FOR_WARP, WAITS_FOR_BLOCK, HAS_ENDED };

struct args {
    uint8_t bytes[ARG_BYTES];
};
typedef void kernel(args);

/* State of the launch under way; one at a time. */
static struct {
    ucontext_t threads[MOST_THREADS], scheduler;
    waiting state[MOST_THREADS];
    uint8_t slots[2][MOST_THREADS][64];
    int exchanges[MOST_THREADS];
    uint8_t *stacks, *shared;
    unsigned n_threads, current;
    kernel *run;
    args given;
} block;

emulated_index threadIdx, blockIdx, blockDim, gridDim;

void *emulate_shared(void) { return block.shared; }

static void wait_for(waiting what) {
    const unsigned self = block.current;
    block.state[self] = what;
    swapcontext(&block.threads[self], &block.scheduler);
    threadIdx.x = self;
}

void __syncthreads(void) { wait_for(WAITS_FOR_BLOCK); }
void __syncwarp(void) { wait_for(WAITS_FOR_WARP); }

const uint8_t *emulate_exchange(const void *shown, size_t bytes) {
    const unsigned self = block.current;
    uint8_t(*slots)[64] = block.slots[block.exchanges[self]++ % 2];
    memcpy(slots[self], shown, bytes);
    wait_for(WAITS_FOR_WARP);
    return slots[self / 32 * 32];
}

unsigned __ballot_sync(unsigned, bool vote) {
    const uint8_t *all = emulate_exchange(&vote, 1);
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++) votes |= (unsigned)(all[64 * lane] != 0) << lane;
    return votes;
}

static void thread_main(void) {
    block.run(block.given);
    block.state[block.current] = HAS_ENDED;
    setcontext(&block.scheduler);
}

/* Lets go those of [first, end) that wait for `what`, if all that live do. */
static bool release(unsigned first, unsigned end, waiting what) {
    bool any = false;
    for (unsigned i = first; i < end; i++) {
        if (block.state[i] != what && block.state[i] != HAS_ENDED) return false;
        any = any || block.state[i] == what;
    }
    for (unsigned i = first; any && i < end; i++)
        if (block.state[i] == what) block.state[i] = RUNS;
    return any;
}

/* Apart from the loop: compilers take it that getcontext may return twice, and fear for the loop's counter. */
static void make_thread(ucontext_t *thread, uint8_t *stack) {
    getcontext(thread);
    thread->uc_stack.ss_sp = stack;
    thread->uc_stack.ss_size = STACK_BYTES;
    thread->uc_link = NULL;
    makecontext(thread, thread_main, 0);
}

/* False: threads wait for others that never come. */
static bool run_block(void) {
    for (unsigned i = 0; i < block.n_threads; i++) {
        make_thread(&block.threads[i], block.stacks + (size_t)i * STACK_BYTES);
        block.state[i] = RUNS;
        block.exchanges[i] = 0;
    }
    for (;;) {
        bool moves = false, lives = false;
        for (unsigned i = 0; i < block.n_threads; i++) {
            if (block.state[i] != RUNS) continue;
            block.current = threadIdx.x = i;
            swapcontext(&block.scheduler, &block.threads[i]);
        }
        for (unsigned i = 0; i < block.n_threads; i += 32)
            moves = release(i, i + 32 < block.n_threads ? i + 32 : block.n_threads, WAITS_FOR_WARP) || moves;
        moves = release(0, block.n_threads, WAITS_FOR_BLOCK) || moves;
        for (unsigned i = 0; i < block.n_threads; i++) lives = lives || block.state[i] != HAS_ENDED;
        if (!lives) return true;
        if (!moves) return false;
    }
}

/* ---- 16-bit floats and the tensor cores ---- */

float to_float(f16 x) { return quant_f16_to_f32(x.bits); }
void put_float(f16 *to, float x) { to->bits = quant_f32_to_f16(x); }
void put_float(bf16 *to, float x) { to->bits = quant_f32_to_bf16(x); }

struct operands {
    uint32_t a[4], b[2];
};

/* Element `half` of a 32-bit word. */
template <class T> static double element(uint32_t word, int half) {
    T x;
    x.bits = (uint16_t)(word >> 16 * half);
    return to_float(x);
}

/* PTX: row r of a, input k: register (r >= 8) + 2 (k >= 8) of lane r % 8 * 4 + k % 8 / 2; column n of b likewise. */
template <class T> static void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    const operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const uint8_t *all = emulate_exchange(&mine, sizeof mine);
    const int lane = (int)(threadIdx.x % 32);
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        double sum = c[i];
        for (int k = 0; k < 16; k++) {
            operands of_row, of_column;
            memcpy(&of_row, all + 64 * (row % 8 * 4 + k % 8 / 2), sizeof of_row);
            memcpy(&of_column, all + 64 * (column * 4 + k % 8 / 2), sizeof of_column);
            sum += element<T>(of_row.a[row / 8 + k / 8 * 2], k % 2) * element<T>(of_column.b[k / 8], k % 2);
        }
        c[i] = (float)sum;
    }
}

void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, f16) { multiply<f16>(c, a, b0, b1); }
void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, bf16) { multiply<bf16>(c, a, b0, b1); }

/* ---- the driver's interface ---- */

static struct {
    const char *function;
    int after, result;
} injected;
static int64_t live;
enum { GPUS = 2 };                                                         /* alike */
static size_t taken_bytes[GPUS], most_taken_bytes[GPUS];                   /* of the GPUs' memory */
static int64_t n_taken;                                                    /* times that some was */
static int current;                                                        /* GPU of the context in use */
static size_t memory_bytes = (size_t)(getenv("EMULATE_MEMORY") ? atoi(getenv("EMULATE_MEMORY")) : 1024) << 20;

/* A file "FUNCTION AFTER RESULT" that appears while the process runs. */
static void look_for_order(void) {
    static const char *const path = getenv("EMULATE_FAIL");
    static char function[64];
    FILE *file = path && !injected.function ? fopen(path, "r") : NULL;
    if (!file) return;
    if (fscanf(file, "%63s %d %d", function, &injected.after, &injected.result) == 3) injected.function = function;
    fclose(file);
}

static int fails(const char *function) {
    look_for_order();
    if (!injected.function || (strcmp(injected.function, function) && strcmp(injected.function, "any"))) return 0;
    return injected.after-- <= 0 ? injected.result : 0;
}
#define MAY_FAIL                                                                                                       \
    do {                                                                                                               \
        const int failure = fails(__func__);                                                                           \
        if (failure) return failure;                                                                                   \
    } while (0)

#define API extern "C" __attribute__((visibility("default")))

/* Says to the device that the kernels are here and need not be loaded. */
API const int quipu_has_kernels = 1;

/* From the n-th call of `function` on ("any": of all), it returns `result`; NULL: all is well again. */
API void emulate_fail(const char *function, int after, int result) {
    injected.function = function;
    injected.after = after;
    injected.result = result;
}

/* The GPU has so much memory from now on; how often and how much of it has been taken at most, since then. */
API void emulate_memory(size_t bytes) {
    memory_bytes = bytes;
    n_taken = 0;
    for (int i = 0; i < GPUS; i++) most_taken_bytes[i] = taken_bytes[i];
}
API int64_t emulate_times_taken(void) { return n_taken; }
API size_t emulate_most_taken(void) { return most_taken_bytes[0]; }
API size_t emulate_most_taken_of(int gpu) { return most_taken_bytes[gpu]; }

/* Pieces of memory, streams, events, modules, graphs and contexts that have not been given back. */
API int64_t emulate_live(void) { return live; }

API int cuInit(unsigned) {
    MAY_FAIL;
    return SUCCESS;
}
API int cuDriverGetVersion(int *version) { return *version = 13000, SUCCESS; }
API int cuGetErrorName(int error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return SUCCESS;
}
API int cuGetErrorString(int, const char **text) { return *text = "injected", SUCCESS; }
API int cuDeviceGetCount(int *count) {
    MAY_FAIL;
    return *count = GPUS, SUCCESS;
}
API int cuDeviceGet(int *device, int index) {
    MAY_FAIL;
    return *device = index, SUCCESS;
}
API int cuDeviceGetName(char *name, int bytes, int) {
    strncpy(name, "Emulated GPU", (size_t)bytes);
    return SUCCESS;
}
API int cuDeviceGetAttribute(int *value, int attribute, int) {
    MAY_FAIL;
    *value = attribute == 16 ? 4 : attribute == 75 ? 7 : attribute == 97 ? SHARED_BYTES : 0;
    return SUCCESS;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = memory_bytes, SUCCESS; }
API int cuMemGetInfo_v2(size_t *left, size_t *all) {
    MAY_FAIL;
    *left = memory_bytes - taken_bytes[current];
    return *all = memory_bytes, SUCCESS;
}

/* A thing that is nothing but alive. */
static int make(void **out) {
    *out = malloc(1);
    live++;
    return SUCCESS;
}
static int end(void *thing) {
    free(thing);
    live--;
    return SUCCESS;
}

struct context {
    int gpu;
};
static int contexts; /* that share the coroutines' stacks */

API int cuCtxCreate_v2(void **out, unsigned, int device) {
    MAY_FAIL;
    if (!contexts++) block.stacks = (uint8_t *)malloc((size_t)MOST_THREADS * STACK_BYTES);
    context *c = (context *)malloc(sizeof *c);
    c->gpu = current = device;
    live++;
    return *out = c, SUCCESS;
}
API int cuCtxDestroy_v2(void *context) {
    if (!--contexts) {
        free(block.stacks);
        block.stacks = NULL;
    }
    return end(context);
}
API int cuCtxSetCurrent(void *to) {
    MAY_FAIL;
    if (to) current = ((context *)to)->gpu;
    return SUCCESS;
}
API int cuDeviceCanAccessPeer(int *can, int, int) {
    MAY_FAIL;
    return *can = 1, SUCCESS;
}
API int cuCtxEnablePeerAccess(void *, unsigned) {
    MAY_FAIL;
    return SUCCESS;
}
API int cuMemcpyPeerAsync(uint64_t to, void *, uint64_t from, void *, size_t bytes, void *) {
    MAY_FAIL;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return SUCCESS;
}
/* What stands in front of memory. */
struct piece {
    size_t bytes;
    int gpu;
};

API int cuMemAlloc_v2(uint64_t *memory, size_t bytes) {
    MAY_FAIL;
    void *at;
    if (bytes > memory_bytes - taken_bytes[current] || posix_memalign(&at, 256, bytes + 256)) return OUT_OF_MEMORY;
    const piece head = {bytes, current};
    memcpy(at, &head, sizeof head);
    memset((uint8_t *)at + 256, 0xFF, bytes);
    live++;
    n_taken++;
    size_t *taken = &taken_bytes[current], *most = &most_taken_bytes[current];
    *taken += bytes;
    if (*taken > *most) *most = *taken;
    *memory = (uint64_t)(uintptr_t)at + 256;
    return SUCCESS;
}
API int cuMemFree_v2(uint64_t memory) {
    void *at = (void *)(uintptr_t)(memory - 256);
    piece head;
    memcpy(&head, at, sizeof head);
    taken_bytes[head.gpu] -= head.bytes;
    return end(at);
}
API int cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
    MAY_FAIL;
    *memory = malloc(bytes);
    live++;
    return SUCCESS;
}
API int cuMemFreeHost(void *memory) { return end(memory); }
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *) {
    MAY_FAIL;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return SUCCESS;
}
API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *) {
    MAY_FAIL;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return SUCCESS;
}
API int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void *) {
    MAY_FAIL;
    memset((void *)(uintptr_t)memory, value, bytes);
    return SUCCESS;
}
API int cuStreamCreate(void **stream, unsigned) {
    MAY_FAIL;
    return make(stream);
}
API int cuStreamDestroy_v2(void *stream) { return end(stream); }
API int cuStreamSynchronize(void *) {
    MAY_FAIL;
    return SUCCESS;
}
API int cuEventCreate(void **event, unsigned) {
    MAY_FAIL;
    return make(event);
}
API int cuEventDestroy_v2(void *event) { return end(event); }
API int cuEventRecord(void *, void *) {
    MAY_FAIL;
    return SUCCESS;
}
API int cuStreamWaitEvent(void *, void *, unsigned) {
    MAY_FAIL;
    return SUCCESS;
}
API int cuEventSynchronize(void *) {
    MAY_FAIL;
    return SUCCESS;
}
API int cuModuleLoadData(void **module, const void *) {
    MAY_FAIL;
    return make(module);
}
API int cuModuleUnload(void *module) { return end(module); }
API int cuModuleGetFunction(void **function, void *, const char *name) {
    MAY_FAIL;
    Dl_info self;
    if (!dladdr((void *)emulate_live, &self)) return NOT_FOUND;
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *function = library ? dlsym(library, name) : NULL;
    if (library) dlclose(library);
    return *function ? SUCCESS : NOT_FOUND;
}
API int cuFuncGetAttribute(int *value, int, void *) { return *value = 0, SUCCESS; }
API int cuFuncSetAttribute(void *, int, int) {
    MAY_FAIL;
    return SUCCESS;
}

API int cuOccupancyMaxActiveClusters(int *n, void *, const void *) {
    *n = 0;
    return SUCCESS;
}

/* ---- graphs: the launches that were captured, made again ---- */

struct launch {
    void *function;
    unsigned grid[3], threads, shared_bytes;
    args given;
};
struct graph {
    launch *launches;
    size_t n;
};
static graph *captured; /* NULL: launches run at once */

static int run_launch(const launch *l) {
    block.run = (kernel *)l->function;
    block.given = l->given;
    block.n_threads = l->threads;
    blockDim.x = l->threads;
    gridDim = {l->grid[0], l->grid[1], l->grid[2]};
    block.shared = (uint8_t *)malloc(l->shared_bytes + 1);
    memset(block.shared, 0xFF, l->shared_bytes);
    bool ends = true;
    for (unsigned z = 0; z < l->grid[2] && ends; z++)
        for (unsigned y = 0; y < l->grid[1] && ends; y++)
            for (unsigned x = 0; x < l->grid[0] && ends; x++) {
                blockIdx = {x, y, z};
                ends = run_block();
            }
    free(block.shared);
    return ends ? SUCCESS : 719;
}

/* CUlaunchConfig */
struct launch_how {
    unsigned grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    unsigned n_attributes;
};

API int cuLaunchKernelEx(const launch_how *how, void *function, void **given, void **) {
    const unsigned x = how->grid[0], y = how->grid[1], z = how->grid[2], threads = how->block[0];
    const unsigned shared_bytes = how->shared_bytes;
    MAY_FAIL;
    if (!x || !y || !z || y > 65535 || z > 65535 || !threads || threads > MOST_THREADS || threads % 32 ||
        shared_bytes > SHARED_BYTES)
        return INVALID;
    launch l = {function, {x, y, z}, threads, shared_bytes, {}};
    memcpy(l.given.bytes, given[0], sizeof l.given.bytes); /* the host keeps room behind every struct */
    if (!captured) return run_launch(&l);
    captured->launches = (launch *)realloc((void *)captured->launches, (captured->n + 1) * sizeof l);
    captured->launches[captured->n++] = l;
    return SUCCESS;
}
API int cuStreamBeginCapture_v2(void *, int) {
    MAY_FAIL;
    captured = (graph *)calloc(1, sizeof *captured);
    live++;
    return SUCCESS;
}
API int cuStreamEndCapture(void *, void **out) {
    *out = captured;
    captured = NULL;
    return SUCCESS;
}
API int cuGraphDestroy(void *g) {
    free(((graph *)g)->launches);
    return end(g);
}
API int cuGraphInstantiateWithFlags(void **exec, void *from, unsigned long long) {
    MAY_FAIL;
    const graph *g = (const graph *)from;
    graph *copy = (graph *)calloc(1, sizeof *copy);
    copy->launches = (launch *)malloc(g->n * sizeof *g->launches);
    memcpy((void *)copy->launches, (const void *)g->launches, g->n * sizeof *g->launches);
    copy->n = g->n;
    live++;
    *exec = copy;
    return SUCCESS;
}
API int cuGraphExecDestroy(void *g) { return cuGraphDestroy(g); }
API int cuGraphLaunch(void *exec, void *) {
    MAY_FAIL;
    const graph *g = (const graph *)exec;
    for (size_t i = 0; i < g->n; i++) {
        const int result = run_launch(&g->launches[i]);
        if (result) return result;
    }
    return SUCCESS;
}
