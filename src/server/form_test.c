/* form_test.c — whatever a model writes under a form, the reader of answers understands: random walks through the masks
 * of every notation of calls, with tags that are tokens and tags that are text, forced and left to the model, with
 * thoughts before them and with a demand beside them. */
#include "form.h"
#include "harness.h"
#include "base/mem.h"
#include <stdlib.h>
#include <unistd.h>

enum { MOST_TOKENS = 700, WALKS = HARNESS_TIMES(6), MOST_TAGS = 40 };

/* ---- a vocabulary: characters and, where wanted, the tags as special tokens ---- */

static const char *const pieces[] = {"\n",  "｜", "▁",  "é",  "the ", "\":", "{\"",
                                     "\"}", ", ", "</", "<|", "true", "arg", "ab"};

static size_t list_tags(const tool_format *f, const char *tags[MOST_TAGS]) {
    static const char *const others[] = {"<think>",       "</think>",  "<|channel|>",  "<|message|>",
                                         "<|end|>",       "<|start|>", "<|call|>",     "<|return|>",
                                         "<|constrain|>", "<|\"|>",    "<|tool_call>", "<|role_sep|>"};
    const char *const own[] = {f->section[0], f->section[1], f->call[0],  f->call[1],
                               f->key[0],     f->key[1],     f->value[1], f->after_name};
    size_t n = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) /* not "<function=" and its like */
        if (strlen(own[i]) > 3 && strchr("<[", *own[i]) && strchr(">]", own[i][strlen(own[i]) - 1])) tags[n++] = own[i];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) tags[n++] = others[i];
    return n;
}

static void add_piece(json_t *vocabulary, json_t *added, const char *piece, bool is_special) {
    const int id = (int)json_object_size(vocabulary);
    if (json_object_get(vocabulary, piece)) return;
    json_object_set_new(vocabulary, piece, json_integer(id));
    json_array_append_new(added, json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", id, "content", piece, "single_word",
                                           0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", is_special));
}

static qp_tokenizer *make_tokenizer(const tool_format *f, bool has_specials) {
    json_t *vocabulary = json_object(), *added = json_array();
    const char *tags[MOST_TAGS];
    const size_t n_tags = has_specials ? list_tags(f, tags) : 0;
    char letter[2] = "";
    add_piece(vocabulary, added, "<eos>", true);
    for (size_t i = 0; i < n_tags; i++) add_piece(vocabulary, added, tags[i], true);
    for (letter[0] = ' '; letter[0] < 127; letter[0]++) add_piece(vocabulary, added, letter, false);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) add_piece(vocabulary, added, pieces[i], false);
    json_t *all = json_pack("{s:s,s:o,s:{s:s},s:{s:s,s:o,s:[]}}", "version", "1.0", "added_tokens", added, "decoder",
                            "type", "Fuse", "model", "type", "BPE", "vocab", vocabulary, "merges");
    char folder[] = "/tmp/quipu-form-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(json_dump_file(all, path, 0), 0);
    json_decref(all);
    qp_tokenizer *t;
    qp_error err;
    if (qp_tokenizer_open(&t, path, &err) != QP_OK) fail_msg("%s", err.text);
    unlink(path);
    rmdir(folder);
    return t;
}

/* ---- a request ---- */

