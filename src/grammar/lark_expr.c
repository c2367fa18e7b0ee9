/* lark_expr.c — what stands behind a colon: the same operators twice, for rules (symbols of the ir) and for terminals
 * (regular languages, with & and ~ besides).
 *
 * A `value` is whichever of the two the definition is made of; `terminal` in the reader says which. Groups may nest
 * 200 deep. */
#include "lark_reader.h"
#include "base/utf8.h"
#include "pattern.h"
#include "schema_lower.h"

enum { MOST_DEPTH = 200 };

typedef uint32_t value; /* ir_sym or rx */

typedef struct body {
    lark *p;
    bool terminal;
} body;

typedef struct list {
    value *at;
    size_t n, room;
} list;

static void list_add(const body *b, list *l, value v) {
    if (l->n == l->room) {
        const size_t room = l->room ? l->room * 2 : 8;
        value *at = mem_resize(l->at, room, sizeof *at);
        if (!at) {
            lark_refuse(b->p, QP_NO_MEMORY, b->p->at, "out of memory");
            return;
        }
        l->at = at;
        l->room = room;
    }
    l->at[l->n++] = v;
}

static value of_language(const body *b, rx language) { return b->terminal ? language : ir_terminal(b->p->g, language); }

static value repeat(const body *b, value v, uint32_t min, uint32_t max) {
    return b->terminal ? rx_repeat(ir_pool(b->p->g), v, min, max) : ir_repeat(b->p->g, v, min, max);
}

static value choice(const body *b, list *l) {
    const bool is_fine = b->p->failed == QP_OK;
    value v = RX_NONE;
    if (is_fine && b->terminal) v = rx_or_n(ir_pool(b->p->g), l->at, l->n);
    if (is_fine && !b->terminal) v = ir_choice(b->p->g, l->at, l->n);
    mem_free(l->at);
    return v;
}

static value sequence(const body *b, list *l) {
    const bool is_fine = b->p->failed == QP_OK;
    value v = RX_NONE;
    if (is_fine && b->terminal) v = rx_concat_n(ir_pool(b->p->g), l->at, l->n);
    if (is_fine && !b->terminal) v = ir_sequence(b->p->g, l->at, l->n);
    mem_free(l->at);
    return v;
}

/* ---- atoms ---- */

static rx each_case(rx_pool *pool, span text) {
    rx all = RX_EMPTY;
    for (size_t i = text.bytes; i > 0;) {
        uint32_t c = 0;
        size_t start = i - 1;
        while (start > 0 && ((uint8_t)text.at[start] & 0xC0) == 0x80) start--;
        const bool is_char = utf8_decode(text.at + start, i - start, &c) == (int)(i - start);
        range_list l = {.at = NULL};
        range_add(&l, c, c);
        range_add_cases(&l);
        all = rx_concat(pool, is_char ? rx_chars(pool, l.at, l.n) : rx_text(pool, (span){text.at + start, i - start}),
                        all);
        range_free(&l);
        i = start;
    }
    return all;
}

/* "a".."f", behind the two dots. */
static rx char_range(const body *b, size_t at, span first) {
    strbuf second = {0};
    uint32_t low = 0, high = 0;
    lark_skip(b->p, false);
    if (!lark_take(b->p, "\""))
        lark_refuse(b->p, QP_BAD_FORMAT, b->p->at, "expected the end of the range");
    else
        lark_string(b->p, &second);
    const bool is_range = first.bytes && second.bytes && utf8_decode(first.at, first.bytes, &low) == (int)first.bytes &&
                          utf8_decode(second.at, second.bytes, &high) == (int)second.bytes;
    if (!is_range)
        lark_refuse(b->p, QP_BAD_FORMAT, at, "both ends of a range are one character");
    else if (high < low)
        lark_refuse(b->p, QP_BAD_FORMAT, at, "the range is reversed");
    strbuf_free(&second);
    return rx_chars(ir_pool(b->p->g), &(rx_range){low, high}, 1);
}

static value take_string(const body *b) {
    const size_t start = b->p->at - 1;
    rx_pool *pool = ir_pool(b->p->g);
    strbuf text = {0};
    rx language = RX_NONE;
    lark_string(b->p, &text);
    const span s = {text.at, text.bytes};
    if (b->p->failed != QP_OK)
        language = RX_NONE;
    else if (lark_take(b->p, ".."))
        language = char_range(b, start, s);
    else if (lark_take(b->p, "i"))
        language = each_case(pool, s);
    else
        language = rx_text(pool, s);
    strbuf_free(&text);
    return of_language(b, language);
}

