/* grammar_test.c — constraints as a whole: the reference fixtures (regex, grammars, exact masks, choices), properties
 * that must hold at every step (mask and accept agree, rewinding restores, clones are apart, cached equals computed),
 * random grammars against a slow recogniser, limits, and every failing allocation. */
#include "grammar.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness.h"
#include "plain_grammar.h"
#include <limits.h>

enum { BYTE_IDS = 258, END_ID = 256, SPECIAL_ID = 257 };

/* ---- vocabularies ---- */

/* One token a byte, an end token and a special one. */
static span byte_token(const void *user, int32_t id, trie_flag *flag) {
    static char all[256];
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    *flag = id == END_ID ? TRIE_END : id == SPECIAL_ID ? TRIE_SPECIAL : TRIE_NORMAL;
    return id < 256 ? (span){&all[id], 1} : SPAN("<|s|>");
}

static trie *byte_trie(void) {
    trie *t;
    assert_int_equal(trie_new(&t, &(trie_source){BYTE_IDS, byte_token, NULL}, NULL), QP_OK);
    return t;
}

/* Tokens of one to four letters out of "abc", and their single letters twice. */
static span letter_token(const void *user, int32_t id, trie_flag *flag) {
    static char text[8];
    int n = 1, count = 3, rest = id;
    *flag = TRIE_NORMAL;
    if (id >= 120) return (span){&"abc"[id - 120], 1};
    for (; rest >= count; n++) rest -= count, count *= 3;
    for (int i = 0; i < n; i++) text[i] = "abc"[rest % 3], rest /= 3;
    return (span){text, (size_t)n};
}

static grammar *compile(trie *t, const char *kind, const char *source) {
    grammar *g;
    qp_error err;
    if (grammar_compile(&g, t, kind, span_of(source), NULL, NULL, NULL, &err) != QP_OK)
        fail_msg("%s: %s\n%s", kind, err.text, source);
    return g;
}

static bool is_set(const uint32_t *bits, int id) { return bits[id >> 5] >> (id & 31) & 1; }

/* Through masks and through accept at once; they must agree. */
static bool accepts(grammar *g, const char *text, size_t bytes) {
    matcher *m;
    bool fine = true;
    assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
    for (size_t i = 0; i < bytes && fine; i++) {
        uint32_t bits[(BYTE_IDS + 31) / 32];
        assert_int_equal(matcher_mask(m, bits, NULL, NULL), QP_OK);
        fine = is_set(bits, (uint8_t)text[i]);
        assert_int_equal(matcher_accept(m, (uint8_t)text[i], NULL), fine ? QP_OK : QP_BAD_ARGUMENT);
    }
    fine = fine && matcher_may_end(m);
    matcher_free(m);
    return fine;
}

/* ---- the fixtures ---- */

static char *load_lines(const char *name, const char *unpack) {
    char command[512];
    snprintf(command, sizeof command, "%s %s/constrain/%s 2>/dev/null", unpack, QUIPU_FIXTURES, name);
    FILE *pipe = popen(command, "r");
    strbuf all = {0};
    char piece[4096];
    for (size_t n; pipe && (n = fread(piece, 1, sizeof piece, pipe)) > 0;) strbuf_add(&all, piece, n);
    if (pipe) pclose(pipe);
    if (!all.bytes) {
        strbuf_free(&all);
        HARNESS_SKIP("no fixture constrain/%s", name);
    }
    return strbuf_move(&all, NULL);
}

typedef void case_fn(const json_t *record, void *context);

static int each_line(char *lines, case_fn *fn, void *context) {
    int n = 0;
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
        json_t *record;
        assert_int_equal(json_parse(&record, line, strlen(line), "fixture", NULL), QP_OK);
        fn(record, context);
        json_decref(record);
    }
    mem_free(lines);
    return n;
}

static const char *text_of(const json_t *record, const char *key) {
    return json_string_value(json_object_get(record, key));
}

