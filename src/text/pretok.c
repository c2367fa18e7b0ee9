/* pretok.c — running the chain of pre-tokenisers over a text.
 *
 * The order of things follows the reference: empty pieces vanish between steps, a mark is prepended to each piece of a
 * step's input, and "first" means beginning where the original text began. */
#include "pretok.h"
#include "bytealpha.h"
#include "uni.h"

typedef struct run {
    const pretok *p;
    pretok_scratch *scratch;
    pretok_sink *sink;
    void *context;
    qp_error *err;
} run;

static qp_status step_on(const run *r, int i, pretok_piece in);

/* Hands a piece of step i's output to the next step that can do something to it: a lone character is not split. */
static inline qp_status emit(const run *r, int i, pretok_piece out) {
    const pretok_step *steps = r->p->steps;
    if (!out.bytes) return QP_OK;
    do i++;
    while (out.bytes == 1 && i < r->p->n && steps[i].kind == PRETOK_SPLIT && steps[i].behavior != PRETOK_REMOVED);
    return i == r->p->n ? r->sink(r->context, out, r->err) : step_on(r, i, out);
}

static inline pretok_piece part_of(pretok_piece in, size_t start, size_t end) {
    return (pretok_piece){in.at + start, end - start, in.is_first && start == 0};
}

/* ---- splitting by matches ---- */

/* What MergedWithPrevious, MergedWithNext and Contiguous wait with. */
typedef struct joiner {
    const run *r;
    int i;
    pretok_piece in;
    pretok_behavior behavior;
    size_t start, end; /* the span held back */
    bool holds, last_is_match;
} joiner;

static qp_status release(joiner *j) {
    const bool holds = j->holds;
    j->holds = false;
    return holds ? emit(j->r, j->i, part_of(j->in, j->start, j->end)) : QP_OK;
}

/* Whether a span belongs to the one that is held back. */
static bool joins(const joiner *j, bool is_match) {
    switch (j->behavior) {
    case PRETOK_CONTIGUOUS:
        return is_match == j->last_is_match;
    case PRETOK_MERGED_PREVIOUS:
        return is_match && !j->last_is_match;
    case PRETOK_MERGED_NEXT:
        return !is_match && j->last_is_match;
    default:
        return false;
    }
}

/* One span of the text, match or not, in order. */
static qp_status add_span(joiner *j, size_t start, size_t end, bool is_match) {
    if (j->behavior == PRETOK_ISOLATED) return emit(j->r, j->i, part_of(j->in, start, end));
    if (j->behavior == PRETOK_REMOVED) return is_match ? QP_OK : emit(j->r, j->i, part_of(j->in, start, end));
    if (j->holds && joins(j, is_match))
        j->end = end;
    else {
        ERR_TRY(release(j));
        j->start = start;
        j->end = end;
        j->holds = true;
    }
    j->last_is_match = is_match;
    return QP_OK;
}

static bool next_of_mask(uint64_t mask, pretok_piece in, size_t from, size_t *start, size_t *end) {
    uint32_t c;
    for (size_t length; from < in.bytes; from += length) {
        length = (size_t)uni_next(in.at + from, &c);
        if (!uni_is(c, mask)) continue;
        *start = from;
        *end = from + length;
        return true;
    }
    return false;
}

static qp_status next_match(const run *r, const pretok_step *s, pretok_piece in, size_t from, bool *found,
                            size_t *start, size_t *end) {
    const span text = {in.at, in.bytes};
    if (s->regex) return regex_next(s->regex, &r->scratch->regex, text, from, found, start, end, r->err);
    *found = s->scan ? scan_next(s->scan, text, from, start, end) : next_of_mask(s->mask, in, from, start, end);
    return QP_OK;
}

