/* structure_test.c — constraints put together: what a structure takes, and that nothing in one is passed over. */
#include "grammar.h"
#include "base/mem.h"
#include "harness.h"

static span byte_token(const void *user, int32_t id, trie_flag *flag) {
    *flag = TRIE_NORMAL;
    return (span){(const char *)user + id, 1};
}

static trie *byte_trie(void) {
    static char all[256];
    trie *t;
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    assert_int_equal(trie_new(&t, &(trie_source){256, byte_token, all}, NULL), QP_OK);
    return t;
}

static bool takes(grammar *g, const char *text) {
    matcher *m;
    assert_int_equal(matcher_new(&m, g, NULL), QP_OK);
    const bool fits = matcher_accept_bytes(m, span_of(text), NULL) == QP_OK && matcher_may_end(m);
    matcher_free(m);
    return fits;
}

/* Texts that are taken and texts that are not, apart by blanks; "_" is the empty text. */
static const struct {
    const char *source, *good, *bad;
} cases[] = {
    {"{\"text\":\"ab\"}", "ab", "_ a abc"},
    {"{\"sequence\":[{\"text\":\"a\"},{\"kind\":\"regex\",\"source\":\"[0-9]+\"}]}", "a1 a22", "a 1"},
    {"{\"any\":[{\"text\":\"a\"},{\"kind\":\"choices\",\"source\":\"[\\\"b\\\",\\\"c\\\"]\"}]}", "a b c", "_ ab"},
    {"{\"repeat\":{\"text\":\"a\"},\"min\":1,\"max\":3,\"between\":{\"text\":\",\"}}", "a a,a a,a,a", "_ a, a,a,a,a"},
    {"{\"repeat\":{\"text\":\"a\"},\"max\":0}", "_", "a"},
    {"{\"fields\":[{\"text\":\"a\",\"optional\":true},{\"text\":\"b\"},{\"text\":\"c\",\"optional\":true}],\"between\":"
     "{"
     "\"text\":\",\"}}",
     "b a,b b,c a,b,c", "_ a a,c ,b b,"},
    {"{\"sequence\":[{\"free\":[\"end\"],\"not_first\":\"x\"},{\"tag\":\"end\"}]}", "end aend", "xend endend en"},
    {"{\"define\":{\"n\":{\"any\":[{\"text\":\"a\"},{\"sequence\":[{\"text\":\"(\"},{\"use\":\"n\"},{\"text\":\")\"}]}]"
     "}},"
     "\"in\":{\"use\":\"n\"}}",
     "a (a) ((a))", "_ (a ()"},
};

static void check_words(grammar *g, const char *source, const char *words, bool wanted) {
    char copy[200], *rest = copy;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strsep(&rest, " "));)
        if (takes(g, strcmp(word, "_") ? word : "") != wanted) fail_msg("%s: \"%s\"", source, word);
}

static void structures_mean_what_they_say(void **state) {
    trie *t = byte_trie();
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        grammar *g;
        qp_error err;
        if (grammar_compile(&g, t, "structure", span_of(cases[i].source), NULL, NULL, NULL, &err) != QP_OK)
            fail_msg("%s: %s", cases[i].source, err.text);
        check_words(g, cases[i].source, cases[i].good, true);
        check_words(g, cases[i].source, cases[i].bad, false);
        grammar_free(g);
    }
    trie_free(t);
}

static const struct {
    const char *source, *words; /* in the error */
} refused[] = {
    {"{}", "without any of its members"},
    {"5", "found an integer"},
    {"{\"text\":\"a\",\"tag\":\"b\"}", "\"tag\" is no member of a node with \"text\""},
    {"{\"text\":\"a\",\"min\":1}", "\"min\" is no member"},
    {"{\"text\":\"a\",\"optional\":true}", "\"optional\" is no member"},
    {"{\"repeat\":{\"text\":\"a\"},\"mn\":2}", "\"mn\" is no member"},
    {"{\"repeat\":{\"text\":\"a\"},\"min\":\"2\"}", "min: found a string"},
    {"{\"repeat\":{\"text\":\"a\"},\"min\":3,\"max\":2}", "max"},
    {"{\"free\":[],\"plain\":1}", "plain: found an integer"},
    {"{\"free\":[],\"not_first\":true}", "not_first"},
    {"{\"free\":[\"\"]}", "not empty"},
    {"{\"kind\":\"regex\",\"source\":5}", "source: found an integer"},
    {"{\"kind\":\"regex\",\"source\":\"a\",\"lenient\":\"no\"}", "lenient"},
    {"{\"kind\":\"regex\",\"source\":\"a\",\"any_order\":true}", "\"any_order\" is no member"},
    {"{\"kind\":\"structure\",\"source\":\"{}\"}", "another kind"},
    {"{\"kind\":\"regex\",\"source\":\"(\",\"name\":\"here\"}", "here"},
    {"{\"any\":[{\"text\":\"a\"},{\"kind\":\"json_schema\",\"source\":\"{\\\"enum\\\":[]}\",\"name\":\"here\"}]}",
     "here"},
    {"{\"any\":[{\"text\":\"a\"},{\"kind\":\"json_schema\",\"source\":\"{\\\"type\\\":\\\"string\\\",\\\"const\\\":1}"
     "\",\"name\":\"here\"}]}",
     "here: unsatisfiable"},
    {"{\"use\":\"a\"}", "defined around it"},
    {"{\"fields\":[{\"text\":\"a\",\"optional\":1}]}", "optional: found an integer"},
    {"{\"fields\":{}}", "fields: found an object"},
    {"{\"any\":5}", "any: found an integer"},
};

static void nothing_is_passed_over(void **state) {
    trie *t = byte_trie();
    for (size_t i = 0; i < HARNESS_COUNT(refused); i++) {
        grammar *g = NULL;
        qp_error err = {0};
        if (grammar_compile(&g, t, "structure", span_of(refused[i].source), NULL, NULL, NULL, &err) == QP_OK)
            fail_msg("%s was taken", refused[i].source);
        if (!strstr(err.text, refused[i].words)) fail_msg("%s: %s", refused[i].source, err.text);
    }
    trie_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structures_mean_what_they_say),
        cmocka_unit_test(nothing_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
