#!/usr/bin/env python3
"""Checks what the build lets the world see: libquipu.so and libquipu.a define exactly the functions that quipu.h
declares with QP_API, and each instruction-set object (src/dev/cpu/<isa>_*.c) exports exactly one name, so that no
wide instruction leaks into a shared path through the linker.

usage: check_symbols.py BUILD_FOLDER [ROOT]     status 77 where nothing of this is built yet
"""
import glob
import os
import pathlib
import re
import subprocess
import sys

from check_layers import ISA


def declared(header):
    """Names declared with QP_API."""
    text = re.sub(r"/\*.*?\*/", " ", pathlib.Path(header).read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r"^[ \t]*#[^\n]*(\\\n[^\n]*)*", " ", text, flags=re.M)
    return {m.group(1) for m in re.finditer(r"\bQP_API\b[^;{]*?\b(qp_\w+)\s*\(", text)}


def defined(path, *options):
    """External names that a library or an object defines."""
    out = subprocess.run(["nm", "--defined-only", "--extern-only", "-P"] + list(options) + [path],
                         capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in out.splitlines() if len(line.split()) >= 2 and not line.endswith(":")}


def compare(what, found, wanted):
    for name in sorted(found - wanted):
        yield "%s exports %s, which quipu.h does not declare" % (what, name)
    for name in sorted(wanted - found):
        yield "%s lacks %s, which quipu.h declares" % (what, name)


def isa_objects(build):
    return sorted(glob.glob(os.path.join(build, "CMakeFiles/quipu_dev.dir/src/dev/cpu/*.o")))


def check_isa(build):
    for path in isa_objects(build):
        name = os.path.basename(path)
        if not re.match(r"(%s)_\w+\.c\.o$" % "|".join(ISA), name):
            continue
        exports = defined(path)
        if len(exports) != 1:
            yield "%s exports %d names, expected 1: %s" % (name, len(exports), " ".join(sorted(exports)[:8]))


def main():
    build, root = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "."
    wanted = declared(os.path.join(root, "include/quipu.h"))
    complaints, seen = list(check_isa(build)), bool(isa_objects(build))
    libraries = (("lib/libquipu.so", ["-D"]), ("lib/libquipu.a", []))
    for name, options in libraries:
        path = os.path.join(build, name)
        if os.path.exists(path):
            seen = True
            complaints += compare(name, defined(path, *options), wanted)
    if not seen:
        print("SKIP: neither the libraries nor the instruction-set objects are built")
        return 77
    print("\n".join(complaints) if complaints else "symbols: %d public functions, nothing else" % len(wanted))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
