/* arch_slots.c — what can be asked of slots: names, lengths, and which layers have them.
 *
 * Answered from the rows and the shape alone, so that bind.c and `inspect` cannot disagree. */
#include "arch.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    slot_many many;
} slots[SLOT_COUNT] = {
#define X(name, many) {#name, SLOT_##many},
    SLOTS(X)
#undef X
};

const char *slot_name(slot s) { return (unsigned)s < SLOT_COUNT ? slots[s].name : "?"; }
slot_many slot_count(slot s) { return (unsigned)s < SLOT_COUNT ? slots[s].many : SLOT_ONCE; }
bool slot_is_per_layer(slot s) { return slot_count(s) != SLOT_ONCE; }

int slot_members(slot s, const model_shape *shape) {
    const slot_many many = slot_count(s);
    return many == SLOT_PER_EXPERT ? shape->route.n_experts : many == SLOT_PER_HEAD ? shape->n_heads : 1;
}

bool slot_row_is_split(const slot_row *row) {
    const char *first = strstr(row->pattern, "%d");
    return first && strstr(first + 2, "%d");
}

/* ---- lengths ---- */

int64_t shape_dim(const model_shape *s, dim d) {
    const int64_t lengths[DIM_COUNT] = {
        [DIM_NONE] = 0,
        [DIM_ONE] = 1,
        [DIM_HIDDEN] = s->hidden,
        [DIM_Q] = (int64_t)s->n_heads * s->head_dim,
        [DIM_KV] = (int64_t)s->n_kv_heads * s->head_dim,
        [DIM_HEAD] = s->head_dim,
        [DIM_HEADS] = s->n_heads,
        [DIM_O] = (int64_t)s->n_heads * s->v_dim,
        [DIM_FFN] = s->ffn,
        [DIM_VOCAB] = s->vocabulary,
        [DIM_POSITIONS] = s->learned_positions,
        [DIM_EXPERTS] = s->route.n_experts,
        [DIM_EXPERT_FFN] = s->expert_ffn,
        [DIM_SHARED_FFN] = s->shared_ffn,
        [DIM_Q_RANK] = s->q_rank,
        [DIM_KV_RANK] = s->kv_rank,
        [DIM_LATENT] = s->kv_rank + s->rope_dim,
        [DIM_NOPE] = s->nope_dim,
        [DIM_V_HEAD] = s->v_dim,
    };
    return (unsigned)d < DIM_COUNT ? lengths[d] : 0;
}

/* ---- who has them ---- */

bool shape_needs(const model_shape *s, slot_need need, int layer) {
    const layer_kind *l = &s->layers[layer < s->n_layers ? layer : 0];
    const bool experts = l->ffn == FFN_EXPERTS, two_norms = !s->is_parallel || !s->has_one_norm;
    const bool needs[NEED_COUNT] = {
        [NEED_ALWAYS] = true,
        [NEED_UNTIED] = !s->tied,
        [NEED_HEAD_BIAS] = s->head_bias,
        [NEED_NORM_BIAS] = s->norm_bias,
        [NEED_QKV_BIAS] = s->qkv_bias,
        [NEED_O_BIAS] = s->o_bias,
        [NEED_QK_NORM] = l->has_qk_norm && s->qk_norm != QK_NORM_UNIT_LAST,
        [NEED_Q_RANK] = s->q_rank > 0,
        [NEED_NO_Q_RANK] = s->q_rank == 0,
        [NEED_Q_RANK_BIAS] = s->q_rank > 0 && s->qkv_bias,
        [NEED_TWO_NORMS] = two_norms,
        [NEED_TWO_NORM_BIASES] = two_norms && s->norm_bias,
        [NEED_ONE_INPUT] = !s->is_parallel || s->has_one_norm,
        [NEED_TWO_INPUTS] = s->is_parallel && !s->has_one_norm,
        [NEED_SEQUENTIAL] = !s->is_parallel,
        [NEED_POST_NORM] = s->norm_after,
        [NEED_DENSE] = !experts,
        [NEED_MLP_BIAS] = !experts && s->mlp_bias,
        [NEED_EXPERTS] = experts,
        [NEED_EXPERT_BIAS] = experts && s->has_expert_bias,
        [NEED_ROUTER_BIAS] = experts && s->has_router_bias,
        [NEED_ROUTE_BIAS] = experts && s->has_route_bias,
        [NEED_SHARED] = experts && s->shared_ffn > 0,
        [NEED_SHARED_SWITCH] = experts && s->shared_ffn > 0 && s->has_shared_switch,
    };
    return (unsigned)need < NEED_COUNT && needs[need];
}

/* ---- names ---- */

/* The pattern's text up to its next %d (or its end), which *pattern moves behind; `number` is written for the %d. */
static int write_until_hole(char *out, size_t capacity, const char **pattern, int number) {
    const char *hole = strstr(*pattern, "%d");
    const int before = (int)(hole ? (size_t)(hole - *pattern) : strlen(*pattern));
    const int n =
        hole ? snprintf(out, capacity, "%.*s%d", before, *pattern, number) : snprintf(out, capacity, "%s", *pattern);
    *pattern += before + (hole ? 2 : 0);
    return n;
}

qp_status slot_tensor_name(char *out, size_t capacity, const slot_row *row, int layer, int member, qp_error *err) {
    const char *pattern = row->pattern;
    size_t used = 0;
    for (int hole = 0; *pattern && used < capacity; hole++) {
        const int n = write_until_hole(out + used, capacity - used, &pattern, hole ? member : layer);
        used = n < 0 ? capacity : used + (size_t)n;
    }
    if (used < capacity) return QP_OK;
    return err_set(err, QP_TOO_LARGE, 0, "%s: the tensor's name is longer than %zu bytes", row->pattern, capacity - 1);
}

/* The number at *text, which moves behind it; -1 if it is not written as a number is. */
static int read_number(const char **text, int limit) {
    const char *at = *text;
    int number = 0;
    if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9')) return -1;
    for (; *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (*at - '0');
        if (number >= limit) return -1;
    }
    *text = at;
    return number;
}

/* holes[0]: the layer, holes[1]: the expert; 0 where the pattern has none. */
static bool pattern_matches(const char *pattern, const char *name, int *holes) {
    holes[0] = holes[1] = 0;
    for (int i = 0; i < 2; i++) {
        const char *hole = strstr(pattern, "%d");
        if (!hole) break;
        const size_t before = (size_t)(hole - pattern);
        if (strncmp(pattern, name, before)) return false;
        name += before;
        pattern = hole + 2;
        holes[i] = read_number(&name, i ? SHAPE_MAX_EXPERTS : SHAPE_MAX_LAYERS);
        if (holes[i] < 0) return false;
    }
    return !strcmp(pattern, name);
}

bool arch_match(const arch_row *row, const model_shape *s, const char *name, slot *out, int *layer) {
    for (const slot_row *r = row->slots; r->pattern; r++) {
        int holes[2];
        if (!pattern_matches(r->pattern, name, holes)) continue;
        const bool is_there = holes[0] < s->n_layers && holes[1] < slot_members(r->slot, s);
        *out = r->slot;
        *layer = holes[0];
        if (is_there && shape_needs(s, r->need, holes[0])) return true;
    }
    return false;
}