static void try_verdicts(grammar *g, const json_t *record, const char *key, bool wanted) {
    size_t i;
    const json_t *text;
    json_array_foreach(json_object_get(record, key), i, text) {
        if (accepts(g, json_string_value(text), json_string_length(text)) != wanted)
            fail_msg("%s: \"%s\" should be %s", text_of(record, "id"), json_string_value(text),
                     wanted ? "taken" : "refused");
    }
}

static void try_record(const json_t *record, void *context) {
    const char *kind = text_of(record, "syntax");
    const char *source = text_of(record, kind ? "grammar" : "pattern");
    grammar *g = NULL;
    qp_error err;
    const qp_status status =
        grammar_compile(&g, context, kind ? kind : "regex", span_of(source), NULL, NULL, NULL, &err);
    if (!strcmp(text_of(record, "expect"), "ok") != (status == QP_OK))
        fail_msg("%s: %s", text_of(record, "id"), status == QP_OK ? "was taken" : err.text);
    if (status != QP_OK) return;
    try_verdicts(g, record, "accept", true);
    try_verdicts(g, record, "reject", false);
    grammar_free(g);
}

static void reference_verdicts(void **state) {
    static const char *const files[] = {"regex.jsonl", "grammars.jsonl"};
    trie *t = byte_trie();
    for (int i = 0; i < 2; i++) assert_true(each_line(load_lines(files[i], "cat"), try_record, t) > 10);
    trie_free(t);
}

static span small_token(const void *user, int32_t id, trie_flag *flag) {
    static char bytes[256];
    const char *hex = json_string_value(json_array_get(user, (size_t)id));
    const size_t n = strlen(hex) / 2;
    *flag = id == 0 ? TRIE_END : id == 1 ? TRIE_SPECIAL : TRIE_NORMAL;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        bytes[i] = (char)byte;
    }
    return (span){n ? bytes : NULL, n};
}

static trie *small_trie(void) {
    json_t *vocabulary;
    trie *t;
    if (json_load_path(&vocabulary, QUIPU_FIXTURES "/constrain/small_vocab.json", 1 << 24, NULL) != QP_OK)
        HARNESS_SKIP("no fixture constrain/small_vocab.json");
    const trie_source source = {4096, small_token, json_object_get(vocabulary, "vocab_hex")};
    assert_int_equal(trie_new(&t, &source, NULL), QP_OK);
    json_decref(vocabulary);
    return t;
}

static void unpack_base64(const char *text, uint8_t *out, size_t capacity) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int n_bits = 0;
    for (size_t n = 0; *text && *text != '=' && n < capacity; text++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *text) - digits);
        n_bits += 6;
        if (n_bits >= 8) n_bits -= 8, out[n++] = (uint8_t)(bits >> n_bits);
    }
}

static void try_mask(const json_t *record, void *context) {
    const ir_options options = {
        .whitespace = "flexible:inf", .repeat_extra_keys = true, .fraction_digits = -1, .exponent_digits = -1};
    json_t *source = json_object_get(record, "grammar");
    char *dump = json_is_string(source) ? NULL : json_dumps(source, JSON_COMPACT);
    grammar *g;
    matcher *m;
    qp_error err;
    mask_info info;
    uint32_t bits[128];
    uint8_t wanted[512];
    const span text = span_of(dump ? dump : json_string_value(source));
    if (grammar_compile(&g, context, text_of(record, "kind"), text, &options, NULL, NULL, &err) != QP_OK)
        fail_msg("%s: %s", text_of(record, "id"), err.text);
    assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
    const json_t *ids = json_object_get(record, "prefix_ids");
    for (size_t i = 0; i < json_array_size(ids); i++)
        assert_int_equal(matcher_accept(m, (int32_t)json_integer_value(json_array_get(ids, i)), NULL), QP_OK);
    assert_int_equal(matcher_mask(m, bits, &info, NULL), QP_OK);
    if (info.may_end) bits[0] |= 1;
    unpack_base64(text_of(record, "mask_b64"), wanted, sizeof wanted);
    for (int id = 0; id < 4096; id++)
        if (is_set(bits, id) != (wanted[id >> 3] >> (id & 7) & 1))
            fail_msg("%s: id %d should be %s", text_of(record, "id"), id, is_set(bits, id) ? "forbidden" : "allowed");
    strbuf forced = {0};
    char must[4096] = "";
    if (text_of(record, "forced_text")) snprintf(must, sizeof must, "%s", text_of(record, "forced_text"));
    char *const broken = strstr(must, "\xEF\xBF\xBD"); /* half a character: the fixture cannot spell it */
    if (broken) *broken = 0;
    assert_int_equal(matcher_forced(m, &forced, 4096, NULL), QP_OK);
    if (forced.bytes < strlen(must)) fail_msg("%s: \"%s\" must follow", text_of(record, "id"), must);
    if (*must) assert_memory_equal(forced.at, must, strlen(must));
    strbuf_free(&forced);
    matcher_free(m);
    grammar_free(g);
    free(dump);
}

