/* structure.c — the front end that puts constraints together: texts, special tokens, free text and other kinds of
 * constraint, in a row, one of several, repeated.
 *
 * The source is a JSON document of nested nodes, each an object with one of these members, and no others than theirs:
 *
 *     {"text": "..."}                     this text
 *     {"tag": "..."}                      this text, where names of special tokens stand for the tokens
 *     {"free": ["...", ...]}              any text, special tokens among it, without any of these tags;
 *                                         "not_first": the characters that may not be its first but blanks;
 *                                         "plain": true: without special tokens
 *     {"kind": "...", "source": "..."}    another kind of constraint; "lenient", "ignore_formats", "whitespace" as in
 *                                         its options, "name": where it comes from, for errors
 *     {"sequence": [node, ...]}           all, in this order
 *     {"any": [node, ...]}                one of them
 *     {"repeat": node}                    "min" to "max" times, with the node "between" two
 *     {"fields": [node, ...]}             in this order, with the node "between" two; those with "optional": true
 *                                         may be left out
 *     {"define": {"name": node}, "in": n} what {"use": "name"} stands for inside it, and inside the definitions
 *
 * A part of a text that begins to be constrained at a tag, after reasoning say, is a free part before that tag: where
 * one ends and the other begins is decided by the parser, so a token may reach over it, and taking tokens back needs
 * nothing of its own. The tricky thing is a tag that is a special token: text cannot contain it, so it is left out of
 * the tokens that may stand in a free part, while the tag's name is cut out of the texts between them. */
#include "fronts.h"
#include "grammar.h"
#include "base/json.h"
#include "base/mem.h"

enum { MOST_DEPTH = 64, LONGEST_NAME = 64 };

typedef struct scope {
    const struct scope *outer;
    const char *name;
    ir_sym rule;
} scope;

typedef struct structure {
    const scope *scope;
    ir *g;
    const ir_options *options;
    qp_error *err;
} structure;

typedef qp_status builder(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out);

static qp_status build(structure *s, const json_t *node, int depth, ir_sym *out);
static qp_status build_node(structure *s, const json_t *node, bool is_field, int depth, ir_sym *out);

static span text_of(const json_t *value) { return (span){json_string_value(value), json_string_length(value)}; }

static qp_status refuse(structure *s, const char *what, const json_t *found, const char *allowed) {
    return err_set(s->err, QP_BAD_FORMAT, 0, "structure: %s: found %s, allowed is %s", what, json_kind(found), allowed);
}

/* ---- texts and tags ---- */

static qp_status build_text(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    if (!json_is_string(value)) return refuse(s, "text", value, "a string");
    *out = json_string_length(value) ? ir_literal(s->g, text_of(value)) : IR_EPSILON;
    return QP_OK;
}

/* The longest special token whose name stands at the beginning of `text`; -1: none. */
static int32_t special_at(const structure *s, span text, size_t *bytes) {
    const ir_options *o = s->options;
    size_t n = text.bytes < LONGEST_NAME ? text.bytes : LONGEST_NAME;
    for (; o->token_id && n > 1; n--) {
        const int32_t id = o->token_id(o->token_user, (span){text.at, n});
        if (id < 0) continue;
        *bytes = n;
        return id;
    }
    return -1;
}

/* The first special token in a tag and where it stands; -1: there is none. */
static int32_t first_special(const structure *s, span tag, size_t *at, size_t *bytes) {
    for (*at = 0; *at < tag.bytes; ++*at) {
        const int32_t id = special_at(s, (span){tag.at + *at, tag.bytes - *at}, bytes);
        if (id >= 0) return id;
    }
    return -1;
}

static qp_status build_tag(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    if (!json_is_string(value)) return refuse(s, "tag", value, "a string");
    span left = text_of(value);
    *out = IR_EPSILON;
    while (left.bytes) {
        size_t at, bytes = 0;
        const int32_t id = first_special(s, left, &at, &bytes);
        const ir_sym parts[3] = {*out, at ? ir_literal(s->g, (span){left.at, at}) : IR_EPSILON,
                                 id >= 0 ? ir_special(s->g, &id, 1) : IR_EPSILON};
        *out = ir_sequence(s->g, parts, 3);
        left = (span){left.at + at + bytes, left.bytes - at - bytes};
    }
    return QP_OK;
}

