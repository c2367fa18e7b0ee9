/* outfile.c — writing beside the target, renaming at the end. */
#include "outfile.h"
#include "mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16, NAME_TRIES = 100 };

struct outfile {
    int fd;
    bool is_direct; /* `target` itself is open: nothing to rename */
    int error;      /* errno of the first failure, or 0 */
    size_t used;
    char *target, *partial;
    char buffer[BUFFER_BYTES];
};

static void release(outfile *f) {
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    mem_free(f->target);
    mem_free(f->partial);
    mem_free(f);
}

static qp_status system_error(qp_error *err, const char *path, const char *doing, int why) {
    char text[128];
    const qp_status code = why == ENOENT || why == ENOTDIR ? QP_NO_FILE : why == ENOMEM ? QP_NO_MEMORY : QP_IO;
    return err_set(err, code, 0, "%s: cannot %s: %s", path, doing, strerror_r(why, text, sizeof text));
}

/* Takes a neighbour's name that nobody has; -1 with errno. */
static int open_partial(outfile *f, size_t capacity) {
    for (int i = 0; i < NAME_TRIES; i++) {
        snprintf(f->partial, capacity, "%s.partial-%ld-%d", f->target, (long)getpid(), i);
        const int fd = open(f->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

qp_status outfile_open(outfile **out, const char *path, qp_error *err) {
    *out = NULL;
    outfile *f = MEM_NEW(outfile);
    const size_t capacity = strlen(path) + 48;
    if (f) {
        f->fd = -1;
        f->target = mem_copy_text(path, strlen(path));
        f->partial = mem_array(capacity, 1);
    }
    if (!f || !f->target || !f->partial) return release(f), err_no_memory(err, sizeof *f, path);
    struct stat st;
    f->is_direct = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    f->fd = f->is_direct ? open(path, O_WRONLY | O_CLOEXEC) : open_partial(f, capacity);
    const int why = errno;
    if (f->fd < 0) return release(f), system_error(err, path, "create", why);
    *out = f;
    return QP_OK;
}

static void write_out(outfile *f, const char *bytes, size_t count) {
    while (count && !f->error) {
        const ssize_t n = write(f->fd, bytes, count);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            f->error = errno;
        else
            bytes += n, count -= (size_t)n;
    }
}

static void flush(outfile *f) {
    write_out(f, f->buffer, f->used);
    f->used = 0;
}

void outfile_add(outfile *f, const void *bytes, size_t count) {
    if (count > BUFFER_BYTES - f->used) flush(f);
    if (count > BUFFER_BYTES) {
        write_out(f, bytes, count);
        return;
    }
    if (count) memcpy(f->buffer + f->used, bytes, count);
    f->used += count;
}

qp_status outfile_commit(outfile *f, qp_error *err) {
    flush(f);
    if (close(f->fd) != 0 && !f->error) f->error = errno;
    f->fd = -1;
    if (!f->error && !f->is_direct && rename(f->partial, f->target) != 0) f->error = errno;
    const qp_status status = f->error ? system_error(err, f->target, "write", f->error) : QP_OK;
    if (f->error)
        outfile_cancel(f);
    else
        release(f);
    return status;
}

void outfile_cancel(outfile *f) {
    if (f && !f->is_direct) unlink(f->partial);
    release(f);
}
