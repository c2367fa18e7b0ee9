/* cuda_program.h — a step's launches, or as many of them as are known, as one program.
 *
 * Called by launch.c when it makes a graph of a list of launches. */
#ifndef DEV_CUDA_CUDA_PROGRAM_H
#define DEV_CUDA_CUDA_PROGRAM_H

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

struct cuda_device;

/* Device memory for `programs` of them, where the GPU has the kernel. The lock is held, here and below. */
qp_status cuda_program_open(struct cuda_device *c, int programs, qp_error *err);
void cuda_program_close(struct cuda_device *c);
/* Puts a program in place of the launches that it does, in the queue's list. It takes the place of program `slot`; what
 * still runs of that one ends first. */
void cuda_program_shorten(struct cuda_device *c, int slot);
/* Tells the programs of a list that a program has shortened what is known only when they are launched. */
void cuda_program_dress(struct cuda_device *c, uint8_t *list, size_t bytes);

#endif