static const char tool_list[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"find_it\",\"strict\":true,\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"place\":{\"type\":\"string\"},\"unit\":{\"type\":\"string\",\"enum\":[\"C\",\"F\"]},\"n\":{"
    "\"type\":\"integer\",\"minimum\":1,\"maximum\":40},\"list\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
    "\"maxItems\":2},\"deep\":{\"type\":\"object\",\"properties\":{\"on\":{\"type\":\"boolean\"},\"w\":{\"type\":"
    "\"string\",\"enum\":[\"x</parameter>y\",\"z\"]}},\"required\":[\"on\"],\"additionalProperties\":false}},"
    "\"required\":[\"n\",\"place\"],\"additionalProperties\":false}}},{\"type\":\"function\",\"function\":{\"name\":"
    "\"now\",\"parameters\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}}}]";
static const char demanded[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,\"<tool_call>\",null]}},"
                               "\"required\":[\"a\"],\"additionalProperties\":false}";

typedef enum mode { FORCED, NAMED, LAZY, EITHER, SINGLE, N_MODES } mode;
static const char *const mode_names[] = {"forced", "named", "lazy", "either", "single"};

typedef struct scene {
    const tool_format *format;
    const char *tools; /* NULL: tool_list */
    mode mode;
    bool has_specials, thinks, starts_in_thought;
    qp_tokenizer *tokenizer;
    ask ask;
    demand demand;
    speech_setup reader;
    answer_form form;
} scene;

static bool try_scene(scene *s, refusal *why) {
    static const thought_format think = {"<think>", "</think>"};
    s->ask = (ask){.tools = json_loads(s->tools ? s->tools : tool_list, 0, NULL), .f = {.reasoning_budget = -1}};
    assert_non_null(s->ask.tools);
    s->ask.has_strict = true;
    s->ask.choice = s->mode == NAMED                         ? CHOOSE_NAMED
                    : s->mode == FORCED || s->mode == SINGLE ? CHOOSE_REQUIRED
                                                             : CHOOSE_AUTO;
    s->ask.chosen = "now";
    s->demand = (demand){.param = NULL};
    if (s->mode == EITHER)
        s->demand = (demand){.param = "response_format", .kind = "json_schema", .source = span_of(demanded)};
    const bool thinks = s->thinks && s->format->body != BODY_HARMONY;
    s->reader = (speech_setup){.tools = s->format,
                               .thoughts = thinks ? &think : NULL,
                               .starts_in_thought = thinks && s->starts_in_thought,
                               .is_single = s->mode == SINGLE,
                               .tool_list = s->ask.tools};
    const form_setup setup = {
        .ask = &s->ask, .demand = &s->demand, .tokenizer = s->tokenizer, .speech = &s->reader, .may_think = thinks};
    return form_make(&s->form, &setup, why);
}

static void open_scene(scene *s) {
    refusal why;
    if (!try_scene(s, &why)) fail_msg("%s, %s: %s", s->format->name, mode_names[s->mode], why.text);
    assert_non_null(s->form.grammar);
}

static void close_scene(scene *s) {
    form_free(&s->form);
    json_decref(s->ask.tools);
    arena_free(&s->ask.memory);
}

/* ---- walking ---- */

typedef struct rng {
    uint64_t state;
} rng;

static uint64_t rng_next(rng *r) {
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return r->state >> 33;
}

static bool is_set(const uint32_t *bits, int32_t id) { return bits[id >> 5] >> (id & 31) & 1; }

static void get_mask(const qp_filter *f, uint32_t *bits, int n, bool *may_end) {
    qp_error err;
    memset(bits, 0xFF, (((size_t)n + 31) / 32) * sizeof *bits);
    if (f->mask(f->user, bits, n, may_end, &err) != QP_OK) fail_msg("%s", err.text);
}

static void take(const qp_filter *f, strbuf *text, const qp_tokenizer *t, int32_t id) {
    char bytes[256];
    qp_error err;
    if (f->accept(f->user, id, &err) != QP_OK) fail_msg("%s", err.text);
    strbuf_add(text, bytes, (size_t)qp_token_bytes(t, id, bytes, sizeof bytes));
}

/* Tries to write a tag, character by character or as a token; what was begun is left standing. */
static void push_tag(const qp_filter *f, strbuf *text, const qp_tokenizer *t, const char *tag, int n) {
    uint32_t bits[64];
    bool may_end;
    const int32_t whole = qp_token_id(t, tag);
    get_mask(f, bits, n, &may_end);
    if (whole >= 0) {
        if (is_set(bits, whole)) take(f, text, t, whole);
        return;
    }
    for (const char *at = tag; *at; at++) {
        const char letter[4] = {*at, (*at & 0x80) ? at[1] : 0, (*at & 0x80) ? at[2] : 0};
        const int32_t id = qp_token_id(t, letter);
        if (id < 0 || !is_set(bits, id)) return;
        take(f, text, t, id);
        if (*at & 0x80) at += 2;
        get_mask(f, bits, n, &may_end);
    }
}

static int32_t random_id(const uint32_t *bits, int n, rng *r) {
    int count = 0;
    for (int32_t id = 0; id < n; id++) count += is_set(bits, id);
    int left = count ? (int)(rng_next(r) % (uint64_t)count) : 0;
    for (int32_t id = 0; id < n; id++)
        if (is_set(bits, id) && !left--) return id;
    return -1;
}

/* A random answer; false: it did not end in time. */
static bool walk(const scene *s, strbuf *text, rng *r) {
    const char *tags[MOST_TAGS];
    const size_t n_tags = list_tags(s->format, tags);
    const int n = qp_tokenizer_size(s->tokenizer);
    qp_filter f;
    uint32_t bits[64];
    bool ended = false;
    assert_in_range(n, 1, 64 * 32);
    assert_int_equal(qp_filter_new(&f, s->form.grammar, NULL), QP_OK);
    for (int i = 0; i < MOST_TOKENS && !ended; i++) {
        bool may_end;
        if (rng_next(r) % 6 == 0) push_tag(&f, text, s->tokenizer, tags[rng_next(r) % n_tags], n);
        get_mask(&f, bits, n, &may_end);
        const int32_t id = random_id(bits, n, r);
        assert_true(may_end || id >= 0);
        ended = id < 0 || (may_end && rng_next(r) % 4 == 0);
        if (!ended) take(&f, text, s->tokenizer, id);
    }
    f.free(f.user);
    return ended;
}

/* ---- reading ---- */

typedef struct heard {
    const scene *scene;
    strbuf text, arguments;
    char name[64];
    int n_calls;
    const strbuf *all;
} heard;

static void check_arguments(heard *h) {
    size_t i;
    for (i = 0; i < h->arguments.bytes; i++) /* a constraint itself never writes a bare DEL */
        if (h->arguments.at[i] == 0x7F) h->arguments.at[i] = 'x';
    const json_t *tool;
    json_array_foreach(h->scene->ask.tools, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), h->name)) continue;
        char *schema = json_dumps(json_object_get(function, "parameters"), JSON_REAL_PRECISION(15));
        const qp_grammar_options o = {.size = sizeof o, .whitespace = "flexible:inf", .any_order = true};
        qp_grammar *g;
        size_t n_good;
        bool complete;
        assert_int_equal(qp_grammar_new(&g, h->scene->tokenizer, "json_schema", schema, strlen(schema), &o, NULL, NULL),
                         QP_OK);
        assert_int_equal(qp_grammar_check(g, h->arguments.at, h->arguments.bytes, &n_good, &complete, NULL, NULL),
                         QP_OK);
        if (!complete) fail_msg("%s: %s, of\n%s", h->name, h->arguments.at, h->all->at);
        qp_grammar_free(g);
        free(schema);
        return;
    }
    fail_msg("no tool is called \"%s\"", h->name);
}

