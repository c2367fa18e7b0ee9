/* dtype.h — the element types a tensor on disk can have: the list of the safetensors format, one row each.
 *
 * Everybody who meets a tensor of a checkpoint includes this. Two lists use the same rows: the enum here and the table
 * in dtype.c, so they cannot disagree. The tricky thing: three types are narrower than a byte, so sizes are counted in
 * bits and a tensor must fill whole bytes. */
#ifndef FORMAT_DTYPE_H
#define FORMAT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name as the header spells it, bits of one element) */
#define DTYPES(X)                                                                                                      \
    X(BOOL, 8)                                                                                                         \
    X(F4, 4)                                                                                                           \
    X(F6_E2M3, 6)                                                                                                      \
    X(F6_E3M2, 6)                                                                                                      \
    X(U8, 8)                                                                                                           \
    X(I8, 8)                                                                                                           \
    X(F8_E5M2, 8)                                                                                                      \
    X(F8_E4M3, 8)                                                                                                      \
    X(F8_E8M0, 8)                                                                                                      \
    X(F8_E4M3FNUZ, 8)                                                                                                  \
    X(F8_E5M2FNUZ, 8)                                                                                                  \
    X(I16, 16)                                                                                                         \
    X(U16, 16)                                                                                                         \
    X(F16, 16)                                                                                                         \
    X(BF16, 16)                                                                                                        \
    X(I32, 32)                                                                                                         \
    X(U32, 32)                                                                                                         \
    X(F32, 32)                                                                                                         \
    X(C64, 64)                                                                                                         \
    X(F64, 64)                                                                                                         \
    X(I64, 64)                                                                                                         \
    X(U64, 64)

typedef enum dtype {
#define X(name, bits) DTYPE_##name,
    DTYPES(X)
#undef X
        DTYPE_COUNT
} dtype;

/* "BF16", ...; "?" for a value that is none. */
const char *dtype_name(dtype type);
/* Bits of one element; 0 for a value that is none. */
int dtype_bits(dtype type);
/* Finds a type by its name of `bytes` characters; false if there is none. */
bool dtype_find(dtype *out, const char *name, size_t bytes);

#endif
