/* room.c — taking and giving back the scratch arrays, all or none. */
#include "room.h"
#include "num.h"
#include "base/mem.h"

enum { MOST_ARRAYS = 24 };

typedef struct part {
    void **at;
    size_t count;
} part;

/* All elements are of four bytes. */
static int list_parts(sampler_room *r, part parts[MOST_ARRAYS]) {
    const size_t n = (size_t)r->n_vocabulary, blocks = (size_t)row_blocks(r->n_vocabulary);
    const size_t listed = (blocks + 1) * ROW_BLOCK; /* sweeps write a little further */
    const part all[] = {
        {(void **)&r->row.homes, blocks / 4 + 1},
        {(void **)&r->row.copies, listed},
        {(void **)&r->row.peaks, ROW_MOST_GROUPS},
        {(void **)&r->masses, ROW_MOST_GROUPS},
        {(void **)&r->list.ids, listed},
        {(void **)&r->list.x, listed},
        {(void **)&r->list.p, listed},
        {(void **)&r->list.keys, listed},
        {(void **)&r->list.scratch, listed},
        {(void **)&r->guided, n},
        {(void **)&r->raw_peaks, ROW_MOST_GROUPS},
        {(void **)&r->raw_masses, ROW_MOST_GROUPS},
        {(void **)&r->dry_length, n},
        {(void **)&r->dry_count, n},
        {(void **)&r->dry_ids, n},
        {(void **)&r->seen, blocks},
    };
    memcpy(parts, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

qp_status sampler_room_new(sampler_room **out, int n_vocabulary, qp_error *err) {
    *out = NULL;
    if (n_vocabulary < 1 || n_vocabulary > SAMPLER_MOST_TOKENS)
        return err_set(err, QP_BAD_ARGUMENT, 0, "sampling: the vocabulary is %d, allowed are 1 to %d", n_vocabulary,
                       SAMPLER_MOST_TOKENS);
    sampler_room *r = MEM_NEW(sampler_room);
    if (!r) return err_no_memory(err, sizeof *r, "sampling");
    r->n_vocabulary = n_vocabulary;
    r->sweep = sweep_best();
    part parts[MOST_ARRAYS];
    const int n = list_parts(r, parts);
    for (int i = 0; i < n; i++) {
        *parts[i].at = mem_zarray(parts[i].count, sizeof(uint32_t));
        if (*parts[i].at) continue;
        sampler_room_free(r);
        return err_no_memory(err, parts[i].count * sizeof(uint32_t), "sampling");
    }
    *out = r;
    return QP_OK;
}

void sampler_room_free(sampler_room *r) {
    if (!r) return;
    part parts[MOST_ARRAYS];
    const int n = list_parts(r, parts);
    for (int i = 0; i < n; i++) mem_free(*parts[i].at);
    mem_free(r);
}

double room_log_mass(sampler_room *room, const float *logits, int n) {
    logit_row raw = row_plain(logits, n, room->raw_peaks);
    room->sweep->peaks(&raw);
    if (!(raw.highest > -INFINITY && raw.highest < INFINITY)) return raw.highest;
    const softmax_curve c = {raw.highest, (float)NUM_LOG2_E, 0};
    return raw.highest + num_ln(room->sweep->masses(room->raw_masses, &raw, &c));
}
