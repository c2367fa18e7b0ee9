/* mem.h — the one door to the heap, arenas on top of it, and big page-aligned blocks beside it.
 *
 * All of quipu allocates through here, so that a test can let the n-th allocation fail (mem_fail_after). Sizes are
 * multiplied by the functions, with the overflow check inside. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when memory is short or count * size overflows; contents undefined. */
void *mem_array(size_t count, size_t size);
/* The same, filled with zeros. */
void *mem_zarray(size_t count, size_t size);
/* Keeps `old` alive and returns NULL on failure, as realloc does. */
void *mem_resize(void *old, size_t count, size_t size);
void mem_free(void *memory);
#define MEM_NEW(type) ((type *)mem_zarray(1, sizeof(type)))

char *mem_copy_text(const char *text, size_t bytes); /* adds a zero byte; NULL when memory is short */
void *mem_copy(const void *from, size_t count, size_t size);

/* Aligned to 64 bytes, zero-filled; on huge pages where the system grants them and the block is large.
 * Freed by mem_big_free with the same size. */
void *mem_big(size_t bytes);
void mem_big_free(void *memory, size_t bytes);

/* a * b, a + b into *out; false on overflow. */
bool mem_mul(size_t a, size_t b, size_t *out);
bool mem_add(size_t a, size_t b, size_t *out);

/* Test hook: after `n` more successful allocations of this thread, each fails; -1 switches it off. */
void mem_fail_after(int64_t n);
/* Allocations of this thread since mem_fail_after was last called. */
int64_t mem_count(void);

/* A growing pile of memory that is freed as a whole. Zero-initialised is empty and ready. */
typedef struct arena_block arena_block;
typedef struct arena {
    arena_block *blocks; /* newest first */
    size_t block_bytes;  /* size of the next block at least; 0: 16 KiB */
    size_t total_bytes;  /* taken from the heap */
    size_t limit_bytes;  /* 0: none; beyond it arena_get answers NULL */
    bool over_limit;     /* that has happened */
} arena;

/* Aligned to 16 bytes, contents undefined. NULL when memory is short, over the limit or the product overflows. */
void *arena_get(arena *a, size_t count, size_t size);
void *arena_zget(arena *a, size_t count, size_t size);
char *arena_text(arena *a, const char *text, size_t bytes); /* adds a zero byte */
/* Forgets all but keeps the largest block for reuse. */
void arena_reset(arena *a);
void arena_free(arena *a);

#endif
