/* pack_cache.c — the file of packed weights: head, the weights, a table of them, tail.
 *
 * Called by cpu.c and pack.c. Numbers are little-endian; weights begin at multiples of 64 bytes. The table stands
 * behind what it lists, so that a file is written in one go while a model loads. It appears under its name when it is
 * complete (outfile.c), so any number of processes may load, and write, at once.
 *
 * The tricky thing is trust: a file may be old, cut, of another machine or made by an enemy. All that is used is
 * checked first: each place against the file, and each byte against its checksum (all threads share that; the pages
 * have to be read for the first token anyway). Codes and scales are numbers, any of which kernels can multiply. */
#include "pack_cache.h"
#include "pack.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/outfile.h"
#include <stdatomic.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "packed weights are written as they lie in memory, which must be little-endian"
#endif

enum { VERSION = 1, ALIGNED = 64 };
static const char magic[8] = "QPPACKED", end_magic[8] = "QPPKDEND";

typedef struct head {
    char magic[8];
    uint32_t version, layout;
    uint64_t source, zero[5];
} head;
_Static_assert(sizeof(head) == ALIGNED, "the first weight begins aligned");

typedef struct entry {
    uint64_t key, offset, bytes, sum;
} entry;

typedef struct tail {
    uint64_t table_at, n_entries, sum; /* sum: of the head, the table and the two numbers */
    uint64_t zero[4];
    char magic[8];
} tail;
_Static_assert(sizeof(tail) == ALIGNED, "no gaps");

struct pack_cache {
    char *path;
    qp_log log;
    head head; /* as it must be */
    /* a file that is of use */
    file_map map;
    const entry *entries;
    size_t n_entries, next;
    bool lacks; /* something was not there */
    /* or one that is being made */
    outfile *file;
    entry *made;
    size_t n_made, room;
    uint64_t at;
};

static uint64_t sum_of(const head *h, const entry *entries, uint64_t n, uint64_t table_at) {
    const uint64_t numbers[] = {table_at, n};
    uint64_t sum = hash_bytes(h, sizeof *h, 0);
    sum = hash_bytes(entries, (size_t)n * sizeof *entries, sum);
    return hash_bytes(numbers, sizeof numbers, sum);
}

/* ---- reading ---- */

static qp_status check_head(const pack_cache *c, qp_error *err) {
    const head *h = (const head *)c->map.at, *want = &c->head;
    if (c->map.bytes < sizeof *h + sizeof(tail) || memcmp(h->magic, magic, sizeof magic))
        return err_set(err, QP_BAD_FORMAT, 0, "it is no file of packed weights");
    if (h->version != want->version)
        return err_set(err, QP_BAD_FORMAT, offsetof(head, version), "it has version %u, this program writes %u",
                       h->version, want->version);
    if (h->layout != want->layout)
        return err_set(err, QP_BAD_FORMAT, offsetof(head, layout),
                       "its weights lie for other kernels: layout %u, this program's is %u", h->layout, want->layout);
    if (h->source != want->source)
        return err_set(err, QP_BAD_FORMAT, offsetof(head, source),
                       "it was made of other files than the model has now, or by another version of quipu");
    return QP_OK;
}

/* Whether the table is where the tail says, and says what was written. */
static qp_status check_table(pack_cache *c, qp_error *err) {
    const size_t bytes = c->map.bytes;
    const tail *t = (const tail *)(c->map.at + bytes / ALIGNED * ALIGNED - sizeof *t);
    const uint64_t table_end = (uint64_t)((const uint8_t *)t - c->map.at);
    if (bytes % ALIGNED || memcmp(t->magic, end_magic, sizeof end_magic))
        return err_set(err, QP_BAD_FORMAT, bytes, "it ends after %zu bytes, in the middle", bytes);
    if (t->table_at < sizeof(head) || t->table_at > table_end || t->table_at % ALIGNED ||
        t->n_entries > (table_end - t->table_at) / sizeof(entry))
        return err_set(err, QP_BAD_FORMAT, table_end, "a table of %llu weights at byte %llu is not inside %zu bytes",
                       (unsigned long long)t->n_entries, (unsigned long long)t->table_at, bytes);
    const entry *entries = (const entry *)(c->map.at + t->table_at);
    if (t->sum != sum_of((const head *)c->map.at, entries, t->n_entries, t->table_at))
        return err_set(err, QP_BAD_FORMAT, t->table_at, "its table is damaged");
    for (size_t i = 0; i < t->n_entries; i++)
        if (entries[i].offset < sizeof(head) || entries[i].offset % ALIGNED || entries[i].offset > t->table_at ||
            entries[i].bytes > t->table_at - entries[i].offset)
            return err_set(err, QP_BAD_FORMAT, t->table_at + i * sizeof(entry),
                           "weight %zu: %llu bytes at byte %llu are not inside the file", i,
                           (unsigned long long)entries[i].bytes, (unsigned long long)entries[i].offset);
    c->entries = entries;
    c->n_entries = (size_t)t->n_entries;
    return QP_OK;
}

typedef struct check {
    const pack_cache *cache;
    atomic_size_t first_bad;
} check;

static void check_weight(void *context, int64_t task, int worker) {
    check *j = context;
    const entry *e = &j->cache->entries[task];
    if (hash_bytes(j->cache->map.at + e->offset, (size_t)e->bytes, e->key) == e->sum) return;
    size_t bad = atomic_load(&j->first_bad);
    while ((size_t)task < bad && !atomic_compare_exchange_weak(&j->first_bad, &bad, (size_t)task)) {
    }
}

