/* lexer.c — states of the terminal automaton: found by their parts, stepped by derivatives. */
#include "lexer.h"
#include "base/hash.h"
#include <stdio.h>

static uint32_t fail(lexer *l, qp_status status, const char *what, size_t limit) {
    if (l->failed == QP_OK) {
        l->failed = status;
        snprintf(l->why, sizeof l->why, "automaton: %s: over %zu", what, limit);
    }
    return 0;
}

static bool make_room(lexer *l, void *array, uint32_t *room, uint32_t used, size_t more, size_t size) {
    if (l->failed != QP_OK) return false;
    if (more <= *room - used) return true;
    size_t wanted = *room ? (size_t)*room * 2 : 64;
    while (wanted - used < more) wanted *= 2;
    if (wanted >= LEXER_STATE || (wanted - *room) * size > l->limit_bytes - l->bytes)
        return fail(l, QP_TOO_LARGE, "bytes of memory", l->limit_bytes), false;
    void *old, *fresh;
    memcpy(&old, array, sizeof old);
    fresh = mem_resize(old, wanted, size);
    if (!fresh) return fail(l, QP_NO_MEMORY, "out of memory", wanted * size), false;
    memcpy(array, &fresh, sizeof fresh);
    l->bytes += (wanted - *room) * size;
    *room = (uint32_t)wanted;
    return true;
}

static uint64_t hash_state(const lexer_part *parts, uint32_t n, const uint32_t *complete, uint32_t n_complete) {
    const uint64_t h = n ? hash_bytes(parts, n * sizeof *parts, n) : 0;
    return n_complete ? hash_bytes(complete, n_complete * sizeof *complete, h + 1) : h;
}

/* Nothing where there are none: before the first the array itself is not there. */
static const lexer_part *parts_of(const lexer *l, const lexer_state *s) {
    return s->n_parts ? l->parts + s->parts : NULL;
}

static const uint32_t *complete_of(const lexer *l, const lexer_state *s) {
    return s->n_complete ? l->completed + s->complete : NULL;
}

static bool grow_table(lexer *l) {
    if ((l->n_states + 1) * 2 < l->table_room) return true;
    const uint32_t room = l->table_room ? l->table_room * 2 : 256;
    uint32_t *table = mem_zarray(room, sizeof *table);
    if (!table) return fail(l, QP_NO_MEMORY, "out of memory", room), false;
    for (uint32_t i = LEXER_REST + 1; i < l->n_states; i++) {
        const lexer_state *s = &l->states[i];
        uint32_t at = (uint32_t)hash_state(parts_of(l, s), s->n_parts, complete_of(l, s), s->n_complete) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = i;
    }
    mem_free(l->table);
    l->table = table;
    l->table_room = room;
    return true;
}

static bool is_state(const lexer *l, uint32_t state, const lexer_part *parts, uint32_t n, const uint32_t *complete,
                     uint32_t n_complete) {
    const lexer_state *s = &l->states[state];
    return s->n_parts == n && s->n_complete == n_complete &&
           (!n || !memcmp(l->parts + s->parts, parts, n * sizeof *parts)) &&
           (!n_complete || !memcmp(l->completed + s->complete, complete, n_complete * sizeof *complete));
}

static uint32_t add_state(lexer *l, const lexer_part *parts, uint32_t n, const uint32_t *complete,
                          uint32_t n_complete) {
    if (l->n_states >= l->limit_states) return fail(l, QP_TOO_LARGE, "states", l->limit_states);
    if (!make_room(l, &l->states, &l->state_room, l->n_states, 1, sizeof *l->states) ||
        !make_room(l, &l->parts, &l->part_room, l->n_parts, n, sizeof *l->parts) ||
        !make_room(l, &l->completed, &l->completed_room, l->n_completed, n_complete, sizeof *l->completed))
        return 0;
    if (n) memcpy(l->parts + l->n_parts, parts, n * sizeof *parts);
    if (n_complete) memcpy(l->completed + l->n_completed, complete, n_complete * sizeof *complete);
    l->states[l->n_states] =
        (lexer_state){.parts = l->n_parts, .n_parts = n, .complete = l->n_completed, .n_complete = n_complete};
    l->n_parts += n;
    l->n_completed += n_complete;
    return l->n_states++;
}

/* The state of these parts, old or new, with its flag. */
static uint32_t find_state(lexer *l, const lexer_part *parts, uint32_t n, const uint32_t *complete,
                           uint32_t n_complete) {
    if (n == 0 && n_complete == 0) return LEXER_DEAD;
    if (!grow_table(l)) return 0;
    uint32_t at = (uint32_t)hash_state(parts, n, complete, n_complete) & (l->table_room - 1);
    for (; l->table[at]; at = (at + 1) & (l->table_room - 1))
        if (is_state(l, l->table[at], parts, n, complete, n_complete)) break;
    if (!l->table[at]) l->table[at] = add_state(l, parts, n, complete, n_complete);
    const uint32_t found = l->table[at];
    return found && n_complete ? found | LEXER_COMPLETE : found;
}

uint32_t lexer_start(lexer *l, const uint32_t *terminals, uint32_t n) {
    if (n == 0) return LEXER_REST;
    lexer_part few[64], *parts = few;
    if (n > 64) parts = mem_array(n, sizeof *parts);
    if (!parts) return fail(l, QP_NO_MEMORY, "out of memory", n);
    for (uint32_t i = 0; i < n; i++)
        parts[i] = (lexer_part){terminals[i], l->grammar->terminals[terminals[i]].language};
    const uint32_t state = find_state(l, parts, n, NULL, 0);
    if (parts != few) mem_free(parts);
    return state;
}

