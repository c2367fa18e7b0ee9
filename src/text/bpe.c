/* bpe.c — byte pair encoding of one word: characters to symbols, then merges by rank, leftmost first.
 *
 * Words are short, so the merges of a word are found by looking over all its pairs again and again; bpe_long.c takes
 * over where that would be slow. Nothing here knows what a token means. */
#include "bpe.h"
#include "bytealpha.h"
#include "uni.h"
#include <stdio.h>

/* MAX_PROBES: merges that are made to collide are refused rather than waited for. */
enum { SHORT_WORD = 24, NEIGHBOUR_BITS = 20, MAX_PROBES = 4096 };

/* ---- making ---- */

static uint32_t merge_slot(const bpe *b, uint64_t pair) { return (uint32_t)(pair * 0x9E3779B97F4A7C15ull >> b->shift); }

static bool make_slots(bpe *b, uint32_t n) {
    bpe_merge *merges = mem_big(n * sizeof *merges);
    if (!merges) return false;
    b->merges = merges;
    b->n_slots = n;
    b->shift = 64;
    for (uint32_t i = n; i > 1; i /= 2) b->shift--;
    memset(merges, 0xFF, n * sizeof *merges); /* BPE_NO_PAIR, BPE_NO_RANK */
    return true;
}

static qp_status copy_affix(char **out, span text, qp_error *err) {
    if (!text.at || !text.bytes) return QP_OK;
    *out = mem_copy_text(text.at, text.bytes);
    return *out ? QP_OK : err_no_memory(err, text.bytes, "BPE affix");
}

qp_status bpe_start(bpe *b, const vocab *words, const bpe_options *options, size_t n_merges, qp_error *err) {
    *b = (bpe){.words = words,
               .unk = -1,
               .last_made = -1,
               .shift = 64,
               .fuse_unk = options->fuse_unk,
               .byte_fallback = options->byte_fallback,
               .ignore_merges = options->ignore_merges,
               .has_unk = options->unk.at != NULL};
    if (b->has_unk) b->unk = vocab_id(words, options->unk);
    ERR_TRY(copy_affix(&b->prefix, options->prefix, err));
    b->prefix_bytes = b->prefix ? options->prefix.bytes : 0;
    ERR_TRY(copy_affix(&b->suffix, options->suffix, err));
    uint32_t n = 2;
    while (n < n_merges + n_merges / 2 + 1 && n < 1u << 29) n *= 2;
    return make_slots(b, n) ? QP_OK : err_no_memory(err, n * sizeof *b->merges, "BPE merges");
}

/* False if that took too many steps. */
static bool put_merge(bpe *b, bpe_merge merge) {
    uint32_t slot = merge_slot(b, merge.pair), probes = 0;
    for (; b->merges[slot].pair != BPE_NO_PAIR && b->merges[slot].pair != merge.pair; probes++)
        slot = (slot + 1) & (b->n_slots - 1);
    if (b->merges[slot].pair == BPE_NO_PAIR) b->n_merges++;
    b->merges[slot] = merge;
    return probes <= MAX_PROBES;
}

static bool grow_slots(bpe *b) {
    bpe_merge *const old = b->merges;
    const uint32_t n = b->n_slots;
    if (!make_slots(b, n * 2)) return false;
    b->n_merges = 0;
    for (uint32_t i = 0; i < n; i++)
        if (old[i].pair != BPE_NO_PAIR) put_merge(b, old[i]);
    mem_big_free(old, n * sizeof *old);
    return true;
}

static uint64_t pair_of(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

qp_status bpe_add_pair(bpe *b, int32_t left, int32_t right, int32_t id, uint32_t rank, qp_error *err) {
    if (b->n_merges >= 1u << 28) return err_set(err, QP_TOO_LARGE, 0, "BPE: more than %u merges", 1u << 28);
    if (b->n_merges + b->n_merges / 2 >= b->n_slots && !grow_slots(b))
        return err_no_memory(err, b->n_slots * sizeof *b->merges, "BPE merges");
    if (put_merge(b, (bpe_merge){pair_of(left, right), rank, id})) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "BPE merge %u: over %d merges share one hash", rank, MAX_PROBES);
}

