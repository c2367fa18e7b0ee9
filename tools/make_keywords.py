#!/usr/bin/env python3
"""Writes the table of JSON Schema's keywords into docs/constraints.md, from the table that the program uses.

usage: make_keywords.py BUILD_FOLDER       (it needs BUILD_FOLDER/tests/schema_keyword_test, which prints the table)
"""
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "constraints.md"
BEGIN = "<!-- keywords: made by tools/make_keywords.py -->\n"
END = "<!-- end of keywords -->"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    table = subprocess.run([pathlib.Path(sys.argv[1]) / "tests" / "schema_keyword_test", "--print"], check=True,
                           capture_output=True, text=True).stdout
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(head + BEGIN + table + END + tail, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
