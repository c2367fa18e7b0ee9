/* grammar_source.c — fuzz target: the first byte chooses regex, GBNF or Lark, then comes a source, a zero byte, and a
 * text that is followed. What compiles must have masks that say exactly what is taken, and nothing may pass its limits.
 */
#include "grammar/grammar.h"
#include <stdlib.h>
#include <string.h>

enum { IDS = 256 };

static span byte_token(const void *user, int32_t id, trie_flag *flag) {
    static char all[IDS];
    for (int i = 0; i < IDS; i++) all[i] = (char)i;
    *flag = TRIE_NORMAL;
    return (span){&all[id], 1};
}

static void follow(grammar *g, const uint8_t *text, size_t bytes) {
    matcher *m;
    uint32_t bits[IDS / 32];
    if (matcher_new(&m, g, NULL) != QP_OK) return;
    for (size_t i = 0; i < bytes && i < 64; i++) {
        mask_info info;
        if (matcher_mask(m, bits, &info, NULL) != QP_OK) break;
        const qp_status status = matcher_accept(m, text[i], NULL);
        if (status == QP_TOO_LARGE) break;
        if ((status == QP_OK) != (bits[text[i] >> 5] >> (text[i] & 31) & 1)) abort();
        if (!info.allowed && !info.may_end) abort(); /* nothing may come, and it may not end */
        if (status != QP_OK) break;
    }
    matcher_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const kinds[] = {"regex", "gbnf", "lark"};
    const grammar_limits limits = {.compile_steps = 200000,
                                   .states = 5000,
                                   .engine_bytes = 16 << 20,
                                   .mask_bytes = 1 << 20,
                                   .mask_steps = 200000,
                                   .row_items = 500,
                                   .ir = {.regex = {.nodes = 50000, .bytes = 16 << 20}}};
    if (size < 2) return 0;
    const char *source = (const char *)data + 1;
    const uint8_t *end = memchr(source, 0, size - 1);
    const size_t bytes = end ? (size_t)(end - (const uint8_t *)source) : size - 1;
    trie *t;
    grammar *g;
    if (trie_new(&t, &(trie_source){IDS, byte_token, NULL}, NULL) != QP_OK) abort();
    if (grammar_compile(&g, t, kinds[data[0] % 3], (span){source, bytes}, NULL, &limits, NULL, NULL) == QP_OK) {
        if (end) follow(g, end + 1, size - 2 - bytes);
        grammar_free(g);
    }
    trie_free(t);
    return 0;
}
