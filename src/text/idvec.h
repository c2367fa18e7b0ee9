/* idvec.h — a growing array of ids. */
#ifndef TEXT_IDVEC_H
#define TEXT_IDVEC_H

#include "base/mem.h"
#include <string.h>

/* Zero-initialised is empty and ready; `failed` stays true after memory ran short. */
typedef struct idvec {
    int32_t *at;
    size_t n, capacity;
    bool failed;
} idvec;

static inline bool idvec_room(idvec *v, size_t more) {
    if (v->capacity - v->n >= more) return true;
    size_t capacity = v->capacity ? v->capacity : 32;
    while (capacity - v->n < more && capacity <= SIZE_MAX / 2) capacity *= 2;
    int32_t *at = v->failed ? NULL : mem_resize(v->at, capacity, sizeof *at);
    if (!at) return v->failed = true, false;
    v->at = at;
    v->capacity = capacity;
    return true;
}
static inline void idvec_add(idvec *v, int32_t id) {
    if (idvec_room(v, 1)) v->at[v->n++] = id;
}
static inline void idvec_add_all(idvec *v, const int32_t *ids, size_t n) {
    if (!n || !idvec_room(v, n)) return;
    memcpy(v->at + v->n, ids, n * sizeof *ids);
    v->n += n;
}
static inline void idvec_free(idvec *v) {
    mem_free(v->at);
    *v = (idvec){0};
}

#endif
