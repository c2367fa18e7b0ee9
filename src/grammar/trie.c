/* trie.c — building the byte tries of a vocabulary: sort the tokens once, cut them into slices, write the nodes. */
#include "trie.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <stdatomic.h>
#include <stdlib.h>

typedef struct entry {
    uint64_t head; /* the first eight bytes, big-endian: most comparisons end here */
    span bytes;
    int32_t id;
    uint8_t slice;
} entry;

struct trie {
    atomic_int shares;
    int size;
    size_t memory;
    char *text;
    uint32_t *offsets; /* [size + 1] into text */
    uint8_t *flags;
    trie_slice slices[TRIE_SLICES];
    trie_tails tails;
    int32_t (*twins)[2];
    int32_t *too_long;
    size_t n_twins, n_too_long;
};

int trie_size(const trie *t) { return t->size; }
size_t trie_memory(const trie *t) { return t->memory; }
const trie_slice *trie_slice_at(const trie *t, int index) { return &t->slices[index]; }

const trie_tails *trie_tails_of(const trie *t) { return &t->tails; }

const int32_t (*trie_twins(const trie *t, size_t *n))[2] {
    *n = t->n_twins;
    return (const int32_t(*)[2])t->twins;
}

const int32_t *trie_long(const trie *t, size_t *n) {
    *n = t->n_too_long;
    return t->too_long;
}

span trie_bytes(const trie *t, int32_t id) {
    if (id < 0 || id >= t->size) return (span){NULL, 0};
    return (span){t->text + t->offsets[id], t->offsets[id + 1] - t->offsets[id]};
}

trie_flag trie_flag_of(const trie *t, int32_t id) {
    return id < 0 || id >= t->size ? TRIE_NORMAL : (trie_flag)t->flags[id];
}

static void *take(trie *t, size_t n, size_t size) {
    t->memory += n * size;
    return mem_zarray(n, size);
}

/* How many bytes from the start are whole plain characters, and how many these are. */
static size_t plain_part(span bytes, int *n_chars) {
    size_t i = 0;
    for (*n_chars = 0; i < bytes.bytes; ++*n_chars) {
        uint32_t c;
        const int length = utf8_decode(bytes.at + i, bytes.bytes - i, &c);
        if (!length || !trie_is_plain(c)) break;
        i += (size_t)length;
    }
    return i;
}

/* Which slice a token belongs to. */
static uint8_t slice_of(span bytes) {
    int n_chars;
    if (plain_part(bytes, &n_chars) < bytes.bytes) return TRIE_REST;
    return n_chars <= TRIE_FEW_CHARS ? 0 : 1;
}

static uint64_t head_of(span bytes) {
    uint64_t head = 0;
    for (size_t i = 0; i < 8; i++) head = head << 8 | (i < bytes.bytes ? (uint8_t)bytes.at[i] : 0);
    return head;
}

static int by_bytes(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->slice != y->slice) return x->slice - y->slice;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    const size_t common = x->bytes.bytes < y->bytes.bytes ? x->bytes.bytes : y->bytes.bytes;
    const int order = memcmp(x->bytes.at, y->bytes.at, common);
    if (order) return order;
    if (x->bytes.bytes != y->bytes.bytes) return x->bytes.bytes < y->bytes.bytes ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Copies all bytes, so that the trie outlives its source. */
static qp_status copy_bytes(trie *t, const trie_source *source, qp_error *err) {
    strbuf all = {.limit = UINT32_MAX};
    t->offsets = take(t, (size_t)t->size + 1, sizeof *t->offsets);
    t->flags = take(t, (size_t)t->size + 1, sizeof *t->flags);
    if (!t->offsets || !t->flags) return err_no_memory(err, (size_t)t->size * 5, "vocabulary trie");
    for (int32_t id = 0; id < t->size; id++) {
        trie_flag flag = TRIE_NORMAL;
        const span bytes = source->bytes(source->user, id, &flag);
        t->flags[id] = (uint8_t)flag;
        t->offsets[id] = (uint32_t)all.bytes;
        if (bytes.at && bytes.bytes) strbuf_add(&all, bytes.at, bytes.bytes);
    }
    t->offsets[t->size] = (uint32_t)all.bytes;
    t->memory += all.bytes;
    const qp_status status = strbuf_status(&all, err, "vocabulary trie");
    if (status == QP_OK)
        t->text = strbuf_move(&all, NULL);
    else
        strbuf_free(&all);
    return status != QP_OK || t->text ? status : err_no_memory(err, 1, "vocabulary trie");
}