static void hear(void *user, const speech_part *p) {
    heard *h = user;
    if (p->kind == SAY_TEXT) strbuf_add(&h->text, p->text.at, p->text.bytes);
    if (p->kind == SAY_ARGUMENTS) strbuf_add(&h->arguments, p->text.at, p->text.bytes);
    if (p->kind == SAY_CALL) {
        snprintf(h->name, sizeof h->name, "%.*s", (int)p->text.bytes, p->text.at);
        strbuf_clear(&h->arguments);
        h->n_calls++;
    }
    if (p->kind != SAY_CALL_END) return;
    if (!p->is_complete) fail_msg("%s: an incomplete call in\n%s", h->scene->format->name, h->all->at);
    check_arguments(h);
}

static void check_demand(const heard *h) {
    json_t *value = json_loadb(h->text.at ? h->text.at : "", h->text.bytes, 0, NULL);
    if (!value || !json_object_get(value, "a") || json_object_size(value) != 1)
        fail_msg("%s: \"%s\" is not what was demanded", h->scene->format->name, h->text.at);
    json_decref(value);
}

static bool has_words(const strbuf *b) { return b->bytes && strspn(b->at, " \t\r\n") < b->bytes; }

static void read_answer(const scene *s, const strbuf *text) {
    heard h = {.scene = s, .all = text};
    speech_setup setup = s->reader;
    setup.say = hear;
    setup.user = &h;
    speech *reader = speech_new(&setup);
    size_t cut = text->bytes / 3;
    speech_feed(reader, text->at ? text->at : "", cut, false);
    speech_feed(reader, text->at ? text->at + cut : "", text->bytes - cut, true);
    if ((s->mode == FORCED || s->mode == NAMED || s->mode == SINGLE) && (!h.n_calls || has_words(&h.text)))
        fail_msg("%s, %s: %d calls and the text \"%s\" in\n%s", s->format->name, mode_names[s->mode], h.n_calls,
                 h.text.at ? h.text.at : "", text->at ? text->at : "");
    if (s->mode == SINGLE) assert_int_equal(h.n_calls, 1);
    if (s->mode == NAMED) assert_string_equal(h.name, "now");
    if (s->mode == EITHER && !h.n_calls) check_demand(&h);
    if (s->mode == EITHER && h.n_calls) assert_false(has_words(&h.text));
    speech_free(reader);
    strbuf_free(&h.text);
    strbuf_free(&h.arguments);
}

