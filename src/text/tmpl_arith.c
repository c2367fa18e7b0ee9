/* tmpl_arith.c — + - * / // % ** and round(), as Python computes them.
 *
 * Integers have 64 bits here: where Python would go on with a longer one, the result is refused by name, never
 * wrapped or rounded. */
#include "tmpl_run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *symbol(oper op) {
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    return names[op];
}

static bool unsupported(tmpl_run *r, oper op, value a, value b) {
    return tmpl_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", symbol(op), value_type(a), value_type(b));
}

static bool too_large(tmpl_run *r, oper op) {
    return tmpl_fail_as(r, QP_UNSUPPORTED, "result of %s needs an integer of more than 64 bits", symbol(op));
}

/* ---- integers ---- */

static bool power_int(tmpl_run *r, int64_t base, int64_t exponent, value *out) {
    int64_t result = 1;
    if (exponent < 0) {
        if (!base) return tmpl_fail(r, "0.0 cannot be raised to a negative power");
        *out = value_real(pow((double)base, (double)exponent));
        return true;
    }
    for (uint64_t left = (uint64_t)exponent; left; left >>= 1) {
        if (left & 1 && __builtin_mul_overflow(result, base, &result)) return too_large(r, OP_POW);
        if (left > 1 && __builtin_mul_overflow(base, base, &base)) return too_large(r, OP_POW);
    }
    *out = value_int(result);
    return true;
}

static bool divide_int(tmpl_run *r, oper op, int64_t a, int64_t b, value *out) {
    if (!b) return tmpl_fail(r, op == OP_DIV ? "division by zero" : "integer division or modulo by zero");
    if (op == OP_DIV) {
        *out = value_real((double)((long double)a / (long double)b));
        return true;
    }
    if (b == -1) { /* the one quotient that may not fit */
        if (op == OP_MOD) return *out = value_int(0), true;
        return a == INT64_MIN ? too_large(r, op) : (*out = value_int(-a), true);
    }
    int64_t quotient = a / b, rest = a % b;
    if (rest && (rest < 0) != (b < 0)) quotient--, rest += b;
    *out = value_int(op == OP_MOD ? rest : quotient);
    return true;
}

static bool binary_int(tmpl_run *r, oper op, int64_t a, int64_t b, value *out) {
    int64_t result;
    bool is_over;
    switch (op) {
    case OP_ADD:
        is_over = __builtin_add_overflow(a, b, &result);
        break;
    case OP_SUB:
        is_over = __builtin_sub_overflow(a, b, &result);
        break;
    case OP_MUL:
        is_over = __builtin_mul_overflow(a, b, &result);
        break;
    case OP_POW:
        return power_int(r, a, b, out);
    default:
        return divide_int(r, op, a, b, out);
    }
    if (is_over) return too_large(r, op);
    *out = value_int(result);
    return true;
}

/* ---- floats ---- */

/* Python's divmod of floats: the rest has the divisor's sign, the quotient is a whole number. */
static void divide_real(double a, double b, double *quotient, double *rest) {
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) mod += b, div -= 1;
    } else {
        mod = copysign(0.0, b);
    }
    double whole = div;
    if (div != 0) {
        whole = floor(div);
        if (div - whole > 0.5) whole += 1;
    } else {
        whole = copysign(0.0, a / b);
    }
    *quotient = whole;
    *rest = mod;
}

