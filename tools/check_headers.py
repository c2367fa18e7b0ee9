#!/usr/bin/env python3
"""Checks that each header compiles alone: quipu.h as C17 and as C++17, with pedantic warnings and every compiler at
hand; the headers of src/ as C.

usage: check_headers.py [ROOT]
"""
import glob
import os
import platform
import shutil
import subprocess
import sys

WARN = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def compile_alone(compiler, language, flags, header):
    """None, or what the compiler said. Included twice, so that the guard is tried too."""
    text = '#include "%s"\n#include "%s"\n' % (header, header)
    ran = subprocess.run([compiler, "-x", language] + WARN + flags + ["-"], input=text, capture_output=True, text=True)
    return None if ran.returncode == 0 else "%s as %s: %s" % (header, " ".join([compiler] + flags[:1]), ran.stderr)


def isa_flags(name):
    isa = name.split("_")[0]
    flags = {"avx2": "-mavx2 -mfma -mf16c", "avx512": "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl"}
    flags["avxvnni"] = flags["avx2"] + " -mavxvnni"
    flags["avx512vnni"] = flags["avx512"] + " -mavx512vnni"
    flags["avx512bf16"] = flags["avx512"] + " -mavx512vbmi -mavx512bf16"
    flags["amx"] = flags["avx512"] + " -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8"
    return flags.get(isa, "").split()


def compiler_of(name):
    return "aarch64-linux-gnu-gcc" if name.startswith("neon_") and platform.machine() != "aarch64" else "cc"


def check(root):
    complaints = []
    public = [("cc", "c", "-std=c17"), ("gcc", "c", "-std=c17"), ("clang", "c", "-std=c17"),
              ("g++", "c++", "-std=c++17"), ("clang++", "c++", "-std=c++17")]
    for compiler, language, standard in public:
        if shutil.which(compiler):
            flags = [standard, "-Wpedantic", "-I" + os.path.join(root, "include")]
            complaints.append(compile_alone(compiler, language, flags, "quipu.h"))
    inner = ["-std=gnu17", "-D_GNU_SOURCE", "-Wno-unused-parameter", "-Wno-unused-function",
             "-I" + os.path.join(root, "src"), "-I" + os.path.join(root, "include")]
    headers = sorted(glob.glob(os.path.join(root, "src/**/*.h"), recursive=True))
    for path in headers:
        name = os.path.relpath(path, os.path.join(root, "src"))
        compiler = compiler_of(os.path.basename(name))
        if "/cuda/kernels/" not in name and shutil.which(compiler):
            complaints.append(compile_alone(compiler, "c", inner + isa_flags(os.path.basename(name)), name))
    return [c for c in complaints if c], len(headers)


def main():
    complaints, n = check(sys.argv[1] if len(sys.argv) > 1 else ".")
    print("\n".join(complaints) if complaints else "headers: quipu.h (C and C++) and %d inner ones compile alone" % n)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
