/* tmpl_globals.c — the functions that every template sees: a row each. Variables of the context hide them. */
#include "tmpl_tables.h"

typedef struct global_row {
    const char *name, *names; /* see tmpl_bind; NULL: takes the call as it is */
    bool (*run)(tmpl_run *r, const value *args, const call_args *call, value *out);
} global_row;

enum { MAX_RANGE = 100000 }; /* the sandbox's */

/* Items from start up to (or down to) stop, without overflow. */
static uint64_t range_count(int64_t start, int64_t stop, int64_t step) {
    const uint64_t size = step > 0 ? (uint64_t)step : -(uint64_t)step;
    const bool is_empty = step > 0 ? start >= stop : start <= stop;
    const uint64_t distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    return is_empty ? 0 : (distance - 1) / size + 1;
}

static bool call_range(tmpl_run *r, const value *args, const call_args *call, value *out) {
    int64_t part[3] = {0, 0, 1};
    if (call->named || !call->count || call->count > 3)
        return tmpl_fail(r, "range expected 1 to 3 positional arguments");
    for (size_t i = 0; i < call->count; i++)
        if (!tmpl_want_int(r, call->at[i], &part[call->count == 1 ? 1 : i])) return false;
    if (!part[2]) return tmpl_fail(r, "range() arg 3 must not be zero");
    const uint64_t count = range_count(part[0], part[1], part[2]);
    if (count > MAX_RANGE)
        return tmpl_fail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MAX_RANGE);
    vrange *range = tmpl_get(r, 1, sizeof *range);
    if (!range) return false;
    *range = (vrange){part[0], part[1], part[2], (size_t)count};
    *out = (value){.kind = V_RANGE, .range = range};
    return true;
}

/* dict(pairs or a mapping, name=value ...) */
static bool add_pairs(tmpl_run *r, value from, vdict *to) {
    iter it;
    value pair, two;
    bool is_done;
    if (from.kind == V_DICT) {
        for (size_t i = 0; i < from.dict->count; i++)
            if (!tmpl_dict_set(r, to, from.dict->at[i].key, from.dict->at[i].val)) return false;
        return true;
    }
    if (!iter_begin(r, from, &it)) return false;
    for (;;) {
        if (!iter_next(r, &it, &pair, &is_done)) return false;
        if (is_done) return true;
        if (!value_is_iterable(pair))
            return tmpl_fail(r, "cannot convert dictionary update sequence element to a sequence");
        if (!value_to_list(r, pair, &two)) return false;
        if (two.seq->count != 2)
            return tmpl_fail(r, "dictionary update sequence element has length %zu; 2 is required", two.seq->count);
        if (!tmpl_dict_set(r, to, two.seq->at[0], two.seq->at[1])) return false;
    }
}

static bool call_dict(tmpl_run *r, const value *args, const call_args *call, value *out) {
    if (call->count > 1) return tmpl_fail(r, "dict expected at most 1 argument, got %zu", call->count);
    if (!value_dict(r, out) || (call->count && !add_pairs(r, call->at[0], out->dict))) return false;
    const value named = {.kind = V_DICT, .dict = call->named};
    return !call->named || add_pairs(r, named, out->dict);
}

static bool call_namespace(tmpl_run *r, const value *args, const call_args *call, value *out) {
    if (!call_dict(r, args, call, out)) return false;
    for (size_t i = 0; i < out->dict->count; i++) {
        const value key = out->dict->at[i].key;
        if (key.kind == V_STR && key.str->bytes && key.str->at[0] == '_')
            return tmpl_fail(
                r, "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '%.*s'.",
                TEXT_ARG(key.str));
    }
    out->kind = V_NAMESPACE;
    return true;
}

static bool call_cycler(tmpl_run *r, const value *args, const call_args *call, value *out) {
    value items;
    if (call->named || !call->count) return tmpl_fail(r, "at least one item has to be provided");
    vcycler *cycler = tmpl_get(r, 1, sizeof *cycler);
    if (!cycler || !value_seq(r, V_TUPLE, call->count, &items)) return false;
    memcpy(items.seq->at, call->at, call->count * sizeof *call->at);
    *cycler = (vcycler){.items = items.seq};
    *out = (value){.kind = V_CYCLER, .cycler = cycler};
    return true;
}

static bool call_joiner(tmpl_run *r, const value *args, const call_args *call, value *out) {
    vjoiner *joiner = tmpl_get(r, 1, sizeof *joiner);
    if (!joiner) return false;
    *joiner = (vjoiner){.separator = args[0]};
    *out = (value){.kind = V_JOINER, .joiner = joiner};
    return args[0].kind != V_MISSING || value_borrow(r, SPAN(", "), &joiner->separator);
}

static bool call_raise(tmpl_run *r, const value *args, const call_args *call, value *out) {
    value text;
    if (!value_to_text(r, args[0], &text)) return false;
    r->is_raised = true;
    r->raised = value_span(text);
    r->status = err_set(r->err, QP_BAD_ARGUMENT, 0, "%.*s", (int)(text.str->bytes < 4096 ? text.str->bytes : 4096),
                        text.str->at);
    return false;
}

static bool call_strftime(tmpl_run *r, const value *args, const call_args *call, value *out) {
    span format;
    return tmpl_want_text(r, "strftime_now", args[0], &format) && tmpl_strftime(r, format, out);
}

static bool call_lipsum(tmpl_run *r, const value *args, const call_args *call, value *out) {
    return tmpl_fail_as(r, QP_UNSUPPORTED, "lipsum() is not supported: its text is random");
}

static const global_row globals[] = {
    {"range", NULL, call_range},
    {"dict", NULL, call_dict},
    {"namespace", NULL, call_namespace},
    {"cycler", NULL, call_cycler},
    {"joiner", "sep=", call_joiner},
    {"raise_exception", "message", call_raise},
    {"strftime_now", "format", call_strftime},
    {"lipsum", NULL, call_lipsum},
};

const global_row *tmpl_global_find(const vstr *name) {
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (span_is((span){name->at, name->bytes}, globals[i].name)) return &globals[i];
    return NULL;
}

const char *tmpl_global_name(const global_row *row) { return row->name; }

bool tmpl_global_call(tmpl_run *r, const global_row *row, const call_args *args, value *out) {
    value slots[MAX_ARGS];
    if (row->names && !tmpl_bind(r, row->name, row->names, args, slots)) return false;
    return row->run(r, slots, args, out);
}