/* ---- free text ---- */

typedef struct free_part {
    rx text;      /* between two special tokens */
    int32_t *ids; /* [n]: the special tokens that may stand in it */
    size_t n;
} free_part;

static void forbid_id(free_part *f, int32_t id) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->ids[i] != id) f->ids[n++] = f->ids[i];
    f->n = n;
}

static qp_status forbid_tag(structure *s, free_part *f, const json_t *tag) {
    rx_pool *p = ir_pool(s->g);
    size_t at, bytes;
    if (!json_string_length(tag)) return refuse(s, "free", tag, "an array of strings that are not empty");
    const int32_t id = first_special(s, text_of(tag), &at, &bytes);
    if (id >= 0) forbid_id(f, id); /* and its name as text: whoever reads the text cannot tell them apart */
    const rx around[3] = {RX_ALL, rx_text(p, text_of(tag)), RX_ALL};
    f->text = rx_minus(p, f->text, rx_concat_n(p, around, 3));
    return QP_OK;
}

/* The free part's first text does not begin with one of the characters, blanks before it aside. */
static rx first_text(structure *s, const free_part *f, span characters) {
    rx_pool *p = ir_pool(s->g);
    rx_set blanks = {.bits = {0}}, bad = {.bits = {0}};
    for (const char *c = " \t\r\n"; *c; c++) rx_set_add(&blanks, (uint8_t)*c);
    for (size_t i = 0; i < characters.bytes; i++) rx_set_add(&bad, (uint8_t)characters.at[i]);
    const rx refused[3] = {rx_star(p, rx_bytes(p, &blanks)), rx_bytes(p, &bad), RX_ALL};
    return characters.bytes ? rx_minus(p, f->text, rx_concat_n(p, refused, 3)) : f->text;
}

static ir_sym write_free(structure *s, const free_part *f, span not_first) {
    const ir_sym first = ir_terminal(s->g, first_text(s, f, not_first));
    if (!f->n) return first;
    const ir_sym more[2] = {ir_special(s->g, f->ids, f->n), ir_terminal(s->g, f->text)};
    const ir_sym all[2] = {first, ir_repeat(s->g, ir_sequence(s->g, more, 2), 0, IR_INFINITE)};
    return ir_sequence(s->g, all, 2);
}

static qp_status build_free(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    if (!json_is_array(value)) return refuse(s, "free", value, "an array of tags");
    const ir_options *o = s->options;
    const bool is_plain = json_is_true(json_object_get(node, "plain"));
    free_part f = {.text = rx_utf8(ir_pool(s->g)), .n = is_plain ? 0 : o->n_specials};
    if (f.n && !(f.ids = mem_copy(o->specials, f.n, sizeof *f.ids)))
        return err_no_memory(s->err, f.n * sizeof *f.ids, "special tokens");
    qp_status status = QP_OK;
    for (size_t i = 0; status == QP_OK && i < json_array_size(value); i++)
        status = forbid_tag(s, &f, json_array_get(value, i));
    if (status == QP_OK) *out = write_free(s, &f, text_of(json_object_get(node, "not_first")));
    mem_free(f.ids);
    return status;
}

/* ---- other kinds ---- */

/* Blanks between tokens hold for a whole grammar: one that brings its own cannot stand beside other parts. */
static qp_status check_skip(structure *s, bool is_alone) {
    if (is_alone || ir_get_skip(s->g) == RX_NONE) return QP_OK;
    return err_set(s->err, QP_UNSUPPORTED, 0,
                   "%%ignore cannot be kept where other text surrounds the grammar (reasoning, calls of tools): write "
                   "what may be skipped into the rules");
}

