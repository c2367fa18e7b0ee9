/* norm.c — running normalisers over a text, from one buffer to the other and back. */
#include "norm.h"
#include "bytealpha.h"
#include "base/mem.h"
#include "uni.h"

/* One step: false where it changes nothing (and wrote nothing). */
typedef struct pass {
    const norm_step *step;
    norm_scratch *scratch;
    strbuf *out;
    bool front_moved;
    qp_status status;
    qp_error *err;
} pass;

static bool form(pass *p, span text) {
    if (nform_is_clean(p->step->form, text)) return false;
    nform_apply(p->step->form, text, p->out);
    return true;
}

static void lower(strbuf *out, span text) {
    uint32_t c, to[3];
    for (size_t i = 0; i < text.bytes;) {
        i += (size_t)uni_next(text.at + i, &c);
        const int n = uni_lower_of(c, to);
        for (int k = 0; k < n; k++) strbuf_utf8(out, to[k]);
    }
}

static bool lowercase(pass *p, span text) {
    lower(p->out, text);
    return true;
}

static bool strip(pass *p, span text) {
    size_t start = 0, end = text.bytes;
    uint32_t c;
    for (int n; p->step->left && start < end; start += (size_t)n) {
        n = uni_next(text.at + start, &c);
        if (!uni_is(c, UNI_SPACE)) break;
    }
    for (int n; p->step->right && end > start; end -= (size_t)n) {
        n = uni_last(text.at + start, end - start, &c);
        if (!uni_is(c, UNI_SPACE)) break;
    }
    if (start == 0 && end == text.bytes) return false;
    if (start) p->front_moved = true;
    strbuf_add(p->out, text.at + start, end - start);
    return true;
}

/* Leaves out characters of the mask. */
static void drop(pass *p, span text, strbuf *out, uint64_t mask) {
    uint32_t c;
    for (size_t i = 0, n; i < text.bytes; i += n) {
        n = (size_t)uni_next(text.at + i, &c);
        if (!uni_is(c, mask))
            strbuf_add(out, text.at + i, n);
        else if (i == 0)
            p->front_moved = true;
    }
}

static bool strip_accents(pass *p, span text) {
    drop(p, text, p->out, UNI_MARK);
    return true;
}

static size_t count_characters(span text) {
    size_t n = 0;
    for (size_t i = 0; i < text.bytes; i++) n += ((unsigned char)text.at[i] & 0xC0) != 0x80;
    return n;
}

static void put_replacement(pass *p, span text, size_t start, size_t end) {
    if (start == 0 && end > 0 && (!p->step->text_bytes || count_characters((span){text.at, end}) > 1))
        p->front_moved = true;
    strbuf_add(p->out, p->step->text, p->step->text_bytes);
}

static bool replace_text(pass *p, span text) {
    const norm_step *s = p->step;
    const char *at = text.at, *const end = text.at + text.bytes;
    for (const char *found; (found = memmem(at, (size_t)(end - at), s->from, s->from_bytes));
         at = found + s->from_bytes) {
        strbuf_add(p->out, at, (size_t)(found - at));
        put_replacement(p, text, (size_t)(found - text.at), (size_t)(found - text.at) + s->from_bytes);
    }
    if (at == text.at) return false;
    strbuf_add(p->out, at, (size_t)(end - at));
    return true;
}

static bool replace_matches(pass *p, span text) {
    size_t done = 0, from = 0;
    bool any = false;
    while (from <= text.bytes) {
        bool found;
        size_t start, end;
        p->status = regex_next(p->step->regex, &p->scratch->regex, text, from, &found, &start, &end, p->err);
        if (p->status != QP_OK || !found) break;
        from = end;
        if (start == end) {
            uint32_t c;
            from = end < text.bytes ? end + (size_t)uni_next(text.at + end, &c) : text.bytes + 1;
            if (any && end == done) continue;
        }
        strbuf_add(p->out, text.at + done, start - done);
        put_replacement(p, text, start, end);
        done = end;
        any = true;
    }
    if (any) strbuf_add(p->out, text.at + done, text.bytes - done);
    return any;
}

static bool replace(pass *p, span text) { return p->step->regex ? replace_matches(p, text) : replace_text(p, text); }

static bool prepend(pass *p, span text) {
    strbuf_add(p->out, p->step->text, p->step->text_bytes);
    strbuf_add(p->out, text.at, text.bytes);
    return true;
}

