/* prefix_file.c — saving and loading the beginning of a prompt.
 *
 * Called by gen/ on the engine thread. A file is a header, the ids, the pages as store_save gives them, and a checksum
 * over all that; numbers are little-endian. Nothing of a file is offered before all of it has been checked. The
 * checksum is chained over the pieces, so that neither side needs them in one block. */
#include "prefix_file.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/outfile.h"
#include <stddef.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "prefix files are written as they lie in memory, which must be little-endian"
#endif

enum { VERSION = 1 };
static const char magic[8] = "QPPREFIX";

typedef struct header {
    char magic[8];
    uint32_t version, layout;
    uint64_t root;
    uint32_t kv_type, n_layers, n_kv_heads, head_dim, page_tokens, zero;
    uint64_t n_tokens, page_bytes;
} header;
_Static_assert(sizeof(header) == 64, "the header has no gaps");

static header make_header(const prefix_cache *cache, uint64_t n_tokens) {
    const store_shape *s = &cache->store->shape;
    header h = {.version = VERSION,
                .layout = STORE_LAYOUT,
                .root = cache->root,
                .kv_type = (uint32_t)s->type,
                .n_layers = (uint32_t)s->n_layers,
                .n_kv_heads = (uint32_t)s->n_kv_heads,
                .head_dim = (uint32_t)s->head_dim,
                .page_tokens = DEV_PAGE_TOKENS,
                .n_tokens = n_tokens};
    memcpy(h.magic, magic, sizeof magic);
    size_t page_bytes = 0;
    store_page_bytes(s, &page_bytes);
    h.page_bytes = page_bytes;
    return h;
}

/* ---- saving ---- */

typedef struct writer {
    outfile *file;
    uint64_t sum;
} writer;

static void add(writer *w, const void *bytes, size_t count) {
    outfile_add(w->file, bytes, count);
    w->sum = hash_bytes(bytes, count, w->sum);
}

static qp_status write_file(const prefix_cache *cache, const char *path, const int32_t *ids, const chain *c,
                            void *scratch, qp_error *err) {
    const header h = make_header(cache, (uint64_t)c->length);
    writer w = {0};
    ERR_TRY(outfile_open(&w.file, path, err));
    add(&w, &h, sizeof h);
    add(&w, ids, (size_t)c->length * sizeof *ids);
    for (int i = 0; i < c->n_pages; i++) {
        store_save(cache->store, c->pages[i], scratch);
        add(&w, scratch, h.page_bytes);
    }
    outfile_add(w.file, &w.sum, sizeof w.sum);
    return outfile_commit(w.file, err);
}

qp_status prefix_save(const prefix_cache *cache, const char *path, const int32_t *ids, size_t n, size_t *n_saved,
                      qp_error *err) {
    const size_t page_bytes = make_header(cache, 0).page_bytes;
    void *scratch = mem_array(page_bytes, 1);
    if (n_saved) *n_saved = 0;
    if (!scratch) return err_no_memory(err, page_bytes, "saving a prefix");
    chain c;
    chain_open(&c, cache->table, cache->root);
    chain_reuse_whole(&c, ids, (int64_t)n);
    const qp_status status =
        c.length ? write_file(cache, path, ids, &c, scratch, err)
                 : err_set(err, QP_BAD_ARGUMENT, 0,
                           "%s: nothing to save: the cache does not hold the first %d of these %zu tokens, and saves "
                           "whole pages",
                           path, DEV_PAGE_TOKENS, n);
    if (status == QP_OK && n_saved) *n_saved = (size_t)c.length;
    chain_close(&c);
    mem_free(scratch);
    return status;
}

/* ---- loading ---- */

/* What must be equal in the file and in the cache it is loaded into. */
typedef struct field {
    const char *name;
    size_t offset, bytes;
} field;

#define FIELD(member, text)                                                                                            \
    { text, offsetof(header, member), sizeof((header *)0)->member }
static const field fields[] = {
    FIELD(version, "format version"),       FIELD(layout, "page layout"),
    FIELD(n_layers, "number of layers"),    FIELD(n_kv_heads, "number of key heads"),
    FIELD(head_dim, "head size"),           FIELD(kv_type, "cache type (0: fp16, 1: fp32, 2: q8, 3: q6, 4: q4)"),
    FIELD(page_tokens, "tokens of a page"), FIELD(page_bytes, "bytes of a page"),
    FIELD(root, "identity of the model"),   FIELD(zero, "reserved field"),
};

static uint64_t value_of(const header *h, const field *f) {
    uint64_t value = 0;
    memcpy(&value, (const uint8_t *)h + f->offset, f->bytes);
    return value;
}

static qp_status check_header(const header *h, const prefix_cache *cache, const char *path, qp_error *err) {
    const header want = make_header(cache, 0);
    if (memcmp(h->magic, magic, sizeof magic))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: not a prefix file: it does not begin with %.8s", path, magic);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const uint64_t found = value_of(h, &fields[i]), allowed = value_of(&want, &fields[i]);
        if (found != allowed)
            return err_set(err, QP_UNSUPPORTED, fields[i].offset,
                           "%s: written for another model or cache: %s is %llu, this cache has %llu", path,
                           fields[i].name, (unsigned long long)found, (unsigned long long)allowed);
    }
    return QP_OK;
}