static value take_regex(const body *b) {
    const size_t start = b->p->at;
    char flags[8];
    const span pattern = lark_regex(b->p, flags);
    rx language = RX_NONE;
    qp_error why;
    if (b->p->failed != QP_OK) return RX_NONE;
    strbuf plain = {0}; /* \/ is a slash */
    for (size_t i = 0; i < pattern.bytes; i++) {
        if (pattern.at[i] == '\\' && i + 1 < pattern.bytes && pattern.at[i + 1] == '/') continue;
        strbuf_char(&plain, pattern.at[i]);
        if (pattern.at[i] == '\\' && i + 1 < pattern.bytes) strbuf_char(&plain, pattern.at[++i]);
    }
    const qp_status status =
        plain.failed ? QP_NO_MEMORY
                     : pattern_parse(ir_pool(b->p->g), &language, (span){plain.at, plain.bytes}, flags, &why);
    if (status != QP_OK) lark_refuse(b->p, status, start, plain.failed ? "out of memory" : why.text);
    strbuf_free(&plain);
    return of_language(b, language);
}

static bool add_token_ids(const body *b, size_t start, span inside, list *ids) {
    for (size_t i = 0; i < inside.bytes;) {
        uint32_t bounds[2] = {0, 0};
        int n = 0;
        for (; n < 2; n++) {
            const size_t first = i;
            for (; i < inside.bytes && inside.at[i] >= '0' && inside.at[i] <= '9' && bounds[n] < 1 << 24; i++)
                bounds[n] = bounds[n] * 10 + (uint32_t)(inside.at[i] - '0');
            if (i == first)
                return lark_refuse(b->p, QP_UNSUPPORTED, start, "allowed are token ids and ranges of them"), false;
            if (n == 0 && (i >= inside.bytes || inside.at[i] != '-')) {
                bounds[1] = bounds[0];
                break;
            }
            if (n == 0) i++;
        }
        if (bounds[1] < bounds[0] || bounds[1] - bounds[0] > 1 << 20)
            return lark_refuse(b->p, QP_BAD_FORMAT, start, "the range of token ids is reversed or too long"), false;
        for (uint32_t id = bounds[0]; id <= bounds[1]; id++) list_add(b, ids, id);
        if (i < inside.bytes && inside.at[i] == ',')
            i++;
        else if (i < inside.bytes)
            return lark_refuse(b->p, QP_BAD_FORMAT, start, "token ids are separated by commas"), false;
    }
    return true;
}

/* <name>, <[id]>, <[a-b,c]>. */
static value take_token(const body *b) {
    lark *p = b->p;
    const size_t start = p->at - 1;
    const char *end = memchr(p->text.at + p->at, '>', p->text.bytes - p->at);
    if (b->terminal) lark_refuse(p, QP_BAD_FORMAT, start, "special tokens stand in rules, not in terminals");
    if (!end) lark_refuse(p, QP_BAD_FORMAT, start, "the token has no >");
    if (p->failed != QP_OK) return RX_NONE;
    const span whole = {p->text.at + start, (size_t)(end + 1 - p->text.at) - start};
    p->at = start + whole.bytes;
    list ids = {.at = NULL};
    if (whole.bytes > 4 && whole.at[1] == '[' && whole.at[whole.bytes - 2] == ']') {
        add_token_ids(b, start, (span){whole.at + 2, whole.bytes - 4}, &ids);
    } else {
        const int32_t id = p->options->token_id ? p->options->token_id(p->options->token_user, whole) : -1;
        if (id < 0)
            lark_refuse(p, QP_BAD_FORMAT, start, "no such special token");
        else
            list_add(b, &ids, (uint32_t)id);
    }
    const value v = p->failed == QP_OK ? ir_special(p->g, (const int32_t *)ids.at, ids.n) : RX_NONE;
    mem_free(ids.at);
    return v;
}

static value take_json(const body *b) {
    lark *p = b->p;
    const size_t start = p->at;
    lark_skip(p, true);
    if (b->terminal || !lark_take(p, "{")) {
        lark_refuse(p, QP_BAD_FORMAT, start, "%json stands in rules, with a schema in braces behind it");
        return RX_NONE;
    }
    const span schema = lark_braces(p);
    ir_sym made = IR_NOTHING;
    qp_error why;
    if (p->failed != QP_OK) return RX_NONE;
    const qp_status status = schema_lower(p->g, &made, schema, p->options, &why);
    if (status != QP_OK) lark_refuse(p, status, start, why.text);
    return made;
}

static value take_reference(const body *b) {
    const size_t start = b->p->at;
    const span name = lark_name(b->p);
    if (!name.bytes) {
        lark_refuse(b->p, QP_BAD_FORMAT, start, "expected a string, /regex/, name, group, <token> or %json");
        return RX_NONE;
    }
    definition *d = lark_find(b->p, name, start);
    if (!d) return RX_NONE;
    if (d->is_terminal) return of_language(b, lark_terminal(b->p, d, start));
    if (b->terminal) lark_refuse(b->p, QP_BAD_FORMAT, start, "a terminal cannot use a rule");
    return d->symbol;
}

