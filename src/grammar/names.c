/* names.c — a hash table of names, and offsets told as line and column. */
#include "names.h"
#include "base/hash.h"
#include "base/mem.h"
#include <stdio.h>

static size_t place_of(const names *t, span name) {
    size_t at = hash_bytes(name.at, name.bytes, 0) & (t->table_room - 1);
    while (t->table[at] && !span_equal(t->at[t->table[at] - 1].name, name)) at = (at + 1) & (t->table_room - 1);
    return at;
}

name_entry *names_find(const names *t, span name) {
    if (!t->table_room) return NULL;
    const uint32_t found = t->table[place_of(t, name)];
    return found ? &t->at[found - 1] : NULL;
}

static bool widen(names *t) {
    if ((t->n + 1) * 2 < t->table_room) return true;
    const size_t room = t->table_room ? t->table_room * 2 : 64;
    uint32_t *table = mem_zarray(room, sizeof *table);
    name_entry *at = table ? mem_resize(t->at, room, sizeof *at) : NULL;
    if (!at) return mem_free(table), false;
    mem_free(t->table);
    *t = (names){at, table, t->n, room, room};
    for (size_t i = 0; i < t->n; i++) t->table[place_of(t, t->at[i].name)] = (uint32_t)i + 1;
    return true;
}

name_entry *names_get(names *t, span name, bool *is_new) {
    if (!widen(t)) return NULL;
    const size_t at = place_of(t, name);
    *is_new = !t->table[at];
    if (*is_new) {
        t->at[t->n] = (name_entry){.name = name};
        t->table[at] = (uint32_t)++t->n;
    }
    return &t->at[t->table[at] - 1];
}

void names_free(names *t) {
    mem_free(t->at);
    mem_free(t->table);
    *t = (names){.at = NULL};
}

char *names_place(char out[48], span source, size_t offset) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < offset && i < source.bytes; i++) {
        const bool ends = source.at[i] == '\n';
        line += ends;
        column = ends ? 1 : column + ((source.at[i] & 0xC0) != 0x80);
    }
    snprintf(out, 48, "line %zu, column %zu", line, column);
    return out;
}
