/* tmpl_case.c — upper, lower, title and so on of whole texts: each walks the characters with the text around them,
 * which a Greek final sigma needs. */
#include "tmpl_case.h"
#include "base/utf8.h"

typedef struct walk {
    span text;
    size_t at;
    uint32_t c;
    int length;
} walk;

static bool step(walk *w) {
    w->at += (size_t)w->length;
    if (w->at >= w->text.bytes) return false;
    w->length = utf8_decode(w->text.at + w->at, w->text.bytes - w->at, &w->c);
    if (!w->length) w->c = 0xfffd, w->length = 1;
    return true;
}

static void add(strbuf *out, const walk *w, char_case to) {
    const size_t behind = w->at + (size_t)w->length;
    tmpl_case_add(out, w->c, to, (span){w->text.at, w->at}, (span){w->text.at + behind, w->text.bytes - behind});
}

static bool take(tmpl_run *r, strbuf *b, value text, value *out) {
    if (!tmpl_spend(r, text.str->bytes / STEP_READS)) return strbuf_free(b), false;
    if (!tmpl_take_text(r, b, out)) return false;
    out->is_markup = text.is_markup;
    return true;
}

static bool is_ascii(span s) {
    for (size_t i = 0; i < s.bytes; i++)
        if ((unsigned char)s.at[i] >= 0x80) return false;
    return true;
}

static bool change_ascii(tmpl_run *r, value text, bool is_upper, value *out) {
    char *at = tmpl_get(r, text.str->bytes, 1);
    if (!at || !tmpl_spend(r, text.str->bytes / STEP_WALKS)) return false;
    for (size_t i = 0; i < text.str->bytes; i++) {
        const char c = text.str->at[i];
        const bool is_other = is_upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
        at[i] = (char)(is_other ? c ^ 32 : c);
    }
    if (!value_borrow(r, (span){at, text.str->bytes}, out)) return false;
    out->is_markup = text.is_markup;
    return true;
}

bool tmpl_change_case(tmpl_run *r, value text, char_case to, value *out) {
    if (is_ascii(value_span(text))) return change_ascii(r, text, to == CASE_UPPER, out);
    strbuf b = {0};
    for (walk w = {.text = value_span(text)}; step(&w);) add(&b, &w, to);
    return take(r, &b, text, out);
}

bool tmpl_capitalize(tmpl_run *r, value text, value *out) {
    strbuf b = {0};
    for (walk w = {.text = value_span(text)}; step(&w);) add(&b, &w, w.at ? CASE_LOWER : CASE_TITLE);
    return take(r, &b, text, out);
}

bool tmpl_title(tmpl_run *r, value text, value *out) {
    strbuf b = {0};
    bool in_word = false;
    for (walk w = {.text = value_span(text)}; step(&w);) {
        add(&b, &w, in_word ? CASE_LOWER : CASE_TITLE);
        in_word = tmpl_char_kinds(w.c) & CHAR_CASED;
    }
    return take(r, &b, text, out);
}

bool tmpl_title_words(tmpl_run *r, value text, value *out) {
    strbuf b = {0};
    bool in_word = false;
    size_t second = 0; /* what is lowered of a word begins here, and a sigma sees no more */
    for (walk w = {.text = value_span(text)}; step(&w);) {
        const size_t behind = w.at + (size_t)w.length;
        const bool is_break =
            (w.c < 0x80 && w.c && strchr("-({[<", (int)w.c)) || tmpl_space_length(w.text.at + w.at, (size_t)w.length);
        if (!in_word) second = behind;
        const size_t from = in_word ? second : w.at;
        tmpl_case_add(&b, w.c, in_word ? CASE_LOWER : CASE_UPPER, (span){w.text.at + from, w.at - from},
                      (span){w.text.at + behind, w.text.bytes - behind});
        in_word = !is_break;
    }
    return take(r, &b, text, out);
}

bool tmpl_swap_case(tmpl_run *r, value text, value *out) {
    strbuf b = {0};
    for (walk w = {.text = value_span(text)}; step(&w);) {
        const unsigned kinds = tmpl_char_kinds(w.c);
        if (kinds & CHAR_UPPER)
            add(&b, &w, CASE_LOWER);
        else if (kinds & CHAR_LOWER)
            add(&b, &w, CASE_UPPER);
        else
            strbuf_add(&b, w.text.at + w.at, (size_t)w.length);
    }
    return take(r, &b, text, out);
}
