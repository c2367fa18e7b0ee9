/* schema_ref.c — what a $ref names: JSON Pointers, anchors and embedded resources of the same document.
 *
 * Before anything is read the whole document is gone through once for $id and $anchor, at the places where the keyword
 * table says schemas are; so a property that happens to be called "$id" is none. A reference is resolved against the
 * resource around it (RFC 3986) and looked up; nothing is ever fetched. Called by schema_read.c and schema_set.c. */
#include "schema_keyword.h"
#include "schema_set.h"

enum { MAX_URI = 4096 };

/* ---- URIs ---- */

static bool is_scheme_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '.' ||
           c == '-';
}

/* Bytes of "scheme:", 0: none. */
static size_t scheme_length(span uri) {
    size_t n = 0;
    while (n < uri.bytes && is_scheme_char(uri.at[n])) n++;
    return n && n < uri.bytes && uri.at[n] == ':' ? n + 1 : 0;
}

/* Bytes of "scheme://authority". */
static size_t root_length(span uri) {
    size_t n = scheme_length(uri);
    if (uri.bytes - n < 2 || memcmp(uri.at + n, "//", 2)) return n;
    n += 2;
    while (n < uri.bytes && !strchr("/?#", uri.at[n])) n++;
    return n;
}

static span before(span text, const char *any_of) {
    size_t n = 0;
    while (n < text.bytes && !(text.at[n] && strchr(any_of, text.at[n]))) n++;
    return (span){text.at, n};
}

/* Appends a path without its "." and ".." steps; `root` is where the path begins in *out. */
static void add_path(strbuf *out, span path) {
    const size_t root = out->bytes;
    while (path.bytes && !out->failed) {
        const size_t slash = path.at[0] == '/';
        const span step = before((span){path.at + slash, path.bytes - slash}, "/?");
        const bool last = slash + step.bytes == path.bytes || path.at[slash + step.bytes] == '?';
        if (span_is(step, "..")) {
            while (out->bytes > root && out->at[--out->bytes] != '/') {
            }
            if (last) strbuf_char(out, '/');
        } else if (!span_is(step, ".")) {
            if (slash) strbuf_char(out, '/');
            strbuf_add(out, step.at, step.bytes);
        } else if (last) {
            strbuf_char(out, '/');
        }
        path = (span){path.at + slash + step.bytes, path.bytes - slash - step.bytes};
        if (path.bytes && path.at[0] == '?') {
            strbuf_add(out, path.at, path.bytes);
            return;
        }
    }
}

/* `reference` has no fragment and is not empty. */
static void resolve(strbuf *out, span base, span reference) {
    const size_t scheme = scheme_length(base), root = root_length(base);
    if (scheme_length(reference)) {
        strbuf_add(out, reference.at, reference.bytes);
        return;
    }
    if (span_starts(reference, SPAN("//"))) {
        strbuf_add(out, base.at, scheme);
        strbuf_add(out, reference.at, reference.bytes);
        return;
    }
    strbuf_add(out, base.at, root);
    if (reference.at[0] == '/') {
        add_path(out, reference);
        return;
    }
    const span path = before((span){base.at + root, base.bytes - root}, "?");
    size_t folder = path.bytes;
    while (folder > 0 && path.at[folder - 1] != '/') folder--;
    strbuf joined = {0};
    if (folder)
        strbuf_add(&joined, path.at, folder);
    else if (root)
        strbuf_char(&joined, '/');
    strbuf_add(&joined, reference.at, reference.bytes);
    if (joined.failed) out->failed = true;
    add_path(out, (span){joined.at ? joined.at : "", joined.bytes});
    strbuf_free(&joined);
}

static span resolved(schema *s, span base, span reference) {
    strbuf uri = {.limit = MAX_URI};
    resolve(&uri, base, reference);
    const char *copy = uri.failed ? NULL : arena_text(&s->room.memory, uri.at ? uri.at : "", uri.bytes);
    const span out = {copy ? copy : "", copy ? uri.bytes : 0};
    s->room.failed |= (uri.failed && !uri.over_limit) || (!uri.failed && !copy);
    strbuf_free(&uri);
    return out;
}