static qp_status split(const run *r, int i, pretok_piece in) {
    const pretok_step *s = &r->p->steps[i];
    joiner j = {.r = r, .i = i, .in = in, .behavior = s->behavior};
    size_t done = 0, from = 0;
    while (from <= in.bytes) {
        bool found;
        size_t start, end;
        ERR_TRY(next_match(r, s, in, from, &found, &start, &end));
        if (!found) break;
        from = end;
        if (start == end) { /* an empty match directly behind the last one does not count */
            uint32_t c;
            from = end < in.bytes ? end + (size_t)uni_next(in.at + end, &c) : in.bytes + 1;
            if (end == done && done) continue;
        }
        if (start > done) ERR_TRY(add_span(&j, done, start, s->is_inverted));
        ERR_TRY(add_span(&j, start, end, !s->is_inverted));
        done = end;
    }
    if (done < in.bytes) ERR_TRY(add_span(&j, done, in.bytes, s->is_inverted));
    return release(&j);
}

/* A scanner that isolates: the way of all byte-level tokenizers. */
static qp_status split_fast(const run *r, int i, pretok_piece in) {
    const span text = {in.at, in.bytes};
    size_t done = 0, start, end;
    while (done < in.bytes && scan_next(r->p->steps[i].scan, text, done, &start, &end)) {
        if (start > done) ERR_TRY(emit(r, i, part_of(in, done, start)));
        ERR_TRY(emit(r, i, part_of(in, start, end)));
        done = end;
    }
    return emit(r, i, part_of(in, done, in.bytes));
}

/* ---- the other steps ---- */

static qp_status byte_level(const run *r, int i, pretok_piece in) {
    const pretok_step *s = &r->p->steps[i];
    const bool adds = s->adds_space && in.at[0] != ' ';
    if (!adds && !s->maps_bytes) return emit(r, i, in);
    strbuf *text = &r->scratch->text[i];
    strbuf_clear(text);
    if (s->maps_bytes)
        bytealpha_encode(text, (span){in.at, in.bytes});
    else {
        strbuf_char(text, ' ');
        strbuf_add(text, in.at, in.bytes);
    }
    if (text->failed) return err_no_memory(r->err, in.bytes, "pre-tokeniser");
    return emit(r, i, (pretok_piece){text->at, text->bytes, in.is_first});
}

static void replace_spaces(strbuf *out, pretok_piece in, const char *mark) {
    const char *at = in.at, *const end = in.at + in.bytes;
    const size_t mark_bytes = strlen(mark);
    for (const char *space; (space = memchr(at, ' ', (size_t)(end - at)));) {
        strbuf_add(out, at, (size_t)(space - at));
        for (at = space; at < end && *at == ' '; at++) strbuf_add(out, mark, mark_bytes);
    }
    strbuf_add(out, at, (size_t)(end - at));
}

/* Each mark begins a word that goes up to the next one. */
static qp_status split_marks(const run *r, int i, pretok_piece in, const char *mark) {
    const size_t length = strlen(mark);
    size_t start = 0;
    while (start < in.bytes) {
        const char *from =
            in.at + start + (start + length <= in.bytes && !memcmp(in.at + start, mark, length) ? length : 1);
        const char *next = memmem(from, (size_t)(in.at + in.bytes - from), mark, length);
        const size_t end = next ? (size_t)(next - in.at) : in.bytes;
        ERR_TRY(emit(r, i, part_of(in, start, end)));
        start = end;
    }
    return QP_OK;
}

static qp_status metaspace(const run *r, int i, pretok_piece in) {
    const pretok_step *s = &r->p->steps[i];
    strbuf *text = &r->scratch->text[i];
    const span original = {in.at, in.bytes};
    const bool may_add = s->prepend == PRETOK_ALWAYS || (s->prepend == PRETOK_FIRST && in.is_first);
    strbuf_clear(text);
    if (may_add && in.at[0] != ' ' && !span_starts(original, span_of(s->mark))) strbuf_text(text, s->mark);
    replace_spaces(text, in, s->mark);
    if (text->failed) return err_no_memory(r->err, in.bytes, "pre-tokeniser");
    const pretok_piece out = {text->at, text->bytes, in.is_first};
    return s->splits ? split_marks(r, i, out, s->mark) : emit(r, i, out);
}

