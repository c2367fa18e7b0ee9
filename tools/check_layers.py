#!/usr/bin/env python3
"""Checks who may include whom: tools/layers.txt is the truth, this only reads it.

Also: instruction-set headers stay in src/dev/cpu/<isa>_*.c, libcuda in src/dev/cuda/drv.c, each third-party header in
the folder that wraps it, the heap behind base/mem.c, and the environment out of the library.

usage: check_layers.py [ROOT]      prints one line per offence, status 1 if there is any
"""
import os
import pathlib
import re
import sys

ISA = ("avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx", "amxint8", "neon", "dotprod", "i8mm")
OUTSIDE = ("cli", "server")  # these see the library from outside and may talk to the system
# What may appear only in files whose path matches; checked in code without its comments and strings.
CONFINED = [
    (r"#\s*include\s*<(immintrin|x86intrin|arm_neon)\.h>", r"src/dev/cpu/(%s)_\w+\.[ch]$" % "|".join(ISA),
     "instruction-set headers belong into src/dev/cpu/<isa>_*.c"),
    (r"\bcu(Init|Driver|Device|Ctx|Mem|Module|Library|Kernel|Func|Launch|Stream|Event|Graph|Link)[A-Z_a-z0-9]*\s*\(",
     r"src/dev/cuda/drv\.c$", "libcuda is named in src/dev/cuda/drv.c alone"),
    (r"#\s*include\s*<pcre2\.h>", r"src/text/", "PCRE2 belongs into src/text"),
    (r"#\s*include\s*<utf8proc\.h>", r"src/(text|grammar)/", "utf8proc belongs into src/text"),
    (r"#\s*include\s*<xxhash\.h>", r"src/(base/hash|api/api_base)\.c$",
     "xxHash belongs into src/base/hash.c"),
    (r"#\s*include\s*<microhttpd\.h>", r"src/server/http\.c$", "libmicrohttpd belongs into src/server/http.c"),
    (r"#\s*include\s*<histedit\.h>", r"src/cli/lineedit\.c$", "libedit belongs into src/cli/lineedit.c"),
    (r"#\s*include\s*<yaml\.h>", r"src/server/yaml\.c$", "libyaml belongs into src/server/yaml.c"),
    (r"(?<![\w.>])(malloc|calloc|realloc|strdup|strndup|aligned_alloc|posix_memalign|asprintf)\s*\(",
     r"src/base/mem\.c$|_(test|goldens)\.[ch]$", "memory comes from base/mem.h"),
    (r"(?<![\w.>])(getenv|secure_getenv)\s*\(", r"src/(cli|server)/|_test\.c$",
     "the library does not read the environment"),
]


def read_layers(root):
    """{folder: {allowed}} in the order of the file."""
    layers = {}
    for line in pathlib.Path(root, "tools/layers.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            folder, allowed = line.split(":")
            layers[folder.strip()] = set(allowed.split())
    return layers


def find_cycle(graph):
    """A list of names that lead back to the first, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for after in sorted(graph.get(node, ())):
            found = visit(after)
            if found:
                return found
        done.add(path.pop())
        return None

    for start in graph:
        found = visit(start)
        if found:
            return found
    return None


def strip_comments(text):
    """Comments and the insides of strings become blanks; lines stay."""
    def blank(match):
        word = match.group(0)
        return word if word.startswith("#") else re.sub(r"[^\n]", " ", word)
    return re.sub(r'^[ \t]*#[ \t]*include[^\n]*|/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S | re.M)


def sources(root):
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".inc", ".cu", ".cuh")):
                yield os.path.relpath(os.path.join(folder, name), root)


def resolve(root, path, name):
    """The file meant by #include "name" in `path`, relative to the root; None if there is none."""
    for base in (os.path.dirname(path), "src", "include", "tests"):
        candidate = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def check_include(root, layers, path, name):
    """(target, complaint): one of them is None."""
    target = resolve(root, path, name)
    if target is None:
        return None, 'includes "%s", which does not exist' % name
    own = path.split("/")[1]
    if target == "include/quipu.h":
        wanted = "quipu.h"
    elif target.startswith("tests/"):
        return target, None if path.endswith("_test.c") else 'includes "%s": tests only' % name
    else:
        wanted = target.split("/")[1]
    if wanted != own and wanted not in layers[own]:
        return None, 'includes "%s": %s may see only: %s' % (name, own, " ".join(sorted(layers[own])) or "itself")
    return target, None


def check_file(root, layers, path, graph):
    offences = []
    text = pathlib.Path(root, path).read_text(encoding="utf-8")
    if path.split("/")[1] not in layers:
        return ["%s: folder is not in tools/layers.txt" % path]
    code = strip_comments(text)
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', code, re.M):
        target, complaint = check_include(root, layers, path, match.group(1))
        if complaint:
            offences.append("%s:%d: %s" % (path, code.count("\n", 0, match.start()) + 1, complaint))
        else:
            graph.setdefault(path, set()).add(target)
    for pattern, allowed, why in CONFINED:
        for match in re.finditer(pattern, code):
            if not re.search(allowed, path):
                line = code.count("\n", 0, match.start()) + 1
                offences.append("%s:%d: %s: %s" % (path, line, match.group(0).strip().rstrip("("), why))
    return offences


def check(root):
    layers = read_layers(root)
    offences, graph = [], {}
    cycle = find_cycle({k: v for k, v in layers.items()})
    if cycle:
        offences.append("tools/layers.txt: cycle %s" % " -> ".join(cycle))
    for path in sources(root):
        offences += check_file(root, layers, path, graph)
    cycle = find_cycle(graph)
    if cycle:
        offences.append("includes go round: %s" % " -> ".join(cycle))
    return offences


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    offences = check(root)
    print("\n".join(offences) if offences else "layers: %d files in order" % len(list(sources(root))))
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
