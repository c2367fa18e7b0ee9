/* dev.c — the kinds of device there are, and opening one by name.
 *
 * Called by api/ and the tests. A kind is one row: its name and the function in its folder that opens it. "auto" goes
 * on to the next row where a kind cannot be used here; a kind that was named must be. */
#include "dev.h"
#include "base/log.h"
#include "cpu/cpu_open.h"
#include "cuda/cuda_open.h"
#include <string.h>

static const struct {
    const char *kind;
    qp_status (*open)(device **out, const dev_options *options, qp_error *err);
    bool has_numbers; /* "kind:1" names the second */
} kinds[] = {
    {"cuda", cuda_open, true}, /* best first, as "auto" tries them */
    {"cpu", cpu_open, false},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static bool is_named(int i, const char *name) {
    const size_t n = strlen(kinds[i].kind);
    return !strncmp(name, kinds[i].kind, n) && (!name[n] || (kinds[i].has_numbers && name[n] == ':'));
}

/* The last kind can always be used, so its failure is the answer. An asked-for CPU level means the CPU. */
static qp_status open_best(device **out, const dev_options *options, qp_error *err) {
    for (int i = options->cpu_level ? N_KINDS - 1 : 0; i < N_KINDS - 1; i++) {
        qp_error why;
        const qp_status status = kinds[i].open(out, options, &why);
        if (status == QP_OK) return QP_OK;
        if (status != QP_UNSUPPORTED)
            log_line(&options->log, QP_LOG_WARN, "%s is not used: %s", kinds[i].kind, why.text);
    }
    return kinds[N_KINDS - 1].open(out, options, err);
}

static qp_status open_named(device **out, const dev_options *options, qp_error *err) {
    if (!options->kind || !strcmp(options->kind, "auto")) return open_best(out, options, err);
    for (int i = 0; i < N_KINDS; i++)
        if (is_named(i, options->kind)) return kinds[i].open(out, options, err);
    return err_set(err, QP_BAD_ARGUMENT, 0, "device: '%.40s', allowed are auto, cpu, cuda, cuda:0 ...", options->kind);
}

qp_status dev_open(device **out, const dev_options *options, qp_error *err) {
    static const dev_options defaults;
    *out = NULL;
    if (!options) options = &defaults;
    ERR_TRY(open_named(out, options, err));
    if (options->pack_path && !(*out)->ops->weights_end)
        log_line(&options->log, QP_LOG_WARN, "pack cache: %s keeps no packed weights in a file, %s is not used",
                 (*out)->name, options->pack_path);
    return QP_OK;
}

void dev_hold(device *d) { atomic_fetch_add(&d->more_owners, 1); }

void dev_close(device *d) {
    if (d && atomic_fetch_sub(&d->more_owners, 1) == 0) d->ops->close(d);
}

qp_status dev_gpu_at(dev_gpu *out, int index, qp_error *err) { return cuda_list(out, index, err); }