static qp_status unknown_merge(qp_error *err, span piece, uint32_t rank) {
    return err_set(err, QP_BAD_FORMAT, 0, "BPE merge %u: \"%.*s\" is not in the vocabulary", rank,
                   (int)(piece.bytes < 80 ? piece.bytes : 80), piece.at);
}

static bool is_pair(span piece, bpe_pair pair) {
    return piece.bytes == pair.left.bytes + pair.right.bytes && span_starts(piece, pair.left) &&
           span_equal((span){piece.at + pair.left.bytes, pair.right.bytes}, pair.right);
}

/* The id of the piece that a merge makes: a guess, which needs no search, else looked up. */
static qp_status find_made(bpe *b, bpe_pair pair, uint32_t rank, strbuf *text, int32_t *id, qp_error *err) {
    pair.right.at += b->prefix_bytes;
    pair.right.bytes -= b->prefix_bytes;
    for (*id = b->last_made; *id <= b->last_made + 1; ++*id) {
        const span piece = vocab_piece(b->words, *id);
        if (piece.at && is_pair(piece, pair)) return QP_OK;
    }
    strbuf_clear(text);
    strbuf_add(text, pair.left.at, pair.left.bytes);
    strbuf_add(text, pair.right.at, pair.right.bytes);
    ERR_TRY(strbuf_status(text, err, "BPE merge"));
    *id = vocab_id(b->words, (span){text->at, text->bytes});
    return *id >= 0 ? QP_OK : unknown_merge(err, (span){text->at, text->bytes}, rank);
}

static qp_status add_merge(bpe *b, bpe_pair pair, const int32_t ids[2], uint32_t rank, strbuf *text, qp_error *err) {
    if (ids[0] < 0) return unknown_merge(err, pair.left, rank);
    if (ids[1] < 0) return unknown_merge(err, pair.right, rank);
    if (pair.right.bytes < b->prefix_bytes)
        return err_set(err, QP_BAD_FORMAT, 0, "BPE merge %u: the right piece is shorter than the subword prefix", rank);
    int32_t made;
    ERR_TRY(find_made(b, pair, rank, text, &made, err));
    b->last_made = made;
    return bpe_add_pair(b, ids[0], ids[1], made, rank, err);
}

qp_status bpe_add_merges(bpe *b, const bpe_pair *pairs, size_t n, uint32_t first_rank, qp_error *err) {
    span parts[2 * BPE_BATCH];
    int32_t ids[2 * BPE_BATCH];
    if (n > BPE_BATCH) return err_set(err, QP_INTERNAL, 0, "BPE: a batch of %zu merges", n);
    for (size_t i = 0; i < n; i++) parts[2 * i] = pairs[i].left, parts[2 * i + 1] = pairs[i].right;
    vocab_ids(b->words, parts, ids, 2 * n);
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(&b->merges[merge_slot(b, pair_of(ids[2 * i], ids[2 * i + 1]))], 1);
    strbuf text = {0};
    qp_status status = QP_OK;
    for (size_t i = 0; i < n && status == QP_OK; i++)
        status = add_merge(b, pairs[i], &ids[2 * i], first_rank + (uint32_t)i, &text, err);
    strbuf_free(&text);
    return status;
}

static uint32_t neighbour_bit(uint32_t first, uint32_t second) {
    return (uint32_t)(((uint64_t)first << 32 | second) * 0x9E3779B97F4A7C15ull >> (64 - NEIGHBOUR_BITS));
}

static void note_neighbours(bpe *b, span piece) {
    uint32_t last = 0, c;
    for (size_t i = 0; i < piece.bytes; last = c) {
        const int length = uni_next(piece.at + i, &c);
        const uint32_t bit = neighbour_bit(last, c);
        if (i) b->neighbours[bit >> 3] |= (uint8_t)(1u << (bit & 7));
        i += (size_t)length;
    }
}

