/* help_test.c — every option of every command stands in help, man page and completions; nothing is too wide. */
#include "help.h"
#include "harness.h"

typedef struct printed {
    char *text;
    size_t bytes;
    FILE *file;
} printed;

static FILE *begin(printed *p) {
    *p = (printed){NULL, 0, NULL};
    p->file = open_memstream(&p->text, &p->bytes);
    assert_non_null(p->file);
    return p->file;
}

static const char *text_of(printed *p) {
    assert_int_equal(fclose(p->file), 0);
    return p->text;
}

static void needs(const char *text, const char *part, const char *where) {
    if (!strstr(text, part)) fail_msg("%s: \"%s\" is missing", where, part);
}

static void each_command_helps(void **state) {
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) {
        printed p;
        help_command(begin(&p), c, false);
        const char *text = text_of(&p);
        for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
            char name[80];
            snprintf(name, sizeof name, " --%s%s", row->name, row->value ? " " : "");
            if (row->commands & c->bit) needs(text, name, c->name);
        }
        for (size_t i = 0; i < 2; i++) {
            char start[64];
            snprintf(start, sizeof start, "quipu %s", c->name);
            needs(c->examples[i], start, c->name);
            needs(text, c->examples[i], c->name);
        }
        assert_null(strchr(text, '\033'));
        free(p.text);
    }
}

static void no_line_is_too_wide(void **state) {
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) {
        printed p;
        help_command(begin(&p), c, false);
        for (const char *at = text_of(&p); *at; at += strcspn(at, "\n") + 1) assert_true(strcspn(at, "\n") <= 120);
        free(p.text);
    }
}

static void colours_when_asked(void **state) {
    printed p;
    help_command(begin(&p), command_find("generate"), true);
    needs(text_of(&p), "\033[1m", "colours");
    free(p.text);
}

static void the_list_has_all(void **state) {
    printed p;
    help_commands(begin(&p), false);
    const char *text = text_of(&p);
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) {
        needs(text, c->name, "list");
        needs(text, c->summary, "list");
    }
    free(p.text);
}

/* "no-special" as troff has it. */
static void troff_name(char *out, const char *name) {
    *out++ = '\\', *out++ = '-', *out++ = '\\', *out++ = '-';
    for (; *name; name++) {
        if (*name == '-') *out++ = '\\';
        *out++ = *name;
    }
    *out = 0;
}

static void man_page_has_all(void **state) {
    printed p;
    help_man(begin(&p));
    const char *text = text_of(&p);
    assert_int_equal(strncmp(text, ".TH QUIPU 1 ", 12), 0);
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        char name[160];
        troff_name(name, row->name);
        needs(text, name, "man page");
    }
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) {
        char title[64];
        snprintf(title, sizeof title, "\n.SS %s", c->name);
        needs(text, title, "man page");
    }
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1) { /* a line of text must not become a request */
        static const char *const requests[] = {".TH ", ".SH ", ".SS ", ".TP\n", ".PP\n",
                                               ".B ",  ".I ",  ".BR ", ".nf\n", ".fi\n"};
        size_t known = 0;
        for (size_t i = 0; i < HARNESS_COUNT(requests); i++) known += !strncmp(at, requests[i], strlen(requests[i]));
        if (*at == '.') assert_int_equal(known, 1);
        assert_int_not_equal(*at, '\'');
    }
    free(p.text);
}

static const struct {
    const char *shell, *before; /* what stands before a long option's name there */
} shells[] = {{"bash", "--"}, {"zsh", "--"}, {"fish", "-l "}};

static void completions_have_all(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(shells); i++) {
        printed p;
        help_completion(begin(&p), shells[i].shell);
        const char *text = text_of(&p);
        for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
            char name[80];
            snprintf(name, sizeof name, "%s%s", shells[i].before, row->name);
            needs(text, name, shells[i].shell);
        }
        for (const command_row *c = command_rows; c < command_rows + command_count; c++)
            needs(text, c->name, shells[i].shell);
        free(p.text);
    }
}

/* bash itself reads its completions. */
static void bash_accepts_them(void **state) {
    if (system("command -v bash >/dev/null 2>&1")) HARNESS_SKIP("bash is not installed");
    FILE *bash = popen("bash -n", "w");
    assert_non_null(bash);
    help_completion(bash, "bash");
    assert_int_equal(pclose(bash), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_command_helps), cmocka_unit_test(no_line_is_too_wide),
        cmocka_unit_test(colours_when_asked), cmocka_unit_test(the_list_has_all),
        cmocka_unit_test(man_page_has_all),   cmocka_unit_test(completions_have_all),
        cmocka_unit_test(bash_accepts_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
