/* stop.c — stop texts over a stream.
 *
 * Called by emit.c with each piece of text. The match that is complete first wins, of those that end together the
 * longest; so the result does not depend on how tokens cut the text. Held back is only the longest end of the text
 * with which some stop text begins. */
#include "stop.h"
#include "base/mem.h"

static qp_status copy_texts(stop_scan *s, const char *const *texts, size_t n, qp_error *err) {
    for (; s->n < n; s->n++) {
        s->bytes[s->n] = strlen(texts[s->n]);
        if (!s->bytes[s->n]) return err_set(err, QP_BAD_ARGUMENT, 0, "stop text %zu is empty", s->n + 1);
        s->texts[s->n] = mem_copy_text(texts[s->n], s->bytes[s->n]);
        if (!s->texts[s->n]) return err_no_memory(err, s->bytes[s->n], "a stop text");
    }
    return QP_OK;
}

qp_status stop_open(stop_scan *out, const char *const *texts, size_t n, qp_error *err) {
    *out = (stop_scan){0};
    if (!n) return QP_OK;
    out->texts = mem_zarray(n, sizeof *out->texts);
    out->bytes = mem_zarray(n, sizeof *out->bytes);
    const qp_status status =
        out->texts && out->bytes ? copy_texts(out, texts, n, err) : err_no_memory(err, n, "the stop texts");
    if (status != QP_OK) stop_close(out);
    return status;
}

void stop_close(stop_scan *s) {
    for (size_t i = 0; i < s->n; i++) mem_free(s->texts[i]);
    mem_free(s->texts);
    mem_free(s->bytes);
    strbuf_free(&s->held);
    *s = (stop_scan){0};
}

/* The longest stop text that ends at held[0..end), -1 if none. */
static int match_ending_at(const stop_scan *s, size_t end) {
    int best = -1;
    for (size_t i = 0; i < s->n; i++)
        if (s->bytes[i] <= end && !memcmp(s->held.at + end - s->bytes[i], s->texts[i], s->bytes[i]) &&
            (best < 0 || s->bytes[i] > s->bytes[best]))
            best = (int)i;
    return best;
}

/* Length of the longest end of held that is a proper beginning of some stop text. */
static size_t promising_tail(const stop_scan *s) {
    size_t longest = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t tail = s->held.bytes < s->bytes[i] - 1 ? s->held.bytes : s->bytes[i] - 1;
        while (tail > longest && memcmp(s->held.at + s->held.bytes - tail, s->texts[i], tail)) tail--;
        longest = tail > longest ? tail : longest;
    }
    return longest;
}

/* Shows the first `count` bytes of held and forgets them. */
static void show(stop_scan *s, size_t count, strbuf *out) {
    if (!count) return;
    strbuf_add(out, s->held.at, count);
    s->held.bytes -= count;
    memmove(s->held.at, s->held.at + count, s->held.bytes + 1);
}

qp_status stop_feed(stop_scan *s, span text, strbuf *out, int *matched, qp_error *err) {
    *matched = -1;
    if (!s->n) {
        strbuf_add(out, text.at, text.bytes);
        return strbuf_status(out, err, "generated text");
    }
    strbuf_add(&s->held, text.at, text.bytes);
    ERR_TRY(strbuf_status(&s->held, err, "generated text"));
    for (size_t end = s->scanned + 1; end <= s->held.bytes; end++) {
        *matched = match_ending_at(s, end);
        if (*matched < 0) continue;
        show(s, end - s->bytes[*matched], out);
        strbuf_clear(&s->held);
        s->scanned = 0;
        return strbuf_status(out, err, "generated text");
    }
    show(s, s->held.bytes - promising_tail(s), out);
    s->scanned = s->held.bytes;
    return strbuf_status(out, err, "generated text");
}

void stop_flush(stop_scan *s, strbuf *out) {
    show(s, s->held.bytes, out);
    s->scanned = 0;
}
