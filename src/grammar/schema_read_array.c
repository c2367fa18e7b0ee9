/* schema_read_array.c — the keywords about arrays: items by place, how many, and how many of a kind. */
#include "schema_reader.h"

/* The first places one by one: prefixItems, or items written as a list. */
static void read_places(schema_reader *r, const sj_value *list) {
    goal *prefix = room_get(&r->s->room, list->n, sizeof *prefix);
    uint32_t n = 0;
    if (!prefix || !r->items) return;
    for (const sj_value *item = list->first; item; item = item->next) prefix[n++] = schema_goal_of(r->s, item);
    r->items->prefix = prefix;
    r->items->n_prefix = n;
    if (n > r->items->n_seen) r->items->n_seen = n;
}

static void read_rest(schema_reader *r, const sj_value *value) {
    if (!r->items) return;
    r->items->rest = schema_goal_of(r->s, value);
    r->items->seen_all = true;
}

static void read_prefix(schema_reader *r, const sj_value *value) {
    if (value->kind == SJ_ARRAY)
        read_places(r, value);
    else
        schema_invalid(r->s, value, "prefixItems are a list of schemas");
}

static void read_items(schema_reader *r, const sj_value *value) {
    if (value->kind == SJ_ARRAY)
        read_places(r, value);
    else
        read_rest(r, value);
}

static void read_additional(schema_reader *r, const sj_value *value) {
    if (read_member(r->object, "items", SJ_ARRAY)) read_rest(r, value);
}

static void read_counts(schema_reader *r, const sj_value *value) {
    uint32_t count;
    if (!read_count(r->s, value, &count) || !r->items) return;
    if (span_is(value->key, "minItems"))
        r->items->min = count;
    else
        r->items->max = count;
}

static void read_unique(schema_reader *r, const sj_value *value) {
    if (value->kind != SJ_TRUE && value->kind != SJ_FALSE)
        schema_invalid(r->s, value, "uniqueItems is true or false");
    else if (r->items)
        r->items->unique = value->kind == SJ_TRUE ? value : NULL;
}

static void read_contains(schema_reader *r, const sj_value *value) {
    uint32_t min = 1, max = COUNT_INFINITE;
    const sj_value *at_least = sj_member(r->object, SPAN("minContains"));
    const sj_value *at_most = sj_member(r->object, SPAN("maxContains"));
    if ((at_least && !read_count(r->s, at_least, &min)) || (at_most && !read_count(r->s, at_most, &max))) return;
    count_rule *count = room_get(&r->s->room, 1, sizeof *count);
    if (!count || !r->items) return;
    *count = (count_rule){.value = schema_goal_of(r->s, value), .min = min, .max = max};
    r->items->seen_where = count->value;
    if (!min && max == COUNT_INFINITE) return;
    r->items->counts = count;
    r->items->n_counts = 1;
}

keyword_reader *array_keyword(span name) {
    static const struct {
        const char *name;
        keyword_reader *read;
    } rows[] = {
        {"items", read_items},       {"prefixItems", read_prefix}, {"additionalItems", read_additional},
        {"minItems", read_counts},   {"maxItems", read_counts},    {"uniqueItems", read_unique},
        {"contains", read_contains},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (span_is(name, rows[i].name)) return rows[i].read;
    return NULL;
}