/* What is alive after the byte and which terminals are complete then. *same is cut to the bytes that do the same. */
static uint32_t step_parts(lexer *l, uint32_t state, uint8_t byte, lexer_part *parts, uint32_t *complete,
                           rx_set *same) {
    const uint32_t first = l->states[state].parts, n_old = l->states[state].n_parts;
    uint32_t n = 0, n_complete = 0, n_lazy = 0;
    for (uint32_t i = 0; i < n_old; i++) {
        const lexer_part old = l->parts[first + i];
        const rx left = rx_derive_class(l->pool, old.left, byte, same);
        if (left == RX_NONE || !rx_has_word(l->pool, left)) continue;
        if (rx_nullable(l->pool, left)) {
            const bool is_lazy = l->grammar->terminals[old.terminal].lazy;
            if (is_lazy && n_lazy == 0) n_complete = 0; /* it wins over those before */
            n_lazy += is_lazy;
            if (is_lazy || n_lazy == 0) complete[n_complete++] = old.terminal;
        }
        if (left != RX_EMPTY) parts[n++] = (lexer_part){old.terminal, left};
    }
    return find_state(l, parts, n_lazy ? 0 : n, complete, n_complete);
}

static bool has_row(lexer *l, uint32_t state) {
    if (l->states[state].row) return true;
    if (256 * sizeof(uint32_t) > l->limit_bytes - l->bytes)
        return fail(l, QP_TOO_LARGE, "bytes of memory", l->limit_bytes);
    uint32_t *row = arena_zget(&l->rows, 256, sizeof *row);
    if (!row) return fail(l, QP_NO_MEMORY, "out of memory", 256 * sizeof *row);
    l->bytes += 256 * sizeof *row;
    l->states[state].row = row;
    return true;
}

uint32_t lexer_fill(lexer *l, uint32_t state, uint8_t byte) {
    if (state <= LEXER_REST) return LEXER_DEAD;
    const uint32_t n = l->states[state].n_parts;
    if (l->failed != QP_OK || !has_row(l, state)) return 0;
    lexer_part few[64], *parts = few;
    uint32_t few_complete[64], *complete = few_complete;
    if (n > 64) {
        parts = mem_array(n, sizeof *parts);
        complete = parts ? mem_array(n, sizeof *complete) : NULL;
        if (!complete) return mem_free(parts), fail(l, QP_NO_MEMORY, "out of memory", n);
    }
    rx_set same = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    const uint32_t next = step_parts(l, state, byte, parts, complete, &same);
    if (n > 64) mem_free(parts), mem_free(complete);
    qp_error why;
    if (rx_status(l->pool, &why) != QP_OK) return fail(l, why.code, why.text, 0);
    uint32_t *const row = l->states[state].row;
    for (int w = 0; w < 4; w++)
        for (uint64_t bits = same.bits[w]; bits; bits &= bits - 1) row[w * 64 + __builtin_ctzll(bits)] = next;
    return next;
}

qp_status lexer_open(lexer *l, const cfg *grammar, rx_pool *pool, size_t limit_states, size_t limit_bytes,
                     qp_error *err) {
    *l = (lexer){.pool = pool,
                 .grammar = grammar,
                 .limit_states = limit_states,
                 .limit_bytes = limit_bytes,
                 .rows = {.block_bytes = 1 << 15}};
    for (uint32_t i = 0; i <= LEXER_REST; i++) add_state(l, NULL, 0, NULL, 0);
    const qp_status status = lexer_status(l, err);
    if (status != QP_OK) lexer_close(l);
    return status;
}

void lexer_close(lexer *l) {
    mem_free(l->states);
    mem_free(l->parts);
    mem_free(l->completed);
    mem_free(l->table);
    mem_free(l->blurred);
    arena_free(&l->rows);
    *l = (lexer){.pool = NULL};
}

qp_status lexer_status(const lexer *l, qp_error *err) {
    if (l->failed != QP_OK) return err_set(err, l->failed, 0, "%s", l->why);
    return rx_status(l->pool, err);
}

/* The class is the state itself or, with counts inside, the state of the blurred parts. */
uint32_t lexer_class(lexer *l, uint32_t state) {
    if (l->states[state].class || state <= LEXER_REST) return state <= LEXER_REST ? state : l->states[state].class;
    const uint32_t first = l->states[state].parts, n = l->states[state].n_parts;
    lexer_part few[64], *parts = n > 64 ? mem_array(n, sizeof *parts) : few;
    if (!parts) return fail(l, QP_NO_MEMORY, "out of memory", n);
    bool is_same = true;
    for (uint32_t i = 0; i < n; i++) {
        const lexer_part old = l->parts[first + i];
        parts[i] = (lexer_part){old.terminal, rx_blur(l->pool, old.left, LEXER_BLUR)};
        is_same &= parts[i].left == old.left;
    }
    uint32_t class = state;
    if (!is_same) class = find_state(l, parts, n, NULL, 0) & LEXER_STATE;
    if (parts != few) mem_free(parts);
    l->states[state].class = class;
    return class;
}
