/* cpu_open.h — the CPU device's door for dev.c. */
#ifndef DEV_CPU_CPU_OPEN_H
#define DEV_CPU_CPU_OPEN_H

#include "dev/dev.h"

qp_status cpu_open(device **out, const dev_options *options, qp_error *err);

#endif
