#!/usr/bin/env python3
"""Writes the terms of the libraries inside the program as C, for `quipu version --licences`.

Called by CMake. The texts are the copyright files of Debian's packages, unchanged: whoever passes the program on passes
them on with it. Where a file is missing (another distribution) that text is left out.

usage: make_licences.py OUT.c
"""

import pathlib
import sys

from make_page import c_string

DOCS = pathlib.Path("/usr/share/doc")
# as in src/cli/licences.c | the package that the archive comes from
PACKAGES = [
    ("jansson", "libjansson-dev"),
    ("PCRE2", "libpcre2-dev"),
    ("utf8proc", "libutf8proc-dev"),
    ("xxHash", "libxxhash-dev"),
    ("libyaml", "libyaml-dev"),
    ("libedit", "libedit-dev"),
    ("ncurses (termcap)", "libncurses-dev"),
    ("libbsd", "libbsd-dev"),
    ("libmd", "libmd-dev"),
    ("markdown-it", "node-markdown-it"),
    ("highlight.js", "node-highlight.js"),
    ("DOMPurify", "node-dompurify"),
]


def main():
    rows = []
    for name, package in PACKAGES:
        path = DOCS / package / "copyright"
        if path.exists():
            rows.append('    {"%s",\n%s},' % (name, c_string(path.read_bytes())))
    parts = ["/* Made by tools/make_licences.py. */", '#include "cli/licences.h"', ""]
    parts += ["const licence_text licence_texts[] = {", *rows, "    {0, 0},", "};"]
    pathlib.Path(sys.argv[1]).write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
