/* drv.h — NVIDIA's driver library, found at run time: the part of its interface that quipu uses.
 *
 * The only place that knows names of libcuda. Types and numbers are those of the public driver API; nothing of the
 * CUDA toolkit is needed to build this. A machine without the library, or with one that is too old, simply has no such
 * device. */
#ifndef DEV_CUDA_DRV_H
#define DEV_CUDA_DRV_H

#include "base/err.h"

typedef int drv_result; /* 0: done */
typedef uint64_t drv_ptr;
typedef struct CUctx_st *drv_context;
typedef struct CUstream_st *drv_stream;
typedef struct CUevent_st *drv_event;
typedef struct CUmod_st *drv_module;
typedef struct CUfunc_st *drv_function;
typedef struct CUgraph_st *drv_graph;
typedef struct CUgraphExec_st *drv_graph_exec;

enum {
    DRV_OUT_OF_MEMORY = 2,
    DRV_NO_DEVICE = 100,
    DRV_NO_BINARY = 209, /* for this GPU */
    DRV_NOT_FOUND = 500,
    DRV_PEER_IS_OPEN = 704,

    DRV_MULTIPROCESSORS = 16, /* attributes of a device */
    DRV_MAJOR = 75,
    DRV_MINOR = 76,
    DRV_MOST_SHARED = 97, /* bytes of shared memory that a block may ask for */

    DRV_FUNCTION_STATIC = 1,   /* attributes of a function: bytes of shared memory that it has anyway, */
    DRV_FUNCTION_SHARED = 8,   /* and that a launch may ask for; */
    DRV_FUNCTION_CARVEOUT = 9, /* what of a multiprocessor's is to be shared memory, in hundredths */
    DRV_STREAM_ALONE = 1,      /* does not wait for the stream of everybody */
    DRV_EVENT_PLAIN = 2,       /* without time */
    DRV_CAPTURE_RELAXED = 2,

    DRV_LAUNCH_TOGETHER = 2, /* attributes of a launch: cooperative, */
    DRV_LAUNCH_CLUSTER = 4,
    DRV_LAUNCH_EARLY = 6, /* programmatic stream serialisation */
};

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct drv_attribute {
    int id, unused;
    unsigned value[16];
} drv_attribute;

typedef struct drv_launch {
    unsigned grid[3], block[3], shared_bytes;
    drv_stream stream;
    drv_attribute *attributes;
    unsigned n_attributes;
} drv_launch;

/* X(our name, symbol, arguments) */
#define DRV_FUNCTIONS(X)                                                                                               \
    X(init, cuInit, (unsigned flags))                                                                                  \
    X(version, cuDriverGetVersion, (int *version))                                                                     \
    X(error_name, cuGetErrorName, (drv_result error, const char **text))                                               \
    X(error_text, cuGetErrorString, (drv_result error, const char **text))                                             \
    X(device_count, cuDeviceGetCount, (int *count))                                                                    \
    X(device_get, cuDeviceGet, (int *device, int index))                                                               \
    X(device_name, cuDeviceGetName, (char *name, int bytes, int device))                                               \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                                 \
    X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                                                \
    X(context_create, cuCtxCreate_v2, (drv_context * context, unsigned flags, int device))                             \
    X(context_destroy, cuCtxDestroy_v2, (drv_context context))                                                         \
    X(context_set, cuCtxSetCurrent, (drv_context context))                                                             \
    X(memory_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * all_bytes))                                         \
    X(memory_take, cuMemAlloc_v2, (drv_ptr * memory, size_t bytes))                                                    \
    X(memory_give, cuMemFree_v2, (drv_ptr memory))                                                                     \
    X(host_take, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                        \
    X(host_give, cuMemFreeHost, (void *memory))                                                                        \
    X(copy_up, cuMemcpyHtoDAsync_v2, (drv_ptr to, const void *from, size_t bytes, drv_stream stream))                  \
    X(copy_down, cuMemcpyDtoHAsync_v2, (void *to, drv_ptr from, size_t bytes, drv_stream stream))                      \
    X(peer_can, cuDeviceCanAccessPeer, (int *can, int device, int peer))                                               \
    X(peer_open, cuCtxEnablePeerAccess, (drv_context peer, unsigned flags))                                            \
    X(copy_peer, cuMemcpyPeerAsync,                                                                                    \
      (drv_ptr to, drv_context to_context, drv_ptr from, drv_context from_context, size_t bytes, drv_stream stream))   \
    X(fill, cuMemsetD8Async, (drv_ptr memory, unsigned char value, size_t bytes, drv_stream stream))                   \
    X(stream_create, cuStreamCreate, (drv_stream * stream, unsigned flags))                                            \
    X(stream_destroy, cuStreamDestroy_v2, (drv_stream stream))                                                         \
    X(stream_after, cuStreamWaitEvent, (drv_stream stream, drv_event event, unsigned flags))                           \
    X(stream_wait, cuStreamSynchronize, (drv_stream stream))                                                           \
    X(event_create, cuEventCreate, (drv_event * event, unsigned flags))                                                \
    X(event_destroy, cuEventDestroy_v2, (drv_event event))                                                             \
    X(event_record, cuEventRecord, (drv_event event, drv_stream stream))                                               \
    X(event_wait, cuEventSynchronize, (drv_event event))                                                               \
    X(module_load, cuModuleLoadData, (drv_module * module, const void *image))                                         \
    X(module_unload, cuModuleUnload, (drv_module module))                                                              \
    X(module_function, cuModuleGetFunction, (drv_function * function, drv_module module, const char *name))            \
    X(function_get, cuFuncGetAttribute, (int *value, int attribute, drv_function function))                            \
    X(function_set, cuFuncSetAttribute, (drv_function function, int attribute, int value))                             \
    X(launch, cuLaunchKernelEx, (const drv_launch *how, drv_function function, void **args, void **extra))             \
    X(most_clusters, cuOccupancyMaxActiveClusters, (int *n, drv_function function, const drv_launch *how))             \
    X(capture_begin, cuStreamBeginCapture_v2, (drv_stream stream, int mode))                                           \
    X(capture_end, cuStreamEndCapture, (drv_stream stream, drv_graph * graph))                                         \
    X(graph_make, cuGraphInstantiateWithFlags, (drv_graph_exec * exec, drv_graph graph, unsigned long long flags))     \
    X(graph_launch, cuGraphLaunch, (drv_graph_exec exec, drv_stream stream))                                           \
    X(graph_free, cuGraphDestroy, (drv_graph graph))                                                                   \
    X(graph_exec_free, cuGraphExecDestroy, (drv_graph_exec exec))

typedef struct drv {
    void *library;
    bool has_kernels; /* inside: the tests' stand-in for a driver (tests/cuda/emulate.cpp) */
#define X(name, symbol, arguments) drv_result(*name) arguments;
    DRV_FUNCTIONS(X)
#undef X
} drv;

/* Loads and initialises the library at `path`, or where the system keeps it for NULL. QP_UNSUPPORTED says why there is
 * no device to use. */
qp_status drv_open(drv *out, const char *path, qp_error *err);
void drv_close(drv *d);
/* An error with the driver's own name and text for `result`: "what: CUDA_ERROR_... (text)". */
qp_status drv_failed(const drv *d, drv_result result, const char *what, qp_error *err);

/* What a GPU says of itself. */
typedef struct drv_gpu {
    int device;
    char name[96];
    int major, minor; /* compute capability */
    int multiprocessors;
    int most_shared;
    size_t memory_bytes;
} drv_gpu;

qp_status drv_describe(const drv *d, int index, drv_gpu *out, qp_error *err);

#endif
