/* constrained_jobs_test.c — jobs under constraints beside everything else that a job can be: forced tokens, a full
 * house, preemption, banned and stop texts, healing, choices of one prompt; and a hot model under hundreds of schemas.
 * Through the public interface alone. */
#include "harness.h"
#include "quipu.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 8192, MOST_IDS = 2048 };

static qp_model *demo;
static const qp_tokenizer *tokenizer;

static int open_model(void **state) {
    const qp_model_options o = {.size = sizeof o, .threads = 2};
    qp_error err;
    if (qp_model_open(&demo, QUIPU_SOURCE "/models/demo", &o, &err)) return fprintf(stderr, "%s\n", err.text), 1;
    tokenizer = qp_model_peek_tokenizer(demo);
    return 0;
}

static int close_model(void **state) {
    qp_model_close(demo);
    return 0;
}

static qp_generator *new_generator(qp_generator_options o) {
    qp_generator *g;
    qp_error err;
    o.size = sizeof o;
    if (qp_generator_new(&g, demo, &o, &err)) fail_msg("%s", err.text);
    return g;
}

static qp_grammar *compile(const char *kind, const char *source) {
    qp_grammar *g;
    qp_error err;
    if (qp_grammar_new(&g, tokenizer, kind, source, strlen(source), NULL, NULL, &err)) fail_msg("%s", err.text);
    return g;
}

typedef struct answer {
    char text[MOST_TEXT];
    size_t bytes, n;
    int32_t ids[MOST_IDS];
    qp_event end;
    qp_status status;
    qp_error err;
} answer;

static void read_answer(qp_job *j, answer *a) {
    memset(a, 0, sizeof *a);
    for (;;) {
        a->status = qp_job_next(j, &a->end, &a->err);
        if (a->end.kind == QP_EVENT_END) return;
        assert_true(a->bytes + a->end.text_bytes < MOST_TEXT && a->n + a->end.n_ids <= MOST_IDS);
        memcpy(a->text + a->bytes, a->end.text, a->end.text_bytes + 1);
        a->bytes += a->end.text_bytes;
        if (a->end.n_ids) memcpy(a->ids + a->n, a->end.ids, a->end.n_ids * sizeof *a->ids);
        a->n += a->end.n_ids;
    }
}

static qp_job *submit(qp_generator *g, qp_job_options o, const qp_grammar *grammar) {
    qp_filter filter;
    qp_job *j;
    qp_error err;
    o.size = sizeof o;
    if (!o.prompt) o.prompt = "Once upon a time";
    if (qp_filter_new(&filter, grammar, &err)) fail_msg("%s", err.text);
    o.filters = &filter;
    o.n_filters = 1;
    if (qp_job_new(&j, g, &o, &err)) fail_msg("%s", err.text);
    return j;
}

static void run(qp_generator *g, qp_job_options o, const qp_grammar *grammar, answer *a) {
    qp_job *j = submit(g, o, grammar);
    read_answer(j, a);
    qp_job_free(j);
}

/* A whole text of the language, or a beginning of one where the job ran into its limit. */
static void check(const qp_grammar *g, const answer *a) {
    size_t n_good;
    bool complete;
    assert_int_equal(a->status, QP_OK);
    assert_int_equal(qp_grammar_check(g, a->text, a->bytes, &n_good, &complete, NULL, NULL), QP_OK);
    const bool is_cut = a->end.finish == QP_FINISH_LENGTH;
    if (n_good != a->bytes || (!complete && !is_cut))
        fail_msg("\"%s\" (%s) is refused at byte %zu", a->text, qp_finish_text(a->end.finish), n_good);
}

static const char order[] =
    "{\"type\":\"object\",\"properties\":{\"customer_name\":{\"enum\":[\"alpha centauri\",\"beta pictoris\"]},"
    "\"identification_number\":{\"type\":\"integer\"},\"delivery_address\":{\"type\":\"object\",\"properties\":{"
    "\"street_name\":{\"type\":\"string\",\"maxLength\":8}},\"required\":[\"street_name\"],\"additionalProperties\":"
    "false}},\"required\":[\"customer_name\",\"identification_number\",\"delivery_address\"],"
    "\"additionalProperties\":false}";

/* ---- forced tokens ---- */