/* By id: whether it stands for a byte; NULL where memory is short. */
static bool *list_byte_pieces(const bpe *b) {
    bool *is_byte = mem_zarray((size_t)b->words->n_ids + 1, sizeof *is_byte);
    for (int i = 0; i < 256 && is_byte; i++)
        if (b->byte_ids[i] >= 0) is_byte[b->byte_ids[i]] = true;
    return is_byte;
}

/* Cutting is only right while every symbol of a row is a character of the text (see bpe_cut). */
static qp_status learn_neighbours(bpe *b, qp_error *err) {
    bool *is_byte = list_byte_pieces(b);
    b->neighbours = mem_zarray(1u << (NEIGHBOUR_BITS - 3), 1);
    b->may_split = !b->prefix && !b->suffix;
    for (uint32_t i = 0; i < b->n_slots && b->may_split && is_byte && b->neighbours; i++) {
        const bpe_merge *m = &b->merges[i];
        if (m->pair == BPE_NO_PAIR) continue;
        if (is_byte[m->pair >> 32] || is_byte[(uint32_t)m->pair]) b->may_split = false;
        note_neighbours(b, vocab_piece(b->words, m->id));
    }
    const bool ok = is_byte && b->neighbours;
    mem_free(is_byte);
    return ok ? QP_OK : err_no_memory(err, 1u << (NEIGHBOUR_BITS - 3), "BPE neighbours");
}

/* UTF-8 of a character below U+0800; returns the length. */
static size_t put_letter(uint32_t c, char out[2]) {
    out[0] = (char)(c < 0x80 ? c : 0xC0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3F));
    return c < 0x80 ? 1 : 2;
}

qp_status bpe_finish(bpe *b, bool byte_level, qp_error *err) {
    b->byte_level = byte_level;
    b->knows_bytes = b->byte_fallback;
    for (int i = 0; i < 256; i++) {
        char name[8], letter[2];
        const int bytes = snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        b->byte_ids[i] = b->byte_fallback ? vocab_id(b->words, (span){name, (size_t)bytes}) : -1;
        if (b->byte_ids[i] < 0) b->knows_bytes = false;
        const size_t length = put_letter(byte_level ? bytealpha_char((uint8_t)i) : (uint32_t)i, letter);
        b->letter_ids[i] = vocab_id(b->words, (span){letter, length});
    }
    return byte_level ? QP_OK : learn_neighbours(b, err);
}

void bpe_free(bpe *b) {
    mem_big_free(b->merges, b->n_slots * sizeof *b->merges);
    mem_free(b->neighbours);
    mem_free(b->prefix);
    mem_free(b->suffix);
    *b = (bpe){0};
}

void bpe_scratch_free(bpe_scratch *s) {
    idvec_free(&s->symbols);
    mem_free(s->block);
    strbuf_free(&s->text);
    *s = (bpe_scratch){0};
}

/* ---- characters to symbols ---- */

/* An unknown token that waits for the next known one, as the reference keeps it (fused with its like or not). */
typedef struct row {
    const bpe *b;
    idvec *symbols;
    bool unk_waits;
    bool unk_is_missing;
} row;

static bool add_fallback(row *r, span text) {
    if (!r->b->byte_fallback) return false;
    for (size_t i = 0; i < text.bytes; i++)
        if (r->b->byte_ids[(uint8_t)text.at[i]] < 0) return false;
    for (size_t i = 0; i < text.bytes; i++) idvec_add(r->symbols, r->b->byte_ids[(uint8_t)text.at[i]]);
    return true;
}

static void add_unknown(row *r, span text) {
    if (add_fallback(r, text) || !r->b->has_unk) return;
    if (r->b->unk < 0) r->unk_is_missing = true;
    if (r->unk_waits && !r->b->fuse_unk) idvec_add(r->symbols, r->b->unk);
    r->unk_waits = true;
}

