/* schema_lower_test.c — JSON Schema from text to verdicts: own cases for each keyword and option, then the shared
 * schemas, the suite and the schemas made to hurt, each verdict asked twice: of the compiled matcher and of the slow
 * recogniser in ir_oracle.h. */
#include "base/json.h"
#include "base/mem.h"
#include "grammar.h"
#include "ir_oracle.h"
#include "schema_lower.h"
#include "text/jsonscan.h"
#include <time.h>

#define CASES QUIPU_SOURCE "/tests/golden/schemas/cases.json"
#define FIXTURES QUIPU_FIXTURES "/constrain/"

/* ---- one schema compiled twice: as rules, and as a grammar over single bytes ---- */

typedef struct compiled {
    ir *rules;
    ir_sym start;
    grammar *grammar;
    qp_status status;
    qp_error err;
    double seconds;
} compiled;

static span one_byte(const void *user, int32_t id, trie_flag *flag) {
    const char *all = user;
    *flag = TRIE_NORMAL;
    return (span){all + id, 1};
}

static trie *byte_trie(void) {
    static char bytes[256];
    for (int i = 0; i < 256; i++) bytes[i] = (char)i;
    const trie_source source = {.size = 256, .bytes = one_byte, .user = bytes};
    trie *t;
    assert_int_equal(trie_new(&t, &source, NULL), QP_OK);
    return t;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static qp_status lower(ir **out, ir_sym *start, span text, const ir_options *options, qp_error *err) {
    ERR_TRY(ir_new(out, NULL, err));
    return schema_lower(*out, start, text, options, err);
}

static compiled compile(trie *t, span text, const ir_options *options) {
    compiled c = {0};
    ir *twin = NULL;
    ir_sym start;
    const double before = now();
    c.status = lower(&c.rules, &c.start, text, options, &c.err);
    if (c.status == QP_OK) c.status = lower(&twin, &start, text, options, &c.err);
    const double middle = now();
    if (c.status == QP_OK) {
        ir_start(twin, start);
        ir_fuse(twin, false);
        c.status = grammar_from_ir(&c.grammar, t, twin, NULL, &c.err);
    }
    c.seconds = now() - middle + (middle - before) / 2;
    if (!c.grammar) ir_free(twin);
    return c;
}

static void release(compiled *c) {
    ir_free(c->rules);
    grammar_free(c->grammar);
}

static bool matcher_accepts(const compiled *c, span text) {
    matcher *m;
    assert_int_equal(matcher_new(&m, c->grammar, NULL), QP_OK);
    bool ok = true;
    for (size_t i = 0; i < text.bytes && ok; i++) ok = !matcher_accept_bytes(m, (span){text.at + i, 1}, NULL);
    ok = ok && matcher_may_end(m);
    matcher_free(m);
    return ok;
}

static bool accepts(const char *name, const compiled *c, span text) {
    const bool ok = oracle_accepts(c->rules, c->start, text);
    if (matcher_accepts(c, text) != ok)
        fail_msg("%s: the matcher and the slow recogniser disagree on %.*s", name, (int)text.bytes, text.at);
    return ok;
}

/* ---- own cases ---- */

static ir_options read_options(const json_t *from) {
    int64_t fraction = 0, exponent = 0;
    ir_options o = {.whitespace = "flexible:inf", .repeat_extra_keys = true};
    qp_error err;
    if (!from) return o;
    assert_int_equal(json_get_text(from, "whitespace", &o.whitespace, "options", &err), QP_OK);
    assert_int_equal(json_get_bool(from, "lenient", &o.lenient, "options", &err), QP_OK);
    assert_int_equal(json_get_bool(from, "any_order", &o.any_order, "options", &err), QP_OK);
    assert_int_equal(json_get_bool(from, "unicode_escapes", &o.unicode_escapes, "options", &err), QP_OK);
    assert_int_equal(json_get_bool(from, "ignore_formats", &o.ignore_formats, "options", &err), QP_OK);
    assert_int_equal(json_get_int(from, "fraction_digits", -1, 100, &fraction, "options", &err), QP_OK);
    assert_int_equal(json_get_int(from, "exponent_digits", -1, 100, &exponent, "options", &err), QP_OK);
    o.fraction_digits = (int)fraction, o.exponent_digits = (int)exponent;
    return o;
}

static span text_of(const json_t *s) { return (span){json_string_value(s), json_string_length(s)}; }

static void check_texts(const char *name, const compiled *c, const json_t *texts, bool wanted) {
    size_t i;
    json_t *text;
    json_array_foreach(texts, i, text) {
        if (accepts(name, c, text_of(text)) != wanted)
            fail_msg("%s: %s must be %s", name, json_string_value(text), wanted ? "accepted" : "refused");
    }
}

static bool is_noted(const ir *g, const char *wanted) {
    for (size_t i = 0; i < ir_n_entries(g); i++) {
        const ir_entry e = ir_get_entry(g, i);
        if (e.note != IR_NARROWED && strstr(e.path, wanted)) return true;
    }
    return false;
}

static void check_case(trie *t, const json_t *row) {
    const char *name = json_string_value(json_object_get(row, "name"));
    const char *refused = json_string_value(json_object_get(row, "refused"));
    const char *noted = json_string_value(json_object_get(row, "notes"));
    const ir_options options = read_options(json_object_get(row, "options"));
    compiled c = compile(t, text_of(json_object_get(row, "schema")), &options);
    if (refused) {
        if (c.status == QP_OK) fail_msg("%s: must be refused with \"%s\"", name, refused);
        if (!strstr(c.err.text, refused)) fail_msg("%s: \"%s\" does not say \"%s\"", name, c.err.text, refused);
    } else {
        if (c.status != QP_OK) fail_msg("%s: %s", name, c.err.text);
        check_texts(name, &c, json_object_get(row, "accept"), true);
        check_texts(name, &c, json_object_get(row, "reject"), false);
    }
    if (noted && !is_noted(c.rules, noted)) fail_msg("%s: the report has nothing about \"%s\"", name, noted);
    release(&c);
}

static json_t *read_cases(void) {
    json_t *cases;
    qp_error err;
    if (json_load_path(&cases, CASES, 1 << 20, &err)) fail_msg("%s", err.text);
    assert_true(json_array_size(cases) > 100);
    return cases;
}

static void each_keyword_and_option(void **state) {
    trie *t = byte_trie();
    json_t *cases = read_cases(), *row;
    size_t i;
    json_array_foreach(cases, i, row) check_case(t, row);
    json_decref(cases);
    trie_free(t);
}

static int warnings(const char *text, bool repeat_extra_keys) {
    const ir_options options = {.repeat_extra_keys = repeat_extra_keys};
    ir *g;
    ir_sym start;
    int n = 0;
    assert_int_equal(lower(&g, &start, span_of(text), &options, NULL), QP_OK);
    for (size_t i = 0; i < ir_n_entries(g); i++) n += ir_get_entry(g, i).note == IR_WARNING;
    ir_free(g);
    return n;
}

/* That unknown keys may come twice is a warning, unless it was asked for or cannot be. */
static void what_is_wider_is_told(void **state) {
    static const char open[] = "{\"type\":\"object\"}",
                      closed[] = "{\"type\":\"object\",\"additionalProperties\":false}";
    assert_int_equal(warnings(open, false), 1);
    assert_int_equal(warnings(open, true), 0);
    assert_int_equal(warnings(closed, false), 0);
}

/* Every allocation of every small case fails once: an error and nothing left behind. */
static void memory_may_be_short_anywhere(void **state) {
    json_t *cases = read_cases(), *row;
    size_t i;
    json_array_foreach(cases, i, row) {
        const span text = text_of(json_object_get(row, "schema"));
        const ir_options options = read_options(json_object_get(row, "options"));
        for (int64_t n = 0, step = 1; text.bytes<200; n += step, step += n> 60 ? 7 : 0) {
            ir *g = NULL;
            ir_sym start;
            qp_error err = {0};
            mem_fail_after(n);
            const qp_status status = lower(&g, &start, text, &options, &err);
            const bool reached = mem_count() > n;
            mem_fail_after(-1);
            ir_free(g);
            if (!reached) break;
            if (status == QP_OK) fail_msg("%s: allocation %d failed unnoticed", text.at, (int)n);
        }
    }
    json_decref(cases);
}

/* A schema cut anywhere is refused with an offset inside. */
static void cut_anywhere(void **state) {
    static const char text[] = "{\"type\":\"object\",\"properties\":{\"a\\u00e9\":{\"enum\":[1.5e3,true,null,\"x\"]}}}";
    for (size_t n = 0; n + 1 < sizeof text - 1; n++) {
        ir *g;
        ir_sym start;
        qp_error err = {0};
        char *copy = malloc(n + 1); /* so that reading past the end is seen */
        memcpy(copy, text, n);
        assert_int_equal(lower(&g, &start, (span){copy, n}, NULL, &err), QP_BAD_FORMAT);
        assert_true(err.offset <= n);
        free(copy);
        ir_free(g);
    }
}

/* What strangers send to hurt: refused or compiled, within the limits. */
static void hostile_schemas_end_in_time(void **state) {
    strbuf deep = {0}, wide = {0}, chain = {0};
    for (int i = 0; i < 100000; i++) strbuf_text(&deep, "{\"items\":");
    strbuf_text(&wide, "{\"allOf\":[");
    for (int i = 0; i < 14; i++)
        strbuf_format(&wide, "%s{\"anyOf\":[{\"properties\":{\"a%d\":{\"type\":\"null\"}}},{\"required\":[\"b%d\"]}]}",
                      i ? "," : "", i, i);
    strbuf_text(&wide, "]}");
    strbuf_text(&chain, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{\"d5000\":{}");
    for (int i = 0; i < 5000; i++) strbuf_format(&chain, ",\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"}]}", i, i + 1);
    strbuf_text(&chain, "}}");
    const struct {
        span text;
        const char *says;
    } cases[] = {{{deep.at, deep.bytes}, "nested deeper"},
                 {{wide.at, wide.bytes}, "limit"},
                 {{chain.at, chain.bytes}, "too many schemas apply"},
                 {SPAN("{\"type\":\"string\",\"pattern\":\"(((((a{1000}){1000}){1000}){1000}){1000})*b\"}"), NULL}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        ir *g;
        ir_sym start;
        qp_error err = {0};
        const double before = now();
        const qp_status status = lower(&g, &start, cases[i].text, NULL, &err);
        assert_true(now() - before < 5.0);
        assert_int_equal(status != QP_OK, cases[i].says != NULL);
        if (cases[i].says && !strstr(err.text, cases[i].says)) fail_msg("case %zu: %s", i, err.text);
        ir_free(g);
    }
    strbuf_free(&deep);
    strbuf_free(&wide);
    strbuf_free(&chain);
}