/* ---- the index ---- */

static uint32_t add_resource(schema *s, span uri, const sj_value *value) {
    if (s->n_resources == s->resource_room) {
        const uint32_t room = s->resource_room ? s->resource_room * 2 : 8;
        schema_resource *grown = mem_resize(s->resources, room, sizeof *grown);
        if (!grown) return s->room.failed = true, 0;
        s->resources = grown;
        s->resource_room = room;
    }
    s->resources[s->n_resources] = (schema_resource){uri, value};
    ((sj_value *)value)->resource = s->n_resources + 1;
    return s->n_resources++;
}

static void add_anchor(schema *s, uint32_t resource, span name, const sj_value *value, bool dynamic) {
    if (s->n_anchors == s->anchor_room) {
        const uint32_t room = s->anchor_room ? s->anchor_room * 2 : 8;
        schema_anchor *grown = mem_resize(s->anchors, room, sizeof *grown);
        if (!grown) {
            s->room.failed = true;
            return;
        }
        s->anchors = grown;
        s->anchor_room = room;
    }
    s->anchors[s->n_anchors++] = (schema_anchor){resource, name, value, dynamic};
}

static const sj_value *text_member(const sj_value *object, const char *name) {
    const sj_value *m = sj_member(object, span_of(name));
    return m && m->kind == SJ_STRING && m->text.bytes ? m : NULL;
}

/* The resource that `object` is in, which may begin with it. */
static uint32_t enter_resource(schema *s, const sj_value *object, uint32_t resource) {
    const sj_value *id = text_member(object, "$id");
    if (!id) id = text_member(object, "id");
    if (!id) return resource;
    const span uri = before(id->text, "#");
    if (uri.bytes) return add_resource(s, resolved(s, s->resources[resource].uri, uri), object);
    if (id->text.bytes > 1) add_anchor(s, resource, (span){id->text.at + 1, id->text.bytes - 1}, object, false);
    return resource;
}

static void index_schema(schema *s, const sj_value *value, uint32_t resource);

static void index_inside(schema *s, const sj_value *value, keyword_holds holds, uint32_t resource) {
    const bool each = holds != HOLDS_SCHEMA && !(holds == HOLDS_SCHEMA_OR_LIST && value->kind == SJ_OBJECT);
    if (!each) index_schema(s, value, resource);
    for (const sj_value *inner = value->first; each && inner; inner = inner->next) index_schema(s, inner, resource);
}

static void index_schema(schema *s, const sj_value *value, uint32_t resource) {
    if (value->kind != SJ_OBJECT || s->room.failed) return;
    if (value->parent) resource = enter_resource(s, value, resource);
    const sj_value *anchor = text_member(value, "$anchor"), *dynamic = text_member(value, "$dynamicAnchor");
    if (anchor) add_anchor(s, resource, anchor->text, value, false);
    if (dynamic) add_anchor(s, resource, dynamic->text, value, true);
    for (const sj_value *m = value->first; m; m = m->next) {
        const keyword_row *row = keyword_find(m->key);
        if (row && row->holds != HOLDS_NOTHING) index_inside(s, m, row->holds, resource);
        if (span_is(m->key, "unevaluatedProperties") || span_is(m->key, "unevaluatedItems")) s->tracks_seen = true;
    }
}

void schema_ref_index(schema *s) {
    const sj_value *id = text_member(s->root, "$id");
    if (!id) id = text_member(s->root, "id");
    const span uri = id ? before(id->text, "#") : (span){"", 0};
    add_resource(s, uri, s->root);
    if (schema_ok(s)) index_schema(s, s->root, 0);
}

/* ---- finding ---- */

