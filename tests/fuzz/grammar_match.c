/* grammar_match.c — fuzz target: a grammar made of the first bytes, texts made of the rest, and a slow recogniser that
 * must agree on every one of them, through masks as through accept. */
#include "grammar/grammar.h"
#include "plain_grammar.h"
#include <stdlib.h>

static span byte_token(const void *user, int32_t id, trie_flag *flag) {
    static const char letters[] = "ab";
    *flag = TRIE_NORMAL;
    return id < 2 ? (span){&letters[id], 1} : id == 2 ? SPAN("ab") : SPAN("ba");
}

static plain_grammar read_grammar(const uint8_t **data, size_t *size) {
    plain_grammar g = {.n_alternatives = {0}};
    const uint8_t *at = *data, *end = at + *size;
    for (int rule = 0; rule < PLAIN_RULES; rule++) {
        g.n_alternatives[rule] = at < end ? *at++ % (PLAIN_ALTERNATIVES + 1) : 0;
        for (int k = 0; k < g.n_alternatives[rule]; k++) {
            g.length[rule][k] = at < end ? *at++ % (PLAIN_SYMBOLS + 1) : 0;
            for (int i = 0; i < g.length[rule][k]; i++)
                g.symbol[rule][k][i] = at < end ? *at++ % (PLAIN_RULES + 5) : PLAIN_RULES;
        }
    }
    *size = (size_t)(end - at);
    *data = at;
    return g;
}

static void compare(grammar *g, const plain_grammar *plain, const char *text, int n) {
    matcher *m;
    bool fine = true;
    if (matcher_new(&m, g, NULL) != QP_OK) abort();
    for (int i = 0; i < n && fine; i++) {
        uint32_t bits[1];
        const int id = text[i] == 'b';
        if (matcher_mask(m, bits, NULL, NULL) != QP_OK) abort();
        fine = matcher_accept(m, id, NULL) == QP_OK;
        if (fine != (bits[0] >> id & 1)) abort();
    }
    if ((fine && matcher_may_end(m)) != plain_accepts(plain, text, n)) abort();
    matcher_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    trie *t;
    grammar *g;
    const plain_grammar plain = read_grammar(&data, &size);
    ir *source = plain_write(&plain, size % 2);
    if (!source || trie_new(&t, &(trie_source){4, byte_token, NULL}, NULL) != QP_OK) abort();
    if (grammar_from_ir(&g, t, source, NULL, NULL) != QP_OK) {
        static const char *const shortest[] = {"", "a", "b", "ab"};
        for (size_t i = 0; i < sizeof shortest / sizeof *shortest; i++)
            if (plain_accepts(&plain, shortest[i], (int)strlen(shortest[i]))) abort();
        ir_free(source);
    } else {
        char text[PLAIN_TEXT];
        for (size_t at = 0; at < size; at += PLAIN_TEXT) {
            int n = 0;
            for (; n < PLAIN_TEXT && at + (size_t)n < size; n++) text[n] = "ab"[data[at + (size_t)n] & 1];
            compare(g, &plain, text, n);
        }
        compare(g, &plain, "", 0);
        grammar_free(g);
    }
    trie_free(t);
    return 0;
}
