/* tmpl_test.c — templates against what jinja2 gave for the same ones, and against hostile ones.
 *
 *     tmpl_test [CASES.json]      runs one file of cases made by tests/golden/make_templates.py instead */
#include "harness.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/chat_time.h"
#include "text/tmpl.h"
#include <pthread.h>
#include <time.h>

typedef struct result {
    qp_status status;
    bool raised;
    strbuf out;
    qp_error err;
} result;

static void render_with(result *r, span source, const json_t *context, double now, const tmpl_limits *limits) {
    tmpl *t;
    *r = (result){0};
    r->status = tmpl_new(&t, source, &r->err);
    if (r->status != QP_OK) return;
    r->status = tmpl_render(t, context, now, limits, &r->out, &r->raised, &r->err);
    tmpl_free(t);
}

static void render(result *r, const char *source, const tmpl_limits *limits) {
    json_t *context = json_object();
    render_with(r, span_of(source), context, 0, limits);
    json_decref(context);
}

static bool out_is(const result *r, const json_t *wanted) {
    return r->out.bytes == json_string_length(wanted) &&
           (!r->out.bytes || !memcmp(r->out.at, json_string_value(wanted), r->out.bytes));
}

/* Processor time, which neighbours do not lengthen: work that is not linear takes minutes, also without sanitizers. */
enum { MOST_WORK_S = 60 };
static double worked_s(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* ---- goldens ---- */

enum verdict { RIGHT, WRONG, REFUSED };

static enum verdict check_case(const json_t *one, const json_t *context, double now) {
    result r;
    const json_t *template = json_object_get(one, "template"), *text = json_object_get(one, "text");
    const char *error = json_string_value(json_object_get(one, "error"));
    render_with(&r, (span){json_string_value(template), json_string_length(template)}, context, now, NULL);
    bool is_right = text ? r.status == QP_OK && out_is(&r, text) : r.status != QP_OK;
    if (!text && !strcmp(error, "raise_exception"))
        is_right = r.raised && out_is(&r, json_object_get(one, "message"));
    else if (!text)
        is_right &= !r.raised && r.err.text[0];
    const bool is_refused = text && r.status == QP_UNSUPPORTED;
    if (!is_right && !is_refused) {
        char *wanted = json_dumps(one, 0);
        print_error("%s\n  gave %s\n", wanted, r.status == QP_OK ? r.out.at : r.err.text);
        free(wanted);
    }
    strbuf_free(&r.out);
    return is_right ? RIGHT : is_refused ? REFUSED : WRONG;
}

/* All cases of a file; at most `max_refused` may be refused where Python goes on. */
static void check_file(const char *path, size_t max_refused) {
    json_t *file, *cases, *one;
    qp_error err;
    size_t i, counts[3] = {0};
    double now = 0;
    if (json_load_path(&file, path, 64 << 20, &err) != QP_OK) fail_msg("%s", err.text);
    const json_t *clock = json_object_get(file, "now");
    json_t *frozen = json_string("2024-07-26T12:34:56");
    assert_int_equal(chat_time_read(clock ? clock : frozen, &now, &err), QP_OK);
    cases = json_object_get(file, "cases");
    assert_true(json_array_size(cases) > 0);
    json_array_foreach(cases, i, one) counts[check_case(one, json_object_get(file, "context"), now)]++;
    printf("%s: %zu right, %zu wrong, %zu refused\n", path, counts[RIGHT], counts[WRONG], counts[REFUSED]);
    json_decref(frozen);
    json_decref(file);
    assert_int_equal(counts[WRONG], 0);
    assert_true(counts[REFUSED] <= max_refused);
}

/* Refused are the filters random and urlize, one long pprint, and integers beyond 64 bits. */
static void test_cases(void **state) { check_file(QUIPU_SOURCE "/tests/golden/templates/cases.json", 40); }
static void test_random(void **state) { check_file(QUIPU_SOURCE "/tests/golden/templates/random.json", 4); }

static void test_snippets(void **state) {
    const char *path = QUIPU_FIXTURES "/templates/snippets.json";
    if (access(path, R_OK) != 0) HARNESS_SKIP("%s is not there", path);
    check_file(path, 0);
}

/* ---- errors say where ---- */

static void test_places(void **state) {
    static const struct {
        const char *source;
        qp_status status;
        uint64_t offset;
        const char *text;
    } rows[] = {
        {"{{ x", QP_BAD_FORMAT, 4, "line 1, column 5: unexpected end of template, expected 'end of print statement'."},
        {"a\n{{ ) }}", QP_BAD_FORMAT, 5, "line 2, column 4: unexpected ')'"},
        {"a\r\nb\r\n{{ ) }}", QP_BAD_FORMAT, 9, "line 3, column 4: unexpected ')'"},
        {"\xc3\xa9{{ ( ] }}", QP_BAD_FORMAT, 7, "line 1, column 7: unexpected ']', expected ')'"},
        {"{% nosuch %}", QP_BAD_FORMAT, 3, "line 1, column 4: Encountered unknown tag 'nosuch'."},
        {"{% if x %}{% endfor %}", QP_BAD_FORMAT, 13,
         "Encountered unknown tag 'endfor'. Jinja was looking for the following tags: 'elif' or 'else' or 'endif'. The "
         "innermost block that needs to be closed is 'if'."},
        {"{% for x in l %}", QP_BAD_FORMAT, 16, "Unexpected end of template. Jinja was looking for the following tags"},
        {"{{ x|nosuch }}", QP_BAD_FORMAT, 5, "column 6: No filter named 'nosuch'."},
        {"{{ x is nosuch }}", QP_BAD_FORMAT, 5, "No test named 'nosuch'."},
        {"{# x", QP_BAD_FORMAT, 0, "Missing end of comment tag"},
        {"{% raw %}x", QP_BAD_FORMAT, 0, "Missing end of raw directive"},
        {"{{ '\\xq' }}", QP_BAD_FORMAT, 3, "string literal has a \\x"},
        {"{{ 9223372036854775808 }}", QP_UNSUPPORTED, 3, "integer 9223372036854775808 needs more than 64 bits"},
        {"ab{{ x.y.z }}", QP_BAD_ARGUMENT, 6, "line 1, column 7: 'x' is undefined"},
        {"{{ {}.a.b }}", QP_BAD_ARGUMENT, 7, "'dict object' has no attribute 'a'"},
        {"{{ [1][5].b }}", QP_BAD_ARGUMENT, 9, "list object has no element 5"},
        {"{{ none.a.b }}", QP_BAD_ARGUMENT, 9, "'None' has no attribute 'a'"},
        {"{{ [].append(1) }}", QP_BAD_ARGUMENT, 12, "access to attribute 'append' of 'list' object is unsafe."},
        {"{{ 1 + 'a' }}", QP_BAD_ARGUMENT, 3, "unsupported operand type(s) for +: 'int' and 'str'"},
        {"{{ 'a' + 1 }}", QP_BAD_ARGUMENT, 3, "can only concatenate str (not \"int\") to str"},
        {"{% for x in 5 %}{% endfor %}", QP_BAD_ARGUMENT, 3, "'int' object is not iterable"},
        {"{{ 1 // 0 }}", QP_BAD_ARGUMENT, 3, "integer division or modulo by zero"},
        {"{{ 2 ** 63 }}", QP_UNSUPPORTED, 3, "needs an integer of more than 64 bits"},
        {"{% include 'x' %}", QP_UNSUPPORTED, 3, "'include' is not supported"},
        {"{% autoescape true %}{% endautoescape %}", QP_UNSUPPORTED, 14, "autoescape is not supported"},
        {"{{ lipsum() }}", QP_UNSUPPORTED, 9, "lipsum() is not supported"},
        {"{{ [1]|random }}", QP_UNSUPPORTED, 7, "filter 'random' is not supported"},
        {"{{ 'a'.encode() }}", QP_UNSUPPORTED, 13, "not supported"},
        {"{{ (-8) ** 0.5 }}", QP_UNSUPPORTED, 3, "complex"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        result r;
        render(&r, rows[i].source, NULL);
        if (r.status != rows[i].status || r.err.offset != rows[i].offset || !strstr(r.err.text, rows[i].text))
            print_error("%s: %d at %llu: %s\n", rows[i].source, r.status, (unsigned long long)r.err.offset, r.err.text);
        assert_int_equal(r.status, rows[i].status);
        assert_int_equal(r.err.code, rows[i].status);
        assert_int_equal(r.err.offset, rows[i].offset);
        assert_non_null(strstr(r.err.text, rows[i].text));
        strbuf_free(&r.out);
    }
}

static void test_bad_source(void **state) {
    result r;
    json_t *context = json_object(), *list = json_array();
    render_with(&r, (span){"ab\xff", 3}, context, 0, NULL);
    assert_int_equal(r.status, QP_BAD_FORMAT);
    assert_int_equal(r.err.offset, 2);
    render_with(&r, SPAN("x"), list, 0, NULL);
    assert_int_equal(r.status, QP_BAD_ARGUMENT);
    render_with(&r, (span){"a\0b{{ 1 }}", 10}, context, 0, NULL);
    assert_int_equal(r.status, QP_OK);
    assert_int_equal(r.out.bytes, 4);
    strbuf_free(&r.out);
    json_decref(context);
    json_decref(list);
}

/* A raised message is cut in the error, whole in the output, and what was rendered before is gone. */
static void test_long_message(void **state) {
    result r;
    render(&r, "before{{ raise_exception('x' * 5000) }}", NULL);
    assert_true(r.raised);
    assert_int_equal(r.status, QP_BAD_ARGUMENT);
    assert_int_equal(r.out.bytes, 5000);
    assert_int_equal(strspn(r.out.at, "x"), 5000);
    assert_int_equal(strspn(r.err.text, "x"), strlen(r.err.text));
    strbuf_free(&r.out);
}

/* ---- limits ---- */

/* `what` as often as the limit on steps allows. */
#define OFTEN(before, what)                                                                                            \
    before "{% for i in range(9999) %}{% for k in range(9999) %}" what "{% endfor %}{% endfor %}"

static void test_limits(void **state) {
    static const char *const hostile[] = {
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l == "
        "ns.l|list }}{{ ns.l|tojson }}",
        "{% set ns = namespace(l=()) %}{% for i in range(99) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ {ns.l: 1} "
        "}}",
        "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
        "{{ 'x' * 999999999999 }}",
        "{{ [0] * 999999999999 }}",
        "{{ 'x'.center(99999999999) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
        "{{ ('a' * 100000)|list|join('b' * 100000) }}",
        "{{ ('a\n' * 100000)|indent(100000) }}",
        "{% for x in l recursive %}{% endfor %}{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% macro f(x) %}{{ caller(x) }}{% endmacro %}{% macro g() %}{% call(x) f(1) %}{{ g() }}{% endcall %}{% "
        "endmacro %}{{ g() }}",
        "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g|map('string') %}{% endfor %}{{ "
        "ns.g|list }}",
        "{{ [1, 2]|tojson(indent=99999999999) }}",
        "{{ '\t\t\t'.expandtabs(99999999) }}",
        "{% for i in range(100000) %}{% for k in range(1000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% "
        "endfor %}",
        /* few operations, much work in each */
        OFTEN("{% set a = 'x' * 9000000 %}{% set b = 'x' * 9000000 %}", "{% if a == b %}{% endif %}"),
        OFTEN("{% set a = 'x' * 9000000 ~ 'a' %}{% set b = 'x' * 9000000 ~ 'b' %}",
              "{% if a == b or a < b %}{% endif %}"),
        OFTEN("{% set a = 'x' * 9000000 %}", "{% if 'yx' in a or a.find('y') > 0 or a.startswith('y') %}{% endif %}"),
        OFTEN("{% set a = ' ' * 9000000 %}", "{% if a|trim or a.isdigit() or a is lower %}{% endif %}"),
        OFTEN("{% set a = '0' * 9000000 %}", "{% if a|int or a|float or a.isidentifier() %}{% endif %}"),
        OFTEN("{% set a = '1' * 9000000 %}", "{% if [1]|map(attribute=a)|list %}{% endif %}"),
        OFTEN("{% set a = 'a.' * 99999 %}", "{% if [1]|map(attribute=a, default=1)|list %}{% endif %}"),
        OFTEN("{% set a = '\xc3\xa9' * 4000000 %}", "{% if a[0] == a[1999999] %}{% endif %}"),
        OFTEN("{% set ns = namespace(s='x' * 4000000) %}",
              "{% set ns.s = ns.s ~ 'x' %}{% if {1: 2}[ns.s] %}{% endif %}"),
        OFTEN("", "{{ '{:.1000000}'.format(1.5) }}{{ '%.1000000g' % 1.5 }}"),
        "{% set a = 'x' * 4000000 %}{% set t = ('x' * 3999999 ~ 'y',) * 100000 %}{{ a.startswith(t) }}",
        "{{ ('x' * 4000000).strip('y' * 4000000 ~ 'x') }}",
        "{{ ('\xc2\xa0' * 2000000 ~ 'a')|wordwrap(1) }}",
        "{{ ('a ' * 100000)|wordwrap(1, true, 'b' * 1000000) }}",
        "{{ ('b' * 1000000).join('a' * 100000) }}",
        "{{ dict.fromkeys(['nan'|float] * 100000)|length }}",
    };
    const tmpl_limits limits = {.steps = 3000000, .memory_bytes = 48 << 20, .output_bytes = 8 << 20};
    for (size_t i = 0; i < HARNESS_COUNT(hostile); i++) {
        result r;
        const double begin = worked_s();
        render(&r, hostile[i], &limits);
        if (r.status != QP_TOO_LARGE) print_error("%s: %d %s\n", hostile[i], r.status, r.err.text);
        assert_int_equal(r.status, QP_TOO_LARGE);
        assert_true(r.out.bytes <= (8 << 20) + 4096);
        assert_true(worked_s() - begin < MOST_WORK_S);
        strbuf_free(&r.out);
    }
}

/* Sources that nest without end, as `head` many times. */
static void test_deep_sources(void **state) {
    static const char *const heads[] = {"(",  "[",     "{1:",   "-",          "not ",    "a.b(",
                                        "a[", "1 + (", "1 if ", "x|default(", "x is eq("};
    for (size_t i = 0; i < HARNESS_COUNT(heads); i++) {
        result r;
        strbuf source = {0};
        strbuf_text(&source, "{{ ");
        for (int k = 0; k < 100000; k++) strbuf_text(&source, heads[i]);
        json_t *context = json_object();
        render_with(&r, (span){source.at, source.bytes}, context, 0, NULL);
        assert_int_not_equal(r.status, QP_OK);
        json_decref(context);
        strbuf_free(&source);
    }
    result r;
    strbuf source = {0};
    for (int k = 0; k < 100000; k++) strbuf_text(&source, "{% if 1 %}");
    json_t *context = json_object();
    render_with(&r, (span){source.at, source.bytes}, context, 0, NULL);
    assert_int_equal(r.status, QP_TOO_LARGE);
    json_decref(context);
    strbuf_free(&source);
}

/* Searching from the end is linear too, whatever is searched. */
static void test_linear_searching(void **state) {
    static const struct {
        const char *source, *out;
    } cases[] = {
        {"{% set a = 'x' * 1000000 %}{% set b = 'x' * 500000 %}{{ a.rfind(b) }} {{ a.rindex(b ~ b) }}", "500000 0"},
        {"{% set a = 'x' * 1000000 %}{{ a.rfind('x' * 500000 ~ 'y') }} {{ a.rsplit('y' ~ a)|length }}", "-1 1"},
        {"{% set a = ' ' * 1000000 ~ ',' * 60000 %}{{ a.rsplit(',')|length }}", "60001"},
        {"{{ 'abcabca'.rfind('abca') }}{{ 'abcabca'.rfind('c') }}{{ 'aXbXc'.rsplit('X', 1) }}", "35['aXb', 'c']"},
        {"{{ ('ab' * 99 ~ 'c').rfind('ab') }} {{ ('-' ~ 'ab' * 999).rpartition('-')[2]|length }}", "196 1998"},
        {"{{ dict.fromkeys([range(0), range(5, 5), range(3, 4), range(3, 9, 7), range(3, 5)])|length }}", "3"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        result r;
        const double begin = worked_s();
        render(&r, cases[i].source, NULL);
        if (r.status != QP_OK) fail_msg("%s", r.err.text);
        assert_string_equal(r.out.at, cases[i].out);
        assert_true(worked_s() - begin < MOST_WORK_S);
        strbuf_free(&r.out);
    }
}

/* Sources with more names in more scopes than anybody writes. */
static void test_many_names(void **state) {
    static const struct {
        const char *before, *each, *behind;
        int count;
        qp_status status;
    } cases[] = {
        {"{{ f(", "a%d=1, ", ") }}", 40000, QP_TOO_LARGE},
        {"{% macro f(", "a%d, ", ") %}{% endmacro %}", 40000, QP_TOO_LARGE},
        {"", "{{ a%d }}", "", 40000, QP_TOO_LARGE},
        {"", "{%% set a%d = 1 %%}", "", 40000, QP_TOO_LARGE},
        {"", "{%% if a%d %%}{%% endif %%}", "", 40000, QP_TOO_LARGE},
        {"", "{%% block a%d %%}{%% endblock %%}", "", 40000, QP_TOO_LARGE},
        {"{% for ", "a%d, ", " in [] %}{% endfor %}", 40000, QP_TOO_LARGE},
        {"{% set x = 1 %}", "{{ x }}{%% for a in [%d] %%}{{ a }}{%% endfor %%}", "", 40000, QP_OK},
        {"", "{{ a%d }}", "", 400, QP_OK},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        strbuf source = {0};
        tmpl *t;
        qp_error err = {0};
        const double begin = worked_s();
        strbuf_text(&source, cases[i].before);
        for (int k = 0; k < cases[i].count; k++) {
            char one[80];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(one, sizeof one, cases[i].each, k);
#pragma GCC diagnostic pop
            strbuf_text(&source, one);
        }
        strbuf_text(&source, cases[i].behind);
        const qp_status status = tmpl_new(&t, (span){source.at, source.bytes}, &err);
        if (status != cases[i].status) fail_msg("%s: %s", cases[i].each, err.text);
        assert_true(worked_s() - begin < MOST_WORK_S);
        tmpl_free(t);
        strbuf_free(&source);
    }
}

/* Building text and lists by pieces takes memory for the result, not for every step. */
static void test_linear_building(void **state) {
    static const char *const sources[] = {
        "{% set ns = namespace(s='') %}{% for i in range(100000) %}{% set ns.s = ns.s ~ 'abcdefghij' %}{% endfor %}{{ "
        "ns.s|length }}",
        "{% set ns = namespace(s='') %}{% for i in range(100000) %}{% set ns.s = ns.s + 'abcdefghi\xc3\xa9' %}{% "
        "endfor %}{{ ns.s|length }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l + [i, i, i, i, i, i, i, i, i, i] "
        "%}{% endfor %}{{ ns.l|length }}",
        "{% set s = '\xc3\xa9' * 100000 %}{% set ns = namespace(n=0) %}{% for i in range(100000) %}{% if s[i] == "
        "'\xc3\xa9' %}{% set ns.n = ns.n + 10 %}{% endif %}{% endfor %}{{ ns.n }}",
    };
    const tmpl_limits limits = {.memory_bytes = 96 << 20};
    for (size_t i = 0; i < HARNESS_COUNT(sources); i++) {
        result r;
        const double begin = worked_s();
        render(&r, sources[i], &limits);
        if (r.status != QP_OK) fail_msg("%s", r.err.text);
        assert_string_equal(r.out.at, "1000000");
        assert_true(worked_s() - begin < MOST_WORK_S);
        strbuf_free(&r.out);
    }
}

/* ---- a template that uses a bit of everything, in trouble ---- */

static const char rich[] =
    "{%- macro f(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro -%}\n"
    "{% set ns = namespace(s='', l=[]) %}{% for k, v in {'a': 1, 'b': [1.5, none, true]}.items() if v %}\n"
    "  {{ loop.index }}/{{ loop.length }}: {{ k|upper }} {{ v|tojson(indent=2) }} {{ loop.nextitem }}\n"
    "  {%- set ns.s = ns.s ~ k %}{% set ns.l = ns.l + [v] %}\n{%- endfor %}{# note #}\n"
    "{{ f(1, *[3, 4], x='\\u00e9') }}{% call(q) f(1) %}{{ q }}{% endcall %}{% filter indent(2) %}a\nb{% endfilter %}\n"
    "{{ [3, 1, 2]|sort|map('string')|join('-') }} {{ '{:>5}|{x}'.format('r', x=2) }} {{ '%s %05.1f' % ('a', 2.25) }}\n"
    "{% for x in [[1, [2]]] recursive %}{{ x[0] }}{{ loop(x[1]|batch(1)|list) if x[1] }}{% endfor %}{{ ns.s }}{{ ns.l "
    "}}"
    "{{ ['b', 'A']|groupby(0) }}{{ {'b': 1, 'a': 2}|dictsort }}{{ 'a b c'.split()|unique|list }}{{ 'x'|e }}{% block z "
    "%}{{ n }}{% endblock %}"
    "{% with a = 1 %}{% generation %}{{ a }}{% endgeneration %}{% endwith %}{{ strftime_now('%Y') }}{{ 'a-b "
    "c'|wordwrap(3) }}";

static void test_no_memory(void **state) {
    json_t *context = json_pack("{s:i,s:[i,i],s:{s:s}}", "n", 7, "l", 1, 2, "m", "k", "v");
    qp_status status = QP_NO_MEMORY;
    int64_t n = 0;
    for (; status != QP_OK && n < 20000; n++) {
        tmpl *t = NULL;
        qp_error err = {0};
        strbuf out = {0};
        mem_fail_after(n);
        status = tmpl_new(&t, SPAN(rich), &err);
        if (status == QP_OK) status = tmpl_render(t, context, 0, NULL, &out, NULL, &err);
        mem_fail_after(-1);
        if (status != QP_OK && status != QP_NO_MEMORY) fail_msg("after %lld: %s", (long long)n, err.text);
        tmpl_free(t);
        strbuf_free(&out);
    }
    assert_int_equal(status, QP_OK);
    assert_true(n > 10);
    json_decref(context);
}

static void test_cut_anywhere(void **state) {
    json_t *context = json_object();
    for (size_t bytes = 0; bytes < sizeof rich; bytes++) {
        result r;
        char *exact = mem_copy(rich, bytes, 1); /* so that reading past the end is seen */
        render_with(&r, (span){exact, bytes}, context, 0, NULL);
        if (r.status != QP_OK) assert_true(r.err.text[0]);
        strbuf_free(&r.out);
        mem_free(exact);
    }
    json_decref(context);
}

static void test_mentions(void **state) {
    tmpl *t;
    qp_error err;
    assert_int_equal(
        tmpl_new(&t,
                 SPAN("{% set a = 1 %}{% if tools %}{{ a }}{% for m in messages %}{{ m.content }}{{ x }}{% endfor %}"
                      "{% endif %}{% macro f(p) %}{{ p }}{{ inner }}{% endmacro %}"),
                 &err),
        QP_OK);
    assert_true(tmpl_mentions(t, "tools"));
    assert_true(tmpl_mentions(t, "messages"));
    assert_true(tmpl_mentions(t, "x"));
    assert_true(tmpl_mentions(t, "inner"));
    assert_false(tmpl_mentions(t, "a"));
    assert_false(tmpl_mentions(t, "m"));
    assert_false(tmpl_mentions(t, "p"));
    assert_false(tmpl_mentions(t, "content"));
    tmpl_free(t);
    tmpl_free(NULL);
}

/* ---- one template, many threads ---- */

static void *render_often(void *shared) {
    const tmpl *t = shared;
    char first[4096] = "";
    for (int i = 0; i < 100; i++) {
        strbuf out = {0};
        json_t *context = json_pack("{s:i}", "n", 7);
        if (tmpl_render(t, context, 0, NULL, &out, NULL, NULL) != QP_OK || out.bytes >= sizeof first) return shared;
        if (!i) memcpy(first, out.at, out.bytes + 1);
        const bool is_same = !strcmp(first, out.at);
        strbuf_free(&out);
        json_decref(context);
        if (!is_same) return shared; /* anything but NULL: wrong */
    }
    return NULL;
}

static void test_threads(void **state) {
    enum { N_THREADS = 4 };
    pthread_t threads[N_THREADS];
    tmpl *t;
    qp_error err;
    assert_int_equal(tmpl_new(&t, SPAN(rich), &err), QP_OK);
    for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, render_often, t), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    tmpl_free(t);
}

static const char *cases_path;
static void test_given_file(void **state) { check_file(cases_path, SIZE_MAX); }

int main(int argc, char **argv) {
    const struct CMUnitTest given[] = {cmocka_unit_test(test_given_file)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),           cmocka_unit_test(test_random),
        cmocka_unit_test(test_snippets),        cmocka_unit_test(test_places),
        cmocka_unit_test(test_bad_source),      cmocka_unit_test(test_long_message),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_deep_sources),
        cmocka_unit_test(test_linear_building), cmocka_unit_test(test_linear_searching),
        cmocka_unit_test(test_many_names),      cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_cut_anywhere),    cmocka_unit_test(test_mentions),
        cmocka_unit_test(test_threads),
    };
    cases_path = argc > 1 ? argv[1] : NULL;
    if (HARNESS_RACES_ONLY) cmocka_set_test_filter("test_threads");
    return cases_path ? cmocka_run_group_tests(given, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
