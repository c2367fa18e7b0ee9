/* outfile.h — a file that appears under its name complete or not at all.
 *
 * Written piece by piece to a neighbour "<path>.partial-..." that outfile_commit renames into place. A path that names
 * something else than a regular file (a device, a pipe) is written directly. */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include "err.h"

typedef struct outfile outfile;

qp_status outfile_open(outfile **out, const char *path, qp_error *err);
/* The first failure is kept: later pieces are dropped and outfile_commit reports it. */
void outfile_add(outfile *f, const void *bytes, size_t count);
/* Finishes and frees; on failure nothing is left behind. */
qp_status outfile_commit(outfile *f, qp_error *err);
/* Gives up and frees: the neighbour is removed. NULL is fine. */
void outfile_cancel(outfile *f);

#endif
