/* tmpl_run.c — the state of one rendering: failing, limits, output, and the context's way in from JSON. */
#include "tmpl_run.h"

bool tmpl_fail_as(tmpl_run *r, qp_status code, const char *format, ...) {
    char text[420];
    va_list args;
    if (r->status != QP_OK) return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->status = tmpl_source_fail(&r->t->source, r->at, r->err, code, "%s", text);
    return false;
}

bool tmpl_fail(tmpl_run *r, const char *format, ...) {
    char text[420];
    va_list args;
    if (r->status != QP_OK) return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tmpl_fail_as(r, QP_BAD_ARGUMENT, "%s", text);
}

static bool fail_limit(tmpl_run *r) {
    return tmpl_fail_as(r, QP_TOO_LARGE, "rendering needs more than the limit of %zu bytes of memory",
                        r->memory.limit_bytes);
}

bool tmpl_no_memory(tmpl_run *r) {
    if (r->status != QP_OK) return false;
    if (r->memory.over_limit) return fail_limit(r);
    r->status = err_no_memory(r->err, r->memory.block_bytes, "template rendering");
    return false;
}

bool tmpl_out_of_steps(tmpl_run *r) {
    r->steps = 0;
    return tmpl_fail_as(r, QP_TOO_LARGE, "rendering takes more steps than the limit allows");
}

bool tmpl_too_deep(tmpl_run *r) { return tmpl_fail_as(r, QP_TOO_LARGE, "maximum recursion depth exceeded"); }

void *tmpl_get(tmpl_run *r, size_t count, size_t size) {
    void *at = arena_get(&r->memory, count, size);
    size_t bytes;
    if (!at && !mem_mul(count, size, &bytes)) fail_limit(r);
    if (!at) tmpl_no_memory(r);
    return at;
}

bool tmpl_buffer_ok(tmpl_run *r, const strbuf *b) {
    if (b->bytes > r->memory.limit_bytes || (b->failed && b->limit && b->bytes >= b->limit / 2)) return fail_limit(r);
    return !b->failed || tmpl_no_memory(r);
}

bool tmpl_write(tmpl_run *r, span text) {
    if (!tmpl_spend(r, 1 + text.bytes / STEP_MOVES)) return false;
    if (text.bytes > r->output_bytes || r->out->bytes > r->output_bytes - text.bytes)
        return tmpl_fail_as(r, QP_TOO_LARGE, "output is longer than the limit of %zu bytes", r->output_bytes);
    strbuf_add(r->out, text.at, text.bytes);
    return !r->out->failed || tmpl_no_memory(r);
}

bool tmpl_take_text(tmpl_run *r, strbuf *b, value *out) {
    const bool is_right = tmpl_buffer_ok(r, b) && value_text(r, (span){b->at, b->bytes}, out);
    strbuf_free(b);
    return is_right;
}

/* ---- JSON ---- */

static bool from_array(tmpl_run *r, const json_t *from, value *out) {
    const size_t count = json_array_size(from);
    bool is_right = tmpl_enter(r) && value_seq(r, V_LIST, count, out);
    for (size_t i = 0; is_right && i < count; i++)
        is_right = tmpl_from_json(r, json_array_get(from, i), &out->seq->at[i]);
    tmpl_leave(r);
    return is_right;
}

static bool from_object(tmpl_run *r, const json_t *from, value *out) {
    bool is_right = tmpl_enter(r) && value_dict(r, out);
    /* jansson's iterators take the object without const, but do not change it */
    json_t *object = (json_t *)(uintptr_t)from;
    for (void *at = json_object_iter(object); is_right && at; at = json_object_iter_next(object, at)) {
        value key, val;
        is_right = value_borrow(r, span_of(json_object_iter_key(at)), &key) &&
                   tmpl_from_json(r, json_object_iter_value(at), &val) && tmpl_dict_set(r, out->dict, key, val);
    }
    tmpl_leave(r);
    return is_right;
}

bool tmpl_from_json(tmpl_run *r, const json_t *from, value *out) {
    switch (json_typeof(from)) {
    case JSON_OBJECT:
        return from_object(r, from, out);
    case JSON_ARRAY:
        return from_array(r, from, out);
    case JSON_STRING:
        return value_borrow(r, (span){json_string_value(from), json_string_length(from)}, out);
    case JSON_INTEGER:
        *out = value_int((int64_t)json_integer_value(from));
        return true;
    case JSON_REAL:
        *out = value_real(json_real_value(from));
        return true;
    case JSON_TRUE:
        *out = value_bool(true);
        return true;
    case JSON_FALSE:
        *out = value_bool(false);
        return true;
    default:
        *out = value_none();
        return true;
    }
}
