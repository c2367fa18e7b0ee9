/* leftover.c — refuses checkpoints whose unused tensors would change the answers.
 *
 * Called by model.c when a folder is opened. Most leftovers are harmless: parts for images, layers for drafts, buffers.
 * Two kinds are not. Quantisers write a bias beside every projection, which is zero where the architecture has none,
 * but may take up an error of rounding or belong to an architecture that this row only resembles. And AWQ divides the
 * activations of some architectures by numbers of its own (act.scales). */
#include "leftover.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *name, const char *tail) {
    const size_t n = strlen(name), m = strlen(tail);
    return n >= m && !strcmp(name + n - m, tail);
}

/* Of any type of floats: a zero may have a sign. */
static bool is_zero(const ckpt_tensor *t) {
    const size_t each = t->type == DTYPE_F32 ? 4 : 2;
    for (size_t i = 0; i < t->bytes; i++)
        if (t->data[i] && (t->data[i] != 0x80 || i % each != each - 1)) return false;
    return true;
}

static int by_address(const void *a, const void *b) {
    const ckpt_tensor *const *x = a, *const *y = b;
    return (*x > *y) - (*x < *y);
}

/* Whether the model uses the weight X of X.bias: then it has that layer. left: by address. */
static bool is_of_used(const ckpt_tensor *bias, const checkpoint *files, const ckpt_tensor *const *left, size_t n) {
    static const char *const weights[] = {"weight", "qweight", "q_weight", "weight_packed", "trellis"};
    const int base = (int)(strlen(bias->name) - strlen("bias"));
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char name[CKPT_MAX_NAME + 16];
        snprintf(name, sizeof name, "%.*s%s", base, bias->name, weights[i]);
        const ckpt_tensor *weight = checkpoint_find(files, name);
        if (weight && !bsearch(&weight, left, n, sizeof *left, by_address)) return true;
    }
    return false;
}

static qp_status check_one(const ckpt_tensor *t, const arch_row *arch, const checkpoint *files,
                           const ckpt_tensor *const *left, size_t n, qp_error *err) {
    if (ends_with(t->name, ".act.scales"))
        return err_set(err, QP_UNSUPPORTED, 0, "%s: activations that are divided by a scale each are not supported",
                       t->name);
    if (!ends_with(t->name, ".bias") || is_zero(t) || !is_of_used(t, files, left, n)) return QP_OK;
    return err_set(err, QP_UNSUPPORTED, 0, "%s: a bias that is not zero, where %s has none", t->name, arch->hf_name);
}

qp_status leftover_check(const arch_row *arch, const model_shape *shape, const checkpoint *files, qp_error *err) {
    const size_t n = arch_unexpected(arch, shape, files, NULL, 0);
    if (!n) return QP_OK;
    const ckpt_tensor **left = mem_array(n, sizeof *left);
    if (!left) return err_no_memory(err, n * sizeof *left, "the list of unused tensors");
    arch_unexpected(arch, shape, files, left, n);
    qsort(left, n, sizeof *left, by_address);
    qp_status status = QP_OK;
    for (size_t i = 0; i < n && status == QP_OK; i++) status = check_one(left[i], arch, files, left, n, err);
    mem_free(left);
    return status;
}
