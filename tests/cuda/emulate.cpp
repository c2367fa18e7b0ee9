/* emulate.cpp — a libcuda without a GPU: memory is the host's, and ends where none is; copies are copies, and a launch
 * runs the kernel here.
 *
 * Built as a library together with the kernels, compiled as plain C++; cuda_open_from opens it. Every call can be made
 * to fail (emulate_fail; from outside the process by a file that the variable EMULATE_FAIL names), and what was taken
 * and not given back is counted (emulate_live). There are two GPUs; EMULATE_MEMORY: MiB that each has. They are old,
 * with the general kernels alone, unless the variable EMULATE_GPU says otherwise when the driver starts: "MAJOR
 * MULTIPROCESSORS SEED", of compute capability MAJOR; at most MOST_TOGETHER multiprocessors can be there for a launch
 * whose blocks are all there at once; SEED decides what chance does in launches. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "emulate_run.h"
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) (void)(at), (void)(bytes)
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) (void)(at), (void)(bytes)
#endif

enum { OLD_SHARED_BYTES = 96 << 10, SHARED_BYTES = 227 << 10, FIRST_FAST = 8 };
enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, LAUNCH_FAILED = 719, TOO_MANY_TOGETHER = 720 };
enum { ATTRIBUTE_TOGETHER = 2, ATTRIBUTE_CLUSTER = 4 };

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
static const char *fault;                                                  /* of the last launch that failed */
static size_t memory_bytes = (size_t)(getenv("EMULATE_MEMORY") ? atoi(getenv("EMULATE_MEMORY")) : 1024) << 20;

/* What the GPUs are. */
static struct {
    int major, multiprocessors;
} kind;

static void ask_kind() {
    const char *asked = getenv("EMULATE_GPU");
    unsigned seed = 0;
    kind = {7, 4};
    if (asked) sscanf(asked, "%d %d %u", &kind.major, &kind.multiprocessors, &seed);
    emulate_seed(seed);
}

static int most_shared() { return kind.major < FIRST_FAST ? OLD_SHARED_BYTES : SHARED_BYTES; }

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
    ask_kind();
    return SUCCESS;
}
API int cuDriverGetVersion(int *version) { return *version = 13000, SUCCESS; }
API int cuGetErrorName(int error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return SUCCESS;
}
API int cuGetErrorString(int error, const char **text) {
    return *text = error == LAUNCH_FAILED && fault ? fault : "injected", SUCCESS;
}
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
    *value = attribute == 16 ? kind.multiprocessors : attribute == 75 ? kind.major : attribute == 97 ? most_shared() : 0;
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
static int contexts; /* that share the threads' stacks */