static void add_known(row *r, int32_t id) {
    if (r->unk_waits) idvec_add(r->symbols, r->b->unk);
    r->unk_waits = false;
    idvec_add(r->symbols, id);
}

static void add_text(row *r, span text, int32_t id) {
    if (id >= 0)
        add_known(r, id);
    else
        add_unknown(r, text);
}

static void add_bytes(row *r, span word) {
    for (size_t i = 0; i < word.bytes; i++) {
        const uint8_t byte = (uint8_t)word.at[i];
        const int32_t id = r->b->letter_ids[byte];
        if (id >= 0) {
            add_known(r, id);
            continue;
        }
        char text[2];
        const size_t length = put_letter(bytealpha_char(byte), text);
        add_unknown(r, (span){text, length});
    }
}

static void add_characters(row *r, span word) {
    uint32_t last = UINT32_MAX; /* the character that was looked up last: long words repeat some */
    int32_t last_id = -1;
    for (size_t i = 0; i < word.bytes;) {
        uint32_t c;
        const span text = {word.at + i, (size_t)uni_next(word.at + i, &c)};
        if (c >= 0x80 && c != last) last = c, last_id = vocab_id(r->b->words, text);
        add_text(r, text, c < 0x80 ? r->b->letter_ids[c] : last_id);
        i += text.bytes;
    }
}

/* With a prefix for all characters but the first and a suffix for the last. */
static void add_affixed(row *r, strbuf *buffer, span word) {
    for (size_t i = 0; i < word.bytes;) {
        uint32_t c;
        const size_t length = (size_t)uni_next(word.at + i, &c);
        strbuf_clear(buffer);
        if (i && r->b->prefix) strbuf_text(buffer, r->b->prefix);
        strbuf_add(buffer, word.at + i, length);
        i += length;
        if (i == word.bytes && r->b->suffix) strbuf_text(buffer, r->b->suffix);
        if (buffer->failed) return;
        const span text = {buffer->at, buffer->bytes};
        add_text(r, text, vocab_id(r->b->words, text));
    }
}

static void add_symbols(row *r, bpe_scratch *s, span word) {
    const bpe *b = r->b;
    if (b->prefix || b->suffix) {
        strbuf letters = {0};
        if (b->byte_level) bytealpha_encode(&letters, word);
        if (!letters.failed) add_affixed(r, &s->text, b->byte_level ? (span){letters.at, letters.bytes} : word);
        if (letters.failed || s->text.failed) r->symbols->failed = true;
        strbuf_free(&letters);
    } else if (b->byte_level)
        add_bytes(r, word);
    else
        add_characters(r, word);
    if (r->unk_waits) idvec_add(r->symbols, b->unk);
}

/* ---- merging ---- */

const bpe_merge *bpe_find(const bpe *b, int32_t left, int32_t right) {
    const uint64_t pair = pair_of(left, right);
    for (uint32_t slot = merge_slot(b, pair);; slot = (slot + 1) & (b->n_slots - 1)) {
        if (b->merges[slot].pair == pair) return &b->merges[slot];
        if (b->merges[slot].pair == BPE_NO_PAIR) return NULL;
    }
}

static uint32_t rank_of(const bpe *b, int32_t left, int32_t right, int32_t *id) {
    const bpe_merge *m = bpe_find(b, left, right);
    if (!m) return BPE_NO_RANK;
    *id = m->id;
    return m->rank;
}

void bpe_merge_plain(const bpe *b, int32_t *ids, size_t *n) {
    for (;;) {
        uint32_t best = BPE_NO_RANK;
        size_t at = 0;
        int32_t id = -1, candidate = -1;
        for (size_t i = 0; i + 1 < *n; i++) {
            const uint32_t rank = rank_of(b, ids[i], ids[i + 1], &candidate);
            if (rank < best) best = rank, at = i, id = candidate;
        }
        if (best == BPE_NO_RANK) return;
        ids[at] = id;
        memmove(ids + at + 1, ids + at + 2, (*n - at - 2) * sizeof *ids);
        --*n;
    }
}

