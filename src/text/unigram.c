/* unigram.c — the most probable segmentation of a word into pieces with scores.
 *
 * Places are bytes, scores doubles, ties go to the way found first: as in the reference, so that ids agree to the last
 * rounding. Unknown characters cost the lowest score less ten; neighbours among them become one unknown token. */
#include "unigram.h"
#include "uni.h"
#include <stdio.h>
#include <stdlib.h>

static const double UNK_PENALTY = 10.0;

/* ---- the trie ---- */

typedef struct entry {
    span text;
    int32_t id;
} entry;

static int by_text(const void *a, const void *b) {
    const entry *x = a, *y = b;
    const size_t n = x->text.bytes < y->text.bytes ? x->text.bytes : y->text.bytes;
    const int order = memcmp(x->text.at, y->text.at, n);
    return order ? order : (x->text.bytes > y->text.bytes) - (x->text.bytes < y->text.bytes);
}

typedef struct builder {
    unigram *u;
    const entry *entries;
    uint32_t capacity;
    bool failed;
} builder;

static bool room(builder *b, uint32_t n) {
    unigram *u = b->u;
    if (b->capacity - u->n_nodes >= n) return true;
    uint32_t capacity = b->capacity ? b->capacity : 1024;
    while (capacity - u->n_nodes < n) capacity *= 2;
    unigram_node *nodes = mem_resize(u->nodes, capacity, sizeof *nodes);
    if (!nodes) return false;
    u->nodes = nodes;
    b->capacity = capacity;
    return true;
}

/* The rows of one node still to be given children: entries [low, high) share `depth` bytes. */
typedef struct task {
    uint32_t node, low, high, depth;
} task;

static uint32_t group_end(const builder *b, uint32_t low, uint32_t high, uint32_t depth) {
    const char byte = b->entries[low].text.at[depth];
    while (low < high && b->entries[low].text.at[depth] == byte) low++;
    return low;
}

/* Makes the children of one node side by side and queues them. */
static bool expand(builder *b, task t, task *queue, size_t *n_queue) {
    uint32_t n = 0;
    while (t.low < t.high && b->entries[t.low].text.bytes == t.depth) t.low++;
    for (uint32_t i = t.low; i < t.high; i = group_end(b, i, t.high, t.depth)) n++;
    if (!room(b, n)) return false;
    uint32_t child = b->u->n_nodes;
    b->u->nodes[t.node].first_child = child;
    b->u->nodes[t.node].n_children = (uint16_t)n;
    b->u->n_nodes += n;
    for (uint32_t i = t.low, end; i < t.high; i = end, child++) {
        end = group_end(b, i, t.high, t.depth);
        const bool is_end = b->entries[i].text.bytes == t.depth + 1;
        b->u->nodes[child] =
            (unigram_node){.id = is_end ? b->entries[i].id : -1, .byte = (uint8_t)b->entries[i].text.at[t.depth]};
        queue[(*n_queue)++] = (task){child, i, end, t.depth + 1};
    }
    return true;
}

/* Breadth is kept small by working on the newest task first. */
static bool build(builder *b, uint32_t n) {
    size_t n_queue = 0;
    task *queue = mem_array((size_t)n * 2 + 512, sizeof *queue);
    if (!queue || !room(b, 1)) return mem_free(queue), false;
    b->u->nodes[b->u->n_nodes++] = (unigram_node){.id = -1};
    queue[n_queue++] = (task){0, 0, n, 0};
    bool ok = true;
    while (n_queue && ok) {
        const task t = queue[--n_queue];
        ok = expand(b, t, queue, &n_queue);
    }
    mem_free(queue);
    const unigram_node *root = &b->u->nodes[0];
    for (uint32_t i = 0; ok && i < root->n_children; i++)
        b->u->roots[b->u->nodes[root->first_child + i].byte] = root->first_child + i;
    return ok;
}