static qp_status check_weights(const pack_cache *c, pool *p, qp_error *err) {
    check j = {.cache = c};
    atomic_init(&j.first_bad, SIZE_MAX);
    pool_run(p, check_weight, &j, (int64_t)c->n_entries);
    const size_t bad = atomic_load(&j.first_bad);
    if (bad == SIZE_MAX) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, c->entries[bad].offset, "weight %zu of %zu is damaged", bad, c->n_entries);
}

static qp_status read_file(pack_cache *c, pool *p, qp_error *err) {
    ERR_TRY(file_map_open(&c->map, c->path, err));
    ERR_TRY(check_head(c, err));
    ERR_TRY(check_table(c, err));
    return check_weights(c, p, err);
}

/* ---- writing ---- */

static void give_up(pack_cache *c, const qp_error *why) {
    log_line(&c->log, QP_LOG_WARN, "pack cache: %s: not written, and not needed: %s", c->path, why->text);
    outfile_cancel(c->file);
    c->file = NULL;
}

static void begin_file(pack_cache *c) {
    qp_error why;
    if (outfile_open(&c->file, c->path, &why) != QP_OK) {
        give_up(c, &why);
        return;
    }
    outfile_add(c->file, &c->head, sizeof c->head);
    c->at = sizeof c->head;
}

static void add_aligned(pack_cache *c, const void *bytes, size_t count) {
    static const uint8_t zeros[ALIGNED];
    const size_t gap = -count & (ALIGNED - 1);
    outfile_add(c->file, bytes, count);
    outfile_add(c->file, zeros, gap);
    c->at += count + gap;
}

static bool make_room(pack_cache *c) {
    if (c->n_made < c->room) return true;
    const size_t room = c->room ? 2 * c->room : 256;
    entry *more = mem_resize(c->made, room, sizeof *more);
    if (!more) return false;
    c->made = more;
    c->room = room;
    return true;
}

/* ---- front ---- */

qp_status pack_cache_open(pack_cache **out, const char *path, uint64_t source, pool *p, const qp_log *log,
                          qp_error *err) {
    *out = NULL;
    pack_cache *c = MEM_NEW(pack_cache);
    if (!c) return err_no_memory(err, sizeof *c, "the cache of packed weights");
    c->log = *log;
    c->head = (head){.version = VERSION, .layout = PACK_LAYOUT, .source = source};
    memcpy(c->head.magic, magic, sizeof magic);
    c->path = mem_copy_text(path, strlen(path));
    if (!c->path) return pack_cache_close(c), err_no_memory(err, strlen(path), "the cache of packed weights");
    qp_error why;
    if (!file_exists(path)) {
        log_line(log, QP_LOG_INFO, "pack cache: %s is not there yet and will be written", path);
        begin_file(c);
    } else if (read_file(c, p, &why) != QP_OK) {
        log_line(log, QP_LOG_WARN, "pack cache: %s is written anew: %s", path, why.text);
        file_map_close(&c->map);
        c->entries = NULL;
        begin_file(c);
    }
    *out = c;
    return QP_OK;
}

bool pack_cache_is_full(const pack_cache *c) { return c && c->entries; }

/* Loads ask in the order in which the first one did. */
const uint8_t *pack_cache_find(pack_cache *c, uint64_t key, size_t bytes) {
    if (!c || !c->entries || c->lacks) return NULL;
    for (size_t i = 0; i < c->n_entries; i++) {
        const size_t at = (c->next + i) % c->n_entries;
        const entry *e = &c->entries[at];
        if (e->key != key || e->bytes != bytes) continue;
        c->next = at + 1;
        return c->map.at + e->offset;
    }
    c->lacks = true;
    return NULL;
}

void pack_cache_add(pack_cache *c, uint64_t key, const uint8_t *at, size_t bytes) {
    if (!c || !c->file) return;
    if (!make_room(c)) {
        qp_error why;
        err_no_memory(&why, 2 * c->room * sizeof *c->made, "its table");
        give_up(c, &why);
        return;
    }
    c->made[c->n_made++] = (entry){key, c->at, bytes, hash_bytes(at, bytes, key)};
    add_aligned(c, at, bytes);
}

static void finish_file(pack_cache *c) {
    qp_error why;
    tail t = {.table_at = c->at, .n_entries = c->n_made};
    t.sum = sum_of(&c->head, c->made, t.n_entries, t.table_at);
    memcpy(t.magic, end_magic, sizeof end_magic);
    add_aligned(c, c->made, c->n_made * sizeof *c->made);
    outfile_add(c->file, &t, sizeof t);
    const qp_status status = outfile_commit(c->file, &why);
    c->file = NULL;
    if (status == QP_OK)
        log_line(&c->log, QP_LOG_INFO, "pack cache: %s: %zu weights, %llu bytes written", c->path, c->n_made,
                 (unsigned long long)(c->at + sizeof t));
    else
        give_up(c, &why);
}

void pack_cache_settle(pack_cache *c) {
    if (!c) return;
    if (c->lacks) {
        log_line(&c->log, QP_LOG_WARN, "pack cache: %s lacks weights of this model: it is removed", c->path);
        file_remove(c->path);
    } else if (c->file && c->n_made) {
        finish_file(c);
    } else if (c->file) {
        log_line(&c->log, QP_LOG_WARN, "pack cache: %s is not written: the weights are used as they are stored",
                 c->path);
        outfile_cancel(c->file);
        c->file = NULL;
    }
}

void pack_cache_close(pack_cache *c) {
    if (!c) return;
    outfile_cancel(c->file);
    file_map_close(&c->map);
    mem_free(c->made);
    mem_free(c->path);
    mem_free(c);
}
