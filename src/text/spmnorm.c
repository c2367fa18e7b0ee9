/* spmnorm.c — the normaliser of a SentencePiece tokenizer.model.
 *
 * Works from place to place: a user-defined piece stays as it is, else the longest key of the character map is
 * replaced, else one character is copied. Runs of spaces shrink, spaces become marks. */
#include "spmnorm.h"
#include "uni.h"

static const span MARK = {"\xe2\x96\x81", 3};

void spmnorm_free(spmnorm *n) {
    charsmap_free(&n->map);
    mem_free(n->user.nodes);
    *n = (spmnorm){0};
}

/* What stands for the beginning of the text, and how much of the text that is. */
static span next_part(const spmnorm *n, span text, size_t *taken) {
    uint32_t c;
    span to;
    *taken = added_longest(&n->user, text);
    if (*taken) return (span){text.at, *taken};
    *taken = charsmap_find(&n->map, text, true, &to);
    if (*taken) return to;
    *taken = (size_t)uni_next(text.at, &c);
    return (span){text.at, *taken};
}

static span skip(span text, size_t n) { return (span){text.at + n, text.bytes - n}; }

static span skip_leading_spaces(const spmnorm *n, span text) {
    size_t taken;
    while (text.bytes && span_is(next_part(n, text, &taken), " ")) text = skip(text, taken);
    return text;
}

static void add_space(const spmnorm *n, strbuf *out) {
    if (n->escapes_spaces)
        strbuf_add(out, MARK.at, MARK.bytes);
    else
        strbuf_char(out, ' ');
}

static void add_part(const spmnorm *n, span part, strbuf *out) {
    for (size_t i = 0; i < part.bytes; i++) {
        if (part.at[i] == ' ')
            add_space(n, out);
        else
            strbuf_char(out, part.at[i]);
    }
}

static void drop_trailing_spaces(const spmnorm *n, strbuf *out, size_t start) {
    const span space = n->escapes_spaces ? MARK : SPAN(" ");
    while (out->bytes - start >= space.bytes && !memcmp(out->at + out->bytes - space.bytes, space.at, space.bytes))
        out->bytes -= space.bytes;
}

void spmnorm_apply(const spmnorm *n, span text, strbuf *out) {
    const size_t start = out->bytes;
    if (n->removes_extra_spaces) text = skip_leading_spaces(n, text);
    if (!text.bytes) return;
    if (n->adds_dummy_prefix && !n->is_suffix) add_space(n, out);
    bool after_space = n->removes_extra_spaces;
    for (size_t taken; text.bytes && !out->failed; text = skip(text, taken)) {
        span part = next_part(n, text, &taken);
        while (after_space && part.bytes && part.at[0] == ' ') part = skip(part, 1);
        add_part(n, part, out);
        if (part.bytes) after_space = n->removes_extra_spaces && part.at[part.bytes - 1] == ' ';
    }
    if (n->removes_extra_spaces) drop_trailing_spaces(n, out, start);
    if (n->adds_dummy_prefix && n->is_suffix) add_space(n, out);
}
