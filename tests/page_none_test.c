/* page_none_test.c — the program as it is built without esbuild: web/page_none.c stands for the page, and / says so to
 * browsers too. */
#include "server_here.h"
#include "server/page.h"

static void test_without_page(void **state) {
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n";
    char answer[4096];
    server_here h;
    size_t n = 0;
    ssize_t more;
    assert_int_equal(page_built.plain.bytes, 0); /* the linker has taken ours */
    server_here_open(&h, false);
    const int fd = server_here_connect(&h);
    assert_int_equal(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
    while ((more = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0) n += (size_t)more;
    answer[n] = 0;
    close(fd);
    server_here_close(&h);
    assert_ptr_equal(strstr(answer, "HTTP/1.1 200 "), answer);
    assert_non_null(strstr(answer, "application/json"));
    assert_non_null(strstr(answer, "\"page\":\"this program was built without the chat page; the API is under /v1\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