/* ---- the shared fixtures ---- */

/* The raw text of a member: the tree has lost digits and spellings. */
static span raw_member(span line, const char *name) {
    jsonscan s = jsonscan_start(line.at, line.bytes, "fixture", NULL);
    size_t n = 0;
    span key, value = {0}, found = {0};
    assert_true(jsonscan_enter(&s, '{'));
    while (jsonscan_member(&s, &n, &key)) {
        const bool wanted = span_is(key, name);
        assert_true(jsonscan_skip(&s, &value));
        if (wanted) found = value;
    }
    jsonscan_end(&s);
    return found;
}

static FILE *open_lines(const char *name) {
    char path[4096], command[4200];
    snprintf(path, sizeof path, FIXTURES "%s", name);
    if (access(path, R_OK)) return NULL;
    if (!strstr(name, ".gz")) return fopen(path, "r");
    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    return popen(command, "r");
}

static void close_lines(const char *name, FILE *f) {
    if (strstr(name, ".gz"))
        assert_int_equal(pclose(f), 0);
    else
        fclose(f);
}

typedef struct tally {
    int n, refused, hard_refused, refusals_of_valid, n_texts;
    double *seconds;
} tally;

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *what, tally *t) {
    if (!t->n) return;
    qsort(t->seconds, (size_t)t->n, sizeof *t->seconds, by_size);
    printf("%s: %d schemas, compile p50 %.2f ms, max %.2f ms; %d refused, %d texts, %d valid texts refused\n", what,
           t->n, t->seconds[t->n / 2] * 1e3, t->seconds[t->n - 1] * 1e3, t->refused + t->hard_refused, t->n_texts,
           t->refusals_of_valid);
    free(t->seconds);
}

