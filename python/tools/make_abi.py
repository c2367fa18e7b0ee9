#!/usr/bin/env python3
"""Makes quipu/_abi.py: what include/quipu.h declares, as tables that cffi loads without a parser or a compiler.

usage: make_abi.py HEADER OUTPUT [COMPILER]
"""
import os
import re
import subprocess
import sys
import tempfile

import cffi


def declarations(header, compiler):
    """The header without its includes (cffi knows those types), its macros expanded."""
    with open(header, encoding="utf-8") as file:
        source = re.sub(r"^\s*#\s*include.*$", "", file.read(), flags=re.M)
    command = [compiler, "-E", "-P", "-xc", "-"]
    ran = subprocess.run(command, input=source, stdout=subprocess.PIPE, text=True, check=True)
    return ran.stdout


def main():
    header, output = sys.argv[1:3]
    ffi = cffi.FFI()
    ffi.cdef(declarations(header, sys.argv[3] if len(sys.argv) > 3 else "cc"))
    ffi.set_source("_abi", None)
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "_abi.py")
        ffi.emit_python_code(made)
        with open(made, encoding="utf-8") as source, open(output, "w", encoding="utf-8") as target:
            target.write(source.read())


if __name__ == "__main__":
    main()