/* Tokens for the tries, sorted; twins and too long ones are put aside. */
static qp_status list_entries(trie *t, entry **out, size_t *n_out, qp_error *err) {
    entry *list = mem_array((size_t)t->size + 1, sizeof *list);
    t->twins = take(t, (size_t)t->size + 1, sizeof *t->twins);
    t->too_long = take(t, (size_t)t->size + 1, sizeof *t->too_long);
    *out = list;
    if (!list || !t->twins || !t->too_long)
        return err_no_memory(err, (size_t)t->size * sizeof *list, "vocabulary trie");
    size_t n = 0;
    for (int32_t id = 0; id < t->size; id++) {
        const span bytes = trie_bytes(t, id);
        if (t->flags[id] != TRIE_NORMAL || !bytes.bytes) continue;
        if (bytes.bytes > TRIE_MOST_BYTES)
            t->too_long[t->n_too_long++] = id;
        else
            list[n++] = (entry){head_of(bytes), bytes, id, slice_of(bytes)};
    }
    qsort(list, n, sizeof *list, by_bytes);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept && list[kept - 1].slice == list[i].slice && span_equal(list[kept - 1].bytes, list[i].bytes)) {
            t->twins[t->n_twins][0] = list[kept - 1].id;
            t->twins[t->n_twins++][1] = list[i].id;
        } else {
            list[kept++] = list[i];
        }
    }
    *n_out = kept;
    return QP_OK;
}

static size_t common_bytes(span a, span b) {
    size_t n = 0;
    while (n < a.bytes && n < b.bytes && a.at[n] == b.at[n]) n++;
    return n;
}

/* Nodes of sorted tokens; `open` holds the node at each depth of the current one. */
static uint32_t write_nodes(trie_node *nodes, const entry *list, size_t n) {
    uint32_t open[TRIE_MOST_BYTES], n_nodes = 0;
    size_t depth = 0;
    for (size_t i = 0; i <= n; i++) {
        const size_t kept = i && i < n ? common_bytes(list[i - 1].bytes, list[i].bytes) : 0;
        while (depth > kept) {
            trie_node *node = &nodes[open[--depth]];
            node->size = (n_nodes - open[depth]) & 0xFFFFFF;
            node->pops = (uint8_t)(depth - kept);
        }
        for (; i < n && depth < list[i].bytes.bytes; depth++) {
            open[depth] = n_nodes;
            nodes[n_nodes++] = (trie_node){.id = TRIE_NO_ID, .byte = (uint8_t)list[i].bytes.at[depth]};
        }
        if (i < n) nodes[open[depth - 1]].id = (uint32_t)list[i].id & 0xFFFFFF;
    }
    return n_nodes;
}

static size_t count_nodes(const entry *list, size_t n) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most += list[i].bytes.bytes - (i ? common_bytes(list[i - 1].bytes, list[i].bytes) : 0);
    return most;
}

static qp_status fill_slice(trie *t, int index, const entry *list, size_t n, qp_error *err) {
    trie_slice *s = &t->slices[index];
    const size_t most = count_nodes(list, n);
    if (most >= TRIE_NO_ID) return err_set(err, QP_TOO_LARGE, 0, "vocabulary trie: %zu nodes, at most 2^24", most);

    s->nodes = take(t, most + 1, sizeof *s->nodes);
    s->mask = take(t, ((size_t)t->size + 31) / 32 + 1, sizeof *s->mask);
    if (!s->nodes || !s->mask) return err_no_memory(err, most * sizeof *s->nodes, "vocabulary trie");
    s->n_nodes = write_nodes(s->nodes, list, n);
    for (size_t i = 0; i < n; i++) s->mask[list[i].id >> 5] |= 1u << (list[i].id & 31);
    for (size_t i = 0; i < t->n_twins; i++) {
        const int32_t *twin = t->twins[i];
        if (s->mask[twin[0] >> 5] >> (twin[0] & 31) & 1) s->mask[twin[1] >> 5] |= 1u << (twin[1] & 31);
    }
    return QP_OK;
}