static int check_mode(scene *s, rng *r) {
    int n_ended = 0;
    open_scene(s);
    for (int i = 0; i < WALKS; i++) {
        strbuf text = {0};
        if (walk(s, &text, r)) read_answer(s, &text), n_ended++;
        assert_false(text.failed);
        strbuf_free(&text);
    }
    close_scene(s);
    return n_ended;
}

static void every_notation_is_understood(void **state) {
    rng r = {7};
    for (int i = 0; tool_format_row(i); i++)
        for (int specials = 0; specials < 2; specials++) {
            scene s = {.format = tool_format_row(i), .has_specials = specials};
            s.tokenizer = make_tokenizer(s.format, specials);
            for (s.mode = 0; s.mode < N_MODES; s.mode++) {
                int n_ended = 0;
                for (int k = 0; k < 3; k++) {
                    s.thinks = k > 0;
                    s.starts_in_thought = k > 1;
                    n_ended += check_mode(&s, &r);
                }
                if (!n_ended) fail_msg("%s, %s: no walk came to its end", s.format->name, mode_names[s.mode]);
            }
            qp_tokenizer_close(s.tokenizer);
        }
}

/* ---- strict schemas: each keyword is kept or refused, in every notation ---- */

/* A value that a notation without the keyword would write is nearly always wrong. */
static const struct {
    const char *value;     /* the schema of the one property, which is required */
    bool is_unsatisfiable; /* or no schema: refused everywhere; else notations with JSON must take it */
} keywords[] = {
    {"{\"type\":\"string\",\"minLength\":9}", false},
    {"{\"type\":\"string\",\"maxLength\":1}", false},
    {"{\"type\":\"string\",\"pattern\":\"^[ab]+$\"}", false},
    {"{\"type\":\"string\",\"format\":\"date\"}", false},
    {"{\"type\":\"string\",\"enum\":[\"ab\",\"c\"]}", false},
    {"{\"type\":\"string\",\"enum\":[\"ab\",3]}", false},
    {"{\"type\":\"string\",\"const\":\"ab\"}", false},
    {"{\"type\":\"string\",\"enum\":[\"a\",\"b\"],\"const\":\"b\"}", false},
    {"{\"type\":\"string\",\"enum\":[\"a\",\"b\"],\"const\":\"c\"}", true},
    {"{\"type\":\"string\",\"enum\":[1,2]}", true},
    {"{\"type\":\"string\",\"const\":1}", true},
    {"{\"type\":\"string\",\"enum\":[\"abc\",\"x\"],\"maxLength\":1}", false},
    {"{\"type\":\"string\",\"enum\":[\"a<|\\\"|>b</parameter></arg_value>\",\"x\"]}", false},
    {"{\"type\":\"integer\",\"minimum\":1000}", false},
    {"{\"type\":\"integer\",\"maximum\":-1000}", false},
    {"{\"type\":\"number\",\"exclusiveMinimum\":5,\"exclusiveMaximum\":6}", false},
    {"{\"type\":\"integer\",\"multipleOf\":97}", false},
    {"{\"type\":\"integer\",\"enum\":[12,345]}", false},
    {"{\"type\":\"integer\",\"const\":4}", false},
    {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":3}", true},
    {"{\"type\":[\"integer\",\"null\"],\"minimum\":700}", false},
    {"{\"type\":[\"string\",\"null\"],\"maxLength\":1}", false},
    {"{\"type\":[]}", true},
    {"{\"enum\":[1,20],\"minimum\":10}", false},
    {"{\"enum\":[1,2,\"a\"],\"type\":\"string\"}", false},
    {"{\"enum\":[\"abc\",\"x\",7],\"maxLength\":1}", false},
    {"{\"enum\":[\"a\",{\"b\":[1,\"c\",{}]},null,[]]}", false},
    {"{\"enum\":[{\"b c\":1},5]}", false},
    {"{\"enum\":[]}", true},
    {"{\"const\":{\"b\":0.1}}", false},
    {"{\"const\":1,\"type\":\"string\"}", true},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":3}", false},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":1}", false},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":0}", false},
    {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":70000,\"maxItems\":70001}", false},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":3,\"maxItems\":1}", true},
    {"{\"type\":\"array\",\"minItems\":\"3\"}", true},
    {"{\"type\":\"array\",\"items\":false}", false},
    {"{\"type\":\"array\",\"items\":true,\"maxItems\":1}", false},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"items\":{\"type\":\"integer\"}}", false},
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"contains\":{\"const\":2}}", false},
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"uniqueItems\":true}", false},
    {"{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}", false},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}},\"minProperties\":2,"
     "\"additionalProperties\":false}",
     false},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}},\"maxProperties\":1,"
     "\"additionalProperties\":false}",
     false},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},\"propertyNames\":{\"maxLength\":1}}", false},
    {"{\"type\":\"object\",\"patternProperties\":{\"^a+$\":{\"type\":\"null\"}},\"additionalProperties\":false}",
     false},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}},\"dependentRequired\":{"
     "\"a\":[\"b\"]},\"additionalProperties\":false}",
     false},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}},\"dependentSchemas\":{"
     "\"a\":{\"required\":[\"b\"]}},\"additionalProperties\":false}",
     false},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"required\":[\"a\",\"c\"],"
     "\"additionalProperties\":{\"type\":\"boolean\"}}",
     false},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"required\":[\"c\"],\"additionalProperties\":"
     "false}",
     true},
    {"{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}", true},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"required\":\"a\"}", true},
    {"{\"type\":\"object\",\"properties\":[\"a\"]}", true},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"minimum\":500}", false},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"enum\":[\"a\"]}],\"type\":\"string\"}", false},
    {"{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"maxItems\":0}]}", false},
    {"{\"anyOf\":[]}", true},
    {"{\"oneOf\":[{\"type\":\"integer\",\"minimum\":9},{\"type\":\"null\"}]}", false},
    {"{\"type\":\"integer\",\"allOf\":[{\"minimum\":400},{\"maximum\":500}]}", false},
    {"{\"type\":\"integer\",\"not\":{\"minimum\":-400}}", false},
    {"{\"type\":\"integer\",\"if\":{\"minimum\":0},\"then\":{\"const\":7},\"else\":{\"const\":-7}}", false},
    {"{\"$ref\":\"#/$defs/few\"}", false},
    {"{\"type\":\"integer\",\"$ref\":\"#/$defs/few\"}", false},
    {"true", false},
    {"false", true},
    {"5", true},
};
enum { KEYWORD_WALKS = HARNESS_TIMES(4) };

