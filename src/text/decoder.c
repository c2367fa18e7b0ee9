/* decoder.c — running decoders over the pieces of a row of ids.
 *
 * Each step rewrites the row of pieces: most change piece by piece, some join neighbours. The row's texts live in one
 * arena until the call ends. */
#include "decoder.h"
#include "bytealpha.h"
#include "uni.h"
#include "base/utf8.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd";

void pieces_add(pieces *p, span text) {
    if (p->n == p->capacity) {
        const size_t capacity = p->capacity ? p->capacity * 2 : 64;
        span *at = p->failed ? NULL : mem_resize(p->at, capacity, sizeof *at);
        if (!at) {
            p->failed = true;
            return;
        }
        p->at = at;
        p->capacity = capacity;
    }
    p->at[p->n++] = text;
}

void pieces_free(pieces *p) {
    mem_free(p->at);
    arena_free(&p->texts);
    *p = (pieces){0};
}

/* Moves a buffer's text into the arena. */
static span keep(pieces *p, strbuf *b) {
    const char *at = b->failed ? NULL : arena_text(&p->texts, b->at ? b->at : "", b->bytes);
    const span text = {at ? at : "", at ? b->bytes : 0};
    if (!at) p->failed = true;
    strbuf_clear(b);
    return text;
}

/* How many bytes form the maximal beginning of a character that is no whole one, at least 1. */
static size_t broken_bytes(const char *s, size_t bytes) {
    for (size_t n = bytes < 3 ? bytes : 3; n > 1; n--)
        if (utf8_incomplete_tail(s, n) == n) return n;
    return 1;
}

void decoder_add_lossy(strbuf *out, const char *bytes, size_t count) {
    while (count) {
        const size_t good = utf8_valid_prefix(bytes, count);
        strbuf_add(out, bytes, good);
        bytes += good;
        count -= good;
        if (!count) return;
        const size_t bad = broken_bytes(bytes, count);
        strbuf_text(out, REPLACEMENT);
        bytes += bad;
        count -= bad;
    }
}

/* ---- steps that join pieces ---- */