static void count_time(tally *t, double seconds) {
    t->seconds = realloc(t->seconds, (size_t)(t->n + 1) * sizeof *t->seconds);
    assert_non_null(t->seconds);
    t->seconds[t->n++] = seconds;
}

/* Valid texts that the fixed order of properties refuses are taken in any order. */
static bool accepts_in_any_order(trie *t, span schema, span text) {
    const ir_options options = {.whitespace = "flexible:inf",
                                .repeat_extra_keys = true,
                                .any_order = true,
                                .fraction_digits = -1,
                                .exponent_digits = -1,
                                .ignore_formats = true};
    compiled c = compile(t, schema, &options);
    bool ok = c.status == QP_OK && accepts("any order", &c, text);
    for (size_t i = 0; i < ir_n_entries(c.rules); i++) /* conditions between keys: the order stays, and is said to */
        ok |= strstr(ir_get_entry(c.rules, i).message, "keeps the order") != NULL;
    release(&c);
    return ok;
}

static void check_schema_record(trie *t, tally *sum, span line) {
    const ir_options options = {.whitespace = "flexible:inf",
                                .repeat_extra_keys = true,
                                .fraction_digits = -1,
                                .exponent_digits = -1,
                                .ignore_formats = true};
    json_t *row, *text;
    size_t i;
    assert_int_equal(json_parse(&row, line.at, line.bytes, "fixture", NULL), QP_OK);
    const char *id = json_string_value(json_object_get(row, "id"));
    const char *tier = json_string_value(json_object_get(row, "tier"));
    const span schema = raw_member(line, "schema");
    compiled c = compile(t, schema, &options);
    count_time(sum, c.seconds);
    if (c.status != QP_OK) {
        const bool hard = tier && !strcmp(tier, "hard");
        if (!hard) fail_msg("%s: %s", id, c.err.text);
        printf("refused: %s: %s\n", id, c.err.text);
        const char *split = json_string_value(json_object_get(row, "split"));
        const bool adversarial = !strcmp(split, "Synthesized") || !strcmp(split, "Handwritten");
        sum->hard_refused += adversarial;
        sum->refused += !adversarial;
    } else {
        json_array_foreach(json_object_get(row, "valid"), i, text) {
            sum->n_texts++;
            if (accepts(id, &c, text_of(text))) continue;
            sum->refusals_of_valid++;
            if (!accepts_in_any_order(t, schema, text_of(text)))
                fail_msg("%s: %s is valid", id, json_string_value(text));
        }
        json_array_foreach(json_object_get(row, "invalid"), i, text) {
            sum->n_texts++;
            if (accepts(id, &c, text_of(text))) fail_msg("%s: %s is not valid", id, json_string_value(text));
        }
    }
    release(&c);
    json_decref(row);
}

