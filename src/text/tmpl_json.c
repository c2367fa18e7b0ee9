/* tmpl_json.c — the tojson filter: what Python's json.dumps writes, byte for byte. */
#include "tmpl_run.h"
#include "base/utf8.h"
#include <math.h>
#include <stdlib.h>

static void add_escaped(strbuf *out, uint32_t c) {
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    const char *simple = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (simple) {
        strbuf_char(out, '\\');
        strbuf_char(out, to[simple - from]);
    } else if (c < 0x10000) {
        strbuf_format(out, "\\u%04x", (unsigned)c);
    } else {
        strbuf_format(out, "\\u%04x\\u%04x", 0xd7c0 + (unsigned)(c >> 10), 0xdc00 + (unsigned)(c & 0x3ff));
    }
}

static void write_text(strbuf *out, span text, bool ascii) {
    size_t plain = 0; /* what is already written */
    strbuf_char(out, '"');
    for (size_t i = 0; i < text.bytes;) {
        const unsigned char b = (unsigned char)text.at[i];
        if (b >= 0x20 && b != '"' && b != '\\' && (b < 0x7f || !ascii)) {
            i++;
            continue;
        }
        uint32_t c = 0xfffd;
        int length = utf8_decode(text.at + i, text.bytes - i, &c);
        if (!length) length = 1;
        strbuf_add(out, text.at + plain, i - plain);
        add_escaped(out, c);
        i += (size_t)length;
        plain = i;
    }
    strbuf_add(out, text.at + plain, text.bytes - plain);
    strbuf_char(out, '"');
}

static void write_real(strbuf *out, double x) {
    if (isnan(x))
        strbuf_text(out, "NaN");
    else if (isinf(x))
        strbuf_text(out, x > 0 ? "Infinity" : "-Infinity");
    else
        tmpl_real_repr(out, x);
}

static void new_line(strbuf *out, const json_style *style, int level) {
    if (!style->indent.at) return;
    strbuf_char(out, '\n');
    for (int i = 0; i < level; i++) strbuf_add(out, style->indent.at, style->indent.bytes);
}

static bool write_value(tmpl_run *r, strbuf *out, value v, const json_style *style, int level);

static bool write_list(tmpl_run *r, strbuf *out, const vseq *seq, const json_style *style, int level) {
    strbuf_char(out, '[');
    for (size_t i = 0; i < seq->count; i++) {
        if (i) strbuf_add(out, style->item_separator.at, style->item_separator.bytes);
        new_line(out, style, level + 1);
        if (!write_value(r, out, seq->at[i], style, level + 1)) return false;
    }
    if (seq->count) new_line(out, style, level);
    strbuf_char(out, ']');
    return true;
}

static bool write_key(tmpl_run *r, strbuf *out, value key, const json_style *style) {
    if (key.kind == V_STR) {
        if (!tmpl_spend(r, key.str->bytes / STEP_READS)) return false;
        write_text(out, value_span(key), style->ascii);
        return true;
    }
    if (!value_is_number(key) && key.kind != V_NONE)
        return tmpl_fail(r, "keys must be str, int, float, bool or None, not %s", value_type(key));
    strbuf_char(out, '"');
    if (!write_value(r, out, key, style, 0)) return false;
    strbuf_char(out, '"');
    return true;
}

typedef struct sorter {
    tmpl_run *r;
    bool is_wrong;
} sorter;

static int compare_pairs(const void *a, const void *b, void *with) {
    const vpair *x = *(vpair *const *)a, *y = *(vpair *const *)b;
    sorter *s = with;
    bool is_less = false, is_more = false;
    if (s->is_wrong) return 0;
    s->is_wrong =
        !value_order(s->r, OP_LT, x->key, y->key, &is_less) || !value_order(s->r, OP_LT, y->key, x->key, &is_more);
    return (int)is_more - (int)is_less;
}

static bool write_dict(tmpl_run *r, strbuf *out, const vdict *d, const json_style *style, int level) {
    const vpair **pairs = tmpl_get(r, d->count, sizeof *pairs);
    sorter s = {.r = r};
    if (!pairs) return false;
    for (size_t i = 0; i < d->count; i++) pairs[i] = &d->at[i];
    if (style->sort && d->count > 1) qsort_r(pairs, d->count, sizeof *pairs, compare_pairs, &s);
    if (s.is_wrong) return false;
    strbuf_char(out, '{');
    for (size_t i = 0; i < d->count; i++) {
        if (i) strbuf_add(out, style->item_separator.at, style->item_separator.bytes);
        new_line(out, style, level + 1);
        if (!write_key(r, out, pairs[i]->key, style)) return false;
        strbuf_add(out, style->key_separator.at, style->key_separator.bytes);
        if (!write_value(r, out, pairs[i]->val, style, level + 1)) return false;
    }
    if (d->count) new_line(out, style, level);
    strbuf_char(out, '}');
    return true;
}

static bool write_nested(tmpl_run *r, strbuf *out, value v, const json_style *style, int level) {
    const bool is_right = tmpl_enter(r) && (v.kind == V_DICT ? write_dict(r, out, v.dict, style, level)
                                                             : write_list(r, out, v.seq, style, level));
    tmpl_leave(r);
    return is_right;
}

static bool write_value(tmpl_run *r, strbuf *out, value v, const json_style *style, int level) {
    const size_t indent = style->indent.at ? (size_t)level * (style->indent.bytes + 1) : 0;
    const size_t text = v.kind == V_STR ? v.str->bytes : 0;
    if (!tmpl_spend(r, 1 + indent / STEP_MOVES + text / STEP_READS) || !tmpl_buffer_ok(r, out)) return false;
    switch (v.kind) {
    case V_NONE:
        strbuf_text(out, "null");
        return true;
    case V_BOOL:
        strbuf_text(out, v.truth ? "true" : "false");
        return true;
    case V_INT:
        strbuf_format(out, "%lld", (long long)v.integer);
        return true;
    case V_FLOAT:
        write_real(out, v.real);
        return true;
    case V_STR:
        write_text(out, value_span(v), style->ascii);
        return true;
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
        return write_nested(r, out, v, style, level);
    default:
        return tmpl_fail(r, "Object of type %s is not JSON serializable", value_type(v));
    }
}

bool tmpl_json_write(tmpl_run *r, strbuf *out, value v, const json_style *style) {
    return write_value(r, out, v, style, 0);
}
