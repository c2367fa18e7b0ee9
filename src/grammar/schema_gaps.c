/* schema_gaps.c — the white space policies of JSON: compact, single, pretty:N, flexible:K, regex:PATTERN. */
#include "schema_gaps.h"
#include "schema_pattern.h"
#include <stdlib.h>

enum { MOST_INDENT = 16, MOST_FLEXIBLE = 1000 };

static rx blanks(rx_pool *pool, uint32_t most) {
    rx_set set = {{0}};
    for (const char *c = " \t\n\r"; *c; c++) rx_set_add(&set, (uint8_t)*c);
    return rx_repeat(pool, rx_bytes(pool, &set), 0, most);
}

static qp_status refuse(const char *policy, qp_error *err) {
    return err_set(err, QP_BAD_ARGUMENT, 0,
                   "white space: found \"%.40s\", allowed are compact, single, pretty:N (up to 16), flexible:K (up to "
                   "1000), flexible:inf, regex:PATTERN",
                   policy);
}

/* The number after "name:". */
static bool number_after(const char *policy, const char *name, long most, long *out) {
    const size_t n = strlen(name);
    char *end;
    if (strncmp(policy, name, n) || policy[n] < '0' || policy[n] > '9') return false;
    *out = strtol(policy + n, &end, 10);
    return !*end && *out <= most;
}

qp_status gaps_read(gaps *out, const spelling *plain, const char *policy, qp_error *err) {
    long number;
    *out = (gaps){.gap = RX_EMPTY, .indent = -1};
    if (!policy || !strcmp(policy, "single")) {
        out->gap = rx_optional(plain->pool, rx_text(plain->pool, SPAN(" ")));
    } else if (!strcmp(policy, "flexible:inf")) {
        out->everywhere = true;
        out->gap = blanks(plain->pool, RX_INFINITE);
    } else if (number_after(policy, "flexible:", MOST_FLEXIBLE, &number) || !strcmp(policy, "flexible")) {
        out->everywhere = true;
        out->gap = blanks(plain->pool, policy[8] ? (uint32_t)number : 8);
    } else if (number_after(policy, "pretty:", MOST_INDENT, &number)) {
        out->indent = (int)number;
    } else if (!strncmp(policy, "regex:", 6)) {
        pattern_error error;
        const rx language = pattern_language(plain, span_of(policy + 6), true, &error);
        if (error.what)
            return err_set(err, QP_BAD_ARGUMENT, 6 + error.offset, "white space: %s at byte %zu", error.what,
                           error.offset);
        out->everywhere = true;
        out->gap = rx_optional(plain->pool, rx_and(plain->pool, language, blanks(plain->pool, RX_INFINITE)));
    } else if (strcmp(policy, "compact")) {
        return refuse(policy, err);
    }
    return QP_OK;
}

rx gaps_line(const gaps *g, rx_pool *pool, int depth, bool after_comma) {
    if (g->indent < 0) return g->everywhere || after_comma ? g->gap : RX_EMPTY;
    const uint32_t n = (uint32_t)(g->indent * depth);
    return rx_concat(pool, rx_text(pool, SPAN("\n")), rx_repeat(pool, rx_text(pool, SPAN(" ")), n, n));
}

rx gaps_before_colon(const gaps *g) { return g->everywhere ? g->gap : RX_EMPTY; }
rx gaps_after_colon(const gaps *g, rx_pool *pool) { return g->indent < 0 ? g->gap : rx_text(pool, SPAN(" ")); }
rx gaps_before_comma(const gaps *g) { return g->everywhere ? g->gap : RX_EMPTY; }
