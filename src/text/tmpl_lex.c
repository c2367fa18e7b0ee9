/* tmpl_lex.c — template source -> tokens.
 *
 * Outside of tags everything is data; a tag begins with {{, {% or {#. The tricky thing is white space: "-" beside a
 * tag removes all of it on that side, lstrip_blocks removes the indentation before a block or comment that stands
 * first on its line, trim_blocks removes the one newline behind it, and "+" switches either off. Inside of tags the
 * end marks count only while no bracket is open. Literals are read by tmpl_literal.c. */
#include "tmpl_lex.h"
#include "tmpl_literal.h"
#include "tmpl_unicode.h"
#include "base/utf8.h"

typedef struct lexer {
    const tmpl_source *source;
    const char *s;
    size_t at, end;
    bool line_starting; /* the last thing read ended a line (or nothing was read yet) */
    char open[256];     /* closing brackets that are due */
    int n_open;
    arena *memory;
    token *tokens;
    size_t n_tokens, capacity;
    qp_error *err;
} lexer;

const char *tmpl_token_name(token_kind kind) {
    static const char *const names[] = {
#define X(name, text) text,
        TOKENS(X)
#undef X
    };
    return names[kind];
}

static qp_status add(lexer *l, token_kind kind, size_t at, span text, token **out) {
    if (l->n_tokens == l->capacity) {
        const size_t capacity = l->capacity ? l->capacity * 2 : 256;
        token *tokens = mem_resize(l->tokens, capacity, sizeof *tokens);
        if (!tokens) return err_no_memory(l->err, capacity * sizeof *tokens, "template tokens");
        l->tokens = tokens;
        l->capacity = capacity;
    }
    l->tokens[l->n_tokens] = (token){.kind = (uint8_t)kind, .at = (uint32_t)at, .text = text};
    if (out) *out = &l->tokens[l->n_tokens];
    l->n_tokens++;
    return QP_OK;
}

static bool looking_at(const lexer *l, size_t at, const char *text) {
    return span_starts((span){l->s + at, l->end - at}, span_of(text));
}

static size_t skip_spaces(const lexer *l, size_t at) {
    int length;
    while (at < l->end && (length = tmpl_space_length(l->s + at, l->end - at))) at += (size_t)length;
    return at;
}

static size_t strip_end(const lexer *l, size_t from, size_t to) {
    return from + tmpl_rstrip((span){l->s + from, to - from}).bytes;
}

/* If an end mark (two bytes) with an optional sign stands at `at`, its end with what trimming takes along; else 0.
 * Variable tags know no "+" and are never trimmed. */
static size_t end_mark(const lexer *l, size_t at, const char *mark, bool is_variable) {
    const char sign = at < l->end ? l->s[at] : 0;
    if (sign == '-' && looking_at(l, at + 1, mark)) return skip_spaces(l, at + 3);
    if (sign == '+' && !is_variable && looking_at(l, at + 1, mark)) return at + 3;
    if (!looking_at(l, at, mark)) return 0;
    return at + 2 + (!is_variable && at + 2 < l->end && l->s[at + 2] == '\n');
}

/* Data from `from` up to the tag at `to`, as its sign ('-', '+' or 0) leaves it. */
static qp_status add_data(lexer *l, size_t from, size_t to, char sign, bool is_variable) {
    if (sign == '-') {
        to = strip_end(l, from, to);
    } else if (sign != '+' && !is_variable) {
        size_t line = to;
        while (line > from && l->s[line - 1] != '\n') line--;
        /* as Jinja's fullmatch of \s+: an empty line start has nothing to strip */
        if ((line > from || l->line_starting) && skip_spaces(l, line) >= to) to = line;
    }
    return to > from ? add(l, T_DATA, from, (span){l->s + from, to - from}, NULL) : QP_OK;
}

static size_t find_tag(const lexer *l, size_t at) {
    while (at + 1 < l->end) {
        const char *brace = memchr(l->s + at, '{', l->end - at - 1);
        if (!brace) break;
        if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#') return (size_t)(brace - l->s);
        at = (size_t)(brace - l->s) + 1;
    }
    return l->end;
}

static char sign_at(const lexer *l, size_t at) {
    return at < l->end && (l->s[at] == '-' || l->s[at] == '+') ? l->s[at] : 0;
}

/* Remembers where reading goes on and whether that is the beginning of a line. */
static void move_to(lexer *l, size_t at) {
    l->line_starting = at > l->at && l->s[at - 1] == '\n';
    l->at = at;
}

/* A comment's body; one that is opened by the very last bytes is no error in Jinja. */
static qp_status lex_comment(lexer *l, size_t begin) {
    if (l->at >= l->end) return QP_OK;
    for (size_t at = l->at; at < l->end; at++) {
        const size_t end = end_mark(l, at, "#}", false);
        if (end) return move_to(l, end), QP_OK;
    }
    return tmpl_source_fail(l->source, begin, l->err, QP_BAD_FORMAT, "Missing end of comment tag");
}

/* The end of "{%- raw -%}" if one begins at `at`, else 0. */
static size_t raw_begin(const lexer *l, size_t at) {
    if (!looking_at(l, at, "{%")) return 0;
    size_t name = skip_spaces(l, at + 2 + (sign_at(l, at + 2) != 0));
    if (!looking_at(l, name, "raw")) return 0;
    name = skip_spaces(l, name + 3);
    if (looking_at(l, name, "-%}")) return skip_spaces(l, name + 3);
    return looking_at(l, name, "%}") ? name + 2 : 0;
}