API int cuCtxCreate_v2(void **out, unsigned, int device) {
    MAY_FAIL;
    contexts++;
    context *c = (context *)malloc(sizeof *c);
    c->gpu = current = device;
    live++;
    return *out = c, SUCCESS;
}
API int cuCtxDestroy_v2(void *context) {
    if (!--contexts) emulate_rest();
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
/* What stands in front of memory; behind it is a page that nobody may touch, and in front of that, where memory is no
 * multiple of what it is aligned to, what the address sanitizer knows not to be there. */
struct piece {
    uint8_t *from; /* of the whole mapping */
    size_t bytes, mapped;
    int gpu;
};
enum { ALIGNED = 256 }; /* memory, and what is free in front of it */
static size_t up(size_t n, size_t by) { return (n + by - 1) / by * by; }

API int cuMemAlloc_v2(uint64_t *memory, size_t bytes) {
    MAY_FAIL;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = up(bytes + ALIGNED, page) + page;
    if (bytes > memory_bytes - taken_bytes[current]) return OUT_OF_MEMORY;
    uint8_t *from = (uint8_t *)mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED || mprotect(from + mapped - page, page, PROT_NONE)) return OUT_OF_MEMORY;
    uint8_t *at = from + mapped - page - up(bytes, ALIGNED);
    const piece head = {from, bytes, mapped, current};
    memcpy(at - ALIGNED, &head, sizeof head);
    memset(at, 0xFF, bytes);
    ASAN_POISON_MEMORY_REGION(at + bytes, up(bytes, ALIGNED) - bytes);
    live++;
    n_taken++;
    size_t *taken = &taken_bytes[current], *most = &most_taken_bytes[current];
    *taken += bytes;
    if (*taken > *most) *most = *taken;
    *memory = (uint64_t)(uintptr_t)at;
    return SUCCESS;
}
API int cuMemFree_v2(uint64_t memory) {
    uint8_t *at = (uint8_t *)(uintptr_t)memory;
    piece head;
    memcpy(&head, at - ALIGNED, sizeof head);
    taken_bytes[head.gpu] -= head.bytes;
    ASAN_UNPOISON_MEMORY_REGION(at, up(head.bytes, ALIGNED));
    munmap(head.from, head.mapped);
    live--;
    return SUCCESS;
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
/* Where the linker puts kernels that an old GPU does not have. */
extern "C" __attribute__((visibility("hidden"))) const char __start_fast_kernels[], __stop_fast_kernels[];
static bool is_fast(const void *function) {
    return function >= (const void *)__start_fast_kernels && function < (const void *)__stop_fast_kernels;
}

API int cuModuleGetFunction(void **function, void *, const char *name) {
    MAY_FAIL;
    Dl_info self;
    if (!dladdr((void *)emulate_live, &self)) return NOT_FOUND;
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *function = library ? dlsym(library, name) : NULL;
    if (library) dlclose(library);
    if (is_fast(*function) && kind.major < FIRST_FAST) *function = NULL;
    return *function ? SUCCESS : NOT_FOUND;
}
API int cuFuncGetAttribute(int *value, int, void *) { return *value = 0, SUCCESS; }
API int cuFuncSetAttribute(void *, int, int) {
    MAY_FAIL;
    return SUCCESS;
}

/* ---- graphs: the launches that were captured, made again ---- */

struct graph {
    launch *launches;
    size_t n;
};
static graph *captured; /* NULL: launches run at once */

static int run_launch(const launch *l) {
    const char *wrong = emulate_launch(l);
    if (wrong) fault = wrong;
    return wrong ? LAUNCH_FAILED : SUCCESS;
}

/* CUlaunchAttribute and CUlaunchConfig */
struct launch_attribute {
    int id, unused;
    unsigned value[16];
};
struct launch_how {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    const launch_attribute *attributes;
    unsigned n_attributes;
};

/* As many as there are multiprocessors for. */
API int cuOccupancyMaxActiveClusters(int *n, void *, const launch_how *how) {
    MAY_FAIL;
    *n = 0;
    for (unsigned i = 0; i < how->n_attributes; i++)
        if (how->attributes[i].id == ATTRIBUTE_CLUSTER) *n = kind.multiprocessors / (int)how->attributes[i].value[0];
    return SUCCESS;
}

API int cuLaunchKernelEx(const launch_how *how, void *function, void **given, void **) {
    const unsigned x = how->grid[0], y = how->grid[1], z = how->grid[2], threads = how->block[0];
    const unsigned shared_bytes = how->shared_bytes;
    MAY_FAIL;
    if (!x || !y || !z || y > 65535 || z > 65535 || !threads || threads > MOST_THREADS || threads % LANES ||
        shared_bytes > (unsigned)most_shared())
        return INVALID;
    launch l = {function, {x, y, z}, threads, shared_bytes, false, 1, {}};
    for (unsigned i = 0; i < how->n_attributes; i++) {
        l.together = l.together || (how->attributes[i].id == ATTRIBUTE_TOGETHER && how->attributes[i].value[0]);
        if (how->attributes[i].id == ATTRIBUTE_CLUSTER) l.cluster = how->attributes[i].value[0];
    }
    if (l.together && (y * z > 1 || x > (unsigned)kind.multiprocessors || x > MOST_TOGETHER)) return TOO_MANY_TOGETHER;
    if (x % l.cluster || (l.cluster > 1 && !l.together)) return INVALID; /* a cluster's blocks are there at once */
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
