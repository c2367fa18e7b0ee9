/* schema_digits.c — writes a set of numbers as the spellings that are produced: a regular expression over digits.
 *
 * Bounds are compared digit by digit, so they are exact whatever their size. Without any bound the whole syntax of
 * JSON is offered; with one, numbers are written without an exponent (a declared narrowing). -0 is offered where
 * negative numbers are; a fraction that is just the upper bound's is not
 * followed by zeros. A point does not count in rx_multiple: 12.5 and 125 have the same digits. */
#include "schema_number.h"

enum { MAX_MODULUS = 4096, MAX_PLACES = 20 };

typedef struct digit_writer {
    rx_pool *pool;
    number_work *work;
    number_style style;
    bool whole; /* no fraction is written */
} digit_writer;

static rx digit_between(const digit_writer *w, int first, int last) {
    return first > last ? RX_NONE : rx_byte_range(w->pool, (uint8_t)('0' + first), (uint8_t)('0' + last));
}

static rx digits(const digit_writer *w, uint32_t min, uint32_t max) {
    return rx_repeat(w->pool, digit_between(w, 0, 9), min, max);
}

static rx three(const digit_writer *w, rx a, rx b, rx c) { return rx_concat(w->pool, a, rx_concat(w->pool, b, c)); }
static rx point(const digit_writer *w) { return rx_text(w->pool, SPAN(".")); }

/* How many digits may still follow `used` of a fraction. */
static uint32_t room_after(const digit_writer *w, int used) {
    if (w->style.fraction_digits < 0) return RX_INFINITE;
    return w->style.fraction_digits > used ? (uint32_t)(w->style.fraction_digits - used) : 0;
}

static rx zeros(const digit_writer *w, uint32_t min, uint32_t max) {
    return max < min ? RX_NONE : rx_repeat(w->pool, digit_between(w, 0, 0), min, max);
}

/* Digits of which one is not 0, after `used` others. */
static rx nonzero_tail(const digit_writer *w, int used) {
    const uint32_t most = room_after(w, used);
    if (!most) return RX_NONE;
    const rx some = three(w, digits(w, 0, RX_INFINITE), digit_between(w, 1, 9), digits(w, 0, RX_INFINITE));
    return most == RX_INFINITE ? some : rx_and(w->pool, some, digits(w, 1, most));
}

static rx any_fraction(const digit_writer *w) {
    if (w->whole) return RX_EMPTY;
    return rx_optional(w->pool, rx_concat(w->pool, point(w), digits(w, 1, room_after(w, 0))));
}

static rx any_whole(const digit_writer *w) {
    const rx long_one = rx_concat(w->pool, digit_between(w, 1, 9), digits(w, 0, RX_INFINITE));
    return rx_or(w->pool, digit_between(w, 0, 0), long_one);
}

/* The digits of `a` at places from `top` down to `bottom`, as text. */
static rx digits_of(const digit_writer *w, decimal a, int top, int bottom) {
    rx out = RX_EMPTY;
    for (int place = bottom; place <= top; place++)
        out = rx_concat(w->pool, digit_between(w, decimal_digit(a, place), decimal_digit(a, place)), out);
    return out;
}

/* ---- |x| above or below the size of a bound ---- */

/* Whole parts greater (or smaller) than the bound's. */
static rx other_whole(const digit_writer *w, decimal bound, bool greater) {
    const int n = decimal_n_whole(bound) ? decimal_n_whole(bound) : 1;
    rx out = RX_NONE;
    if (greater)
        out = three(w, digit_between(w, 1, 9), digits(w, (uint32_t)n, (uint32_t)n), digits(w, 0, RX_INFINITE));
    else if (n > 1)
        out = rx_or(w->pool, digit_between(w, 0, 0),
                    rx_concat(w->pool, digit_between(w, 1, 9), digits(w, 0, (uint32_t)n - 2)));
    for (int place = n - 1; place >= 0; place--) {
        const int own = decimal_digit(bound, place), lowest = place == n - 1 && n > 1 ? 1 : 0;
        const rx digit = greater ? digit_between(w, own + 1, 9) : digit_between(w, lowest, own - 1);
        const rx rest = digits(w, (uint32_t)place, (uint32_t)place);
        out = rx_or(w->pool, out, three(w, digits_of(w, bound, n - 1, place + 1), digit, rest));
    }
    return out;
}