static qp_status build_kind(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    const json_t *source = json_object_get(node, "source"), *name = json_object_get(node, "name");
    const json_t *lenient = json_object_get(node, "lenient"), *formats = json_object_get(node, "ignore_formats");
    const json_t *whitespace = json_object_get(node, "whitespace");
    const grammar_kind *kind = grammar_kind_find(json_string_value(value));
    if (!kind || kind->lower == structure_lower) return refuse(s, "kind", value, "another kind of constraint");
    ir_options options = *s->options;
    if (lenient) options.lenient = json_is_true(lenient);
    if (formats) options.ignore_formats = json_is_true(formats);
    if (json_is_string(whitespace)) options.whitespace = json_string_value(whitespace);
    const span text = {source ? json_string_value(source) : "", json_string_length(source)};
    qp_status status = kind->lower(s->g, out, text, &options, s->err);
    if (status == QP_OK) status = check_skip(s, depth == 0);
    if (status == QP_OK && depth) ir_need(s->g, *out, json_is_string(name) ? json_string_value(name) : "a part");
    if (status == QP_OK || !json_is_string(name)) return status;
    return err_prefix(s->err, status, "%s", json_string_value(name));
}

/* ---- several ---- */

static qp_status build_list(structure *s, const json_t *list, int depth, bool is_choice, ir_sym *out) {
    const size_t n = json_array_size(list);
    if (!json_is_array(list)) return refuse(s, is_choice ? "any" : "sequence", list, "an array of nodes");
    ir_sym *parts = mem_array(n + 1, sizeof *parts);
    if (!parts) return err_no_memory(s->err, n * sizeof *parts, "a structure");
    qp_status status = QP_OK;
    for (size_t i = 0; status == QP_OK && i < n; i++) status = build(s, json_array_get(list, i), depth + 1, &parts[i]);
    if (status == QP_OK) *out = is_choice ? ir_choice(s->g, parts, n) : ir_sequence(s->g, parts, n);
    mem_free(parts);
    return status;
}

static qp_status build_sequence(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    return build_list(s, value, depth, false, out);
}

static qp_status build_any(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    return build_list(s, value, depth, true, out);
}

static qp_status build_between(structure *s, const json_t *node, int depth, ir_sym *out) {
    const json_t *between = json_object_get(node, "between");
    *out = IR_EPSILON;
    return between ? build(s, between, depth + 1, out) : QP_OK;
}

static qp_status build_repeat(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    int64_t min = 0, max = IR_INFINITE;
    ir_sym one, between;
    ERR_TRY(json_get_int(node, "min", 0, 1 << 30, &min, "structure", s->err));
    ERR_TRY(json_get_int(node, "max", min, 1 << 30, &max, "structure", s->err));
    ERR_TRY(build(s, value, depth + 1, &one));
    ERR_TRY(build_between(s, node, depth, &between));
    *out = ir_repeat_between(s->g, one, between, (uint32_t)min, (uint32_t)max);
    return QP_OK;
}

/* From the last field to the first: what may follow where nothing has been written yet, and where something has. */
static qp_status build_fields(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    ir_sym between, none = IR_EPSILON, some = IR_EPSILON;
    if (!json_is_array(value)) return refuse(s, "fields", value, "an array of nodes");
    ERR_TRY(build_between(s, node, depth, &between));
    for (size_t i = json_array_size(value); i--;) {
        const json_t *field = json_array_get(value, i);
        ir_sym one;
        ERR_TRY(build_node(s, field, true, depth + 1, &one));
        const ir_sym first[2] = {one, some}, next[3] = {between, one, some};
        ir_sym begun = ir_sequence(s->g, first, 2), more = ir_sequence(s->g, next, 3);
        if (json_is_true(json_object_get(field, "optional"))) {
            begun = ir_choice(s->g, (const ir_sym[]){begun, none}, 2);
            more = ir_choice(s->g, (const ir_sym[]){more, some}, 2);
        }
        none = begun;
        some = more;
    }
    *out = none;
    return QP_OK;
}

/* ---- names ---- */

static qp_status build_use(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    const char *name = json_string_value(value);
    for (const scope *at = s->scope; name && at; at = at->outer)
        if (!strcmp(at->name, name)) return *out = at->rule, QP_OK;
    return refuse(s, "use", value, "a name that is defined around it");
}