static void what_is_certain_is_not_sampled(void **state) {
    qp_generator *g = new_generator((qp_generator_options){0});
    qp_grammar *grammar = compile("json_schema", order);
    answer a, again;
    for (uint64_t seed = 0; seed < 6; seed++) {
        const qp_job_options o = {.max_new_tokens = 200, .sampling = {.temperature = seed ? 2 : 0, .seed = seed}};
        qp_generator_stats before, after;
        qp_generator_get_stats(g, &before);
        run(g, o, grammar, &a);
        qp_generator_get_stats(g, &after);
        check(grammar, &a);
        assert_int_equal(a.n, a.end.stats.new_tokens);
        assert_in_range(a.end.stats.forced, 8, a.n);
        assert_true(after.steps - before.steps < a.n); /* some were computed together */
        run(g, o, grammar, &again);
        assert_string_equal(a.text, again.text);
        assert_memory_equal(a.ids, again.ids, a.n * sizeof *a.ids);
    }
    /* tokens are the tokenizer's own, not letters */
    assert_true(2 * a.bytes > 3 * a.n);
    qp_grammar_free(grammar);
    qp_generator_free(g);
}

static void who_asks_for_chances_gets_them(void **state) {
    qp_generator *g = new_generator((qp_generator_options){0});
    qp_grammar *grammar = compile("json_schema", order);
    const qp_bias bias = {5, 0.5f};
    answer a;
    qp_job_options rows[] = {{.want_logprobs = true}, {.n_top = 3}, {.bias = &bias, .n_bias = 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rows[i].max_new_tokens = 200;
        run(g, rows[i], grammar, &a);
        check(grammar, &a);
        assert_int_equal(a.end.stats.forced, 0);
    }
    qp_grammar_free(grammar);
    qp_generator_free(g);
}

/* ---- banned texts, stop texts, limits ---- */

static void banned_and_stop_texts_hold_beside(void **state) {
    qp_generator *g = new_generator((qp_generator_options){0});
    qp_grammar *grammar = compile("json_schema", order);
    static const char *const ban[] = {"Alpha", "12", "0"}, *const stop[] = {"identification_num"};
    answer a;
    for (uint64_t seed = 0; seed < 8; seed++) {
        qp_job_options o = {
            .max_new_tokens = 200, .sampling = {.temperature = 2, .seed = seed}, .ban = ban, .n_ban = 3};
        run(g, o, grammar, &a);
        check(grammar, &a);
        assert_null(strstr(a.text, "alpha"));
        assert_null(strstr(a.text, "12"));
        o.n_ban = 0;
        o.stop = stop;
        o.n_stop = 1;
        run(g, o, grammar, &a);
        assert_int_equal(a.end.finish, QP_FINISH_STOP);
        assert_true(a.bytes > 2 && a.text[a.bytes - 1] == '"' && strchr(", ", a.text[a.bytes - 2]));
        for (size_t most = 1; most < 12; most++) {
            run(g, (qp_job_options){.max_new_tokens = most, .sampling = o.sampling}, grammar, &a);
            assert_int_equal(a.end.finish, QP_FINISH_LENGTH);
            assert_int_equal(a.n, most);
            check(grammar, &a);
        }
    }
    qp_grammar_free(grammar);
    qp_generator_free(g);
}

static void nothing_left_fails_the_job_alone(void **state) {
    qp_generator *g = new_generator((qp_generator_options){0});
    qp_grammar *grammar = compile("json_schema", order), *other = compile("regex", "[ab]{3}");
    static const char *const ban[] = {"customer"};
    answer a;
    qp_job *fine = submit(g, (qp_job_options){.max_new_tokens = 20}, other);
    run(g, (qp_job_options){.max_new_tokens = 200, .ban = ban, .n_ban = 1}, grammar, &a);
    assert_int_equal(a.end.finish, QP_FINISH_ERROR);
    read_answer(fine, &a);
    check(other, &a);
    qp_job_free(fine);
    qp_grammar_free(grammar);
    qp_grammar_free(other);
    qp_generator_free(g);
}

/* ---- healing ---- */

static void the_first_token_may_complete_the_prompt(void **state) {
    qp_generator *g = new_generator((qp_generator_options){0});
    static const char *const patterns[] = {"[a-z]{2,5}!", "(?:he|ere|is|at)? end", "e[a-z ]*\\."};
    answer a;
    for (size_t i = 0; i < 3; i++) {
        qp_grammar *grammar = compile("regex", patterns[i]);
        for (uint64_t seed = 0; seed < 4; seed++) {
            run(g,
                (qp_job_options){.prompt = "Once upon a time t",
                                 .max_new_tokens = 30,
                                 .heal = true,
                                 .sampling = {.temperature = 1, .seed = seed}},
                grammar, &a);
            check(grammar, &a);
            char head[64];
            const int n = qp_token_bytes(tokenizer, a.ids[0], head, sizeof head);
            assert_true(n >= 2 && memcmp(head, " t", 2) == 0);
        }
        qp_grammar_free(grammar);
    }
    qp_generator_free(g);
}

/* ---- many ---- */

enum { N_JOBS = 16 };
static const char *const sources[][2] = {
    {"json_schema", order},
    {"regex", "(?:[0-9]{3}-){1,6}[a-z]{2,9}"},
    {"choices", "[\"a long choice that is forced\", \"another one that is not\", \"a long choice\"]"},
    {"json_object", ""},
    {"gbnf", "root ::= \"the list: \" item+\nitem ::= \"- \" [a-z]+ \"\\n\""},
};
enum { N_SOURCES = sizeof sources / sizeof *sources };

static qp_job_options options_of(int i) {
    return (qp_job_options){
        .max_new_tokens = 20 + (size_t)i * 7,
        .prompt = i % 3 ? "Once upon a time there was" : "The answer:",
        .sampling = {.temperature = i % 4 ? 1.5f : 0, .seed = (uint64_t)i, .repetition_penalty = 1.1f}};
}

static void each_job_is_alone(void **state) {
    static answer alone[N_JOBS], a;
    qp_grammar *grammars[N_SOURCES];
    qp_job *jobs[N_JOBS];
    for (int i = 0; i < N_SOURCES; i++) grammars[i] = compile(sources[i][0], sources[i][1]);
    for (int i = 0; i < N_JOBS; i++) {
        qp_generator *g = new_generator((qp_generator_options){.no_reuse = true});
        run(g, options_of(i), grammars[i % N_SOURCES], &alone[i]);
        check(grammars[i % N_SOURCES], &alone[i]);
        qp_generator_free(g);
    }
    static const qp_generator_options rooms[] = {
        {.cache_tokens = 1024}, {.cache_tokens = 1024, .max_jobs = 3}, {.cache_tokens = 16384}};
    for (size_t r = 0; r < sizeof rooms / sizeof *rooms; r++) {
        qp_generator *g = new_generator(rooms[r]);
        for (int i = 0; i < N_JOBS; i++) jobs[i] = submit(g, options_of(i), grammars[i % N_SOURCES]);
        for (int i = 0; i < N_JOBS; i++) {
            read_answer(jobs[i], &a);
            assert_string_equal(a.text, alone[i].text);
            assert_int_equal(a.n, alone[i].n);
            assert_memory_equal(a.ids, alone[i].ids, a.n * sizeof *a.ids);
            qp_job_free(jobs[i]);
        }
        qp_generator_free(g);
    }
    for (int i = 0; i < N_SOURCES; i++) qp_grammar_free(grammars[i]);
}

static void choices_of_one_prompt_have_a_filter_each(void **state) {
    qp_generator *g = new_generator((qp_generator_options){0});
    qp_grammar *grammar = compile("json_schema", order);
    qp_job_options o = {
        .size = sizeof o, .prompt = "Once", .max_new_tokens = 200, .sampling = {.temperature = 3, .seed = 40}};
    qp_job *jobs[5];
    qp_filter filter;
    answer a, single;
    qp_error err;
    assert_int_equal(qp_filter_new(&filter, grammar, NULL), QP_OK);
    o.filters = &filter;
    o.n_filters = 1;
    if (qp_jobs_new(jobs, 5, g, &o, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 5; i++) {
        read_answer(jobs[i], &a);
        check(grammar, &a);
        qp_job_options one = o;
        one.sampling.seed += (uint64_t)i;
        run(g, one, grammar, &single);
        assert_string_equal(a.text, single.text);
        qp_job_free(jobs[i]);
    }
    assert_int_equal(qp_filter_new(&filter, grammar, NULL), QP_OK);
    filter.clone = NULL;
    assert_int_equal(qp_jobs_new(jobs, 2, g, &o, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "clone"));
    qp_grammar_free(grammar);
    qp_generator_free(g);
}

static void guidance_goes_along(void **state) {
    qp_generator *g = new_generator((qp_generator_options){0});
    qp_grammar *grammar = compile("json_schema", order);
    answer a;
    run(g,
        (qp_job_options){
            .max_new_tokens = 200, .negative_prompt = "The end", .sampling = {.temperature = 1, .guidance = 2}},
        grammar, &a);
    check(grammar, &a);
    assert_true(a.end.stats.forced > 0);
    qp_grammar_free(grammar);
    qp_generator_free(g);
}

/* ---- a model that knows nothing under many schemas ---- */

/* QUIPU_SCHEMAS says how many; few where time is short. */
static size_t wanted_schemas(void) {
    const char *text = getenv("QUIPU_SCHEMAS");
    return text ? (size_t)strtoul(text, NULL, 10) : (size_t)HARNESS_TIMES(40);
}

typedef struct hot {
    qp_grammar *grammar;
    qp_job *job;
} hot;

static void end_hot(hot *h, size_t *n_whole) {
    static answer a;
    read_answer(h->job, &a);
    check(h->grammar, &a);
    if (a.end.finish != QP_FINISH_LENGTH) {
        json_t *value = json_loadb(a.text, a.bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (!value)
            value = json_loadb(a.text, a.bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        if (!value && !strpbrk(a.text, "eE"))
            fail_msg("\"%s\" is no JSON", a.text); /* 1e999 is too much for the parser */
        json_decref(value);
        ++*n_whole;
    }
    qp_job_free(h->job);
    qp_grammar_free(h->grammar);
}

/* Schemas of our own and, where they are, of the fixtures, as texts. */
static json_t *all_schemas(void) {
    json_t *all = json_array(), *own = json_load_file(QUIPU_SOURCE "/tests/golden/schemas/cases.json", 0, NULL), *row;
    FILE *pipe = popen("cd " QUIPU_FIXTURES "/constrain 2>/dev/null && gzip -dc schemas.jsonl.gz stress.jsonl.gz && "
                       "cat suite.jsonl",
                       "r");
    char *line = NULL;
    size_t room = 0, i;
    json_array_foreach(own, i, row) json_array_append(all, json_object_get(row, "schema"));
    while (pipe && getline(&line, &room, pipe) > 0) {
        row = json_loads(line, JSON_ALLOW_NUL, NULL);
        char *schema = json_dumps(json_object_get(row, "schema"), JSON_ENCODE_ANY | JSON_COMPACT);
        if (schema) json_array_append_new(all, json_string(schema));
        free(schema);
        json_decref(row);
    }
    if (pipe) pclose(pipe);
    free(line);
    json_decref(own);
    return all;
}

static void a_hot_model_keeps_to_every_schema(void **state) {
    enum { AT_ONCE = 16 };
    hot ring[AT_ONCE] = {{NULL, NULL}};
    json_t *all = all_schemas();
    const size_t count = json_array_size(all), wanted = wanted_schemas();
    size_t n = 0, n_whole = 0;
    qp_generator *g = new_generator((qp_generator_options){.cache_tokens = 16384});
    assert_true(count > 100);
    for (size_t i = 0; n < wanted && i < 3 * count; i++) { /* 7 places apart: from all over the list */
        const char *schema = json_string_value(json_array_get(all, i * 7 % count));
        qp_grammar *grammar;
        assert_non_null(schema);
        if (qp_grammar_new(&grammar, tokenizer, "json_schema", schema, strlen(schema), NULL, NULL, NULL) != QP_OK)
            continue;
        hot *h = &ring[n % AT_ONCE];
        if (h->job) end_hot(h, &n_whole);
        const qp_job_options o = {.max_new_tokens = 120, .sampling = {.temperature = 5, .seed = n}};
        *h = (hot){grammar, submit(g, o, grammar)};
        n++;
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (ring[i].job) end_hot(&ring[i], &n_whole);
    qp_generator_free(g);
    json_decref(all);
    printf("%zu of %zu schemas, %zu answers were whole\n", n, count, n_whole);
    assert_int_equal(n, wanted);
    assert_true(n_whole > n / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_certain_is_not_sampled),           cmocka_unit_test(who_asks_for_chances_gets_them),
        cmocka_unit_test(banned_and_stop_texts_hold_beside),        cmocka_unit_test(nothing_left_fails_the_job_alone),
        cmocka_unit_test(the_first_token_may_complete_the_prompt),  cmocka_unit_test(each_job_is_alone),
        cmocka_unit_test(choices_of_one_prompt_have_a_filter_each), cmocka_unit_test(guidance_goes_along),
        cmocka_unit_test(a_hot_model_keeps_to_every_schema),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