static void reference_masks(void **state) {
    trie *t = small_trie();
    assert_true(each_line(load_lines("masks.jsonl.gz", "gzip -dc"), try_mask, t) > 100);
    trie_free(t);
}

static void try_choice(const json_t *record, void *context) {
    if (strcmp(text_of(record, "kind"), "choice")) return;
    char *source = json_dumps(json_object_get(record, "choices"), 0);
    grammar *g = compile(context, "choices", source);
    matcher *m;
    mask_info info;
    uint32_t bits[128];
    const span prefix = span_of(text_of(record, "prefix"));
    assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
    if (prefix.bytes) assert_int_equal(matcher_accept_bytes(m, prefix, NULL), QP_OK);
    assert_int_equal(matcher_mask(m, bits, &info, NULL), QP_OK);
    assert_int_equal(info.may_end, json_is_true(json_object_get(record, "accepting")));
    const json_t *ids = json_object_get(record, "allowed_ids");
    int n = 0;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const int id = (int)json_integer_value(json_array_get(ids, i));
        if (id) assert_true(is_set(bits, id)), n++;
    }
    assert_int_equal(info.allowed, n);
    matcher_free(m);
    grammar_free(g);
    free(source);
}

static void reference_choices(void **state) {
    trie *t = small_trie();
    assert_true(each_line(load_lines("filters.jsonl", "cat"), try_choice, t) > 10);
    trie_free(t);
}

/* ---- properties ---- */

static const char *const samples[] = {
    "root ::= \"a\" root \"b\" | \"ab\" | [a-c]{2,3} \"c\"", "root ::= (\"a\" | \"aa\" | \"b\" root \"c\")*",
    "root ::= x x x? \"c\"\nx ::= \"a\"? \"b\"* | root",     "root ::= (\"ab\" | \"abab\" | \"ba\"){3,5}",
    "root ::= a a a\na ::= \"a\" | \"ab\" | \"ba\" | ",
};

/* What is allowed is exactly what is taken, and taking back restores the mask. */
static void masks_agree_with_accept(void **state) {
    trie *t;
    assert_int_equal(trie_new(&t, &(trie_source){123, letter_token, NULL}, NULL), QP_OK);
    for (size_t s = 0; s < HARNESS_COUNT(samples); s++) {
        grammar *g = compile(t, "gbnf", samples[s]);
        matcher *m, *fresh;
        assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
        for (uint64_t step = 0; step < 12; step++) {
            uint32_t bits[4], again[4], draw[4];
            mask_info info;
            assert_int_equal(matcher_mask(m, bits, &info, NULL), QP_OK);
            if (!info.allowed) break;
            int chosen = -1, n = 0;
            rng_philox(s, step, 0, draw);
            for (int id = 0; id < 123; id++) {
                assert_int_equal(matcher_accept(m, id, NULL) == QP_OK, is_set(bits, id));
                if (!is_set(bits, id)) continue;
                assert_int_equal(matcher_rewind(m, 1, NULL), QP_OK);
                if (n++ == (int)(draw[0] % (uint32_t)info.allowed)) chosen = id;
            }
            assert_int_equal(n, info.allowed);
            assert_int_equal(matcher_mask(m, again, &info, NULL), QP_OK);
            assert_true(info.cached);
            assert_memory_equal(bits, again, sizeof bits);
            assert_int_equal(matcher_clone(&fresh, m, NULL), QP_OK);
            assert_int_equal(matcher_accept(fresh, chosen, NULL), QP_OK);
            assert_int_equal(matcher_mask(m, again, NULL, NULL), QP_OK);
            assert_memory_equal(bits, again, sizeof bits);
            matcher_free(m);
            m = fresh;
        }
        matcher_free(m);
        grammar_free(g);
    }
    trie_free(t);
}

