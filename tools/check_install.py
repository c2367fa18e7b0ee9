#!/usr/bin/env python3
"""Installs a build into a throw-away folder and uses it as a stranger would: pkg-config, a C program (the one at the
top of quipu.h) linked with the shared and with the static library, a C++ program, the installed command itself.

usage: check_install.py BUILD_FOLDER [ROOT]     status 77 where the program is not built
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FILES = ["bin/quipu", "include/quipu.h", "lib/libquipu.a", "lib/libquipu.so", "lib/libquipu.so.0",
         "lib/pkgconfig/quipu.pc", "share/man/man1/quipu.1", "share/bash-completion/completions/quipu",
         "share/zsh/site-functions/_quipu", "share/fish/vendor_completions.d/quipu.fish"]
CPP = """
#include <quipu.h>
#include <cstdio>
#include <cstring>
int main() {
    char *json = nullptr;
    qp_error err;
    if (qp_devices_json(&json, &err)) return std::puts(err.text), 1;
    std::printf("%s %zu\\n", qp_version(), std::strlen(json));
    qp_free(json);
}
"""


def run(command, cwd, **extra):
    environment = dict(os.environ, **extra)
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240)
    if ran.returncode != 0:
        what = " ".join(command)
        sys.exit("install: %s failed with status %d\n%s%s" % (what, ran.returncode, ran.stdout, ran.stderr))
    return ran.stdout


def header_program(root):
    """The shortest useful program, as the comment at the top of quipu.h shows it."""
    text = pathlib.Path(os.path.join(root, "include/quipu.h")).read_text(encoding="utf-8")
    lines = re.findall(r"^ \*     (.+)$", text.split("*/")[0], re.M)
    body = "\n".join("    " + line for line in lines)
    return "#include <quipu.h>\n#include <stdio.h>\nint main(void) {\n%s\n    return 0;\n}\n" % body


def install(build, prefix, scratch):
    run(["cmake", "--install", build, "--prefix", prefix], scratch)
    missing = [f for f in FILES if not os.path.exists(os.path.join(prefix, f))]
    if missing:
        sys.exit("install: missing: %s" % " ".join(missing))
    run(["cmake", "--install", build, "--prefix", "/opt/quipu"], scratch, DESTDIR=os.path.join(scratch, "staged"))
    if not os.path.exists(os.path.join(scratch, "staged/opt/quipu/bin/quipu")):
        sys.exit("install: DESTDIR is not honoured")


def compile_programs(root, prefix, scratch):
    """Names of the programs made: hello (shared), hello_static, hello_cpp."""
    paths = os.pathsep.join(p for p in (os.path.join(prefix, "lib/pkgconfig"), os.environ.get("PKG_CONFIG_PATH")) if p)
    flags = run(["pkg-config", "--cflags", "--libs", "quipu"], scratch, PKG_CONFIG_PATH=paths).split()
    static = run(["pkg-config", "--static", "--cflags", "--libs", "quipu"], scratch, PKG_CONFIG_PATH=paths).split()
    static = [os.path.join(prefix, "lib/libquipu.a") if f == "-lquipu" else f for f in static]
    pathlib.Path(scratch, "hello.c").write_text(header_program(root))
    pathlib.Path(scratch, "hello.cpp").write_text(CPP)
    run(["cc", "-std=c17", "-Wall", "-Wextra", "hello.c", "-o", "hello"] + flags, scratch)
    run(["cc", "-std=c17", "hello.c", "-o", "hello_static"] + static, scratch)
    made = ["hello", "hello_static"]
    if shutil.which("c++"):
        run(["c++", "-std=c++17", "-Wall", "-Wextra", "hello.cpp", "-o", "hello_cpp"] + flags, scratch)
        made.append("hello_cpp")
    return made


def main():
    build = os.path.abspath(sys.argv[1])
    root = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else ".")
    if not os.path.exists(os.path.join(build, "bin/quipu")):
        print("SKIP: %s/bin/quipu is not built" % os.path.basename(build))
        return 77
    has_model = os.path.exists(os.path.join(root, "models/demo/config.json"))
    with tempfile.TemporaryDirectory(prefix="quipu-install-") as scratch:
        prefix = os.path.join(scratch, "prefix")
        install(build, prefix, scratch)
        made = compile_programs(root, prefix, scratch)
        version = run([os.path.join(prefix, "bin/quipu"), "version"], scratch)
        if has_model:
            os.symlink(os.path.join(prefix, "share/quipu/models"), os.path.join(scratch, "models"))
            run([os.path.join(prefix, "bin/quipu"), "generate", "-p", "Once", "-n", "4"], scratch, QUIPU_MODEL="")
        for program in made:
            if not has_model and program != "hello_cpp":
                continue
            said = run(["./" + program], scratch, LD_LIBRARY_PATH=os.path.join(prefix, "lib"))
            if not said.strip():
                sys.exit("install: %s said nothing" % program)
    done = "ran" if has_model else "linked, no demo model"
    print("install: %s; %s %s" % (version.split("\n")[0], " ".join(made), done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