static void cut_to_tails(entry *list, size_t n) {
    int n_chars;
    for (size_t i = 0; i < n; i++) {
        const size_t plain = plain_part(list[i].bytes, &n_chars);
        const span tail = {list[i].bytes.at + plain, list[i].bytes.bytes - plain};
        list[i] = (entry){head_of(tail), tail, list[i].id, TRIE_REST};
    }
    qsort(list, n, sizeof *list, by_bytes);
}

/* Numbers the tails of what is in TRIE_REST; the list is cut to one entry a tail. */
static qp_status fill_tails(trie *t, entry *list, size_t n, qp_error *err) {
    trie_tails *const tails = &t->tails;
    const trie_slice *rest = &t->slices[TRIE_REST];
    uint32_t *of_id = mem_array((size_t)t->size + 1, sizeof *of_id);
    tails->first = take(t, n + 1, sizeof *tails->first);
    tails->ids = take(t, n + 1, sizeof *tails->ids);
    tails->of_node = take(t, rest->n_nodes + 1, sizeof *tails->of_node);
    cut_to_tails(list, n);
    tails->nodes = take(t, count_nodes(list, n) + 1, sizeof *tails->nodes);
    if (!of_id || !tails->first || !tails->ids || !tails->of_node || !tails->nodes) {
        mem_free(of_id);
        return err_no_memory(err, n * sizeof *tails->ids, "vocabulary trie");
    }
    for (size_t i = 0; i < n; i++) {
        const entry one = list[i];
        if (!tails->n || !span_equal(list[tails->n - 1].bytes, one.bytes)) {
            tails->first[tails->n] = (uint32_t)i;
            list[tails->n] = (entry){.bytes = one.bytes, .id = (int32_t)tails->n};
            tails->n++;
        }
        tails->ids[i] = (uint32_t)one.id;
        of_id[one.id] = tails->n - 1;
    }
    tails->first[tails->n] = (uint32_t)n;
    tails->n_nodes = write_nodes(tails->nodes, list, tails->n);
    for (uint32_t i = 0; i < rest->n_nodes; i++)
        if (rest->nodes[i].id != TRIE_NO_ID) tails->of_node[i] = of_id[rest->nodes[i].id];
    mem_free(of_id);
    return QP_OK;
}

static qp_status build(trie *t, const trie_source *source, entry **list, qp_error *err) {
    size_t n = 0, first = 0;
    ERR_TRY(copy_bytes(t, source, err));
    ERR_TRY(list_entries(t, list, &n, err));
    for (int index = 0; index < TRIE_SLICES; index++) {
        size_t last = first;
        while (last < n && (*list)[last].slice == index) last++;
        ERR_TRY(fill_slice(t, index, *list + first, last - first, err));
        if (index == TRIE_REST) ERR_TRY(fill_tails(t, *list + first, last - first, err));
        first = last;
    }
    return QP_OK;
}

qp_status trie_new(trie **out, const trie_source *source, qp_error *err) {
    *out = NULL;
    if (source->size < 0 || source->size >= TRIE_NO_ID)
        return err_set(err, QP_TOO_LARGE, 0, "vocabulary trie: %d ids, at most 2^24 - 2", source->size);
    trie *t = MEM_NEW(trie);
    if (!t) return err_no_memory(err, sizeof *t, "vocabulary trie");
    t->size = source->size;
    atomic_init(&t->shares, 1);
    entry *list = NULL;
    const qp_status status = build(t, source, &list, err);
    mem_free(list);
    if (status != QP_OK)
        trie_free(t);
    else
        *out = t;
    return status;
}

trie *trie_share(trie *t) {
    atomic_fetch_add_explicit(&t->shares, 1, memory_order_relaxed);
    return t;
}

void trie_free(trie *t) {
    if (!t || atomic_fetch_sub_explicit(&t->shares, 1, memory_order_acq_rel) > 1) return;
    for (int i = 0; i < TRIE_SLICES; i++) {
        mem_free(t->slices[i].nodes);
        mem_free(t->slices[i].mask);
    }
    mem_free(t->tails.nodes);
    mem_free(t->tails.first);
    mem_free(t->tails.ids);
    mem_free(t->tails.of_node);
    mem_free(t->text);
    mem_free(t->offsets);
    mem_free(t->flags);
    mem_free(t->twins);
    mem_free(t->too_long);
    mem_free(t);
}
