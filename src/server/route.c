/* route.c — finds the row of route_table.c for a method and a path. */
#include "route.h"
#include <stdio.h>
#include <string.h>

static const char *const method_names[] = {"GET", "POST", "DELETE", "OPTIONS"};

/* Does `path` (of `bytes`) match `pattern`? `{id}` at its end takes what is left, slashes included. */
static bool matches(const char *pattern, const char *path, size_t bytes, const char **parameter) {
    const char *hole = strchr(pattern, '{');
    if (!hole) return strlen(pattern) == bytes && !memcmp(pattern, path, bytes);
    const size_t head = (size_t)(hole - pattern);
    if (bytes <= head || memcmp(pattern, path, head)) return false;
    *parameter = path + head;
    return true;
}

static bool row_matches(const route_row *row, const char *path, size_t bytes, const char **parameter) {
    if (matches(row->path, path, bytes, parameter)) return true;
    const bool has_alias = !(row->flags & ROUTE_NO_ALIAS) && !strncmp(row->path, "/v1/", 4);
    return has_alias && matches(row->path + 3, path, bytes, parameter);
}

const route_row *route_find(http_method method, const char *path, const char **parameter, unsigned *allowed) {
    size_t bytes = strlen(path);
    if (bytes > 1 && path[bytes - 1] == '/') bytes--;
    *parameter = NULL;
    *allowed = 0;
    for (int with_parameter = 0; with_parameter < 2; with_parameter++)
        for (const route_row *row = route_rows; row < route_rows + route_count; row++) {
            if ((strchr(row->path, '{') != NULL) != with_parameter || !row_matches(row, path, bytes, parameter))
                continue;
            if (row->method == method) return row;
            *allowed |= 1u << row->method;
        }
    *parameter = NULL;
    return NULL;
}

void route_methods(char *out, size_t capacity, unsigned allowed) {
    *out = 0;
    for (unsigned i = 0; i < sizeof method_names / sizeof *method_names; i++)
        if (allowed >> i & 1)
            snprintf(out + strlen(out), capacity - strlen(out), "%s%s", *out ? ", " : "", method_names[i]);
}