/* Whether a form was made; what is written under it is held against the whole schema by check_arguments. */
static bool check_keyword(scene *s, size_t i, rng *r) {
    char tools[1200];
    refusal why;
    snprintf(tools, sizeof tools,
             "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"type\":\"object\","
             "\"$defs\":{\"few\":{\"type\":\"integer\",\"minimum\":3,\"maximum\":5}},\"properties\":{\"v\":%s},"
             "\"required\":[\"v\"],\"additionalProperties\":false}}}]",
             keywords[i].value);
    s->tools = tools;
    const bool is_made = try_scene(s, &why);
    const tool_body body = s->format->body;
    const bool has_json = body != BODY_PARAMS && body != BODY_PYTHON && body != BODY_GEMMA;
    if (is_made && keywords[i].is_unsatisfiable) fail_msg("%s takes %s", s->format->name, keywords[i].value);
    if (!is_made && has_json && !keywords[i].is_unsatisfiable)
        fail_msg("%s refuses %s: %s", s->format->name, keywords[i].value, why.text);
    if (!is_made && !strstr(why.text, "\"f\"")) fail_msg("%s: it is not said where: %s", s->format->name, why.text);
    for (int k = 0; is_made && k < KEYWORD_WALKS; k++) {
        strbuf text = {0};
        if (walk(s, &text, r)) read_answer(s, &text);
        strbuf_free(&text);
    }
    close_scene(s);
    return is_made;
}

static void strict_keywords_are_kept_or_refused(void **state) {
    rng r = {11};
    for (int i = 0; tool_format_row(i); i++) {
        scene s = {.format = tool_format_row(i), .has_specials = i % 2 == 0, .mode = FORCED};
        size_t n_made = 0;
        s.tokenizer = make_tokenizer(s.format, s.has_specials);
        for (size_t k = 0; k < HARNESS_COUNT(keywords); k++) n_made += check_keyword(&s, k, &r);
        if (n_made < 20) fail_msg("%s takes only %zu of the schemas", s.format->name, n_made);
        qp_tokenizer_close(s.tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_notation_is_understood),
        cmocka_unit_test(strict_keywords_are_kept_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
