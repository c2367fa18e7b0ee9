/* mem.c — the one door to the heap, with a fault to inject; arenas; big blocks on huge pages. */
#include "mem.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Thread_local int64_t fail_after = -1, n_allocations;

void mem_fail_after(int64_t n) {
    fail_after = n;
    n_allocations = 0;
}
int64_t mem_count(void) { return n_allocations; }

static bool may_allocate(void) {
    if (fail_after >= 0 && n_allocations >= fail_after) return false;
    n_allocations++;
    return true;
}

bool mem_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
bool mem_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

void *mem_array(size_t count, size_t size) {
    size_t bytes;
    if (!mem_mul(count, size, &bytes) || bytes > PTRDIFF_MAX || !may_allocate()) return NULL;
    return malloc(bytes ? bytes : 1);
}

void *mem_zarray(size_t count, size_t size) {
    size_t bytes;
    if (!mem_mul(count, size, &bytes) || bytes > PTRDIFF_MAX || !may_allocate()) return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

void *mem_resize(void *old, size_t count, size_t size) {
    size_t bytes;
    if (!mem_mul(count, size, &bytes) || bytes > PTRDIFF_MAX || !may_allocate()) return NULL;
    return realloc(old, bytes ? bytes : 1);
}

void mem_free(void *memory) { free(memory); }

void *mem_copy(const void *from, size_t count, size_t size) {
    void *to = mem_array(count, size);
    if (to && count && size) memcpy(to, from, count * size);
    return to;
}

char *mem_copy_text(const char *text, size_t bytes) {
    if (bytes == SIZE_MAX) return NULL;
    char *to = mem_array(bytes + 1, 1);
    if (!to) return NULL;
    if (bytes) memcpy(to, text, bytes);
    to[bytes] = 0;
    return to;
}

/* ---- big blocks: whole mappings, so that freeing gives the memory back to the system at once ---- */

enum { HUGE_PAGE = 2 << 20, SMALL_PAGE = 4096 };

static bool big_rounded(size_t bytes, size_t *rounded) {
    if (!mem_add(bytes ? bytes : 1, SMALL_PAGE - 1, rounded)) return false;
    *rounded &= ~(size_t)(SMALL_PAGE - 1);
    return true;
}

/* Maps `bytes` at an address aligned to `align`: maps more and gives the ends back. */
static void *map_aligned(size_t bytes, size_t align) {
    size_t wide;
    if (!mem_add(bytes, align, &wide)) return NULL;
    uint8_t *at = mmap(NULL, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
    uint8_t *aligned = (uint8_t *)(((uintptr_t)at + align - 1) & ~(uintptr_t)(align - 1));
    if (aligned > at) munmap(at, (size_t)(aligned - at));
    if (wide > (size_t)(aligned - at) + bytes) munmap(aligned + bytes, wide - (size_t)(aligned - at) - bytes);
    return aligned;
}

void *mem_big(size_t bytes) {
    size_t rounded;
    if (!big_rounded(bytes, &rounded) || !may_allocate()) return NULL;
    const bool is_large = rounded >= HUGE_PAGE;
    void *at = map_aligned(rounded, is_large ? HUGE_PAGE : SMALL_PAGE);
    if (at && is_large) madvise(at, rounded, MADV_HUGEPAGE);
    return at;
}

void mem_big_free(void *memory, size_t bytes) {
    size_t rounded;
    if (memory && big_rounded(bytes, &rounded)) munmap(memory, rounded);
}

/* ---- arenas ---- */

struct arena_block {
    arena_block *next;
    size_t used, capacity;
    _Alignas(16) uint8_t bytes[];
};

static arena_block *arena_grow(arena *a, size_t at_least) {
    size_t capacity = a->block_bytes ? a->block_bytes : 16384, bytes;
    if (capacity < at_least) capacity = at_least;
    if (!mem_add(capacity, sizeof(arena_block), &bytes)) return NULL;
    a->over_limit = a->limit_bytes && (bytes > a->limit_bytes || a->total_bytes > a->limit_bytes - bytes);
    if (a->over_limit) return NULL;
    arena_block *block = mem_array(bytes, 1);
    if (!block) return NULL;
    *block = (arena_block){.next = a->blocks, .capacity = capacity};
    a->blocks = block;
    a->total_bytes += bytes;
    return block;
}

void *arena_get(arena *a, size_t count, size_t size) {
    size_t bytes;
    if (!mem_mul(count, size, &bytes) || !mem_add(bytes, 15, &bytes)) return NULL;
    bytes &= ~(size_t)15;
    arena_block *block = a->blocks;
    if (!block || block->capacity - block->used < bytes) block = arena_grow(a, bytes);
    if (!block) return NULL;
    void *at = block->bytes + block->used;
    block->used += bytes;
    return at;
}

void *arena_zget(arena *a, size_t count, size_t size) {
    void *at = arena_get(a, count, size);
    if (at && count && size) memset(at, 0, count * size);
    return at;
}

char *arena_text(arena *a, const char *text, size_t bytes) {
    if (bytes == SIZE_MAX) return NULL;
    char *at = arena_get(a, bytes + 1, 1);
    if (!at) return NULL;
    if (bytes) memcpy(at, text, bytes);
    at[bytes] = 0;
    return at;
}

void arena_reset(arena *a) {
    arena_block *largest = NULL;
    for (arena_block *b = a->blocks; b; b = b->next)
        if (!largest || b->capacity > largest->capacity) largest = b;
    for (arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        if (b == largest) continue;
        a->total_bytes -= sizeof(arena_block) + b->capacity;
        mem_free(b);
    }
    a->blocks = largest;
    if (largest) largest->next = NULL, largest->used = 0;
}

void arena_free(arena *a) {
    for (arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    a->blocks = NULL;
    a->total_bytes = 0;
}
