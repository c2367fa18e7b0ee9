/* schema_pattern.c — parses ECMA regular expressions and makes languages of them.
 *
 * A small tree, because what a piece means depends on what follows: language_of(piece, rest) is what the piece and
 * then `rest` match, up to the end of the text. That makes $ "the rest is empty" and a look-ahead an intersection (or
 * difference) with the rest. Pieces without anchors and look-ahead are plain concatenations.
 *
 * Called by schema_read.c (pattern, patternProperties), schema_format.c and schema_gaps.c. */
#include "schema_pattern.h"
#include "base/utf8.h"
#include "text/uni.h"

enum { MAX_NESTING = 100, MAX_COUNT = 100000 };

typedef enum piece_kind { P_EMPTY, P_CHARS, P_ROW, P_EITHER, P_REPEAT, P_BEGIN, P_END, P_LOOK } piece_kind;

typedef struct piece piece;
struct piece {
    piece_kind kind;
    bool special;   /* an anchor or look-ahead inside */
    bool has_begin; /* a ^ inside */
    bool negative;  /* look-ahead */
    uint32_t min, max;
    size_t offset;
    chars set;
    piece *first, *next; /* row, either, repeat, look: what is inside; `next` of the same row */
};

typedef struct parser {
    const spelling *spell;
    span text;
    size_t at;
    int depth;
    pattern_error *error;
} parser;

static piece *fail(parser *p, size_t offset, const char *what, bool is_syntax) {
    if (!p->error->what) *p->error = (pattern_error){offset, what, is_syntax};
    return NULL;
}

static piece *make(parser *p, piece_kind kind) {
    piece *made = room_get(p->spell->room, 1, sizeof *made);
    if (!made) return fail(p, p->at, "memory is short", false);
    made->kind = kind;
    made->offset = p->at;
    made->special = kind >= P_BEGIN;
    made->has_begin = kind == P_BEGIN;
    return made;
}

static bool more(const parser *p) { return p->at < p->text.bytes; }
static bool looking_at(const parser *p, const char *text) {
    return span_starts((span){p->text.at + p->at, p->text.bytes - p->at}, span_of(text));
}
static bool take(parser *p, const char *text) {
    if (!looking_at(p, text)) return false;
    p->at += strlen(text);
    return true;
}

static bool next_char(parser *p, uint32_t *c) {
    const int length = more(p) ? utf8_decode(p->text.at + p->at, p->text.bytes - p->at, c) : 0;
    p->at += (size_t)length;
    return length > 0;
}

/* ---- classes ---- */

static void add(parser *p, chars *c, uint32_t first, uint32_t last) { chars_add(c, p->spell->room, first, last); }

