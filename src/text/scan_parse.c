/* scan_parse.c — split patterns to tables: reads the little language that tokenizers' patterns are written in.
 *
 *     pattern  = sequence ('|' sequence)*        no sequence may match the empty text
 *     sequence = (atom count?)*
 *     atom     = character | escape | [class] | (?:pattern) | (?i:pattern) | (?=class) | (?!class)
 *     count    = ? * + {n} {n,} {n,m}            groups only '?'; then '+' = gives nothing back
 *
 * Anything else, or anything whose meaning here could differ from Oniguruma's, makes the pattern unknown. */
#include "scan.h"
#include "uni.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { FOREVER = UINT32_MAX, MAX_DEPTH = 8 };

typedef struct reader {
    const char *at, *end;
    scan *s;
    bool ignores_case, is_unknown, no_memory;
    int depth;
} reader;

static bool unknown(reader *r) {
    r->is_unknown = true;
    return false;
}

static bool ahead(const reader *r, const char *text) {
    const size_t n = strlen(text);
    return (size_t)(r->end - r->at) >= n && !memcmp(r->at, text, n);
}

static bool take(reader *r, const char *text) {
    if (!ahead(r, text)) return false;
    r->at += strlen(text);
    return true;
}

/* ---- classes ---- */

static bool add_range(reader *r, scan_term *t, uint32_t first, uint32_t last) {
    void *ranges = mem_resize(t->ranges, (size_t)t->n_ranges + 1, sizeof *t->ranges);
    if (!ranges) return r->no_memory = true, false;
    t->ranges = ranges;
    t->ranges[t->n_ranges][0] = first;
    t->ranges[t->n_ranges++][1] = last;
    return true;
}

/* With (?i): the other cases of an ASCII letter too; s and k have a third one. */
static bool add_character(reader *r, scan_term *t, uint32_t c) {
    if (!add_range(r, t, c, c) || !r->ignores_case) return !r->no_memory;
    if (c >= 0x80) return unknown(r);
    const uint32_t lower = c | 32;
    if (lower < 'a' || lower > 'z') return true;
    if (!add_range(r, t, c ^ 32, c ^ 32)) return false;
    if (lower == 's') return add_range(r, t, 0x17F, 0x17F);
    return lower != 'k' || add_range(r, t, 0x212A, 0x212A);
}

static bool add_mask(reader *r, scan_term *t, uint64_t mask, bool is_negated) {
    if (r->ignores_case) return unknown(r);
    if (!is_negated)
        t->mask |= mask;
    else if (t->n_nots == SCAN_MAX_NOTS)
        return unknown(r);
    else
        t->nots[t->n_nots++] = mask;
    return true;
}

/* After "\p" or "\P". */
static bool read_property(reader *r, scan_term *t, bool is_negated) {
    if (!take(r, "{")) return unknown(r);
    if (take(r, "^")) is_negated = !is_negated;
    const char *const end = memchr(r->at, '}', (size_t)(r->end - r->at));
    const uint64_t mask = end ? uni_property((span){r->at, (size_t)(end - r->at)}) : 0;
    if (!mask) return unknown(r);
    r->at = end + 1;
    return add_mask(r, t, mask, is_negated);
}

/* After a backslash: a class (*is_class) or a character. */
static bool read_escape(reader *r, scan_term *t, bool *is_class, uint32_t *c) {
    static const char plain[] = ".*+?|()[]{}^$\\/-'\" &~#!%,:;<=>@_`";
    if (r->at >= r->end) return unknown(r);
    const char e = *r->at++;
    *is_class = true;
    switch (e) {
    case 'p':
        return read_property(r, t, false);
    case 'P':
        return read_property(r, t, true);
    case 's':
        return add_mask(r, t, UNI_SPACE, false);
    case 'S':
        return add_mask(r, t, UNI_SPACE, true);
    case 'd':
        return add_mask(r, t, UNI_BIT(Nd), false);
    case 'D':
        return add_mask(r, t, UNI_BIT(Nd), true);
    case 'w':
        return add_mask(r, t, UNI_WORD_RE, false);
    case 'W':
        return add_mask(r, t, UNI_WORD_RE, true);
    default:
        break;
    }
    *is_class = false;
    if (e == 'r')
        *c = '\r';
    else if (e == 'n')
        *c = '\n';
    else if (e == 't')
        *c = '\t';
    else if (e && strchr(plain, e))
        *c = (unsigned char)e;
    else
        return unknown(r);
    return true;
}

