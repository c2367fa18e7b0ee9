/* tmpl_escape.c — text made safe for HTML, and the type that remembers it: Markup. */
#include "tmpl_run.h"

void tmpl_escape(strbuf *out, span text) {
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    for (size_t i = 0; i < text.bytes; i++) {
        const char *special = text.at[i] ? strchr(from, text.at[i]) : NULL;
        if (special)
            strbuf_text(out, to[special - from]);
        else
            strbuf_char(out, text.at[i]);
    }
}

bool value_escape(tmpl_run *r, value v, value *out) {
    strbuf text = {0};
    if (v.kind == V_STR && v.is_markup) return *out = v, true;
    if (!value_to_text(r, v, out) || !tmpl_spend(r, out->str->bytes / STEP_READS)) return false;
    tmpl_escape(&text, value_span(*out));
    if (!tmpl_take_text(r, &text, out)) return false;
    out->is_markup = true;
    return true;
}