/* Clones share their history until they go on: each goes its own way, whichever goes first, also back and after the
 * others have gone. */
static void clones_part_where_they_go_on(void **state) {
    enum { WAYS = 3, STEPS = 40 };
    trie *t = byte_trie();
    grammar *g = compile(t, "gbnf", "root ::= (\"a\" | \"b\" root \"c\" | \"d\")*");
    for (int first = 0; first < WAYS; first++) {
        matcher *m[WAYS], *alone[WAYS];
        uint32_t bits[(BYTE_IDS + 31) / 32], wanted[(BYTE_IDS + 31) / 32];
        for (int i = 0; i < WAYS; i++) assert_int_equal(matcher_new(&alone[i], g, NULL), QP_OK);
        assert_int_equal(matcher_new(&m[0], g, NULL), QP_OK);
        for (int k = 0; k < STEPS; k++)
            for (int i = -1; i < WAYS; i++)
                assert_int_equal(matcher_accept(i < 0 ? m[0] : alone[i], "abda"[k % 4], NULL), QP_OK);
        for (int i = 1; i < WAYS; i++) assert_int_equal(matcher_clone(&m[i], m[i - 1], NULL), QP_OK);
        for (int step = 0; step < WAYS; step++) {
            const int i = (first + step) % WAYS;
            for (int k = 0; k < STEPS; k++) {
                matcher *const both[2] = {m[i], alone[i]};
                for (int b = 0; b < 2; b++) {
                    assert_int_equal(matcher_accept(both[b], i == 1 ? 'b' : 'd', NULL), QP_OK);
                    if (i == 2 && k % 3 == 2) assert_int_equal(matcher_rewind(both[b], 5, NULL), QP_OK);
                    assert_int_equal(matcher_mask(both[b], b ? wanted : bits, NULL, NULL), QP_OK);
                }
                assert_memory_equal(bits, wanted, sizeof bits);
            }
            assert_int_equal(matcher_tail(m[i]).bytes, matcher_tail(alone[i]).bytes);
            if (i == first) matcher_free(m[i]);
        }
        for (int i = 0; i < WAYS; i++) {
            if (i != first) matcher_free(m[i]);
            matcher_free(alone[i]);
        }
    }
    grammar_free(g);
    trie_free(t);
}

static void special_tokens_come_by_their_id_only(void **state) {
    trie *t = byte_trie();
    grammar *g = compile(t, "gbnf", "root ::= \"a\" <[257]> \"b\"+");
    matcher *m;
    mask_info info;
    uint32_t bits[(BYTE_IDS + 31) / 32];
    assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
    assert_int_equal(matcher_accept(m, 'a', NULL), QP_OK);
    assert_int_equal(matcher_mask(m, bits, &info, NULL), QP_OK);
    assert_int_equal(info.only, SPECIAL_ID);
    assert_int_equal(matcher_accept_bytes(m, SPAN("<|s|>"), NULL), QP_BAD_ARGUMENT);
    assert_int_equal(matcher_accept(m, SPECIAL_ID, NULL), QP_OK);
    assert_int_equal(matcher_accept(m, END_ID, NULL), QP_BAD_ARGUMENT);
    assert_int_equal(matcher_accept(m, 'b', NULL), QP_OK);
    assert_true(matcher_may_end(m));
    assert_false(matcher_finished(m));
    assert_int_equal(matcher_accept(m, END_ID, NULL), QP_OK);
    assert_int_equal(matcher_mask(m, bits, &info, NULL), QP_OK);
    assert_int_equal(info.allowed, 0);
    assert_true(info.may_end && matcher_finished(m));
    assert_int_equal(matcher_rewind(m, 4, NULL), QP_OK);
    assert_int_equal(matcher_rewind(m, 1, NULL), QP_BAD_ARGUMENT);
    matcher_free(m);
    grammar_free(g);
    trie_free(t);
}