static bool read_plain(reader *r, uint32_t *c) {
    const int length = utf8_decode(r->at, (size_t)(r->end - r->at), c);
    r->at += length;
    return length || unknown(r);
}

/* One member of a bracketed class: a class escape, a character or a range. */
static bool read_member(reader *r, scan_term *t) {
    uint32_t first, last;
    bool is_class = false;
    if (take(r, "\\")) {
        if (!read_escape(r, t, &is_class, &first)) return false;
    } else if (!read_plain(r, &first))
        return false;
    if (is_class) return true;
    if (!ahead(r, "-") || r->end - r->at < 2 || r->at[1] == ']') return add_character(r, t, first);
    r->at++;
    if (take(r, "\\")) {
        if (!read_escape(r, t, &is_class, &last) || is_class) return unknown(r);
    } else if (!read_plain(r, &last))
        return false;
    if (r->ignores_case || first > last) return unknown(r);
    return add_range(r, t, first, last);
}

/* After '[': the members of one term, up to ']' or "&&". */
static bool read_term(reader *r, scan_term *t) {
    t->is_negated = take(r, "^");
    if (ahead(r, "]") || ahead(r, "-")) return unknown(r);
    while (r->at < r->end && !ahead(r, "]") && !ahead(r, "&&")) {
        if (ahead(r, "[")) return unknown(r); /* nested unions and [:names:] */
        if (!read_member(r, t)) return false;
    }
    return r->at < r->end || unknown(r);
}

/* After '['. `[a&&b]`, `[a&&[b]]`, `[a&&[^b]]`; a negated intersection is unknown. */
static bool read_bracket(reader *r, scan_class *k) {
    k->n_terms = 1;
    if (!read_term(r, &k->terms[0])) return false;
    while (take(r, "&&")) {
        if (k->terms[0].is_negated || k->n_terms == SCAN_MAX_TERMS) return unknown(r);
        const bool has_bracket = take(r, "[");
        scan_term *t = &k->terms[k->n_terms++];
        if (!has_bracket && ahead(r, "^")) return unknown(r);
        if (!read_term(r, t) || (has_bracket && !take(r, "]"))) return unknown(r);
    }
    return take(r, "]") || unknown(r);
}

static bool same_term(const scan_term *a, const scan_term *b) {
    return a->mask == b->mask && a->n_nots == b->n_nots && a->is_negated == b->is_negated &&
           a->n_ranges == b->n_ranges && !memcmp(a->nots, b->nots, sizeof a->nots) &&
           (!a->n_ranges || !memcmp(a->ranges, b->ranges, (size_t)a->n_ranges * sizeof *a->ranges));
}

/* The newest class gives way to an equal older one. */
static int share_class(reader *r) {
    const int newest = r->s->n_classes - 1;
    scan_class *k = &r->s->classes[newest];
    for (int i = 0; i < newest; i++) {
        bool is_same = r->s->classes[i].n_terms == k->n_terms;
        for (int t = 0; is_same && t < k->n_terms; t++) is_same = same_term(&r->s->classes[i].terms[t], &k->terms[t]);
        if (!is_same) continue;
        for (int t = 0; t < k->n_terms; t++) mem_free(k->terms[t].ranges);
        *k = (scan_class){0};
        r->s->n_classes--;
        return i;
    }
    return newest;
}

