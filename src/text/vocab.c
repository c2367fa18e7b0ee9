/* vocab.c — the pieces of a model: id to text and text to id. */
#include "vocab.h"

/* MAX_PROBES: a file whose pieces are made to collide is refused rather than waited for. Honest tables of four million
 * pieces stay under a hundred. */
enum { FIRST_PLACE = 8, MAX_POOL = 1 << 30, MAX_PROBES = 4096 };

static uint64_t load8(const char *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

static uint64_t load4(const char *at) {
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

/* The last bytes of a text in one word: overlapping reads, no loop. */
static uint64_t tail_of(const char *at, size_t bytes) {
    if (bytes >= 4) return load4(at) << 32 | load4(at + bytes - 4);
    if (!bytes) return 0;
    return (uint64_t)(uint8_t)at[0] << 16 | (uint64_t)(uint8_t)at[bytes / 2] << 8 | (uint8_t)at[bytes - 1];
}

uint32_t vocab_hash(const char *at, size_t bytes) {
    uint64_t h = bytes * 0x9E3779B97F4A7C15ull;
    for (; bytes > 8; at += 8, bytes -= 8) {
        h = (h ^ load8(at)) * 0xFF51AFD7ED558CCDull;
        h ^= h >> 32;
    }
    h = (h ^ (bytes == 8 ? load8(at) : tail_of(at, bytes))) * 0xC4CEB9FE1A85EC53ull;
    return (uint32_t)(h ^ h >> 32);
}

static vocab_entry *entry_at(const vocab *v, uint32_t at) { return (vocab_entry *)(void *)(v->pool + at); }

static bool is_text(const vocab_entry *e, span text) {
    const char *a = e->text, *b = text.at;
    size_t n = text.bytes;
    if (e->bytes != n) return false;
    for (; n > 8; a += 8, b += 8, n -= 8)
        if (load8(a) != load8(b)) return false;
    return n == 8 ? load8(a) == load8(b) : tail_of(a, n) == tail_of(b, n);
}

/* The slot of a text, or the free one where it would go. */
static uint32_t find_slot(const vocab *v, span piece, uint32_t hash, uint32_t *probes) {
    uint32_t slot = hash & (v->n_slots - 1);
    for (*probes = 0; v->slots[slot].at; slot = (slot + 1) & (v->n_slots - 1), ++*probes)
        if (v->slots[slot].hash == hash && is_text(entry_at(v, v->slots[slot].at), piece)) break;
    return slot;
}

/* All texts differ, so that their hashes are enough to place them anew. */
static bool set_slots(vocab *v, uint32_t n) {
    vocab_slot *slots = mem_big(n * sizeof *slots);
    if (!slots) return false;
    for (uint32_t i = 0; i < v->n_slots; i++) {
        if (!v->slots[i].at) continue;
        uint32_t slot = v->slots[i].hash & (n - 1);
        while (slots[slot].at) slot = (slot + 1) & (n - 1);
        slots[slot] = v->slots[i];
    }
    mem_big_free(v->slots, v->n_slots * sizeof *slots);
    v->slots = slots;
    v->n_slots = n;
    return true;
}

static bool has_slots_for(const vocab *v, size_t n) { return n + n / 2 < v->n_slots; }

qp_status vocab_expect(vocab *v, size_t n_entries, qp_error *err) {
    uint32_t n = v->n_slots ? v->n_slots : 256;
    while (n_entries + n_entries / 2 >= n && n < VOCAB_MAX_ID * 2) n *= 2;
    return n == v->n_slots || set_slots(v, n) ? QP_OK : err_no_memory(err, n * sizeof *v->slots, "vocabulary");
}

/* Entries begin at multiples of four, as their numbers ask. */
static uint32_t entry_bytes(size_t text_bytes) { return (uint32_t)(sizeof(vocab_entry) + text_bytes + 3) & ~3u; }

static bool grow_pool(vocab *v, uint32_t more) {
    uint32_t n = v->pool_capacity ? v->pool_capacity : 4096;
    while (n - v->pool_bytes < more) n *= 2;
    char *pool = mem_resize(v->pool, n, 1);
    if (!pool) return false;
    if (!v->pool) v->pool_bytes = FIRST_PLACE;
    v->pool = pool;
    v->pool_capacity = n;
    return true;
}

static bool grow_ids(vocab *v, int32_t id) {
    int32_t n = v->id_capacity ? v->id_capacity : 256;
    while (n <= id) n *= 2;
    if (n == v->id_capacity) return true;
    uint32_t *by_id = mem_resize(v->by_id, (size_t)n, sizeof *by_id);
    if (!by_id) return false;
    memset(by_id + v->id_capacity, 0, (size_t)(n - v->id_capacity) * sizeof *by_id);
    v->by_id = by_id;
    v->id_capacity = n;
    return true;
}

static void put_entry(vocab *v, vocab_slot *slot, uint32_t hash, span piece, int32_t id) {
    vocab_entry *entry = entry_at(v, v->pool_bytes);
    entry->id = id;
    entry->bytes = (uint32_t)piece.bytes;
    if (piece.bytes) memcpy(entry->text, piece.at, piece.bytes);
    *slot = (vocab_slot){hash, v->pool_bytes};
    v->pool_bytes += entry_bytes(piece.bytes);
    v->n_entries++;
    if (piece.bytes > v->longest) v->longest = (uint32_t)piece.bytes;
}

static bool make_room(vocab *v, span piece, int32_t id) {
    const uint32_t more = entry_bytes(piece.bytes) + (v->pool ? 0 : FIRST_PLACE);
    return (has_slots_for(v, v->n_entries + 1) || set_slots(v, v->n_slots ? v->n_slots * 2 : 256)) &&
           (v->pool_capacity - v->pool_bytes >= more || grow_pool(v, more)) && grow_ids(v, id);
}

qp_status vocab_add(vocab *v, span piece, int64_t id, qp_error *err) {
    uint32_t probes;
    if (id < 0 || id >= VOCAB_MAX_ID)
        return err_set(err, QP_BAD_FORMAT, 0, "vocabulary: id %lld of \"%.*s\", allowed are 0 to %d", (long long)id,
                       (int)(piece.bytes < 60 ? piece.bytes : 60), piece.at, VOCAB_MAX_ID - 1);
    if (piece.bytes >= MAX_POOL / 2 || v->pool_bytes >= MAX_POOL)
        return err_set(err, QP_TOO_LARGE, 0, "vocabulary: over %d bytes of text", MAX_POOL);
    if (!make_room(v, piece, (int32_t)id)) return err_no_memory(err, piece.bytes, "vocabulary");
    const uint32_t hash = vocab_hash(piece.at, piece.bytes);
    vocab_slot *slot = &v->slots[find_slot(v, piece, hash, &probes)];
    if (probes > MAX_PROBES)
        return err_set(err, QP_BAD_FORMAT, 0, "vocabulary: over %d pieces share one hash", MAX_PROBES);
    if (slot->at) {
        vocab_entry *known = entry_at(v, slot->at);
        if (v->by_id[known->id] == slot->at) v->by_id[known->id] = 0;
        known->id = (int32_t)id;
    } else
        put_entry(v, slot, hash, piece, (int32_t)id);
    v->by_id[id] = slot->at;
    if ((int32_t)id >= v->n_ids) v->n_ids = (int32_t)id + 1;
    return QP_OK;
}

void vocab_free(vocab *v) {
    mem_free(v->pool);
    mem_big_free(v->slots, v->n_slots * sizeof *v->slots);
    mem_free(v->by_id);
    *v = (vocab){0};
}

static int32_t find(const vocab *v, span piece, uint32_t hash) {
    uint32_t unused;
    const uint32_t at = v->slots[find_slot(v, piece, hash, &unused)].at;
    return at ? entry_at(v, at)->id : -1;
}

int32_t vocab_id(const vocab *v, span piece) {
    return v->n_slots ? find(v, piece, vocab_hash(piece.at, piece.bytes)) : -1;
}

void vocab_ids(const vocab *v, const span *pieces, int32_t *ids, size_t n) {
    enum { BATCH = 64 };
    uint32_t hashes[BATCH];
    for (size_t done = 0, k; done < n; done += k) {
        k = n - done < BATCH ? n - done : BATCH;
        for (size_t i = 0; i < k && v->n_slots; i++) {
            hashes[i] = vocab_hash(pieces[done + i].at, pieces[done + i].bytes);
            __builtin_prefetch(&v->slots[hashes[i] & (v->n_slots - 1)]);
        }
        for (size_t i = 0; i < k && v->n_slots; i++)
            __builtin_prefetch(v->pool + v->slots[hashes[i] & (v->n_slots - 1)].at);
        for (size_t i = 0; i < k; i++) ids[done + i] = v->n_slots ? find(v, pieces[done + i], hashes[i]) : -1;
    }
}

span vocab_piece(const vocab *v, int32_t id) {
    if (id < 0 || id >= v->n_ids || !v->by_id[id]) return (span){0};
    const vocab_entry *entry = entry_at(v, v->by_id[id]);
    return (span){entry->text, entry->bytes};
}

const vocab_entry *vocab_next(const vocab *v, const vocab_entry *entry) {
    if (!v->pool) return NULL;
    const char *at = entry ? (const char *)entry + entry_bytes(entry->bytes) : v->pool + FIRST_PLACE;
    return at < v->pool + v->pool_bytes ? (const vocab_entry *)(const void *)at : NULL;
}
