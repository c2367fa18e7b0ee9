/* dev.c — the kinds of device there are, and opening one by name.
 *
 * Called by api/ and the tests. A kind is one row: its name and the function in its folder that opens it. */
#include "dev.h"
#include "cpu/cpu_open.h"
#include <string.h>

static const struct {
    const char *kind;
    qp_status (*open)(device **out, const dev_options *options, qp_error *err);
} kinds[] = {
    {"cpu", cpu_open}, /* best first, as "auto" tries them */
};

qp_status dev_open(device **out, const dev_options *options, qp_error *err) {
    static const dev_options defaults;
    *out = NULL;
    if (!options) options = &defaults;
    const bool any = !options->kind || !strcmp(options->kind, "auto");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (any || !strcmp(options->kind, kinds[i].kind)) return kinds[i].open(out, options, err);
    return err_set(err, QP_BAD_ARGUMENT, 0, "device: '%.40s', allowed are auto, cpu", options->kind);
}

void dev_close(device *d) {
    if (d) d->ops->close(d);
}
