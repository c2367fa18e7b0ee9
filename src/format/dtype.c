/* dtype.c — names and widths of the element types, both ways. */
#include "dtype.h"
#include <string.h>

static const struct {
    const char *name;
    int bits;
} rows[DTYPE_COUNT] = {
#define X(name, bits) {#name, bits},
    DTYPES(X)
#undef X
};

const char *dtype_name(dtype type) { return (unsigned)type < DTYPE_COUNT ? rows[type].name : "?"; }
int dtype_bits(dtype type) { return (unsigned)type < DTYPE_COUNT ? rows[type].bits : 0; }

bool dtype_find(dtype *out, const char *name, size_t bytes) {
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strlen(rows[i].name) == bytes && !memcmp(rows[i].name, name, bytes)) return *out = (dtype)i, true;
    return false;
}