static bool append(pass *p, span text) {
    strbuf_add(p->out, text.at, text.bytes);
    strbuf_add(p->out, p->step->text, p->step->text_bytes);
    return true;
}

static bool map_characters(pass *p, span text) {
    charsmap_apply(&p->step->map, text, p->out);
    return true;
}

static bool is_chinese(uint32_t c) {
    static const uint32_t ranges[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                                         {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

/* Cleaning and the spaces around Chinese characters, in one pass. */
static void bert_clean(pass *p, span text, strbuf *out) {
    uint32_t c;
    for (size_t i = 0, n; i < text.bytes; i += n) {
        n = (size_t)uni_next(text.at + i, &c);
        const bool is_gone = p->step->cleans && uni_is(c, UNI_CONTROL);
        const bool is_wide = !is_gone && p->step->handles_chinese && is_chinese(c);
        if (is_gone && i == 0) p->front_moved = true;
        if (is_gone) continue;
        if (is_wide) strbuf_char(out, ' ');
        if (p->step->cleans && uni_is(c, UNI_SPACE))
            strbuf_char(out, ' ');
        else
            strbuf_add(out, text.at + i, n);
        if (is_wide) strbuf_char(out, ' ');
    }
}

static bool bert(pass *p, span text) {
    strbuf cleaned = {0}, parts = {0};
    bert_clean(p, text, &cleaned);
    span now = {cleaned.at ? cleaned.at : "", cleaned.bytes};
    if (p->step->strips_accents) {
        strbuf marked = {0};
        nform_apply(NFORM_D, now, &marked);
        drop(p, (span){marked.at ? marked.at : "", marked.bytes}, &parts, UNI_ACCENT);
        if (marked.failed) parts.failed = true;
        strbuf_free(&marked);
        now = (span){parts.at ? parts.at : "", parts.bytes};
    }
    if (p->step->lowercases)
        lower(p->out, now);
    else
        strbuf_add(p->out, now.at, now.bytes);
    if (cleaned.failed || parts.failed) p->out->failed = true;
    strbuf_free(&cleaned);
    strbuf_free(&parts);
    return true;
}

/* What the NMT rules remove (0), make a space (1) or leave (2). */
static int nmt_fate(uint32_t c) {
    if ((c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) return 0;
    if (c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
        c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD)
        return 1;
    return 2;
}

static bool nmt(pass *p, span text) {
    uint32_t c;
    for (size_t i = 0, n; i < text.bytes; i += n) {
        n = (size_t)uni_next(text.at + i, &c);
        const int fate = nmt_fate(c);
        if (fate == 0 && i == 0) p->front_moved = true;
        if (fate == 1) strbuf_char(p->out, ' ');
        if (fate == 2) strbuf_add(p->out, text.at + i, n);
    }
    return true;
}

static bool byte_level(pass *p, span text) {
    bytealpha_encode(p->out, text);
    return true;
}

static bool (*const kinds[])(pass *p, span text) = {
    [NORM_FORM] = form,
    [NORM_LOWERCASE] = lowercase,
    [NORM_STRIP] = strip,
    [NORM_STRIP_ACCENTS] = strip_accents,
    [NORM_REPLACE] = replace,
    [NORM_PREPEND] = prepend,
    [NORM_APPEND] = append,
    [NORM_CHARSMAP] = map_characters,
    [NORM_BERT] = bert,
    [NORM_NMT] = nmt,
    [NORM_BYTE_LEVEL] = byte_level,
};

qp_status norm_run(const norm *n, norm_scratch *s, span text, span *out, bool *front_moved, qp_error *err) {
    int side = 0;
    *front_moved = false;
    for (int i = 0; i < n->n && text.bytes; i++) {
        pass p = {.step = &n->steps[i], .scratch = s, .out = &s->text[side], .err = err};
        strbuf_clear(p.out);
        const bool changed = kinds[p.step->kind](&p, text);
        if (p.status != QP_OK) return p.status;
        if (p.out->failed) return err_no_memory(err, text.bytes, "normaliser");
        if (!changed) continue;
        if (p.front_moved) *front_moved = true;
        text = (span){p.out->at ? p.out->at : "", p.out->bytes};
        side = !side;
    }
    *out = text;
    return QP_OK;
}

void norm_scratch_free(norm_scratch *s) {
    strbuf_free(&s->text[0]);
    strbuf_free(&s->text[1]);
    regex_scratch_free(&s->regex);
}