static uint32_t child_of(const unigram *u, uint32_t node, uint8_t byte) {
    const unigram_node *n = &u->nodes[node];
    uint32_t low = n->first_child, high = low + n->n_children;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (u->nodes[mid].byte < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n->first_child + n->n_children && u->nodes[low].byte == byte ? low : 0;
}

qp_status unigram_open(unigram *u, const vocab *words, double *scores, int32_t unk, bool byte_fallback,
                       const bool *may_find, qp_error *err) {
    *u = (unigram){.words = words, .scores = scores, .unk = unk, .byte_fallback = byte_fallback};
    double lowest = 1e300;
    entry *entries = mem_array((size_t)words->n_entries + 1, sizeof *entries);
    if (!entries) return err_no_memory(err, words->n_entries * sizeof *entries, "unigram pieces");
    uint32_t n = 0;
    for (const vocab_entry *e = NULL; (e = vocab_next(words, e));) {
        if (may_find && !may_find[e->id]) continue;
        if (scores[e->id] < lowest) lowest = scores[e->id];
        if (e->bytes) entries[n++] = (entry){{e->text, e->bytes}, e->id};
    }
    u->unk_score = lowest - UNK_PENALTY;
    qsort(entries, n, sizeof *entries, by_text);
    builder b = {.u = u, .entries = entries};
    const bool ok = build(&b, n);
    mem_free(entries);
    if (!ok) return err_no_memory(err, words->pool_bytes * sizeof *u->nodes, "unigram trie");
    for (int i = 0; i < 256; i++) {
        char name[8];
        const int bytes = snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        u->byte_ids[i] = vocab_id(words, (span){name, (size_t)bytes});
    }
    return QP_OK;
}

void unigram_free(unigram *u) {
    mem_free(u->nodes);
    mem_free(u->scores);
    *u = (unigram){0};
}

void unigram_scratch_free(unigram_scratch *s) {
    mem_free(s->best);
    idvec_free(&s->starts);
    *s = (unigram_scratch){0};
}

/* ---- Viterbi ---- */

static void offer(unigram_best *to, double score, int32_t id, size_t start) {
    if (to->start < 0 || score > to->score) *to = (unigram_best){score, id, (int32_t)start};
}

static double sum(const unigram *u, double a, double b) { return u->in_float ? (double)((float)a + (float)b) : a + b; }

/* Offers all pieces that begin at `at`; whether one of them is exactly the character there. */
static bool offer_pieces(const unigram *u, unigram_best *best, span word, size_t at, size_t length) {
    bool has_character = false;
    const double before = best[at].score;
    uint32_t node = u->roots[(uint8_t)word.at[at]];
    for (size_t end = at + 1; node; end++) {
        const int32_t id = u->nodes[node].id;
        if (id >= 0) {
            offer(&best[end], sum(u, u->scores[id], before), id, at);
            if (end - at == length) has_character = true;
        }
        if (end == word.bytes) break;
        node = child_of(u, node, (uint8_t)word.at[end]);
    }
    return has_character;
}

static bool forward(const unigram *u, unigram_best *best, span word) {
    for (size_t i = 0; i <= word.bytes; i++) best[i] = (unigram_best){0, 0, -1};
    for (size_t at = 0, length; at < word.bytes; at += length) {
        uint32_t c;
        length = (size_t)uni_next(word.at + at, &c);
        if (offer_pieces(u, best, word, at, length)) continue;
        if (u->unk < 0) return false;
        offer(&best[at + length], sum(u, u->unk_score, best[at].score), u->unk, at);
    }
    return true;
}

/* The id of a segment is looked up by its text, as unknown neighbours may together be a piece. */
static void add_segment(const unigram *u, span text, idvec *out) {
    const int32_t id = text.bytes <= u->words->longest ? vocab_id(u->words, text) : -1;
    bool has_bytes = id < 0 && u->byte_fallback;
    for (size_t i = 0; i < text.bytes && has_bytes; i++) has_bytes = u->byte_ids[(uint8_t)text.at[i]] >= 0;
    if (id >= 0)
        idvec_add(out, id);
    else if (!has_bytes)
        idvec_add(out, u->unk);
    else
        for (size_t i = 0; i < text.bytes; i++) idvec_add(out, u->byte_ids[(uint8_t)text.at[i]]);
}

/* Walks back along the best way, noting where each segment begins; neighbouring unknowns are one. */
static void note_segments(const unigram *u, const unigram_best *best, size_t end, idvec *starts) {
    bool in_unknown = false;
    starts->n = 0;
    while (end > 0) {
        const unigram_best *b = &best[end];
        const bool is_unknown = u->unk >= 0 && b->id == u->unk;
        if (is_unknown && in_unknown)
            starts->at[starts->n - 1] = b->start;
        else
            idvec_add(starts, b->start);
        if (starts->failed) return;
        in_unknown = is_unknown;
        end = (size_t)b->start;
    }
}

qp_status unigram_encode(const unigram *u, unigram_scratch *s, span word, idvec *out, qp_error *err) {
    if (word.bytes >= INT32_MAX / 2) return err_set(err, QP_TOO_LARGE, 0, "unigram: a word of %zu bytes", word.bytes);
    if (s->capacity < word.bytes + 1) {
        mem_free(s->best);
        s->capacity = (word.bytes + 1) * 2;
        s->best = mem_array(s->capacity, sizeof *s->best);
        if (!s->best) return s->capacity = 0, err_no_memory(err, word.bytes * sizeof *s->best, "unigram");
    }
    if (!forward(u, s->best, word))
        return err_set(err, QP_BAD_FORMAT, 0, "unigram: an unknown character, but the file has no unk_id");
    note_segments(u, s->best, word.bytes, &s->starts);
    if (s->starts.failed) return err_no_memory(err, word.bytes, "unigram");
    for (size_t i = s->starts.n; i-- > 0;) {
        const size_t start = (size_t)s->starts.at[i], end = i ? (size_t)s->starts.at[i - 1] : word.bytes;
        add_segment(u, (span){word.at + start, end - start}, out);
    }
    return QP_OK;
}
