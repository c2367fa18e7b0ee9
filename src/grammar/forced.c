/* forced.c — forced text as the tokens in which the tokenizer would write it.
 *
 * Where one byte after the other is certain, any cut into tokens keeps the constraint, but only the tokenizer's own is
 * what the model has learnt to read. So the newest text and the forced one are tokenised together; what comes out
 * counts only if a token begins where the forced text does, and only as far as no token could reach from it over its
 * end, into text that is not known yet. The result hangs on the text alone, not on what is cached. */
#include "forced.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "grammar/trie.h"

enum { CONTEXT = 16, MOST_BYTES = 96, LONGEST = 24 };

/* Where below node `at` of the trie (SIZE_MAX: at its top) the byte leads; SIZE_MAX: nowhere. */
static size_t child(const trie_slice *s, size_t at, uint8_t byte) {
    size_t next = at == SIZE_MAX ? 0 : at + 1;
    const size_t end = at == SIZE_MAX ? s->n_nodes : at + s->nodes[at].size;
    for (; next < end; next += s->nodes[next].size)
        if (s->nodes[next].byte == byte) return next;
    return SIZE_MAX;
}

/* Is there a longer token that begins so? */
static bool is_beginning(const trie *t, span text) {
    for (int i = 0; i < TRIE_SLICES; i++) {
        const trie_slice *s = trie_slice_at(t, i);
        size_t at = SIZE_MAX, n = 0;
        for (; n < text.bytes; n++) {
            at = child(s, at, (uint8_t)text.at[n]);
            if (at == SIZE_MAX) break;
        }
        if (n == text.bytes && at != SIZE_MAX && s->nodes[at].size > 1) return true;
    }
    return false;
}

/* The first place from which a token could reach over the end. */
static size_t certain_bytes(const trie *t, span text) {
    size_t at = text.bytes > LONGEST ? text.bytes - LONGEST : 0;
    while (at < text.bytes && !is_beginning(t, (span){text.at + at, text.bytes - at})) at++;
    return at;
}

/* Newest bytes of the text that are whole characters. */
static span context_of(const matcher *m) {
    span tail = matcher_tail(m);
    const size_t skipped = tail.bytes > CONTEXT ? tail.bytes - CONTEXT : 0;
    tail = (span){tail.at + skipped, tail.bytes - skipped};
    while (tail.bytes && ((uint8_t)*tail.at & 0xC0) == 0x80) tail.at++, tail.bytes--;
    return utf8_valid_prefix(tail.at, tail.bytes) == tail.bytes ? tail : (span){"", 0};
}

/* The last ids whose bytes are those of the forced text; their number, 0: no token begins there. */
static size_t count_tail(const tok *t, const int32_t *ids, size_t n, size_t bytes) {
    size_t count = 0, sum = 0;
    while (count < n && sum < bytes) sum += tok_bytes(t, ids[n - ++count]).bytes;
    return sum == bytes ? count : 0;
}

static size_t cut(const tok *t, const int32_t *ids, size_t n, size_t bytes, int32_t *out, size_t most) {
    size_t count = 0, sum = 0;
    while (count < n && count < most) {
        sum += tok_bytes(t, ids[count]).bytes;
        if (sum > bytes || tok_is_special(t, ids[count])) break;
        out[count] = ids[count];
        count++;
    }
    return count;
}

static size_t tokenize(const matcher *m, const tok *t, const trie *vocabulary, span text, int32_t *out, size_t most) {
    const span before = context_of(m);
    strbuf all = {0};
    int32_t *ids = NULL;
    size_t n = 0, count = 0;
    strbuf_add(&all, before.at, before.bytes);
    strbuf_add(&all, text.at, text.bytes);
    const unsigned flags = QP_TOKENIZE_NO_SPECIAL | QP_TOKENIZE_PLAIN_SPECIAL;
    if (!all.failed && tok_encode(t, (span){all.at, all.bytes}, flags, &ids, &n, NULL) == QP_OK) {
        const size_t tail = count_tail(t, ids, n, text.bytes);
        count = cut(t, ids + n - tail, tail, certain_bytes(vocabulary, text), out, most);
    }
    mem_free(ids);
    strbuf_free(&all);
    return count;
}

size_t forced_tokens(matcher *m, const tok *t, const trie *vocabulary, int32_t *out, size_t most) {
    strbuf text = {0};
    size_t n = 0, n_good = 0;
    if (matcher_forced(m, &text, MOST_BYTES, NULL) == QP_OK && text.bytes > 1 && !text.failed) {
        const size_t whole = utf8_valid_prefix(text.at, text.bytes);
        n = tokenize(m, t, vocabulary, (span){text.at, whole}, out, most);
        if (n && matcher_test(m, out, n, &n_good, NULL) != QP_OK) n_good = 0;
    }
    strbuf_free(&text);
    return n_good;
}