/* Fractions (with their point, or none) greater than the bound's, or equal where not `open`. */
static rx fraction_above(const digit_writer *w, decimal bound, bool open) {
    const int n = decimal_n_fraction(bound);
    if (w->whole) return open || n ? RX_NONE : RX_EMPTY;
    if (!n) return open ? rx_concat(w->pool, point(w), nonzero_tail(w, 0)) : any_fraction(w);
    const rx tail = open ? nonzero_tail(w, n) : digits(w, 0, room_after(w, n));
    rx out = rx_concat(w->pool, digits_of(w, bound, -1, -n), tail);
    for (int i = 1; i <= n; i++)
        out = rx_or(w->pool, out,
                    three(w, digits_of(w, bound, -1, -i + 1), digit_between(w, decimal_digit(bound, -i) + 1, 9),
                          digits(w, 0, room_after(w, i))));
    return rx_concat(w->pool, point(w), out);
}

static rx fraction_below(const digit_writer *w, decimal bound, bool open) {
    const int n = decimal_n_fraction(bound);
    if (w->whole) return open && !n ? RX_NONE : RX_EMPTY;
    if (!n) return open ? RX_NONE : rx_optional(w->pool, rx_concat(w->pool, point(w), zeros(w, 1, room_after(w, 0))));
    rx out = open ? RX_NONE : digits_of(w, bound, -1, -n);
    for (int i = 1; i <= n; i++) {
        const rx head = digits_of(w, bound, -1, -i + 1), digit = digit_between(w, 0, decimal_digit(bound, -i) - 1);
        out = rx_or(w->pool, out, three(w, head, digit, digits(w, 0, room_after(w, i))));
        if (i > 1) out = rx_or(w->pool, out, head);
    }
    return rx_optional(w->pool, rx_concat(w->pool, point(w), out));
}

static rx own_whole(const digit_writer *w, decimal bound) {
    const int n = decimal_n_whole(bound);
    return n ? digits_of(w, bound, n - 1, 0) : digit_between(w, 0, 0);
}

static rx size_above(const digit_writer *w, decimal bound, bool open) {
    return rx_or(w->pool, rx_concat(w->pool, other_whole(w, bound, true), any_fraction(w)),
                 rx_concat(w->pool, own_whole(w, bound), fraction_above(w, bound, open)));
}

static rx size_below(const digit_writer *w, decimal bound, bool open) {
    return rx_or(w->pool, rx_concat(w->pool, other_whole(w, bound, false), any_fraction(w)),
                 rx_concat(w->pool, own_whole(w, bound), fraction_below(w, bound, open)));
}

/* ---- multiples ---- */

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Digits N with N × 10^shift a multiple of d. */
static rx multiple_digits(const digit_writer *w, uint64_t d, int shift) {
    while (shift-- > 0) d /= gcd(d, 10);
    int n_zeros = 0;
    for (; d % 10 == 0; d /= 10) n_zeros++;
    if (d > MAX_MODULUS) {
        if (!w->work->refused) w->work->refused = "the divisor is too large (at most 4096 after its factors of 10)";
        return RX_NONE;
    }
    const rx multiple = d == 1 ? digits(w, 0, RX_INFINITE) : rx_multiple(w->pool, (uint32_t)d);
    return n_zeros ? rx_or(w->pool, rx_concat(w->pool, multiple, zeros(w, (uint32_t)n_zeros, (uint32_t)n_zeros)),
                           zeros(w, 1, RX_INFINITE))
                   : multiple;
}

/* All plain spellings of sizes that are multiples of `divisor`. */
static rx multiples(const digit_writer *w, decimal divisor) {
    const int places = decimal_n_fraction(divisor);
    if (places > MAX_PLACES || divisor.point + places > 17) {
        if (!w->work->refused) w->work->refused = "the divisor has too many digits";
        return RX_NONE;
    }
    uint64_t d = 0;
    for (int place = divisor.point - 1; place >= -places; place--) d = d * 10 + (uint64_t)decimal_digit(divisor, place);
    const rx whole = rx_and(w->pool, any_whole(w), multiple_digits(w, d, places));
    if (w->whole) return whole;
    const rx zero_fraction = rx_optional(w->pool, rx_concat(w->pool, point(w), zeros(w, 1, RX_INFINITE)));
    rx out = rx_concat(w->pool, whole, zero_fraction);
    for (int j = 1; j <= places; j++) {
        const rx shape = three(w, any_whole(w), point(w), digits(w, (uint32_t)j, (uint32_t)j));
        rx multiple = multiple_digits(w, d, places - j);
        if (multiple == digits(w, 0, RX_INFINITE)) multiple = RX_ALL;
        out = rx_or(w->pool, out, rx_concat(w->pool, rx_and(w->pool, shape, multiple), zeros(w, 0, RX_INFINITE)));
    }
    return out;
}

/* ---- parts ---- */

