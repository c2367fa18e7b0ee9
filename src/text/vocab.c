/* vocab.c — the pieces of a model: id to text and text to id. */
#include "vocab.h"

uint32_t vocab_hash(const char *at, size_t bytes) {
    uint64_t h = bytes * 0x9E3779B97F4A7C15ull;
    for (; bytes >= 8; at += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        h = (h ^ word) * 0xFF51AFD7ED558CCDull;
        h ^= h >> 32;
    }
    uint64_t tail = 0;
    if (bytes) memcpy(&tail, at, bytes); /* at may be NULL */
    h = (h ^ tail) * 0xC4CEB9FE1A85EC53ull;
    return (uint32_t)(h ^ h >> 32);
}

static span entry_text(const vocab *v, uint32_t i) {
    return (span){v->pool.at + v->entries[i].at, v->entries[i].bytes};
}

/* The slot of a text, or the free one where it would go. */
static uint32_t find_slot(const vocab *v, span piece, uint32_t hash) {
    uint32_t slot = hash & (v->n_slots - 1);
    for (; v->slots[slot].entry; slot = (slot + 1) & (v->n_slots - 1))
        if (v->slots[slot].hash == hash && span_equal(entry_text(v, v->slots[slot].entry - 1), piece)) break;
    return slot;
}

/* All texts differ, so that their hashes are enough to place them anew. */
static bool grow_slots(vocab *v) {
    const uint32_t n = v->n_slots ? v->n_slots * 2 : 256;
    vocab_slot *slots = mem_zarray(n, sizeof *slots);
    if (!slots) return false;
    for (uint32_t i = 0; i < v->n_entries; i++) {
        uint32_t slot = v->entries[i].hash & (n - 1);
        while (slots[slot].entry) slot = (slot + 1) & (n - 1);
        slots[slot] = (vocab_slot){v->entries[i].hash, i + 1};
    }
    mem_free(v->slots);
    v->slots = slots;
    v->n_slots = n;
    return true;
}

static bool grow_entries(vocab *v) {
    const uint32_t n = v->entry_capacity ? v->entry_capacity * 2 : 256;
    vocab_entry *entries = mem_resize(v->entries, n, sizeof *entries);
    if (!entries) return false;
    v->entries = entries;
    v->entry_capacity = n;
    return true;
}

static bool grow_ids(vocab *v, int32_t id) {
    int32_t n = v->id_capacity ? v->id_capacity : 256;
    while (n <= id) n *= 2;
    if (n == v->id_capacity) return true;
    int32_t *by_id = mem_resize(v->by_id, (size_t)n, sizeof *by_id);
    if (!by_id) return false;
    for (int32_t i = v->id_capacity; i < n; i++) by_id[i] = -1;
    v->by_id = by_id;
    v->id_capacity = n;
    return true;
}

static bool add_entry(vocab *v, span piece, int32_t id) {
    if (v->n_entries == v->entry_capacity && !grow_entries(v)) return false;
    if (v->n_entries * 2 >= v->n_slots && !grow_slots(v)) return false;
    const uint32_t hash = vocab_hash(piece.at, piece.bytes), slot = find_slot(v, piece, hash);
    const uint32_t known = v->slots[slot].entry;
    if (known) {
        vocab_entry *entry = &v->entries[known - 1];
        if (v->by_id[entry->id] == (int32_t)(known - 1)) v->by_id[entry->id] = -1;
        entry->id = id;
        v->by_id[id] = (int32_t)(known - 1);
        return true;
    }
    const size_t at = v->pool.bytes;
    strbuf_add(&v->pool, piece.at, piece.bytes);
    if (v->pool.failed) return false;
    v->entries[v->n_entries] = (vocab_entry){(uint32_t)at, (uint32_t)piece.bytes, id, hash};
    v->by_id[id] = (int32_t)v->n_entries;
    v->slots[slot] = (vocab_slot){hash, ++v->n_entries};
    return true;
}

qp_status vocab_add(vocab *v, span piece, int64_t id, qp_error *err) {
    if (id < 0 || id >= VOCAB_MAX_ID)
        return err_set(err, QP_BAD_FORMAT, 0, "vocabulary: id %lld of \"%.*s\", allowed are 0 to %d", (long long)id,
                       (int)(piece.bytes < 60 ? piece.bytes : 60), piece.at, VOCAB_MAX_ID - 1);
    if (piece.bytes > UINT32_MAX / 2 || v->pool.bytes > UINT32_MAX / 2 || v->n_entries >= 1u << 28)
        return err_set(err, QP_TOO_LARGE, 0, "vocabulary: over 2 GiB of text");
    if (!grow_ids(v, (int32_t)id) || !add_entry(v, piece, (int32_t)id))
        return err_no_memory(err, piece.bytes, "vocabulary");
    if ((int32_t)id >= v->n_ids) v->n_ids = (int32_t)id + 1;
    if (piece.bytes > v->longest) v->longest = (uint32_t)piece.bytes;
    return QP_OK;
}

void vocab_free(vocab *v) {
    strbuf_free(&v->pool);
    mem_free(v->entries);
    mem_free(v->slots);
    mem_free(v->by_id);
    *v = (vocab){0};
}

int32_t vocab_id(const vocab *v, span piece) {
    if (!v->n_slots) return -1;
    const uint32_t entry = v->slots[find_slot(v, piece, vocab_hash(piece.at, piece.bytes))].entry;
    return entry ? v->entries[entry - 1].id : -1;
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
        for (size_t i = 0; i < k && v->n_slots; i++) {
            const uint32_t entry = v->slots[hashes[i] & (v->n_slots - 1)].entry;
            if (entry) __builtin_prefetch(&v->entries[entry - 1]);
        }
        for (size_t i = 0; i < k; i++) {
            const uint32_t entry = v->n_slots ? v->slots[find_slot(v, pieces[done + i], hashes[i])].entry : 0;
            ids[done + i] = entry ? v->entries[entry - 1].id : -1;
        }
    }
}

span vocab_piece(const vocab *v, int32_t id) {
    if (id < 0 || id >= v->n_ids || v->by_id[id] < 0) return (span){0};
    return entry_text(v, (uint32_t)v->by_id[id]);
}