/* A right-recursive list: tail calls keep the rows few, and far counts share masks. */
static void long_texts_cost_no_more_than_short_ones(void **state) {
    static const char *const sources[] = {"root ::= \"x\" | \"x,\" root", "root ::= (\"x\" \",\")* \"x\"",
                                          "root ::= ([a-z] [,]){20000,90000} \"x\""};
    trie *t = byte_trie();
    for (int i = 0; i < 3; i++) {
        grammar *g = compile(t, "gbnf", sources[i]);
        matcher *m;
        mask_info info;
        uint32_t bits[(BYTE_IDS + 31) / 32];
        int n_computed = 0;
        assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
        for (int k = 0; k < HARNESS_TIMES(20000); k++) {
            assert_int_equal(matcher_mask(m, bits, &info, NULL), QP_OK);
            n_computed += !info.cached;
            assert_int_equal(matcher_accept(m, k % 2 ? ',' : 'x', NULL), QP_OK);
        }
        assert_true(n_computed < 10);
        matcher_free(m);
        grammar_free(g);
    }
    trie_free(t);
}

/* ---- random grammars against a slow recogniser ---- */

static plain_grammar random_grammar(uint64_t seed) {
    plain_grammar g = {.n_alternatives = {0}};
    uint64_t count = 0;
    for (int rule = 0; rule < PLAIN_RULES; rule++) {
        uint32_t r[4];
        rng_philox(11, seed, count++, r);
        g.n_alternatives[rule] = 1 + (int)(r[0] % PLAIN_ALTERNATIVES);
        for (int k = 0; k < g.n_alternatives[rule]; k++) {
            rng_philox(11, seed, count++, r);
            g.length[rule][k] = (int)(r[0] % (PLAIN_SYMBOLS + 1));
            for (int i = 0; i < PLAIN_SYMBOLS; i++) g.symbol[rule][k][i] = (int)(r[1 + i % 3] >> i) % (PLAIN_RULES + 5);
            for (int i = 0; i < PLAIN_SYMBOLS; i++)
                if (g.symbol[rule][k][i] < 0) g.symbol[rule][k][i] += PLAIN_RULES + 5;
        }
    }
    return g;
}

static void random_grammars_agree_with_a_slow_recogniser(void **state) {
    trie *t = byte_trie();
    int n_empty = 0, n_taken = 0;
    for (uint64_t seed = 0; seed < HARNESS_TIMES(300); seed++) {
        const plain_grammar plain = random_grammar(seed);
        ir *source = plain_write(&plain, seed % 2);
        assert_non_null(source);
        grammar *g;
        const bool has_words = grammar_from_ir(&g, t, source, NULL, NULL) == QP_OK;
        if (!has_words) ir_free(source);
        n_empty += !has_words;
        for (int number = 0; number < 63; number++) { /* all of up to 5 letters */
            char text[PLAIN_TEXT];
            int n = 0, rest = number, count = 1;
            for (; rest >= count; n++) rest -= count, count *= 2;
            for (int i = 0; i < n; i++) text[i] = "ab"[rest >> i & 1];
            const bool wanted = plain_accepts(&plain, text, n);
            n_taken += wanted;
            if ((has_words && accepts(g, text, (size_t)n)) != wanted)
                fail_msg("grammar %d, text %.*s", (int)seed, n, text);
        }
        if (has_words) grammar_free(g);
    }
    assert_true(n_empty < HARNESS_TIMES(200) && n_taken > HARNESS_TIMES(500));
    trie_free(t);
}

/* ---- large vocabularies: what is marked without being walked ---- */

enum { UNITS = 8, UNIT_LENGTH = 4, UNIT_IDS = 8 + 64 + 512 + 4096 };

