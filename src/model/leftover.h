/* leftover.h — tensors of a checkpoint that a model does not use, although they would change what it computes. */
#ifndef MODEL_LEFTOVER_H
#define MODEL_LEFTOVER_H

#include "arch.h"

/* QP_UNSUPPORTED names the first such tensor. */
qp_status leftover_check(const arch_row *arch, const model_shape *shape, const checkpoint *files, qp_error *err);

#endif
