/* scan_test.c — compiled split patterns against PCRE2: the same matches on real text and on random characters. */
#include "regex.h"
#include "scan.h"
#include "uni.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS(digits) CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

/* The split patterns that published tokenizers use. All must be known to scan_compile. */
static const struct {
    const char *name, *pattern;
} known[] = {
    {"gpt2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"gpt2 in another order", "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"gpt2 possessive", "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s+(?!\\S)|\\s+"},
    {"three digits", WORDS("\\p{N}{1,3}")},
    {"single digits", WORDS("\\p{N}")},
    {"digit runs", WORDS("\\p{N}+")},
    {"marks with letters", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                           "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TAIL},
    {"cased", "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
              "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL},
    {"cased with contractions",
     "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
     "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL},
    {"newlines", "[\\r\\n]"},
    {"letters behind a space", "\\s?\\p{L}+"},
    {"punctuation behind a space", "\\s?\\p{P}+"},
    {"scripts by range", "[一-龥ࠀ-一가-퟿]+"},
    {"scripts by range, two", "[一-龥぀-ゟ゠-ヿ]+"},
    {"spelled ranges", "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΈ-ΎΑ-Ρ]+"},
    {"digits by three", "\\p{N}{1,3}"},
    {"ascii punctuation before letters",
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\\r\\n]*|" TAIL},
    {"two spaces", " {2,}"},
    {"letters without some", "[\\p{L}&&[^a-z]]+|[a-z&&[^aeiou]]"},
    {"look ahead", "\\p{N}(?=\\p{L})|\\p{Lu}+(?!\\p{Ll})"},
    {"counts", "[ab]{2}|c{1,}d?|[^a-d\\s]{2,4}"},
};

/* Not in the language, or of a meaning that is left to the general engine. */
static const char *const unknown[] = {
    "",           "a*",      "a|",      "(a)",         "a+?",     "(?:ab)+",  "\\p{N}{1,3}+", "^a",
    "a$",         ".",       "\\b",     "[[:alpha:]]", "[a[b]]",  "\\p{Han}", "(?i:\\p{Lu})", "(?i:ss)",
    "(?i:[a-z])", "(?i:fi)", "(?<a>b)", "\\1",         "[^a&&b]", "(?i:é)",   "[z-a]",        "a{2,1}",
    "(?=ab)c",    "[",       "(",       "\\",          "[a",      "a{",       "(?i:a",        "\\p{",
    "[]a]",       "*",       "a**"};

static void test_unknown(void **state) {
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        scan *s;
        assert_int_equal(scan_compile(&s, span_of(unknown[i]), NULL), QP_OK);
        if (s) fail_msg("\"%s\" is taken as known", unknown[i]);
    }
    scan_free(NULL);
}

/* PCRE2 leaves nothing back where the scanner says so, too: all matches in a row. */
static void compare(const char *name, const scan *s, const regex *r, regex_scratch *scratch, span text) {
    for (size_t from = 0; from < text.bytes;) {
        size_t start = 0, end = 0, want_start = 0, want_end = 0;
        bool want;
        const bool found = scan_next(s, text, from, &start, &end);
        assert_int_equal(regex_next(r, scratch, text, from, &want, &want_start, &want_end, NULL), QP_OK);
        if (found != want || start != want_start || end != want_end)
            fail_msg("%s: from %zu found [%zu, %zu), PCRE2 [%zu, %zu) in \"%.*s\"", name, from, start, end, want_start,
                     want_end, (int)(text.bytes - from < 80 ? text.bytes - from : 80), text.at + from);
        if (!found) return;
        from = end;
    }
}

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Characters where patterns have their edges, and any others. */
static void add_random(strbuf *b, uint64_t *seed) {
    static const char *const edges[] = {" ",
                                        "\n",
                                        "\r",
                                        "\t",
                                        "'",
                                        "s",
                                        "S",
                                        "\xc5\xbf",
                                        "L",
                                        "l",
                                        "a",
                                        "Z",
                                        "1",
                                        "/",
                                        "-",
                                        "\xc2\xa0",
                                        "\xe2\x80\xa8",
                                        "\xe3\x80\x80",
                                        "\xc2\x85",
                                        "\xcc\x81",
                                        "\xc7\x85",
                                        "\xca\xb0",
                                        "\xe4\xb8\x80",
                                        "\xc3\xa9",
                                        "\xc3\x89",
                                        "\xe2\x85\xa3",
                                        "_",
                                        "$",
                                        "\xe1\xa0\x8e",
                                        "\xe2\x80\x8b"};
    const uint64_t r = next_random(seed);
    uint32_t c = (uint32_t)(r >> 20) % (r >> 63 ? 0x3000 : 0x110000);
    for (int i = 0; i < uni_n_young; i++) /* younger than PCRE2's Unicode may be */
        if (c >= uni_young[2 * i] && c <= uni_young[2 * i + 1]) c = 'y';
    if ((r & 15) < 12)
        strbuf_text(b, edges[(r >> 8) % (sizeof edges / sizeof *edges)]);
    else if (c < 0xD800 || c > 0xDFFF)
        strbuf_utf8(b, c);
}

static void each_known(void (*check)(const char *name, const scan *s, const regex *r, regex_scratch *scratch)) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        scan *s;
        regex *r;
        qp_error err;
        regex_scratch scratch = {0};
        assert_int_equal(scan_compile(&s, span_of(known[i].pattern), NULL), QP_OK);
        if (!s) fail_msg("%s is not known", known[i].name);
        if (regex_compile(&r, span_of(known[i].pattern), &err)) fail_msg("%s: %s", known[i].name, err.text);
        check(known[i].name, s, r, &scratch);
        regex_scratch_free(&scratch);
        regex_free(r);
        scan_free(s);
    }
}

