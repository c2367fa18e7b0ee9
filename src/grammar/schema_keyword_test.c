/* schema_keyword_test.c — the table of keywords is what the documentation shows and what the readers know. `--print`
 * writes the table for tools/make_keywords.py. */
#include "base/file.h"
#include "base/mem.h"
#include "harness.h"
#include "schema_format.h"
#include "schema_keyword.h"
#include "schema_reader.h"

#define PAGE QUIPU_SOURCE "/docs/constraints.md"
#define BEGIN "<!-- keywords: made by tools/make_keywords.py -->\n"
#define END "<!-- end of keywords -->"

static void the_page_shows_the_table(void **state) {
    char *page;
    size_t bytes;
    qp_error err;
    strbuf table = {0};
    if (file_read(&page, &bytes, PAGE, 1 << 20, &err)) fail_msg("%s", err.text);
    const char *begin = strstr(page, BEGIN), *end = begin ? strstr(begin, END) : NULL;
    assert_non_null(end);
    begin += strlen(BEGIN);
    keyword_write_table(&table);
    if ((size_t)(end - begin) != table.bytes || memcmp(begin, table.at, table.bytes) != 0)
        fail_msg("docs/constraints.md is not what the table says: run tools/make_keywords.py");
    strbuf_free(&table);
    mem_free(page);
}

/* Keywords that assert something have a reader; annotations have none. */
static void what_asserts_is_read(void **state) {
    static const char *const read_beside[] = {
        "then", "else", "not", "unevaluatedProperties", "minContains", "maxContains", "unevaluatedItems"};
    for (size_t i = 0; keyword_at(i); i++) {
        const keyword_row *row = keyword_at(i);
        const span name = span_of(row->name);
        bool read = scalar_keyword(name) || object_keyword(name) || array_keyword(name) || apply_keyword(name);
        for (size_t k = 0; k < HARNESS_COUNT(read_beside); k++) read |= span_is(name, read_beside[k]);
        const bool asserts = row->status != KEYWORD_ANNOTATION && row->status != KEYWORD_STRUCTURE;
        if (read != asserts)
            fail_msg("%s is %s, but has %s", row->name, keyword_status_name(row->status), read ? "a reader" : "none");
        assert_ptr_equal(keyword_find(name), row);
    }
    assert_null(keyword_find(SPAN("maxLenght")));
    assert_null(keyword_find(SPAN("")));
}

/* A format that does not compile would be a set of no strings. */
static void each_format_has_words(void **state) {
    rx_pool *pool;
    schema_room room = {0};
    assert_int_equal(rx_pool_new(&pool, NULL, NULL), QP_OK);
    const spelling s = spelling_start(pool, &room, true, false);
    for (size_t i = 0; format_name_at(i); i++) {
        rx language = RX_NONE;
        assert_true(format_language(&s, span_of(format_name_at(i)), &language));
        if (!rx_has_word(pool, language)) fail_msg("format %s has no words", format_name_at(i));
    }
    rx language;
    assert_false(format_language(&s, SPAN("slug"), &language));
    arena_free(&room.memory);
    rx_pool_free(pool);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_page_shows_the_table),
                                       cmocka_unit_test(what_asserts_is_read), cmocka_unit_test(each_format_has_words)};
    if (argc > 1 && !strcmp(argv[1], "--print")) {
        strbuf table = {0};
        keyword_write_table(&table);
        fwrite(table.at, 1, table.bytes, stdout);
        strbuf_free(&table);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