static void each_line(const char *name, tally *sum, void (*check)(trie *t, tally *sum, span line)) {
    FILE *f = open_lines(name);
    if (!f) HARNESS_SKIP("%s%s is not there", FIXTURES, name);
    trie *t = byte_trie();
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    while ((n = getline(&line, &room, f)) > 0) check(t, sum, (span){line, (size_t)n});
    free(line);
    trie_free(t);
    close_lines(name, f);
}

static void shared_schemas(void **state) {
    tally sum = {0};
    each_line("schemas.jsonl.gz", &sum, check_schema_record);
    assert_true(sum.refused * 20 <= sum.n);      /* at most 5 % outside the two adversarial splits */
    assert_true(sum.hard_refused * 10 <= sum.n); /* and few inside */
    assert_true(sum.refusals_of_valid * 50 <= sum.n_texts);
    print_times("schemas", &sum);
}

static void schemas_made_to_hurt(void **state) {
    tally sum = {0};
    each_line("stress.jsonl.gz", &sum, check_schema_record);
    assert_int_equal(sum.refused + sum.hard_refused + sum.refusals_of_valid, 0);
    print_times("stress", &sum);
}

/* Where the README of the fixtures says that the official verdict asks for more than a regular language tells. */
static bool is_label_test(const char *id) { return !strncmp(id, "optional/format/hostname", 24); }

/* Valid texts that a declared narrowing leaves out, beside the order of properties. */
static bool is_narrowed(const char *text) { return strstr(text, ".0") != NULL; }

static void check_suite_record(trie *t, tally *sum, span line) {
    const ir_options options = {
        .whitespace = "flexible:inf", .repeat_extra_keys = true, .fraction_digits = -1, .exponent_digits = -1};
    json_t *row, *test;
    size_t i;
    assert_int_equal(json_parse(&row, line.at, line.bytes, "fixture", NULL), QP_OK);
    const char *id = json_string_value(json_object_get(row, "id"));
    const span schema = raw_member(line, "schema");
    compiled c = compile(t, schema, &options);
    count_time(sum, c.seconds);
    bool has_valid = false;
    json_array_foreach(json_object_get(row, "tests"), i, test) {
        const json_t *text = json_object_get(test, "text");
        const bool valid = json_is_true(json_object_get(test, "valid"));
        has_valid |= valid;
        if (c.status != QP_OK) continue;
        const bool got = accepts(id, &c, text_of(text));
        sum->n_texts++;
        if (got && !valid && !is_label_test(id)) fail_msg("%s: %s is not valid", id, json_string_value(text));
        if (got || !valid) continue;
        sum->refusals_of_valid++;
        if (!is_narrowed(json_string_value(text)) && json_string_value(text)[0] != '{')
            fail_msg("%s: %s is valid", id, json_string_value(text));
    }
    if (c.status != QP_OK && has_valid) {
        sum->refused++;
        printf("refused: %s: %s\n", id, c.err.text);
    }
    release(&c);
    json_decref(row);
}

static void official_suite(void **state) {
    tally sum = {0};
    each_line("suite.jsonl", &sum, check_suite_record);
    assert_in_range(sum.refused, 0, 6);
    assert_in_range(sum.refusals_of_valid, 0, 10);
    print_times("suite", &sum);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_keyword_and_option),      cmocka_unit_test(what_is_wider_is_told),
        cmocka_unit_test(memory_may_be_short_anywhere), cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(hostile_schemas_end_in_time),  cmocka_unit_test(shared_schemas),
        cmocka_unit_test(schemas_made_to_hurt),         cmocka_unit_test(official_suite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
