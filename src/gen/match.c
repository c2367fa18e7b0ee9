/* match.c — finding stop texts and banned texts in what a model has written so far.
 *
 * Called by hold.c after each token. Which match wins does not depend on how tokens cut the text: the one that is
 * complete first, of those that end together the longest. Folding keeps lengths, so that places in the folded text are
 * places in the text; the few letters whose small form is longer or shorter stay as they are. */
#include "match.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/uni.h"

static qp_status copy_texts(match_set *m, const char *const *texts, size_t n, const char *what, qp_error *err) {
    for (; m->n < n; m->n++) {
        if (!texts[m->n] || !*texts[m->n])
            return err_set(err, QP_BAD_ARGUMENT, m->n, "%s %zu is empty", what, m->n + 1);
        m->bytes[m->n] = strlen(texts[m->n]);
        m->texts[m->n] = mem_copy_text(texts[m->n], m->bytes[m->n]);
        if (!m->texts[m->n]) return err_no_memory(err, m->bytes[m->n], what);
        if (m->any_case) match_fold(m->texts[m->n], m->bytes[m->n]);
    }
    return QP_OK;
}

qp_status match_open(match_set *out, const char *const *texts, size_t n, bool any_case, const char *what,
                     qp_error *err) {
    *out = (match_set){.any_case = any_case};
    if (!n) return QP_OK;
    out->texts = mem_zarray(n, sizeof *out->texts);
    out->bytes = mem_zarray(n, sizeof *out->bytes);
    const qp_status status =
        out->texts && out->bytes ? copy_texts(out, texts, n, what, err) : err_no_memory(err, n, what);
    if (status != QP_OK) match_close(out);
    return status;
}

void match_close(match_set *m) {
    for (size_t i = 0; m->texts && i < m->n; i++) mem_free(m->texts[i]);
    mem_free(m->texts);
    mem_free(m->bytes);
    *m = (match_set){0};
}

void match_fold(char *text, size_t bytes) {
    uint32_t c, small[3];
    char out[4];
    for (size_t at = 0; at < bytes;) {
        const int n = utf8_decode(text + at, bytes - at, &c);
        if (n && uni_lower_of(c, small) == 1 && utf8_write(small[0], out) == n) memcpy(text + at, out, (size_t)n);
        at += n ? (size_t)n : 1;
    }
}

/* The longest text that ends at text[0..end), -1 if none. */
static int ending_at(const match_set *m, span text, size_t end) {
    int best = -1;
    for (size_t i = 0; i < m->n; i++)
        if (m->bytes[i] <= end && !memcmp(text.at + end - m->bytes[i], m->texts[i], m->bytes[i]) &&
            (best < 0 || m->bytes[i] > m->bytes[best]))
            best = (int)i;
    return best;
}

bool match_find(const match_set *m, span text, size_t done, match *out) {
    for (size_t end = done + 1; m->n && end <= text.bytes; end++) {
        const int i = ending_at(m, text, end);
        if (i < 0) continue;
        *out = (match){i, end - m->bytes[i], m->bytes[i]};
        return true;
    }
    return false;
}

size_t match_tail(const match_set *m, span text) {
    size_t longest = 0;
    for (size_t i = 0; i < m->n; i++) {
        size_t tail = text.bytes < m->bytes[i] - 1 ? text.bytes : m->bytes[i] - 1;
        while (tail > longest && memcmp(text.at + text.bytes - tail, m->texts[i], tail)) tail--;
        longest = tail > longest ? tail : longest;
    }
    return longest;
}