static rx sizes(const digit_writer *w, const decimal *low, bool low_open, const decimal *high, bool high_open) {
    rx out = rx_concat(w->pool, any_whole(w), any_fraction(w));
    if (low && (low->n || low_open)) out = size_above(w, *low, low_open);
    if (high) {
        const rx below = size_below(w, *high, high_open);
        out = low && (low->n || low_open) ? rx_and(w->pool, out, below) : below;
    }
    return out;
}

/* The sizes of the part's negative (or other) numbers. */
static rx side(const digit_writer *w, const number_part *p, bool negative) {
    const decimal zero = {.digits = ""};
    decimal low = p->low, high = p->high;
    low.negative = high.negative = false;
    if (negative) {
        if (p->has_low && !p->low.negative) return RX_NONE;
        const bool from_zero = !p->has_high || !p->high.negative;
        const bool open = p->has_high && p->high_open && (!from_zero || !p->high.n);
        return sizes(w, from_zero ? &zero : &high, open, p->has_low ? &low : NULL, p->low_open);
    }
    if (p->has_high && p->high.negative) return RX_NONE;
    const bool from_zero = !p->has_low || p->low.negative;
    const bool open = p->has_low && p->low_open && (!from_zero || !p->low.n);
    return sizes(w, from_zero ? &zero : &low, open, p->has_high ? &high : NULL, p->high_open);
}

static rx restrict_sizes(const digit_writer *w, const number_part *p, rx out) {
    for (int i = 0; i < p->n_divisors; i++) {
        const rx multiple = multiples(w, p->divisors[i]);
        out = p->not_multiple[i] ? rx_minus(w->pool, out, multiple) : rx_and(w->pool, out, multiple);
    }
    if (p->whole == NUMBER_BROKEN) out = rx_and(w->pool, out, three(w, any_whole(w), point(w), nonzero_tail(w, 0)));
    return out;
}

static rx write_value(const digit_writer *w, decimal value) {
    strbuf text = {0};
    decimal_write(&text, value);
    const rx out = text.failed ? RX_NONE : rx_text(w->pool, (span){text.at, text.bytes});
    w->work->room->failed |= text.failed;
    strbuf_free(&text);
    return out;
}

static rx write_any(const digit_writer *w) {
    const rx_set e = {{0, (uint64_t)1 << ('e' - 64) | (uint64_t)1 << ('E' - 64), 0, 0}};
    const rx_set sign = {{(uint64_t)1 << '+' | (uint64_t)1 << '-', 0, 0, 0}};
    const uint32_t most = w->style.exponent_digits < 0 ? RX_INFINITE : (uint32_t)w->style.exponent_digits;
    const rx exponent =
        three(w, rx_bytes(w->pool, &e), rx_optional(w->pool, rx_bytes(w->pool, &sign)), digits(w, 1, most));
    const rx plain = rx_concat(w->pool, any_whole(w), any_fraction(w));
    return three(w, rx_optional(w->pool, rx_text(w->pool, SPAN("-"))), plain, rx_optional(w->pool, exponent));
}

static int at_least(int limit, int needed) { return limit >= 0 && limit < needed ? needed : limit; }

static rx write_part(rx_pool *pool, number_work *work, const number_part *p, number_style style) {
    digit_writer w = {pool, work, style, p->whole == NUMBER_WHOLE};
    if (p->has_low && p->has_high && decimal_compare(p->low, p->high) == 0) return write_value(&w, p->low);
    if (!p->has_low && !p->has_high && !p->n_divisors && p->whole == NUMBER_ANY) return write_any(&w);
    /* Bounds with more digits than the style would leave nothing between them: one more than theirs is offered. */
    if (p->has_low) w.style.fraction_digits = at_least(w.style.fraction_digits, decimal_n_fraction(p->low) + 1);
    if (p->has_high) w.style.fraction_digits = at_least(w.style.fraction_digits, decimal_n_fraction(p->high) + 1);
    const rx negative = restrict_sizes(&w, p, side(&w, p, true)), positive = restrict_sizes(&w, p, side(&w, p, false));
    return rx_or(pool, positive, rx_concat(pool, rx_text(pool, SPAN("-")), negative));
}

rx number_write(rx_pool *pool, number_work *r, number_set s, number_style style) {
    if (number_is_all(s)) return write_part(pool, r, &(number_part){0}, style);
    if (!s.parts || !s.parts->next) return s.parts ? write_part(pool, r, s.parts, style) : RX_NONE;
    rx parts[32];
    size_t n = 0;
    rx out = RX_NONE;
    for (const number_part *p = s.parts; p; p = p->next) {
        parts[n++] = write_part(pool, r, p, style);
        if (n == sizeof parts / sizeof *parts || !p->next) {
            out = rx_or(pool, out, rx_or_n(pool, parts, n));
            n = 0;
        }
    }
    return out;
}