/* The same with the pairs' ranks kept from one merge to the next. */
static void merge_short(const bpe *b, int32_t *ids, size_t *count) {
    uint32_t rank[SHORT_WORD];
    int32_t merged[SHORT_WORD] = {0};
    size_t n = *count;
    for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(b, ids[i], ids[i + 1], &merged[i]);
    while (n > 1) {
        size_t at = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[at]) at = i;
        if (rank[at] == BPE_NO_RANK) break;
        ids[at] = merged[at];
        for (size_t i = at + 1; i + 1 < n; i++) ids[i] = ids[i + 1], rank[i] = rank[i + 1], merged[i] = merged[i + 1];
        n--;
        if (at + 1 < n) rank[at] = rank_of(b, ids[at], ids[at + 1], &merged[at]);
        if (at > 0) rank[at - 1] = rank_of(b, ids[at - 1], ids[at], &merged[at - 1]);
    }
    *count = n;
}

/* The id of a word that is a piece as a whole, -1 if it is none. */
static int32_t whole_word(const bpe *b, strbuf *letters, span word) {
    if (word.bytes > b->words->longest) return -1;
    if (!b->byte_level) return vocab_id(b->words, word);
    strbuf_clear(letters);
    bytealpha_encode(letters, word);
    return letters->failed ? -1 : vocab_id(b->words, (span){letters->at, letters->bytes});
}

qp_status bpe_encode(const bpe *b, bpe_scratch *s, span word, idvec *out, qp_error *err) {
    const int32_t whole = b->ignore_merges && word.bytes ? whole_word(b, &s->text, word) : -1;
    if (s->text.failed) return err_no_memory(err, word.bytes * 2, "BPE word");
    if (whole >= 0) {
        idvec_add(out, whole);
        return QP_OK;
    }
    row r = {.b = b, .symbols = &s->symbols};
    s->symbols.n = 0;
    add_symbols(&r, s, word);
    if (r.unk_is_missing)
        return err_set(err, QP_BAD_FORMAT, 0, "BPE: the unk_token is not in the vocabulary, but \"%.*s\" needs it",
                       (int)(word.bytes < 60 ? word.bytes : 60), word.at);
    if (s->symbols.failed) return err_no_memory(err, word.bytes, "BPE symbols");
    size_t n = s->symbols.n;
    if (n > SHORT_WORD) {
        if (!bpe_merge_long(b, s, s->symbols.at, &n)) return err_no_memory(err, n * 32, "BPE merging");
    } else if (n > 1)
        merge_short(b, s->symbols.at, &n);
    idvec_add_all(out, s->symbols.at, n);
    return QP_OK;
}

/* ---- cutting ---- */

static bool is_known(const bpe *b, span character) { return vocab_id(b->words, character) >= 0; }

/* A merge joins two symbols whose pieces lie side by side, so its result contains the last character of one beside the
 * first of the other. Where no piece has these two side by side, no merge ever crosses. Unknown characters are not
 * symbols of their own (dropped or fused), unless byte fallback knows all bytes. */
size_t bpe_cut(const bpe *b, span text) {
    if (!b->may_split) return text.bytes;
    uint32_t last, c;
    size_t last_length = (size_t)uni_next(text.at, &last);
    for (size_t i = last_length; i < text.bytes;) {
        const size_t length = (size_t)uni_next(text.at + i, &c);
        const uint32_t bit = neighbour_bit(last, c);
        if (!(b->neighbours[bit >> 3] >> (bit & 7) & 1) &&
            (b->knows_bytes ||
             (is_known(b, (span){text.at + i - last_length, last_length}) && is_known(b, (span){text.at + i, length}))))
            return i;
        i += length;
        last = c;
        last_length = length;
    }
    return text.bytes;
}