/* White space vanishes, punctuation stands alone. */
static qp_status bert(const run *r, int i, pretok_piece in) {
    size_t start = 0, length;
    for (size_t at = 0; at < in.bytes; at += length) {
        uint32_t c;
        length = (size_t)uni_next(in.at + at, &c);
        const bool is_space = uni_is(c, UNI_SPACE);
        if (!is_space && !uni_is(c, UNI_PUNCT)) continue;
        ERR_TRY(emit(r, i, part_of(in, start, at)));
        if (!is_space) ERR_TRY(emit(r, i, part_of(in, at, at + length)));
        start = at + length;
    }
    return emit(r, i, part_of(in, start, in.bytes));
}

/* Runs of word characters and runs of others; white space vanishes. */
static qp_status whitespace(const run *r, int i, pretok_piece in) {
    size_t start = 0, length;
    uint64_t last = UNI_SPACE;
    for (size_t at = 0; at < in.bytes; at += length) {
        uint32_t c;
        length = (size_t)uni_next(in.at + at, &c);
        const uint64_t bits = uni_bits(c), kind = bits & UNI_WORD ? UNI_WORD : bits & UNI_SPACE;
        if (kind == last) continue;
        if (last != UNI_SPACE) ERR_TRY(emit(r, i, part_of(in, start, at)));
        start = at;
        last = kind;
    }
    return last != UNI_SPACE ? emit(r, i, part_of(in, start, in.bytes)) : QP_OK;
}

/* A new word where the script changes; what stands before the first character with a script is lost, as in the
 * reference. */
static qp_status scripts(const run *r, int i, pretok_piece in) {
    int last = -1;
    size_t start = 0, length;
    for (size_t at = 0; at < in.bytes; at += length) {
        uint32_t c;
        length = (size_t)uni_next(in.at + at, &c);
        const int script = uni_script_of(c);
        if (!script || script == last) continue;
        if (last >= 0) ERR_TRY(emit(r, i, part_of(in, start, at)));
        start = at;
        last = script;
    }
    return last >= 0 ? emit(r, i, part_of(in, start, in.bytes)) : QP_OK;
}

static qp_status fixed(const run *r, int i, pretok_piece in) {
    size_t start = 0, n = 0;
    for (size_t at = 0; at < in.bytes;) {
        uint32_t c;
        at += (size_t)uni_next(in.at + at, &c);
        if (++n < r->p->steps[i].length && at < in.bytes) continue;
        ERR_TRY(emit(r, i, part_of(in, start, at)));
        start = at;
        n = 0;
    }
    return QP_OK;
}

static qp_status step_on(const run *r, int i, pretok_piece in) {
    const pretok_step *s = &r->p->steps[i];
    switch (s->kind) {
    case PRETOK_SPLIT:
        return s->scan && s->behavior == PRETOK_ISOLATED ? split_fast(r, i, in) : split(r, i, in);
    case PRETOK_BYTE_LEVEL:
        return byte_level(r, i, in);
    case PRETOK_METASPACE:
        return metaspace(r, i, in);
    case PRETOK_BERT:
        return bert(r, i, in);
    case PRETOK_WHITESPACE:
        return whitespace(r, i, in);
    case PRETOK_SCRIPTS:
        return scripts(r, i, in);
    case PRETOK_FIXED:
        return fixed(r, i, in);
    }
    return QP_OK;
}

qp_status pretok_run(const pretok *p, pretok_scratch *scratch, pretok_piece text, pretok_sink *sink, void *context,
                     qp_error *err) {
    const run r = {p, scratch, sink, context, err};
    return emit(&r, -1, text);
}

void pretok_scratch_free(pretok_scratch *s) {
    for (int i = 0; i < PRETOK_MAX_STEPS; i++) strbuf_free(&s->text[i]);
    regex_scratch_free(&s->regex);
}
