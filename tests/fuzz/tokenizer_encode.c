/* tokenizer_encode.c — random BPE tokenizers on random texts against the definition of BPE, written plainly here:
 * characters, then again and again the leftmost pair of the lowest rank. The input's bytes make both: merges over a
 * small alphabet, the settings, then the text. */
#include "base/mem.h"
#include "text/tok.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_MERGES = 40, MAX_PIECE = 24, MAX_TEXT = 400, MAX_PIECES = 8 + 256 + MAX_MERGES };

static const char *const letters[] = {"a", "b", "c", "\xc3\xa9", "\xe4\xbd\xa0", "\xe2\x96\x81"};
enum { N_LETTERS = 6 }; /* the texts have two more characters that no piece knows */

typedef struct plain {
    char pieces[MAX_PIECES][MAX_PIECE + 1];
    int n_pieces;
    int left[MAX_MERGES], right[MAX_MERGES], made[MAX_MERGES], n_merges;
    bool has_unk, fuse_unk, byte_fallback;
    int unk, first_byte;
} plain;

static int find(const plain *p, const char *piece) {
    for (int i = 0; i < p->n_pieces; i++)
        if (!strcmp(p->pieces[i], piece)) return i;
    return -1;
}

static int add(plain *p, const char *piece) {
    const int known = find(p, piece);
    if (known >= 0) return known;
    snprintf(p->pieces[p->n_pieces], sizeof p->pieces[0], "%s", piece);
    return p->n_pieces++;
}

static void make(plain *p, const uint8_t **data, size_t *size) {
    const uint8_t settings = (*data)[0];
    size_t n = (*data)[1] % MAX_MERGES;
    *data += 2;
    *size -= 2;
    for (int i = 0; i < N_LETTERS; i++) add(p, letters[i]);
    p->has_unk = settings & 1;
    p->fuse_unk = settings & 2;
    p->byte_fallback = settings & 4;
    p->unk = p->has_unk ? add(p, "<unk>") : -1;
    for (int i = 0; p->byte_fallback && i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        const int id = add(p, name);
        if (i == 0) p->first_byte = id;
    }
    for (; n && *size >= 2; n--, *data += 2, *size -= 2) {
        char piece[2 * MAX_PIECE + 1];
        const int left = (*data)[0] % p->n_pieces, right = (*data)[1] % p->n_pieces;
        snprintf(piece, sizeof piece, "%s%s", p->pieces[left], p->pieces[right]);
        if (strlen(piece) > MAX_PIECE) continue;
        bool is_known = false; /* a pair listed twice has the last rank: not the matter here */
        for (int i = 0; i < p->n_merges; i++) is_known |= p->left[i] == left && p->right[i] == right;
        if (is_known) continue;
        p->left[p->n_merges] = left;
        p->right[p->n_merges] = right;
        p->made[p->n_merges++] = add(p, piece);
    }
}

static tok *open_real(const plain *p) {
    strbuf json = {0};
    strbuf_text(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0; i < p->n_pieces; i++) strbuf_format(&json, "%s\"%s\":%d", i ? "," : "", p->pieces[i], i);
    strbuf_format(&json, "},\"unk_token\":%s,\"fuse_unk\":%s,\"byte_fallback\":%s,\"merges\":[",
                  p->has_unk ? "\"<unk>\"" : "null", p->fuse_unk ? "true" : "false",
                  p->byte_fallback ? "true" : "false");
    for (int i = 0; i < p->n_merges; i++)
        strbuf_format(&json, "%s[\"%s\",\"%s\"]", i ? "," : "", p->pieces[p->left[i]], p->pieces[p->right[i]]);
    strbuf_text(&json, "]}}");
    tok *t = NULL;
    qp_error err;
    if (tok_new_json(&t, json.at, json.bytes, NULL, 0, &err)) {
        fprintf(stderr, "%s\n%s\n", err.text, json.at);
        abort();
    }
    strbuf_free(&json);
    return t;
}

/* Characters to ids; the unknown token waits for the next known character, as in the reference. */
static size_t to_symbols(const plain *p, const uint8_t *data, size_t size, strbuf *text, int32_t *ids) {
    static const char *const strange[] = {"x", "\xf0\x9f\x98\x80"};
    size_t n = 0;
    bool waits = false;
    for (size_t i = 0; i < size; i++) {
        const int which = data[i] % 16;
        const char *letter = which < 14 ? letters[which % N_LETTERS] : strange[which - 14];
        const int id = which < 14 ? which % N_LETTERS : -1; /* the letters are the first pieces */
        strbuf_text(text, letter);
        if (id >= 0) {
            if (waits) ids[n++] = p->unk;
            waits = false;
            ids[n++] = id;
        } else if (p->byte_fallback) {
            for (const char *c = letter; *c; c++) ids[n++] = p->first_byte + (uint8_t)*c;
        } else if (p->has_unk) {
            if (waits && !p->fuse_unk) ids[n++] = p->unk;
            waits = true;
        }
    }
    if (waits) ids[n++] = p->unk;
    return n;
}

static size_t merge(const plain *p, int32_t *ids, size_t n) {
    for (;;) {
        int best = p->n_merges;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (int m = 0; m < best; m++)
                if (p->left[m] == ids[i] && p->right[m] == ids[i + 1]) best = m, at = i;
        if (best == p->n_merges) return n;
        ids[at] = p->made[best];
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static plain p; /* large; begun anew for each input */
    static int32_t want[MAX_TEXT * 4];
    if (size < 2) return 0;
    p = (plain){0};
    make(&p, &data, &size);
    strbuf text = {0}, back = {0};
    int32_t *ids;
    size_t n;
    qp_error err;
    if (size > MAX_TEXT) size = MAX_TEXT;
    const size_t n_want = merge(&p, want, to_symbols(&p, data, size, &text, want));
    tok *t = open_real(&p);
    if (tok_encode(t, (span){text.at ? text.at : "", text.bytes}, 0, &ids, &n, &err)) abort();
    if (n != n_want || memcmp(ids, want, n * sizeof *ids) != 0) {
        fprintf(stderr, "\"%s\" is encoded wrongly\n", text.at ? text.at : "");
        abort();
    }
    if (tok_decode(t, ids, n, false, &back, &err)) abort();
    mem_free(ids);
    strbuf_free(&text);
    strbuf_free(&back);
    tok_free(t);
    return 0;
}
