/* schema_number.c — sets of numbers: intersection and difference of exact ranges. schema_digits.c writes them.
 *
 * The tricky thing: a difference of two parts is a union of up to one part for each assertion of the second (below
 * its low, above its high, not whole, not a multiple), so sets can grow; products_left bounds that. */
#include "schema_number.h"

static number_set nothing(void) { return (number_set){NULL}; }

static number_set refuse(number_work *r, const char *why) {
    if (!r->refused) r->refused = why;
    return nothing();
}

number_set number_part_set(number_work *r, const number_part *part) {
    number_part *copy = room_get(r->room, 1, sizeof *copy);
    if (!copy) return nothing();
    *copy = *part;
    copy->next = NULL;
    return (number_set){copy};
}

number_set number_all(number_work *r) { return number_part_set(r, &(number_part){0}); }

number_set number_value(number_work *r, decimal value) {
    return number_part_set(r, &(number_part){.low = value, .high = value, .has_low = true, .has_high = true});
}

bool number_is_all(number_set s) {
    for (const number_part *p = s.parts; p; p = p->next)
        if (!p->has_low && !p->has_high && p->whole == NUMBER_ANY && !p->n_divisors) return true;
    return false;
}

static bool is_value(const number_part *p) {
    return p->has_low && p->has_high && !p->low_open && !p->high_open && decimal_compare(p->low, p->high) == 0;
}

bool number_is_values(number_set s) {
    for (const number_part *p = s.parts; p; p = p->next)
        if (!is_value(p)) return false;
    return true;
}

/* ---- whole bounds ---- */

/* The nearest whole number towards zero, and its size one greater where `up`. */
static bool whole_size(arena *memory, decimal *out, decimal a, bool up) {
    char digits[DECIMAL_MAX + 2];
    const int n = decimal_n_whole(a);
    digits[0] = '0';
    for (int i = 0; i < n; i++) digits[i + 1] = (char)('0' + decimal_digit(a, n - 1 - i));
    if (up) {
        int i = n;
        while (digits[i] == '9') digits[i--] = '0';
        digits[i]++;
    }
    int first = 0;
    while (first < n && digits[first] == '0') first++;
    bool too_long;
    if (!decimal_read(out, memory, (span){digits + first, (size_t)(n + 1 - first)}, &too_long)) return false;
    out->negative = a.negative && out->n > 0;
    return true;
}

/* Moves a bound of whole numbers to the next whole number inside: the low one upwards, the high one downwards. */
static bool tighten(arena *memory, decimal *bound, bool *open, bool is_low) {
    const bool exact = decimal_is_integer(*bound);
    if (exact && !*open) return true;
    const bool away_from_zero = bound->n == 0 || bound->negative != is_low;
    const decimal old = *bound;
    *open = false;
    if (!old.n) {
        decimal start = {.digits = "", .negative = false};
        if (!whole_size(memory, bound, start, true)) return false;
        bound->negative = !is_low;
        return true;
    }
    if (away_from_zero) return whole_size(memory, bound, old, true);
    if (!exact) return whole_size(memory, bound, old, false);
    /* One less in size: through the nines. */
    char digits[DECIMAL_MAX + 2];
    const int n = decimal_n_whole(old);
    for (int i = 0; i < n; i++) digits[i] = (char)('0' + decimal_digit(old, n - 1 - i));
    int i = n - 1;
    while (digits[i] == '0') digits[i--] = '9';
    digits[i]--;
    int first = 0;
    while (first < n - 1 && digits[first] == '0') first++;
    bool too_long;
    if (!decimal_read(bound, memory, (span){digits + first, (size_t)(n - first)}, &too_long)) return false;
    bound->negative = old.negative && bound->n > 0;
    return true;
}

/* ---- multiples ---- */

/* a mod (d × 10^-places) for a's digits down to 10^-places; false: too many digits to compute with. */
static bool is_multiple(decimal a, decimal divisor, bool *out) {
    int places = decimal_n_fraction(divisor);
    if (decimal_n_fraction(a) > places) places = decimal_n_fraction(a);
    if (divisor.point + places > 17) return false;
    uint64_t d = 0;
    for (int place = divisor.point - 1; place >= -places; place--) d = d * 10 + (uint64_t)decimal_digit(divisor, place);
    unsigned __int128 rest = 0;
    for (int place = a.point - 1; place >= -places; place--) rest = (rest * 10 + (unsigned)decimal_digit(a, place)) % d;
    *out = rest == 0;
    return true;
}

static bool divisors_allow(number_work *r, const number_part *p) {
    for (int i = 0; i < p->n_divisors; i++) {
        bool divides;
        if (!is_multiple(p->low, p->divisors[i], &divides)) {
            refuse(r, "the divisor has too many digits");
            return true;
        }
        if (divides == p->not_multiple[i]) return false;
    }
    return true;
}

/* ---- intersection ---- */

