/* chat_complete_test.c — what the tab key adds to which line. */
#include "chat_state.h"
#include "harness.h"

static const struct {
    const char *line, *wanted;
} lines[] = {
    {"", ""},
    {"hello", ""},
    {"/", ""},
    {"/h", "elp "},
    {"/s", ""}, /* save, system, set, stats */
    {"/sa", "ve "},
    {"/sys", "tem "},
    {"/help", " "},
    {"/nosuch", ""},
    {"/save f", ""},
    {"/set", " "},
    {"/set temp", "erature"}, /* and temperature-last */
    {"/set temperature-", "last "},
    {"/set dry-m", "ultiplier "},
    {"/set thr", ""}, /* no setting of answers */
    {"/set top-p 0", ""},
    {"//h", ""},
};

static void completed(void **state) {
    session s = {.command = command_find("chat")};
    chat_state c = {.s = &s};
    for (size_t i = 0; i < HARNESS_COUNT(lines); i++) {
        strbuf rest = {0};
        chat_complete(&c, span_of(lines[i].line), &rest);
        if (strcmp(rest.at ? rest.at : "", lines[i].wanted)) fail_msg("\"%s\" adds \"%s\"", lines[i].line, rest.at);
        strbuf_free(&rest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(completed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
