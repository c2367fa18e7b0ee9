/* rx_build.c — regex nodes in normal form: what is simplified before a node is made.
 *
 * Unions and intersections are flat, sorted and without duplicates; byte sets in them are one set; neutral and
 * absorbing parts vanish; neighbouring counts of the same thing are one count. Equal results then have equal numbers,
 * which is what keeps the automaton of derivatives small without a minimisation. */
#include "rx_node.h"
#include "base/mem.h"
#include <stdlib.h>

enum { FEW_KIDS = 32, SHORT_SPINE = 16 };

static bool set_is_empty(const rx_set *s) { return !(s->bits[0] | s->bits[1] | s->bits[2] | s->bits[3]); }

static int only_byte(const rx_set *s) {
    int found = -1;
    for (int i = 0; i < 4; i++) {
        if (!s->bits[i]) continue;
        if (found >= 0 || s->bits[i] & (s->bits[i] - 1)) return -1;
        found = i * 64 + __builtin_ctzll(s->bits[i]);
    }
    return found;
}

/* The set is put behind the others to be compared, and taken away again if it is known. */
static rx add_set(rx_pool *p, const rx_set *set) {
    if (!rx_room(p, &p->sets, &p->set_room, p->n_sets, 1, sizeof *p->sets)) return RX_NONE;
    p->sets[p->n_sets] = *set;
    const rx made = rx_intern(p, &(rx_node){.op = RX_OP_SET, .a = p->n_sets}, NULL);
    if (p->failed == QP_OK && rx_at(p, made)->a == p->n_sets) p->n_sets++;
    return made;
}

rx rx_bytes(rx_pool *p, const rx_set *set) {
    if (set_is_empty(set)) return RX_NONE;
    const rx_set copy = *set; /* it may lie in the array that grows */
    const int byte = only_byte(set);
    if (byte < 0) return add_set(p, &copy);
    if (p->single[byte] == RX_NONE) p->single[byte] = add_set(p, &copy);
    return p->single[byte];
}

rx rx_byte_range(rx_pool *p, uint8_t first, uint8_t last) {
    rx_set set = {{0}};
    for (int b = first; b <= last; b++) rx_set_add(&set, (uint8_t)b);
    return rx_bytes(p, &set);
}

rx rx_text(rx_pool *p, span text) {
    rx all = RX_EMPTY;
    for (size_t i = text.bytes; i-- > 0 && p->failed == QP_OK;)
        all = rx_concat(p, rx_byte_range(p, (uint8_t)text.at[i], (uint8_t)text.at[i]), all);
    return p->failed == QP_OK ? all : RX_NONE;
}

static rx make_concat(rx_pool *p, rx a, rx b) {
    return rx_intern(p, &(rx_node){.op = RX_OP_CONCAT, .a = a, .b = b}, NULL);
}

rx rx_concat(rx_pool *p, rx a, rx b) {
    if (a == RX_NONE || b == RX_NONE) return RX_NONE;
    if (a == RX_EMPTY) return b;
    if (b == RX_EMPTY) return a;
    if (a == RX_ALL && b == RX_ALL) return a;
    rx spine[SHORT_SPINE];
    int n = 0;
    for (rx at = a; n < SHORT_SPINE; at = rx_at(p, at)->b) {
        const bool is_concat = rx_is(p, at, RX_OP_CONCAT);
        spine[n++] = is_concat ? rx_at(p, at)->a : at;
        if (is_concat) continue;
        while (n-- > 0) b = make_concat(p, spine[n], b);
        return b;
    }
    return make_concat(p, a, b); /* a long one is not taken apart: that would cost its length at each step */
}

rx rx_concat_n(rx_pool *p, const rx *parts, size_t n) {
    rx all = RX_EMPTY;
    while (n-- > 0) all = rx_concat(p, parts[n], all);
    return all;
}

/* ---- unions and intersections ---- */

typedef struct rx_list {
    rx few[FEW_KIDS];
    rx *at;
    size_t n, room;
} rx_list;

static bool list_add(rx_pool *p, rx_list *l, rx a) {
    if (l->n == l->room) {
        rx *more = mem_array(l->room * 2, sizeof *more);
        if (!more) return rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", l->room), false;
        memcpy(more, l->at, l->n * sizeof *more);
        if (l->at != l->few) mem_free(l->at);
        l->at = more;
        l->room *= 2;
    }
    l->at[l->n++] = a;
    return true;
}

