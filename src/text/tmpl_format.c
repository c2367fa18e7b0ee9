/* tmpl_format.c — "{} and {name!r:>10}".format(...): fields found, converted and formatted by tmpl_spec.c.
 *
 * Field names may walk on ("{0.role}", "{m[key]}") by the template's own rules, so that the sandbox holds; a
 * specification may itself contain fields, one level deep. */
#include "tmpl_run.h"
#include "base/utf8.h"

typedef struct formatter {
    tmpl_run *r;
    const call_args *args;
    int64_t next; /* automatic number; -1: fields are numbered by hand */
    bool is_automatic;
    bool is_markup;
} formatter;

static bool format_into(formatter *f, strbuf *out, span text, int depth);

static bool all_digits(span s) {
    for (size_t i = 0; i < s.bytes; i++)
        if (s.at[i] < '0' || s.at[i] > '9') return false;
    return s.bytes > 0;
}

static bool positional(formatter *f, int64_t at, value *out) {
    if (at < 0 || (uint64_t)at >= f->args->count)
        return tmpl_fail(f->r, "Replacement index %lld out of range for positional args tuple", (long long)at);
    *out = f->args->at[at];
    return true;
}

/* A field without a name gets the next number; one that is only a number is one by hand; not both in one text. */
static bool count_field(formatter *f, span whole) {
    const bool is_automatic = !whole.bytes;
    if (!is_automatic && !all_digits(whole)) return true;
    if (f->next >= 0 && f->is_automatic != is_automatic)
        return tmpl_fail(f->r, "cannot switch between automatic and manual field numbering");
    f->is_automatic = is_automatic;
    if (f->next < 0) f->next = 0;
    return true;
}

/* The argument that a field begins with. */
static bool first_value(formatter *f, span name, bool is_whole, value *out) {
    int64_t at;
    bool is_too_large;
    value key;
    if (!name.bytes && is_whole) return positional(f, f->next++, out);
    if (all_digits(name))
        return positional(f, value_parse_int(name, 10, &at, &is_too_large) && !is_too_large ? at : INT64_MAX, out);
    if (!value_borrow(f->r, name, &key)) return false;
    const vpair *found = f->args->named ? tmpl_dict_find(f->r, f->args->named, key) : NULL;
    if (!found) return tmpl_fail(f->r, "'%.*s'", TEXT_ARG(key.str)); /* KeyError */
    *out = found->val;
    return true;
}

static bool find_field(formatter *f, span name, value *out) {
    size_t at = 0;
    while (at < name.bytes && name.at[at] != '.' && name.at[at] != '[') at++;
    if (!count_field(f, name) || !first_value(f, (span){name.at, at}, at == name.bytes, out)) return false;
    while (at < name.bytes) {
        const bool is_attribute = name.at[at] == '.';
        size_t end = ++at;
        value key;
        if (!is_attribute && name.at[at - 1] != '[')
            return tmpl_fail(f->r, "Only '.' or '[' may follow ']' in format field specifier");
        while (end < name.bytes && (is_attribute ? name.at[end] != '.' && name.at[end] != '[' : name.at[end] != ']'))
            end++;
        if (end == at) return tmpl_fail(f->r, "Empty attribute in format string");
        if (!is_attribute && end == name.bytes) return tmpl_fail(f->r, "Missing ']' in format string");
        const span part = {name.at + at, end - at};
        int64_t index;
        bool is_too_large;
        if (!is_attribute && all_digits(part) && value_parse_int(part, 10, &index, &is_too_large))
            key = value_int(index);
        else if (!value_borrow(f->r, part, &key))
            return false;
        if (is_attribute ? !value_getattr(f->r, *out, key.str, out) : !value_getitem(f->r, *out, key, out))
            return false;
        at = end + !is_attribute;
    }
    return true;
}

static bool convert(formatter *f, char how, value *v) {
    strbuf text = {0};
    if (how == 's') return value_to_text(f->r, *v, v);
    if (how != 'r' && how != 'a') return tmpl_fail(f->r, "Unknown conversion specifier %c", how);
    if (!value_repr(f->r, &text, *v)) return strbuf_free(&text), false;
    if (how == 'r') return tmpl_take_text(f->r, &text, v);
    strbuf plain;
    if (!tmpl_ascii(f->r, &plain, &text)) return false;
    return tmpl_take_text(f->r, &plain, v);
}