static uint32_t resource_around(const sj_value *value) {
    while (value && !value->resource) value = value->parent;
    return value ? value->resource - 1 : 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* %XX in a fragment. */
static span percent_decoded(schema *s, span text) {
    char *out = room_get(&s->room, text.bytes + 1, 1);
    size_t n = 0;
    for (size_t i = 0; out && i < text.bytes; i++) {
        const bool is_code =
            text.at[i] == '%' && i + 2 < text.bytes && hex_digit(text.at[i + 1]) >= 0 && hex_digit(text.at[i + 2]) >= 0;
        out[n++] = is_code ? (char)(hex_digit(text.at[i + 1]) * 16 + hex_digit(text.at[i + 2])) : text.at[i];
        if (is_code) i += 2;
    }
    return (span){out ? out : "", n};
}

static const sj_value *item_at(const sj_value *array, span digits) {
    uint64_t index = 0;
    if (!digits.bytes || digits.bytes > 9 || (digits.bytes > 1 && digits.at[0] == '0')) return NULL;
    for (size_t i = 0; i < digits.bytes; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9') return NULL;
        index = index * 10 + (uint64_t)(digits.at[i] - '0');
    }
    const sj_value *item = array->first;
    while (item && index--) item = item->next;
    return item;
}

/* One step of a JSON Pointer, with ~0 and ~1. */
static const sj_value *pointer_step(schema *s, const sj_value *value, span step) {
    if (value->kind == SJ_ARRAY) return item_at(value, step);
    char *name = room_get(&s->room, step.bytes + 1, 1);
    size_t n = 0;
    for (size_t i = 0; name && i < step.bytes; i++) {
        const bool escaped =
            step.at[i] == '~' && i + 1 < step.bytes && (step.at[i + 1] == '0' || step.at[i + 1] == '1');
        name[n++] = escaped ? (step.at[++i] == '0' ? '~' : '/') : step.at[i];
    }
    return name ? sj_member(value, (span){name, n}) : NULL;
}

static const sj_value *follow_pointer(schema *s, const sj_value *value, span pointer) {
    while (value && pointer.bytes) {
        const span step = before((span){pointer.at + 1, pointer.bytes - 1}, "/");
        value = pointer_step(s, value, step);
        pointer = (span){pointer.at + 1 + step.bytes, pointer.bytes - 1 - step.bytes};
    }
    return value;
}

static const sj_value *find_anchor(schema *s, uint32_t resource, span name) {
    for (uint32_t i = 0; i < s->n_anchors; i++)
        if (s->anchors[i].resource == resource && span_equal(s->anchors[i].name, name)) return s->anchors[i].value;
    return NULL;
}

/* Whether a dynamic reference to this schema could lead elsewhere. */
static bool is_moved(const schema *s, const sj_value *target, span name) {
    bool is_dynamic = false;
    int n = 0;
    for (uint32_t i = 0; i < s->n_anchors; i++) {
        if (!s->anchors[i].dynamic || !span_equal(s->anchors[i].name, name)) continue;
        is_dynamic |= s->anchors[i].value == target;
        n++;
    }
    return is_dynamic && n > 1;
}

static const sj_value *not_found(schema *s, const sj_value *where, bool other_document) {
    if (other_document)
        schema_report(s, IR_PROBLEM, "unsupported", where,
                      "the reference leads to another document, and none is ever fetched",
                      "copy what it names into $defs");
    else
        schema_invalid(s, where, "the reference names nothing in the document");
    return NULL;
}

const sj_value *schema_ref_find(schema *s, const sj_value *where, span reference, bool dynamic) {
    const span uri = before(reference, "#");
    span fragment = {reference.at + uri.bytes, reference.bytes - uri.bytes};
    if (fragment.bytes) fragment = percent_decoded(s, (span){fragment.at + 1, fragment.bytes - 1});
    uint32_t resource = resource_around(where);
    if (uri.bytes) {
        const span wanted = resolved(s, s->resources[resource].uri, uri);
        for (resource = 0; resource < s->n_resources; resource++)
            if (span_equal(s->resources[resource].uri, wanted)) break;
        if (resource == s->n_resources) return not_found(s, where, true);
    }
    const sj_value *target = s->resources[resource].value;
    if (fragment.bytes)
        target = fragment.at[0] == '/' ? follow_pointer(s, target, fragment) : find_anchor(s, resource, fragment);
    if (!target) return not_found(s, where, false);
    if (dynamic && is_moved(s, target, fragment)) {
        schema_unsupported(
            s, where, "several dynamic anchors have this name, so what it names depends on the way to it", "use $ref");
        return NULL;
    }
    return target;
}
