/* rx_chars.c — code points as UTF-8, many words as a trie, and bytes replaced by other texts.
 *
 * A class of characters becomes sequences of byte ranges, cut where the length changes and at the borders of 64; equal
 * tails share their lead bytes. Words are built from the sorted list backwards along the open path (Daciuk et al.
 * 2000), so common beginnings and common ends are shared. Nothing here recurses over input. */
#include "rx_node.h"
#include "base/mem.h"
#include <stdlib.h>
#include "base/utf8.h"

enum { LAST_CODE_POINT = 0x10FFFF };

/* ---- code points ---- */

static int by_first(const void *a, const void *b) {
    const rx_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Sorted, joined, within Unicode and without surrogates; `out` has room for 2 * n + 1. */
static size_t tidy(rx_range *out, const rx_range *ranges, size_t n) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t last = ranges[i].last < LAST_CODE_POINT ? ranges[i].last : LAST_CODE_POINT;
        if (ranges[i].first > last) continue;
        if (ranges[i].first < 0xD800) out[used++] = (rx_range){ranges[i].first, last < 0xD800 ? last : 0xD7FF};
        if (last > 0xDFFF) out[used++] = (rx_range){ranges[i].first > 0xDFFF ? ranges[i].first : 0xE000, last};
    }
    if (used > 1) qsort(out, used, sizeof *out, by_first);
    size_t kept = 0;
    for (size_t i = 0; i < used; i++) {
        if (kept && out[i].first <= out[kept - 1].last + 1) {
            if (out[i].last > out[kept - 1].last) out[kept - 1].last = out[i].last;
        } else {
            out[kept++] = out[i];
        }
    }
    return kept;
}

/* Tails of characters with the bytes that lead to them. */
typedef struct branches {
    rx tail[64];
    rx_set lead[64];
    int n;
} branches;

static void branch_add(branches *b, uint8_t byte, rx tail) {
    int i = 0;
    while (i < b->n && b->tail[i] != tail) i++;
    if (i == b->n) {
        b->tail[b->n] = tail;
        b->lead[b->n++] = (rx_set){{0}};
    }
    rx_set_add(&b->lead[i], byte);
}

static rx branch_join(rx_pool *p, const branches *b) {
    rx parts[64];
    for (int i = 0; i < b->n; i++) parts[i] = rx_concat(p, rx_bytes(p, &b->lead[i]), b->tail[i]);
    return rx_or_n(p, parts, (size_t)b->n);
}

/* The sorted ranges still to be read, and the nodes for "any k continuation bytes". */
typedef struct reader {
    rx_pool *pool;
    const rx_range *at, *end;
    uint32_t lowest; /* of this length: blocks begin below it, where shorter forms would be overlong */
    rx whole[4];
} reader;

static uint32_t higher(uint32_t a, uint32_t b) { return a > b ? a : b; }

static bool meets(reader *r, uint32_t first, uint32_t last) {
    while (r->at < r->end && r->at->last < higher(first, r->lowest)) r->at++;
    return r->at < r->end && higher(r->at->first, r->lowest) <= last;
}

/* The last `k` bytes of the characters base .. base + 64^k - 1 that are in the ranges. */
static rx tails(reader *r, uint32_t base, int k) {
    const uint32_t last = base + (1u << (6 * k)) - 1;
    if (!meets(r, base, last)) return RX_NONE;
    if (higher(r->at->first, r->lowest) <= base && r->at->last >= last) return r->whole[k];
    branches b = {.n = 0};
    const uint32_t unit = 1u << (6 * (k - 1));
    for (uint32_t digit = 0; digit < 64; digit++) {
        const rx tail = tails(r, base + digit * unit, k - 1);
        if (tail != RX_NONE) branch_add(&b, (uint8_t)(0x80 + digit), tail);
    }
    return branch_join(r->pool, &b);
}

static rx chars_of_length(reader *r, int length) {
    static const struct {
        uint32_t first, last;
        uint8_t lead;
    } kinds[5] = {{0}, {0, 0x7F, 0}, {0x80, 0x7FF, 0xC0}, {0x800, 0xFFFF, 0xE0}, {0x10000, LAST_CODE_POINT, 0xF0}};
    branches b = {.n = 0};
    rx_set ascii = {{0}};
    const int k = length - 1;
    const uint32_t unit = 1u << (6 * k);
    r->lowest = kinds[length].first;
    for (uint32_t c = r->lowest & ~(unit - 1); c <= kinds[length].last; c += unit) {
        if (!meets(r, c, kinds[length].last)) break;
        const rx tail = tails(r, c, k);
        if (tail == RX_NONE) continue;
        if (length == 1)
            rx_set_add(&ascii, (uint8_t)c);
        else
            branch_add(&b, (uint8_t)(kinds[length].lead + (c >> (6 * k))), tail);
    }
    return length == 1 ? rx_bytes(r->pool, &ascii) : branch_join(r->pool, &b);
}

static rx chars_of(rx_pool *p, const rx_range *clean, size_t n) {
    reader r = {.pool = p, .at = clean, .end = clean + n, .whole = {RX_EMPTY}};
    for (int k = 1; k < 4; k++) r.whole[k] = rx_concat(p, rx_byte_range(p, 0x80, 0xBF), r.whole[k - 1]);
    rx parts[4];
    for (int length = 1; length <= 4; length++) parts[length - 1] = chars_of_length(&r, length);
    return rx_or_n(p, parts, 4);
}