static void byte_level(const decoder_step *s, pieces *p, strbuf *b) {
    strbuf text = {0};
    for (size_t i = 0; i < p->n; i++)
        if (!bytealpha_decode(b, p->at[i])) strbuf_add(b, p->at[i].at, p->at[i].bytes);
    decoder_add_lossy(&text, b->at ? b->at : "", b->bytes);
    if (b->failed) text.failed = true;
    strbuf_clear(b);
    p->n = 0;
    pieces_add(p, keep(p, &text));
    strbuf_free(&text);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "<0x0A>" to its byte, -1 if it is none. The reference's number reader also takes a plus sign. */
static int byte_of(span piece) {
    if (piece.bytes != 6 || memcmp(piece.at, "<0x", 3) != 0 || piece.at[5] != '>') return -1;
    const int high = piece.at[3] == '+' ? 0 : hex_digit(piece.at[3]), low = hex_digit(piece.at[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* A run of byte pieces becomes its text if it is UTF-8, else one U+FFFD for each byte. */
static void end_run(pieces *p, size_t *n, strbuf *run) {
    if (!run->bytes) return;
    const size_t count = run->bytes;
    if (utf8_valid_prefix(run->at, count) == count)
        p->at[(*n)++] = keep(p, run);
    else
        for (size_t i = 0; i < count; i++) p->at[(*n)++] = SPAN("\xef\xbf\xbd");
    strbuf_clear(run);
}

static void byte_fallback(const decoder_step *s, pieces *p, strbuf *run) {
    size_t n = 0; /* never passes i: a run of k pieces becomes at most k */
    for (size_t i = 0; i < p->n; i++) {
        const int byte = byte_of(p->at[i]);
        const span piece = p->at[i];
        if (byte >= 0) {
            strbuf_char(run, (char)byte);
            continue;
        }
        end_run(p, &n, run);
        p->at[n++] = piece;
    }
    end_run(p, &n, run);
    p->n = n;
}

static void fuse(const decoder_step *s, pieces *p, strbuf *b) {
    for (size_t i = 0; i < p->n; i++) strbuf_add(b, p->at[i].at, p->at[i].bytes);
    p->n = 0;
    pieces_add(p, keep(p, b));
}

/* ---- steps that change piece by piece ---- */

/* Appends `text` with every `from` replaced. */
static void add_replaced(strbuf *b, span text, span from, span to) {
    const char *at = text.at, *const end = text.at + text.bytes;
    for (const char *found; from.bytes && (found = memmem(at, (size_t)(end - at), from.at, from.bytes));
         at = found + from.bytes) {
        strbuf_add(b, at, (size_t)(found - at));
        strbuf_add(b, to.at, to.bytes);
    }
    strbuf_add(b, at, (size_t)(end - at));
}

static bool has(span text, span what) { return memmem(text.at, text.bytes, what.at, what.bytes) != NULL; }

static void replace_matches(const decoder_step *s, pieces *p, span text, strbuf *b) {
    regex_scratch scratch = {0};
    size_t done = 0, from = 0, start, end;
    bool found = true;
    while (from <= text.bytes && regex_next(s->regex, &scratch, text, from, &found, &start, &end, NULL) == QP_OK &&
           found) {
        from = end;
        if (start == end) {
            uint32_t c;
            from = end < text.bytes ? end + (size_t)uni_next(text.at + end, &c) : text.bytes + 1;
            if (done && end == done) continue;
        }
        strbuf_add(b, text.at + done, start - done);
        strbuf_add(b, s->to, s->to_bytes);
        done = end;
    }
    if (done < text.bytes) strbuf_add(b, text.at + done, text.bytes - done);
    regex_scratch_free(&scratch);
}

static void replace(const decoder_step *s, pieces *p, strbuf *b) {
    const span from = {s->from, s->from_bytes}, to = {s->to, s->to_bytes};
    for (size_t i = 0; i < p->n; i++) {
        if (s->regex)
            replace_matches(s, p, p->at[i], b);
        else if (has(p->at[i], from))
            add_replaced(b, p->at[i], from, to);
        else
            continue;
        p->at[i] = keep(p, b);
    }
}

/* The first piece loses its mark where the encoder had added one, later marks are spaces. */
static void metaspace(const decoder_step *s, pieces *p, strbuf *b) {
    const span mark = {s->from, s->from_bytes};
    for (size_t i = 0; i < p->n; i++) {
        if (!has(p->at[i], mark)) continue;
        add_replaced(b, p->at[i], mark, i == 0 && s->drops_first ? SPAN("") : SPAN(" "));
        p->at[i] = keep(p, b);
    }
}

static void strip(const decoder_step *s, pieces *p, strbuf *b) {
    const size_t n = s->from_bytes;
    for (size_t i = 0; i < p->n; i++) {
        span text = p->at[i];
        for (size_t k = 0; k < s->start && text.bytes >= n && !memcmp(text.at, s->from, n); k++)
            text.at += n, text.bytes -= n;
        for (size_t k = 0; k < s->stop && text.bytes >= n && !memcmp(text.at + text.bytes - n, s->from, n); k++)
            text.bytes -= n;
        p->at[i] = text;
    }
}

/* English habits of WordPiece texts, in the reference's order. */
static span clean_up(pieces *p, span text, strbuf *b) {
    static const char *const rules[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!has(text, span_of(rules[i][0]))) continue;
        add_replaced(b, text, span_of(rules[i][0]), span_of(rules[i][1]));
        text = keep(p, b);
    }
    return text;
}

static void wordpiece(const decoder_step *s, pieces *p, strbuf *b) {
    const span prefix = {s->from, s->from_bytes};
    for (size_t i = 0; i < p->n; i++) {
        if (i && span_starts(p->at[i], prefix)) {
            p->at[i].at += prefix.bytes;
            p->at[i].bytes -= prefix.bytes;
        } else if (i) {
            strbuf_char(b, ' ');
            strbuf_add(b, p->at[i].at, p->at[i].bytes);
            p->at[i] = keep(p, b);
        }
        if (s->cleans) p->at[i] = clean_up(p, p->at[i], b);
    }
}

static void ctc(const decoder_step *s, pieces *p, strbuf *b) {
    const span pad = {s->from, s->from_bytes}, delimiter = {s->to, s->to_bytes};
    size_t n = 0;
    span last = {0};
    for (size_t i = 0; i < p->n; i++) {
        if (i && span_equal(p->at[i], last)) continue;
        last = p->at[i];
        add_replaced(b, last, pad, SPAN(""));
        span text = keep(p, b);
        if (s->cleans) {
            add_replaced(b, clean_up(p, text, b), delimiter, SPAN(" "));
            text = keep(p, b);
        }
        if (text.bytes) p->at[n++] = text;
    }
    p->n = n;
}

/* The suffix of a word is a space, but not behind the last piece. */
static void bpe(const decoder_step *s, pieces *p, strbuf *b) {
    for (size_t i = 0; i < p->n; i++) {
        add_replaced(b, p->at[i], (span){s->from, s->from_bytes}, i + 1 == p->n ? SPAN("") : SPAN(" "));
        p->at[i] = keep(p, b);
    }
}

static void (*const kinds[])(const decoder_step *s, pieces *p, strbuf *b) = {
    [DECODER_BYTE_LEVEL] = byte_level,
    [DECODER_BYTE_FALLBACK] = byte_fallback,
    [DECODER_METASPACE] = metaspace,
    [DECODER_WORDPIECE] = wordpiece,
    [DECODER_REPLACE] = replace,
    [DECODER_STRIP] = strip,
    [DECODER_FUSE] = fuse,
    [DECODER_CTC] = ctc,
    [DECODER_BPE] = bpe,
};

qp_status decoder_run(const decoder *d, pieces *p, strbuf *out, qp_error *err) {
    strbuf b = {0};
    for (int i = 0; i < d->n && !p->failed; i++) kinds[d->steps[i].kind](&d->steps[i], p, &b);
    for (size_t i = 0; i < p->n && !p->failed; i++) {
        if (i && d->is_none) strbuf_char(out, ' ');
        strbuf_add(out, p->at[i].at, p->at[i].bytes);
    }
    const bool failed = p->failed || b.failed || out->failed;
    strbuf_free(&b);
    return failed ? err_no_memory(err, p->n * sizeof *p->at, "decoding") : QP_OK;
}

bool decoder_is_byte_level(const decoder *d) { return d->n == 1 && d->steps[0].kind == DECODER_BYTE_LEVEL; }