/* The set of \d \w \s, false for other letters. */
static bool add_shorthand(parser *p, chars *c, char letter) {
    chars set = {0};
    switch (letter | 0x20) {
    case 'd':
        add(p, &set, '0', '9');
        break;
    case 'w':
        add(p, &set, '0', '9'), add(p, &set, 'A', 'Z'), add(p, &set, '_', '_'), add(p, &set, 'a', 'z');
        break;
    case 's': {
        static const rx_range space[] = {{9, 13},          {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                         {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                         {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
        for (size_t i = 0; i < sizeof space / sizeof *space; i++) add(p, &set, space[i].first, space[i].last);
        break;
    }
    default:
        return false;
    }
    if (letter < 'a') chars_invert(&set, p->spell->room);
    chars_add_all(c, p->spell->room, &set);
    return true;
}

static uint64_t property_mask(span name) {
    static const struct {
        const char *name, *category;
    } longer[] = {
        {"Letter", "L"},
        {"Cased_Letter", "LC"},
        {"Uppercase_Letter", "Lu"},
        {"Lowercase_Letter", "Ll"},
        {"Titlecase_Letter", "Lt"},
        {"Modifier_Letter", "Lm"},
        {"Other_Letter", "Lo"},
        {"Mark", "M"},
        {"Nonspacing_Mark", "Mn"},
        {"Spacing_Mark", "Mc"},
        {"Enclosing_Mark", "Me"},
        {"Number", "N"},
        {"Decimal_Number", "Nd"},
        {"digit", "Nd"},
        {"Letter_Number", "Nl"},
        {"Other_Number", "No"},
        {"Punctuation", "P"},
        {"punct", "P"},
        {"Connector_Punctuation", "Pc"},
        {"Dash_Punctuation", "Pd"},
        {"Open_Punctuation", "Ps"},
        {"Close_Punctuation", "Pe"},
        {"Initial_Punctuation", "Pi"},
        {"Final_Punctuation", "Pf"},
        {"Other_Punctuation", "Po"},
        {"Symbol", "S"},
        {"Math_Symbol", "Sm"},
        {"Currency_Symbol", "Sc"},
        {"Modifier_Symbol", "Sk"},
        {"Other_Symbol", "So"},
        {"Separator", "Z"},
        {"Space_Separator", "Zs"},
        {"Line_Separator", "Zl"},
        {"Paragraph_Separator", "Zp"},
        {"Control", "Cc"},
        {"cntrl", "Cc"},
        {"Format", "Cf"},
        {"Private_Use", "Co"},
        {"Alphabetic", "Alphabetic"},
        {"Alpha", "Alphabetic"},
    };
    if (span_is(name, "LC")) return UNI_UPPER | UNI_LOWER | UNI_BIT(Lt);
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (span_is(name, longer[i].name))
            return span_is(span_of(longer[i].category), "LC") ? property_mask(SPAN("LC"))
                                                              : uni_property(span_of(longer[i].category));
    return uni_property(name);
}

/* After \p or \P. */
static bool add_property(parser *p, chars *c, bool negated) {
    const size_t start = p->at;
    if (!take(p, "{")) return fail(p, start, "\\p needs {Name}", true), false;
    const char *end = memchr(p->text.at + p->at, '}', p->text.bytes - p->at);
    if (!end) return fail(p, start, "\\p{ has no }", true), false;
    span name = {p->text.at + p->at, (size_t)(end - (p->text.at + p->at))};
    p->at += name.bytes + 1;
    static const char *const heads[] = {"General_Category=", "gc="};
    for (size_t i = 0; i < 2; i++)
        if (span_starts(name, span_of(heads[i])))
            name = (span){name.at + strlen(heads[i]), name.bytes - strlen(heads[i])};
    const uint64_t mask = property_mask(name);
    if (!mask) return fail(p, start, "this Unicode property is not known here (general categories are)", false), false;
    chars set = {0};
    chars_add_property(&set, p->spell->room, mask);
    if (negated) chars_invert(&set, p->spell->room);
    chars_add_all(c, p->spell->room, &set);
    return true;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* Exactly `n` digits, -1 if they are not there. */
static int64_t hex_digits(parser *p, int n) {
    int64_t value = 0;
    if (p->text.bytes - p->at < (size_t)n) return -1;
    for (int i = 0; i < n; i++) {
        const int digit = hex_value(p->text.at[p->at + (size_t)i]);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    p->at += (size_t)n;
    return value;
}

/* After \u: {H...}, HHHH, or two of them that are a surrogate pair. */
static bool unicode_number(parser *p, uint32_t *c) {
    int64_t value = 0;
    if (take(p, "{")) {
        int n = 0;
        for (; more(p) && hex_value(p->text.at[p->at]) >= 0 && value <= CHARS_LAST; p->at++, n++)
            value = value * 16 + hex_value(p->text.at[p->at]);
        if (!n || value > CHARS_LAST || !take(p, "}"))
            return fail(p, p->at, "\\u{...} is not a character", true), false;
    } else {
        value = hex_digits(p, 4);
        if (value >= 0xD800 && value < 0xDC00 && take(p, "\\u")) {
            const int64_t low = hex_digits(p, 4);
            if (low < 0xDC00 || low > 0xDFFF) return fail(p, p->at, "a lone surrogate is not a character", true), false;
            value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
        }
        if (value < 0) return fail(p, p->at, "\\u needs four hexadecimal digits", true), false;
    }
    *c = (uint32_t)value;
    return true;
}

/* One character after a backslash. */
static bool escaped_char(parser *p, uint32_t *c) {
    static const char letters[] = "tnrfv", values[] = "\t\n\r\f\v";
    const size_t start = p->at - 1;
    if (!next_char(p, c)) return fail(p, start, "a backslash ends the pattern", true), false;
    const char *letter = *c && *c < 0x80 ? strchr(letters, (int)*c) : NULL;
    if (letter) return *c = (uint32_t)(unsigned char)values[letter - letters], true;
    if (*c == 'u') return unicode_number(p, c);
    if (*c == 'x') {
        const int64_t value = hex_digits(p, 2);
        if (value < 0) return fail(p, start, "\\x needs two hexadecimal digits", true), false;
        return *c = (uint32_t)value, true;
    }
    if (*c == 'c') {
        const char control = more(p) ? p->text.at[p->at] : 0;
        if ((control | 0x20) < 'a' || (control | 0x20) > 'z') return fail(p, start, "\\c needs a letter", true), false;
        p->at++;
        return *c = (uint32_t)(control & 31), true;
    }
    if (*c == '0' && !(more(p) && p->text.at[p->at] >= '0' && p->text.at[p->at] <= '9')) return *c = 0, true;
    if (*c >= '0' && *c <= '9') return fail(p, start, "back-references are not supported", false), false;
    if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'))
        return fail(p, start, "this escape is not known", false), false;
    return true;
}

/* A character or a shorthand inside brackets. *is_set: it was a shorthand, added already. */
static bool class_atom(parser *p, chars *set, uint32_t *c, bool *is_set) {
    *is_set = false;
    if (!next_char(p, c)) return fail(p, p->at, "a [ has no ]", true), false;
    if (*c != '\\') return true;
    const char letter = more(p) ? p->text.at[p->at] : 0;
    if (letter && strchr("dDwWsSpP", letter)) {
        p->at++;
        *is_set = true;
        return (letter | 0x20) == 'p' ? add_property(p, set, letter == 'P') : add_shorthand(p, set, letter);
    }
    if (letter == 'b') return p->at++, *c = '\b', true;
    return escaped_char(p, c);
}

/* After the opening bracket. */
static bool read_class(parser *p, chars *set) {
    const size_t start = p->at;
    const bool negated = take(p, "^");
    while (!take(p, "]")) {
        uint32_t first, last;
        bool is_set, ends_in_set;
        if (!class_atom(p, set, &first, &is_set)) return false;
        if (looking_at(p, "-") && !looking_at(p, "-]")) {
            p->at++;
            if (!class_atom(p, set, &last, &ends_in_set)) return false;
            if (is_set || ends_in_set) {
                add(p, set, '-', '-');
                if (!is_set) add(p, set, first, first);
                if (!ends_in_set) add(p, set, last, last);
                continue;
            }
            if (first > last) return fail(p, start, "a range is reversed", true), false;
            add(p, set, first, last);
        } else if (!is_set) {
            add(p, set, first, first);
        }
    }
    if (negated) chars_invert(set, p->spell->room);
    return true;
}

static piece *dot(parser *p) {
    piece *made = make(p, P_CHARS);
    if (!made) return NULL;
    add(p, &made->set, '\n', '\n'), add(p, &made->set, '\r', '\r'), add(p, &made->set, 0x2028, 0x2029);
    chars_invert(&made->set, p->spell->room);
    return made;
}

/* ---- pieces ---- */

static piece *read_either(parser *p);

static piece *wrap(piece *outer, piece *inner) {
    if (!outer || !inner) return NULL;
    outer->first = inner;
    outer->special |= inner->special;
    outer->has_begin |= inner->has_begin;
    return outer;
}

/* After (?, which is not (?: . NULL with an error, or look-ahead's piece; *plain: a named group, read on as a group. */
static piece *group_head(parser *p, size_t start, bool *plain) {
    *plain = false;
    const bool ahead = take(p, "="), not_ahead = !ahead && take(p, "!");
    if (ahead || not_ahead) {
        piece *look = make(p, P_LOOK);
        if (look) look->negative = not_ahead;
        return look;
    }
    if (looking_at(p, "<=") || looking_at(p, "<!")) return fail(p, start, "look-behind is not supported", false);
    if (!take(p, "<")) return fail(p, start, "this kind of group is not supported", false);
    const char *end = memchr(p->text.at + p->at, '>', p->text.bytes - p->at);
    if (!end) return fail(p, start, "a group's name has no >", true);
    p->at = (size_t)(end - p->text.at) + 1;
    *plain = true;
    return NULL;
}

static piece *read_group(parser *p) {
    const size_t start = p->at - 1;
    piece *look = NULL;
    bool plain = true;
    if (++p->depth > MAX_NESTING) return fail(p, start, "groups are nested deeper than 100", false);
    if (take(p, "?") && !take(p, ":")) {
        look = group_head(p, start, &plain);
        if (!look && !plain) return NULL;
    }
    piece *inner = read_either(p);
    if (inner && !take(p, ")")) return fail(p, start, "a ( has no )", true);
    p->depth--;
    return look ? wrap(look, inner) : inner;
}

static piece *read_escape(parser *p) {
    const size_t start = p->at - 1;
    const char letter = more(p) ? p->text.at[p->at] : 0;
    if (letter == 'b' || letter == 'B') return fail(p, start, "word boundaries are not supported", false);
    if (letter == 'k') return fail(p, start, "back-references are not supported", false);
    piece *made = make(p, P_CHARS);
    if (!made) return NULL;
    if (letter && strchr("dDwWsSpP", letter)) {
        p->at++;
        const bool ok =
            (letter | 0x20) == 'p' ? add_property(p, &made->set, letter == 'P') : add_shorthand(p, &made->set, letter);
        return ok ? made : NULL;
    }
    uint32_t c;
    if (!escaped_char(p, &c)) return NULL;
    add(p, &made->set, c, c);
    return made;
}

static piece *read_atom(parser *p) {
    const size_t start = p->at;
    uint32_t c;
    if (!next_char(p, &c)) return fail(p, start, "the pattern is not UTF-8", true);
    switch (c) {
    case '(':
        return read_group(p);
    case '[': {
        piece *made = make(p, P_CHARS);
        return made && read_class(p, &made->set) ? made : NULL;
    }
    case '.':
        return dot(p);
    case '^':
        return make(p, P_BEGIN);
    case '$':
        return make(p, P_END);
    case '\\':
        return read_escape(p);
    case '*':
    case '+':
    case '?':
        return fail(p, start, "nothing to repeat", true);
    default: {
        piece *made = make(p, P_CHARS);
        if (made) add(p, &made->set, c, c);
        return made;
    }
    }
}

static bool read_count(parser *p, uint32_t *out) {
    uint64_t value = 0;
    const size_t start = p->at;
    for (; more(p) && p->text.at[p->at] >= '0' && p->text.at[p->at] <= '9' && value <= MAX_COUNT; p->at++)
        value = value * 10 + (uint64_t)(p->text.at[p->at] - '0');
    *out = value > MAX_COUNT ? MAX_COUNT + 1 : (uint32_t)value;
    return p->at > start;
}

/* {m}, {m,}, {m,n}; without effect where the braces are plain characters. */
static bool read_braces(parser *p, uint32_t *min, uint32_t *max) {
    const size_t start = p->at;
    if (take(p, "{") && read_count(p, min)) {
        *max = *min;
        if (take(p, ",") && !read_count(p, max)) *max = RX_INFINITE;
        if (take(p, "}")) return true;
    }
    p->at = start;
    return false;
}

static bool read_quantifier(parser *p, uint32_t *min, uint32_t *max) {
    *min = 0, *max = RX_INFINITE;
    if (take(p, "*")) return true;
    if (take(p, "+")) return *min = 1, true;
    if (take(p, "?")) return *max = 1, true;
    return read_braces(p, min, max);
}

static piece *read_term(parser *p) {
    const size_t start = p->at;
    piece *atom = read_atom(p);
    uint32_t min, max;
    if (atom && read_quantifier(p, &min, &max)) {
        if (atom->kind == P_BEGIN || atom->kind == P_END) return fail(p, start, "an anchor cannot be repeated", true);
        if (min > MAX_COUNT || (max != RX_INFINITE && max > MAX_COUNT))
            return fail(p, start, "a count is over 100000", false);
        if (min > max) return fail(p, start, "a count's range is reversed", true);
        take(p, "?"); /* lazy: the same language */
        piece *repeat = make(p, P_REPEAT);
        if (!repeat) return NULL;
        repeat->offset = start;
        repeat->min = min, repeat->max = max;
        atom = wrap(repeat, atom);
        if (read_quantifier(p, &min, &max)) return fail(p, start, "a repetition cannot be repeated", true);
    }
    return atom;
}

static piece *read_row(parser *p) {
    piece *row = make(p, P_ROW), *last = NULL;
    while (row && more(p) && !looking_at(p, "|") && !looking_at(p, ")")) {
        piece *term = read_term(p);
        if (!term) return NULL;
        row->special |= term->special;
        row->has_begin |= term->has_begin;
        if (last)
            last->next = term;
        else
            row->first = term;
        last = term;
    }
    return row;
}

static piece *read_either(parser *p) {
    piece *either = make(p, P_EITHER), *last = NULL;
    do {
        piece *row = either ? read_row(p) : NULL;
        if (!row) return NULL;
        either->special |= row->special;
        either->has_begin |= row->has_begin;
        if (last)
            last->next = row;
        else
            either->first = row;
        last = row;
    } while (take(p, "|"));
    return either;
}

/* ---- languages ---- */

static size_t count_of(const piece *first) {
    size_t n = 0;
    for (; first; first = first->next) n++;
    return n;
}

static rx plain_language(const parser *p, const piece *a);

/* Of each of the row's terms (or rows of an alternation); NULL when memory is short. */
static rx *parts_of(const parser *p, const piece *a, size_t n) {
    rx *parts = room_get(p->spell->room, n, sizeof *parts);
    size_t i = 0;
    for (const piece *inner = a->first; parts && inner; inner = inner->next) parts[i++] = plain_language(p, inner);
    return parts;
}

static rx plain_language(const parser *p, const piece *a) {
    rx_pool *pool = p->spell->pool;
    if (a->kind == P_CHARS) return spelling_chars(p->spell, &a->set);
    if (a->kind == P_REPEAT) return rx_repeat(pool, plain_language(p, a->first), a->min, a->max);
    const size_t n = count_of(a->first);
    const rx *parts = parts_of(p, a, n);
    if (!parts) return RX_NONE;
    return a->kind == P_EITHER ? rx_or_n(pool, parts, n) : rx_concat_n(pool, parts, n);
}

typedef enum place { AT_BEGIN, INSIDE, UNSURE } place;

static rx language_of(parser *p, const piece *a, rx rest, place where);

/* Whether text before this term's successor has been passed, given that it was (or not) before the term. */
static place after(const parser *p, const piece *term, place where) {
    if (term->kind == P_BEGIN || term->kind == P_END || term->kind == P_LOOK || where == INSIDE) return where;
    if (term->special) return UNSURE;
    const rx language = plain_language(p, term);
    if (language == RX_EMPTY) return where;
    return rx_nullable(p->spell->pool, language) ? UNSURE : INSIDE;
}

/* From the last term to the first, each with all that follows it. */
static rx row_language(parser *p, const piece *row, rx rest, place where) {
    const size_t n = count_of(row->first);
    const piece **terms = room_get(p->spell->room, n, sizeof *terms);
    place *places = room_get(p->spell->room, n, sizeof *places);
    if (!terms || !places) return RX_NONE;
    size_t i = 0;
    for (const piece *term = row->first; term; term = term->next, i++) {
        terms[i] = term;
        places[i] = i ? after(p, terms[i - 1], places[i - 1]) : where;
    }
    while (i-- > 0) rest = language_of(p, terms[i], rest, places[i]);
    return rest;
}

static rx look_language(parser *p, const piece *a, rx rest, place where) {
    const rx seen = language_of(p, a->first, p->spell->any_text, where);
    return a->negative ? rx_minus(p->spell->pool, rest, seen) : rx_and(p->spell->pool, rest, seen);
}

static rx language_of(parser *p, const piece *a, rx rest, place where) {
    rx_pool *pool = p->spell->pool;
    rx out = RX_NONE;
    if (!a->special) return rx_concat(pool, plain_language(p, a), rest);
    switch (a->kind) {
    case P_BEGIN:
        if (where == UNSURE) fail(p, a->offset, "^ after something that may be empty", false);
        return where == AT_BEGIN ? rest : RX_NONE;
    case P_END:
        return rx_nullable(pool, rest) ? RX_EMPTY : RX_NONE;
    case P_LOOK:
        return look_language(p, a, rest, where);
    case P_REPEAT:
        if (a->max > 1) return fail(p, a->offset, "an anchor or look-ahead under a repetition", false), RX_NONE;
        out = language_of(p, a->first, rest, where);
        return a->min ? out : rx_or(pool, out, rest);
    case P_EITHER:
        for (const piece *row = a->first; row; row = row->next)
            out = rx_or(pool, out, language_of(p, row, rest, where));
        return out;
    default:
        return row_language(p, a, rest, where);
    }
}

static rx searched(parser *p, const piece *a) {
    rx_pool *pool = p->spell->pool;
    const rx any = p->spell->any_text, at_begin = language_of(p, a, any, AT_BEGIN);
    if (!a->has_begin) return rx_concat(pool, any, at_begin);
    return rx_or(pool, at_begin,
                 rx_concat(pool, p->spell->any_char, rx_concat(pool, any, language_of(p, a, any, INSIDE))));
}

rx pattern_language(const spelling *s, span pattern, bool whole, pattern_error *error) {
    *error = (pattern_error){0};
    parser p = {.spell = s, .text = pattern, .error = error};
    const piece *read = read_either(&p);
    if (read && p.at < pattern.bytes) fail(&p, p.at, "a ) has no (", true);
    if (error->what || !read) return RX_NONE;
    const rx language = whole ? language_of(&p, read, RX_EMPTY, AT_BEGIN) : searched(&p, read);
    return error->what ? RX_NONE : language;
}
