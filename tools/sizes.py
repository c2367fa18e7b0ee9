#!/usr/bin/env python3
"""Prints the ten largest source files and functions and the medians: a list to look at, never a failure.

usage: sizes.py [ROOT]
"""
import os
import pathlib
import re
import sys

NAME = re.compile(r"(\w+)\s*\(")


def functions(text):
    """(name, first line, lines) of each function; relies on what clang-format leaves: heads and last braces begin a
    line, bodies are indented."""
    head = None
    for number, line in enumerate(text.split("\n"), 1):
        name = NAME.search(line)
        if re.match(r"[A-Za-z_]", line) and name and not line.endswith(";"):
            head = number, name.group(1)
            if line.endswith("}"):
                yield head[1], number, 1
        if line == "}" and head:
            yield head[1], head[0], number - head[0] + 1
        if line.startswith("}"):
            head = None


def middle(values, share=0.5):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    files, found = [], []
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in names:
            if name.endswith((".c", ".h", ".inc", ".cu", ".cuh")):
                path = os.path.join(folder, name)
                text = pathlib.Path(path).read_text(encoding="utf-8")
                files.append((text.count("\n"), os.path.relpath(path, root)))
                found += [(n, "%s (%s:%d)" % (f, os.path.relpath(path, root), at)) for f, at, n in functions(text)]
    for title, rows in (("files", files), ("functions", found)):
        sizes = [n for n, _ in rows]
        print("%d %s: median %d, nine in ten under %d lines" % (len(rows), title, middle(sizes), middle(sizes, 0.9)))
        for n, what in sorted(rows, reverse=True)[:10]:
            print("%6d  %s" % (n, what))
    return 0


if __name__ == "__main__":
    sys.exit(main())