rx rx_chars(rx_pool *p, const rx_range *ranges, size_t n) {
    rx_range *clean = mem_array(2 * n + 1, sizeof *clean);
    if (!clean) return rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", n);
    const rx result = chars_of(p, clean, tidy(clean, ranges, n));
    mem_free(clean);
    return p->failed == QP_OK ? result : RX_NONE;
}

rx rx_chars_except(rx_pool *p, const rx_range *ranges, size_t n) {
    rx_range *clean = mem_array(4 * n + 4, sizeof *clean);
    if (!clean) return rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", n);
    const size_t n_clean = tidy(clean, ranges, n);
    rx_range *rest = clean + n_clean;
    size_t n_rest = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < n_clean; i++) {
        if (clean[i].first > next) rest[n_rest++] = (rx_range){next, clean[i].first - 1};
        next = clean[i].last + 1;
    }
    rest[n_rest++] = (rx_range){next, LAST_CODE_POINT};
    const rx result = rx_chars(p, rest, n_rest);
    mem_free(clean);
    return result;
}

rx rx_utf8(rx_pool *p) {
    if (p->utf8 == RX_NONE) p->utf8 = rx_star(p, rx_chars_except(p, NULL, 0));
    return p->utf8;
}

/* ---- words ---- */

typedef struct edge {
    uint32_t depth; /* bytes before it */
    uint8_t byte;
    bool is_end; /* a word ends at this depth (byte is unused) */
    rx tail;
} edge;

/* What is open on the way to the current word; edges of a depth lie behind those of smaller depths. */
typedef struct path {
    rx_pool *pool;
    edge *at;
    size_t n, room;
} path;

static bool path_add(path *w, edge e) {
    if (w->n == w->room) {
        const size_t room = w->room ? w->room * 2 : 64;
        edge *more = mem_resize(w->at, room, sizeof *more);
        if (!more) return rx_fail(w->pool, QP_NO_MEMORY, "regular expressions: out of memory", room), false;
        w->at = more;
        w->room = room;
    }
    w->at[w->n++] = e;
    return true;
}

static int by_tail(const void *a, const void *b) {
    const edge *x = a, *y = b;
    return x->is_end != y->is_end ? x->is_end - y->is_end : (x->tail > y->tail) - (x->tail < y->tail);
}

/* Joins all edges of this depth, which are the last ones, to what may follow there. */
static rx path_close(path *w, uint32_t depth) {
    size_t start = w->n;
    while (start > 0 && w->at[start - 1].depth == depth) start--;
    edge *edges = w->at + start;
    const size_t n = w->n - start;
    if (n > 1) qsort(edges, n, sizeof *edges, by_tail);
    rx parts[257];
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        rx_set lead = {{0}};
        const edge first = edges[i];
        if (first.is_end) {
            parts[used++] = RX_EMPTY;
            break;
        }
        for (; i < n && !edges[i].is_end && edges[i].tail == first.tail; i++) rx_set_add(&lead, edges[i].byte);
        parts[used++] = rx_concat(w->pool, rx_bytes(w->pool, &lead), first.tail);
    }
    w->n = start;
    return rx_or_n(w->pool, parts, used);
}

static int by_bytes(const void *a, const void *b) {
    const span *x = a, *y = b;
    const size_t common = x->bytes < y->bytes ? x->bytes : y->bytes;
    const int order = common ? memcmp(x->at, y->at, common) : 0;
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static size_t common_bytes(span a, span b) {
    size_t n = 0;
    while (n < a.bytes && n < b.bytes && a.at[n] == b.at[n]) n++;
    return n;
}

/* Closes everything below `keep` bytes of `word`; the last closed part becomes an edge of that depth. */
static bool unwind(path *w, span word, size_t keep) {
    for (size_t depth = word.bytes; depth > keep; depth--) {
        const rx tail = path_close(w, (uint32_t)depth);
        if (!path_add(w, (edge){(uint32_t)depth - 1, (uint8_t)word.at[depth - 1], false, tail})) return false;
    }
    return true;
}

static rx words_of(path *w, const span *sorted, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!path_add(w, (edge){(uint32_t)sorted[i].bytes, 0, true, RX_EMPTY})) return RX_NONE;
        size_t next = i + 1; /* words that come twice */
        while (next < n && span_equal(sorted[i], sorted[next])) next++;
        if (!unwind(w, sorted[i], next < n ? common_bytes(sorted[i], sorted[next]) : 0)) return RX_NONE;
        i = next - 1;
    }
    return path_close(w, 0);
}

rx rx_words(rx_pool *p, const span *words, size_t n) {
    if (n == 0) return RX_NONE;
    for (size_t i = 0; i < n; i++)
        if (words[i].bytes > UINT32_MAX / 2)
            return rx_fail(p, QP_TOO_LARGE, "regular expressions: bytes of a word", UINT32_MAX / 2);
    span *sorted = mem_copy(words, n, sizeof *sorted);
    if (!sorted) return rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", n);
    qsort(sorted, n, sizeof *sorted, by_bytes);
    path w = {.pool = p};
    const rx result = words_of(&w, sorted, n);
    mem_free(w.at);
    mem_free(sorted);
    return p->failed == QP_OK ? result : RX_NONE;
}