/* A single-character atom into a class; its index, -1 if it is not known. */
static int read_class(reader *r) {
    if (r->s->n_classes == SCAN_MAX_CLASSES || r->at >= r->end) return unknown(r), -1;
    scan_class *k = &r->s->classes[r->s->n_classes++];
    uint32_t c = 0;
    bool is_class = false;
    k->n_terms = 1;
    if (take(r, "[")) {
        if (!read_bracket(r, k)) return -1;
        return share_class(r);
    }
    if (take(r, "\\")) {
        if (!read_escape(r, &k->terms[0], &is_class, &c)) return -1;
    } else if (strchr(".^$*+?{}()|]", *r->at) || !read_plain(r, &c))
        return unknown(r), -1;
    if (!is_class && !add_character(r, &k->terms[0], c)) return -1;
    return share_class(r);
}

/* ---- nodes ---- */

static int add_node(reader *r, scan_node node) {
    if (r->s->n_nodes == SCAN_MAX_NODES) return unknown(r), 0;
    r->s->nodes[r->s->n_nodes] = node;
    return r->s->n_nodes++;
}

static bool read_number(reader *r, uint32_t *n) {
    const char *start = r->at;
    for (*n = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9' && *n < 1000; r->at++)
        *n = *n * 10 + (uint32_t)(*r->at - '0');
    return r->at > start;
}

/* After '{'. */
static bool read_braces(reader *r, scan_node *node) {
    if (!read_number(r, &node->min)) return unknown(r);
    node->max = node->min;
    if (take(r, ",") && !read_number(r, &node->max)) node->max = FOREVER;
    /* "{1,3}+" repeats in Ruby's syntax and possesses in others: never guess. */
    return (take(r, "}") && node->max >= node->min && node->max && !ahead(r, "+") && !ahead(r, "?") &&
            !ahead(r, "*")) ||
           unknown(r);
}

static bool read_count(reader *r, scan_node *node) {
    node->min = node->max = 1;
    if (take(r, "{")) return read_braces(r, node);
    if (take(r, "?"))
        node->min = 0;
    else if (take(r, "*"))
        node->min = 0, node->max = FOREVER;
    else if (take(r, "+"))
        node->max = FOREVER;
    else
        return true;
    node->keeps = take(r, "+");
    return !(ahead(r, "?") || ahead(r, "*") || ahead(r, "+")) || unknown(r);
}

static int read_pattern(reader *r, int next);

/* "(?=x)", "(?!x)": x is one character class. */
static int read_look(reader *r, scan_op op, int next) {
    const int k = read_class(r);
    if (k < 0 || !take(r, ")")) return unknown(r), 0;
    return add_node(r, (scan_node){.op = op, .class_index = (int16_t)k, .next = (int16_t)next});
}

static int read_group(reader *r, int next) {
    const bool kept = r->ignores_case;
    if (take(r, "(?=")) return read_look(r, SCAN_AHEAD, next);
    if (take(r, "(?!")) return read_look(r, SCAN_NOT_AHEAD, next);
    if (take(r, "(?i:"))
        r->ignores_case = true;
    else if (!take(r, "(?:"))
        return unknown(r), 0;
    const int inside = read_pattern(r, next);
    r->ignores_case = kept;
    if (r->is_unknown || !take(r, ")")) return unknown(r), 0;
    if (ahead(r, "*") || ahead(r, "+") || ahead(r, "{")) return unknown(r), 0;
    if (!take(r, "?")) return inside;
    if (ahead(r, "+") || ahead(r, "?")) return unknown(r), 0;
    return add_node(r, (scan_node){.op = SCAN_BRANCH, .next = (int16_t)inside, .other = (int16_t)next});
}

static int read_part(reader *r, int next) {
    if (ahead(r, "(")) return read_group(r, next);
    scan_node node = {.op = SCAN_CLASS, .next = (int16_t)next};
    const int k = read_class(r);
    if (k < 0 || !read_count(r, &node)) return unknown(r), 0;
    node.class_index = (int16_t)k;
    return add_node(r, node);
}

static bool pass_bracket(reader *r) {
    int depth = 0;
    while (r->at < r->end) {
        const char c = *r->at++;
        if (c == '\\' && r->at++ == r->end) return unknown(r);
        if (c == '[') depth++;
        if (c == ']' && --depth == 0) return true;
    }
    return unknown(r);
}

/* Passes over a backslash and what belongs to it. */
static bool pass_escape(reader *r) {
    if (r->end - r->at < 2) return unknown(r);
    r->at += 2;
    if ((r->at[-1] | 32) != 'p' || r->at == r->end || *r->at != '{') return true;
    while (r->at < r->end && *r->at != '}') r->at++;
    return r->at++ < r->end || unknown(r);
}

static void pass_count(reader *r) {
    if (take(r, "{"))
        while (r->at < r->end && *r->at++ != '}') {
        }
    while (r->at < r->end && *r->at && strchr("?*+", *r->at)) r->at++;
}

/* Passes over one part without making nodes. */
static bool pass_part(reader *r) {
    int depth = 0;
    do {
        if (r->at >= r->end) return unknown(r);
        if (*r->at == '[') {
            if (!pass_bracket(r)) return false;
        } else if (*r->at == '\\') {
            if (!pass_escape(r)) return false;
        } else {
            depth += (*r->at == '(') - (*r->at == ')');
            r->at++;
        }
    } while (depth > 0);
    pass_count(r);
    return true;
}

static int read_sequence(reader *r, int next) {
    enum { MAX_PARTS = 24 };
    const char *parts[MAX_PARTS]; /* nodes point forward, so a part is made after all that follow it */
    int n = 0;
    reader dry = *r;
    while (dry.at < dry.end && *dry.at != '|' && *dry.at != ')') {
        if (n == MAX_PARTS) return unknown(r), 0;
        parts[n++] = dry.at;
        if (!pass_part(&dry)) return unknown(r), 0;
    }
    /* Under (?i) Oniguruma folds ss, st, ff, fi and fl into one character: those go to the general engine. */
    for (int i = 0; r->ignores_case && i + 1 < n; i++)
        if (strchr("[sSfF", *parts[i]) && strchr("[sStTfFiIlL", *parts[i + 1])) return unknown(r), 0;
    for (int i = n - 1; i >= 0 && !r->is_unknown; i--) {
        r->at = parts[i];
        next = read_part(r, next);
    }
    r->at = dry.at;
    return next;
}

static int read_pattern(reader *r, int next) {
    enum { MAX_ALTERNATIVES = 48 };
    int firsts[MAX_ALTERNATIVES], n = 0;
    if (++r->depth > MAX_DEPTH) return unknown(r), 0;
    do {
        if (n == MAX_ALTERNATIVES) return unknown(r), 0;
        firsts[n++] = read_sequence(r, next);
    } while (!r->is_unknown && take(r, "|"));
    r->depth--;
    int first = firsts[n - 1];
    for (int i = n - 2; i >= 0; i--)
        first = add_node(r, (scan_node){.op = SCAN_BRANCH, .next = (int16_t)firsts[i], .other = (int16_t)first});
    return first;
}

/* ---- facts about the finished program ---- */

/* Whether what begins at the node matches the empty text everywhere. */
static bool always_matches(const scan *s, int index) {
    const scan_node *n = &s->nodes[index];
    if (n->op == SCAN_ACCEPT) return true;
    if (n->op == SCAN_BRANCH) return always_matches(s, n->next) || always_matches(s, n->other);
    return n->op == SCAN_CLASS && n->min == 0 && always_matches(s, n->next);
}

/* A character, or (c == ANY_OTHER) all that share these bits and are in no class's ranges. */
typedef struct probe {
    uint32_t c;
    uint64_t bits;
} probe;
enum { ANY_OTHER = UINT32_MAX };

static bool has(const scan *s, const scan_node *n, probe p) {
    const scan_class *k = &s->classes[n->class_index];
    return p.c == ANY_OTHER ? scan_has_bits(k, p.bits) : scan_has(k, p.c);
}

/* Whether what begins at the node may take the character first; *is_empty: it may also match nothing. */
static bool may_take(const scan *s, int index, probe p, bool *is_empty) {
    const scan_node *n = &s->nodes[index];
    if (n->op == SCAN_ACCEPT) return *is_empty = true, false;
    if (n->op == SCAN_BRANCH) {
        const bool first = may_take(s, n->next, p, is_empty);
        return may_take(s, n->other, p, is_empty) || first;
    }
    if (n->op != SCAN_CLASS) return *is_empty = true, true;
    const bool takes = has(s, n, p);
    return (n->min == 0 && may_take(s, n->next, p, is_empty)) || takes;
}

static bool both_take(const scan *s, const scan_node *n, probe p) {
    bool is_empty = false;
    return has(s, n, p) && (may_take(s, n->next, p, &is_empty) || is_empty);
}

static bool has_wide_ranges(const scan *s) {
    for (int k = 0; k < s->n_classes; k++)
        for (int t = 0; t < s->classes[k].n_terms; t++)
            for (int i = 0; i < s->classes[k].terms[t].n_ranges; i++) {
                const uint32_t *range = s->classes[k].terms[t].ranges[i];
                if (range[1] >= 0x80 && range[0] != range[1]) return true;
            }
    return false;
}

/* Lone wide characters of ranges (the third cases of s and k) are probed by themselves. */
static bool wide_characters_clash(const scan *s, const scan_node *n) {
    for (int k = 0; k < s->n_classes; k++)
        for (int t = 0; t < s->classes[k].n_terms; t++)
            for (int i = 0; i < s->classes[k].terms[t].n_ranges; i++)
                if (both_take(s, n, (probe){s->classes[k].terms[t].ranges[i][1], 0})) return true;
    return false;
}

/* Whether no character of the class could also begin what follows: then the class never gives one back. */
static bool is_disjoint(const scan *s, const scan_node *n) {
    bool is_empty = false;
    may_take(s, n->next, (probe){0, 0}, &is_empty);
    if (is_empty || has_wide_ranges(s) || wide_characters_clash(s, n)) return false;
    for (uint32_t c = 0; c < 0x80; c++)
        if (both_take(s, n, (probe){c, 0})) return false;
    for (int i = 0; i < uni_n_records; i++)
        if (both_take(s, n, (probe){ANY_OTHER, uni_records[i]})) return false;
    return true;
}

static void learn_tables(scan *s) {
    for (uint32_t c = 0; c < 128; c++) {
        bool is_empty = false;
        const probe p = {c, 0};
        for (int k = 0; k < s->n_classes; k++) s->ascii[c] |= (uint32_t)scan_has(&s->classes[k], c) << k;
        s->may_start[c] = may_take(s, s->start, p, &is_empty);
        for (int i = 0; i < s->n_nodes; i++) {
            scan_node *n = &s->nodes[i];
            is_empty = false;
            if (n->op == SCAN_BRANCH && (may_take(s, n->next, p, &is_empty) || is_empty))
                n->ascii[c >> 6] |= 1ull << (c & 63);
        }
    }
    for (int i = 0; i < s->n_nodes; i++) {
        scan_node *n = &s->nodes[i];
        if (n->op == SCAN_CLASS && (always_matches(s, n->next) || is_disjoint(s, n))) n->keeps = true;
    }
}

qp_status scan_compile(scan **out, span pattern, qp_error *err) {
    *out = NULL;
    scan *s = MEM_NEW(scan);
    if (!s) return err_no_memory(err, sizeof *s, "split pattern");
    reader r = {.at = pattern.at, .end = pattern.at + pattern.bytes, .s = s};
    const int accept = add_node(&r, (scan_node){.op = SCAN_ACCEPT});
    s->start = (int16_t)read_pattern(&r, accept);
    if (r.no_memory) return scan_free(s), err_no_memory(err, pattern.bytes, "split pattern");
    if (r.is_unknown || r.at != r.end || always_matches(s, s->start)) return scan_free(s), QP_OK;
    learn_tables(s);
    *out = s;
    return QP_OK;
}

void scan_free(scan *s) {
    if (!s) return;
    for (int k = 0; k < s->n_classes; k++)
        for (int i = 0; i < s->classes[k].n_terms; i++) mem_free(s->classes[k].terms[i].ranges);
    mem_free(s);
}