/* The end of "{% endraw %}" if one begins at `at`, else 0. */
static size_t raw_end(const lexer *l, size_t at) {
    if (!looking_at(l, at, "{%")) return 0;
    const size_t name = skip_spaces(l, at + 2 + (sign_at(l, at + 2) != 0));
    return looking_at(l, name, "endraw") ? end_mark(l, skip_spaces(l, name + 6), "%}", false) : 0;
}

static qp_status lex_raw(lexer *l, size_t begin) {
    if (l->at >= l->end) return QP_OK;
    for (size_t at = find_tag(l, l->at); at < l->end; at = find_tag(l, at + 1)) {
        const size_t end = raw_end(l, at);
        if (!end) continue;
        ERR_TRY(add_data(l, l->at, at, sign_at(l, at + 2), false));
        move_to(l, end);
        return QP_OK;
    }
    return tmpl_source_fail(l->source, begin, l->err, QP_BAD_FORMAT, "Missing end of raw directive");
}

static qp_status bracket(lexer *l, char c) {
    static const char pairs[] = "()[]{}";
    const char *found = strchr(pairs, c);
    if (!found) return QP_OK;
    if ((found - pairs) % 2 == 0) {
        if (l->n_open == (int)sizeof l->open)
            return tmpl_source_fail(l->source, l->at, l->err, QP_TOO_LARGE, "brackets nested deeper than %d",
                                    (int)sizeof l->open);
        l->open[l->n_open++] = found[1];
        return QP_OK;
    }
    if (!l->n_open) return tmpl_source_fail(l->source, l->at, l->err, QP_BAD_FORMAT, "unexpected '%c'", c);
    const char due = l->open[--l->n_open];
    if (due == c) return QP_OK;
    return tmpl_source_fail(l->source, l->at, l->err, QP_BAD_FORMAT, "unexpected '%c', expected '%c'", c, due);
}

static qp_status lex_operator(lexer *l) {
    for (int kind = T_FLOORDIV; kind < T_COUNT; kind++) {
        const char *text = tmpl_token_name((token_kind)kind);
        if (!looking_at(l, l->at, text)) continue;
        ERR_TRY(bracket(l, text[0]));
        ERR_TRY(add(l, (token_kind)kind, l->at, span_of(text), NULL));
        l->at += strlen(text);
        return QP_OK;
    }
    uint32_t c = 0;
    utf8_decode(l->s + l->at, l->end - l->at, &c);
    return tmpl_source_fail(l->source, l->at, l->err, QP_BAD_FORMAT, "unexpected character U+%04X", (unsigned)c);
}

/* One token inside of a tag. */
static qp_status lex_token(lexer *l) {
    const span rest = {l->s + l->at, l->end - l->at};
    token t = {.at = (uint32_t)l->at};
    size_t bytes = 0;
    /* ".5" after a value is an index, so a number directly behind a dot is never a float */
    const bool after_dot = l->at && l->s[l->at - 1] == '.';
    qp_status status = tmpl_read_literal(rest, after_dot, l->memory, &t, &bytes, l->source, l->err);
    if (status != QP_OK) return status;
    if (!bytes) return lex_operator(l);
    token *added = NULL;
    ERR_TRY(add(l, (token_kind)t.kind, l->at, t.text, &added));
    added->integer = t.integer;
    added->real = t.real;
    l->at += bytes;
    return QP_OK;
}

/* The inside of {{ }} or {% %}. */
static qp_status lex_tag(lexer *l, bool is_variable) {
    const char *mark = is_variable ? "}}" : "%}";
    l->n_open = 0;
    while (l->at < l->end) {
        const size_t end = l->n_open ? 0 : end_mark(l, l->at, mark, is_variable);
        if (end) {
            ERR_TRY(add(l, is_variable ? T_VAR_END : T_BLOCK_END, l->at, (span){mark, 2}, NULL));
            move_to(l, end);
            return QP_OK;
        }
        const size_t after = skip_spaces(l, l->at);
        if (after > l->at)
            l->at = after;
        else
            ERR_TRY(lex_token(l));
    }
    return QP_OK;
}

static qp_status lex_all(lexer *l) {
    while (l->at < l->end) {
        const size_t tag = find_tag(l, l->at), raw = raw_begin(l, tag);
        if (tag == l->end) return add(l, T_DATA, l->at, (span){l->s + l->at, l->end - l->at}, NULL);
        const char sign = sign_at(l, tag + 2), what = l->s[tag + 1];
        ERR_TRY(add_data(l, l->at, tag, sign, what == '{'));
        move_to(l, raw ? raw : tag + 2 + (sign != 0));
        if (raw) {
            ERR_TRY(lex_raw(l, tag));
        } else if (what == '#') {
            ERR_TRY(lex_comment(l, tag));
        } else {
            ERR_TRY(add(l, what == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN, tag, (span){l->s + tag, 2}, NULL));
            ERR_TRY(lex_tag(l, what == '{'));
        }
    }
    return QP_OK;
}

qp_status tmpl_lex(const tmpl_source *source, arena *memory, token **out, qp_error *err) {
    lexer l = {
        .source = source, .s = source->at, .end = source->bytes, .line_starting = true, .memory = memory, .err = err};
    qp_status status = lex_all(&l);
    if (status == QP_OK) status = add(&l, T_EOF, l.end, (span){"", 0}, NULL);
    *out = NULL;
    if (status == QP_OK) {
        *out = arena_get(memory, l.n_tokens, sizeof **out);
        if (*out)
            memcpy(*out, l.tokens, l.n_tokens * sizeof **out);
        else
            status = err_no_memory(err, l.n_tokens * sizeof **out, "template tokens");
    }
    mem_free(l.tokens);
    return status;
}