/* The inside of one {...}: name[!conversion][:specification]. */
static bool put_field(formatter *f, strbuf *out, span field, int depth) {
    size_t end = 0, open = 0;
    char how = 0;
    value v;
    for (; end < field.bytes && (open || (field.at[end] != '!' && field.at[end] != ':')); end++)
        open = field.at[end] == '[' ? 1 : field.at[end] == ']' ? 0 : open;
    const span name = {field.at, end};
    if (memchr(name.at, '{', name.bytes)) return tmpl_fail(f->r, "unexpected '{' in field name");
    if (end < field.bytes && field.at[end] == '!') {
        if (end + 1 >= field.bytes) return tmpl_fail(f->r, "unmatched '{' in format spec");
        how = field.at[end + 1];
        end += 2;
        if (end < field.bytes && field.at[end] != ':')
            return tmpl_fail(f->r, "expected ':' after conversion specifier");
    }
    if (!find_field(f, name, &v) || (how && !convert(f, how, &v))) return false;
    strbuf spec = {0}, text = {0};
    value made;
    bool is_right = true;
    if (end < field.bytes)
        is_right = format_into(f, &spec, (span){field.at + end + 1, field.bytes - end - 1}, depth + 1);
    const bool is_safe = f->is_markup && v.kind == V_STR && v.is_markup;
    if (is_right && is_safe && spec.bytes)
        is_right = tmpl_fail(f->r, "Format specifier given, but Markup does not define __html_format__");
    is_right = is_right && tmpl_format_spec(f->r, &text, v, (span){spec.at, spec.bytes});
    strbuf_free(&spec);
    if (!is_right) return strbuf_free(&text), false;
    if (!tmpl_take_text(f->r, &text, &made)) return false;
    made.is_markup = is_safe;
    if (f->is_markup && depth == 0 && !value_escape(f->r, made, &made)) return false;
    strbuf_add(out, made.str->at, made.str->bytes);
    return tmpl_buffer_ok(f->r, out);
}

/* End of the field that begins at `at` (behind its brace): where braces balance. */
static size_t field_end(span text, size_t at) {
    int open = 1;
    for (; at < text.bytes; at++) {
        if (text.at[at] == '{') open++;
        if (text.at[at] == '}' && --open == 0) return at;
    }
    return UNKNOWN;
}

static bool format_into(formatter *f, strbuf *out, span text, int depth) {
    if (depth > 2) return tmpl_fail(f->r, "Max string recursion exceeded");
    for (size_t at = 0; at < text.bytes;) {
        const char c = text.at[at];
        if (c != '{' && c != '}') {
            size_t end = at;
            while (end < text.bytes && text.at[end] != '{' && text.at[end] != '}') end++;
            if (!tmpl_spend(f->r, (end - at) / STEP_WALKS)) return false;
            strbuf_add(out, text.at + at, end - at);
            at = end;
            continue;
        }
        if (at + 1 < text.bytes && text.at[at + 1] == c) {
            strbuf_char(out, c);
            at += 2;
            continue;
        }
        if (c == '}') return tmpl_fail(f->r, "Single '}' encountered in format string");
        if (at + 1 == text.bytes) return tmpl_fail(f->r, "Single '{' encountered in format string");
        const size_t end = field_end(text, at + 1);
        if (end == UNKNOWN) return tmpl_fail(f->r, "expected '}' before end of string");
        if (!tmpl_spend(f->r, 1 + (end - at) / STEP_READS) ||
            !put_field(f, out, (span){text.at + at + 1, end - at - 1}, depth))
            return false;
        at = end + 1;
    }
    return true;
}

bool tmpl_format(tmpl_run *r, value format, const call_args *args, value *out) {
    formatter f = {.r = r, .args = args, .next = -1, .is_markup = format.is_markup};
    strbuf text = {0};
    if (!format_into(&f, &text, value_span(format), 0)) return strbuf_free(&text), false;
    if (!tmpl_take_text(r, &text, out)) return false;
    out->is_markup = format.is_markup;
    return true;
}
