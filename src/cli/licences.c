/* licences.c — which libraries are inside the program, beside it, and in its chat page.
 *
 * Licences by their SPDX names. tools/make_licences.py has the packages of those whose terms are printed in full. */
#include "licences.h"

static const char INSIDE[] = "inside", BESIDE[] = "beside", PAGE[] = "in the chat page";

const licence_row licence_rows[] = {
    {"jansson", "MIT", INSIDE, "JSON"},
    {"PCRE2", "BSD-3-Clause", INSIDE, "regular expressions"},
    {"utf8proc", "MIT AND Unicode-DFS-2015", INSIDE, "Unicode normal forms"},
    {"xxHash", "BSD-2-Clause", INSIDE, "hashes"},
    {"libyaml", "MIT", INSIDE, "settings of the server"},
    {"libedit", "BSD-3-Clause", INSIDE, "the line of `quipu chat`"},
    {"ncurses (termcap)", "X11", INSIDE, "libedit's terminals"},
    {"libbsd", "BSD-3-Clause AND others", INSIDE, "libedit's texts"},
    {"libmd", "BSD-3-Clause AND others", INSIDE, "libbsd's hashes"},
    {"libmicrohttpd", "LGPL-2.1-or-later", BESIDE, "HTTP"},
    {"glibc", "LGPL-2.1-or-later", BESIDE, "the C library"},
    {"markdown-it", "MIT", PAGE, "Markdown"},
    {"highlight.js", "BSD-3-Clause", PAGE, "colours of code"},
    {"DOMPurify", "Apache-2.0", PAGE, "safe markup"},
};
const size_t licence_count = sizeof licence_rows / sizeof *licence_rows;