static void check_random(const char *name, const scan *s, const regex *r, regex_scratch *scratch) {
    const char *rounds = getenv("QUIPU_ROUNDS");
    uint64_t seed = 0x9E3779B97F4A7C15ull;
    strbuf text = {0};
    for (long i = rounds ? atol(rounds) : 4000; i > 0; i--) {
        strbuf_clear(&text);
        for (uint64_t n = next_random(&seed) % 30; n; n--) add_random(&text, &seed);
        compare(name, s, r, scratch, (span){text.at ? text.at : "", text.bytes});
    }
    strbuf_free(&text);
}

static void test_random(void **state) { each_known(check_random); }

/* Prose and code of the project itself. */
static void check_files(const char *name, const scan *s, const regex *r, regex_scratch *scratch) {
    static const char *const files[] = {"/include/quipu.h", "/src/text/scan_test.c", "/src/text/encode.c",
                                        "/tests/golden/make_tokenizers.py", "/LICENSE"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[4096], *text;
        size_t bytes;
        snprintf(path, sizeof path, "%s%s", QUIPU_SOURCE, files[i]);
        assert_int_equal(file_read(&text, &bytes, path, 1 << 24, NULL), QP_OK);
        assert_int_equal(utf8_valid_prefix(text, bytes), bytes);
        compare(name, s, r, scratch, (span){text, bytes});
        mem_free(text);
    }
}

static void test_files(void **state) { each_known(check_files); }

/* Every character alone, between letters and behind a space: all classes at once. */
static void check_characters(const char *name, const scan *s, const regex *r, regex_scratch *scratch) {
    strbuf text = {0};
    int young = 0;
    for (uint32_t c = 1; c < 0x32000; c++) {
        while (young < uni_n_young && c > uni_young[2 * young + 1]) young++;
        if ((c >= 0xD800 && c < 0xE000) || (young < uni_n_young && c >= uni_young[2 * young])) continue;
        strbuf_utf8(&text, c);
        strbuf_text(&text, c % 3 ? "a" : " ");
    }
    compare(name, s, r, scratch, (span){text.at, text.bytes});
    strbuf_free(&text);
}

static void test_characters(void **state) { each_known(check_characters); }

static void test_failing_memory(void **state) {
    for (int64_t n = 0;; n++) {
        scan *s;
        mem_fail_after(n);
        const qp_status status = scan_compile(&s, SPAN("[a-z]+|[0-9]{2}"), NULL);
        mem_fail_after(-1);
        scan_free(s);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
        assert_null(s);
        assert_true(n < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown),    cmocka_unit_test(test_random),         cmocka_unit_test(test_files),
        cmocka_unit_test(test_characters), cmocka_unit_test(test_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