/* Rules are made before their bodies, so that these may name each other. */
static qp_status build_define(structure *s, const json_t *value, const json_t *node, int depth, ir_sym *out) {
    const size_t n = json_object_size(value);
    const scope *outer = s->scope;
    if (!json_is_object(value)) return refuse(s, "define", value, "an object of nodes");
    scope *scopes = mem_zarray(n + 1, sizeof *scopes);
    if (!scopes) return err_no_memory(s->err, n * sizeof *scopes, "a structure");
    const char *name;
    json_t *body;
    size_t i = 0;
    json_object_foreach((json_t *)value, name, body) {
        scopes[i] = (scope){s->scope, name, ir_rule(s->g, name)};
        s->scope = &scopes[i++];
    }
    qp_status status = QP_OK;
    i = 0;
    json_object_foreach((json_t *)value, name, body) {
        ir_sym made;
        if (status == QP_OK) status = build(s, body, depth + 1, &made);
        if (status == QP_OK) ir_alternative(s->g, scopes[i++].rule, &made, 1);
    }
    if (status == QP_OK) status = build(s, json_object_get(node, "in"), depth + 1, out);
    s->scope = outer;
    mem_free(scopes);
    return status;
}

/* ---- all ---- */

/* What a member may be; `of` is the kind of node that it belongs to, NULL: a field. */
static const struct {
    const char *name, *of;
    bool is_text, is_number;
} others[] = {
    {"not_first", "free", true, false},       {"plain", "free", false, false},
    {"source", "kind", true, false},          {"name", "kind", true, false},
    {"whitespace", "kind", true, false},      {"lenient", "kind", false, false},
    {"ignore_formats", "kind", false, false}, {"min", "repeat", false, true},
    {"max", "repeat", false, true},           {"optional", NULL, false, false},
};

static const struct node_kind {
    const char *member;
    builder *build;
    const char *node; /* a member that is a node of its own */
} nodes[] = {
    {"text", build_text, NULL},
    {"tag", build_tag, NULL},
    {"free", build_free, NULL},
    {"kind", build_kind, NULL},
    {"any", build_any, NULL},
    {"sequence", build_sequence, NULL},
    {"repeat", build_repeat, "between"},
    {"fields", build_fields, "between"},
    {"use", build_use, NULL},
    {"define", build_define, "in"},
};

/* A member that is not known would be a wish that is passed over. */
static qp_status check_member(structure *s, const struct node_kind *kind, const char *name, const json_t *value,
                              bool is_field) {
    if (!strcmp(name, kind->member) || (kind->node && !strcmp(name, kind->node))) return QP_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(others[i].name, name) || (others[i].of ? strcmp(others[i].of, kind->member) != 0 : !is_field))
            continue;
        if (others[i].is_number ? json_is_number(value)
            : others[i].is_text ? json_is_string(value)
                                : json_is_boolean(value))
            return QP_OK;
        return refuse(s, name, value,
                      others[i].is_number ? "a number"
                      : others[i].is_text ? "a string"
                                          : "true or false");
    }
    return err_set(s->err, QP_BAD_FORMAT, 0, "structure: \"%.60s\" is no member of a node with \"%s\"", name,
                   kind->member);
}

static qp_status build_node(structure *s, const json_t *node, bool is_field, int depth, ir_sym *out) {
    *out = IR_NOTHING;
    if (depth > MOST_DEPTH) return err_set(s->err, QP_TOO_LARGE, 0, "structure: nested over %d deep", MOST_DEPTH);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        json_t *value = json_object_get(node, nodes[i].member), *member;
        const char *name;
        if (!value) continue;
        json_object_foreach((json_t *)node, name, member) ERR_TRY(check_member(s, &nodes[i], name, member, is_field));
        return nodes[i].build(s, value, node, depth, out);
    }
    return err_set(s->err, QP_BAD_FORMAT, 0,
                   "structure: found %s, allowed is an object with text, tag, free, kind, sequence, any, repeat, "
                   "fields, define or use",
                   json_is_object(node) ? "an object without any of its members" : json_kind(node));
}

static qp_status build(structure *s, const json_t *node, int depth, ir_sym *out) {
    return build_node(s, node, false, depth, out);
}

qp_status structure_lower(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err) {
    json_t *root;
    structure s = {NULL, g, options, err};
    ERR_TRY(json_parse(&root, source.at, source.bytes, "structure", err));
    const qp_status status = build(&s, root, 0, out);
    json_decref(root);
    return status != QP_OK ? status : ir_status(g, err);
}