/* Tokens of one to four of a few characters: enough below each for a proof instead of a walk. */
static span unit_token(const void *user, int32_t id, trie_flag *flag) {
    static const char *const units[UNITS] = {"a", "b", "/", "\xc3\xa9", " ", ",", "\"", "\\"};
    static char text[UNIT_LENGTH * 2 + 1];
    int n = 1, count = UNITS, rest = id;
    *flag = TRIE_NORMAL;
    text[0] = 0;
    for (; rest >= count; n++) rest -= count, count *= UNITS;
    for (int i = 0; i < n; i++) strcat(text, units[rest % UNITS]), rest /= UNITS;
    return span_of(text);
}

/* Each byte of the text, and before each every token alone: what the mask says is what is taken. */
static void try_units(trie *t, const char *schema, const char *text, const grammar_limits *limits) {
    const ir_options options = {.whitespace = "flexible:inf"};
    grammar *g;
    matcher *m;
    assert_int_equal(grammar_compile(&g, t, "json_schema", span_of(schema), &options, limits, NULL, NULL), QP_OK);
    assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
    for (const char *at = text; *at; at++) {
        uint32_t bits[(UNIT_IDS + 31) / 32];
        qp_error err;
        if (matcher_accept_bytes(m, (span){at, 1}, &err) != QP_OK) fail_msg("%s: %s", at, err.text);
        assert_int_equal(matcher_mask(m, bits, NULL, NULL), QP_OK);
        for (int32_t id = 0; id < UNIT_IDS; id++) {
            size_t n_good;
            assert_int_equal(matcher_test(m, &id, 1, &n_good, NULL), QP_OK);
            if (is_set(bits, id) != (n_good == 1)) fail_msg("%s at %s, token %d", schema, at, (int)id);
        }
    }
    matcher_free(m);
    grammar_free(g);
}

static void subtrees_marked_at_once_are_exact(void **state) {
    static const struct {
        const char *schema, *text;
    } cases[] = {
        {"{\"patternProperties\": {\"^/\": {\"type\": \"integer\"}, \"^[^/]\": {\"const\": \"a\"}}}",
         "{\"ab/\":\"a\",\"\xc3\xa9"},
        {"{\"properties\": {\"ab\": true, \"aba\": {\"const\": 1}}, \"required\": [\"ab\"]}", "{\"ab\":\" a\",\"aba"},
        {"{\"anyOf\": [{\"type\": \"string\", \"pattern\": \"^ab a\"}, {\"type\": \"string\", \"minLength\": 3}]}",
         "\"ab \xc3\xa9"},
        {"{\"type\": \"string\", \"pattern\": \"^(\\\\S+\\\\s+){0,5}\\\\S+$\", \"maxLength\": 30}", "\"ab a \xc3\xa9"},
        {"{\"type\": \"string\", \"pattern\": \"^/?[ab ]*(\xc3\xa9.*)?$\"}", "\"/ab\xc3\xa9/"},
        {"{\"type\": \"string\", \"maxLength\": 6}", "\"abab/"},
        {"{\"type\": \"string\", \"maxLength\": 300}", "\"ab"},
        {"{\"items\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"number\"}]}}", "[ \"ab\" , 1 ,"},
        {"{\"additionalProperties\": {\"type\": \"string\"}}", "{ \"ab\" : \"b\\\\ \", \"b"},
        {"{\"type\": \"string\", \"pattern\": \"^[ab]+,\"}", "\"a,\xc3\xa9"},
    };
    static const uint32_t rooms[] = {0, 2, 5, 12}; /* of sets of heads: all, and too few */
    trie *t;
    assert_int_equal(trie_new(&t, &(trie_source){UNIT_IDS, unit_token, NULL}, NULL), QP_OK);
    for (size_t i = 0; i < HARNESS_COUNT(cases) * HARNESS_COUNT(rooms); i++) {
        const grammar_limits limits = {.head_sets = rooms[i % HARNESS_COUNT(rooms)]};
        try_units(t, cases[i / HARNESS_COUNT(rooms)].schema, cases[i / HARNESS_COUNT(rooms)].text, &limits);
    }
    trie_free(t);
}