static void list_free(rx_list *l) {
    if (l->at != l->few) mem_free(l->at);
}

static int by_number(const void *a, const void *b) {
    const rx x = *(const rx *)a, y = *(const rx *)b;
    return (x > y) - (x < y);
}

/* All parts, those of parts with the same operator instead of it; byte sets are joined into one. */
static bool flatten(rx_pool *p, rx_list *l, rx_op op, const rx *parts, size_t n) {
    rx_set set = {{0}};
    bool has_set = false;
    if (!rx_step(p, n)) return false;
    for (size_t i = 0; i < n; i++) {
        const rx_node *node = rx_at(p, parts[i]);
        const rx alone[1] = {parts[i]};
        const rx *kids = node->op == op ? &p->kids[node->a] : alone;
        const uint32_t n_kids = node->op == op ? node->b : 1;
        for (uint32_t k = 0; k < n_kids; k++) {
            if (!rx_is(p, kids[k], RX_OP_SET)) {
                if (!list_add(p, l, kids[k])) return false;
                continue;
            }
            const rx_set *other = rx_set_of(p, kids[k]);
            for (int w = 0; w < 4; w++)
                set.bits[w] = op == RX_OP_OR || !has_set ? set.bits[w] | other->bits[w] : set.bits[w] & other->bits[w];
            has_set = true;
        }
    }
    return !has_set || list_add(p, l, rx_bytes(p, &set));
}

static void sort_unique(rx_list *l) {
    for (size_t i = 1; i < l->n; i++) {
        if (l->at[i - 1] < l->at[i]) continue;
        qsort(l->at, l->n, sizeof *l->at, by_number);
        break;
    }
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (!n || l->at[n - 1] != l->at[i]) l->at[n++] = l->at[i];
    l->n = n;
}

static bool has(const rx_list *l, rx a) { return l->n && bsearch(&a, l->at, l->n, sizeof a, by_number); }

static rx find_not(const rx_pool *p, rx a) { return rx_is(p, a, RX_OP_NOT) ? rx_at(p, a)->a : RX_NONE; }

/* x and not-x are both there. */
static bool has_opposites(const rx_pool *p, const rx_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        const rx inner = find_not(p, l->at[i]);
        if (inner != RX_NONE && has(l, inner)) return true;
    }
    return false;
}

/* repeat, tail: a = R{min,max}·tail. */
static bool as_count(const rx_pool *p, rx a, const rx_node **repeat, rx *tail) {
    const rx_node *n = rx_at(p, a);
    *tail = n->op == RX_OP_CONCAT ? n->b : RX_EMPTY;
    *repeat = n->op == RX_OP_CONCAT ? rx_at(p, n->a) : n;
    return (*repeat)->op == RX_OP_REPEAT;
}

/* R{a,b}·T | R{c,d}·T is one count where the ranges touch: without it nested counts have a state per subset. */
static rx joined_counts(rx_pool *p, rx a, rx b) {
    const rx_node *x, *y;
    rx x_tail, y_tail;
    if (!as_count(p, a, &x, &x_tail) || !as_count(p, b, &y, &y_tail)) return RX_NONE;
    if (x->a != y->a || x_tail != y_tail) return RX_NONE;
    if (x->min > y->min) {
        const rx_node *swap = x;
        x = y, y = swap;
    }
    if (x->max != RX_INFINITE && y->min > x->max && y->min - x->max > 1) return RX_NONE;
    const uint32_t max = x->max > y->max ? x->max : y->max;
    return rx_concat(p, rx_repeat(p, x->a, x->min, max), x_tail);
}

static bool join_counts(rx_pool *p, rx_list *l) {
    bool joined = false;
    for (size_t i = 0; l->n <= FEW_KIDS && i < l->n; i++)
        for (size_t j = i + 1; j < l->n;) {
            const rx both = joined_counts(p, l->at[i], l->at[j]);
            if (both == RX_NONE) {
                j++;
                continue;
            }
            l->at[i] = both;
            l->at[j] = l->at[--l->n];
            joined = true;
            j = i + 1;
        }
    return joined;
}

static void drop(rx_list *l, rx a) {
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i] != a) l->at[n++] = l->at[i];
    l->n = n;
}