static qp_status check_size(const header *h, size_t bytes, const char *path, qp_error *err) {
    const uint64_t pages = h->n_tokens / DEV_PAGE_TOKENS, rest = bytes - sizeof *h;
    const uint64_t each = h->page_bytes + DEV_PAGE_TOKENS * sizeof(int32_t);
    if (!pages || h->n_tokens % DEV_PAGE_TOKENS)
        return err_set(err, QP_BAD_FORMAT, offsetof(header, n_tokens),
                       "%s: a prefix of %llu tokens, allowed are multiples of %d", path,
                       (unsigned long long)h->n_tokens, DEV_PAGE_TOKENS);
    if (rest % each != sizeof(uint64_t) || rest / each != pages)
        return err_set(err, QP_BAD_FORMAT, bytes,
                       "%s: %zu bytes, cut off or too long: %llu pages of %llu bytes each, a header of %zu and a "
                       "checksum of %zu are expected",
                       path, bytes, (unsigned long long)pages, (unsigned long long)each, sizeof *h, sizeof(uint64_t));
    return QP_OK;
}

static qp_status check_sum(const header *h, const uint8_t *bytes, const char *path, qp_error *err) {
    const uint8_t *at = bytes;
    const size_t ids_bytes = (size_t)h->n_tokens * sizeof(int32_t);
    uint64_t sum = hash_bytes(at, sizeof *h, 0), found;
    at += sizeof *h;
    sum = hash_bytes(at, ids_bytes, sum);
    at += ids_bytes;
    for (uint64_t i = 0; i < h->n_tokens / DEV_PAGE_TOKENS; i++, at += h->page_bytes)
        sum = hash_bytes(at, (size_t)h->page_bytes, sum);
    memcpy(&found, at, sizeof found);
    if (found == sum) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, (uint64_t)(at - bytes),
                   "%s: damaged: its checksum is %016llx, its bytes give %016llx", path, (unsigned long long)found,
                   (unsigned long long)sum);
}

static qp_status check_file(header *h, const prefix_cache *cache, const uint8_t *bytes, size_t count, const char *path,
                            qp_error *err) {
    if (count < sizeof *h + sizeof(uint64_t))
        return err_set(err, QP_BAD_FORMAT, count, "%s: not a prefix file: %zu bytes, at least %zu are expected", path,
                       count, sizeof *h + sizeof(uint64_t));
    memcpy(h, bytes, sizeof *h);
    ERR_TRY(check_header(h, cache, path, err));
    ERR_TRY(check_size(h, count, path, err));
    return check_sum(h, bytes, path, err);
}

/* Fills pages until the file or the room ends; those that the cache has already are left as they are. */
static qp_status fill_pages(chain *c, kv_store *store, const header *h, const int32_t *ids, const uint8_t *pages,
                            qp_error *err) {
    for (;;) {
        chain_reuse_whole(c, ids, (int64_t)h->n_tokens);
        if (c->length == (int64_t)h->n_tokens) return QP_OK;
        const size_t i = (size_t)(c->length / DEV_PAGE_TOKENS);
        ERR_TRY(chain_reserve(c, c->length + DEV_PAGE_TOKENS, err));
        store_load(store, c->pages[i], pages + i * (size_t)h->page_bytes);
        chain_advance(c, ids, c->length + DEV_PAGE_TOKENS);
    }
}

static qp_status load_pages(const prefix_cache *cache, const header *h, const uint8_t *bytes, size_t *n_loaded,
                            qp_error *err) {
    const size_t ids_bytes = (size_t)h->n_tokens * sizeof(int32_t);
    int32_t *ids = mem_copy(bytes, (size_t)h->n_tokens, sizeof *ids); /* aligned */
    if (!ids) return err_no_memory(err, ids_bytes, "loading a prefix");
    chain c;
    qp_error why = {0};
    chain_open(&c, cache->table, cache->root);
    const qp_status status = fill_pages(&c, cache->store, h, ids, bytes + ids_bytes, &why);
    const size_t n = (size_t)c.length;
    if (n_loaded) *n_loaded = n;
    chain_close(&c);
    mem_free(ids);
    if (n) return QP_OK; /* a part of it is useful, too */
    if (err) *err = why;
    return status;
}

qp_status prefix_load_bytes(const prefix_cache *cache, const uint8_t *bytes, size_t count, const char *name,
                            size_t *n_loaded, qp_error *err) {
    header h;
    if (n_loaded) *n_loaded = 0;
    ERR_TRY(check_file(&h, cache, bytes, count, name, err));
    return load_pages(cache, &h, bytes + sizeof h, n_loaded, err);
}

qp_status prefix_load(const prefix_cache *cache, const char *path, size_t *n_loaded, qp_error *err) {
    file_map map;
    if (n_loaded) *n_loaded = 0;
    ERR_TRY(file_map_open(&map, path, err));
    const qp_status status = prefix_load_bytes(cache, map.at, map.bytes, path, n_loaded, err);
    file_map_close(&map);
    return status;
}
