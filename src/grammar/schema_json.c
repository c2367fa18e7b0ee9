/* schema_json.c — a JSON document as a tree that keeps the order of members and the digits of numbers.
 *
 * The text is read by text/jsonscan.h; this makes the tree. Called by schema_lower.c once for each schema. Members of
 * large objects are found through a table of hashes that is made as soon as the object is read, because that is also
 * what finds a key that comes twice. */
#include "schema_json.h"
#include "base/hash.h"
#include "schema_decimal.h"
#include "text/jsonscan.h"

enum { TABLE_FROM = 9 }; /* members: fewer are looked through */

typedef struct reader {
    jsonscan scan;
    arena *memory;
} reader;

static bool no_memory(reader *r) {
    if (r->scan.status == QP_OK) r->scan.status = err_no_memory(r->scan.err, sizeof(sj_value), r->scan.where);
    return false;
}

static bool keep(reader *r, span *out, span text) {
    char *copy = arena_text(r->memory, text.at, text.bytes);
    *out = (span){copy, text.bytes};
    return copy || no_memory(r);
}

static sj_value **table_slot(const sj_value *object, span key) {
    uint32_t i = (uint32_t)hash_bytes(key.at, key.bytes, 0) & object->mask;
    while (object->table[i] && !span_equal(object->table[i]->key, key)) i = (i + 1) & object->mask;
    return &object->table[i];
}

static bool make_table(reader *r, sj_value *object) {
    uint32_t slots = 16;
    while (slots < object->n * 2) slots *= 2;
    object->table = arena_zget(r->memory, slots, sizeof(sj_value *));
    if (!object->table) return no_memory(r);
    object->mask = slots - 1;
    for (sj_value *m = object->first; m; m = m->next) {
        sj_value **slot = table_slot(object, m->key);
        if (*slot) return jsonscan_fail(&r->scan, "a key comes twice in one object");
        *slot = m;
    }
    return true;
}

static bool finish_object(reader *r, sj_value *object) {
    if (object->n >= TABLE_FROM) return make_table(r, object);
    for (const sj_value *a = object->first; a; a = a->next)
        for (const sj_value *b = a->next; b; b = b->next)
            if (span_equal(a->key, b->key)) return jsonscan_fail(&r->scan, "a key comes twice in one object");
    return true;
}

static sj_value *add_child(reader *r, sj_value *parent, sj_value **last) {
    sj_value *child = arena_zget(r->memory, 1, sizeof *child);
    if (!child) {
        no_memory(r);
        return NULL;
    }
    child->parent = parent;
    if (*last)
        (*last)->next = child;
    else
        parent->first = child;
    *last = child;
    parent->n++;
    return child;
}

static bool read_value(reader *r, sj_value *value, int depth);

static bool read_array(reader *r, sj_value *array, int depth) {
    size_t n = 0;
    sj_value *last = NULL;
    array->kind = SJ_ARRAY;
    if (!jsonscan_enter(&r->scan, '[')) return false;
    while (jsonscan_element(&r->scan, &n)) {
        sj_value *item = add_child(r, array, &last);
        if (!item || !read_value(r, item, depth + 1)) return false;
    }
    return r->scan.status == QP_OK;
}

static bool read_object(reader *r, sj_value *object, int depth) {
    size_t n = 0;
    sj_value *last = NULL;
    span key;
    object->kind = SJ_OBJECT;
    if (!jsonscan_enter(&r->scan, '{')) return false;
    while (jsonscan_member(&r->scan, &n, &key)) {
        sj_value *member = add_child(r, object, &last);
        if (!member || !keep(r, &member->key, key) || !read_value(r, member, depth + 1)) return false;
    }
    return r->scan.status == QP_OK && finish_object(r, object);
}

/* null, true, false or a number. */
static bool read_word(reader *r, sj_value *value) {
    static const struct {
        const char *text;
        sj_kind kind;
    } words[] = {{"null", SJ_NULL}, {"false", SJ_FALSE}, {"true", SJ_TRUE}};
    span text;
    if (!jsonscan_skip(&r->scan, &text)) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(text, words[i].text)) return value->kind = words[i].kind, true;
    value->kind = SJ_NUMBER;
    return decimal_is_json(text) ? keep(r, &value->text, text) : jsonscan_fail(&r->scan, "expected a value");
}

static bool read_value(reader *r, sj_value *value, int depth) {
    if (depth > SJ_MAX_DEPTH) return jsonscan_fail(&r->scan, "nested deeper than 256 levels");
    span text;
    switch (jsonscan_peek(&r->scan)) {
    case '{':
        return read_object(r, value, depth);
    case '[':
        return read_array(r, value, depth);
    case '"':
        value->kind = SJ_STRING;
        return jsonscan_string(&r->scan, &text) && keep(r, &value->text, text);
    default:
        return read_word(r, value);
    }
}

qp_status sj_parse(sj_value **out, arena *memory, span text, const char *where, qp_error *err) {
    reader r = {.scan = jsonscan_start(text.at, text.bytes, where, err), .memory = memory};
    *out = arena_zget(memory, 1, sizeof **out);
    if (!*out)
        no_memory(&r);
    else if (read_value(&r, *out, 0) && (jsonscan_peek(&r.scan) || r.scan.at < text.bytes))
        jsonscan_fail(&r.scan, "expected nothing more after the value");
    const qp_status status = r.scan.status;
    if (err && status != QP_OK && err->offset > text.bytes) err->offset = text.bytes; /* an escape that is cut off */
    jsonscan_end(&r.scan);
    if (status != QP_OK) *out = NULL;
    return status;
}

sj_value *sj_member(const sj_value *object, span key) {
    if (!object || object->kind != SJ_OBJECT) return NULL;
    if (object->table) return *table_slot(object, key);
    sj_value *m = object->first;
    while (m && !span_equal(m->key, key)) m = m->next;
    return m;
}

static void add_step(strbuf *out, const sj_value *value) {
    strbuf_char(out, '/');
    if (value->parent->kind == SJ_ARRAY) {
        size_t index = 0;
        for (const sj_value *item = value->parent->first; item != value; item = item->next) index++;
        strbuf_format(out, "%zu", index);
        return;
    }
    for (size_t i = 0; i < value->key.bytes; i++) {
        const char c = value->key.at[i];
        if (c == '~' || c == '/')
            strbuf_text(out, c == '~' ? "~0" : "~1");
        else
            strbuf_char(out, c);
    }
}

void sj_pointer(strbuf *out, const sj_value *value) {
    const sj_value *path[SJ_MAX_DEPTH + 2];
    int n = 0;
    for (; value && value->parent && n < SJ_MAX_DEPTH + 2; value = value->parent) path[n++] = value;
    while (n > 0) add_step(out, path[--n]);
}
