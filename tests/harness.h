/* harness.h — what every test program includes: cmocka with the headers it wants before it, and throw-away folders.
 *
 * A test that lacks something outside the repository calls skip() from cmocka (or exits with 77 if all of it is
 * skipped) after HARNESS_SKIP has said why: `make check` collects those lines. */
#ifndef HARNESS_H
#define HARNESS_H

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define HARNESS_SKIP(...)                                                                                              \
    do {                                                                                                               \
        printf("SKIP: " __VA_ARGS__);                                                                                  \
        putchar('\n');                                                                                                 \
        skip();                                                                                                        \
    } while (0)

/* Sanitizers make everything some ten times slower and find what they look for at once: under them what is only
 * repeated (with other seeds, sizes, jobs) is repeated half as often. Kinds of cases are never left out. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define HARNESS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define HARNESS_SANITIZED 1
#endif
#endif
#ifndef HARNESS_SANITIZED
#define HARNESS_SANITIZED 0
#endif
#define HARNESS_TIMES(n) (HARNESS_SANITIZED ? (n) / 2 : (n))

/* Run by an emulator of another processor (tools/arm.sh). */
#ifndef HARNESS_EMULATED
#define HARNESS_EMULATED 0
#endif

/* Races do not hang on the numbers: the thread sanitizer sees every so many of a table of like cases. */
#ifdef __SANITIZE_THREAD__
#define HARNESS_RACES_ONLY 1
#else
#define HARNESS_RACES_ONLY 0
#endif
#define HARNESS_STEP(under_threads) (HARNESS_RACES_ONLY ? (under_threads) : 1)

/* QUIPU_TESTS chooses tests by their names, as a shell chooses files (* and ?): so that what takes an hour under a
 * sanitizer can be run piece by piece. A program without such a test is skipped and says which it has. */
static inline int harness_run(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction before,
                              CMFixtureFunction behind) {
    const char *pattern = getenv("QUIPU_TESTS");
    struct CMUnitTest *chosen = malloc(n * sizeof *chosen);
    if (!chosen) return 1;
    size_t n_chosen = 0;
    for (size_t i = 0; i < n; i++)
        if (!pattern || fnmatch(pattern, tests[i].name, 0) == 0) chosen[n_chosen++] = tests[i];
    int result = 77;
    if (n_chosen) {
        result = _cmocka_run_group_tests(name, chosen, n_chosen, before, behind);
    } else {
        printf("SKIP: no test is called '%s' here, as QUIPU_TESTS wants; there are", pattern);
        for (size_t i = 0; i < n; i++) printf(" %s", tests[i].name);
        putchar('\n');
    }
    free(chosen);
    return result;
}
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, before, behind)                                                                  \
    harness_run(#tests, tests, sizeof(tests) / sizeof *(tests), before, behind)

#define HARNESS_COUNT(array) (sizeof(array) / sizeof *(array))

/* A new empty folder; its path is written to `path` (at least 64 bytes). */
static inline void harness_folder(char *path) {
    const char *base = getenv("TMPDIR");
    snprintf(path, 64, "%.40s/quipu-test-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

/* Makes all folders on the way to `path`, then the file with that text. */
static inline void harness_write(const char *folder, const char *name, const char *text) {
    char path[4096];
    const int bytes = snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_in_range(bytes, 1, (int)sizeof path - 1);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* Removes a folder that harness_folder made, with all in it. */
static inline void harness_remove(const char *folder) {
    char command[4200];
    assert_non_null(strstr(folder, "/quipu-test-"));
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

#endif
