/* tmpl_value.c — making values, and the questions that can be asked of any: type, truth, length. */
#include "tmpl_run.h"

bool value_borrow(tmpl_run *r, span text, value *out) {
    if (!tmpl_spend(r, text.bytes / STEP_MOVES)) return false;
    vstr *s = tmpl_text_new(&r->memory, text);
    if (!s) return tmpl_no_memory(r);
    *out = (value){.kind = V_STR, .str = s};
    return true;
}

bool value_text(tmpl_run *r, span text, value *out) {
    if (!tmpl_spend(r, text.bytes / STEP_MOVES)) return false;
    vstr *s = tmpl_text_copy(&r->memory, text);
    if (!s) return tmpl_no_memory(r);
    *out = (value){.kind = V_STR, .str = s};
    return true;
}

bool value_seq(tmpl_run *r, value_kind kind, size_t count, value *out) {
    vseq *seq = tmpl_get(r, 1, sizeof *seq);
    value *at = seq ? tmpl_get(r, count, sizeof *at) : NULL;
    if (!at) return false;
    *seq = (vseq){.at = at, .count = count};
    *out = (value){.kind = (uint8_t)kind, .seq = seq};
    return true;
}

bool value_pair(tmpl_run *r, value first, value second, value *out) {
    if (!value_seq(r, V_TUPLE, 2, out)) return false;
    out->seq->at[0] = first;
    out->seq->at[1] = second;
    return true;
}

bool value_append(tmpl_run *r, value *list, value item) {
    vseq *seq = list->seq;
    if (!seq->room || seq->room->used != seq->count || seq->room->capacity == seq->count) {
        const size_t capacity = seq->count < 4 ? 8 : seq->count * 2;
        value *at = tmpl_get(r, capacity, sizeof *at);
        vroom *room = at ? tmpl_get(r, 1, sizeof *room) : NULL;
        if (!room) return false;
        if (seq->count) memcpy(at, seq->at, seq->count * sizeof *at);
        *room = (vroom){.used = seq->count, .capacity = capacity};
        seq->at = at;
        seq->room = room;
    }
    seq->at[seq->count++] = item;
    seq->room->used = seq->count;
    return tmpl_spend(r, 1);
}

bool value_dict(tmpl_run *r, value *out) {
    vdict *d = tmpl_get(r, 1, sizeof *d);
    if (!d) return false;
    *d = (vdict){0};
    *out = (value){.kind = V_DICT, .dict = d};
    return true;
}

/* ---- undefined ---- */

static value undefined(tmpl_run *r, vundef u) {
    vundef *kept = arena_get(&r->memory, 1, sizeof *kept); /* without memory there is just no reason to tell */
    if (kept) *kept = u;
    return (value){.kind = V_UNDEFINED, .undef = kept};
}

value value_undefined(tmpl_run *r, const char *hint) { return undefined(r, (vundef){.hint = hint}); }
value value_undefined_name(tmpl_run *r, const vstr *name) { return undefined(r, (vundef){.name = name}); }

value value_undefined_item(tmpl_run *r, value object, value key, bool is_unsafe) {
    return undefined(r, (vundef){.object = object, .key = key, .has_object = true, .is_unsafe = is_unsafe});
}

bool tmpl_fail_undefined(tmpl_run *r, value v) {
    const vundef *u = v.undef;
    if (!u) return tmpl_fail(r, "value is undefined");
    if (u->hint) return tmpl_fail(r, "%s", u->hint);
    if (!u->has_object) return tmpl_fail(r, "'%.*s' is undefined", TEXT_ARG(u->name));
    const char *type = value_type(u->object);
    strbuf key = {0};
    if (u->object.kind == V_NONE) type = "None";
    const char *suffix = u->object.kind == V_NONE ? "" : " object";
    if (u->key.kind == V_STR && u->is_unsafe)
        tmpl_fail(r, "access to attribute '%.*s' of '%s' object is unsafe.", TEXT_ARG(u->key.str),
                  value_type(u->object));
    else if (u->key.kind == V_STR)
        tmpl_fail(r, "'%s%s' has no attribute '%.*s'", type, suffix, TEXT_ARG(u->key.str));
    else if (value_repr(r, &key, u->key) && key.at)
        tmpl_fail(r, "%s%s has no element %.120s", type, suffix, key.at);
    strbuf_free(&key);
    return false;
}

/* ---- questions ---- */

const char *value_type(value v) {
    static const char *const names[V_KIND_COUNT] = {
        [V_MISSING] = "Undefined",
        [V_UNDEFINED] = "Undefined",
        [V_NONE] = "NoneType",
        [V_BOOL] = "bool",
        [V_INT] = "int",
        [V_FLOAT] = "float",
        [V_STR] = "str",
        [V_LIST] = "list",
        [V_TUPLE] = "tuple",
        [V_DICT] = "dict",
        [V_RANGE] = "range",
        [V_NAMESPACE] = "TemplateNamespace",
        [V_LOOP] = "LoopContext",
        [V_MACRO] = "Macro",
        [V_FUNCTION] = "function",
        [V_METHOD] = "builtin_function_or_method",
        [V_CYCLER] = "Cycler",
        [V_JOINER] = "Joiner",
        [V_SELF] = "TemplateReference",
        [V_BLOCK] = "BlockReference",
    };
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    if (v.kind == V_VIEW) return views[v.view->kind];
    if (v.kind == V_GENERATOR) return v.gen->type;
    if (v.kind == V_STR && v.is_markup) return "Markup";
    return names[v.kind];
}

bool value_length(tmpl_run *r, value v, size_t *out, bool *has_length) {
    *has_length = true;
    switch (v.kind) {
    case V_UNDEFINED:
        *out = 0;
        return true;
    case V_STR:
        *out = tmpl_text_points(v.str);
        return tmpl_spend(r, v.str->bytes / 256); /* counted once, mostly */
    case V_LIST:
    case V_TUPLE:
        *out = v.seq->count;
        return true;
    case V_DICT:
        *out = v.dict->count;
        return true;
    case V_VIEW:
        *out = v.view->dict->count;
        return true;
    case V_RANGE:
        *out = v.range->count;
        return true;
    case V_LOOP: {
        value length;
        if (!tmpl_loop_attr(r, v.loop, SPAN("length"), &length, has_length)) return false;
        *out = (size_t)length.integer;
        return true;
    }
    default:
        *has_length = false;
        return true;
    }
}

bool value_truth(tmpl_run *r, value v, bool *out) {
    size_t length = 1;
    bool has_length;
    switch (v.kind) {
    case V_MISSING:
    case V_UNDEFINED:
    case V_NONE:
        *out = false;
        return true;
    case V_BOOL:
        *out = v.truth;
        return true;
    case V_INT:
        *out = v.integer != 0;
        return true;
    case V_FLOAT:
        *out = v.real != 0;
        return true;
    case V_STR:
        *out = v.str->bytes != 0;
        return true;
    case V_LOOP:
        *out = true;
        return true;
    default:
        if (!value_length(r, v, &length, &has_length)) return false;
        *out = !has_length || length;
        return true;
    }
}
