/* utf8_test.c — every code point, every sequence of up to two bytes and the longer ones that matter, against
 * the table of well-formed sequences of the Unicode Standard (table 3-7). */
#include "utf8.h"
#include "harness.h"

typedef struct form {
    int length;
    uint8_t low[4], high[4];
} form;

static const form forms[] = {
    {1, {0x00}, {0x7F}},
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

/* Whether the first `bytes` bytes fit the beginning of a form; *length is that form's. */
static int fits(const uint8_t *s, int bytes, int *length) {
    for (size_t i = 0; i < HARNESS_COUNT(forms); i++) {
        int k = 0;
        while (k < bytes && k < forms[i].length && s[k] >= forms[i].low[k] && s[k] <= forms[i].high[k]) k++;
        if (k == bytes || k == forms[i].length) return *length = forms[i].length, 1;
    }
    return 0;
}

static int expected_length(const uint8_t *s, int bytes) {
    int length;
    return fits(s, bytes, &length) && length <= bytes ? length : 0;
}

static size_t expected_tail(const uint8_t *s, int bytes) {
    int length;
    for (int tail = bytes < 3 ? bytes : 3; tail > 0; tail--)
        if (fits(s + bytes - tail, tail, &length) && length > tail) return (size_t)tail;
    return 0;
}

static void check(const uint8_t *s, int bytes) {
    uint32_t code_point = 0;
    char again[4];
    const int length = utf8_decode((const char *)s, (size_t)bytes, &code_point);
    const int right = length == expected_length(s, bytes) &&
                      (!length || (utf8_write(code_point, again) == length && !memcmp(again, s, (size_t)length))) &&
                      utf8_incomplete_tail((const char *)s, (size_t)bytes) == expected_tail(s, bytes);
    if (!right) fail_msg("%02x %02x %02x %02x (%d bytes): length %d", s[0], s[1], s[2], s[3], bytes, length);
}

static void every_code_point_round_trips(void **state) {
    for (uint32_t u = 0; u < 0x120000; u++) {
        char bytes[4];
        uint32_t back = ~u;
        const int length = utf8_write(u, bytes);
        const int is_one = u < 0xD800 || (u >= 0xE000 && u <= 0x10FFFF);
        if (!is_one)
            assert_int_equal(length, 0);
        else if (utf8_decode(bytes, (size_t)length, &back) != length || back != u)
            fail_msg("U+%04X", u);
    }
    char bytes[4];
    assert_int_equal(utf8_write(UINT32_MAX, bytes), 0);
}

/* Bytes on either side of every border in the table. */
static const uint8_t edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0,
                                0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFF};

/* The i-th byte to try where all 256 or only those around the edges are wanted. */
static int n_bytes(int all) { return all ? 256 : (int)sizeof edges; }
static uint8_t byte_at(int all, int i) { return all ? (uint8_t)i : edges[i]; }

static void every_sequence_up_to_three_bytes(void **state) {
    uint8_t s[4] = {0};
    assert_int_equal(utf8_decode((const char *)s, 0, &(uint32_t){0}), 0);
    for (int a = 0; a < 256; a++) {
        const int all = a >= 0xE0;
        s[0] = (uint8_t)a;
        check(s, 1);
        for (int b = 0; b < 256; b++) {
            s[1] = (uint8_t)b;
            check(s, 2);
            for (int c = 0; c < n_bytes(all); c++) {
                s[2] = byte_at(all, c);
                check(s, 3);
            }
        }
    }
}

static void four_bytes_around_the_edges(void **state) {
    uint8_t s[4];
    for (int a = 0; a < 256; a++) {
        const int all = a >= 0xF0;
        s[0] = (uint8_t)a;
        for (int b = 0; b < n_bytes(all); b++)
            for (size_t cd = 0; cd < sizeof edges * sizeof edges; cd++) {
                s[1] = byte_at(all, b);
                s[2] = edges[cd / sizeof edges];
                s[3] = edges[cd % sizeof edges];
                check(s, 4);
            }
    }
}

static void finds_the_valid_beginning(void **state) {
    static const struct {
        const char *text;
        size_t bytes, prefix;
    } cases[] = {{"", 0, 0},
                 {"abc", 3, 3},
                 {"a\xe2\x82\xac", 4, 4},
                 {"a\xe2\x82", 3, 1},
                 {"\xff"
                  "abc",
                  4, 0},
                 {"ab\x80"
                  "c",
                  4, 2},
                 {"\0x", 2, 2},
                 {"\xf0\x9f\x98\x80\xc3", 5, 4}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++)
        assert_int_equal(utf8_valid_prefix(cases[i].text, cases[i].bytes), cases[i].prefix);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_round_trips),
        cmocka_unit_test(every_sequence_up_to_three_bytes),
        cmocka_unit_test(four_bytes_around_the_edges),
        cmocka_unit_test(finds_the_valid_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
