/* constrain.c — what a constraint costs: the vocabulary once, the compile of each schema, the mask and the step of each
 * token of its valid texts. One thread, every schema with caches of its own, cold.
 *
 * usage: bench_constrain TOKENIZER SCHEMAS.jsonl [MOST_SCHEMAS [MASKS]]
 *
 * A line of SCHEMAS is {"schema", "valid": [texts]} as in the fixtures. Prints one JSON object: microseconds at the
 * 50th, 95th, 99th and 100th percentile. Into the file MASKS, a line of JSON for each schema: the times of its masks,
 * null where it was refused. bench/constrain_peers.py asks the same of llguidance. */
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "grammar/grammar.h"
#include "text/tok.h"
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_LIMIT = 256 << 20, MOST_SAMPLES = 4000000 };

typedef struct samples {
    const char *name;
    float *at;
    size_t n;
} samples;

static samples compiles = {.name = "compile"}, masks = {.name = "mask"}, accepts = {.name = "accept"},
               starts = {.name = "matcher"}, clones = {.name = "clone"};
static size_t n_refused, n_wrong, n_cached;

static void need(qp_status status, const qp_error *err) {
    if (status == QP_OK) return;
    fprintf(stderr, "constrain: %s\n", err->text);
    exit(1);
}

static void note(samples *s, double seconds) {
    if (!s->at) s->at = mem_array(MOST_SAMPLES, sizeof *s->at);
    if (s->at && s->n < MOST_SAMPLES) s->at[s->n++] = (float)(seconds * 1e6);
}

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print(samples *s) {
    static const double shares[] = {0.5, 0.95, 0.99, 0.999, 1};
    static const char *const names[] = {"p50", "p95", "p99", "p99.9", "max"};
    if (s->n) qsort(s->at, s->n, sizeof *s->at, by_size);
    printf("\"%s_us\": {\"n\": %zu", s->name, s->n);
    for (size_t i = 0; i < 5 && s->n; i++)
        printf(", \"%s\": %.2f", names[i], (double)s->at[(size_t)((double)(s->n - 1) * shares[i])]);
    printf("}, ");
    mem_free(s->at);
}

static span token_bytes(const void *user, int32_t id, trie_flag *flag) {
    const tok *t = user;
    *flag = tok_is_special(t, id) ? (id == tok_eos(t) ? TRIE_END : TRIE_SPECIAL) : TRIE_NORMAL;
    return tok_bytes(t, id);
}

/* One text, token by token; false where it is refused. */
static bool follow(grammar *g, const tok *t, const trie *v, span text) {
    qp_error err;
    matcher *m, *copy;
    int32_t *ids;
    size_t n;
    uint32_t *bits = mem_array(((size_t)trie_size(v) + 31) / 32, sizeof *bits);
    bool is_right = true;
    need(tok_encode(t, text, QP_TOKENIZE_NO_SPECIAL, &ids, &n, &err), &err);
    double begin = clock_now();
    need(matcher_new(&m, g, &err), &err);
    note(&starts, clock_now() - begin);
    for (size_t i = 0; i < n && is_right; i++) {
        mask_info info;
        begin = clock_now();
        need(matcher_mask(m, bits, &info, &err), &err);
        note(&masks, clock_now() - begin);
        n_cached += info.cached;
        is_right = bits[ids[i] >> 5] >> (ids[i] & 31) & 1;
        begin = clock_now();
        if (is_right) need(matcher_accept(m, ids[i], &err), &err);
        note(&accepts, clock_now() - begin);
    }
    is_right = is_right && matcher_may_end(m);
    begin = clock_now();
    need(matcher_clone(&copy, m, &err), &err);
    note(&clones, clock_now() - begin);
    matcher_free(copy);
    matcher_free(m);
    mem_free(ids);
    mem_free(bits);
    return is_right;
}

static void try_schema(const json_t *record, const tok *t, trie *v) {
    const ir_options options = {
        .whitespace = "flexible:inf", .repeat_extra_keys = true, .fraction_digits = -1, .exponent_digits = -1};
    char *source = json_dumps(json_object_get(record, "schema"), JSON_COMPACT | JSON_ENCODE_ANY);
    grammar *g;
    qp_error err;
    const double begin = clock_now();
    const qp_status status = grammar_compile(&g, v, "json_schema", span_of(source), &options, NULL, NULL, &err);
    const double took = clock_now() - begin;
    free(source);
    if (status != QP_OK) {
        n_refused++;
        return;
    }
    note(&compiles, took);
    size_t i;
    const json_t *text;
    json_array_foreach(json_object_get(record, "valid"), i, text) {
        n_wrong += !follow(g, t, v, (span){json_string_value(text), json_string_length(text)});
    }
    grammar_free(g);
}

/* The masks of one schema. */
static void write_masks(FILE *to, size_t first, bool is_refused) {
    if (is_refused) {
        fprintf(to, "null\n");
        return;
    }
    for (size_t i = first; i < masks.n; i++) fprintf(to, "%s%.2f", i == first ? "[" : ", ", (double)masks.at[i]);
    fprintf(to, "%s]\n", first == masks.n ? "[" : "");
}

static void try_all(char *text, const tok *t, trie *v, long most, FILE *each) {
    for (char *line = strtok(text, "\n"); line && most-- > 0; line = strtok(NULL, "\n")) {
        json_t *record;
        qp_error err;
        need(json_parse(&record, line, strlen(line), "schemas", &err), &err);
        const size_t first = masks.n, refused = n_refused;
        try_schema(record, t, v);
        if (each) write_masks(each, first, n_refused > refused);
        json_decref(record);
    }
}

int main(int argc, char **argv) {
    tok *t;
    trie *v;
    char *text;
    size_t bytes;
    qp_error err;
    if (argc < 3) return fprintf(stderr, "usage: bench_constrain TOKENIZER SCHEMAS.jsonl [MOST_SCHEMAS [MASKS]]\n"), 2;
    need(tok_open(&t, argv[1], &err), &err);
    need(file_read(&text, &bytes, argv[2], TEXT_LIMIT, &err), &err);
    const trie_source source = {tok_size(t), token_bytes, t};
    const double begin = clock_now();
    need(trie_new(&v, &source, &err), &err);
    const double took = clock_now() - begin;
    FILE *each = argc > 4 ? fopen(argv[4], "w") : NULL;
    try_all(text, t, v, argc > 3 ? strtol(argv[3], NULL, 10) : 1000000, each);
    if (each) fclose(each);
    printf("{\"ids\": %d, \"vocabulary_ms\": %.1f, \"vocabulary_mib\": %.1f, ", trie_size(v), took * 1e3,
           (double)trie_memory(v) / (1 << 20));
    samples *const all[] = {&compiles, &masks, &accepts, &starts, &clones};
    const double share = masks.n ? (double)n_cached / (double)masks.n : 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) print(all[i]);
    printf("\"cached\": %.3f, \"refused\": %zu, \"wrong\": %zu}\n", share, n_refused, n_wrong);
    mem_free(text);
    trie_free(v);
    tok_free(t);
    return 0;
}