/* Brings whole bounds to whole numbers and tells whether anything can be in it. */
static bool settle(number_work *r, number_part *p) {
    if (p->whole == NUMBER_WHOLE && ((p->has_low && !tighten(&r->room->memory, &p->low, &p->low_open, true)) ||
                                     (p->has_high && !tighten(&r->room->memory, &p->high, &p->high_open, false)))) {
        r->room->failed = true;
        return false;
    }
    if (!p->has_low || !p->has_high) return true;
    const int order = decimal_compare(p->low, p->high);
    if (order > 0 || (order == 0 && (p->low_open || p->high_open))) return false;
    if (order < 0) return true;
    return !(p->whole == NUMBER_BROKEN && decimal_is_integer(p->low)) && divisors_allow(r, p);
}

static void raise_low(number_part *p, const number_part *q) {
    const int order = !q->has_low ? -1 : !p->has_low ? 1 : decimal_compare(q->low, p->low);
    if (order > 0 || (order == 0 && q->low_open)) {
        p->low = q->low;
        p->low_open = q->low_open;
        p->has_low = true;
    }
}

static void lower_high(number_part *p, const number_part *q) {
    const int order = !q->has_high ? 1 : !p->has_high ? -1 : decimal_compare(q->high, p->high);
    if (order < 0 || (order == 0 && q->high_open)) {
        p->high = q->high;
        p->high_open = q->high_open;
        p->has_high = true;
    }
}

static bool add_divisor(number_work *r, number_part *p, decimal divisor, bool negated) {
    for (int i = 0; i < p->n_divisors; i++)
        if (decimal_compare(p->divisors[i], divisor) == 0) return p->not_multiple[i] == negated;
    if (p->n_divisors == NUMBER_MAX_DIVISORS) {
        refuse(r, "more than 4 divisors meet");
        return false;
    }
    p->divisors[p->n_divisors] = divisor;
    p->not_multiple[p->n_divisors++] = negated;
    return true;
}

/* false: nothing is in both. */
static bool meet(number_work *r, number_part *p, const number_part *q) {
    raise_low(p, q);
    lower_high(p, q);
    if (p->whole != NUMBER_ANY && q->whole != NUMBER_ANY && p->whole != q->whole) return false;
    if (q->whole != NUMBER_ANY) p->whole = q->whole;
    for (int i = 0; i < q->n_divisors; i++)
        if (!add_divisor(r, p, q->divisors[i], q->not_multiple[i])) return false;
    return settle(r, p);
}

static bool spend(number_work *r) {
    if (r->products_left) return r->products_left--, true;
    refuse(r, "too many ranges of numbers meet");
    return false;
}

number_set number_or(number_work *r, number_set a, number_set b) {
    if (!a.parts || number_is_all(b)) return b;
    if (!b.parts || number_is_all(a)) return a;
    number_set out = b;
    for (const number_part *p = a.parts; p; p = p->next) {
        const number_set one = number_part_set(r, p);
        if (!one.parts) return one;
        ((number_part *)one.parts)->next = (number_part *)out.parts;
        out = one;
    }
    return out;
}

static number_set add_meeting(number_work *r, number_set list, const number_part *p, const number_part *q) {
    number_part both = *p;
    if (!meet(r, &both, q)) return list;
    const number_set one = number_part_set(r, &both);
    if (one.parts) ((number_part *)one.parts)->next = (number_part *)list.parts;
    return one.parts ? one : list;
}

number_set number_and(number_work *r, number_set a, number_set b) {
    if (number_is_all(a)) return b;
    if (number_is_all(b)) return a;
    number_set out = nothing();
    for (const number_part *p = a.parts; p; p = p->next)
        for (const number_part *q = b.parts; q && spend(r); q = q->next) out = add_meeting(r, out, p, q);
    return out;
}

/* What is not in `q`, as parts. */
static int opposite(const number_part *q, number_part out[3 + NUMBER_MAX_DIVISORS]) {
    int n = 0;
    if (q->has_low) out[n++] = (number_part){.high = q->low, .has_high = true, .high_open = !q->low_open};
    if (q->has_high) out[n++] = (number_part){.low = q->high, .has_low = true, .low_open = !q->high_open};
    if (q->whole != NUMBER_ANY)
        out[n++] = (number_part){.whole = q->whole == NUMBER_WHOLE ? NUMBER_BROKEN : NUMBER_WHOLE};
    for (int i = 0; i < q->n_divisors; i++)
        out[n++] = (number_part){.n_divisors = 1, .divisors = {q->divisors[i]}, .not_multiple = {!q->not_multiple[i]}};
    return n;
}

number_set number_minus(number_work *r, number_set a, number_set b) {
    for (const number_part *q = b.parts; q && a.parts; q = q->next) {
        number_part pieces[3 + NUMBER_MAX_DIVISORS];
        const int n = opposite(q, pieces);
        number_set rest = nothing();
        for (const number_part *p = a.parts; p; p = p->next)
            for (int i = 0; i < n && spend(r); i++) rest = add_meeting(r, rest, p, &pieces[i]);
        a = rest;
    }
    return a;
}