static bool power_real(tmpl_run *r, double a, double b, double *out) {
    if (a == 0 && b < 0) return tmpl_fail(r, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return tmpl_fail_as(r, QP_UNSUPPORTED, "a negative number to a fractional power is complex");
    *out = pow(a, b);
    if (isinf(*out) && isfinite(a) && isfinite(b)) return tmpl_fail(r, "(34, 'Numerical result out of range')");
    return true;
}

static bool binary_real(tmpl_run *r, oper op, double a, double b, value *out) {
    double result = 0, rest;
    if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return tmpl_fail(r, op == OP_DIV   ? "float division by zero"
                            : op == OP_MOD ? "float modulo"
                                           : "float floor division by zero");
    switch (op) {
    case OP_ADD:
        result = a + b;
        break;
    case OP_SUB:
        result = a - b;
        break;
    case OP_MUL:
        result = a * b;
        break;
    case OP_DIV:
        result = a / b;
        break;
    case OP_FLOORDIV:
        divide_real(a, b, &result, &rest);
        break;
    case OP_MOD:
        divide_real(a, b, &rest, &result);
        break;
    default:
        if (!power_real(r, a, b, &result)) return false;
    }
    *out = value_real(result);
    return true;
}

/* ---- texts and lists ---- */

static bool join_texts(tmpl_run *r, value a, value b, value *out) {
    const bool is_markup = a.is_markup || b.is_markup;
    if (is_markup && !a.is_markup && !value_escape(r, a, &a)) return false;
    if (is_markup && !b.is_markup && !value_escape(r, b, &b)) return false;
    vstr *s = tmpl_text_join(&r->memory, a.str, value_span(b));
    if (!s) return tmpl_no_memory(r);
    *out = (value){.kind = V_STR, .is_markup = is_markup, .str = s};
    return tmpl_spend(r, 1 + b.str->bytes / STEP_MOVES);
}

static bool join_seqs(tmpl_run *r, value a, value b, value *out) {
    vseq *seq = tmpl_get(r, 1, sizeof *seq);
    if (!seq) return false;
    *seq = *a.seq;
    seq->is_group = false;
    *out = (value){.kind = a.kind, .seq = seq};
    for (size_t i = 0; i < b.seq->count; i++)
        if (!value_append(r, out, b.seq->at[i])) return false;
    return true;
}

/* `total` bytes of a unit again and again, doubling what is there. */
static void fill(char *to, const char *unit, size_t bytes, size_t total) {
    if (total) memcpy(to, unit, bytes);
    for (size_t done = bytes; done < total; done *= 2) memcpy(to + done, to, done < total - done ? done : total - done);
}

static bool repeat(tmpl_run *r, value what, int64_t times, value *out) {
    size_t total;
    const size_t n = times < 0 ? 0 : (size_t)times, unit = what.kind == V_STR ? what.str->bytes : what.seq->count;
    if (!mem_mul(n, unit, &total)) total = SIZE_MAX; /* over any limit */
    if (!tmpl_spend(r, total / STEP_WALKS)) return false;
    if (what.kind == V_STR) {
        char *at = tmpl_get(r, total, 1);
        if (!at) return false;
        fill(at, what.str->at, unit, total);
        if (!value_borrow(r, (span){at, total}, out)) return false;
        out->is_markup = what.is_markup;
        return true;
    }
    if (!value_seq(r, (value_kind)what.kind, total, out)) return false;
    fill((char *)out->seq->at, (const char *)what.seq->at, unit * sizeof(value), total * sizeof(value));
    return true;
}

static bool is_sized(value v) { return v.kind == V_STR || value_is_seq(v); }

static bool fail_operands(tmpl_run *r, oper op, value a, value b) {
    if (op == OP_ADD && is_sized(a))
        return tmpl_fail(r, "can only concatenate %s (not \"%s\") to %s", value_type(a), value_type(b), value_type(a));
    if (op == OP_MUL && (is_sized(a) || is_sized(b)))
        return tmpl_fail(r, "can't multiply sequence by non-int of type '%s'", value_type(is_sized(a) ? b : a));
    if (a.kind == V_VIEW && b.kind == V_VIEW && op == OP_SUB)
        return tmpl_fail_as(r, QP_UNSUPPORTED, "sets of dictionary keys are not supported");
    return unsupported(r, op, a, b);
}

bool value_binary(tmpl_run *r, oper op, value a, value b, value *out) {
    if (value_is_integer(a) && value_is_integer(b)) return binary_int(r, op, value_integer(a), value_integer(b), out);
    if (value_is_number(a) && value_is_number(b)) return binary_real(r, op, value_number(a), value_number(b), out);
    if (op == OP_MOD && a.kind == V_STR) return tmpl_percent(r, a, b, out);
    if (a.kind == V_UNDEFINED) return tmpl_fail_undefined(r, a);
    if (b.kind == V_UNDEFINED) return tmpl_fail_undefined(r, b);
    if (op == OP_ADD && a.kind == V_STR && b.kind == V_STR) return join_texts(r, a, b, out);
    if (op == OP_ADD && a.kind == b.kind && value_is_seq(a)) return join_seqs(r, a, b, out);
    if (op == OP_MUL && is_sized(a) && value_is_integer(b)) return repeat(r, a, value_integer(b), out);
    if (op == OP_MUL && is_sized(b) && value_is_integer(a)) return repeat(r, b, value_integer(a), out);
    return fail_operands(r, op, a, b);
}

bool value_unary(tmpl_run *r, oper op, value a, value *out) {
    if (a.kind == V_UNDEFINED) return tmpl_fail_undefined(r, a);
    if (!value_is_number(a))
        return tmpl_fail(r, "bad operand type for unary %s: '%s'", op == OP_NEG ? "-" : "+", value_type(a));
    if (a.kind == V_FLOAT) return *out = value_real(op == OP_NEG ? -a.real : a.real), true;
    const int64_t x = value_integer(a);
    if (op == OP_NEG && x == INT64_MIN) return too_large(r, OP_SUB);
    *out = value_int(op == OP_NEG ? -x : x);
    return true;
}

/* ---- rounding and conversion ---- */

static bool round_int(tmpl_run *r, int64_t x, int64_t digits, value *out) {
    value unit = {0}, rest = {0};
    if (digits >= 0) return *out = value_int(x), true;
    if (digits < -18) return *out = value_int(0), true;
    if (!power_int(r, 10, -digits, &unit)) return false;
    if (!divide_int(r, OP_MOD, x, unit.integer, &rest)) return false;
    const int64_t below = x - rest.integer, half = unit.integer / 2;
    const bool is_odd = below / unit.integer % 2 != 0;
    if (rest.integer < half || (rest.integer == half && !is_odd)) return *out = value_int(below), true;
    return binary_int(r, OP_ADD, below, unit.integer, out);
}

bool value_round(tmpl_run *r, value number, int64_t digits, value *out) {
    char text[400];
    if (number.kind == V_UNDEFINED) return tmpl_fail_undefined(r, number);
    if (value_is_integer(number)) return round_int(r, value_integer(number), digits, out);
    if (number.kind != V_FLOAT) return tmpl_fail(r, "type %s doesn't define __round__ method", value_type(number));
    const double x = number.real;
    *out = number;
    if (!isfinite(x) || x == 0 || digits > 323) return true;
    if (digits >= 0) {
        /* printf rounds the exact value, ties to even, as Python does */
        strbuf exact = {0};
        strbuf_format(&exact, "%.*f", (int)digits, x);
        if (!exact.failed) *out = value_real(strtod(exact.at, NULL));
        const bool is_right = !exact.failed || tmpl_no_memory(r);
        strbuf_free(&exact);
        return is_right;
    }
    snprintf(text, sizeof text, "%.17e", x);
    const int exponent = atoi(strchr(text, 'e') + 1);
    if (digits < -308 || exponent + digits < -1) return *out = value_real(copysign(0.0, x)), true;
    if (exponent + digits == -1) { /* below the unit: nearest of 0 and the unit, a tie goes to 0 */
        const double unit = pow(10, (double)-digits);
        return *out = value_real(copysign(fabs(x) > unit / 2 ? unit : 0.0, x)), true;
    }
    snprintf(text, sizeof text, "%.*e", (int)(exponent + digits), x);
    *out = value_real(strtod(text, NULL));
    return true;
}

bool value_from_real(tmpl_run *r, double x, value *out) {
    if (isnan(x)) return tmpl_fail(r, "cannot convert float NaN to integer");
    if (isinf(x)) return tmpl_fail(r, "cannot convert float infinity to integer");
    if (!(x > -9223372036854775809.0 && x < 9223372036854775808.0))
        return tmpl_fail_as(r, QP_UNSUPPORTED, "integer part of a float needs more than 64 bits");
    *out = value_int((int64_t)x);
    return true;
}
