/* file.h — files: mapped for reading, read whole, asked about. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "err.h"

/* A read-only view of a whole file. An empty file maps to at = "" and bytes = 0. */
typedef struct file_map {
    const uint8_t *at;
    size_t bytes;
} file_map;

/* Refuses anything that is not a regular file, by name. */
qp_status file_map_open(file_map *out, const char *path, qp_error *err);
void file_map_close(file_map *map);
/* Tells the system that this part will be read soon / is not needed soon. Advice only. */
void file_map_will_need(const file_map *map, size_t offset, size_t bytes);
void file_map_wont_need(const file_map *map, size_t offset, size_t bytes);

/* The whole file with a zero byte behind it (not counted), mem_free()d by the caller; over `limit` bytes is refused. */
qp_status file_read(char **text, size_t *bytes, const char *path, size_t limit, qp_error *err);
qp_status file_write(const char *path, const void *bytes, size_t count, qp_error *err);
bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* What changes when a file does: its size, and when it was written (ns). False: not there. */
bool file_stamp(uint64_t *bytes, uint64_t *written, const char *path);
/* The path without links and dots. */
qp_status file_real(char *out, size_t capacity, const char *path, qp_error *err);
void file_remove(const char *path); /* if it is there */
/* Names of a folder's entries without "." and "..", sorted by their bytes: one block that mem_free() frees. More than
 * `limit` is refused. */
qp_status file_list(char ***names, size_t *count, const char *folder, size_t limit, qp_error *err);
/* The path of the only file in the folder whose name ends so; out is "" if there is none or more than one. */
qp_status file_find(char *out, size_t capacity, const char *folder, const char *end, qp_error *err);
/* folder + "/" + name into out; QP_TOO_LARGE if it does not fit. */
qp_status file_join(char *out, size_t capacity, const char *folder, const char *name, qp_error *err);

#endif