/* ---- counts and orders ---- */

static void repetitions_and_orders_are_exact(void **state) {
    trie *t = byte_trie();
    ir *source;
    grammar *g;
    assert_int_equal(ir_new(&source, NULL, NULL), QP_OK);
    const ir_sym comma = ir_literal(source, SPAN(","));
    const ir_sym members[3] = {ir_literal(source, SPAN("a")), ir_literal(source, SPAN("b")),
                               ir_literal(source, SPAN("c"))};
    const ir_sym order = ir_any_order(source, members, 3, comma, 5);
    const ir_sym parts[3] = {order, ir_literal(source, SPAN(";")), ir_repeat_between(source, order, comma, 2, 3)};
    ir_start(source, ir_sequence(source, parts, 3));
    assert_int_equal(grammar_from_ir(&g, t, source, NULL, NULL), QP_OK);
    static const struct {
        const char *text;
        bool fine;
    } cases[] = {
        {"a,c;c,a,a,c", true}, {"c,b,a;a,c,a,b,c", true}, {"a,b;a,c,a,c", false},         {"a,c,a;a,c,a,c", false},
        {"a,c;a,c", false},    {"a,c;a,c,a,c,a,c", true}, {"a,c;a,c,a,c,a,c,a,c", false}, {"a,c;", false}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++)
        if (accepts(g, cases[i].text, strlen(cases[i].text)) != cases[i].fine) fail_msg("%s", cases[i].text);
    grammar_free(g);
    trie_free(t);
}

/* ---- limits and failures ---- */

static void a_budget_fails_the_job_and_never_the_grammar(void **state) {
    trie *t = byte_trie();
    ir *report;
    grammar *g;
    matcher *m, *other;
    qp_error err;
    const grammar_limits few = {.row_items = 15};
    const char *source = "root ::= root root | \"a\" | \"b\" big\nbig ::= x{0,9} x{0,9} x{0,9} x{0,9} x{0,9} x{0,9} "
                         "x{0,9}\nx ::= [c-z] | \"(\" x \")\"";
    assert_int_equal(grammar_compile(&g, t, "gbnf", span_of(source), NULL, &few, &report, &err), QP_OK);
    assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
    assert_int_equal(matcher_new(&other, g, NULL), QP_OK);
    qp_status status = matcher_accept_bytes(m, SPAN("aabcdefghij"), &err);
    assert_int_equal(status, QP_TOO_LARGE);
    assert_non_null(strstr(err.text, "15"));
    assert_int_equal(matcher_accept_bytes(other, SPAN("a"), NULL), QP_OK);
    matcher_free(m);
    matcher_free(other);
    grammar_free(g);
    const grammar_limits tiny = {.source_bytes = 4};
    assert_int_equal(grammar_compile(&g, t, "regex", SPAN("abcde"), NULL, &tiny, NULL, &err), QP_TOO_LARGE);
    assert_int_equal(grammar_compile(&g, t, "nonsense", SPAN(""), NULL, NULL, NULL, &err), QP_BAD_ARGUMENT);
    assert_int_equal(grammar_compile(&g, t, "gbnf", SPAN("root ::= \"a\" root"), NULL, NULL, NULL, &err),
                     QP_BAD_FORMAT);
    trie_free(t);
}

/* Counts how often it is asked, and cancels from the n-th time on. */
typedef struct impatience {
    int asked, n;
} impatience;

static bool has_enough(void *user) {
    impatience *i = user;
    return ++i->asked >= i->n;
}

