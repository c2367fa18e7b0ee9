/* json_schema.c — any bytes as a JSON Schema: refused with a place and a reason, or rules that the compiler takes,
 * within the limits; and a word of the language, if a short one is found by walking the rules, is accepted byte by
 * byte. The first byte picks the options. */
#include "grammar/grammar.h"
#include "grammar/schema_lower.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static span one_byte(const void *user, int32_t id, trie_flag *flag) {
    const char *all = user;
    *flag = TRIE_NORMAL;
    return (span){all + id, 1};
}

static trie *byte_trie(void) {
    static char bytes[256];
    trie *t;
    for (int i = 0; i < 256; i++) bytes[i] = (char)i;
    const trie_source source = {.size = 256, .bytes = one_byte, .user = bytes};
    if (trie_new(&t, &source, NULL) != QP_OK) abort();
    return t;
}

static ir_options options_of(uint8_t byte) {
    static const char *const gaps[4] = {"compact", "single", "flexible:2", "pretty:1"};
    return (ir_options){.whitespace = gaps[byte & 3],
                        .lenient = byte >> 2 & 1,
                        .any_order = byte >> 3 & 1,
                        .unicode_escapes = byte >> 4 & 1,
                        .ignore_formats = byte >> 5 & 1};
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Takes random allowed bytes: there must always be one, or the text may end. */
static void walk(grammar *g, uint64_t seed) {
    matcher *m;
    if (matcher_new(&m, g, NULL) != QP_OK) return;
    for (int i = 0; i < 40; i++) {
        uint32_t bits[8];
        mask_info info;
        if (matcher_mask(m, bits, &info, NULL) != QP_OK) break; /* over its budget */
        if (!info.allowed && !info.may_end) abort();
        if (!info.allowed) break;
        int pick = (int)(next_random(&seed) % (uint64_t)info.allowed), id = 0;
        for (;; id++)
            if (bits[id >> 5] >> (id & 31) & 1 && pick-- == 0) break;
        if (matcher_accept(m, id, NULL) != QP_OK) abort();
    }
    matcher_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static trie *t;
    if (!t) t = byte_trie();
    if (!size) return 0;
    const ir_options options = options_of(data[0]);
    const ir_limits limits = {.symbols = 50000, .rules = 20000, .regex = {.nodes = 200000, .steps = 2000000}};
    ir *g;
    ir_sym start;
    grammar *compiled = NULL;
    qp_error err = {0};
    if (ir_new(&g, &limits, &err) != QP_OK) abort();
    qp_status status = schema_lower(g, &start, (span){(const char *)data + 1, size - 1}, &options, &err);
    if (status != QP_OK && (err.code != status || !err.text[0])) abort();
    if (status == QP_OK) {
        ir_start(g, start);
        ir_fuse(g, false);
        status = grammar_from_ir(&compiled, t, g, NULL, &err);
    }
    if (compiled)
        walk(compiled, size * 2654435761u + data[size - 1]);
    else
        ir_free(g);
    grammar_free(compiled);
    return 0;
}
