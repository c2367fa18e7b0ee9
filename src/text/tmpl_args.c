/* tmpl_args.c — arguments of calls: evaluated, and put into the order of the parameters. */
#include "tmpl_run.h"

static bool add_named(tmpl_run *r, call_args *args, value key, value val) {
    if (!args->named) {
        value named;
        if (!value_dict(r, &named)) return false;
        args->named = named.dict;
    }
    if (tmpl_dict_find(r, args->named, key))
        return tmpl_fail(r, "got multiple values for keyword argument '%.*s'", TEXT_ARG(key.str));
    return tmpl_dict_set(r, args->named, key, val);
}

static bool spread_list(tmpl_run *r, const node *n, value *list) {
    value more, item;
    iter it;
    bool is_done;
    if (!tmpl_eval(r, n, &more)) return false;
    if (!value_is_iterable(more)) return tmpl_fail(r, "argument after * must be an iterable, not %s", value_type(more));
    if (!iter_begin(r, more, &it)) return false;
    for (;;) {
        if (!iter_next(r, &it, &item, &is_done)) return false;
        if (is_done) return true;
        if (!value_append(r, list, item)) return false;
    }
}

static bool spread_named(tmpl_run *r, const node *n, call_args *args) {
    value more;
    if (!tmpl_eval(r, n, &more)) return false;
    if (more.kind != V_DICT) return tmpl_fail(r, "argument after ** must be a mapping, not %s", value_type(more));
    for (size_t i = 0; i < more.dict->count; i++) {
        if (more.dict->at[i].key.kind != V_STR) return tmpl_fail(r, "keywords must be strings");
        if (!add_named(r, args, more.dict->at[i].key, more.dict->at[i].val)) return false;
    }
    return true;
}

bool tmpl_eval_args(tmpl_run *r, const node *n, call_args *out) {
    value list;
    *out = (call_args){0};
    if (!n->list.count && !n->list2.count && !n->b && !n->c) return true;
    if (!value_seq(r, V_LIST, (size_t)n->list.count, &list)) return false;
    for (int i = 0; i < n->list.count; i++)
        if (!tmpl_value(r, n->list.at[i], &list.seq->at[i])) return false;
    if (n->b && !spread_list(r, n->b, &list)) return false;
    out->at = list.seq->at;
    out->count = list.seq->count;
    for (int i = 0; i < n->list2.count; i++) {
        const value key = {.kind = V_STR, .str = (vstr *)(uintptr_t)n->list2.at[i]->text};
        value val;
        if (!tmpl_eval(r, n->list2.at[i]->a, &val) || !add_named(r, out, key, val)) return false;
    }
    return !n->c || spread_named(r, n->c, out);
}

/* The next name of "a b= c"; false at the end. */
static bool next_name(const char **names, span *name, bool *is_optional) {
    while (**names == ' ') ++*names;
    const char *begin = *names;
    while (**names && **names != ' ' && **names != '=') ++*names;
    *name = (span){begin, (size_t)(*names - begin)};
    *is_optional = **names == '=';
    if (*is_optional) ++*names;
    return name->bytes > 0;
}

/* Whether positional arguments alone fill the slots rightly: all but the optional ones, and no more than there are. */
static bool bind_positions(const char *names, const call_args *args, value *slots) {
    size_t n = 0;
    for (; *names; n++) {
        while (*names && *names != ' ' && *names != '=') names++;
        const bool is_optional = *names == '=';
        if (n >= args->count && !is_optional) return false;
        slots[n] = n < args->count ? args->at[n] : (value){.kind = V_MISSING};
        while (*names == ' ' || *names == '=') names++;
    }
    return args->count <= n;
}

bool tmpl_bind(tmpl_run *r, const char *what, const char *names, const call_args *args, value *slots) {
    size_t n = 0, n_named = 0;
    span name;
    if (!args->named && bind_positions(names, args, slots)) return true;
    for (bool is_optional; next_name(&names, &name, &is_optional); n++) {
        slots[n] = (value){.kind = V_MISSING};
        if (n < args->count) slots[n] = args->at[n];
        for (size_t i = 0; args->named && i < args->named->count; i++) {
            if (!span_equal(value_span(args->named->at[i].key), name)) continue;
            if (n < args->count)
                return tmpl_fail(r, "%s() got multiple values for argument '%.*s'", what, (int)name.bytes, name.at);
            slots[n] = args->named->at[i].val;
            n_named++;
        }
        if (slots[n].kind == V_MISSING && !is_optional)
            return tmpl_fail(r, "%s() missing a required argument: '%.*s'", what, (int)name.bytes, name.at);
    }
    if (args->count > n) return tmpl_fail(r, "%s() takes at most %zu arguments (%zu given)", what, n, args->count);
    if (args->named && args->named->count > n_named)
        return tmpl_fail(r, "%s() got an unexpected keyword argument", what);
    return true;
}

bool tmpl_want_int(tmpl_run *r, value v, int64_t *out) {
    if (v.kind == V_UNDEFINED) return tmpl_fail_undefined(r, v);
    if (!value_is_integer(v)) return tmpl_fail(r, "'%s' object cannot be interpreted as an integer", value_type(v));
    *out = value_integer(v);
    return true;
}

bool tmpl_want_text(tmpl_run *r, const char *what, value v, span *out) {
    if (v.kind != V_STR) return tmpl_fail(r, "%s: argument must be str, not %s", what, value_type(v));
    *out = value_span(v);
    return true;
}
