/* tokenizer.c — how fast a tokenizer opens, encodes and decodes; one JSON object on the standard output.
 *
 *     bench_tokenizer TOKENIZER TEXT [REPEATS]      TOKENIZER: a folder, tokenizer.json, ... ; TEXT: a file
 *
 * One thread, whole text in one call, the clock stopped after the last id; medians of REPEATS (5). The hash of the ids
 * shows whether two runs, or two programs, computed the same. "hostile" are megabytes that make careless algorithms
 * quadratic: their time per byte is given in times the text's. bench/tokenizer_peers.py runs this beside other
 * libraries.
 */
#include "figures.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "text/tok.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_REPEATS = 99, MEGABYTE = 1 << 20 };

static void check(qp_status status, const qp_error *err) {
    if (status == QP_OK) return;
    fprintf(stderr, "bench_tokenizer: %s\n", err->text);
    exit(1);
}

static long peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Seconds to encode, median; the ids of the last run in *ids. */
static double time_encode(const tok *t, span text, int repeats, int32_t **ids, size_t *n) {
    double seconds[MAX_REPEATS];
    qp_error err;
    *ids = NULL;
    for (int i = 0; i < repeats; i++) {
        mem_free(*ids);
        const double start = figures_thread_seconds();
        check(tok_encode(t, text, QP_TOKENIZE_NO_SPECIAL | QP_TOKENIZE_PLAIN_SPECIAL, ids, n, &err), &err);
        seconds[i] = figures_thread_seconds() - start;
    }
    return figures_median(seconds, (size_t)repeats);
}

static double time_decode(const tok *t, const int32_t *ids, size_t n, int repeats, bool *is_same, span text) {
    double seconds[MAX_REPEATS];
    qp_error err;
    for (int i = 0; i < repeats; i++) {
        strbuf out = {0};
        const double start = figures_thread_seconds();
        check(tok_decode(t, ids, n, false, &out, &err), &err);
        seconds[i] = figures_thread_seconds() - start;
        *is_same = span_equal((span){out.at, out.bytes}, text);
        strbuf_free(&out);
    }
    return figures_median(seconds, (size_t)repeats);
}

static double time_open(const char *path, int repeats) {
    double seconds[MAX_REPEATS];
    qp_error err;
    for (int i = 0; i < repeats; i++) {
        tok *t;
        const double start = figures_thread_seconds();
        check(tok_open(&t, path, &err), &err);
        seconds[i] = figures_thread_seconds() - start;
        tok_free(t);
    }
    return figures_median(seconds, (size_t)repeats);
}

static const struct {
    const char *name, *unit; /* the unit is repeated to a megabyte */
} hostile[] = {
    {"one letter", "a"},
    {"spaces", " "},
    {"emoji joins", "\xf0\x9f\x91\xa8\xe2\x80\x8d"},
    {"newlines", "\n"},
    {"spaces and a letter", "          x"},
    {"marks", "\xcc\x81\xcc\xa3"},
    {"punctuation", "!?"},
    {"letters in turn", "abcabd"},
    {"CJK", "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xb8\x96"},
    {"digits", "1234567"},
};

/* Seconds per byte of `hostile` over those of `text`, the two timed in turn so that a busy machine slows both; median.
 * *seconds: of the hostile one. */
static double times_the_text(const tok *t, span hostile_text, span text, int repeats, double *seconds) {
    double ratios[MAX_REPEATS], times[MAX_REPEATS];
    for (int i = 0; i < repeats; i++) {
        int32_t *ids;
        size_t n;
        const double text_seconds = time_encode(t, text, 1, &ids, &n);
        mem_free(ids);
        times[i] = time_encode(t, hostile_text, 3, &ids, &n);
        mem_free(ids);
        ratios[i] = times[i] / (double)hostile_text.bytes / (text_seconds / (double)text.bytes);
    }
    *seconds = figures_median(times, (size_t)repeats);
    return figures_median(ratios, (size_t)repeats);
}

static void print_hostile(const tok *t, span text, int repeats) {
    printf("  \"hostile\": {");
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        strbuf row = {0};
        double seconds;
        while (row.bytes < MEGABYTE) strbuf_text(&row, hostile[i].unit);
        const double times = times_the_text(t, (span){row.at, row.bytes}, text, repeats, &seconds);
        printf("%s\"%s\": {\"mb_per_s\": %.2f, \"times_the_text\": %.2f}", i ? ", " : "", hostile[i].name,
               (double)row.bytes / seconds / 1e6, times);
        strbuf_free(&row);
    }
    printf("}\n");
}

int main(int argc, char **argv) {
    qp_error err;
    tok *t;
    char *text;
    size_t bytes, n;
    int32_t *ids;
    if (argc < 3) return fprintf(stderr, "usage: bench_tokenizer TOKENIZER TEXT [REPEATS]\n"), 2;
    const int asked = argc > 3 ? atoi(argv[3]) : 5, repeats = asked < 1 ? 1 : asked > MAX_REPEATS ? MAX_REPEATS : asked;
    const long before = peak_kib();
    check(tok_open(&t, argv[1], &err), &err);
    const long after = peak_kib();
    const double open_s = time_open(argv[1], repeats);
    check(file_read(&text, &bytes, argv[2], (size_t)1 << 30, &err), &err);
    const span whole = {text, bytes};
    const double encode_s = time_encode(t, whole, repeats, &ids, &n);
    bool is_same = false;
    const double decode_s = time_decode(t, ids, n, repeats, &is_same, whole);
    printf("{\"tokenizer\": \"%s\", \"text\": \"%s\", \"bytes\": %zu, \"ids\": %zu,\n", argv[1], argv[2], bytes, n);
    printf("  \"open_ms\": %.2f, \"open_peak_kib\": %ld, \"encode_mb_per_s\": %.2f, \"decode_mb_per_s\": %.2f,\n",
           open_s * 1e3, after - before, (double)bytes / encode_s / 1e6, (double)bytes / decode_s / 1e6);
    printf("  \"round_trip\": %s, \"ids_hash\": \"%016llx\",\n", is_same ? "true" : "false",
           (unsigned long long)hash_bytes(ids, n * sizeof *ids, 0));
    print_hostile(t, whole, repeats < 3 ? repeats : 3);
    printf("}\n");
    mem_free(ids);
    mem_free(text);
    tok_free(t);
    return 0;
}