static void a_compile_can_be_cancelled(void **state) {
    static const struct {
        const char *kind, *head, *each, *tail;
    } cases[] = {
        {"json_schema", "{\"enum\": [", "\"name %d\", ", "0]}"},
        {"json_schema", "{\"properties\": {", "\"k%d\": {\"type\": \"string\"}, ", "\"z\": {}}}"},
        {"regex", "a", "|x%dy", ""},
        {"gbnf", "root ::= \"a\"", " | \"b%d\" [a-z]", ""},
        {"lark", "start: \"a\"", " | \"b%d\"", ""},
        {"choices", "[\"a\"", ", \"b%d\"", "]"},
    };
    trie *t = byte_trie();
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        strbuf source = {0};
        grammar *g;
        qp_error err;
        strbuf_text(&source, cases[i].head);
        for (int k = 0; k < 4000; k++) {
            char one[120];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(one, sizeof one, cases[i].each, k);
#pragma GCC diagnostic pop
            strbuf_text(&source, one);
        }
        strbuf_text(&source, cases[i].tail);
        impatience never = {.n = INT_MAX}, at_once = {.n = 1};
        grammar_limits limits = {.ir.regex.stop = {has_enough, &never}};
        const span text = {source.at, source.bytes};
        qp_status status = grammar_compile(&g, t, cases[i].kind, text, NULL, &limits, NULL, &err);
        if (status != QP_OK) fail_msg("%s: %s", cases[i].kind, err.text);
        const int asked = never.asked;
        assert_true(asked > 0);
        assert_true(accepts(g, "\x01", 1) == false); /* matching asks nobody */
        assert_int_equal(never.asked, asked);
        grammar_free(g);
        limits.ir.regex.stop.user = &at_once;
        status = grammar_compile(&g, t, cases[i].kind, text, NULL, &limits, NULL, &err);
        assert_int_equal(status, QP_CANCELLED);
        assert_non_null(strstr(err.text, "cancelled"));
        assert_int_equal(at_once.asked, 1);
        strbuf_free(&source);
    }
    trie_free(t);
}

static qp_status use_all(void) {
    trie *t;
    grammar *g = NULL;
    matcher *m = NULL, *copy = NULL;
    uint32_t bits[(BYTE_IDS + 31) / 32];
    strbuf text = {0};
    qp_status status = trie_new(&t, &(trie_source){BYTE_IDS, byte_token, NULL}, NULL);
    if (status != QP_OK) return status;
    const char *source = "start: a (\",\" a)* <[257]>?\na: /[a-z]+/ | \"(\" start \")\"\n%ignore \" \"";
    status = grammar_compile(&g, t, "lark", span_of(source), NULL, NULL, NULL, NULL);
    if (status == QP_OK) status = matcher_new(&m, g, NULL);
    for (const char *c = "(ab, c)"; *c && status == QP_OK; c++) {
        status = matcher_mask(m, bits, NULL, NULL);
        if (status == QP_OK) status = matcher_accept(m, *c, NULL);
    }
    if (status == QP_OK) status = matcher_clone(&copy, m, NULL);
    if (status == QP_OK) status = matcher_accept(copy, SPECIAL_ID, NULL); /* takes the history as its own */
    if (status == QP_OK) status = matcher_forced(m, &text, 8, NULL);
    if (status == QP_OK) status = matcher_explain(m, &text, NULL);
    strbuf_free(&text);
    matcher_free(copy);
    matcher_free(m);
    grammar_free(g);
    trie_free(t);
    return status;
}

static void every_failing_allocation_is_reported(void **state) {
    for (int64_t n = 0;; n++) {
        mem_fail_after(n);
        const qp_status status = use_all();
        const bool reached = mem_count() > n;
        mem_fail_after(-1);
        if (!reached && status == QP_OK) return;
        assert_true(status == QP_OK || status == QP_NO_MEMORY); /* a mask may be right without being remembered */
        if (n > 100000) fail();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_verdicts),
        cmocka_unit_test(reference_masks),
        cmocka_unit_test(reference_choices),
        cmocka_unit_test(masks_agree_with_accept),
        cmocka_unit_test(clones_part_where_they_go_on),
        cmocka_unit_test(special_tokens_come_by_their_id_only),
        cmocka_unit_test(long_texts_cost_no_more_than_short_ones),
        cmocka_unit_test(random_grammars_agree_with_a_slow_recogniser),
        cmocka_unit_test(subtrees_marked_at_once_are_exact),
        cmocka_unit_test(repetitions_and_orders_are_exact),
        cmocka_unit_test(a_budget_fails_the_job_and_never_the_grammar),
        cmocka_unit_test(a_compile_can_be_cancelled),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