static rx finish_or(rx_pool *p, rx_list *l) {
    sort_unique(l);
    if (join_counts(p, l)) sort_unique(l);
    drop(l, RX_NONE);
    if (has(l, RX_ALL) || has_opposites(p, l)) return RX_ALL;
    if (has(l, RX_EMPTY)) {
        bool other = false;
        for (size_t i = 0; i < l->n; i++) other |= l->at[i] != RX_EMPTY && rx_nullable(p, l->at[i]);
        if (other) drop(l, RX_EMPTY);
    }
    if (l->n == 0) return RX_NONE;
    if (l->n == 1) return l->at[0];
    return rx_intern(p, &(rx_node){.op = RX_OP_OR, .b = (uint32_t)l->n}, l->at);
}

static rx finish_and(rx_pool *p, rx_list *l) {
    sort_unique(l);
    drop(l, RX_ALL);
    if (has(l, RX_NONE) || has_opposites(p, l)) return RX_NONE;
    if (has(l, RX_EMPTY)) {
        for (size_t i = 0; i < l->n; i++)
            if (!rx_nullable(p, l->at[i])) return RX_NONE;
        return RX_EMPTY;
    }
    if (l->n == 0) return RX_ALL;
    if (l->n == 1) return l->at[0];
    return rx_intern(p, &(rx_node){.op = RX_OP_AND, .b = (uint32_t)l->n}, l->at);
}

static rx combine(rx_pool *p, rx_op op, const rx *parts, size_t n) {
    rx_list l = {.room = FEW_KIDS};
    l.at = l.few;
    rx result = RX_NONE;
    if (flatten(p, &l, op, parts, n)) result = op == RX_OP_OR ? finish_or(p, &l) : finish_and(p, &l);
    list_free(&l);
    return p->failed == QP_OK ? result : RX_NONE;
}

rx rx_or_n(rx_pool *p, const rx *parts, size_t n) { return combine(p, RX_OP_OR, parts, n); }

rx rx_or(rx_pool *p, rx a, rx b) {
    if (a == b || b == RX_NONE) return a;
    if (a == RX_NONE) return b;
    const rx both[2] = {a, b};
    return rx_or_n(p, both, 2);
}

rx rx_and(rx_pool *p, rx a, rx b) {
    if (a == b || b == RX_ALL) return a;
    if (a == RX_ALL) return b;
    const rx both[2] = {a, b};
    return combine(p, RX_OP_AND, both, 2);
}

rx rx_and_n(rx_pool *p, const rx *parts, size_t n) { return combine(p, RX_OP_AND, parts, n); }

rx rx_not(rx_pool *p, rx a) {
    if (a == RX_NONE) return p->failed == QP_OK ? RX_ALL : RX_NONE;
    if (a == RX_ALL) return RX_NONE;
    if (rx_is(p, a, RX_OP_NOT)) return rx_at(p, a)->a;
    return rx_intern(p, &(rx_node){.op = RX_OP_NOT, .a = a}, NULL);
}

rx rx_minus(rx_pool *p, rx a, rx b) { return rx_and(p, a, rx_not(p, b)); }

rx rx_repeat(rx_pool *p, rx a, uint32_t min, uint32_t max) {
    if (min > max) return RX_NONE;
    if (max == 0 || a == RX_EMPTY) return p->failed == QP_OK ? RX_EMPTY : RX_NONE;
    if (a == RX_NONE) return min == 0 && p->failed == QP_OK ? RX_EMPTY : RX_NONE;
    if (rx_nullable(p, a)) min = 0;
    if (min == 1 && max == 1) return a;
    const rx_node *n = rx_at(p, a);
    const bool is_star = n->op == RX_OP_REPEAT && n->min == 0 && n->max == RX_INFINITE;
    if (is_star) return a;
    return rx_intern(p, &(rx_node){.op = RX_OP_REPEAT, .a = a, .min = min, .max = max}, NULL);
}

rx rx_multiple(rx_pool *p, uint32_t modulus) {
    return rx_intern(p, &(rx_node){.op = RX_OP_MULTIPLE, .a = modulus}, NULL);
}

rx rx_lazy(rx_pool *p, rx a) {
    if (a == RX_NONE || rx_is(p, a, RX_OP_LAZY)) return a;
    if (rx_nullable(p, a)) return RX_EMPTY;
    if (rx_is(p, a, RX_OP_SET)) return a;
    return rx_intern(p, &(rx_node){.op = RX_OP_LAZY, .a = a}, NULL);
}
