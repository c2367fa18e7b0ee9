/* file.c — files: mapped for reading, read whole, asked about. The only file of the library that opens files. */
#include "file.h"
#include "mem.h"
#include "str.h"
#include <dirent.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static qp_status system_error(qp_error *err, const char *path, const char *doing) {
    const int why = errno;
    const qp_status code = why == ENOENT || why == ENOTDIR ? QP_NO_FILE : why == ENOMEM ? QP_NO_MEMORY : QP_IO;
    char text[128];
    return err_set(err, code, 0, "%s: cannot %s: %s", path, doing, strerror_r(why, text, sizeof text));
}

static qp_status open_regular(int *fd, size_t *bytes, const char *path, qp_error *err) {
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a fifo must not stop us here */
    if (*fd < 0) return system_error(err, path, "open");
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0) {
        *bytes = (size_t)st.st_size;
        return QP_OK;
    }
    const bool is_folder = S_ISDIR(st.st_mode);
    close(*fd);
    return err_set(err, QP_BAD_ARGUMENT, 0, "%s: is %s, a regular file is needed", path,
                   is_folder ? "a folder" : "not a file");
}

qp_status file_map_open(file_map *out, const char *path, qp_error *err) {
    int fd;
    *out = (file_map){0};
    size_t bytes = 0;
    ERR_TRY(open_regular(&fd, &bytes, path, err));
    const void *at = bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : (const void *)"";
    const qp_status status = at == MAP_FAILED ? system_error(err, path, "map") : QP_OK;
    close(fd);
    if (status == QP_OK) *out = (file_map){at, bytes};
    return status;
}

void file_map_close(file_map *map) {
    if (map->at && map->bytes) munmap((void *)(uintptr_t)map->at, map->bytes);
    *map = (file_map){0};
}

static void advise(const file_map *map, size_t offset, size_t bytes, int advice) {
    if (!map->bytes || offset >= map->bytes) return;
    if (bytes > map->bytes - offset) bytes = map->bytes - offset;
    const size_t page = 4096, from = offset & ~(page - 1);
    madvise((void *)(uintptr_t)(map->at + from), bytes + (offset - from), advice);
}

void file_map_will_need(const file_map *map, size_t offset, size_t bytes) { advise(map, offset, bytes, MADV_WILLNEED); }
void file_map_wont_need(const file_map *map, size_t offset, size_t bytes) { advise(map, offset, bytes, MADV_DONTNEED); }

/* Reads exactly `bytes`, less if the file shrank meanwhile; -1 on error. */
static ssize_t read_all(int fd, char *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n = read(fd, to + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Files under /proc and /sys give their size as 0: reads to the end, growing. */
static qp_status read_unsized(int fd, char **text, size_t *bytes, const char *path, size_t limit, qp_error *err) {
    size_t capacity = 4096;
    for (*text = NULL, *bytes = 0;; capacity *= 2) {
        char *more = mem_resize(*text, capacity + 1, 1);
        if (!more) return err_no_memory(err, capacity, path);
        *text = more;
        const ssize_t got = read_all(fd, *text + *bytes, capacity - *bytes);
        if (got < 0) return system_error(err, path, "read");
        *bytes += (size_t)got;
        if (*bytes > limit)
            return err_set(err, QP_TOO_LARGE, 0, "%s: over %zu bytes, no more are allowed", path, limit);
        if (*bytes < capacity) return QP_OK;
    }
}

static qp_status read_sized(int fd, size_t size, char **text, size_t *bytes, const char *path, qp_error *err) {
    *text = mem_array(size + 1, 1);
    if (!*text) return err_no_memory(err, size, path);
    const ssize_t got = read_all(fd, *text, size);
    if (got < 0) return system_error(err, path, "read");
    *bytes = (size_t)got;
    return QP_OK;
}

qp_status file_read(char **text, size_t *bytes, const char *path, size_t limit, qp_error *err) {
    int fd;
    size_t size = 0;
    *text = NULL;
    *bytes = 0;
    ERR_TRY(open_regular(&fd, &size, path, err));
    if (size > limit || size == SIZE_MAX) {
        close(fd);
        return err_set(err, QP_TOO_LARGE, 0, "%s: %zu bytes, at most %zu are allowed", path, size, limit);
    }
    const qp_status status =
        size ? read_sized(fd, size, text, bytes, path, err) : read_unsized(fd, text, bytes, path, limit, err);
    close(fd);
    if (status == QP_OK)
        (*text)[*bytes] = 0;
    else
        mem_free(*text), *text = NULL, *bytes = 0;
    return status;
}

qp_status file_write(const char *path, const void *bytes, size_t count, qp_error *err) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return system_error(err, path, "create");
    for (size_t done = 0; done < count;) {
        const ssize_t n = write(fd, (const char *)bytes + done, count - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            const qp_status status = system_error(err, path, "write");
            close(fd);
            return status;
        }
        done += (size_t)n;
    }
    return close(fd) == 0 ? QP_OK : system_error(err, path, "write");
}

bool file_exists(const char *path) { return access(path, F_OK) == 0; }

bool file_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool file_stamp(uint64_t *bytes, uint64_t *written, const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) return false;
    *bytes = (uint64_t)st.st_size;
    *written = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    return true;
}

