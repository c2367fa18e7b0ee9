/* nform.c — the four Unicode normal forms.
 *
 * Characters that no form touches are copied in runs. Between them lie short regions that are decomposed, put into
 * canonical order and, for the C forms, composed again. Order is restored by counting, not by exchange: a megabyte of
 * combining marks is one region. */
#include "nform.h"
#include "base/mem.h"
#include "uni.h"

/* A decomposed region: characters with their combining class in the upper byte. */
typedef struct region {
    uint32_t *at;
    size_t n, capacity;
    bool failed;
} region;

#define CHARACTER(x) ((x)&0xFFFFFFu)
#define CLASS(x) ((x) >> 24)

static uint64_t safe_mask(nform form) { return form == NFORM_C ? UNI_NFC_SAFE : UNI_NF_SAFE; }

/* The first character from `at` on that the form may touch. */
static size_t first_unsafe(span text, size_t at, uint64_t mask) {
    while (at < text.bytes) {
        if ((unsigned char)text.at[at] < 0x80) {
            at++;
            continue;
        }
        uint32_t c;
        const int length = uni_next(text.at + at, &c);
        if (!uni_is(c, mask)) break;
        at += (size_t)length;
    }
    return at;
}

static size_t first_safe(span text, size_t at, uint64_t mask) {
    while (at < text.bytes) {
        uint32_t c;
        const int length = uni_next(text.at + at, &c);
        if (uni_is(c, mask)) break;
        at += (size_t)length;
    }
    return at;
}

bool nform_is_clean(nform form, span text) { return first_unsafe(text, 0, safe_mask(form)) == text.bytes; }

static void add(region *r, uint32_t c) {
    if (r->n == r->capacity) {
        const size_t capacity = r->capacity ? r->capacity * 2 : 64;
        uint32_t *at = mem_resize(r->at, capacity, sizeof *at);
        if (!at) {
            r->failed = true;
            return;
        }
        r->at = at;
        r->capacity = capacity;
    }
    r->at[r->n++] = c | (uint32_t)uni_class_of(c) << 24;
}

static void decompose(region *r, span text, bool compatible) {
    uint32_t c, parts[18];
    for (size_t i = 0; i < text.bytes && !r->failed;) {
        i += (size_t)uni_next(text.at + i, &c);
        const int n = uni_decompose(c, compatible, parts);
        for (int k = 0; k < n; k++) add(r, parts[k]);
    }
}

/* Stable order by class of n characters, none of class 0. */
static bool sort_by_class(uint32_t *at, size_t n) {
    size_t starts[257] = {0};
    uint32_t *copy = mem_copy(at, n, sizeof *at);
    if (!copy) return false;
    for (size_t i = 0; i < n; i++) starts[CLASS(copy[i]) + 1]++;
    for (int k = 1; k < 257; k++) starts[k] += starts[k - 1];
    for (size_t i = 0; i < n; i++) at[starts[CLASS(copy[i])]++] = copy[i];
    mem_free(copy);
    return true;
}

static void order(region *r) {
    for (size_t i = 0, end; i < r->n && !r->failed; i = end + 1) {
        bool is_sorted = true;
        for (end = i; end < r->n && CLASS(r->at[end]); end++)
            if (end > i && CLASS(r->at[end]) < CLASS(r->at[end - 1])) is_sorted = false;
        if (!is_sorted && !sort_by_class(r->at + i, end - i)) r->failed = true;
    }
}

/* Joins each starter with the marks behind it that nothing of the same or a higher class keeps away from it. */
static void compose(region *r) {
    size_t starter = SIZE_MAX, n = 0;
    int last_class = -1;
    for (size_t i = 0; i < r->n; i++) {
        const uint32_t c = CHARACTER(r->at[i]);
        const int class_of = (int)CLASS(r->at[i]);
        const bool is_open = starter != SIZE_MAX && last_class < class_of;
        const uint32_t joined = is_open ? uni_composed(CHARACTER(r->at[starter]), c) : 0;
        if (joined) {
            r->at[starter] = joined;
            continue;
        }
        if (class_of == 0)
            starter = n, last_class = -1;
        else
            last_class = class_of;
        r->at[n++] = r->at[i];
    }
    r->n = n;
}

static void put_region(region *r, nform form, span text, strbuf *out) {
    r->n = 0;
    decompose(r, text, form == NFORM_KC || form == NFORM_KD);
    order(r);
    if (form == NFORM_C || form == NFORM_KC) compose(r);
    for (size_t i = 0; i < r->n; i++) strbuf_utf8(out, CHARACTER(r->at[i]));
}

void nform_apply(nform form, span text, strbuf *out) {
    const uint64_t mask = safe_mask(form);
    region r = {0};
    for (size_t at = 0; at < text.bytes && !r.failed;) {
        const size_t unsafe = first_unsafe(text, at, mask), end = first_safe(text, unsafe, mask);
        size_t start = unsafe; /* the character before may be composed with what follows */
        if (unsafe > at && unsafe < text.bytes) {
            uint32_t c;
            start -= (size_t)uni_last(text.at + at, unsafe - at, &c);
        }
        strbuf_add(out, text.at + at, start - at);
        put_region(&r, form, (span){text.at + start, end - start}, out);
        at = end;
    }
    if (r.failed) out->failed = true;
    mem_free(r.at);
}
