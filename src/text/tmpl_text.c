/* tmpl_text.c — the strings of templates: UTF-8 with code points counted when somebody asks.
 *
 * The tricky thing is a text that grows by pieces (`ns.text = ns.text ~ piece`): a joined string gets room behind it,
 * and joining on to the string that ends where the room is used up writes there and copies nothing. */
#include "tmpl_text.h"
#include "base/hash.h"

enum { FIRST_REACH = 64 }; /* bytes that tmpl_rfind looks at first */

vstr *tmpl_text_new(arena *memory, span text) {
    vstr *s = arena_get(memory, 1, sizeof *s);
    if (s) *s = (vstr){.at = text.at, .bytes = text.bytes, .points = UNKNOWN};
    return s;
}

vstr *tmpl_text_copy(arena *memory, span text) {
    char *at = arena_get(memory, text.bytes, 1);
    if (!at) return NULL;
    if (text.bytes) memcpy(at, text.at, text.bytes);
    return tmpl_text_new(memory, (span){at, text.bytes});
}

vstr *tmpl_text_shared(arena *memory, span text) {
    vstr *s = tmpl_text_new(memory, text);
    if (!s) return NULL;
    tmpl_text_hash(s);
    s->points = tmpl_points_in(text);
    s->is_shared = true;
    return s;
}

vstr *tmpl_text_join(arena *memory, const vstr *a, span b) {
    size_t bytes, capacity;
    if (!mem_add(a->bytes, b.bytes, &bytes) || !mem_mul(bytes, 2, &capacity)) return NULL;
    vstr *s = arena_get(memory, 1, sizeof *s);
    if (!s) return NULL;
    if (a->room && a->room->used == a->bytes && a->room->capacity >= bytes) {
        *s = *a;
    } else {
        capacity = capacity < 64 ? 64 : capacity;
        char *at = arena_get(memory, capacity, 1);
        vroom *room = arena_get(memory, 1, sizeof *room);
        if (!at || !room) return NULL;
        if (a->bytes) memcpy(at, a->at, a->bytes);
        *room = (vroom){.used = a->bytes, .capacity = capacity};
        *s = (vstr){.at = at, .bytes = a->bytes, .points = a->points, .room = room};
    }
    if (b.bytes) memcpy((char *)(uintptr_t)s->at + s->bytes, b.at, b.bytes);
    s->bytes = s->room->used = bytes;
    if (s->points != UNKNOWN) s->points += tmpl_points_in(b);
    s->hash = 0;
    return s;
}

int tmpl_text_compare(const vstr *a, const vstr *b) {
    const size_t bytes = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = bytes ? memcmp(a->at, b->at, bytes) : 0;
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

uint64_t tmpl_text_hash(vstr *s) {
    if (s->hash) return s->hash;
    const uint64_t hash = hash_bytes(s->at, s->bytes, 0);
    return s->hash = hash ? hash : 1;
}

size_t tmpl_points_in(span text) {
    size_t points = 0;
    for (size_t i = 0; i < text.bytes; i++) points += ((unsigned char)text.at[i] & 0xc0) != 0x80;
    return points;
}

size_t tmpl_text_points(vstr *s) {
    if (s->points == UNKNOWN) s->points = tmpl_points_in((span){s->at, s->bytes});
    return s->points;
}

static bool continues(const vstr *s, size_t byte) {
    return byte < s->bytes && ((unsigned char)s->at[byte] & 0xc0) == 0x80;
}

size_t tmpl_text_offset(vstr *s, size_t point, size_t *walked) {
    const size_t points = tmpl_text_points(s);
    if (points == s->bytes) return point;
    size_t at = 0, byte = 0;
    if (!s->is_shared && s->cursor_byte) at = s->cursor_point, byte = s->cursor_byte;
    if (point < at / 2) at = 0, byte = 0;
    if (points - point < (point > at ? point - at : at - point)) at = points, byte = s->bytes;
    *walked += point > at ? point - at : at - point;
    for (; at < point; at++)
        for (byte++; continues(s, byte);) byte++;
    for (; at > point; at--)
        for (byte--; continues(s, byte);) byte--;
    if (!s->is_shared) s->cursor_point = point, s->cursor_byte = byte;
    return byte;
}

size_t tmpl_text_point_at(vstr *s, size_t offset) {
    return tmpl_text_points(s) == s->bytes ? offset : tmpl_points_in((span){s->at, offset});
}

size_t tmpl_find(span s, span part, size_t from) {
    if (from > s.bytes || part.bytes > s.bytes - from) return UNKNOWN;
    if (!part.bytes) return from;
    const char *at = memmem(s.at + from, s.bytes - from, part.at, part.bytes);
    return at ? (size_t)(at - s.at) : UNKNOWN;
}

size_t tmpl_rfind(span s, span part) {
    if (part.bytes > s.bytes) return UNKNOWN;
    if (!part.bytes) return s.bytes;
    /* memmem is linear and there is no memrmem: it looks at twice as much of the end until it finds something there,
     * and then between that and the end by halves */
    size_t reach = part.bytes + FIRST_REACH, low = UNKNOWN, high = s.bytes - part.bytes;
    for (; low == UNKNOWN; reach = reach < s.bytes / 2 ? 2 * reach : s.bytes) {
        low = tmpl_find(s, part, s.bytes > reach ? s.bytes - reach : 0);
        if (low == UNKNOWN && reach >= s.bytes) return UNKNOWN;
    }
    while (low < high) {
        const size_t middle = high - (high - low) / 2;
        const size_t at = tmpl_find((span){s.at, high + part.bytes}, part, middle);
        if (at == UNKNOWN)
            high = middle - 1;
        else
            low = at;
    }
    return low;
}