qp_status file_real(char *out, size_t capacity, const char *path, qp_error *err) {
    char *real = realpath(path, NULL);
    if (!real) return system_error(err, path, "find");
    const bool fits = strlen(real) < capacity;
    if (fits) memcpy(out, real, strlen(real) + 1);
    free(real);
    return fits ? QP_OK : err_set(err, QP_TOO_LARGE, 0, "%s: its path is longer than %zu bytes", path, capacity - 1);
}

void file_remove(const char *path) { unlink(path); }

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* One block: the pointers, then the names they point to. */
static char **list_of(const strbuf *text, size_t count) {
    char **names = mem_array(count * sizeof(char *) + text->bytes + 1, 1);
    if (!names) return NULL;
    char *at = (char *)(names + count);
    if (text->bytes) memcpy(at, text->at, text->bytes);
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1) names[i] = at;
    if (count) qsort(names, count, sizeof *names, by_bytes);
    return names;
}

qp_status file_list(char ***names, size_t *count, const char *folder, size_t limit, qp_error *err) {
    *names = NULL;
    *count = 0;
    DIR *dir = opendir(folder);
    if (!dir) return system_error(err, folder, "list");
    strbuf text = {0};
    size_t n = 0;
    for (const struct dirent *entry; n <= limit && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        strbuf_add(&text, entry->d_name, strlen(entry->d_name) + 1);
        n++;
    }
    closedir(dir);
    qp_status status = QP_OK;
    if (n > limit)
        status = err_set(err, QP_TOO_LARGE, 0, "%s: more than %zu entries", folder, limit);
    else if (text.failed || !(*names = list_of(&text, n)))
        status = err_no_memory(err, text.bytes, folder);
    strbuf_free(&text);
    if (status == QP_OK) *count = n;
    return status;
}

qp_status file_join(char *out, size_t capacity, const char *folder, const char *name, qp_error *err) {
    const int bytes = snprintf(out, capacity, "%s/%s", folder, name);
    if (bytes >= 0 && (size_t)bytes < capacity) return QP_OK;
    return err_set(err, QP_TOO_LARGE, 0, "%s/%s: the path is longer than %zu bytes", folder, name, capacity - 1);
}

qp_status file_find(char *out, size_t capacity, const char *folder, const char *end, qp_error *err) {
    qp_status status = QP_OK;
    int n = 0;
    *out = 0;
    DIR *dir = opendir(folder);
    if (!dir) return system_error(err, folder, "open");
    for (const struct dirent *entry; status == QP_OK && (entry = readdir(dir));) {
        const size_t bytes = strlen(entry->d_name), want = strlen(end);
        if (bytes < want || strcmp(entry->d_name + bytes - want, end) != 0) continue;
        if (++n == 1) status = file_join(out, capacity, folder, entry->d_name, err);
    }
    closedir(dir);
    if (n != 1) *out = 0;
    return status;
}
