#!/usr/bin/env python3
"""Checks what a formatter does not: lines of at most 120 columns, a story at the top of each source file, file names
that are unique across the tree, no work left marked in the code.

usage: check_style.py [ROOT]       prints one line per offence, status 1 if there is any
"""
import os
import pathlib
import re
import subprocess
import sys

COLUMNS = 120
CODE = (".c", ".h", ".inc", ".cu", ".cuh")
WIDE = CODE + (".py", ".sh", ".cmake", "CMakeLists.txt")
# Names that each folder may have one of.
SHARED_NAMES = {"README.md", "CMakeLists.txt", "config.json", "tokenizer.json", "generation_config.json",
                "tokenizer_config.json", "model.safetensors", "goldens.json", "goldens.safetensors", "cases.json",
                "model.safetensors.index.json", "chat_template.jinja", "__init__.py"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def tracked(root):
    """Files that git knows or would add; all files where there is no git."""
    found = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    if found.returncode == 0:
        return sorted({p for p in found.stdout.splitlines() if os.path.isfile(os.path.join(root, p))})
    return sorted(os.path.relpath(os.path.join(d, n), root) for d, _, names in os.walk(root) for n in names)


def check_lines(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS:
            yield "%s:%d: %d columns, at most %d" % (path, number, len(line), COLUMNS)
        if line != line.rstrip() and path.endswith(CODE):
            yield "%s:%d: blanks at the end of the line" % (path, number)
        if UNFINISHED.search(line) and path != "tools/check_style.py":
            yield "%s:%d: unfinished work is an issue, not a comment" % (path, number)


def check_story(path, text):
    """`/* name.c — what it is for` on the first line."""
    want = "/* %s \u2014 " % os.path.basename(path)
    if path.endswith(CODE) and not text.startswith(want):
        yield '%s:1: begins with "%s", expected "%s..."' % (path, text.split("\n")[0][:40], want)


def check_names(paths):
    seen = {}
    for path in paths:
        name = os.path.basename(path)
        if name in SHARED_NAMES or not path.endswith(WIDE) or path.startswith(("tests/golden/", "tests/fuzz/seeds/")):
            continue
        if name in seen:
            yield "%s: the name is taken by %s" % (path, seen[name])
        seen[name] = path


def check(root):
    paths = tracked(root)
    offences = list(check_names(paths))
    for path in paths:
        if not path.endswith(WIDE) or path.startswith(("tests/golden/", "tests/fuzz/seeds/")):
            continue
        text = pathlib.Path(os.path.join(root, path)).read_text(encoding="utf-8")
        offences += check_lines(path, text)
        offences += check_story(path, text)
    return offences


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    offences = check(root)
    print("\n".join(offences) if offences else "style: nothing to say")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
