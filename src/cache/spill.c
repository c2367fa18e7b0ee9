/* spill.c — evicted pages in host memory: slots of one block, a map by hash, a list by age.
 *
 * Called by pages.c when a whole page is evicted and by page_chain.c when a prompt may need it again; moves bytes
 * through the page_mover that the generator gave. A page is either in the table or here. Table and tier both let
 * children go before their parents, so what is here can be reached from what is still known. */
#include "spill.h"
#include "base/mem.h"
#include "dev/dev.h"
#include <string.h>

typedef struct slot {
    hash_pair hash;
    uint64_t serial, parent_serial, root;
    int older, newer; /* the list by age; empty: `older` is the next of the stack */
    int next_in_bucket;
} slot;

struct spill_tier {
    page_mover mover;
    int n_slots, free, oldest, newest; /* -1: none */
    slot *slots;
    int *buckets;
    uint64_t bucket_mask;
    int32_t (*ids)[DEV_PAGE_TOKENS];
    uint8_t *memory; /* [n_slots][mover.page_bytes] */
    size_t bytes;
};

/* ---- life ---- */

static qp_status make_room(spill_tier *s, qp_error *err) {
    uint64_t n_buckets = 1;
    while (n_buckets < (uint64_t)s->n_slots) n_buckets *= 2;
    s->bucket_mask = n_buckets - 1;
    s->slots = mem_zarray((size_t)s->n_slots, sizeof *s->slots);
    s->buckets = mem_array(n_buckets, sizeof *s->buckets);
    s->ids = mem_array((size_t)s->n_slots, sizeof *s->ids);
    s->memory = mem_big(s->bytes);
    if (!s->slots || !s->buckets || !s->ids || !s->memory) return err_no_memory(err, s->bytes, "spilled pages");
    memset(s->buckets, -1, n_buckets * sizeof *s->buckets);
    for (int i = 0; i < s->n_slots; i++) s->slots[i].older = i + 1 < s->n_slots ? i + 1 : -1;
    return QP_OK;
}

qp_status spill_open(spill_tier **out, uint64_t bytes, const page_mover *mover, qp_error *err) {
    *out = NULL;
    const uint64_t each = (uint64_t)mover->page_bytes + sizeof(slot) + sizeof(int32_t[DEV_PAGE_TOKENS]);
    const uint64_t n = bytes / each;
    if (!n || n > INT32_MAX / 2)
        return err_set(err, QP_BAD_ARGUMENT, 0, "spill memory: %llu bytes, allowed are %llu (one page) to %llu",
                       (unsigned long long)bytes, (unsigned long long)each, (unsigned long long)each * (INT32_MAX / 2));
    spill_tier *s = MEM_NEW(spill_tier);
    if (!s) return err_no_memory(err, sizeof *s, "spilled pages");
    *s = (spill_tier){.mover = *mover, .n_slots = (int)n, .oldest = -1, .newest = -1, .bytes = n * mover->page_bytes};
    const qp_status status = make_room(s, err);
    if (status != QP_OK)
        spill_close(s);
    else
        *out = s;
    return status;
}

void spill_close(spill_tier *s) {
    if (!s) return;
    mem_big_free(s->memory, s->bytes);
    mem_free(s->slots);
    mem_free(s->buckets);
    mem_free(s->ids);
    mem_free(s);
}

/* ---- the list by age ---- */

static void list_push(spill_tier *s, int i) {
    s->slots[i].older = s->newest;
    s->slots[i].newer = -1;
    *(s->newest >= 0 ? &s->slots[s->newest].newer : &s->oldest) = i;
    s->newest = i;
}

static void list_remove(spill_tier *s, int i) {
    const slot *at = &s->slots[i];
    *(at->older >= 0 ? &s->slots[at->older].newer : &s->oldest) = at->newer;
    *(at->newer >= 0 ? &s->slots[at->newer].older : &s->newest) = at->older;
}

void spill_pin(spill_tier *s, int i) { list_remove(s, i); }
void spill_unpin(spill_tier *s, int i) { list_push(s, i); }

/* ---- slots ---- */

static uint8_t *bytes_of(const spill_tier *s, int i) { return s->memory + (size_t)i * s->mover.page_bytes; }

int spill_find(const spill_tier *s, const spill_key *key) {
    for (int i = s->buckets[key->hash.low & s->bucket_mask]; i >= 0; i = s->slots[i].next_in_bucket) {
        const slot *at = &s->slots[i];
        if (at->hash.low == key->hash.low && at->hash.high == key->hash.high &&
            at->parent_serial == key->parent_serial && at->root == key->root &&
            !memcmp(s->ids[i], key->ids, sizeof s->ids[i]))
            return i;
    }
    return -1;
}

uint64_t spill_serial(const spill_tier *s, int i) { return s->slots[i].serial; }

/* Takes a slot that is in no list out of the map, too. */
static void make_empty(spill_tier *s, int i) {
    int *link = &s->buckets[s->slots[i].hash.low & s->bucket_mask];
    while (*link != i) link = &s->slots[*link].next_in_bucket;
    *link = s->slots[i].next_in_bucket;
    s->slots[i].older = s->free;
    s->free = i;
}

void spill_drop(spill_tier *s, int i) {
    list_remove(s, i);
    make_empty(s, i);
}

bool spill_save(spill_tier *s, const spill_key *key, uint64_t serial, int32_t page) {
    if (s->free < 0 && s->oldest >= 0) spill_drop(s, s->oldest);
    const int i = s->free;
    if (i < 0) return false;
    s->free = s->slots[i].older;
    int *bucket = &s->buckets[key->hash.low & s->bucket_mask];
    s->slots[i] = (slot){.hash = key->hash,
                         .serial = serial,
                         .parent_serial = key->parent_serial,
                         .root = key->root,
                         .next_in_bucket = *bucket};
    *bucket = i;
    memcpy(s->ids[i], key->ids, sizeof s->ids[i]);
    list_push(s, i);
    s->mover.save(s->mover.user, page, bytes_of(s, i));
    return true;
}

void spill_load(spill_tier *s, int i, int32_t page) {
    s->mover.load(s->mover.user, page, bytes_of(s, i));
    make_empty(s, i);
}