static value take_choice(const body *b);

static value take_group(const body *b, const char *close) {
    const size_t start = b->p->at - 1;
    if (++b->p->depth > MOST_DEPTH) lark_refuse(b->p, QP_TOO_LARGE, start, "groups are nested over 200 deep");
    const value inner = b->p->failed == QP_OK ? take_choice(b) : RX_NONE;
    b->p->depth--;
    if (!lark_take(b->p, close)) lark_refuse(b->p, QP_BAD_FORMAT, start, "the group is not closed");
    return inner;
}

static value take_atom(const body *b) {
    lark *p = b->p;
    if (lark_take(p, "\"")) return take_string(b);
    if (lark_take(p, "/")) return take_regex(b);
    if (lark_take(p, "(")) return take_group(b, ")");
    if (lark_take(p, "[")) return repeat(b, take_group(b, "]"), 0, 1);
    if (lark_take(p, "<")) return take_token(b);
    if (lark_take(p, "%json")) return take_json(b);
    if (lark_looks_at(p, "%"))
        return lark_refuse(p, QP_UNSUPPORTED, p->at, "of % only %json is supported here"), RX_NONE;
    return take_reference(b);
}

/* ---- operators ---- */

static value take_counted(const body *b, value v, size_t start, const char *close, const char *between) {
    uint32_t min, max;
    lark_skip(b->p, false);
    if (!lark_number(b->p, &min)) lark_refuse(b->p, QP_BAD_FORMAT, start, "the count has no number");
    max = min;
    lark_skip(b->p, false);
    if (lark_take(b->p, between)) {
        lark_skip(b->p, false);
        if (!lark_number(b->p, &max)) max = IR_INFINITE;
        lark_skip(b->p, false);
    }
    if (*close && !lark_take(b->p, close)) lark_refuse(b->p, QP_BAD_FORMAT, start, "the count is not closed");
    if (min > max) lark_refuse(b->p, QP_BAD_FORMAT, start, "the count is reversed");
    return b->p->failed == QP_OK ? repeat(b, v, min, max) : RX_NONE;
}

static value take_repeats(const body *b, value v) {
    for (;;) {
        const size_t start = b->p->at;
        if (lark_take(b->p, "?"))
            v = repeat(b, v, 0, 1);
        else if (lark_take(b->p, "*"))
            v = repeat(b, v, 0, IR_INFINITE);
        else if (lark_take(b->p, "+"))
            v = repeat(b, v, 1, IR_INFINITE);
        else if (lark_take(b->p, "~"))
            v = take_counted(b, v, start, "", "..");
        else if (lark_take(b->p, "{"))
            v = take_counted(b, v, start, "}", ",");
        else
            return v;
    }
}

static value take_item(const body *b) {
    if (b->terminal && lark_take(b->p, "~")) {
        lark_skip(b->p, false);
        rx_pool *pool = ir_pool(b->p->g);
        return rx_minus(pool, rx_utf8(pool), take_repeats(b, take_atom(b)));
    }
    return take_repeats(b, take_atom(b));
}

static bool goes_on(const body *b) {
    lark_skip(b->p, b->p->depth > 0);
    const char c = lark_peek(b->p);
    return c && !strchr("|)]&\n\r", c) && !lark_looks_at(b->p, "->");
}

static value take_sequence(const body *b) {
    list l = {.at = NULL};
    while (goes_on(b)) list_add(b, &l, take_item(b));
    if (lark_take(b->p, "->")) {
        lark_skip(b->p, false);
        lark_name(b->p); /* an alias names a node of a tree that nobody builds here */
        lark_skip(b->p, b->p->depth > 0);
    }
    return sequence(b, &l);
}

static value take_both(const body *b) {
    value v = take_sequence(b);
    while (lark_take(b->p, "&")) {
        if (!b->terminal) lark_refuse(b->p, QP_BAD_FORMAT, b->p->at - 1, "& stands in terminals only");
        const value other = take_sequence(b);
        v = b->p->failed == QP_OK ? rx_and(ir_pool(b->p->g), v, other) : RX_NONE;
    }
    return v;
}

static value take_choice(const body *b) {
    list l = {.at = NULL};
    lark_skip(b->p, true);
    lark_take(b->p, "|"); /* one before the first is allowed */
    do list_add(b, &l, take_both(b));
    while (lark_bar(b->p));
    return choice(b, &l);
}

static value take_all(const body *b) {
    const value v = take_choice(b);
    lark_skip(b->p, false);
    const char c = lark_peek(b->p);
    if (c && c != '\n' && c != '\r') lark_refuse(b->p, QP_BAD_FORMAT, b->p->at, "expected the end of the definition");
    return v;
}

ir_sym lark_rule_body(lark *p) { return take_all(&(body){p, false}); }
rx lark_terminal_body(lark *p) { return take_all(&(body){p, true}); }
