/* cuda_open.h — the CUDA device's door for dev.c. */
#ifndef DEV_CUDA_CUDA_OPEN_H
#define DEV_CUDA_CUDA_OPEN_H

#include "dev/dev.h"

/* QP_UNSUPPORTED: this build or this machine has none, and the text says why. */
qp_status cuda_open(device **out, const dev_options *options, qp_error *err);
/* The same with another driver library than the system's, for tests. */
qp_status cuda_open_from(device **out, const char *library, const dev_options *options, qp_error *err);
/* See dev_gpu_at. */
qp_status cuda_list(dev_gpu *out, int index, qp_error *err);

#endif
